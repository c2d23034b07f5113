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
"""One member after the other, each where it is best now: what a scheduler of single servers makes
of a group.

Each member keeps the policies against those that are placed, read as kindly as can be: while a
spread has too few domains, a new one is taken, and a follower's anchors go first to where one is
missing. Nothing is taken back.
"""

import collections

import numpy as np

from nova_sched.groups import definition


def place(problem, order=None):
    """A placement, int32 [M], or None if a member has no host; members in ``order``, else in the
    group's.

    A policy may be broken in it: only the last member of a spread, or of an anchor, can tell.
    """
    return _Walk(problem).place(range(problem.member_count) if order is None else order)


def best_order(problem):
    """Members' numbers: anchors before their followers, then who has the fewest hosts, then the
    largest."""
    depth = np.zeros(problem.member_count, dtype=int)
    for _ in problem.rules:
        for rule in problem.rules:
            if rule.kind == definition.NEAR and rule.is_required and len(rule.a):
                followers = rule.a[~np.isin(rule.a, rule.b)]
                depth[followers] = np.maximum(
                    depth[followers], min(depth[rule.b].max() + 1, len(problem.rules))
                )
    room = np.maximum(problem.free.sum(axis=0), 1)
    hosts = np.array([_fits(problem, kind).sum() for kind in range(len(problem.demand))])
    share = (problem.demand[:, 0, :] / room).max(axis=1)
    return np.lexsort((-share[problem.kind], hosts[problem.kind], depth)).tolist()


def _fits(problem, kind):
    """bool [H]: the kind passes the mask, and one of its ways fits."""
    fits = np.zeros(problem.host_count, dtype=bool)
    for way in np.unique(problem.demand[kind], axis=0):
        fits |= np.logical_and.reduce(
            [problem.free[:, one] >= asked for one, asked in enumerate(way)]
        )
    return fits & problem.mask[kind]


class _Walk:
    """One walk through a group: what is free, and how many of each rule's members are in each
    domain."""

    def __init__(self, problem):
        self._problem = problem
        self._free = problem.free.copy()
        self._fits = [_fits(problem, kind) for kind in range(len(problem.demand))]
        self._counts = [
            (
                np.zeros(problem.size(rule.level), dtype=int),
                np.zeros(problem.size(rule.level), dtype=int),
            )
            for rule in problem.rules
        ]
        self._sides = collections.defaultdict(
            list
        )  # by member: which rules count it, and on which side
        for number, rule in enumerate(problem.rules):
            if rule.is_required:
                others = rule.b
                if rule.kind == definition.EXCLUSIVE:
                    others = np.setdiff1d(np.arange(problem.member_count), rule.a)
                for side, members in enumerate((rule.a, others)):
                    for member in members.tolist():
                        self._sides[member].append((number, side))

    def place(self, order):
        hosts = np.full(self._problem.member_count, -1, dtype=np.int32)
        for member in order:
            kind = int(self._problem.kind[member])
            good = self._good(member, kind)
            host = int(np.argmax(np.where(good, self._problem.score[kind], -np.inf)))
            if not good[host]:
                return None
            hosts[member] = host
            self._take(member, kind, host)
        return hosts

    def _good(self, member, kind):
        good, wishes = self._fits[kind].copy(), []
        for number, side in self._sides[member]:
            rule = self._problem.rules[number]
            allowed, wish = _allowed(rule, side, *self._counts[number], self._outsiders(rule))
            domains = self._problem.domains[rule.level]
            if allowed is not None:
                good &= allowed[domains]
            if wish is not None:
                wishes.append(wish[domains])
        for wish in wishes:
            if (good & wish).any():
                good &= wish
        return good

    def _outsiders(self, rule):
        """bool [domains], of an exclusive policy: the domain has outsiders."""
        if rule.kind != definition.EXCLUSIVE:
            return None
        domains = self._problem.domains[rule.level]
        return np.bincount(domains, self._problem.occupied, self._problem.size(rule.level)) > 0

    def _take(self, member, kind, host):
        ways = self._problem.demand[kind]
        self._free[host] -= next(way for way in ways if (self._free[host] >= way).all())
        for other, fits in enumerate(self._fits):
            fits[host] &= (self._problem.demand[other] <= self._free[host]).all(axis=1).any()
        for number, side in self._sides[member]:
            self._counts[number][side][
                self._problem.domains[self._problem.rules[number].level][host]
            ] += 1


def _allowed(rule, side, first, second, outsiders):
    """Domains where the next member of a side may be, and those where it had better be; None: all
    of them."""
    if rule.kind == definition.AFFINITY:
        return (first > 0 if first.any() else None), None
    if rule.kind == definition.ANTI_AFFINITY:
        return first < rule.most, None
    if rule.kind == definition.SPREAD:
        return _level(rule, first), None
    if rule.kind == definition.EXCLUSIVE:
        return (~outsiders & (second == 0) if side == 0 else first == 0), None
    if rule.kind == definition.APART:
        return (second == 0 if side == 0 else first == 0), None
    if side == 0:
        return (second > 0 if second.any() else None), None
    alone = (first > 0) & (second == 0)
    return None, alone if alone.any() else None


def _level(rule, counts):
    used = counts > 0
    if used.sum() < rule.min_domains:
        return ~used
    if rule.max_skew is None:
        return None
    least = counts[used].min()
    level = used & ((counts + 1 - least <= rule.max_skew) | (counts == least))
    return level | ~used if counts.max() - 1 <= rule.max_skew else level
