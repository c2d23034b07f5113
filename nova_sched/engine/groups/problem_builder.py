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
member, as arrays.

Each resource class is a column of the free amounts. So are the CPUs and the memory of each NUMA
cell: a guest that fits into several cells has an alternative for each. No column shows hardware
that is taken piece by piece (pages, devices, whole cores, child providers): such a kind is
``vague``.
"""

import dataclasses
import itertools
import time

import numpy as np

from nova_sched.claim import PCPU, VCPU
from nova_sched.engine.calls import settled
from nova_sched.engine.decide import chain, survivors, weigh
from nova_sched.engine.explain import capacity, reasons
from nova_sched.engine.groups.member_state import others
from nova_sched.groups.arrays.problem import Problem
from nova_sched.groups.joint import Sites
from nova_sched.hardware.numa.topology import DEDICATED, ISOLATE, PREFER, SHARED
from nova_sched.state.facts import HostFacts

MAX_CELLS = 4  # of a host that has columns for its cells
MAX_WAYS = 24  # alternatives of one kind
MAX_TRIES = 4_000  # trial claims of kinds that free amounts do not describe

# Columns of each cell. Guests with dedicated CPUs need free amounts, and not only amounts within
# the allocation ratio.
OF_A_CELL = 'CPUs', 'dedicated CPUs', 'memory', 'free memory'


@dataclasses.dataclass(slots=True)
class DemandColumns:
    """``demand`` int64 [kind, way, column], ``free`` int64 [host, column], the columns' ``names``.

    ``vague`` says of each kind whether it may fit less often than these columns show.
    """

    demand: np.ndarray
    free: np.ndarray
    names: list[str]
    vague: list[bool]


def demand_columns(hosts, requests, mask):
    """Return the DemandColumns for requests (one of each kind) and the rows that each may have.

    Narrows ``mask`` (bool [kind, row]) in place for a kind that may use VCPU in place of PCPU: if
    some of its rows have PCPU, only these remain.
    """
    plain = [_plain(hosts, request, mask[number]) for number, request in enumerate(requests)]
    classes = sorted({name for amounts in plain for name in amounts})
    celled = [_is_celled(request) for request in requests]
    free = []
    for name in classes:
        held = hosts.resources.get(name)
        free.append(np.zeros(len(hosts), dtype=np.int64) if held is None else held.free.copy())
    names = list(classes)
    count = 0
    if any(celled):
        count, more = _cells(hosts, mask[celled].any(axis=0))
        free += more
        names += [f'{what} of NUMA cell {cell}' for cell in range(count) for what in OF_A_CELL]
    ways = [_ways(request, count) if is_celled and count else [()]
            for request, is_celled in zip(requests, celled, strict=True)]  # fmt: skip
    demand = np.zeros((len(requests), max(map(len, ways), default=1), len(names)), dtype=np.int64)
    for number, amounts in enumerate(plain):
        for way in range(demand.shape[1]):
            taken = ways[number][way if way < len(ways[number]) else 0]
            demand[number, way, : len(classes)] = [amounts.get(name, 0) for name in classes]
            for cell, size in taken:
                column = len(classes) + len(OF_A_CELL) * cell
                demand[number, way, column : column + len(OF_A_CELL)] += size
    vague = []
    for request, is_celled in zip(requests, celled, strict=True):
        is_below = not hosts.child_classes.isdisjoint(request.resources)
        in_pieces = bool(request.pieces or request.groups or is_below)
        vague.append(in_pieces and not (is_celled and count))
    return DemandColumns(
        demand,
        np.stack(free, axis=1) if free else np.zeros((len(hosts), 0), np.int64),
        names,
        vague,
    )


def _plain(hosts, request, mask):
    """Amounts by class that come from the hosts themselves."""
    amounts = {
        name: units for name, units in request.resources.items() if name not in hosts.child_classes
    }
    if request.fallback_vcpus:
        apart = hosts.has_class(PCPU)
        if (mask & apart).any():
            mask &= apart
        else:
            amounts.pop(PCPU, None)
            amounts[VCPU] = request.fallback_vcpus
    return amounts


def _is_celled(request):
    """Return whether the only hardware that a request takes is amounts of CPUs and memory of NUMA
    cells."""
    pieces = request.pieces
    guest = pieces.guest
    if guest is None or pieces.requests or pieces.physnets or pieces.tunneled or request.groups:
        return False
    few = (
        len(guest.cells) <= MAX_CELLS
        and guest.emulator_policy != ISOLATE
        and not pieces.needs_siblings
    )
    return few and all(map(_is_plain, guest.cells))


def _is_plain(cell):
    if cell.pagesize_kb is not None:
        return False
    own = cell.cpu_policy == DEDICATED and cell.thread_policy == PREFER and not cell.cpuset
    return own or (cell.cpu_policy == SHARED and not cell.pcpuset)


def _cells(hosts, rows):
    """Return the largest number of cells of a host, and the columns of OF_A_CELL for each cell."""
    values = hosts.interned['machine'].values
    slots = np.unique(hosts.machine[rows])
    topologies = {slot: values[slot].topology for slot in slots.tolist()
                  if values[slot] is not None and values[slot].topology is not None}  # fmt: skip
    count = max((len(topology.cells) for topology in topologies.values()), default=0)
    if not 0 < count <= MAX_CELLS:
        return 0, []
    table = np.zeros((len(values), count, len(OF_A_CELL)), dtype=np.int64)
    for slot, topology in topologies.items():
        machine = values[slot]
        for place, cell in enumerate(topology.cells):
            table[slot, place] = (
                int(len(cell.cpuset) * machine.cpu_ratio) - cell.cpu_usage,
                len(cell.free_pcpus),
                int(cell.memory_mb * machine.ram_ratio) - cell.memory_usage_mb,
                int(cell.free_plain_memory_mb),
            )
    columns = table[hosts.machine].reshape(len(hosts), -1)
    return count, list(columns.T)


def _ways(request, count):
    """Return each way to assign the guest's cells to different cells of a host: (cell, size) of
    each, with the size as amounts of OF_A_CELL."""
    sizes = []
    for cell in request.pieces.guest.cells:
        own_mb = cell.memory_mb if cell.cpu_policy == DEDICATED else 0
        sizes.append((len(cell.cpuset), len(cell.pcpuset), cell.memory_mb, own_mb))
    if len(sizes) > count:
        return [()]
    ways = (
        tuple(sorted(zip(chosen, sizes, strict=True)))
        for chosen in itertools.permutations(range(count), len(sizes))
    )
    return [*dict.fromkeys(ways)][:MAX_WAYS]


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
    """Return the rules whose verdict on a host may change with the group's own members there, in
    addition to free amounts and a claim's own checks.

    For these, each kind is counted by itself, and all are evaluated again at the end.
    """
    return [
        rule for rule in chain(rules, request) if HostFacts.COUNTS in rule.host_facts_for(request)
    ]


def build_problem(hosts, steps, lifted):
    """Take the ``problem_steps`` until a slice of time is over, then yield, and so on. Runs in the
    loop; returns the GroupProblem, which is exact only if the host state stayed as it was. Raises
    Outdated.

    ``lifted()`` is a context in which the group's planned claims are not in the host state.
    """
    is_one_state = True
    while True:
        begin_s = time.monotonic()
        with lifted():
            least_s = 2 * (time.monotonic() - begin_s)  # lifting must not be most of the work
            for problem in steps:
                if problem is not None:
                    return problem if is_one_state else dataclasses.replace(problem, exact=False)
                is_over = hosts.pause is not None and hosts.pause()
                if is_over and time.monotonic() - begin_s >= least_s:
                    break
        position = hosts.changed.end
        yield
        if hosts.changed.since(position) is None:
            raise Outdated
        is_one_state = is_one_state and hosts.changed.end == position


def problem_steps(cluster, rules, levels, states, policies, settings, caps, own):
    """Yield None after each step of a problem from the whole host state, and at the end the
    GroupProblem.

    ``states``: a LoadedMember for each member; ``levels``: those of DomainTopology; ``policies``:
    the Rules to satisfy; ``caps``: (kind, node UUID) to the most members of the kind there, from
    earlier plans that failed, or None; ``own``: the claims of the group.
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
    closed, removed_by = {}, {}
    for number, request in enumerate(requests):
        places = np.flatnonzero((kind == number) & (sites.built < 0))[:1].tolist()
        judged = yield from settled(hosts, _judged, rules, hosts, request, bool(places))
        rows, weights, refused = judged
        mask[number, rows] = True
        score[number, rows] = weights
        for place in places if refused else ():
            closed[states[place].member] = refused.reason
            if refused.steps:
                removed_by[states[place].member] = refused.steps[-1].name
        yield
    requests = [capacity.judged(rules, request) for request in requests]
    figures = demand_columns(hosts, requests, mask)
    cap, exact = yield from _caps(
        cluster, rules, requests, mask, figures, settings, np.bincount(kind)
    )
    rows_of = {node.uuid: node.row for node in hosts.nodes} if caps else {}
    for (name, uuid), most in (caps or {}).items():
        if uuid in rows_of and name in numbers:
            cap = _full(mask) if cap is None else cap
            limits = cap[numbers[name]]
            limits[rows_of[uuid]], exact = min(limits[rows_of[uuid]], most), False
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
        occupied=others(cluster, own),
        rules=policies,
        cap=cap,
        fixed=sites.built,
        home=np.where(sites.built < 0, sites.planned, -1),
        resources=figures.names,
        kind_names=[_words(request) for request in requests],
    )
    nodes = hosts.cache.get('UUIDs of nodes', lambda: [node.uuid for node in hosts.nodes])
    yield GroupProblem(problem, nodes, sites, exact, closed, removed_by)


def _judged(rules, hosts, request, explains):
    """Return the rows that pass all rules, their weights, and the NoValidHost if there are none
    and it ``explains`` why."""
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


def _caps(cluster, rules, requests, mask, figures, settings, counts):
    """Return how many of each kind each host takes by itself, and whether these numbers are exact.
    None: free amounts are sufficient. Yields after each step."""
    cap, exact, tries_left = None, True, MAX_TRIES
    for number, request in enumerate(requests):
        if not figures.vague[number] and not unsettled(rules, request):
            continue
        room = yield from settled(
            cluster.hosts, capacity.room, rules, cluster.hosts, request, settings.default_zone
        )
        yield
        room.counts = np.minimum(room.counts, counts[number])
        if figures.vague[number]:
            room.tries_left = tries_left
            while not capacity.try_some(room, cluster):
                yield
            tries_left, exact = room.tries_left, exact and not room.cut
        cap = _full(mask) if cap is None else cap
        cap[number] = 0
        cap[number, [cluster.node(uuid).row for uuid in room.nodes]] = room.counts
        yield
    return cap, exact


def _full(mask):
    return np.where(mask, np.iinfo(np.int32).max, 0).astype(np.int32)


def _words(request):
    """Return a kind of member, as text."""
    amounts = ', '.join(f'{amount} {name}' for name, amount in request.resources.items())
    return f'{request.flavor_name} ({amounts})' if request.flavor_name else amounts
