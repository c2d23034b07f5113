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

import contextlib
import dataclasses
import functools
import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping

from nova_sched import errors
from nova_sched.claims import ServiceFacts
from nova_sched.cloud.cells import any_yes
from nova_sched.cloud.node_reader import CellView, NodeReader
from nova_sched.logs import Problems
from nova_sched.measures.catalogue import CELL_AGE, HOSTS_LEFT_OUT, MEASURES

LOG = logging.getLogger(__name__)

OVERLAP_S = 5.0  # rows that were written this long before the last poll are read once more
FRESH_S = 2.0  # until a row is not written again with the same time, which has whole seconds
WAIT_S = 2.0  # that a refusal waits for a poll that is under way
TURN_S = 0.5  # that a check of chosen hosts waits until others of the same cell are done
STOP_S = 10.0
AGAIN_S = 10.0  # between two comparisons, if the first one failed
RETRIED = 20  # nodes that were left out, and are read again at each poll
NEVER_S = 2.0**33  # later than each row is written
UNSETTLED = ('building', 'resized', 'error')  # states of a server that may go to another host


@dataclasses.dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two polls, between two comparisons, and until a service is down."""

    poll_s: float = 2.0
    compare_s: float = 60.0
    down_s: float = 60.0


class Mirror:
    """A thread that reads Nova's cells and Placement, and reports what has changed.

    Each scheduler reads the services of all cells. The compute nodes of a cell are read by one of
    the live schedulers. The other schedulers learn of them from the claim store, and read only
    those of which they need newer facts: before a refusal, the ones that were just written.
    ``intervals`` returns the Intervals. Correctness of claims does not depend on any of them:
    Placement judges each allocation. ``then`` is called after each poll of the thread, with
    whether it has compared; it raises nothing. ``checks`` of chosen hosts may read one cell at a
    time.
    """

    def __init__(
        self,
        scheduler,
        cells,
        api,
        placement,
        intervals=Intervals,
        readers=4,
        then=lambda _: None,
        checks=4,
    ):
        self._scheduler, self._clock = scheduler, scheduler.clock
        self._cells, self._api = cells, api
        self._intervals, self._then = intervals, then
        self._views: dict[str, CellView] = {}
        self._checks = checks
        self._turns: dict[str, threading.Semaphore] = {}  # cell UUID -> for one check each
        self._slow = set[str]()  # UUIDs of cells that no check waits for
        self.nodes = NodeReader(scheduler, placement, readers)
        self._told_hosts = set[str]()
        self._suspects = set[str]()  # UUIDs of nodes to be read by the next poll before a refusal
        self._polling = threading.Lock()  # one poll of the thread at a time
        self._refusing = threading.Lock()  # one poll before refusals at a time
        self._wake, self._leaving = threading.Event(), threading.Event()
        self._polled_s = self._compared_s = float('-inf')  # of the last poll
        self._refused_s = float('-inf')  # when the last poll before a refusal began
        self._must_compare, self._have_aggregates_changed = True, False
        self._problems = Problems(LOG)
        self._unreadable: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name='nova-sched-mirror', daemon=True)

    def start(self):
        """Read everything once, and go on in a thread."""
        MEASURES.follow('mirror', self._show)
        with self._polling:
            self._poll(compare=True)
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
        """Read the aggregates at the next poll."""
        self._have_aggregates_changed = True
        self._wake.set()

    def compare_soon(self):
        """Compare everything: the cells are to be read again."""
        self._compared_s = float('-inf')
        self._wake.set()

    def host_told(self, host):
        """Read the nodes of this host at the next poll, if this scheduler reads its cell: a cast
        has told all schedulers of it, and one of them is to read it."""
        self._told_hosts.add(host)
        self._wake.set()

    def host_changed(self, host):
        """Read the nodes of this host now."""
        self.read_nodes((), {host})

    def read_nodes(self, uuids, hosts=frozenset()):
        """Read these nodes, and those of these hosts, now: a claim there was refused, or made
        elsewhere. Does not wait for a poll."""
        known = self._scheduler.nova_hosts.hosts_by_cell(uuids, hosts)
        for cell_uuid, view in self.views.items():
            # One that is left out is not known.
            wanted = (view.stamps.keys() & set(uuids)) | (view.of_host(hosts) if hosts else set())
            wanted.update(*known.get(cell_uuid, {}).values())
            if wanted:
                self._read_unmapped({self.host_of(uuid) for uuid in wanted})
                self._try(_cell(cell_uuid), self._read_some, view, wanted)

    def _read_some(self, view, uuids):
        problem = self._read(view, uuids, view.cell.now_s(), alone=True)
        self._read_services(view)
        if problem is not None:
            raise problem

    def _read(self, view, uuids, now_s, survey=None, alone=False):
        """Read these nodes; it is ``now_s`` by the cell's clock. Return the error that kept some
        from being read, or None.

        Rows that may be written again with the same time count as not read.
        """
        began_s = self._clock()
        try:
            return self.nodes.read(view, uuids, survey, alone)
        finally:
            _forget_fresh(view, uuids, now_s, now_s + self._clock() - began_s)

    def poll_now(self, suspects=()):
        """Poll all cells, whoever reads them, before a request is refused, and read these nodes
        (UUIDs). Return whether it did."""
        self._suspects.update(suspects)
        refused_s = time.monotonic()
        if not self._refusing.acquire(timeout=WAIT_S):
            return False
        try:
            if self._refused_s < refused_s:  # else, the poll of another refusal was late enough
                self._refused_s = time.monotonic()
                suspected = self._suspects.copy()
                self._suspects -= suspected
                self._poll_cells(suspects=suspected)
        finally:
            self._refusing.release()
        return True

    def not_up(self, node_uuids):
        """Read these nodes and their services once more, while they are claimed.

        Returns the UUIDs of the nodes that are not up, or not on their hosts any more. If there
        are any, the host state has them, and all services of the cell that are not up, so that
        the next decision avoids them.

        A cell that does not answer counts as up: its hosts are judged by the last poll. Then no
        check waits for it until it has answered a poll.
        """
        down, gone = set(), set()
        for cell_uuid, hosts in self._scheduler.nova_hosts.hosts_by_cell(node_uuids).items():
            view = self._views.get(cell_uuid)
            if view is None or cell_uuid in self._slow:
                continue
            turns = self._turns[cell_uuid]
            if not turns.acquire(timeout=TURN_S):
                self._slow.add(cell_uuid)
                continue
            try:
                rows = view.cell.services_not_up(self._intervals().down_s, sorted(hosts))
                if rows:
                    self._read_services(view)
                served = view.cell.served([uuid for uuids in hosts.values() for uuid in uuids])
            except errors.StoreUnavailable:
                self._slow.add(cell_uuid)
                continue
            finally:
                turns.release()
            down.update(uuid for row in rows for uuid in hosts[row.host])
            gone.update(
                uuid for host, uuids in hosts.items() for uuid in uuids if served.get(uuid) != host
            )
        if gone:
            self.read_nodes(gone)
        return sorted(down | gone)

    def waits_for_host(self, instance_uuids):
        """Whether Nova builds or moves any of these servers now. Raises StoreUnavailable if no
        database tells so, and one does not answer.

        Nova makes the server in its cell before it deletes the build request, so the build request
        is read first.
        """
        cells = (functools.partial(_has_task, view.cell) for view in [*self._views.values()])
        questions = [self._api.has_build_request, *cells]
        return any_yes((ask, uuid) for uuid, ask in itertools.product(instance_uuids, questions))

    def host_of(self, node_uuid):
        """The host of a compute node that this scheduler has read, also of one that is left out,
        or that it knows from the claim store; else None."""
        for view in [*self._views.values()]:
            if node_uuid in view.stamps:
                return view.host_of(node_uuid)
        return self._scheduler.nova_hosts.host_of(node_uuid)

    @property
    def left_out(self):
        """Why hosts get no servers: a text by host, and by `cell UUID` for all hosts of a cell."""
        whys = {f'cell {uuid}': why for uuid, why in self._cells.left_out.items()}
        for view in [*self._views.values()]:
            whys |= view.odd_hosts()
        return whys

    @property
    def unreadable(self):
        """The parts of the cloud that cannot be read now: why, by name."""
        return dict(sorted(self._unreadable.copy().items()))

    @property
    def views(self):
        """The CellViews of the enabled cells, by the UUIDs of the cells."""
        return dict(sorted(self._views.copy().items()))

    @property
    def unmatched(self):
        """The consumers that have allocations but no server, and the servers without allocations,
        by the UUIDs of all nodes that this scheduler reads."""
        return {
            uuid: view.unmatched.get(uuid, frozenset())
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
            self._wake.wait(max(0.0, self._polled_s + intervals.poll_s - time.monotonic()))
            self._wake.clear()
            wait_s = AGAIN_S if self._must_compare else intervals.compare_s
            compare = time.monotonic() >= self._compared_s + min(wait_s, intervals.compare_s)
            if not self._leaving.is_set():
                with self._polling:
                    self._poll(compare)
                self._then(compare)

    def _poll(self, compare):
        surveys = []
        if compare:
            self._must_compare = False
            self._compared_s = time.monotonic()
            self._try("Nova's API database", self._compare_cloud)
            self._try('Placement', lambda: surveys.append(self.nodes.survey()))
        elif self._have_aggregates_changed:
            self._try("Nova's API database", self._read_aggregates)
        self._poll_cells(*surveys)

    def _poll_cells(self, survey=None, suspects=None):
        """Poll all cells; with a Survey, compare all nodes. Polls of several threads at a time
        do no harm: each read of a node is reported by itself.

        With ``suspects``, UUIDs of nodes, this is before a refusal: they are read too, and what
        was written in the cells that other schedulers read.
        """
        hosts, views = self._told_hosts.copy(), self.views
        self._told_hosts -= hosts
        left_out = (map(view.host_of, view.left_out.copy()) for view in views.values())
        self._read_unmapped(set(itertools.chain(*left_out)))
        suspected = self._scheduler.nova_hosts.hosts_by_cell(suspects or ())
        position, count = self._scheduler.position_and_count
        for place, (uuid, view) in enumerate(views.items()):
            is_mine = place % count == position
            wanted = view.of_host(hosts) if hosts and is_mine else set()
            wanted.update(*suspected.get(uuid, {}).values())
            is_refusal = suspects is not None
            self._try(_cell(uuid), self._poll_cell, view, wanted, is_mine, is_refusal, survey)
        if survey is not None or suspects is not None:
            self._read_members(views)
        self._polled_s = time.monotonic()

    def _read_members(self, views):
        """Read where members of server groups are that have claims on several nodes."""
        at_rest: dict[str, str] = {}
        for uuid, servers in self.nodes.call('members_on_several_nodes').items():
            if uuid in views and _cell(uuid) not in self._unreadable:
                with contextlib.suppress(errors.StoreUnavailable):  # the next poll tells of it
                    at_rest |= _hosts_at_rest(views[uuid].cell, servers)
        self.nodes.call('servers_rest', at_rest)

    def _read_unmapped(self, hosts):
        """Read the host mappings, if they have not all of these hosts."""
        if hosts - self.nodes.mappings.keys() - {None}:
            self._try("Nova's API database", self._read_mappings)

    def _try(self, what, work, *args):
        """Run a step. A part of the cloud that cannot be read does not keep the scheduler from
        reading the other parts; after that, everything is compared."""
        try:
            work(*args)
        except errors.SchedError as error:
            self._must_compare = True
            self._unreadable[what] = str(error)
            self._problems.begin(
                what, '%s cannot be read: %s; it is read again at each poll', what, error
            )
            return
        except Exception as error:
            self._must_compare = True
            if not self._leaving.is_set():
                LOG.exception('A poll of %s failed; it is repeated', what)
            self._unreadable[what] = f'{type(error).__name__}: {error}'
            return
        self._unreadable.pop(what, None)
        self._problems.end(what, '%s can be read again', what)

    # The whole cloud.

    def _compare_cloud(self):
        """Read the cells, the host mappings and the aggregates again."""
        self._cells.reread()
        enabled = {cell.uuid: cell for cell in self._cells}
        for uuid, cell in enabled.items():
            if uuid not in self._views or self._views[uuid].cell is not cell:
                self._turns[uuid] = threading.Semaphore(self._checks)
                self._views[uuid] = CellView(cell)
        for uuid in self._views.keys() - enabled.keys():
            del self._views[uuid]
            self._unreadable.pop(_cell(uuid), None)
            LOG.warning('Cell %s is disabled or gone: its hosts get no servers', uuid)
        self.nodes.call('cells_are', enabled.keys())
        self._read_mappings()
        self._read_aggregates()

    def _read_aggregates(self):
        self._have_aggregates_changed = False
        if self._scheduler.position_and_count[0] == 0:
            self.nodes.call('aggregates_are', self._cells.aggregates())

    def _read_mappings(self):
        self.nodes.mappings = self._api.host_mappings()

    # A cell.

    def _poll_cell(self, view, wanted, is_mine, is_refusal, survey):
        if is_mine and not view.is_mine:
            view.polled_s = None  # rows that were written since then were not read
        view.is_mine = is_mine
        again = view.again.copy() if is_mine else set()
        view.again -= again
        try:
            problem = self._read_cell(view, wanted, again, is_refusal, survey)
            if problem is not None:
                raise problem
        except Exception:
            if is_mine:
                view.again |= wanted | again
            raise

    def _read_cell(self, view, wanted, again, is_refusal, survey):
        """Read what has changed in a cell, and these nodes. Return the error that kept some from
        being read, or None."""
        since_s = self._since_s(view, is_refusal)
        seen, enabled = self._read_services(view, since_s)
        stale = wanted | again | self._left_out(view)
        written = {uuid for uuid, stamp in seen.written.items() if view.stamps.get(uuid) != stamp}
        self._read_unmapped({seen.written[uuid][0] for uuid in written})
        if since_s != NEVER_S:
            stale |= written | (view.stamps.keys() & set(enabled))
        if survey and view.is_mine:
            stale |= self.nodes.changed(view, survey)
            self._try('Placement', survey.summarize, len(stale))
        problem = self._read(view, stale, seen.now_s, survey if view.is_mine else None)
        if view.is_mine and problem is None and view.polled_s is not None:
            view.again |= written - again
        if problem is None or not view.is_mine:
            view.polled_s = seen.now_s
        if stale:
            self._read_services(view)  # they may have changed while nodes were read
        return problem

    def _since_s(self, view, is_refusal):
        """Return the time, by the cell's clock, since when written rows are to be read.

        The scheduler that reads a cell has polled it in the time between two polls.
        """
        if view.is_mine:
            return (view.polled_s or 0.0) - OVERLAP_S
        if is_refusal and view.polled_s is not None:
            return view.polled_s - self._intervals().poll_s - OVERLAP_S
        return NEVER_S

    def _left_out(self, view):
        """UUIDs of some nodes that were left out: they are read again.

        If another scheduler reads the cell, only nodes that are in the host state matter here:
        that scheduler may have reported them since.
        """
        if not view.is_mine:
            host_of = self._scheduler.nova_hosts.host_of
            for uuid in [node for node in view.left_out.copy() if host_of(node) is None]:
                view.left_out.pop(uuid, None)
        left_out = sorted(view.left_out)
        return set(random.sample(left_out, min(RETRIED, len(left_out))))

    def _read_services(self, view, since_s=NEVER_S):
        """Tell the loop of the services of a cell that take no servers, by the clock of the claim
        store. Returns the CellPoll, and the UUIDs of nodes that only a trait disables."""
        clock_s = self._clock()
        seen = view.cell.poll(self._intervals().down_s, since_s)
        view.seen_s = clock_s
        self._slow.discard(view.cell.uuid)
        not_up = {
            row.host: ServiceFacts(
                row.host,
                row.disabled,
                row.disabled_reason,
                row.forced_down,
                max(0.0, row.seen_s + clock_s - seen.now_s),
            )
            for row in seen.not_up
        }
        left_out = {uuid: (view.host_of(uuid), why) for uuid, why in view.left_out.copy().items()}
        return seen, self.nodes.call(
            'services_are', view.cell.uuid, not_up, left_out, seen.oldest_version
        )


def _cell(uuid):
    return f'Cell {uuid}'


def _hosts_at_rest(cell, servers):
    """Return the hosts of those of these servers that are built and that nothing happens to: no
    task, and no resize to be confirmed or reverted."""
    rows = filter(None, map(cell.server, servers))
    return {
        row.uuid: row.host
        for row in rows
        if row.host and not (row.task_state or row.vm_state in UNSETTLED)
    }


def _forget_fresh(view, uuids, since_s, until_s):
    """Forget the times of those of these nodes that were written shortly before they were read,
    between these times by the cell's clock. A time of the future says nothing."""
    for uuid in uuids:
        host, written_s = view.stamps.get(uuid, (None, None))
        if written_s is not None and since_s - FRESH_S < written_s < until_s + FRESH_S:
            view.stamps[uuid] = host, None


def _has_task(cell, instance_uuid):
    row = cell.server(instance_uuid)
    return row is not None and row.task_state is not None


class MirrorHooks:
    """What a scheduler does after each poll of Nova, such as to write its service record.

    The steps are tried each on its own: one that fails keeps no other from its turn.

    ``steps`` are called with whether the poll has compared, in this order, by the names that the
    log has for them.
    """

    def __init__(self, steps: Mapping[str, Callable[[bool], object]]):
        self._steps = steps
        self._problems = Problems(LOG)

    def run(self, has_compared: bool) -> None:
        """Run all steps. Raises nothing."""
        for name, step in self._steps.items():
            try:
                step(has_compared)
            except errors.SchedError as error:
                self._problems.begin(
                    name, '%s has failed: %s; it is tried again after each poll', name, error
                )
            except Exception:
                LOG.exception('%s has failed with an unexpected error; it is tried again', name)
            else:
                self._problems.end(name, '%s succeeds again', name)
