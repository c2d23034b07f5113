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
"""The group problem as numbers, and the time limits: the complete input of the planner."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nova_sched.groups.definition import EXCLUSIVE, GroupPolicy

NOWHERE = np.array(-1, dtype=np.int32)  # for ``Problem.fixed`` or ``home`` if no member has one


@dataclasses.dataclass(eq=False, slots=True)
class Rule:
    """A policy as numbers.

    ``a`` and ``b`` are sorted member indexes (int32); ``level`` is a position in
    ``Problem.domains``. ``outside`` bool [H], for an exclusive policy: hosts with instances that
    must not share a domain with its members; None: ``Problem.occupied``. The other fields are as
    in ``GroupPolicy``; ``weight`` None: required.
    """

    policy: GroupPolicy
    kind: str
    level: int
    a: np.ndarray
    b: np.ndarray
    most: int
    min_domains: int
    max_skew: int | None
    weight: float | None
    outside: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        policy: GroupPolicy,
        index: Mapping[str, int],
        levels: Sequence[str],
        outside: np.ndarray | None = None,
    ) -> 'Rule':
        """Return the rule of a policy; ``index`` gives each member's number by its path."""

        def numbers(paths: Iterable[str]) -> np.ndarray:
            return np.unique(np.array([index[path] for path in paths], dtype=np.int32))

        return cls(
            policy=policy,
            kind=policy.kind,
            level=list(levels).index(policy.level),
            a=numbers(policy.a),
            b=numbers(policy.b),
            most=policy.most,
            min_domains=policy.min_domains,
            max_skew=policy.max_skew,
            weight=policy.weight,
            outside=outside,
        )

    @property
    def is_required(self) -> bool:
        return self.weight is None

    @property
    def penalty(self) -> float:
        """The cost of each breach of a preferred policy."""
        return 0.0 if self.weight is None else self.weight


@dataclasses.dataclass(eq=False)
class Problem:
    """M members of K kinds, H hosts with R resources, L levels.

    A *placement* is an int32 array [M] of hosts. Hosts are in any order. All levels are coarser
    than the host and need not nest in each other. A member that is ``fixed`` stays where it is:
    its usage is not in ``free``, policies count it, and neither masks nor capacity apply to it. A
    member that has a ``home`` is there now and may leave: its usage is in ``free``, and a move
    costs more than any score.
    """

    names: list[str]  # [M] paths of members
    kind: np.ndarray  # int32 [M]
    # int64 [K, V, R]: one of V ways is taken; a kind with fewer repeats its first
    demand: np.ndarray
    mask: np.ndarray  # bool [K, H]: hosts that pass the filters
    score: np.ndarray  # float32 [K, H]: higher is better
    free: np.ndarray  # int64 [H, R]: negative if usage exceeds capacity
    # per level int32 [H], dense ids; the first is arange(H): the host itself
    domains: list[np.ndarray]
    levels: list[str]  # [L]
    domain_names: list[list[str]]  # [L][domain], for messages
    occupied: np.ndarray  # bool [H]: has instances from outside the group
    rules: list[Rule]
    # int32 [K, H]: most members of the kind on the host, regardless of free
    cap: np.ndarray | None = None
    # int32 [M]: the host of a fixed member, or -1
    fixed: np.ndarray = dataclasses.field(default_factory=NOWHERE.copy)
    # int32 [M]: the host that a member may leave, or -1
    home: np.ndarray = dataclasses.field(default_factory=NOWHERE.copy)
    resources: list[str] = dataclasses.field(default_factory=list)  # [R], for messages
    kind_names: list[str] = dataclasses.field(default_factory=list)  # [K], for messages

    @classmethod
    def of_policies(
        cls,
        names: list[str],
        domains: list[np.ndarray],
        levels: list[str],
        domain_names: list[list[str]],
        rules: list[Rule],
        fixed: np.ndarray = NOWHERE,
    ) -> 'Problem':
        """Return a problem of nothing but policies: the hosts are empty and take everything, and
        all members are alike."""
        hosts = len(domains[0])
        return cls(
            names=names,
            kind=np.zeros(len(names), dtype=np.int32),
            demand=np.zeros((1, 1, 1), dtype=np.int64),
            mask=np.ones((1, hosts), dtype=bool),
            score=np.zeros((1, hosts), dtype=np.float32),
            free=np.zeros((hosts, 1), dtype=np.int64),
            domains=domains,
            levels=levels,
            domain_names=domain_names,
            occupied=np.zeros(hosts, dtype=bool),
            rules=rules,
            fixed=fixed,
            resources=['room'],
            kind_names=['any'],
        )

    def __post_init__(self) -> None:
        self.fixed = np.full(len(self.names), self.fixed, dtype=np.int32)
        self.home = np.full(len(self.names), self.home, dtype=np.int32)
        self.resources = self.resources or [
            f'resource {number}' for number in range(self.demand.shape[2])
        ]
        self.kind_names = self.kind_names or [
            f'kind {number}' for number in range(len(self.demand))
        ]

    @property
    def host_count(self) -> int:
        return len(self.free)

    @property
    def member_count(self) -> int:
        return len(self.names)

    def sides(self, rule: Rule) -> np.ndarray:
        """Bool [2, M]: members in ``a``, and in ``b`` or, for an exclusive policy, all others."""
        sides = np.zeros((2, self.member_count), dtype=bool)
        sides[0, rule.a] = True
        sides[1, rule.b] = True
        if rule.kind == EXCLUSIVE:
            sides[1] = ~sides[0]
        return sides

    @property
    def settled(self) -> np.ndarray:
        """Bool [H]: hosts that have an instance whatever the placement is."""
        settled = self.occupied.copy()
        settled[self.fixed[self.fixed >= 0]] = True
        settled[self.home[self.home >= 0]] = True
        return settled

    def size(self, level: int) -> int:
        """Return the number of domains of the level."""
        return len(self.domain_names[level])


ENDLESS = 1 << 40  # slots of a host for a demand of zero


def is_free(demand: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return whether the free amounts [..., R] suffice for demands [..., R], bool [...].

    A resource that is not asked for may be overdrawn.
    """
    return ((demand <= free) | (demand == 0)).all(axis=-1)


def slots(ways: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return how many of one demand each host could take alone, int64 [h].

    The number is exact for one way, else an upper bound. ``ways`` [V, R]: equal ways count once.
    ``columns`` [R, h]: the free amounts, by resource.
    """
    total = np.zeros(columns.shape[1], dtype=np.int64)
    for way in np.unique(ways, axis=0) if len(ways) > 1 else ways:
        most = np.full(columns.shape[1], ENDLESS, dtype=np.int64)
        for amount, free in zip(way.tolist(), columns, strict=True):
            if amount > 0:
                np.minimum(most, free // amount, out=most)
        total += np.maximum(most, 0)
    return np.minimum(total, ENDLESS)


MAX_SUMS = 4096  # maximum number of demand_sums kept; beyond it the largest are dropped


def demand_sums(demands: Iterable[np.ndarray], free: np.ndarray | None = None) -> np.ndarray:
    """Return the total demands of the members, int64 [N, R], one row per different sum of their
    ways.

    ``demands``: [V, R] per member. ``free`` [R]: rows that exceed it are omitted; no row means
    that the members do not fit.
    """
    reached = np.zeros((1, 1), dtype=np.int64)  # without members the demand is zero
    for ways in demands:
        ways = np.unique(ways, axis=0)
        reached = (reached[:, None, :] + ways[None]).reshape(-1, ways.shape[1])
        if len(reached) > 1:
            reached = np.unique(reached, axis=0)
        if free is not None:
            reached = reached[is_free(reached, free)]
        if len(reached) > MAX_SUMS:
            reached = reached[np.argsort(reached.max(axis=1), kind='stable')[:MAX_SUMS]]
    return reached


def thrifty_ways(ways: np.ndarray) -> np.ndarray:
    """Return the ways, [V, R], without those that take at least as much of everything as
    another."""
    if len(ways) < 2:
        return ways
    below = (ways[None] <= ways[:, None]).all(axis=2) & (ways[None] != ways[:, None]).any(axis=2)
    return ways[~below.any(axis=1)]
