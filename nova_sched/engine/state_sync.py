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
"""Keeps the cluster and the store alike: every change that is not a decision goes to both through
here."""

import dataclasses
import logging
import math

from nova_sched import errors
from nova_sched.claims import Placement, Policy, ServiceFacts
from nova_sched.claims.order import Meant
from nova_sched.engine import outsiders
from nova_sched.engine.replica_sync import ReplicaSync
from nova_sched.objects.claim import PLANNED

LOG = logging.getLogger(__name__)


class StateSync:
    """What the engine knows, in step with what the store keeps. Its methods run in the loop
    only."""

    def __init__(self, cluster, store, settings, clock, replica_sync=None):
        self._cluster = cluster
        self._store = store
        self._settings = settings
        self._clock = clock
        self._replica_sync = ReplicaSync(cluster) if replica_sync is None else replica_sync
        self._lists = {}  # host -> instances, as the store has them from messages

    # From the store.

    def refresh(self):
        """Take over all that others changed in the store."""
        generations = {node.uuid: node.generation for node in self._cluster}
        self._take_over(self._store.changes(generations))

    def catch_up(self, nodes, seen):
        """Take over what others did to these nodes and to the small tables, and these signs of
        life."""
        self._take_over(dataclasses.replace(self._store.look(nodes), seen=seen))

    def heal(self):
        """Take over what others told of, as far as it did not follow on what is known here."""
        self._replica_sync.look(self.catch_up)

    def _take_over(self, changes):
        for service in changes.services or ():
            self._cluster.set_service(**dataclasses.asdict(service))
        if changes.aggregates is not None:
            self._replace_aggregates(changes.aggregates)
        for uuid in changes.gone:
            self._cluster.remove(uuid)
        # Lists from messages first: a report with a list knows better, and an old list is no news.
        for host, instances in (changes.instances or {}).items():
            if self._lists.get(host) != instances:
                self._take_list(host, instances)
        self._adopt_all(changes.nodes)
        for uuid, seen_s in changes.seen.items():
            node = self._cluster.node(uuid)
            if node is not None:
                self._cluster.see(node.host, seen_s)

    def _replace_aggregates(self, aggregates):
        known = {aggregate.id for aggregate in aggregates}
        for gone in [one.id for one in self._cluster.hosts.aggregates if one.id not in known]:
            self._cluster.set_aggregate(gone, None)
        for aggregate in aggregates:
            if self._cluster.hosts.aggregates.get(aggregate.id) != aggregate:
                self._cluster.set_aggregate(aggregate.id, aggregate)

    def _adopt_all(self, nodes):
        for facts in nodes:
            try:
                self.adopt(facts)
            except Exception:
                # One that cannot be understood, as another release may have written it, keeps no
                # other out.
                LOG.exception(
                    'Node %s cannot be taken over from the store', facts.report.node_uuid
                )

    def adopt(self, facts):
        """Make a node what the store says of it."""
        twin = self._cluster.find(facts.report.host, facts.report.nodename)
        if twin is not None and twin.uuid != facts.report.node_uuid:
            self._cluster.remove(twin.uuid)
        self._cluster.put(
            facts.report,
            facts.claims,
            facts.foreign,
            facts.foreign_instances,
            facts.generation,
            facts.seen_s,
            facts.fences,
        )

    def follow(self, outcome):
        """Note what our own commit made of its claims and of the generations of their nodes.

        Where others came between, a refresh will look.
        """
        for claim in outcome.claims:
            self._cluster.restamp(claim)
        for uuid, (before, after) in outcome.generations.items():
            node = self._cluster.node(uuid)
            if node is not None and node.generation == before:
                node.generation = after

    def placement(self, claims, requests, releases=(), replaced=(), new=False, unplaced=False):
        """The claims for the store: with the generations that their CPUs and devices were picked
        at, and the policies of their groups. ``new`` and ``unplaced``: as in Placement."""
        # What is taken over from a planned claim was not picked now: nobody else has it.
        planned = [(claim.node_uuid, claim.parts) for claim in replaced if claim.state == PLANNED]
        picked = {
            claim.node_uuid
            for claim in claims
            if claim.parts and (claim.node_uuid, claim.parts) not in planned
        }
        generations = {uuid: self._cluster.node(uuid).generation for uuid in picked}
        groups = (request.group for request in requests)
        policies = {group.uuid: group for group in groups if group is not None and group.is_hard}
        ending = set(releases)
        walls, serial = self._entered_domains(requests, claims)
        return Placement(
            tuple(claims),
            tuple(releases),
            generations,
            tuple(
                Policy(one.uuid, one.policy, one.max_server_per_host) for one in policies.values()
            ),
            frozenset(claim.uuid for claim in replaced),
            takes=tuple(
                claim.key for claim in replaced if claim.state == PLANNED and claim.key in ending
            ),
            serial=serial,
            fences=tuple(walls.values()),
            new=new,
            unplaced=unplaced,
        )

    def _entered_domains(self, requests, claims):
        """For members of a top group that are not where they were planned: the fences that go up
        round them, by token, and the serial that the group must be at."""
        walls: dict = {}
        serial = None
        for request, claim in zip(requests, claims, strict=False):
            placement, row = request.member_placement, self._cluster.node(claim.node_uuid).row
            if placement is not None and row != placement.row:
                serial = placement.serial
                walls |= placement.fences(row)
        return walls, serial

    def learn(self, outcomes):
        """Take over the nodes that losers were wrong about."""
        for uuid in {uuid for outcome in outcomes for uuid in outcome.gone}:
            self._cluster.remove(uuid)
        self._adopt_all(
            {one.report.node_uuid: one for outcome in outcomes for one in outcome.fresh}.values()
        )

    def refenced(self, outcomes):
        """Take over the nodes that commits of ours have brought behind fences."""
        nodes = sorted({uuid for outcome in outcomes for uuid in outcome.fences})
        if nodes:
            self._replica_sync.changed(nodes)
            self.catch_up(nodes, {})

    def look_again(self):
        """Catch up with the store, if anything there is different; say whether it was."""
        generations = {node.uuid: node.generation for node in self._cluster}
        if self._store.digest() == (
            len(generations),
            sum(one or 0 for one in generations.values()),
        ):
            return False
        self._take_over(self._store.changes(generations))
        return True

    def expire(self):
        """End the claims that nobody confirmed in time."""
        while ended := self._store.expire():
            self.dropped(ended, 'were never confirmed')

    def dropped(self, claims, why):
        """Forget claims that the store has ended."""
        for claim in claims:
            self._cluster.drop(claim)
        nodes = {claim.node_uuid for claim in claims}
        if tokens := {token for claim in claims for token in claim.fences}:
            nodes |= {node.uuid for node in self._cluster if not tokens.isdisjoint(node.fences)}
        self._replica_sync.changed(nodes)
        if claims:
            LOG.info('Released %d claims that %s', len(claims), why)

    # Nodes, services, aggregates.

    def check_owner(self, report):
        """Raise NodeOwned if another host reports this node and is up."""
        node = self._cluster.node(report.node_uuid)
        if node is None or node.host == report.host:
            return
        owner = self._cluster.service(node.host)
        silent_s = self._clock() - owner.seen_s
        if not owner.forced_down and silent_s <= self._settings().service_down_time_s:
            why = f'host {report.host} reports it, but it belongs to host {node.host}, which is up'
            raise errors.NodeOwned(report.nodename, 'host', why)

    def set_service(self, host, disabled, disabled_reason, forced_down, seen_s):
        """Keep an operator's word on a host (None: as it was), and its last sign of life."""
        word = ServiceFacts(host, disabled, disabled_reason, forced_down, seen_s)
        self._cluster.set_service(**dataclasses.asdict(self._store.set_service(word)))
        self._replica_sync.tables_changed()

    def remove_node(self, host, nodename, since_s=math.inf):
        """Forget a node and its claims. Raises NodeNotFound; Outdated for one that has come after
        ``since_s``."""
        node = self.node(host, nodename)
        if not self._store.remove_node(node.uuid, since_s):
            self.catch_up([node.uuid], {})
            if self._cluster.node(node.uuid) is None:
                raise errors.NodeNotFound(f'{nodename} on host {host}')
            raise errors.Outdated(
                f'The removal of node {nodename}', 'the node has come back since'
            )
        self._cluster.remove(node.uuid)
        self._replica_sync.changed([node.uuid])

    def node(self, host, nodename):
        """The node, which may have come to another scheduler a moment ago. Raises NodeNotFound."""
        node = self._cluster.find(host, nodename)
        if node is None and self.look_again():
            node = self._cluster.find(host, nodename)
        if node is None:
            raise errors.NodeNotFound(f'{nodename} on host {host}')
        return node

    def nodes_of(self, host, claims=()):
        """UUIDs of the host's nodes, those among them that are known only by these claims of the
        store."""
        unknown = {
            claim.node_uuid for claim in claims if self._cluster.node(claim.node_uuid) is None
        }
        if unknown:
            self.catch_up(sorted(unknown), {})
        return {node.uuid for node in self._cluster.nodes_of(host)}

    def set_aggregates(self, aggregates):
        for aggregate in aggregates:
            self._set_aggregate(aggregate.id, aggregate)
        self._replica_sync.tables_changed()

    def delete_aggregate(self, aggregate_id):
        self._set_aggregate(aggregate_id, None)
        self._replica_sync.tables_changed()

    def _set_aggregate(self, aggregate_id, aggregate):
        moved = self._store.set_aggregate(aggregate_id, aggregate)
        self._cluster.set_aggregate(aggregate_id, aggregate)
        self.refence(moved)

    def refence(self, nodes):
        """Read nodes whose fences this scheduler has changed, and warn of outsiders there."""
        if nodes:
            before = outsiders.carried(self._cluster, nodes)
            self._replica_sync.changed(nodes)
            self.catch_up(sorted(nodes), {})
            outsiders.tell(self._cluster, self._store, before)

    def names(self, node_uuids):
        """(host, nodename) of each node; empty names for one that left meanwhile."""
        nodes = {uuid: self._cluster.node(uuid) for uuid in node_uuids}
        return {
            uuid: (node.host, node.nodename) if node else ('', '') for uuid, node in nodes.items()
        }

    # Instances, as hosts' messages tell; without track_instances nobody listens to them.

    # Each was sent after ``since_s``: what has changed since then stays as it is.

    def instances_added(self, host, uuids, since_s=math.inf):
        """The host has these instances now: their claims are confirmed."""
        if self._settings().track_instances:
            self._tell(host, self._cluster.told(host) | frozenset(uuids), since_s)
            self._confirm(host, uuids, since_s)

    def instances_are(self, host, uuids, since_s=math.inf):
        """The host has exactly these instances: confirmed claims of others end."""
        if self._settings().track_instances:
            listed = frozenset(uuids)
            self._tell(host, listed, since_s)
            self._confirm(host, listed, since_s)
            self._release_confirmed(host, lambda consumer: consumer not in listed, since_s)

    def instance_gone(self, host, uuid, since_s=math.inf):
        """The host does not have the instance any more; a claim that still waits for it stays."""
        if self._settings().track_instances:
            self._tell(host, self._cluster.told(host) - {uuid}, since_s)
            self._release_confirmed(host, lambda consumer: consumer == uuid, since_s)

    def _tell(self, host, instances, since_s):
        is_news = instances != self._lists.get(host) or instances != self._cluster.told(host)
        if is_news and self._store.set_instances(host, instances, since_s):
            self._take_list(host, instances)
            self._replica_sync.tables_changed()

    def _take_list(self, host, instances):
        self._lists[host] = instances
        self._cluster.tell(host, instances)

    def _confirm(self, host, uuids, since_s):
        nodes = self._cluster.nodes_of(host)
        found = (node.claims[uuid] for uuid in uuids for node in nodes if uuid in node.claims)
        waiting = [
            one.consumer_uuid for one in found if not one.is_confirmed and one.created_s <= since_s
        ]
        if waiting:
            changed = self._store.confirm(waiting, [node.uuid for node in nodes])
            self.caught_up_with(changed)

    def caught_up_with(self, claims):
        """Take over the nodes of claims that the store has changed."""
        if claims:
            nodes = sorted({claim.node_uuid for claim in claims})
            self._replica_sync.changed(nodes)
            self.catch_up(nodes, {})

    def _release_confirmed(self, host, gone, since_s):
        keys = [claim.key for node in self._cluster.nodes_of(host) for claim in node.claims.values()
                if claim.is_confirmed and gone(claim.consumer_uuid)]  # fmt: skip
        if keys:
            ended = self._store.release(keys, absent=True, meant=Meant(since_s=since_s))
            self.dropped(ended, 'their node does not report any more')
