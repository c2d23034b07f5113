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
"""The meaning of policies: how often a placement breaks each, its cost, and where a member may go.

A domain is *used* by a set of members when one of them is in it. A policy is broken

- affinity: once for each domain used beyond the first;
- anti-affinity: once for each member above ``most`` in a domain;
- spread: once for each domain missing from ``min_domains``, and for each member by which the
  largest count exceeds the smallest, over the domains used, beyond ``max_skew``;
- exclusive: once for each domain used that has an instance from outside or another member of the
  group;
- near: once for each member of ``a`` whose domain is not used by ``b`` (one way only);
- apart: once for each domain used by both.

A required policy must not be broken; a preferred one costs its weight each time. A policy on no
members is never broken.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.problem import Problem, Rule, demand_sums, is_free

CAPACITY, MASK = 'capacity', 'mask'


class Cost(NamedTuple):
    """The cost of a placement, heaviest part first. The lower cost is better."""

    preferred: float  # weight x times broken, over the preferred policies
    moves: int  # members that leave their home
    loss: float  # minus the sum of scores of the members that are not fixed
    spoilt: int  # hosts that had no instance before this placement


class Counts(NamedTuple):
    """Members per domain of the rule's level, int [D] each.

    Also which domains have instances from outside the group, bool [D].
    """

    a: np.ndarray
    b: np.ndarray
    others: np.ndarray  # members of the group that are not in ``a``
    outside: np.ndarray


def counts(problem: Problem, rule: Rule, hosts: np.ndarray) -> Counts:
    """Return the counts for the placement ``hosts`` [M]; members at -1 are not counted."""
    return _counts(
        problem, rule, problem.domains[rule.level][hosts], hosts >= 0, problem.size(rule.level)
    )


def _counts(
    problem: Problem, rule: Rule, at: np.ndarray, is_placed: np.ndarray, size: int
) -> Counts:
    """``at`` [M]: the domain of each member, among ``size``; ignored for a member that is not
    placed."""

    def count(members: np.ndarray | slice) -> np.ndarray:
        return np.bincount(at[members][is_placed[members]], minlength=size)

    a = count(rule.a)
    if rule.kind != definition.EXCLUSIVE:
        nothing = np.zeros(size, dtype=bool)
        return Counts(a, count(rule.b), nothing, nothing)
    return Counts(
        a, np.zeros(size, dtype=np.int64), count(slice(None)) - a, outside(problem, rule)
    )


def outside(problem: Problem, rule: Rule) -> np.ndarray:
    """Bool [D]: domains with instances that the members of an exclusive rule must avoid."""
    domains = np.zeros(problem.size(rule.level), dtype=bool)
    domains[
        problem.domains[rule.level][problem.occupied if rule.outside is None else rule.outside]
    ] = True
    return domains


def _tallied(
    problem: Problem, hosts: np.ndarray, required: bool
) -> Iterator[tuple[int, Rule, int]]:
    """Yield number, rule and count of breaches, of all required or all preferred rules.

    Counts only domains with members, because there are many hosts.
    """
    all_members, levels = np.ones(len(hosts), dtype=bool), {}
    for number, rule in enumerate(problem.rules):
        if rule.is_required != required:
            continue
        if rule.level not in levels:
            levels[rule.level] = np.unique(problem.domains[rule.level][hosts], return_inverse=True)
        used, at = levels[rule.level]
        here = _counts(problem, rule, at, all_members, len(used))
        if rule.kind == definition.EXCLUSIVE:
            here = here._replace(outside=here.outside[used])
        yield number, rule, misses(rule, here)


def misses(rule: Rule, at: Counts) -> int:
    """Return how often the rule is broken, as defined in this module's docstring. Raises
    ValueError for an unknown kind."""
    used = at.a[at.a > 0]
    if not len(used):
        return 0
    match rule.kind:
        case definition.AFFINITY:
            return len(used) - 1
        case definition.ANTI_AFFINITY:
            return int(np.maximum(used - rule.most, 0).sum())
        case definition.SPREAD:
            skew = 0 if rule.max_skew is None else int(used.max() - used.min()) - rule.max_skew
            return max(rule.min_domains - len(used), 0) + max(skew, 0)
        case definition.EXCLUSIVE:
            return int(((at.a > 0) & (at.outside | (at.others > 0))).sum())
        case definition.NEAR:
            return int(at.a[at.b == 0].sum())
        case definition.APART:
            return int(((at.a > 0) & (at.b > 0)).sum())
    raise ValueError(f'unknown kind of policy: {rule.kind}')


def cost(problem: Problem, hosts: np.ndarray) -> Cost:
    """Return the cost of the placement ``hosts`` [M]; ignores required policies."""
    loose = problem.fixed < 0
    homed = problem.home >= 0
    return Cost(
        preferred=round(
            sum(
                rule.penalty * times for _, rule, times in _tallied(problem, hosts, required=False)
            ),
            6,
        ),
        moves=int((hosts[homed] != problem.home[homed]).sum()),
        loss=round(
            -float(problem.score[problem.kind[loose], hosts[loose]].astype(np.float64).sum()), 6
        ),
        spoilt=int((~problem.settled[np.unique(hosts[loose])]).sum()),
    )


def broken(problem: Problem, hosts: np.ndarray) -> list[tuple[int | str, str]]:
    """Return all faults of a placement [M] as text, each with a rule's number, 'capacity' or
    'mask'.

    This is the final check of every placement, regardless of its source.
    """
    faults: list[tuple[int | str, str]] = []
    host_names = problem.domain_names[0]
    for number, rule, times in _tallied(problem, hosts, required=True):
        if times:
            faults.append((number, _words(problem, rule, times)))
    loose = np.flatnonzero(problem.fixed < 0)
    shut = loose[~problem.mask[problem.kind[loose], hosts[loose]]]
    faults.extend((MASK, f'{problem.names[m]} may not go to {host_names[hosts[m]]}') for m in shut)
    strays = np.flatnonzero((problem.fixed >= 0) & (hosts != problem.fixed))
    faults.extend(
        (MASK, f'{problem.names[m]} must stay at {host_names[problem.fixed[m]]}') for m in strays
    )
    faults.extend(
        (
            CAPACITY,
            (
                f'{host_names[host]} has no capacity for '
                f'{", ".join(problem.names[m] for m in members)}'
            ),
        )
        for host, members in _members_by_host(problem, hosts)
        if not _has_room(problem, host, problem.kind[members])
    )
    return faults


def allowed(problem: Problem, hosts: np.ndarray, member: int) -> np.ndarray:
    """Return the hosts where one member may go, bool [H]: mask, capacity and all its required
    rules.

    All other members stay where ``hosts`` [M] places them; members at -1 are not counted.
    """
    others = hosts.copy()
    others[member] = -1
    kind = problem.kind[member]
    # Capacity for one more of the kind, next to the loose members.
    open_ = np.any(is_free(problem.demand[kind][:, None], problem.free), axis=0)
    if problem.cap is not None:
        open_ &= problem.cap[kind] > 0
    for host, members in _members_by_host(problem, others):
        open_[host] &= _has_room(problem, host, np.append(problem.kind[members], kind))
    open_ &= problem.mask[kind]
    for rule in problem.rules:
        if rule.is_required:
            in_a, in_b = bool(np.isin(member, rule.a)), bool(np.isin(member, rule.b))
            if in_a or in_b or rule.kind == definition.EXCLUSIVE:
                open_ &= _kept(rule, counts(problem, rule, others), in_a, in_b)[
                    problem.domains[rule.level]
                ]
    return open_


def _kept(rule: Rule, at: Counts, in_a: bool, in_b: bool) -> np.ndarray:
    """Domains, bool [D], where one more member (of ``a``, of ``b``) does not break the rule."""
    used = at.a > 0
    match rule.kind:
        case definition.AFFINITY:
            return (used.sum() - used + 1) == 1
        case definition.ANTI_AFFINITY:
            return (at.a < rule.most) & (at.a <= rule.most).all()
        case definition.SPREAD:
            return _levels_out(rule, at.a)
        case definition.EXCLUSIVE:
            shared = at.outside | (at.others > 0)
            return ~(shared if in_a else used) & ~(used & shared).any()
        case definition.NEAR:
            alone = used & (at.b == 0)
            covered = (at.b > 0) | in_b
            elsewhere = alone.sum() - (alone & covered)
            return (elsewhere == 0) & (covered | (not in_a))
        case definition.APART:
            clash = ((at.a > 0) | in_a) & ((at.b > 0) | in_b)
            return ~clash & ~((at.a > 0) & (at.b > 0)).any()
    raise ValueError(f'unknown kind of policy: {rule.kind}')


def _levels_out(rule: Rule, count: np.ndarray) -> np.ndarray:
    """Domains, bool [D], where one more member keeps a spread."""
    used = np.sort(count[count > 0])
    open_ = (len(used) + (count == 0)) >= rule.min_domains
    if rule.max_skew is None or not len(used):
        return open_
    least_elsewhere = np.where(
        count == used[0], used[1] if len(used) > 1 else np.iinfo(np.int64).max, used[0]
    )
    most, least = np.maximum(used[-1], count + 1), np.minimum(least_elsewhere, count + 1)
    return open_ & (most - least <= rule.max_skew)


def _members_by_host(problem: Problem, hosts: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each host that has loose members, with these members."""
    loose = np.flatnonzero((problem.fixed < 0) & (hosts >= 0))
    loose = loose[np.argsort(hosts[loose], kind='stable')]
    if len(loose):
        cuts = np.flatnonzero(np.diff(hosts[loose])) + 1
        for members in np.split(loose, cuts):
            yield int(hosts[members[0]]), members


def _has_room(problem: Problem, host: int, kinds: np.ndarray) -> bool:
    """Return whether members of these kinds fit on the host together."""
    if problem.cap is not None:
        count = np.bincount(kinds, minlength=len(problem.cap))
        if (count > np.maximum(problem.cap[:, host], 0)).any():
            return False
    if problem.demand.shape[1] == 1:
        return bool(is_free(problem.demand[kinds, 0].sum(axis=0), problem.free[host]))
    return len(demand_sums(problem.demand[kinds], problem.free[host])) > 0


def _words(problem: Problem, rule: Rule, times: int) -> str:
    level = problem.levels[rule.level]
    what = {
        definition.AFFINITY: f'{times} {level} domains too many are used',
        definition.ANTI_AFFINITY: f'{times} members are above {rule.most} in a {level}',
        definition.SPREAD: f'{level} domains or members are short by {times}',
        definition.EXCLUSIVE: f'{times} {level} domains are shared with other instances',
        definition.NEAR: f'{times} members are in a {level} without a partner',
        definition.APART: f'{times} {level} domains are used by both sides',
    }[rule.kind]
    return f'{rule.policy.name}: {what}'
