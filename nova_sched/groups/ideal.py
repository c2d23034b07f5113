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
"""Clusters on which only the policies limit a group, because capacity is unlimited.

``cluster`` has the domains of a real cluster. ``imagined`` has as many domains of every level as
the group can use, for authors without access to a cluster. Policies that cannot be kept there
cannot be kept on any such cluster.
"""

import dataclasses
import itertools
from collections.abc import Collection, Sequence

import numpy as np

from nova_sched.groups.arrays.problem import NOWHERE, Problem, Rule
from nova_sched.groups.definition import Definition

Nests = Collection[tuple[str, str]]  # names of levels, narrow and wide

MOST_HOSTS = 20_000  # limit on hosts of ``imagined``; a group that could use more is not analysed


def cluster(problem: Problem) -> Problem:
    """Returns the problem on empty hosts that take everything.

    It has as many hosts and domains as the group can use. All members are alike there, and none is
    fixed. The required rules can be kept there exactly if they could be kept on the whole cluster
    with no instances on it.
    """
    rules = [dataclasses.replace(rule, outside=None) for rule in problem.rules if rule.is_required]
    hosts = _enough([np.asarray(ids) for ids in problem.domains], max(len(problem.names), 1))
    domains, names = [], []
    for ids, every in zip(problem.domains, problem.domain_names, strict=True):
        numbers, dense = np.unique(ids[hosts], return_inverse=True)
        domains.append(dense.ravel().astype(np.int32))
        names.append([every[number] for number in numbers])
    return dataclasses.replace(
        problem,
        kind=np.zeros(len(problem.names), dtype=np.int32),
        demand=np.zeros((1, 1, 1), dtype=np.int64),
        mask=np.ones((1, len(hosts)), dtype=bool),
        score=np.zeros((1, len(hosts)), dtype=np.float32),
        free=np.zeros((len(hosts), 1), dtype=np.int64),
        domains=domains,
        domain_names=names,
        occupied=np.zeros(len(hosts), dtype=bool),
        rules=rules,
        cap=None,
        fixed=NOWHERE,
        home=NOWHERE,
        resources=['room'],
        kind_names=['any'],
    )


def _enough(domains: list[np.ndarray], members: int) -> np.ndarray:
    """Rows of hosts: at most ``members`` of the hosts in the same domains, and of alike domains.

    A domain is unnecessary if ``members`` other domains lie in the same domains of all other
    levels and are at least as large: a placement can use these instead.
    """
    hosts = np.arange(len(domains[0]))
    if len(domains) == 1:
        return hosts[:members]
    above = np.column_stack(domains[1:])
    hosts = hosts[_firsts(above, members)]
    for level in range(1, len(domains)):
        hosts = hosts[_in_large(domains, hosts, level, members)]
    return hosts


def _firsts(rows: np.ndarray, most: int) -> np.ndarray:
    """Bool [n]: the first ``most`` rows of each set of equal rows."""
    _, kinds = np.unique(rows, axis=0, return_inverse=True)
    kinds = kinds.ravel()
    order = np.argsort(kinds, kind='stable')
    starts = np.searchsorted(kinds[order], np.arange(kinds.max(initial=-1) + 1))
    rank = np.empty(len(rows), dtype=np.intp)
    rank[order] = np.arange(len(rows)) - starts[kinds[order]]
    return rank < most


def _in_large(domains: list[np.ndarray], hosts: np.ndarray, level: int, most: int) -> np.ndarray:
    """Bool [n]: hosts that remain if each set of alike domains of a level keeps its largest."""
    ids = domains[level][hosts]
    others = [each[hosts] for number, each in enumerate(domains) if number not in (0, level)]
    around = np.column_stack([*others, np.zeros(len(hosts), dtype=np.int64)])
    one_place = _firsts(np.column_stack([ids, around]), 1)
    numbers, places = np.unique(ids[one_place], return_counts=True)
    if (places > 1).any():  # some overlap another level: not compared
        return np.ones(len(hosts), dtype=bool)
    size = np.bincount(ids)[numbers]
    first = np.flatnonzero(one_place)
    order = first[np.argsort(-size[np.searchsorted(numbers, ids[first])], kind='stable')]
    keep = np.zeros(int(ids.max(initial=-1)) + 1, dtype=bool)
    keep[ids[order[_firsts(around[order], most)]]] = True
    return keep[ids]


def imagined(
    definition: Definition, levels: Sequence[str], nests: Nests = frozenset()
) -> Problem | None:
    """Returns the group's required policies on that cluster; None if it has no or too many hosts.

    ``levels`` go from narrow to wide; the first is the host. Each level that the policies name is
    an axis with a value for each member. A domain has a value on the axis of its level and on the
    axes of the levels around it; a host has one on all axes.
    """
    rules = [policy for policy in definition.policies if policy.is_required]
    host, *wider = levels
    levels = [host, *(name for name in wider if any(rule.level == name for rule in rules))]
    members = list(definition.members)
    if not 0 < len(members) ** len(levels) <= MOST_HOSTS:
        return None
    hosts = np.array(
        list(itertools.product(range(len(members)), repeat=len(levels))), dtype=np.int64
    )
    domains = []
    for name in levels:
        around = [
            axis
            for axis, one in enumerate(levels)
            if one == name or name == host or (name, one) in nests
        ]
        _, ids = np.unique(hosts[:, around], axis=0, return_inverse=True)
        domains.append(ids.ravel().astype(np.int32))
    index = {path: number for number, path in enumerate(members)}
    return Problem(
        names=members,
        kind=np.zeros(len(members), dtype=np.int32),
        demand=np.zeros((1, 1, 1), dtype=np.int64),
        mask=np.ones((1, len(hosts)), dtype=bool),
        score=np.zeros((1, len(hosts)), dtype=np.float32),
        free=np.zeros((len(hosts), 1), dtype=np.int64),
        domains=domains,
        levels=levels,
        domain_names=[[f'{name} {number}' for number in range(ids.max() + 1)]
                      for name, ids in zip(levels, domains, strict=True)],
        occupied=np.zeros(len(hosts), dtype=bool),
        rules=[Rule.of(policy, index, levels) for policy in rules],
    )  # fmt: skip
