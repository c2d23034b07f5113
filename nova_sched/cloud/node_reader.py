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

from nova_sched import errors, words
from nova_sched.claims import nova_node
from nova_sched.claims.values import NAMELESS
from nova_sched.cloud import node_report
from nova_sched.cloud.placement import NodeProviders
from nova_sched.state.report import ReportOrder

LOG = logging.getLogger(__name__)

NOT_FOUND = 404
NOBODY = 0, 0  # a census
BATCH = 200  # nodes that are read and reported at once
# A summary of all trees costs Placement as much as to read one in a hundred of them in full.
FEW, SHARE = 30, 0.01


@dataclasses.dataclass(slots=True)
class CellView:
    """What a scheduler has read of one cell. Several threads read it and write to it.

    ``stamps``: node UUID -> (host, `updated_at`), as it was read; the time is None until the store
    has applied that. ``generations``: node UUID -> generations of its providers. ``stored``: node
    UUID -> its generation in the store since then; 0 if its row does not count the hardware of all
    confirmed claims yet. ``left_out``: node UUID -> why it gets no servers. ``polled_s`` is the
    time of the last poll by the cell's clock, ``seen_s`` the one by the store's clock. ``again``
    are nodes to be read at the next poll: their rows were new, and Nova deletes an allocation
    after it has written the row; or what was read was older than a claim there. ``unmatched``:
    node UUID -> consumers of its allocations that are neither an instance nor a migration, and
    instances there without allocations. A provider that only loses allocations keeps its
    generation, so that the instances of a node are compared, too: ``census`` has what was read of
    them (see NovaCell.census), and ``unsettled`` are nodes on which they are not those that have
    allocations: read at each comparison. Nodes are only read if the cell ``is_mine``; else another
    scheduler reads them.
    """

    cell: Any
    stamps: dict[str, tuple[str, float | None]] = dataclasses.field(default_factory=dict)
    generations: dict[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    stored: dict[str, int] = dataclasses.field(default_factory=dict)
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    polled_s: float | None = None
    seen_s: float | None = None
    unmatched: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    is_mine: bool = True
    again: set[str] = dataclasses.field(default_factory=set)
    unsettled: set[str] = dataclasses.field(default_factory=set)
    census: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    def odd_hosts(self):
        """Why hosts have nodes that get no servers: a text by host, or by node if it has none."""
        return {self.host_of(uuid) or uuid: why for uuid, why in self.left_out.copy().items()}

    def host_of(self, uuid):
        """The host of a node, None if it names none, or was never read."""
        return self.stamps.get(uuid, (None,))[0]

    def of_host(self, hosts):
        """UUIDs of the nodes of these hosts."""
        return {uuid for uuid, (host, _) in self.stamps.copy().items() if host in hosts}

    def forget(self, uuid):
        """Forget a node. Returns its host, None if it was never read."""
        for facts in (self.generations, self.stored, self.left_out, self.unmatched, self.census):
            facts.pop(uuid, None)
        self.again.discard(uuid)
        self.unsettled.discard(uuid)
        return self.stamps.pop(uuid, (None,))[0]


class Survey:
    """All provider trees at one moment, and what is used of them: two requests, so that most nodes
    need only one more.

    ``seen`` are the generations that nodes had before they were read, ``census`` has what the
    cells had of their instances.
    """

    def __init__(self, placement, seen):
        self.seen, self._placement = seen, placement
        self.census: dict[str, tuple[int, int]] = {}
        self._trees = placement.provider_trees()
        self._summaries = None

    def summarize(self, nodes):
        """Read what is used, unless that was done, or would cost more than reading this number of
        nodes in full."""
        if self._summaries is None and nodes > max(FEW, len(self._trees) * SHARE):
            self._summaries = {}
            self._summaries = self._placement.summaries()

    def generations(self, root_uuid):
        """The generations of the providers of a tree; none if there is no such tree."""
        tree = self._trees.get(root_uuid, {})
        return {uuid: provider['generation'] for uuid, provider in tree.items()}

    def used(self, root_uuid):
        """What is used of the root of a tree; None if it has not summaries of all its
        providers."""
        tree = self._trees.get(root_uuid)
        if not (tree and self._summaries and tree.keys() <= self._summaries.keys()):
            return None
        return {name: units for name, units in self._summaries[root_uuid].used.items() if units}

    def node(self, uuid, held):
        """The NodeProviders of a compute node, with one request for each of its providers.
        ``held`` says what its consumers are allocated from the root, by consumer."""
        tree = self._trees[uuid]
        return NodeProviders(
            uuid,
            {
                name: {
                    'parent_provider_uuid': provider['parent_provider_uuid'],
                    'inventories': self._placement.inventories(name),
                    'traits': self._summaries[name].traits,
                }
                for name, provider in tree.items()
            },
            self.generations(uuid),
            {uuid: held},
            {name: self._summaries[name].used for name in tree},
        )


class NodeReader:
    """Reads and reports nodes of a CellView, and updates it. Several threads may read at a time,
    also the same node: the store orders their reports.

    ``mappings`` are the cells of all hosts.
    """

    def __init__(self, scheduler, placement, readers):
        self._scheduler, self._placement = scheduler, placement
        # A poll does not wait for a comparison.
        self._polls, self._surveys = (
            concurrent.futures.ThreadPoolExecutor(readers, name)
            for name in ('nova-sched-read', 'nova-sched-compare')
        )
        self.mappings: Mapping[str, str] = {}  # host -> cell UUID
        self._odd: dict[tuple[str, str], str] = {}  # provider and name -> why nobody gets it
        self._lock = threading.Lock()

    def stop(self):
        for pool in (self._polls, self._surveys):
            pool.shutdown(wait=False, cancel_futures=True)

    def survey(self):
        """Read all provider trees. Returns a Survey."""
        return Survey(self._placement, self._scheduler.nova_hosts.generations())

    def changed(self, view, survey):
        """Remove nodes that are gone. Returns the UUIDs of those that differ from what was read,
        and of those that the store has changed since.

        A node may be gone since before this scheduler reads the cell: it is in the host state,
        which has it from the claim store, and it has no stamp.
        """
        stored = self.call('nodes_of_cell', view.cell.uuid)
        stamps, census = view.cell.node_stamps(), view.cell.census()
        survey.census |= census
        self._remove(view, (view.stamps.keys() | stored.keys()) - stamps.keys(), stored)
        return {
            uuid
            for uuid, stamp in stamps.items()
            if view.stamps.get(uuid) != stamp
            or uuid in view.unsettled
            or view.census.get(uuid, NOBODY) != census.get(uuid, NOBODY)
            or view.generations.get(uuid) != survey.generations(uuid)
            or view.stored.get(uuid) != stored.get(uuid)
            or stamp[0] not in self.mappings
        }

    def read(self, view, uuids, survey=None, alone=False):
        """Read these nodes, and report them; remove those that are gone.

        ``alone``: in the thread of the caller, which waits for no other reads. Returns the
        PlacementError of one that Placement cannot tell, or None. Raises a SchedError if none of
        them can be read.
        """
        run = map if alone else (self._surveys if survey else self._polls).map
        ordered, problem = sorted(uuids), None
        for begin in range(0, len(ordered), BATCH):
            batch = ordered[begin : begin + BATCH]
            problem = self._read(view, batch, survey, run) or problem
        return problem

    def why_not_reported(self, view, uuids):
        """Why the scheduler that reads this cell leaves out these nodes: a text by UUID. Raises a
        SchedError if the cell or Placement does not answer."""
        whys = {}
        for row in view.cell.nodes(uuids):
            try:
                node_report.report(
                    row, self._providers(row.uuid), {}, self.mappings.get(row.host), ReportOrder()
                )
            except errors.BadReport as error:
                whys[row.uuid] = str(error)
        return whys

    def _remove(self, view, uuids, seen):
        """Remove these nodes: the cell was read after they were ``seen``, at these generations,
        and does not have them."""
        for uuid in uuids:
            host = view.forget(uuid) or self._scheduler.nova_hosts.host_of(uuid)
            if host is None:  # it was never read, or another scheduler has removed it
                continue
            if self.call('node_is_gone', uuid, view.cell.uuid, seen.get(uuid, 0)):
                LOG.info('Compute node %s of host %s is gone from its cell', uuid, host)

    def _read(self, view, uuids, survey, run):
        """Read some nodes.

        The order shows what is newer: the generations of the nodes in the store, then Placement,
        then the instances, then the rows. So a claim that a generation includes was made before
        its allocations were read, and the row counts the hardware of an instance that the cell
        has shown to be tracked.
        """
        seen = self._scheduler.nova_hosts.generations(uuids)
        trees, problem = self._read_trees(view, uuids, survey, run)
        surveyed = {uuid for uuid, tree in trees.items() if tree.sums is not None}
        rows = view.cell.nodes(uuids, sorted(trees.keys() - surveyed))
        self._remove(view, set(uuids) - {row.uuid for row in rows}, seen)
        consumers = {consumer for tree in trees.values() for consumer in tree.held} - {NAMELESS}
        migrations = view.cell.migrations(sorted(consumers))
        known = migrations.keys() | view.cell.needing(sorted(consumers - migrations.keys()))
        # Servers that are built have no instance in the cell yet; other services have no claims.
        foreign = consumers - known
        foreign -= view.cell.instances(sorted(foreign))
        waiting, left_out = [], {}
        for row in rows:
            tree = trees.get(row.uuid)
            if tree is None:
                continue
            view.stamps[row.uuid] = row.host, None
            view.unmatched[row.uuid] = frozenset(tree.held.keys() - known - {NAMELESS})
            view.unsettled.discard(row.uuid)
            by_survey = row.uuid in surveyed
            view.census[row.uuid] = (
                survey.census.get(row.uuid, NOBODY) if by_survey else row.census
            )
            at = survey.seen if by_survey else seen
            name = row.host, row.hypervisor_hostname
            order = ReportOrder(seen=at.get(row.uuid, at.get(name, 0)))
            try:
                cell_uuid = self._cell_of(view, row)
                report = node_report.report(row, tree, migrations, cell_uuid, order)
                waiting.append((row, tree, report, self._scheduler.begin_report(report)))
            except errors.SchedError as error:
                left_out[row.uuid] = str(error)
            except Exception as error:  # a fault of ours must not cost the other nodes
                LOG.exception('The facts of compute node %s cannot be read', row.uuid)
                left_out[row.uuid] = f'{type(error).__name__}: {error}'
        for row, tree, report, answer in waiting:
            try:
                facts = answer.result()
                self._applied(view, row, tree, report, facts)
                if row.uuid not in surveyed:
                    self._match(view, report, foreign, facts)
            except errors.Invalid as error:
                left_out[row.uuid] = str(error)
        for row in rows:
            if row.uuid in left_out:
                view.stamps[row.uuid] = row.host, row.updated_s
                view.generations[row.uuid] = trees[row.uuid].generations
        for uuid, why in left_out.items():
            if view.left_out.get(uuid) != why:
                host = view.stamps[uuid][0]
                LOG.warning('Compute node %s of host %s gets no servers: %s', uuid, host, why)
        view.left_out |= left_out
        return problem

    @staticmethod
    def _match(view, report, foreign, facts):
        """Note whether the instances of a node are those that have allocations there. Consumers of
        other services count if they have claims."""
        uuid, uses = report.node_uuid, report.nova
        view.unmatched[uuid] |= {
            consumer for consumer, use in uses.items() if not use.is_allocated
        }
        others = foreign - {claim.consumer_uuid for claim in facts.claims}
        if any(use.is_here != use.is_allocated for use in map(uses.get, uses.keys() - others)):
            view.unsettled.add(uuid)

    def _cell_of(self, view, row):
        """The cell of a node: the one that has its row, whatever cell its host is mapped to. None
        if that is none. Raises BadReport if the host's own cell has a node of that name."""
        mapped, other = (
            self.mappings.get(row.host),
            self._scheduler.nova_hosts.cell_of(row.host, row.hypervisor_hostname),
        )
        if mapped is None:
            return None
        if other not in (None, view.cell.uuid) and mapped != view.cell.uuid:
            why = f'cell {other} has a node of that name, and the host is mapped to cell {mapped}'
            raise errors.BadReport(row.hypervisor_hostname or row.uuid, 'hypervisor_hostname', why)
        return view.cell.uuid

    @staticmethod
    def _applied(view, row, tree, report, facts):
        """Remember what was read of a node, if the store has applied all of it."""
        uuid = row.uuid
        view.left_out.pop(uuid, None)
        claims = {claim.consumer_uuid: claim for claim in facts.claims}
        left = nova_node.settle(report.nova, claims, lambda _: True, facts.unclaimed)
        # A claim was newer than the read.
        if facts.stale or left != (claims, [], facts.unclaimed):
            view.again.add(uuid)
        if facts.stale:
            return
        view.stamps[uuid] = row.host, row.updated_s
        view.generations[uuid] = tree.generations
        is_tracked = not any(claim.is_confirmed and claim.uncounted for claim in facts.claims)
        view.stored[uuid] = facts.generation if is_tracked else 0  # it is read again

    def _read_trees(self, view, uuids, survey, run):
        """The NodeProviders of these nodes, by UUID, and an error that kept some from being read.
        Raises it if it kept all."""
        held = self._held(view, uuids, survey) if survey else {}

        def read(uuid):
            try:
                return self._providers(uuid, survey, held.get(uuid)), None
            except errors.PlacementError as error:
                return None, error

        results = dict(zip(uuids, run(read, uuids), strict=True))
        trees = {uuid: tree for uuid, (tree, _) in results.items() if tree is not None}
        problem = next((error for _, error in results.values() if error is not None), None)
        if problem is not None and not trees:
            raise problem
        return trees, problem

    def _held(self, view, uuids, survey):
        """What consumers hold of those nodes for which the survey is enough, by node."""
        used = {uuid: amounts for uuid in uuids if (amounts := survey.used(uuid)) is not None}
        if not used:
            return {}
        servers = view.cell.servers_on(list(used))
        use = {uuid: (amounts, frozenset(servers.get(uuid, ()))) for uuid, amounts in used.items()}
        return self.call('explained', use)

    def _providers(self, uuid, survey=None, held=None):
        """The NodeProviders of a compute node; by the survey, if it is known what is ``held``
        there. Empty ones if a provider is gone by now, or cannot be. Amounts that cannot be
        counted are left out."""
        if not words.is_uuid(uuid):
            return NodeProviders(uuid)
        try:
            providers = self._placement.node(uuid) if held is None else survey.node(uuid, held)
        except errors.PlacementRefused as error:
            if error.status == NOT_FOUND:
                return NodeProviders(uuid)
            raise
        providers, odd = node_report.countable(providers)
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
                    key: why for key, why in self._odd.items() if key[0] not in providers.providers
                } | odd
        return providers

    def call(self, method, *args):
        """Call a method of NovaHosts in the loop, by its name."""
        return self._scheduler.call(getattr(self._scheduler.nova_hosts, method), *args)
