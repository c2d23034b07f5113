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
"""Reads compute nodes of cells with their providers, and reports them to the scheduler."""

import concurrent.futures
import dataclasses
import logging
import threading
from collections.abc import Mapping
from typing import Any

from nova_sched import errors
from nova_sched.cloud import node_report
from nova_sched.cloud.placement import NodeProviders
from nova_sched.cloud.survey import Survey
from nova_sched.state.report import ReportOrder

LOG = logging.getLogger(__name__)

NOT_FOUND = 404
BATCH = 200  # nodes that are read and reported at once


@dataclasses.dataclass(slots=True)
class CellView:
    """What a scheduler has read of one cell.

    ``stamps``: node UUID -> (host, `updated_at`), as it was read. ``generations``: node UUID ->
    generations of its providers. ``left_out``: node UUID -> why it gets no servers. ``looked_s``
    is the time of the last look by the cell's clock, ``seen_s`` the one by the store's clock.
    ``written`` are the nodes whose rows were new then: they are read once more, because Nova
    deletes an allocation after it has written the row. ``serverless``: node UUID -> consumers
    of its allocations that are neither an instance nor a migration. Nodes are only read if the
    cell ``is_mine``; else another scheduler reads them.
    """

    cell: Any
    stamps: dict[str, tuple[str, float | None]] = dataclasses.field(default_factory=dict)
    generations: dict[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    looked_s: float | None = None
    seen_s: float | None = None
    serverless: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    is_mine: bool = True
    written: set[str] = dataclasses.field(default_factory=set)

    def odd_hosts(self):
        """Why hosts have nodes that get no servers: a text by host, or by node if it has none."""
        left_out = self.left_out.copy()
        return {self.stamps.get(uuid, (None,))[0] or uuid: why for uuid, why in left_out.items()}

    def of_host(self, hosts):
        """UUIDs of the nodes of these hosts."""
        return {uuid for uuid, (host, _) in self.stamps.items() if host in hosts}


class NodeReader:
    """Reads and reports nodes of a CellView, and updates it.

    ``mappings`` are the cells of all hosts. ``survey`` is there while a comparison goes on.
    """

    def __init__(self, scheduler, placement, readers):
        self._scheduler, self._clock = scheduler, scheduler.clock
        self._placement = placement
        self._pool = concurrent.futures.ThreadPoolExecutor(readers, 'nova-sched-read')
        self.mappings: Mapping[str, str] = {}  # host -> cell UUID
        self.survey: Survey | None = None
        self._surveyed: Mapping[str, int] = {}  # generations of all nodes, from before the survey
        self._odd: dict[tuple[str, str], str] = {}  # provider and name -> why nobody gets it
        self._lock = threading.Lock()

    def stop(self):
        self._pool.shutdown(wait=False, cancel_futures=True)

    def begin_survey(self):
        """Read all provider trees: a comparison begins."""
        self._surveyed = self._call('generations')
        self.survey = Survey(self._placement, self._clock)

    def changed(self, view):
        """Remove nodes that are gone. Returns the UUIDs of those that differ from what was
        read.

        A node may be gone since before this scheduler reads the cell: it is in the host state,
        which has it from the claim store, and it has no stamp.
        """
        seen, stamps = self._call('generations'), view.cell.node_stamps()
        known = view.stamps.keys() | self._call('nodes_of_cell', view.cell.uuid)
        self._remove(view, known - stamps.keys(), seen)
        return {
            uuid
            for uuid, stamp in stamps.items()
            if view.stamps.get(uuid) != stamp
            or view.generations.get(uuid) != self.survey.generations(uuid)
            or stamp[0] not in self.mappings
        }

    def read(self, view, uuids):
        """Read these nodes, and report them; remove those that are gone.

        Returns the PlacementError of one that Placement cannot tell, or None. Raises a SchedError
        if none of them can be read.
        """
        ordered, problem = sorted(uuids), None
        for begin in range(0, len(ordered), BATCH):
            problem = self._read(view, ordered[begin : begin + BATCH]) or problem
        return problem

    def why_not_reported(self, view, uuids):
        """Why the scheduler that reads this cell leaves out these nodes: a text by UUID. Raises a
        SchedError if the cell or Placement does not answer."""
        found = {}
        for row in view.cell.nodes(uuids):
            try:
                node_report.check_row(row)
                node_report.report(
                    row, self._providers(row.uuid), {}, self.mappings.get(row.host), ReportOrder()
                )
            except errors.BadReport as error:
                found[row.uuid] = str(error)
        return found

    def _remove(self, view, uuids, seen):
        """Remove these nodes: the cell was read after they were ``seen``, at these generations,
        and does not have them."""
        host_of = self._scheduler.nova_hosts.host_of
        for uuid in uuids:
            stamp = view.stamps.pop(uuid, None)
            view.left_out.pop(uuid, None)
            host = host_of(uuid) if stamp is None else stamp[0]
            if host is None:  # it was never read, or another scheduler has removed it
                continue
            self._call('node_is_gone', uuid, seen.get(uuid, 0))
            LOG.info('Compute node %s of host %s is gone from its cell', uuid, host)

    def _read(self, view, uuids):
        seen = self._call('generations')
        rows = view.cell.nodes(uuids)
        self._remove(view, set(uuids) - {row.uuid for row in rows}, seen)
        rows, left_out = self._sound(view, rows)
        trees, problem = self._read_trees(view, rows)
        consumers = {consumer for tree in trees.values() for consumer in tree.consumers}
        migrations = view.cell.migrations(sorted(consumers))
        known = migrations.keys() | view.cell.existing(sorted(consumers - migrations.keys()))
        waiting = []
        for row in rows:
            tree = trees.get(row.uuid)
            if tree is None:
                continue
            view.stamps[row.uuid] = row.host, row.updated_s
            view.generations[row.uuid] = tree.generations
            view.serverless[row.uuid] = tree.consumers - known
            try:
                # A node is in the cell that has its row, whatever cell its host is mapped to.
                cell_uuid = view.cell.uuid if row.host in self.mappings else None
                at = seen if tree.sums is None else self._surveyed
                order = ReportOrder(seen=at.get(row.uuid, 0))
                made = node_report.report(row, tree, migrations, cell_uuid, order)
                waiting.append((row.uuid, self._scheduler.begin_report(made)))
            except errors.SchedError as error:
                left_out[row.uuid] = str(error)
            except Exception as error:  # a fault of ours must not cost the other nodes
                LOG.exception('The facts of compute node %s cannot be read', row.uuid)
                left_out[row.uuid] = f'{type(error).__name__}: {error}'
        for uuid, told in waiting:
            try:
                if told.result().stale:  # another scheduler has reported it since it was seen
                    view.generations.pop(uuid, None)
                view.left_out.pop(uuid, None)
            except errors.Invalid as error:
                left_out[uuid] = str(error)
        for uuid, why in left_out.items():
            if view.left_out.get(uuid) != why:
                host = view.stamps[uuid][0]
                LOG.warning('Compute node %s of host %s gets no servers: %s', uuid, host, why)
        view.left_out |= left_out
        return problem

    @staticmethod
    def _sound(view, rows):
        """Returns the rows that name a host and a node, and why not the others, by UUID."""
        sound, left_out = [], {}
        for row in rows:
            try:
                node_report.check_row(row)
                sound.append(row)
            except errors.BadReport as error:
                view.stamps[row.uuid] = row.host, row.updated_s
                left_out[row.uuid] = str(error)
        return sound, left_out

    def _read_trees(self, view, rows):
        """The NodeProviders of these NodeRows, by node, and an error that kept some from being
        read. Raises it if it kept all."""
        instances = self._instances(view, rows)

        def read(row):
            try:
                return self._providers(row.uuid, instances.get(row.uuid)), None
            except errors.PlacementError as error:
                return None, error

        told = dict(zip([row.uuid for row in rows], self._pool.map(read, rows), strict=True))
        trees = {uuid: tree for uuid, (tree, _) in told.items() if tree is not None}
        problem = next((error for _, error in told.values() if error is not None), None)
        if problem is not None and not trees:
            raise problem
        return trees, problem

    def _instances(self, view, rows):
        """The instances of those nodes for which the survey is enough, by node: it has all their
        providers, and no claim is for another server."""
        wanted = [row for row in rows if self.survey and self.survey.has_all(row.uuid)]
        if not wanted:
            return {}
        servers = view.cell.servers_on({row.host for row in wanted})
        found = {row.uuid: servers[row.host, row.hypervisor_hostname] for row in wanted}
        explained = self._call('explained', found)
        return {uuid: found[uuid] for uuid in explained}

    def _providers(self, uuid, instances=None):
        """The NodeProviders of a compute node, from the survey if its ``instances`` are known;
        empty ones if a provider is gone by now. What cannot be counted is left out."""
        try:
            if instances is None:
                found = self._placement.node(uuid)
            else:
                found = self.survey.node(uuid, instances)
        except errors.PlacementRefused as error:
            if error.status == NOT_FOUND:
                return NodeProviders(uuid)
            raise
        found, odd = node_report.countable(found)
        for (provider, name), why in odd.items():
            if self._odd.get((provider, name)) != why:
                LOG.warning(
                    'Nobody gets %s of resource provider %s of compute node %s: %s',
                    name,
                    provider,
                    uuid,
                    why,
                )
        if odd or self._odd:
            with self._lock:
                self._odd = {
                    key: why for key, why in self._odd.items() if key[0] not in found.providers
                } | odd
        return found

    def _call(self, method, *args):
        """Call a method of NovaHosts in the loop, by its name."""
        return self._scheduler.call(getattr(self._scheduler.nova_hosts, method), *args)
