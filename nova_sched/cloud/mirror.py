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
"""Keeps the hosts of a scheduler as Nova's databases and Placement have them."""

import dataclasses
import functools
import itertools
import logging
import random
import threading
import time

from nova_sched import errors
from nova_sched.claims import ServiceFacts
from nova_sched.cloud.node_reader import CellView, NodeReader
from nova_sched.logs import Problems
from nova_sched.measures.catalogue import CELL_AGE, HOSTS_LEFT_OUT, MEASURES

LOG = logging.getLogger(__name__)

OVERLAP_S = 5.0  # rows that were written this long before the last look are read once more
WAIT_S = 2.0  # that a refusal waits for a look that is under way
STOP_S = 10.0
AGAIN_S = 10.0  # between two comparisons, if the first one failed
RETRIED = 20  # nodes that were left out, and are read again at each look
NEVER_S = 2.0**33  # later than each row is written


@dataclasses.dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two looks, between two comparisons, and until a service is down."""

    look_s: float = 2.0
    compare_s: float = 60.0
    down_s: float = 60.0


class Mirror:
    """A thread that reads Nova's cells and Placement, and reports what has changed.

    Each scheduler reads the services of all cells. The compute nodes of a cell are read by one of
    the live schedulers. The other schedulers learn of them from the claim store, and read only
    those of which they need newer facts. ``intervals`` returns the Intervals. Correctness of
    claims does not depend on any of them: Placement judges each allocation. ``then`` is called
    after each look of the thread, with whether it has compared; it raises nothing.
    """

    def __init__(
        self, scheduler, cells, api, placement, intervals=Intervals, readers=4, then=lambda _: None
    ):
        self._scheduler, self._clock = scheduler, scheduler.clock
        self._cells, self._api = cells, api
        self._intervals, self._then = intervals, then
        self._views: dict[str, CellView] = {}
        self.nodes = NodeReader(scheduler, placement, readers)
        self._changed_hosts, self._told_hosts = set[str](), set[str]()
        self._changes = threading.Lock()
        self._looking = threading.Lock()  # one look at a time
        self._wake, self._leaving = threading.Event(), threading.Event()
        self._began_s = self._looked_s = self._compared_s = float('-inf')  # of the last look
        self._must_compare, self._have_aggregates_changed = True, False
        self._problems = Problems(LOG)
        self._unreadable: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name='nova-sched-mirror', daemon=True)

    def start(self):
        """Read everything once, and go on in a thread."""
        MEASURES.follow('mirror', self._show)
        with self._looking:
            self._look(compare=True)
        self._thread.start()

    def _show(self):
        """Set the gauges of the mirror."""
        now_s = self._clock()
        CELL_AGE.replace(
            {
                (view.cell.name or uuid,): now_s - view.seen_s
                for uuid, view in self.views.items()
                if view.seen_s is not None
            }
        )
        HOSTS_LEFT_OUT.set(len(self.left_out))

    def stop(self):
        MEASURES.forget('mirror')
        self._leaving.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        self.nodes.stop()

    # Called by other threads.

    def aggregates_changed(self):
        """Read the aggregates at the next look."""
        self._have_aggregates_changed = True
        self._wake.set()

    def compare_soon(self):
        """Compare everything: the cells are to be read again."""
        self._compared_s = float('-inf')
        self._wake.set()

    def host_changed(self, host):
        """Read the nodes of this host at the next look."""
        with self._changes:
            self._changed_hosts.add(host)
        self._wake.set()

    def host_told(self, host):
        """The same, if this scheduler reads the cell of the host: a cast has told all schedulers
        of it, and one of them is to read it."""
        with self._changes:
            self._told_hosts.add(host)
        self._wake.set()

    def read_nodes(self, uuids):
        """Read these nodes now, because a claim on them was refused."""
        with self._looking:
            self._look_at_cells(frozenset(uuids))

    def look_now(self):
        """Look for changes before a request is refused. Returns whether there was a look."""
        refused_s = time.monotonic()
        if not self._looking.acquire(timeout=WAIT_S):
            return False
        try:
            if self._began_s < refused_s:  # else, the look of another refusal was late enough
                self._look_at_cells()
        finally:
            self._looking.release()
        return True

    def not_up(self, node_uuids):
        """Look at these nodes and their services once more, while they are claimed.

        Returns the UUIDs of the nodes that are not up, or not on their hosts any more. If there
        are any, the host state has them, and all services of the cell that are not up, so that
        the next decision avoids them.

        A cell that does not answer counts as up: its hosts are judged by the last look.
        """
        found, gone = set(), set()
        for cell_uuid, hosts in self._scheduler.nova_hosts.hosts_by_cell(node_uuids).items():
            view = self._views.get(cell_uuid)
            if view is None:
                continue
            try:
                rows = self._not_up_in(view, sorted(hosts))
                served = view.cell.served([uuid for uuids in hosts.values() for uuid in uuids])
            except errors.StoreUnavailable:
                continue
            found.update(uuid for row in rows for uuid in hosts[row.host])
            gone.update(
                uuid for host, uuids in hosts.items() for uuid in uuids if served.get(uuid) != host
            )
        if gone:
            self.read_nodes(gone)
        return sorted(found | gone)

    def _not_up_in(self, view, hosts):
        """The ServiceRows of these hosts of a cell that are not up."""
        down_s = self._intervals().down_s
        rows = view.cell.services_not_up(down_s, hosts)
        if rows:
            clock_s, seen = self._clock(), view.cell.look(down_s, NEVER_S)
            facts = {row.host: _facts(row, clock_s - seen.now_s) for row in [*seen.not_up, *rows]}
            self._call('services_are_not_up', view.cell.uuid, facts)
        return rows

    def waits_for_host(self, instance_uuids):
        """Whether Nova builds or moves any of these servers now. Raises StoreUnavailable if no
        database tells so, and one does not answer.

        Nova makes the server in its cell before it deletes the build request, so the build request
        is read first.
        """
        problem = None
        cells = (functools.partial(_has_task, view.cell) for view in [*self._views.values()])
        asked = [self._api.has_build_request, *cells]
        for uuid, is_waiting in itertools.product(instance_uuids, asked):
            try:
                if is_waiting(uuid):
                    return True
            except errors.StoreUnavailable as error:
                problem = error
        if problem is not None:
            raise problem
        return False

    def host_of(self, node_uuid):
        """The host of a compute node that this scheduler has read, also of one that is left out,
        or that it knows from the claim store; else None."""
        for view in [*self._views.values()]:
            stamp = view.stamps.get(node_uuid)
            if stamp is not None:
                return stamp[0]
        return self._scheduler.nova_hosts.host_of(node_uuid)

    @property
    def left_out(self):
        """Why hosts get no servers: a text by host, and by `cell UUID` for all hosts of a cell."""
        found = {f'cell {uuid}': why for uuid, why in self._cells.left_out.items()}
        for view in [*self._views.values()]:
            found |= view.odd_hosts()
        return found

    @property
    def unreadable(self):
        """The parts of the cloud that cannot be read now: why, by name."""
        return dict(sorted(self._unreadable.copy().items()))

    @property
    def views(self):
        """The CellViews of the enabled cells, by the UUIDs of the cells."""
        return dict(sorted(self._views.copy().items()))

    @property
    def serverless(self):
        """The consumers that have allocations but no server, by the UUIDs of all nodes that this
        scheduler reads."""
        return {
            uuid: view.serverless.get(uuid, frozenset())
            for view in [*self._views.values()]
            if view.is_mine
            for uuid in [*view.stamps]
        }

    def has_any(self, node_uuid, providers):
        """Whether any of these providers is in the tree of the compute node."""
        tree = {node_uuid}
        for view in [*self._views.values()]:
            tree.update(view.generations.get(node_uuid, ()))
        return not tree.isdisjoint(providers)

    # The thread.

    def _run(self):
        while not self._leaving.is_set():
            intervals = self._intervals()
            self._wake.wait(max(0.0, self._looked_s + intervals.look_s - time.monotonic()))
            self._wake.clear()
            wait_s = AGAIN_S if self._must_compare else intervals.compare_s
            compare = time.monotonic() >= self._compared_s + min(wait_s, intervals.compare_s)
            if not self._leaving.is_set():
                with self._looking:
                    self._look(compare)
                self._then(compare)

    def _look(self, compare):
        if compare:
            self._must_compare = False
            self._compared_s = time.monotonic()
            is_read = self._try("Nova's API database", self._compare_cloud)
            compare = self._try('Placement', self.nodes.begin_survey)
            self._must_compare |= not (is_read and compare)
        elif self._have_aggregates_changed:
            self._try("Nova's API database", self._read_aggregates)
        try:
            self._look_at_cells(compare=compare)
        finally:
            self.nodes.survey = None

    def _look_at_cells(self, nodes=frozenset(), compare=False):
        self._began_s = time.monotonic()
        with self._changes:
            hosts, self._changed_hosts = self._changed_hosts, set()
            told, self._told_hosts = self._told_hosts, set()
        # Of a cell that another scheduler reads, there may be no stamps here.
        known = self._scheduler.nova_hosts.hosts_by_cell(nodes, hosts)
        wanted_hosts = {host for one in known.values() for host in one}
        for view in self._views.values():
            wanted_hosts.update(view.stamps[uuid][0] for uuid in view.left_out)
        if wanted_hosts - self.nodes.mappings.keys() - {None}:
            self._try("Nova's API database", self._read_mappings)
        position, count = self._scheduler.position_and_count
        for place, (uuid, view) in enumerate(sorted(self._views.items())):
            is_mine = place % count == position
            asked = hosts | told if is_mine else hosts
            wanted = (nodes & view.stamps.keys()) | (view.of_host(asked) if asked else set())
            wanted.update(*known.get(uuid, {}).values())
            if not self._try(_cell(uuid), self._look_at_cell, view, wanted, is_mine, compare):
                self._must_compare = True
        self._looked_s = time.monotonic()

    def _try(self, what, work, *args):
        """Run a step. Returns whether it succeeded. A part of the cloud that cannot be read does
        not keep the scheduler from reading the other parts."""
        try:
            work(*args)
        except errors.SchedError as error:
            self._unreadable[what] = str(error)
            self._problems.begin(
                what, '%s cannot be read: %s; it is read again at each look', what, error
            )
            return False
        except Exception as error:
            if not self._leaving.is_set():
                LOG.exception('A look at %s failed; it is repeated', what)
            self._unreadable[what] = f'{type(error).__name__}: {error}'
            return False
        self._unreadable.pop(what, None)
        self._problems.end(what, '%s can be read again', what)
        return True

    # The whole cloud.

    def _compare_cloud(self):
        """Read the cells, the host mappings and the aggregates again."""
        self._cells.reread()
        enabled = {cell.uuid: cell for cell in self._cells}
        for uuid, cell in enabled.items():
            if uuid not in self._views or self._views[uuid].cell is not cell:
                self._views[uuid] = CellView(cell)
        for uuid in self._views.keys() - enabled.keys():
            del self._views[uuid]
            self._unreadable.pop(_cell(uuid), None)
            self._call('cell_is_disabled', uuid)
            LOG.warning('Cell %s is disabled or gone: its hosts get no servers', uuid)
        self._read_mappings()
        self._read_aggregates()

    def _read_aggregates(self):
        self._have_aggregates_changed = False
        if self._scheduler.position_and_count[0] == 0:
            self._call('aggregates_are', self._cells.aggregates())

    def _read_mappings(self):
        self.nodes.mappings = self._api.host_mappings()

    def _call(self, method, *args):
        """Call a method of NovaHosts in the loop, by its name."""
        return self._scheduler.call(getattr(self._scheduler.nova_hosts, method), *args)

    # A cell.

    def _look_at_cell(self, view, wanted, is_mine, compare):
        view.is_mine = is_mine
        since_s = (view.looked_s or 0.0) - OVERLAP_S if is_mine else NEVER_S
        seen, enabled = self._look_at_services(view, since_s)
        stale = wanted | self._left_out(view) if view.left_out else wanted
        if not (stale or is_mine):
            return
        written = {uuid for uuid, one in seen.written.items() if view.stamps.get(uuid) != one}
        if is_mine:
            stale |= written | (view.stamps.keys() & view.written.union(enabled))
        if compare and is_mine:
            stale |= self.nodes.changed(view)
            self._try('Placement', self.nodes.survey.summarize, len(stale))
        problem = self.nodes.read(view, stale)
        if is_mine and problem is None:
            view.written = set() if view.looked_s is None else written
            view.looked_s = seen.now_s
        if stale:
            self._look_at_services(view)  # they may have changed while nodes were read
        if problem is not None:
            raise problem

    def _left_out(self, view):
        """UUIDs of some nodes that were left out: they are read again.

        If another scheduler reads the cell, only nodes that are in the host state matter here:
        that scheduler may have reported them since.
        """
        if not view.is_mine:
            host_of = self._scheduler.nova_hosts.host_of
            for uuid in [one for one in view.left_out if host_of(one) is None]:
                del view.left_out[uuid]
        return set(random.sample(sorted(view.left_out), min(RETRIED, len(view.left_out))))

    def _look_at_services(self, view, since_s=NEVER_S):
        """Tell the loop of the services of a cell that take no servers, by the clock of the claim
        store. Returns the CellLook, and the UUIDs of nodes that only a trait disables."""
        clock_s = self._clock()
        seen = view.cell.look(self._intervals().down_s, since_s)
        view.seen_s = clock_s
        not_up = {row.host: _facts(row, clock_s - seen.now_s) for row in seen.not_up}
        left_out = {uuid: (view.stamps[uuid][0], why) for uuid, why in view.left_out.items()}
        return seen, self._call(
            'services_are', view.cell.uuid, not_up, left_out, seen.oldest_version
        )


def _cell(uuid):
    return f'Cell {uuid}'


def _facts(row, ahead_s):
    """The ServiceFacts of a ServiceRow, by a clock that is ``ahead_s`` ahead of the cell's."""
    seen_s = max(0.0, row.seen_s + ahead_s)
    return ServiceFacts(row.host, row.disabled, row.disabled_reason, row.forced_down, seen_s)


def _has_task(cell, instance_uuid):
    row = cell.instance(instance_uuid)
    return row is not None and not row.deleted and row.task_state is not None
