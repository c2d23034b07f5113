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
"""Builds a group problem from the host state: the verdicts of the enabled rules for each kind of
member, as arrays."""

import dataclasses
import time

import numpy as np

from nova_sched.engine.calls import settled
from nova_sched.engine.decide import chain, survivors, weigh
from nova_sched.engine.explain import capacity, reasons
from nova_sched.engine.groups import amounts
from nova_sched.groups.arrays.problem import Problem
from nova_sched.groups.joint import Sites
from nova_sched.state.facts import HostFacts

TRIES_S = 0.2  # for trial claims of kinds that free amounts do not describe


class Outdated(Exception):
    """Hosts came or went, or lasting facts changed, during a pause: the plan starts again."""


@dataclasses.dataclass(slots=True)
class GroupProblem:
    """A problem, the ``nodes`` (UUIDs) of its hosts, and the ``sites`` of its members' servers.

    In the problem all servers keep their hosts. ``exact`` False: a host may take more than the
    problem says, so that it proves nothing. ``closed``: members (one of each kind) that are to be
    planned and that no host takes, even without the other members, with the reason; ``removed_by``
    has the filter that removed the last host.
    """

    problem: Problem
    nodes: list[str]
    sites: Sites
    exact: bool = True
    closed: dict[str, str] = dataclasses.field(default_factory=dict)
    removed_by: dict[str, str] = dataclasses.field(default_factory=dict)


def unsettled(rules, request):
    """The rules whose verdict on a host may change with the group's own members there, in addition
    to free amounts and a claim's own checks.

    For these, each kind is counted by itself, and all are evaluated again at the end.
    """
    return [
        rule for rule in chain(rules, request) if HostFacts.COUNTS in rule.host_facts_for(request)
    ]


def build_problem(cluster, rules, levels, states, policies, settings, caps, own, lifted):
    """Build the GroupProblem of a group from the whole host state. Runs in the loop; yields where
    it may pause, and returns the problem. Raises Outdated.

    ``states``: a LoadedMember for each member; ``levels``: Topology.look; ``policies``: the Rules
    to satisfy; ``caps``: (kind, node UUID) to the most members of the kind there, from earlier
    plans that failed, or None; ``own``: the claims of the group; ``lifted()`` is a context in
    which its planned claims are not in the host state.
    """
    hosts, found = cluster.hosts, list[GroupProblem]()
    steps = _steps(cluster, rules, levels, states, policies, settings, caps, own, found)
    is_one_state = yield from _in_turns(hosts, steps, lifted)
    (made,) = found
    return made if is_one_state else dataclasses.replace(made, exact=False)


def _in_turns(hosts, steps, lifted):
    """Take the steps until a slice of time is over, then yield, and so on. Returns whether the
    host state stayed as it was."""
    is_one_state = True
    while True:
        begin_s = time.monotonic()
        with lifted():
            least_s = 2 * (time.monotonic() - begin_s)  # lifting must not be most of the work
            for _ in steps:
                is_over = hosts.pause is not None and hosts.pause()
                if is_over and time.monotonic() - begin_s >= least_s:
                    break
            else:
                return is_one_state
        position = hosts.changed.end
        yield
        if hosts.changed.since(position) is None:
            raise Outdated
        is_one_state = is_one_state and hosts.changed.end == position


def _steps(cluster, rules, levels, states, policies, settings, caps, own, made):
    """Yields after each step of a problem, which becomes the only item of ``made``."""
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
    closed, removed_by = {}, {}
    for number, request in enumerate(requests):
        places = np.flatnonzero((kind == number) & (sites.built < 0))[:1].tolist()
        found = yield from settled(hosts, _judged, rules, hosts, request, bool(places))
        rows, weights, refused = found
        mask[number, rows] = True
        score[number, rows] = weights
        for place in places if refused else ():
            closed[states[place].member] = refused.reason
            if refused.steps:
                removed_by[states[place].member] = refused.steps[-1].name
        yield
    requests = [capacity.judged(rules, request) for request in requests]
    figures = amounts.figures(hosts, requests, mask)
    cap, exact = yield from _caps(
        cluster, rules, requests, mask, figures, settings, np.bincount(kind)
    )
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
    nodes = hosts.cache.get('UUIDs of nodes', lambda: [node.uuid for node in hosts.nodes])
    made.append(GroupProblem(problem, nodes, sites, exact, closed, removed_by))


def _judged(rules, hosts, request, explains):
    """The rows that pass all rules, their weights, and the NoValidHost if there are none and it
    ``explains`` why."""
    candidates = survivors(rules, hosts, request)
    rows, refused = candidates.rows(), None
    if explains and not candidates.left:
        refused = reasons.refusal(candidates, rules, hosts, request)
    return rows, weigh(rules.weighers, hosts, rows, request), refused


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
    """Rows with instances, built or planned, other than these."""
    own = np.zeros(len(cluster.hosts), dtype=np.int64)
    for claim in claims:
        node = cluster.node(claim.node_uuid)
        if node is not None and node.claims.get(claim.consumer_uuid) is not None:
            own[node.row] += 1
    return cluster.hosts.num_instances > own


def _caps(cluster, rules, requests, mask, figures, settings, counts):
    """How many of each kind each host takes by itself, and whether these numbers are exact. None:
    free amounts are sufficient. Yields after each step."""
    cap, exact, left_s = None, True, TRIES_S
    for number, request in enumerate(requests):
        if not figures.vague[number] and not unsettled(rules, request):
            continue
        room = yield from settled(
            cluster.hosts, capacity.room, rules, cluster.hosts, request, settings.default_zone
        )
        yield
        room.counts = np.minimum(room.counts, counts[number])
        if figures.vague[number] and room.kinds is not None:
            is_done = False
            while left_s > 0 and not is_done:
                begin_s = time.monotonic()
                is_done = capacity.try_some(room, cluster)
                left_s -= time.monotonic() - begin_s
                yield
            untried = room.kinds >= room.tried
            room.counts[untried], exact = 1, exact and not untried.any() and not room.cut
        cap = _full(mask) if cap is None else cap
        cap[number] = 0
        cap[number, [cluster.node(uuid).row for uuid in room.nodes]] = room.counts
        yield
    return cap, exact


def _full(mask):
    return np.where(mask, np.iinfo(np.int32).max, 0).astype(np.int32)


def _words(request):
    """A kind of member, as text."""
    amounts = ', '.join(f'{amount} {name}' for name, amount in request.resources.items())
    return f'{request.flavor_name} ({amounts})' if request.flavor_name else amounts
