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
"""Applies what was read from Nova's databases to the host state and the store."""

import collections
import dataclasses
import types

import numpy as np

from nova_sched.claim import PENDING
from nova_sched.claims import ClaimSelector, ServiceFacts
from nova_sched.claims.values import NAMELESS, sums
from nova_sched.engine.decide import CandidateSet, narrow
from nova_sched.state import node as node_state
from nova_sched.state.report import DISABLED_TRAIT

UP, LEFT_OUT, DISABLED, FORCED_DOWN = 'up', 'left out', 'disabled', 'forced down'
SILENT = 'silent'

OWNER_SINCE = 73  # version of the compute services whose providers all have OWNER_NOVA
SHOWN_PER_DOWN_TIME = 3  # times that a host that is up is marked so, in service_down_time


class NovaHosts:
    """The hosts of Nova's cells. Its methods run in the loop, unless they say otherwise.

    Services are not stored: each scheduler reads them itself.
    """

    def __init__(self, context, state_sync):
        self._cluster, self._store = context.cluster, context.store
        self._settings, self._clock = context.settings, context.clock
        self._state_sync = state_sync
        self._not_up = {}  # cell UUID -> host -> ServiceFacts
        self._enabled = frozenset[str]()  # UUIDs of cells
        self._oldest = {}  # cell UUID -> lowest version of its compute services

    def cells_are(self, enabled):
        """Apply the UUIDs of the enabled cells of Nova: the hosts of others get no servers."""
        hosts, why = self._cluster.hosts, 'its cell is disabled'
        self._enabled = frozenset(enabled)
        cells = {hosts.cells.words[number] for number in np.unique(hosts.cell).tolist()}
        for cell_uuid in cells - self._enabled - {None}:
            known = {node.host for node in self._cluster if node.cell_uuid == cell_uuid}
            self.services_are(cell_uuid, {host: ServiceFacts(host, True, why) for host in known})
        for cell_uuid in self._oldest.keys() - self._enabled:
            del self._oldest[cell_uuid]
        self._require_owner()

    def services_are(
        self, cell_uuid, not_up, left_out=types.MappingProxyType({}), oldest_version=None
    ):
        """Apply the compute services of one cell of Nova to its nodes. ``not_up`` (host ->
        ServiceFacts) are those that are disabled, forced down or silent; all others are up now.
        ``left_out`` (node UUID -> host, why) are rows of the cell whose nodes get no servers; so
        does the service of a host if no node of it is known. ``oldest_version`` is that of the
        cell's compute services.

        Returns the UUIDs of the nodes that only a trait of their provider disables: Nova removes
        it a moment after a service is enabled.
        """
        hosts, now_s = self._cluster.hosts, self._clock()
        of_cell = hosts.cell == hosts.cells.id(cell_uuid)
        odd = {hosts.nodes[row].uuid for row in np.flatnonzero(of_cell & hosts.disabled).tolist()}
        for uuid in odd | left_out.keys():
            node = self._cluster.node(uuid)
            if node is not None and node.cell_uuid == cell_uuid:
                self._cluster.leave_out(uuid, left_out[uuid][1] if uuid in left_out else None)
        self._oldest[cell_uuid] = oldest_version
        self._require_owner()
        not_up = {**not_up, **self._hosts_left_out(not_up, left_out)}
        before = self._not_up.get(cell_uuid, {})
        for host in before.keys() - not_up.keys():
            self._cluster.set_service(host, False, None, False, now_s, cell_uuid)
        for host, facts in not_up.items():
            if before.get(host) != facts:
                self._cluster.set_service(**dataclasses.asdict(facts), cell_uuid=cell_uuid)
                self._cluster.silence(host, facts.seen_s, cell_uuid)
        self._not_up[cell_uuid] = not_up
        hosts.left_out = len(
            {
                host
                for services in self._not_up.values()
                for host in services
                if host not in hosts.rows_of_host and self._cluster.service(host).is_left_out
            }
        )
        # Not all of them at each poll: each change makes the row's verdicts new.
        shown_s = now_s - self._settings().service_down_time_s / SHOWN_PER_DOWN_TIME
        for row in np.flatnonzero(of_cell & (hosts.seen_s < shown_s)).tolist():
            host = hosts.nodes[row].host
            if host not in not_up:
                self._cluster.see(host, now_s, cell_uuid)
        disabled = (hosts.nodes[row] for row in np.flatnonzero(of_cell & hosts.disabled).tolist())
        return [node.uuid for node in disabled if not (node.service.disabled or node.why_left_out)]

    def _require_owner(self):
        """Require OWNER_NOVA of the providers once all compute services of the enabled cells
        report it, as Nova does."""
        versions = [self._oldest.get(cell_uuid) for cell_uuid in self._enabled]
        known = [version for version in versions if version]
        is_owned = (
            bool(known) and min(known) >= OWNER_SINCE and self._enabled <= self._oldest.keys()
        )
        if is_owned != self._cluster.hosts.is_owned:
            self._cluster.hosts.is_owned = is_owned
            self._cluster.hosts.forget()

    def _hosts_left_out(self, not_up, left_out):
        """The ServiceFacts of the hosts of which all nodes were always left out, by host: no
        node is known there."""
        whys = {host: why for host, why in left_out.values() if host is not None}
        return {
            host: dataclasses.replace(
                facts, disabled=True, disabled_reason=f'{node_state.LEFT_OUT}{why}'
            )
            for host, why in whys.items()
            if not (facts := not_up.get(host, ServiceFacts(host))).disabled
            and not self._cluster.nodes_of(host)
        }

    def host_of(self, node_uuid):
        """Return the host of a compute node, or None. May be called from any thread."""
        node = self._cluster.node(node_uuid)
        return node and node.host

    def cell_of(self, host, nodename):
        """Return the UUID of the cell that has a node of this name; None: there is no such node.
        May be called from any thread."""
        node = self._cluster.find(host, nodename)
        return node and node.cell_uuid

    def nodes_of_cell(self, cell_uuid):
        """Return UUID -> generation of the nodes of a cell."""
        hosts = self._cluster.hosts
        rows = np.flatnonzero(hosts.cell == hosts.cells.id(cell_uuid))
        nodes = (hosts.nodes[row] for row in rows.tolist())
        return {node.uuid: node.generation for node in nodes}

    def generations(self, node_uuids=None):
        """Return the generations of these nodes, by UUID and by (host, nodename); of all nodes if
        they are not given, or not all known: a new node may have the name of one that is known.

        What is read after this knows of all changes up to these generations. May be called from
        any thread.
        """
        nodes = None if node_uuids is None else [*map(self._cluster.node, node_uuids)]
        if nodes is None or None in nodes:
            nodes = self._cluster.snapshot()
        names = {(node.host, node.nodename): node.generation for node in nodes}
        return {**names, **{node.uuid: node.generation for node in nodes}}

    def scope(self, request):
        """Return what the caller of a request allows, as Placement knows it: the UUID of the only
        compute node, or None; the UUIDs of the aggregates of its availability zone; and whether
        all providers of Nova have the trait OWNER_NOVA."""
        hosts = self._cluster.hosts
        candidates = CandidateSet(len(hosts))
        narrow(candidates, hosts, request)
        rows, zone = candidates.rows(), request.availability_zone
        of_zone = (
            aggregate
            for aggregate in hosts.aggregates
            if zone and aggregate.availability_zone == zone
        )
        return (
            hosts.nodes[rows[0]].uuid if len(rows) == 1 else None,
            frozenset(aggregate.uuid for aggregate in of_zone if aggregate.uuid is not None),
            hosts.is_owned,
        )

    def hosts_by_cell(self, node_uuids, hosts=frozenset()):
        """Return cell UUID -> host -> UUIDs of these nodes, and of all nodes of these hosts. May
        be called from any thread."""
        nodes = [self._cluster.node(uuid) for uuid in node_uuids]
        if hosts:
            nodes += [node for node in self._cluster.snapshot() if node.host in hosts]
        by_cell: dict[str | None, dict[str, list[str]]] = {}
        for node in nodes:
            if node is not None:
                by_cell.setdefault(node.cell_uuid, {}).setdefault(node.host, []).append(node.uuid)
        return by_cell

    def nodes_of_claims(self, requests):
        """Return the UUIDs of the nodes that have claims of the instances of these requests, or of
        the members of their server groups: such a claim may be why a request has no host."""
        consumers = {request.instance_uuid for request in requests}
        for group in filter(None, (request.group for request in requests)):
            consumers |= group.members | self._cluster.members_of(group.uuid)
        return {
            claim.node_uuid
            for consumer in consumers
            for claim in self._cluster.claims_of(consumer)
        }

    def members_on_several_nodes(self):
        """Return cell UUID -> members of server groups that have claims on several nodes, one of
        them in that cell."""
        by_cell = collections.defaultdict(set)
        for server in self._cluster.members_on_several_nodes():
            for claim in self._cluster.claims_of(server):
                by_cell[self._cluster.node(claim.node_uuid).cell_uuid].add(server)
        return by_cell

    def servers_rest(self, hosts):
        """Apply the hosts of those of these members, by UUID, to which nothing happens now."""
        self._cluster.at_rest = hosts

    def explained(self, nodes):
        """Return what the consumers of nodes hold (by node and consumer), of those nodes for
        which Placement need not tell it. ``nodes`` maps their UUIDs to what Placement has in all,
        and to the instances that Nova has there.

        These are nodes without claims: all is unclaimed. And nodes whose claims are for just these
        instances, and add up to just that.
        """
        usages = {}
        for uuid, (used, instances) in nodes.items():
            node = self._cluster.node(uuid)
            claims = node.claims if node is not None else {}
            if not claims:
                usages[uuid] = {NAMELESS: used, **{instance: {} for instance in instances}}
            elif claims.keys() == instances and all(
                # Nothing is open on the claim of a server that Nova has built.
                claim.is_confirmed and not (claim.resizing or claim.uncounted)
                for claim in claims.values()
            ):
                held = {consumer: claim.resources for consumer, claim in claims.items()}
                total = sums(held.values())
                if {name: units for name, units in total.items() if units} == used:
                    usages[uuid] = held
        return usages

    def standing(self):
        """Return cell UUID -> host -> (state, why) for each host that has reported. ``state`` is
        one of UP, LEFT_OUT, DISABLED, FORCED_DOWN and SILENT; ``why`` is None for UP. A host is UP
        if one of its nodes is."""
        by_cell: dict[str | None, dict[str, tuple[str, str | None]]] = {}
        for node in self._cluster:
            of_cell = by_cell.setdefault(node.cell_uuid, {})
            if of_cell.get(node.host, (None,))[0] != UP:
                of_cell[node.host] = self._standing(node)
        return by_cell

    def _standing(self, node):
        hosts, service = self._cluster.hosts, node.service
        silent_s = self._clock() - float(hosts.seen_s[node.row])
        if service.is_left_out:
            return LEFT_OUT, service.disabled_reason.removeprefix(node_state.LEFT_OUT)
        if node.why_left_out:
            return LEFT_OUT, node.why_left_out
        if service.disabled:
            return DISABLED, f'its service is disabled: {service.disabled_reason or "no reason"}'
        if hosts.disabled[node.row]:
            return DISABLED, f'its provider has the trait {DISABLED_TRAIT}'
        if hosts.forced_down[node.row]:
            return FORCED_DOWN, 'its service is forced down'
        if silent_s > self._settings().service_down_time_s:
            return SILENT, f'the last heartbeat of its service is {silent_s:.0f} s old'
        return UP, None

    def node_is_gone(self, uuid, cell_uuid, generation):
        """Remove a node and its claims: its cell, which was read after the node was seen at this
        generation, does not have it. Another cell may have it by now. Returns whether it was
        removed."""
        self._state_sync.catch_up([uuid], {})
        node = self._cluster.node(uuid)
        if node is None or node.cell_uuid != cell_uuid:
            return False
        is_removed = self._store.remove_node(uuid, generation)
        if is_removed:
            self._cluster.remove(uuid)
        return is_removed

    def aggregates_are(self, aggregates):
        """Apply all aggregates of Nova to the store and the host state."""
        for aggregate_id, aggregate in self._state_sync.changed_aggregates(aggregates):
            self._state_sync.set_aggregate(aggregate_id, aggregate)

    def unsettled_claims(self, before_s, unmatched):
        """Return the claims on some nodes that were made before that time, and are pending,
        without a server, or without allocations; no planned ones.

        ``unmatched`` are the consumers that lack either, by the UUIDs of all these nodes.
        """
        nodes = ((self._cluster.node(uuid), consumers) for uuid, consumers in unmatched.items())
        return [
            claim
            for node, consumers in nodes
            if node is not None
            for claim in node.claims.values()
            if (claim.state == PENDING and claim.changed_s < before_s)
            or (claim.consumer_uuid in consumers and claim.created_s < before_s)
        ]

    def end_claim(self, claim):
        """End this claim, unless it has changed. Returns whether it ended."""
        ended = self._store.release([claim.key], selector=ClaimSelector(row=claim)).changed
        self._state_sync.dropped(ended, 'no server will use')
        return bool(ended)
