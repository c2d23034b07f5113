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
"""What a plan is made from: hosts, servers and rules, as arrays."""

import dataclasses
import functools

import numpy as np

from nova_sched.groups.arrays.problem import slots

MOVABLE = 0  # of ``Servers.fixed``
WEIGHED = ('VCPU', 'MEMORY_MB')  # columns that say how full a host is, where there are any


@dataclasses.dataclass(slots=True)
class Servers:
    """All servers that have a claim, in any order.

    ``uuids``; ``host`` (int32) is the row of each server's host, ``kind`` (int32) the number of
    its kind: servers of one kind are equal for all rules but those on families. ``fixed`` (int16)
    is MOVABLE, or the position in ``RebalanceProblem.reasons`` of why the server stays.
    ``families`` (int32 [server, n]) are the numbers of the groups that it is a member of, -1 for
    none: a member may not go to a host where another member is or was. ``confined`` (bool): it
    stays within the domain of its host. ``created_s``: seconds since the epoch.
    """

    uuids: list[str]
    host: np.ndarray
    kind: np.ndarray
    fixed: np.ndarray
    families: np.ndarray
    confined: np.ndarray
    created_s: np.ndarray


@dataclasses.dataclass
class RebalanceProblem:
    """The hosts, and the servers on them.

    ``nodes`` are UUIDs, ``names`` the names of the hosts. ``columns`` names what a server takes
    of a host: resource classes, in their units, and possibly more. ``total`` and ``free`` (int64
    [host, column]) are what a host has for servers, and what of it is free. ``demand`` (int64
    [kind, column]) is what a server takes. ``allowed`` (bool [kind, host]): the rules let a server
    of the kind go there, whatever is free. ``closed_by`` has for each kind the last
    rule that removed hosts, or None. ``strangers`` (int64 [host]) counts servers without a claim.
    ``domain`` (int32 [host]): the number of the smallest domain of each host that ``confined``
    servers stay in. ``sources`` and ``destinations`` (bool [host]): the scope of the plan.
    ``reasons``: why servers stay; the first one is empty.
    """

    nodes: list[str]
    names: list[str]
    columns: list[str]
    total: np.ndarray
    free: np.ndarray
    demand: np.ndarray
    allowed: np.ndarray
    closed_by: list[str | None]
    servers: Servers
    strangers: np.ndarray
    domain: np.ndarray
    sources: np.ndarray
    destinations: np.ndarray
    reasons: list[str]

    def __len__(self):
        return len(self.nodes)

    @functools.cached_property
    def counts(self):
        """The number of servers with a claim on each host (int64)."""
        return np.bincount(self.servers.host, minlength=len(self))

    @functools.cached_property
    def in_use(self):
        """Which hosts have a server (bool)."""
        return (self.counts > 0) | (self.strangers > 0)

    @functools.cached_property
    def held(self):
        """Which hosts have a server that stays (bool)."""
        stays = self.servers.host[self.servers.fixed != MOVABLE]
        return (self.strangers > 0) | (np.bincount(stays, minlength=len(self)) > 0)

    @functools.cached_property
    def shares(self):
        """For each weighed column, one over what a host has of it (float64 [host, column], 0 where
        it has none): multiplied by an amount, this is a share of the host."""
        names = [name for name in WEIGHED if name in self.columns] or self.columns
        shares = np.zeros(self.total.shape)
        for name in names:
            total = self.total[:, self.columns.index(name)]
            shares[:, self.columns.index(name)] = np.where(
                total > 0, 1 / np.maximum(total, 1), 0.0
            )
        return shares

    @functools.cached_property
    def hosts_of_family(self):
        """A function that returns the rows that have the members of a family, at the start."""
        families = self.servers.families.ravel()
        hosts = np.repeat(self.servers.host, self.servers.families.shape[1])[families >= 0]
        return _grouped(families[families >= 0], hosts)

    @functools.cached_property
    def joined(self):
        """Which servers have another member of a family on their host (bool)."""
        is_joined = np.zeros(len(self.servers.uuids), dtype=bool)
        for families in self.servers.families.T:
            pairs = (families.astype(np.int64) + 1) * len(self) + self.servers.host
            _, places, counts = np.unique(pairs, return_inverse=True, return_counts=True)
            is_joined |= (families >= 0) & (counts[places.ravel()] > 1)
        return is_joined

    @functools.cached_property
    def stays(self):
        """Which servers cannot leave their hosts, wherever they would go (bool)."""
        return (self.servers.fixed != MOVABLE) | self.joined

    def demand_of(self, servers):
        """What servers (rows) take of each column (int64 [server, column])."""
        return self.demand[self.servers.kind[servers]]

    def takes(self):
        """How many servers of each kind each host takes now, if it takes no other kind (int64
        [kind, host])."""
        columns = np.ascontiguousarray(self.free.T)
        by_amounts = np.stack([slots(demand[None], columns) for demand in self.demand])
        return np.where(self.allowed & self.destinations, by_amounts, 0)

    def by_host(self):
        """A function that returns the servers (rows of ``servers``) of a host."""
        return _grouped(self.servers.host, np.arange(len(self.servers.host)), len(self))


def _grouped(numbers, values, size=0):
    """A function that returns the values of a number; there may be ``size`` numbers."""
    order = np.argsort(numbers, kind='stable')
    size = max(size, int(numbers.max(initial=-1)) + 1)
    ends = np.searchsorted(numbers[order], np.arange(size + 1))
    return functools.partial(_part, values[order], ends)


def _part(values, ends, number):
    return values[ends[number] : ends[number + 1]]
