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
"""A group on a virtual cluster with as many domains of every level as the group can use.

For authors without access to a cluster: policies that cannot be kept there cannot be kept on any
cluster.
"""

import itertools
from collections.abc import Collection, Sequence

import numpy as np

from nova_sched.groups.arrays.problem import Problem, Rule
from nova_sched.groups.definition import Definition
from nova_sched.groups.exact.worker import Solver
from nova_sched.groups.limits import Limits
from nova_sched.groups.reasons import why
from nova_sched.groups.topology import HOST, Topology

Nests = Collection[tuple[str, str]]  # names of levels, narrow and wide

MOST_HOSTS = 20_000  # limit on hosts; a group that could use more is not analysed


def contradiction(
    definition: Definition,
    topology: Topology,
    nests: Nests = frozenset(),
    limits: Limits | None = None,
    solver: Solver | None = None,
) -> str | None:
    """Returns the required policies that conflict on every cluster, as text; None if none is
    known.

    ``topology`` has the levels. ``nests`` (``Topology.nests``) are the pairs of levels that nest
    on all clusters in question. ``limits`` and ``solver`` are as in ``why.contradiction``.
    """
    found = problem(definition, topology, nests)
    return None if found is None else why.contradiction(found, limits, solver)


def problem(
    definition: Definition, topology: Topology, nests: Nests = frozenset()
) -> Problem | None:
    """Returns the group's required policies on that cluster; None if it has no or too many hosts.

    Each level that the policies name is an axis with a value for each member. A domain has a value
    on the axis of its level and on the axes of the levels around it; a host has one on all axes.
    """
    rules = [policy for policy in definition.policies if policy.is_required]
    levels = [
        name
        for name in topology.levels
        if name == HOST or any(rule.level == name for rule in rules)
    ]
    members = list(definition.members)
    if not 0 < len(members) ** len(levels) <= MOST_HOSTS:
        return None
    hosts = np.array(
        list(itertools.product(range(len(members)), repeat=len(levels))), dtype=np.int64
    )
    domains = [
        _domains(hosts, [levels.index(one) for one in _around(name, levels, nests)])
        for name in levels
    ]
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


def _around(name: str, levels: list[str], nests: Nests) -> list[str]:
    """Returns a level and those that contain it; a host lies in all."""
    if name == HOST:
        return levels
    return [level for level in levels if level == name or (name, level) in nests]


def _domains(hosts: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Returns the domain of each host: one for each combination of values on these axes."""
    _, ids = np.unique(hosts[:, axes], axis=0, return_inverse=True)
    return ids.ravel().astype(np.int32)
