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
"""Keeps the host state and the store consistent: applies every change that is not a decision to
both."""

import collections
import dataclasses
import logging
import threading

from nova_sched import errors
from nova_sched.claim import PLANNED
from nova_sched.claims import GroupGuard, Placement, ServerGroupPolicy, ServiceFacts
from nova_sched.engine.groups import outsiders
from nova_sched.logs import Problems
from nova_sched.state.membership import claims_left

LOG = logging.getLogger(__name__)

UNREAD = -1  # lower than each generation of a node in the store
MAX_STALE_NODES = 100  # stale nodes that are read at once
UNWATCHED_S = 60.0  # three times the interval at which each scheduler looks for overdue claims


class StateSync:
    """Applies changes to the store and to the host state. Its methods run in the loop only.

    ``wake`` is set while nodes are known to be stale: after a commit of this scheduler, their host
    state is not what the store has.
    """

    def __init__(self, context):
        self._cluster, self._store = context.cluster, context.store
        self._settings, self._clock = context.settings, context.clock
        self._reads_nova = context.reads_nova
        self._lists = {}  # host -> instances, as stored from messages
        self._stale = set()  # UUIDs
        self._problems = Problems(LOG)
        self.wake = threading.Event()

    # From the store.

    def refresh(self):
        """Apply all changes of other schedulers in the store to the host state."""
        generations = {node.uuid: node.generation for node in self._cluster}
        self._take_over(self._store.changes(generations))
        self._stale.clear()

    def catch_up(self, nodes, seen):
        """Apply the stored state of these nodes and of the small tables, and the heartbeats in
        ``seen``."""
        self._take_over(dataclasses.replace(self._store.read_nodes(nodes), seen=seen))

    def heal(self):
        """Read some of the stale nodes."""
        self.wake.clear()
        stale = sorted(self._stale)[:MAX_STALE_NODES]
        if stale:
            self.catch_up(stale, {})
        self._stale.difference_update(stale)
        self._mark_stale()

    def _mark_stale(self, nodes=()):
        self._stale.update(nodes)
        if self._stale:
            self.wake.set()

    def _take_over(self, changes):
        # Nova keeps the services of its hosts: the table has none of them.
        if changes.services is not None and not self._reads_nova:
            hosts = {service.host for service in changes.services}
            removed = self._cluster.hosts_with_settings() - hosts
            for service in (*changes.services, *map(ServiceFacts, removed)):
                self._cluster.set_service(**dataclasses.asdict(service))
        if changes.aggregates is not None:
            for aggregate_id, aggregate in self.changed_aggregates(changes.aggregates):
                self._cluster.set_aggregate(aggregate_id, aggregate)
        for uuid in changes.gone:
            self._cluster.remove(uuid)
        # Lists from messages first: a list in a report overrides them, and an unchanged list is
        # skipped.
        for host, instances in (changes.instances or {}).items():
            if self._lists.get(host) != instances:
                self._take_list(host, instances)
        self._adopt_all(changes.nodes)
        for uuid, why in changes.odd.items():
            self._leave_out(uuid, why)
        for uuid, seen_s in changes.seen.items():
            node = self._cluster.node(uuid)
            if node is not None and not self._reads_nova:
                self._cluster.see(node.host, seen_s)

    def changed_aggregates(self, aggregates):
        """(id, aggregate) where the host state differs from all of these; None for one that is
        gone."""
        known = self._cluster.hosts.aggregates
        given = {aggregate.id: aggregate for aggregate in aggregates}
        names = [*(aggregate.id for aggregate in known if aggregate.id not in given), *given]
        return [
            (aggregate_id, given.get(aggregate_id))
            for aggregate_id in names
            if known.get(aggregate_id) != given.get(aggregate_id)
        ]

    def _adopt_all(self, nodes):
        for facts in nodes:
            try:
                self.adopt(facts)
            except Exception as error:
                # What another release has written in an unknown form costs its node alone, and no
                # half of it stays.
                LOG.debug('A node cannot be adopted', exc_info=True)
                self._cluster.remove(facts.report.node_uuid)
                self._leave_out(facts.report.node_uuid, f'{type(error).__name__}: {error}')

    def _leave_out(self, uuid, why):
        """Say why a node is not as the store has it: it is read again at each poll."""
        self._problems.begin(uuid, 'Node %s cannot be read from the store: %s', uuid, why,
                             reason=why)  # fmt: skip

    def adopt(self, facts):
        """Replace the host state of a node by the state in the store."""
        self._problems.end(facts.report.node_uuid, 'Node %s can be read again',
                           facts.report.node_uuid)  # fmt: skip
        twin = self._cluster.find(facts.report.host, facts.report.nodename)
        if twin is not None and twin.uuid != facts.report.node_uuid:
            self._cluster.remove(twin.uuid)
        self._cluster.put(
            facts.report,
            facts.claims,
            facts.foreign,
            facts.foreign_instances,
            facts.generation,
            0.0 if self._reads_nova else facts.seen_s,
            facts.fences,
        )

    def committed(self, won, lost=()):
        """Apply the outcomes of this scheduler's commits to the host state: of the placements that
        ``won``, and of the others.

        A node is stale if commits of other schedulers came in between. Reads the nodes that have
        changed in another way too; rows may change.
        """
        for outcome in won:
            for claim in outcome.claims:
                self._cluster.adopt(claim)
            for uuid, (before, after) in outcome.generations.items():
                node = self._cluster.node(uuid)
                if node is not None and node.generation == before:
                    self._cluster.set_generation(node, after)
                elif before != after:
                    self._mark_stale([uuid])
        if tokens := {uuid for outcome in (*won, *lost) for uuid in outcome.tokens}:
            self._follow_up(tokens)
        fresh: dict = {}
        uses: dict = {}
        for outcome in lost:
            for uuid in outcome.gone:
                self._cluster.remove(uuid)
            fresh |= {facts.report.node_uuid: facts for facts in outcome.fresh}
            uses |= {} if outcome.fresh else outcome.used
        if lost:
            self._adopt_all(fresh.values())
            self._take_uses(uses)

    def _take_uses(self, uses):
        """Apply the usage of nodes (UUID -> amount by class) on which claims were lost for lack of
        room.

        What is not from known claims is unclaimed usage, until the next poll reads the claims of
        other schedulers: the node is of no generation until then. A node that is not fuller than
        it is known to be is read at once: it has become smaller.
        """
        smaller = []
        for uuid, used in uses.items():
            node = self._cluster.node(uuid)
            if node is None:
                continue
            unclaimed = collections.Counter(used)
            for claim in node.claims.values():
                unclaimed.subtract(claim.resources)
            if any(amount > node.foreign.get(name, 0) for name, amount in unclaimed.items()):
                self._cluster.put(
                    node.report,
                    list(node.claims.values()),
                    dict(unclaimed),
                    node.foreign_instances,
                    UNREAD,
                    fences=node.fences,
                )
            else:
                smaller.append(uuid)
        if smaller:
            self._follow_up(smaller)

    def _follow_up(self, nodes):
        """Read nodes that the store has changed. Without an answer they are stale, and are read
        later: what was done is done, and its caller is told so."""
        try:
            self.catch_up(sorted(nodes), {})
        except Exception:
            LOG.warning('%d nodes that have changed are read later', len(nodes), exc_info=True)
            self._mark_stale(nodes)

    def placement(self, claims, requests, ended=(), known=()):
        """The Placement for the store: the claims, the generations at which their CPUs and devices
        were picked, and the policies of their server groups.

        The claims ``ended`` end with it; it changes no other pending claim or open resize than
        these and those ``known``.
        """
        planned = [claim for claim in ended if claim.state == PLANNED]
        # Hardware of a planned claim was not picked now: no other claim has it.
        has_it = [
            (claim.node_uuid, claim.parts) for claim in (*ended, *known) if claim.state == PLANNED
        ]
        generations = {
            claim.node_uuid: self._cluster.node(claim.node_uuid).generation
            for claim in claims
            if claim.parts and (claim.node_uuid, claim.parts) not in has_it
        }
        groups = (request.group for request in requests)
        policies = {group.uuid: group for group in groups if group is not None and group.is_hard}
        # Members of a group that are not on their planned hosts enter other exclusive domains.
        closed_domains: dict = {}
        serial = None
        for request, claim in zip(requests, claims, strict=False):
            member, row = request.member_placement, self._cluster.node(claim.node_uuid).row
            if member is not None and row != member.row:
                serial = member.serial
                closed_domains |= member.closed_domains(row)
        guard = GroupGuard(
            tuple(
                ServerGroupPolicy(
                    policy.uuid,
                    policy.policy,
                    policy.max_server_per_host,
                    claims_left(self._cluster, policy),
                )
                for policy in policies.values()
            ),
            tuple(claim.key for claim in planned),
            serial=serial,
            closed_domains=tuple(closed_domains.values()),
        )
        replaced = (claim for claim in (*ended, *known) if claim.is_provisional)
        runs = {
            (running.uuid, running.number): running.node_uuid
            for consumer in {claim.consumer_uuid for claim in claims}
            for running in self._cluster.claims_of(consumer)
            if running.is_confirmed
        }
        return Placement(
            tuple(claims),
            tuple(claim.key for claim in ended),
            generations,
            frozenset(claim.name for claim in replaced),
            None if guard == GroupGuard() else guard,
            runs=runs,
        )

    def poll_again(self):
        """Apply changes in the store, if it differs from the host state. Returns whether it
        differed."""
        if self._store.digest() == self._cluster.digest:
            return False
        self.refresh()
        return True

    def expire(self):
        """End some of the claims that were not confirmed in time. Time in which no scheduler
        looked for them does not count. Returns whether there may be more."""
        ended, is_more = self._store.expire_some(unwatched_s=UNWATCHED_S)
        self.dropped(ended, 'were never confirmed')
        return is_more

    def dropped(self, claims, why):
        """Remove claims that the store has ended from the host state."""
        self._cluster.drop(*claims)
        self._mark_stale(claim.node_uuid for claim in claims)
        if claims:
            LOG.info('Released %d claims that %s', len(claims), why)

    # Nodes, services, aggregates.

    def check_owner(self, report):
        """Raise NodeOwned if another host reports this node and is up. In Nova's cells, the row of
        a node says which host has it: the driver for bare metal moves nodes between live hosts."""
        node = self._cluster.node(report.node_uuid)
        if self._reads_nova or node is None or node.host == report.host:
            return
        owner = self._cluster.service(node.host)
        silent_s = self._clock() - owner.seen_s
        if not owner.forced_down and silent_s <= self._settings().service_down_time_s:
            why = f'host {report.host} reports it, but it belongs to host {node.host}, which is up'
            raise errors.NodeOwned(report.nodename, 'host', why)

    def set_service(
        self, host, disabled, disabled_reason, forced_down, seen_s, may=lambda stored: True
    ):
        """Store an operator's settings of a host (None: unchanged), and its last heartbeat, if
        ``may`` allows it (see ClaimStore)."""
        word = ServiceFacts(host, disabled, disabled_reason, forced_down, seen_s)
        self._cluster.set_service(**dataclasses.asdict(self._store.set_service(word, may)))

    def remove_node(self, host, nodename, generation=None):
        """Remove a node and its claims, see NodeReports. Raises NodeNotFound, and Outdated if the
        caller does not mean this node."""
        node = self.node(host, nodename)
        if not self._store.remove_node(node.uuid, generation):
            self.catch_up([node.uuid], {})
            if self._cluster.node(node.uuid) is None:
                raise errors.NodeNotFound(f'{nodename} on host {host}')
            why = 'the node has reported, or got claims, since the generation that was named'
            if generation is None:
                why = 'servers run there; name the generation of the node that is meant'
            raise errors.Outdated(f'The removal of node {nodename}', why)
        self._cluster.remove(node.uuid)

    def node(self, host, nodename):
        """The node. One that is unknown here is read from the store. Raises NodeNotFound."""
        node = self._cluster.find(host, nodename)
        if node is None and self.poll_again():
            node = self._cluster.find(host, nodename)
        if node is None:
            raise errors.NodeNotFound(f'{nodename} on host {host}')
        return node

    def on_host(self, claims, host):
        """Those of these claims that are on the host's nodes."""
        nodes = {node.uuid for node in self._cluster.nodes_of(host)}
        return [claim for claim in claims if claim.node_uuid in nodes]

    def claims_of(self, consumer_uuid):
        """The consumer's claims as the store has them; the host state has the same then."""
        claims, known = self._store.claims(consumer_uuid), self._cluster.claims_of(consumer_uuid)
        if {claim.key: claim for claim in claims} != {claim.key: claim for claim in known}:
            self.catch_up(sorted({claim.node_uuid for claim in (*claims, *known)}), {})
        return claims

    def set_aggregates(self, aggregates):
        for aggregate in aggregates:
            self.set_aggregate(aggregate.id, aggregate)

    def set_aggregate(self, aggregate_id, aggregate):
        """Store and apply an aggregate; None removes it."""
        moved = self._store.set_aggregate(aggregate_id, aggregate)
        self._cluster.set_aggregate(aggregate_id, aggregate)
        self.reread_nodes(moved)

    def reread_nodes(self, nodes):
        """Read nodes whose exclusive domains this scheduler has changed, and warn of outside
        instances."""
        if nodes:
            before = outsiders.carried(self._cluster, nodes)
            self.catch_up(sorted(nodes), {})
            outsiders.tell(self._cluster, self._store, before)

    def names(self, node_uuids):
        """(host, nodename) of each node; empty names for one that was removed in the meantime."""
        unknown = {uuid for uuid in node_uuids if self._cluster.node(uuid) is None}
        if unknown:  # no poll has read them yet
            self.catch_up(sorted(unknown), {})
        nodes = {uuid: self._cluster.node(uuid) for uuid in node_uuids}
        return {
            uuid: (node.host, node.nodename) if node else ('', '') for uuid, node in nodes.items()
        }

    # Instances, as messages of hosts report them. They come late or twice, and name no claim: they
    # confirm what is pending, and end nothing.

    def instances_added(self, host, uuids):
        """The host has these instances now: their claims are confirmed."""
        self._tell(host, self._cluster.told(host) | frozenset(uuids), uuids)

    def instances_are(self, host, uuids):
        """The host has exactly these instances."""
        self._tell(host, frozenset(uuids), uuids)

    def instance_gone(self, host, uuid):
        """The host does not have the instance any more."""
        self._tell(host, self._cluster.told(host) - {uuid})

    def _tell(self, host, instances, confirmed=()):
        """Without track_instances, such a message is ignored."""
        if not self._settings().track_instances:
            return
        if instances != self._lists.get(host) or instances != self._cluster.told(host):
            self._store.set_instances(host, instances)
            self._take_list(host, instances)
        # A late message may be of an earlier stay. Where reports list instances, they say which
        # claims are used, and end those that are not.
        nodes = [node for node in self._cluster.nodes_of(host) if node.report.instances is None]
        listed = (node.claims[uuid] for uuid in confirmed for node in nodes if uuid in node.claims)
        waiting = [claim.consumer_uuid for claim in listed if not claim.is_confirmed]
        if waiting:
            self.caught_up_with(self._store.confirm(waiting, [node.uuid for node in nodes]))

    def _take_list(self, host, instances):
        self._lists[host] = instances
        self._cluster.tell(host, instances)

    def allocated(self, claims):
        """Another service has allocated what these claims hold: they are confirmed. Returns those
        that are there, as they were."""
        allocated = self._store.allocated(claims) if claims else []
        self.caught_up_with(allocated)
        return allocated

    def caught_up_with(self, claims):
        """Read the nodes of claims that the store has changed."""
        if claims:
            self._follow_up({claim.node_uuid for claim in claims})
