# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""Levels of failure domains, and the domain of every host at each level.

The operator chooses names and order. A domain is identified by its name, which is unique at its
level. For `host` the domain is the node; for `zone` it is the availability zone. For any other
level, it is the aggregate metadata under the level's name, or else the stats entry of that name
that the node reports. Nodes without a reported domain form a separate domain with the other such
nodes of their domain at the level below.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nova_sched import errors
from nova_sched.state import host_aggregate
from nova_sched.state.hosts import Hosts

HOST, ZONE = 'host', 'zone'
LEVELS = (HOST, 'rack', 'room', ZONE)


@dataclasses.dataclass(frozen=True, slots=True)
class Level:
    """One level: the number of the domain of every row. ``names`` is indexed by this number.

    ``missing`` are rows that report no domain, ``torn`` rows that report more than one (the first
    in order of names counts).
    """

    name: str
    ids: np.ndarray
    names: tuple[str, ...]
    missing: np.ndarray
    torn: np.ndarray


class DomainTopology:
    """The levels of a cloud. ``below``: the next narrower level of each but `host`."""

    def __init__(self, levels: Iterable[str] = LEVELS, orders: Iterable[str] = ()):
        """``levels`` go from narrow to wide; each of ``orders`` is a chain like `host <
        power_feed`.

        Raises BadConfig.
        """
        self.below: dict[str, str] = {}
        self._add([name.strip() for name in levels], '[topology] levels')
        for order in orders:
            self._add([name.strip() for name in order.split('<')], '[topology] orders')
        self.levels = (HOST, *self._sorted())

    def _add(self, chain, option):
        if chain[0] != HOST and chain[0] not in self.below:
            raise errors.BadConfig(
                option, f'{" < ".join(chain)} does not begin with {HOST} or a known level'
            )
        if len(set(chain)) != len(chain) or not all(chain):
            raise errors.BadConfig(
                option, f'{" < ".join(chain)} has a name twice, or an empty one'
            )
        for narrow, wide in itertools.pairwise(chain):
            if self.below.setdefault(wide, narrow) != narrow and narrow != HOST:
                why = (
                    f'{wide} is above {self.below[wide]} and above {narrow}, '
                    'but neither of these is above the other'
                )
                raise errors.BadConfig(option, why)

    def _sorted(self):
        """Return each level after those below it; raises BadConfig for a circle."""
        done: list[str] = []
        for name in self.below:
            chain, at = [name], self.below[name]
            while at != HOST:
                if at in chain:
                    raise errors.BadConfig('[topology] orders', f'{at} is above itself')
                chain.append(at)
                at = self.below[at]
            done += [level for level in reversed(chain) if level not in done]
        return done

    @property
    def stats(self):
        """Names of stats that may report a node's domain; they are lasting facts here."""
        return frozenset(self.levels) - {HOST, ZONE}

    def domains(
        self,
        host: str,
        nodename: str,
        facts: Mapping[str, str],
        of_host: Sequence[host_aggregate.HostAggregate],
        default_zone: str,
    ) -> dict[str, str]:
        """Return the name of one node's domain at each level, as ``levels_of`` does for all rows.

        ``facts`` has the facts that the node reports, ``of_host`` the aggregates of its host.
        """
        domains = {HOST: _name(host, nodename)}
        for level in self.levels[1:]:
            fact = default_zone if level == ZONE else facts.get(level)
            names = _reported(host_aggregate.values(of_host, _key(level)), fact)
            domains[level] = min(names) if names else domains[self.below[level]]
        return domains

    def levels_of(self, hosts: Hosts, default_zone: str) -> dict[str, Level]:
        """Return every level by name, over all rows of the hosts; kept until a lasting fact
        changes."""
        return hosts.cache.get(
            ('topology', self.levels, default_zone), lambda: self._levels_of(hosts, default_zone)
        )

    def nests(self, levels: Mapping[str, 'Level']) -> frozenset[tuple[str, str]]:
        """Return the pairs of configured levels, narrow and wide, that nest on these hosts.

        A pair nests if each domain of the narrow level lies in one domain of the wide level.
        ``levels`` are those of ``levels_of``. Without hosts there are no pairs. The configured
        order does not guarantee nesting: a room may span availability zones.
        """
        pairs = set()
        for wide in self.below:
            coarse, narrow = levels[wide].ids, self.below[wide]
            while narrow != HOST and len(coarse):  # a host lies in one domain of every level
                fine = levels[narrow].ids
                around = np.zeros(int(fine.max()) + 1, dtype=coarse.dtype)
                around[fine] = coarse
                if (around[fine] == coarse).all():
                    pairs.add((narrow, wide))
                narrow = self.below[narrow]
        return frozenset(pairs)

    def _levels_of(self, hosts, default_zone):
        rows = hosts.rows
        none = np.zeros(0, dtype=np.int64)
        names = tuple(_name(node.host, node.nodename) for node in hosts.nodes)
        levels = {HOST: Level(HOST, np.arange(rows, dtype=np.int32), names, none, none)}
        for name in self.levels[1:]:
            of_set: dict[int, frozenset] = {}
            domains = []  # the names that each row reports
            for node, slot in zip(hosts.nodes, hosts.aggregate_set.tolist(), strict=True):
                if slot not in of_set:
                    of_set[slot] = frozenset(
                        host_aggregate.values(hosts.aggregates.of(node.host), _key(name))
                    )
                fact = default_zone if name == ZONE else node.report.stats.get(name)
                domains.append(_reported(of_set[slot], fact))
            levels[name] = _level(name, domains, levels[self.below[name]])
        return levels


class DomainLocator:
    """The domains of a node, for the claim store. ``default_zone`` is a function."""

    def __init__(self, topology, default_zone):
        self._topology, self._default_zone = topology, default_zone
        self._stats = sorted(topology.stats)

    def told(self, report):
        stats = report.stats
        return {level: str(stats[level]) for level in self._stats if stats.get(level)}

    def domains(self, host, nodename, facts, of_host):
        return self._topology.domains(host, nodename, facts, of_host, self._default_zone())

    def host_of(self, level, name):
        return name.partition('/')[0] if level == HOST else None


def _name(host, nodename):
    return host if host == nodename else f'{host}/{nodename}'


def _key(level):
    """Return the aggregate metadata key that names a domain of the level."""
    return host_aggregate.ZONE_KEY if level == ZONE else level


def _reported(of_aggregates, fact):
    """Return the names of a domain from its aggregates, or else from the fact."""
    return frozenset(of_aggregates) or (frozenset([str(fact)]) if fact else frozenset())


def _level(name: str, domains: Sequence[frozenset[str]], below: Level) -> Level:
    numbers: dict[tuple, int] = {}
    ids = np.empty(len(domains), dtype=np.int32)
    for row, names in enumerate(domains):
        own = (True, min(names)) if names else (False, below.names[below.ids[row]])
        ids[row] = numbers.setdefault(own, len(numbers))
    missing = np.array([row for row, names in enumerate(domains) if not names], dtype=np.int64)
    torn = np.array([row for row, names in enumerate(domains) if len(names) > 1], dtype=np.int64)
    return Level(name, ids, tuple(own for _, own in numbers), missing, torn)


def warnings(levels: Mapping[str, Level], most: int = 20) -> list[str]:
    """Return warnings for the operator: nodes with no reported domain of a level, or with
    several."""
    hosts, texts = levels[HOST].names, []
    for level in levels.values():
        for rows, single, several in (
            (level.missing, 'node reports no', 'nodes report no'),
            (level.torn, 'node is in more than one', 'nodes are in more than one'),
        ):
            if len(rows):
                nodes = ', '.join(hosts[row] for row in rows[:most].tolist())
                more = f', and {len(rows) - most} more' if len(rows) > most else ''
                what = single if len(rows) == 1 else several
                texts.append(f'{len(rows)} {what} {level.name}: {nodes}{more}')
    return texts
