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
"""Counts how many more instances of one kind fit on each host. The host state stays unchanged."""

import dataclasses
import time
import uuid
from collections.abc import Mapping

import numpy as np

from nova_sched import errors
from nova_sched.claim import PCPU, VCPU
from nova_sched.engine.decide import chain, survivors
from nova_sched.state.facts import CLAIMED, EVERYTHING, NOTHING, HostFacts
from nova_sched.state.host_aggregate import zones
from nova_sched.state.request import AFFINITY, NO_HARDWARE

MAX_COUNTED = 10_000  # instances that are counted on one host
# Trial claims of one call. A long search counts as one for each millisecond of processor time, so
# that a request that is hard on many hosts costs seconds at most.
MAX_TRIES, TRY_S = 10_000, 0.001
# Those on one host are made without a pause. After so many its number is a lower bound; also after
# this much processor time, if each of them is a long search.
MAX_TRIES_ON_HOST, HOST_S = 128, 0.1
SLICE_S = 0.002  # of processor time, for which trials use the loop at a time
GUEST = str(uuid.UUID(int=0))  # represents the further instances in a server group


@dataclasses.dataclass(slots=True)
class Capacity:
    """The hosts that take at least one instance, ``nodes`` by UUID, and how many each takes
    (``counts``).

    ``slots`` is the aggregate set of each host. ``places`` maps it to the zones and the aggregates
    (id, name). Hosts with one number in ``kinds`` are equal in all that a claim takes, so a trial
    on one of them counts for all. ``kinds`` is None if free amounts are sufficient, without
    trials. ``together``: all instances must go to one host.
    """

    request: object
    nodes: list[str]
    counts: np.ndarray
    slots: np.ndarray
    places: Mapping[int, tuple[list[str], list[tuple[int, str]]]]
    kinds: np.ndarray | None
    together: bool
    tried: int = 0  # kinds
    tries_left: int = MAX_TRIES
    cut: bool = False  # some numbers are lower bounds


def room(rules, hosts, request, default_zone):
    """Evaluate all hosts once. Runs in the loop, for as long as several decisions take."""
    group, request = request.group, judged(rules, request)
    if group is not None:
        # For a new instance: another such instance is in its server group already.
        group = dataclasses.replace(group, members=group.members | {GUEST})
    request = dataclasses.replace(request, instance_uuid=str(uuid.uuid4()), group=group)
    rows = survivors(rules, hosts, request).rows()
    slots, firsts = np.unique(hosts.aggregate_set[rows], return_index=True)
    counts = _by_figures(rules, hosts, request, rows)
    # Whether a claim takes more than the free amounts of resource classes show.
    has_parts = bool(
        request.pieces or request.groups or not hosts.child_classes.isdisjoint(request.resources)
    )
    return Capacity(
        request=request,
        nodes=[hosts.nodes[row].uuid for row in rows.tolist()],
        counts=counts,
        slots=hosts.aggregate_set[rows],
        places={
            slot: _places(hosts.aggregates.of(hosts.nodes[rows[first]].host), default_zone)
            for slot, first in zip(slots.tolist(), firsts.tolist(), strict=True)
        },
        kinds=_kinds(hosts, request, rows, counts) if has_parts else None,
        together=group is not None and group.policy == AFFINITY and not group.hosts,
    )


def judged(rules, request):
    """The request without hardware that no enabled filter checks: it excludes no host."""
    checked = NOTHING
    for rule in chain(rules, request):
        if rule.host_facts != EVERYTHING:  # such a rule does not say that it checks hardware
            checked |= rule.host_facts
    if HostFacts.CELLS in checked:
        return request
    devices = dataclasses.replace(request.pieces, guest=None)
    left = devices if HostFacts.DEVICES in checked else NO_HARDWARE
    return dataclasses.replace(request, pieces=left)


def _places(aggregates, default_zone):
    named = [(aggregate.id, aggregate.name) for aggregate in aggregates]
    return sorted(zones(aggregates) or {default_zone}), named


def _kinds(hosts, request, rows, counts):
    """A number for each row: the same for equal hosts."""
    names = {
        *request.resources,
        *(name for group in request.groups for name, _ in group.resources),
    }
    names |= {VCPU} if request.fallback_vcpus else set()
    columns = [counts, hosts.machine[rows], hosts.shape[rows]]
    for resource in (hosts.resources[name] for name in sorted(names) if name in hosts.resources):
        columns += [resource.free[rows], resource.largest[rows]]
    if any(group.in_tree for group in request.groups):
        columns.append(rows)  # one device is named: only one host has it
    return np.unique(np.array(columns), axis=1, return_inverse=True)[1].ravel()


def _by_figures(rules, hosts, request, rows):
    """How many fit on each row, by the rules that are masks over figures: a binary search, all
    rows at once.

    A rule that refuses n is assumed to refuse n + 1 as well. Two sorts of rules are evaluated for
    the first instance only: those that judge host by host, and those whose verdict does not change
    while hosts fill.
    """
    figure_rules = [
        rule
        for rule in chain(rules, request)
        if not rule.judges_rows and rule.host_facts_for(request) & CLAIMED
    ]
    taken = _taken(hosts, request)

    def takes(numbers):
        """Whether each row takes its n-th instance; ``numbers`` has n for each row."""
        more = np.zeros(len(hosts), dtype=np.int64)
        more[rows] = numbers - 1
        seen, fits = _with_more(hosts, taken, more), np.ones(len(rows), dtype=bool)
        for rule in figure_rules:
            verdict = rule.mask(seen, request)
            if verdict is not True:
                fits &= verdict[rows]
        return fits

    low = np.ones(len(rows), dtype=np.int64)
    middle = high = np.maximum(_bound(hosts, taken, rows), low)
    while (low < high).any():
        fits = takes(middle)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        middle = (low + high + 1) // 2
    return low


def _with_more(hosts, taken, more):
    """The hosts as they would be with ``more`` (a number for each row) further instances."""
    view = hosts.what_if()
    view.resources = dict(hosts.resources)
    for name, amounts in taken.items():
        view.resources[name] = hosts.resources[name].copy()
        view.resources[name].take(slice(None), more * amounts)
    view.num_instances = hosts.num_instances + more
    view.num_io_ops = hosts.num_io_ops + more  # each is a build at first
    view.members = {GUEST: more}
    return view


def _taken(hosts, request):
    """The amounts by class that one instance takes of each row, as columns. Child providers are
    not included."""
    taken = {name: amount * hosts.has_class(name)
             for name, amount in request.resources.items() if name in hosts.resources}  # fmt: skip
    if request.fallback_vcpus and VCPU in hosts.resources:
        sharing = ~hosts.has_class(PCPU)
        taken[VCPU] = np.where(sharing, request.fallback_vcpus, taken.get(VCPU, 0))
    return taken


def _bound(hosts, taken, rows):
    """An upper limit for each row: by the free amount of each resource class."""
    most = np.full(len(rows), MAX_COUNTED, dtype=np.int64)
    for name, amounts in taken.items():
        amounts = amounts[rows]
        free = hosts.resources[name].free[rows] // np.maximum(amounts, 1)
        most = np.where(amounts > 0, np.minimum(most, free), most)
    return most


def try_some(room, cluster, clock=time.thread_time):
    """Make trial claims on at least one host, in the loop, and undo them. Returns whether no more
    are to be made; then ``counts`` are settled.

    Numbers limit how many are made in all, not the clock: a process that is slow or stops for a
    while gives the same answer. A host that was removed in the meantime keeps its number from free
    amounts.
    """
    end_s, last = clock() + SLICE_S, -1 if room.kinds is None else int(room.kinds.max(initial=-1))
    while room.tried <= last and room.tries_left > 0:
        alike = np.flatnonzero(room.kinds == room.tried)
        node = cluster.node(room.nodes[alike[0]])
        if node is not None:
            room.counts[alike] = _claims(room, cluster, node, int(room.counts[alike[0]]), clock)
        room.tried += 1
        if clock() >= end_s:
            return False
    if room.tried <= last:
        room.counts[room.kinds >= room.tried] = 1  # at least one fits on each of these
        room.cut = True
    return True


def _claims(room, cluster, node, most, clock):
    """How many claims the node takes, at most ``most``. All of them are undone."""
    consumed: list = []
    begin_s = clock()
    try:
        while len(consumed) < most:
            if len(consumed) == MAX_TRIES_ON_HOST or clock() > begin_s + HOST_S:
                room.cut = True
                break
            guest = dataclasses.replace(room.request, instance_uuid=str(uuid.uuid4()))
            consumed.append(cluster.consume(node, guest))
    except errors.ComputeResourcesUnavailable:
        pass
    finally:
        cluster.release(*consumed)
    count = max(len(consumed), 1)
    room.tries_left -= max(count, int((clock() - begin_s) / TRY_S))
    return count


# Outside of the loop.


def summed(room):
    """The answer, as plain values; see ``Scheduler.capacity``."""
    add = max if room.together else sum
    by_zone: dict = {}
    by_aggregate: dict = {}
    for slot, (in_zones, aggregates) in room.places.items():
        here = add(room.counts[room.slots == slot].tolist())
        for totals, keys in ((by_zone, in_zones), (by_aggregate, aggregates)):
            for key in keys:
                totals.setdefault(key, []).append(here)
    return {
        'total': add([0, *room.counts.tolist()]),
        'at_least': room.cut or bool((room.counts == MAX_COUNTED).any()),
        'hosts': len(room.nodes),
        'zones': {zone: add(parts) for zone, parts in sorted(by_zone.items())},
        'aggregates': [
            {'id': key[0], 'name': key[1], 'total': add(parts)}
            for key, parts in sorted(by_aggregate.items())
        ],
    }
