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
"""The host state at one moment, as far as a plan of moves needs it, and the hosts that its goal
names. Taken in the loop."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from nova_sched import errors
from nova_sched.claim import Claim
from nova_sched.engine.decide import chain
from nova_sched.extensions.optimize.moves import RebalanceSettings
from nova_sched.extensions.optimize.rebalance import DRAIN, Goal
from nova_sched.groups.topology import HOST
from nova_sched.state.facts import HostFacts
from nova_sched.state.host_aggregate import ZONE_KEY, zones
from nova_sched.state.report import DISABLED_TRAIT
from nova_sched.state.request import Request
from nova_sched.words import suggestion

SERVERS = 'servers'  # a column: how many more servers the rules on their number allow
MAX_SERVERS = 4095  # servers more that are counted on one host
MAX_SURROUNDINGS = 200  # with more, traits and metadata are left to the check before each move


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """What a plan is asked for: a ``goal``, and only hosts of this ``zone`` and of this
    ``aggregate`` (its name or UUID). ``settings`` say what does not move."""

    goal: Goal
    zone: str | None = None
    aggregate: str | None = None
    settings: RebalanceSettings = dataclasses.field(default_factory=RebalanceSettings)


@dataclasses.dataclass(slots=True)
class Snapshot:
    """All rows at one moment. ``nodes`` (UUIDs) and ``names`` must not be changed.

    ``claims`` and ``reported`` (UUIDs of instances) are those of each row. ``total`` and ``free``
    map each column to int64 by row. ``surroundings`` (int32) is the number of what surrounds each
    row, and ``alike`` (bool [number, row]) where a server from such a row may go: a claim says
    nothing of the zone, the traits or the extra specs that were asked for, so the destination has
    them too. ``closed`` (bool) are the rows of protected aggregates, ``wanted`` those to drain,
    and ``down`` those whose compute service is forced down or has been silent for too long.
    """

    nodes: Sequence[str]
    names: Sequence[str]
    claims: list[tuple[Claim, ...]]
    reported: list[frozenset[str]]
    foreign: np.ndarray
    total: dict[str, np.ndarray]
    free: dict[str, np.ndarray]
    surroundings: np.ndarray
    alike: np.ndarray
    domain: np.ndarray
    inside: np.ndarray
    closed: np.ndarray
    wanted: np.ndarray
    down: np.ndarray


def take(cluster, rules, topology, settings, scope):
    """A Snapshot of now. Raises InvalidRequest for a host, zone, aggregate or domain that is not
    known."""
    hosts = cluster.hosts
    levels = topology.levels_of(hosts, settings.default_zone)
    drained = _drained(hosts, scope.goal, levels)
    nodes = hosts.cache.get('UUIDs of nodes', lambda: [node.uuid for node in hosts.nodes])
    names = hosts.cache.get('names of hosts', lambda: [node.host for node in hosts.nodes])
    total = {name: resource.free + resource.used for name, resource in hosts.resources.items()}
    free = {name: resource.free.copy() for name, resource in hosts.resources.items()}
    free[SERVERS] = _room(rules, hosts)
    total[SERVERS] = hosts.num_instances + free[SERVERS]
    surroundings, alike = hosts.cache.get(
        ('surroundings', topology.stats, settings.default_zone),
        lambda: _surroundings(hosts, topology, settings.default_zone),
    )
    above = [level.ids for name, level in levels.items() if name != HOST]
    domain = np.zeros(len(hosts), dtype=np.int32)
    if above and len(hosts):
        numbers = np.unique(np.stack(above), axis=1, return_inverse=True)[1]
        domain = numbers.ravel().astype(np.int32)
    return Snapshot(
        nodes=nodes,
        names=names,
        claims=[tuple(node.claims.values()) for node in hosts.nodes],
        reported=[node.told for node in hosts.nodes],
        foreign=np.array([node.foreign_instances for node in hosts.nodes], dtype=np.int64),
        total=total,
        free=free,
        surroundings=surroundings,
        alike=alike,
        domain=domain,
        inside=_inside(hosts, scope, settings.default_zone),
        closed=_members_of(hosts, scope.settings.protected_aggregates),
        wanted=_wanted(hosts, drained, settings.default_zone),
        down=hosts.forced_down
        | (np.abs(hosts.now_s - hosts.seen_s) > settings.service_down_time_s),
    )


def _room(rules, hosts):
    """How many more servers each row may have (int64), by the rules on their number."""
    request = Request('')
    counting = [
        rule
        for rule in chain(rules, request)
        if not rule.judges_rows and HostFacts.COUNTS in rule.host_facts_for(request)
    ]
    high = np.full(len(hosts), MAX_SERVERS, dtype=np.int64)
    low = np.zeros_like(high) if counting else high
    while (low < high).any():
        middle = (low + high + 1) // 2
        view = hosts.what_if()
        view.num_instances = hosts.num_instances + middle - 1
        fits = np.ones(len(hosts), dtype=bool)
        for rule in counting:
            verdict = rule.mask(view, request)
            if verdict is not True:
                fits &= verdict
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low


def _surroundings(hosts, topology, default_zone):
    """The number of each row's surroundings, and the rows that have at least the same: the same
    zone, cell and metadata of aggregates, and all traits. Metadata that name a domain of a level,
    such as a rack, say only where a host is."""
    places: dict[int, tuple] = {}
    keys = []
    for row, node in enumerate(hosts.nodes):
        slot = int(hosts.aggregate_set[row])
        if slot not in places:
            places[slot] = _place(hosts.aggregates.of(node.host), topology, default_zone)
        zone, metadata = places[slot]
        traits = frozenset(node.report.traits) - {DISABLED_TRAIT}
        keys.append((zone, node.cell_uuid, metadata, traits))
    numbers: dict[tuple, int] = {}
    for length in (4, 3, 2):
        numbers = {
            key: number for number, key in enumerate(dict.fromkeys(key[:length] for key in keys))
        }
        if len(numbers) <= MAX_SURROUNDINGS:
            break
    number_of_row = np.array([numbers[key[:length]] for key in keys], dtype=np.int32)
    alike = np.array(
        [[_covers(other, own) for other in numbers] for own in numbers],
        dtype=bool,
    ).reshape(len(numbers), len(numbers))
    return number_of_row, alike[:, number_of_row]


def _covers(other, own):
    """Whether a place has all that surrounds another one."""
    return other[:3] == own[:3] and all(map(frozenset.issuperset, other[3:], own[3:]))


def _place(aggregates, topology, default_zone):
    """The zones that aggregates name, and the rest of their metadata."""
    metadata = frozenset(
        item
        for aggregate in aggregates
        for item in aggregate.metadata.items()
        if item[0] not in topology.stats and item[0] != ZONE_KEY
    )
    return frozenset(zones(aggregates) or {default_zone}), metadata


def _members_of(hosts, wanted):
    """Rows of the aggregates with these names or UUIDs."""
    mask = hosts.everywhere(False)
    for aggregate in hosts.aggregates:
        if not wanted.isdisjoint((aggregate.name, aggregate.uuid)):
            mask |= hosts.named(aggregate.hosts)
    return mask


def _inside(hosts, scope, default_zone):
    mask = hosts.everywhere(True)
    if scope.zone is not None:
        mask &= hosts.in_zone(scope.zone, default_zone)
        if not mask.any():
            raise errors.InvalidRequest('zone', f'no host is in zone {scope.zone}')
    if scope.aggregate is not None:
        of_aggregate = _members_of(hosts, frozenset([scope.aggregate]))
        if not of_aggregate.any():
            why = f'no host is in an aggregate {scope.aggregate}'
            raise errors.InvalidRequest('aggregate', why)
        mask &= of_aggregate
    return mask


def _drained(hosts, goal, levels):
    """The names that the goal `drain` has; of a failure domain, such as `rack=r1`, those of its
    hosts. If the part before the sign is not a level, the whole is a name."""
    drained: list[str] = []
    for name in goal.names if goal.kind == DRAIN else ():
        kind, sign, domain = name.partition('=')
        if not sign or kind not in levels:
            drained.append(name)
            continue
        level = levels[kind]
        if domain not in level.names:
            why = f'no host is in {level.name} {domain}{suggestion(domain, level.names)}'
            raise errors.InvalidRequest('goal', why)
        rows = np.flatnonzero(level.ids == level.names.index(domain))
        drained += [hosts.nodes[row].host for row in rows.tolist()]
    return dict.fromkeys(drained)


def _wanted(hosts, names, default_zone):
    """Rows to drain: each name is that of a host, an aggregate or a zone, in this order."""
    mask = hosts.everywhere(False)
    for name in names:
        rows = hosts.named([name])
        if not rows.any():
            rows = _members_of(hosts, frozenset([name]))
        if not rows.any():
            rows = hosts.in_zone(name, default_zone)
        if not rows.any():
            known = [*hosts.rows_of_host, *(aggregate.name for aggregate in hosts.aggregates)]
            why = f'{name} is not a host, aggregate or zone with hosts{suggestion(name, known)}'
            raise errors.InvalidRequest('goal', why)
        mask |= rows
    return mask
