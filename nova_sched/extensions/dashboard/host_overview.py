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

"""All hosts as the database has them, read by increments, drawn as a map, and shared by all
pages."""

import collections
import dataclasses
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from nova_sched import errors, words
from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.claims.cloud_facts import (
    DISABLED,
    DOWN,
    FORCED_DOWN,
    UNKNOWN,
    UP,
    CloudFacts,
)
from nova_sched.claims.values import Changes
from nova_sched.groups.topology import ZONE

REFRESH_S = 1.0  # seconds between two polls of the database, however many pages ask
REST = 9  # a poll takes at most a tenth of the time, however many hosts there are
HEADS_S = 10.0  # seconds between two reads of the last heartbeat of all nodes
FIRST_S = 20.0  # seconds that a page waits for the first poll of another one
OLD_S = 60.0  # seconds for which the board of a new page may be old: changes follow it
STATES = (UP, DISABLED, DOWN, FORCED_DOWN, UNKNOWN)
USUAL = (VCPU, PCPU, MEMORY_MB, DISK_GB)
RACK = 'rack'
NONE = -1  # in place of a share: the node has no such resource
COLUMNS = ('hosts', 'names', 'zone', 'rack', 'aggregates_of', 'traits_of')


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The hosts at one poll. ``changed`` has for each row the version at which its cell changed
    last; the board as a whole (``lasting``) is from version ``made``."""

    facts: CloudFacts
    lasting: Mapping[str, Any]
    cells: Sequence[Any]
    changed: Sequence[int]
    made: int
    version: int
    polled_s: float


class HostOverview:
    """The cloud, some seconds old at most. Its methods may be called from any thread, and raise
    StoreUnavailable.

    One thread polls the database; the others have what it saw last. ``store`` is a claim store
    of its own; ``clock`` counts seconds; ``reads_nova`` as for CloudFacts.
    """

    def __init__(
        self,
        store,
        topology,
        down_time_s,
        default_zone,
        clock=time.monotonic,
        reads_nova=False,
    ):
        self._store, self._clock = store, clock
        self._down_time_s, self._default_zone = down_time_s, default_zone
        self._reads_nova = reads_nova
        self._drawing = Drawing(topology, default_zone)
        self._lock = threading.Lock()
        self._due_s = self._heads_due_s = clock()
        self._digest = None
        self._is_redrawn = self._is_current = False
        self._nodes, self._seen = {}, {}
        self._tables = Changes()
        self._name = uuid.uuid4().hex[:12]  # another process counts versions of its own
        self._view = None
        self._last_answer = None, None, []  # about changes: until, since, cells

    def facts(self):
        """All facts about hosts: CloudFacts."""
        return self._current().facts

    def board(self):
        """All hosts for the map, as plain values: what lasts (see Drawing), with ``cells``
        and the ``version`` of all."""
        view = self._view
        if view is None or self._clock() - view.polled_s > OLD_S:
            view = self._current()
        return {**view.lasting, 'cells': view.cells, 'version': self._at(view)}

    def changes(self, version):
        """The version now and the cells that have changed since another one, by row; None in place
        of the cells if the whole board has to be read again."""
        view = self._current()
        name, _, number = (version or '').partition('-')
        try:
            seen = words.whole(number, view.made)
        except ValueError:
            return self._at(view), None
        if name != self._name:
            return self._at(view), None
        if seen >= view.version:
            return self._at(view), []
        # Streams ask nearly all for the same: the cells from one poll to the next.
        last = self._last_answer
        if last[:2] != (view.version, seen):
            rows = [row for row, at in enumerate(view.changed) if at > seen]
            last = view.version, seen, [[row, *view.cells[row]] for row in rows]
            self._last_answer = last
        return self._at(view), last[2]

    def facts_now(self):
        """As ``facts``, from a poll that begins now: what the caller has changed is in them."""
        if not self._lock.acquire(timeout=FIRST_S):
            raise errors.StoreUnavailable(f'all hosts are not read after {FIRST_S:.0f} s')
        try:
            self._poll()
            return self._view.facts
        finally:
            self._lock.release()

    def _at(self, view):
        return f'{self._name}-{view.version}'

    def _current(self):
        """The present view."""
        if self._view is not None and self._clock() < self._due_s:
            return self._view
        # While one thread polls, other threads use the view from before, if there is one.
        if not self._lock.acquire(timeout=FIRST_S if self._view is None else 0):
            if self._view is None:
                raise errors.StoreUnavailable(f'all hosts are not read after {FIRST_S:.0f} s')
            return self._view
        try:
            if self._view is None or self._clock() >= self._due_s:
                self._poll()
            return self._view
        finally:
            self._lock.release()

    def _poll(self):
        begun_s = self._clock()
        # All generations are read only if their sum has changed, or to learn which nodes are
        # silent.
        digest = self._store.digest()
        if digest == self._digest and begun_s < self._heads_due_s:
            changes = self._store.read_nodes([])
        else:
            known = {uuid: node.generation for uuid, node in self._nodes.items()}
            changes = self._store.changes(known)
            self._digest, self._heads_due_s = digest, begun_s + HEADS_S
        self._merge(changes)
        before = self._view
        if self._is_current:
            self._view = dataclasses.replace(before, polled_s=begun_s)
        else:
            facts = CloudFacts(
                dataclasses.replace(self._tables, nodes=tuple(self._nodes.values())),
                self._store.now_s(),
                self._down_time_s,
                self._default_zone,
                self._seen,
                self._reads_nova,
            )
            lasting = before.lasting if self._is_redrawn else self._drawing.lasting(facts)
            cells = self._drawing.cells(facts, lasting['resources'])
            self._view = _after(before, facts, lasting, cells, begun_s)
            self._is_redrawn = self._is_current = True
        took_s = self._clock() - begun_s
        self._due_s = self._clock() + max(REFRESH_S, REST * took_s)

    def _merge(self, changes):
        """Keep what has changed. A poll may fail after this: the next one makes the view and draws
        the board then."""
        if (
            changes.gone
            or changes.aggregates not in (None, self._tables.aggregates)
            or not all(map(self._drawing.is_placed, changes.nodes))
        ):
            self._is_redrawn = False
        self._nodes.update((node.report.node_uuid, node) for node in changes.nodes)
        for gone in changes.gone:
            self._nodes.pop(gone, None)
            self._seen.pop(gone, None)
        self._seen.update(changes.seen)
        known = self._tables
        self._tables = Changes(
            services=known.services if changes.services is None else changes.services,
            aggregates=known.aggregates if changes.aggregates is None else changes.aggregates,
            instances=known.instances if changes.instances is None else changes.instances,
        )
        if changes.nodes or changes.gone or changes.seen or self._tables != known:
            self._is_current = False


def _after(before, facts, lasting, cells, now_s):
    """The view that follows another one (None: the first)."""
    version = 1 if before is None else before.version + 1
    if before is None or lasting != before.lasting:
        return View(facts, lasting, cells, [version] * len(cells), version, version, now_s)
    pairs = zip(before.cells, cells, before.changed, strict=True)
    changed = [at if old == new else version for old, new, at in pairs]
    if version not in changed:
        version = before.version
    return View(facts, lasting, cells, changed, before.made, version, now_s)


class Drawing:
    """Draws the hosts as cells of a map, again and again, in as few values as possible: texts that
    many cells share are numbers. A cell is a node; what was found for it is kept until it changes.
    """

    def __init__(self, topology, default_zone):
        self._topology, self._default_zone = topology, default_zone
        self._places, self._shares = {}, {}

    def lasting(self, facts):
        """What seldom changes: for each row ``hosts``, ``names`` of nodes, ``zone`` and ``rack``
        (numbers of ``zones`` and ``racks``), ``aggregates_of`` and ``traits_of`` (numbers of
        ``aggregate_sets`` and ``trait_sets``, whose parts are numbers of ``aggregates`` and
        ``traits``); and the names of ``resources`` and ``states``."""
        of_host = collections.defaultdict(list)
        for aggregate in facts.aggregates:
            for host in aggregate.hosts:
                of_host[host].append(aggregate)
        zones, racks, words = Numbers(), Numbers(), Numbers()
        aggregate_sets, trait_sets = Numbers(), Numbers()
        columns = {name: [] for name in COLUMNS}
        before, self._places = self._places, {}
        for node in facts.nodes:
            report, of_its_host = node.report, of_host[node.report.host]
            key = report.host, report.nodename, report.stats, report.traits, of_its_host
            kept = before.get(report.node_uuid)
            if kept is None or kept[0] != key:
                kept = key, self._place(report, of_its_host), report.inventories.keys()
            self._places[report.node_uuid] = kept
            zone, rack, aggregates, traits = kept[1]
            columns['hosts'].append(report.host)
            columns['names'].append(report.nodename)
            columns['zone'].append(zones.of(zone))
            columns['rack'].append(racks.of(rack))
            columns['aggregates_of'].append(aggregate_sets.of(aggregates))
            columns['traits_of'].append(trait_sets.of(traits))
        names = sorted({aggregate.name for aggregate in facts.aggregates})
        classes = {name for node in facts.nodes for name in node.report.inventories}
        usual = [name for name in USUAL if name in classes]
        return {
            **columns,
            'zones': list(zones.known),
            'racks': list(racks.known),
            'aggregates': names,
            'aggregate_sets': [
                list(map(names.index, numbers)) for numbers in aggregate_sets.known
            ],
            'trait_sets': [[words.of(name) for name in numbers] for numbers in trait_sets.known],
            'traits': list(words.known),
            'resources': [*usual, *sorted(classes.difference(usual))],
            'states': list(STATES),
        }

    def is_placed(self, node):
        """Whether what lasts about a node is as it is drawn, in the same aggregates."""
        report, kept = node.report, self._places.get(node.report.node_uuid)
        if kept is None:
            return False
        (host, name, _, _, aggregates), place, classes = kept
        if (report.host, report.nodename, report.inventories.keys()) != (host, name, classes):
            return False
        return self._place(report, aggregates) == place

    def _place(self, report, aggregates):
        """Zone, rack, names of aggregates, and traits of a node."""
        domains = self._topology.domains(
            report.host, report.nodename, report.stats, aggregates, self._default_zone
        )
        # A node without a rack is its own domain at that level: no block of its own on the map.
        rack = domains.get(RACK, '')
        rack = '' if rack in (report.host, report.nodename) else rack
        names = tuple(aggregate.name for aggregate in aggregates)
        return domains.get(ZONE, self._default_zone), rack, names, tuple(sorted(report.traits))

    def cells(self, facts, names):
        """What changes often, for each row: the number of its state, its claims, and the used
        share of each of the resources ``names`` in percent of its capacity."""
        before, self._shares = self._shares, {}
        cells = []
        for node in facts.nodes:
            report = node.report
            kept = before.get(report.node_uuid)
            if kept is None or kept[0] is not node or kept[1] != names:
                kept = node, names, _shares(node, names)
            self._shares[report.node_uuid] = kept
            cells.append([STATES.index(facts.state(report.host)), len(node.claims), kept[2]])
        return cells


class Numbers:
    """Numbers texts, or sets of them, in the order in which they first come."""

    def __init__(self):
        self.known = {}

    def of(self, word):
        return self.known.setdefault(word, len(self.known))


def _shares(node, names):
    used = collections.Counter(node.foreign)
    for claim in node.claims:
        used.update(claim.resources)
    inventories = node.report.inventories
    capacities = [inventories[name].capacity if name in inventories else 0 for name in names]
    return [
        round(100 * used[name] / capacity) if capacity > 0 else NONE
        for name, capacity in zip(names, capacities, strict=True)
    ]
