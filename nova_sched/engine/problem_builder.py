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
"""The cluster as a group's problem: what the enabled rules say of each kind of member, in
arrays."""

import dataclasses
import time

import numpy as np

from nova_sched.engine import amounts, capacity, explain
from nova_sched.engine.decide import chain, survivors, weigh
from nova_sched.filters.aggregate_io_ops import AggregateIoOpsFilter
from nova_sched.filters.aggregate_num_instances import AggregateNumInstancesFilter
from nova_sched.filters.foreign import ForeignFilter
from nova_sched.filters.io_ops import IoOpsFilter
from nova_sched.filters.json import JsonFilter
from nova_sched.filters.num_instances import NumInstancesFilter
from nova_sched.groups.arrays.problem import Problem
from nova_sched.groups.moves import Sites

TRIES_S = 0.2  # for trying out claims of kinds of which figures do not tell all

# Rules of ours whose verdict on a host changes with the group's own members there, beyond what
# free amounts and a claim's own checks say; and so may that of any plug-in. Of these each kind is
# counted by itself, and all are asked again at the end.
COUNTING = (
    AggregateIoOpsFilter,
    AggregateNumInstancesFilter,
    ForeignFilter,
    IoOpsFilter,
    JsonFilter,
    NumInstancesFilter,
)
OURS = 'nova_sched.filters.'


@dataclasses.dataclass(slots=True)
class GroupProblem:
    """A problem, the ``nodes`` (UUIDs) of its hosts, and the ``sites`` of its members' servers.

    In the problem all servers stay where they are. ``exact`` False: some host may take more than
    the problem says, so that it proves nothing. ``closed``: members (one of each kind) that are to
    be planned and that no host takes, whatever the others do, with the reason.
    """

    problem: Problem
    nodes: list[str]
    sites: Sites
    exact: bool = True
    closed: dict[str, str] = dataclasses.field(default_factory=dict)


def unsettled(rules, request):
    """The rules whose verdict may change while the group's members are placed."""
    return [rule for rule in chain(rules, request)
            if isinstance(rule, COUNTING) or not type(rule).__module__.startswith(OURS)]  # fmt: skip


def build_problem(cluster, rules, levels, states, policies, settings, caps=None, own=()):
    """Look at the whole cluster once, for a group. Runs in the loop; nothing that is planned for
    the group may be booked.

    ``states``: a MemberState for each member; ``levels``: Topology.look; ``policies``: the Rules
    to keep; ``caps``: (kind, node UUID) to the most members of the kind there, as far as earlier
    plans have failed on it; ``own``: the claims of the group.
    """
    hosts = cluster.hosts
    sites = _sites(cluster, states)
    numbers: dict[str, int] = {}
    kind = np.array(
        [numbers.setdefault(state.kind, len(numbers)) for state in states],
        dtype=np.int32,
    )
    firsts = [int(np.argmax(kind == number)) for number in range(len(numbers))]
    requests = [states[place].request for place in firsts]
    mask = np.zeros((len(requests), len(hosts)), dtype=bool)
    score = np.zeros((len(requests), len(hosts)), dtype=np.float32)
    closed = {}
    for number, request in enumerate(requests):
        candidates = survivors(rules, hosts, request)
        if not candidates.left:
            for place in np.flatnonzero((kind == number) & (sites.built < 0))[:1]:
                closed[states[place].member] = explain.refusal(
                    candidates, rules, hosts, request
                ).reason
            continue
        rows = candidates.rows()
        mask[number, rows] = True
        score[number, rows] = weigh(rules.weighers, hosts, rows, request)
    requests = [capacity.judged(rules, request) for request in requests]
    figures = amounts.figures(hosts, requests, mask)
    cap, exact = _caps(cluster, rules, requests, mask, figures, settings, np.bincount(kind))
    rows_of = {node.uuid: node.row for node in hosts.nodes} if caps else {}
    for (name, uuid), most in (caps or {}).items():
        if uuid in rows_of and name in numbers:
            cap = _full(mask) if cap is None else cap
            there = cap[numbers[name]]
            there[rows_of[uuid]], exact = min(there[rows_of[uuid]], most), False
    names = list(levels)
    problem = Problem(
        names=[state.member for state in states],
        kind=kind,
        demand=figures.demand,
        mask=mask,
        score=score,
        free=figures.free,
        domains=[levels[name].ids for name in names],
        levels=names,
        domain_names=[list(levels[name].names) for name in names],
        occupied=_occupied(cluster, own),
        rules=policies,
        cap=cap,
        fixed=sites.built,
        home=np.where(sites.built < 0, sites.planned, -1),
        resources=figures.names,
        kind_names=[_words(request) for request in requests],
    )
    nodes = [node.uuid for node in hosts.nodes]
    return GroupProblem(problem, nodes, sites, exact, closed)


def _sites(cluster, states):
    def rows(claims):
        nodes = (cluster.node(claim.node_uuid) if claim else None for claim in claims)
        return np.array([node.row if node else -1 for node in nodes], dtype=np.int32)

    return Sites(
        built=rows(state.built for state in states),
        bound=rows(state.bound for state in states),
        planned=rows(state.planned for state in states),
    )


def _occupied(cluster, claims):
    """Rows with instances, or planned ones, other than these."""
    own = np.zeros(len(cluster.hosts), dtype=np.int64)
    for claim in claims:
        node = cluster.node(claim.node_uuid)
        if node is not None and node.claims.get(claim.consumer_uuid) is not None:
            own[node.row] += 1
    return cluster.hosts.num_instances > own


def _caps(cluster, rules, requests, mask, figures, settings, counts):
    """How many of each kind a host takes by itself, where free amounts do not tell; None: they
    always do."""
    cap, exact, until = None, True, time.monotonic() + TRIES_S
    for number, request in enumerate(requests):
        if not figures.vague[number] and not unsettled(rules, request):
            continue
        room = capacity.room(rules, cluster.hosts, request, settings.default_zone)
        room.counts = np.minimum(room.counts, counts[number])
        if figures.vague[number] and room.kinds is not None:
            while time.monotonic() < until and not capacity.try_some(room, cluster):
                pass
            untried = room.kinds >= room.tried
            room.counts[untried], exact = 1, exact and not untried.any() and not room.cut
        cap = _full(mask) if cap is None else cap
        cap[number] = 0
        cap[number, [cluster.node(uuid).row for uuid in room.nodes]] = room.counts
    return cap, exact


def _full(mask):
    return np.where(mask, np.iinfo(np.int32).max, 0).astype(np.int32)


def _words(request):
    """A kind of member, for people."""
    amounts = ', '.join(f'{amount} {name}' for name, amount in request.resources.items())
    return f'{request.flavor_name} ({amounts})' if request.flavor_name else amounts
