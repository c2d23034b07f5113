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
"""Keeps the cluster and the store alike: every change that is not a decision goes to both through here."""

import dataclasses
import logging

import numpy as np

from nova_sched import errors
from nova_sched.claims import Fence, Placement, Policy, ServiceFacts
from nova_sched.engine import catalog
from nova_sched.engine.freshness import Freshness
from nova_sched.engine.seating import Seating, Unseated, is_member
from nova_sched.objects.claim import PLANNED, RESIZE
from nova_sched.state.membership import group_now

LOG = logging.getLogger(__name__)


class Books:
    """What the engine knows, in step with what the store keeps. Its methods run in the loop only."""

    def __init__(self, cluster, store, settings, clock, fresh=None):
        self._cluster = cluster
        self._store = store
        self._settings = settings
        self._clock = clock
        self._fresh = Freshness(cluster) if fresh is None else fresh
        self.seating: Seating  # of members of top groups
        self._lists = {}  # host -> instances, as the store has them from messages

    # From the store.

    def refresh(self):
        """Take over all that others changed in the store."""
        generations = {node.uuid: node.generation for node in self._cluster}
        self._take_over(self._store.changes(generations))

    def catch_up(self, nodes, seen):
        """Take over what others did to these nodes and to the small tables, and these signs of life."""
        self._take_over(dataclasses.replace(self._store.look(nodes), seen=seen))

    def heal(self):
        """Take over what others told of, as far as it did not follow on what is known here."""
        self._fresh.look(self.catch_up)

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
                # One that cannot be understood, as another release may have written it, keeps no other out.
                LOG.exception('Node %s cannot be taken over from the store', facts.report.node_uuid)

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

    def follow(self, generations):
        """Note the generations that our own commit made; where others came between, a refresh will look."""
        for uuid, (before, after) in generations.items():
            node = self._cluster.node(uuid)
            if node is not None and node.generation == before:
                node.generation = after

    def placement(self, claims, requests, releases=(), replaced=(), new=False):
        """The claims for the store: with the generations that their CPUs and devices were picked at, and the
        policies of their groups. ``new``: as in Placement."""
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
        walls, serial = self._seats(requests, claims)
        return Placement(
            tuple(claims),
            tuple(releases),
            generations,
            tuple(Policy(one.uuid, one.policy, one.max_server_per_host) for one in policies.values()),
            frozenset(claim.uuid for claim in replaced),
            takes=tuple(claim.key for claim in replaced if claim.state == PLANNED and claim.key in ending),
            serial=serial,
            fences=tuple(Fence(token, nodes) for token, nodes in walls.items()),
            new=new,
        )

    def _seats(self, requests, claims):
        """For members of a top group that are not where they were planned: the fences that go up round them,
        by token, and the serial that the group must be at."""
        walls: dict = {}
        serial = None
        for request, claim in zip(requests, claims, strict=False):
            seat, row = request.seat, self._cluster.node(claim.node_uuid).row
            if seat is not None and row != seat.row:
                serial = seat.serial
                walls |= seat.fences(row)
        return walls, serial

    def learn(self, outcomes):
        """Take over the nodes that losers were wrong about."""
        for uuid in {uuid for outcome in outcomes for uuid in outcome.gone}:
            self._cluster.remove(uuid)
        self._adopt_all({one.report.node_uuid: one for outcome in outcomes for one in outcome.fresh}.values())

    def refenced(self, outcomes):
        """Take over the nodes that commits of ours have brought behind fences."""
        nodes = sorted({uuid for outcome in outcomes for uuid in outcome.fences})
        if nodes:
            self._fresh.changed(nodes)
            self.catch_up(nodes, {})

    def look_again(self):
        """Catch up with the store, if anything there is different; say whether it was."""
        generations = {node.uuid: node.generation for node in self._cluster}
        if self._store.digest() == (len(generations), sum(one or 0 for one in generations.values())):
            return False
        self._take_over(self._store.changes(generations))
        return True

    def expire(self):
        """End the claims that nobody confirmed in time."""
        while ended := self._store.expire(self._clock()):
            self._dropped(ended, 'were never confirmed')

    def _dropped(self, claims, why):
        for claim in claims:
            self._cluster.drop(claim)
        nodes = {claim.node_uuid for claim in claims}
        if tokens := {token for claim in claims for token in claim.fences}:
            nodes |= {node.uuid for node in self._cluster if not tokens.isdisjoint(node.fences)}
        self._fresh.changed(nodes)
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
        self._fresh.tables_changed()

    def remove_node(self, host, nodename):
        """Forget a node and its claims. Raises NodeNotFound."""
        node = self._node(host, nodename)
        self._store.remove_node(node.uuid)
        self._cluster.remove(node.uuid)
        self._fresh.changed([node.uuid])

    def _node(self, host, nodename):
        node = self._cluster.find(host, nodename)
        if node is None:
            raise errors.NodeNotFound(f'{nodename} on host {host}')
        return node

    def set_aggregates(self, aggregates):
        for aggregate in aggregates:
            self._store.set_aggregate(aggregate.id, aggregate)
            self._cluster.set_aggregate(aggregate.id, aggregate)
        self._fresh.tables_changed()

    def delete_aggregate(self, aggregate_id):
        self._store.set_aggregate(aggregate_id, None)
        self._cluster.set_aggregate(aggregate_id, None)
        self._fresh.tables_changed()

    # Instances, as hosts' messages tell; without track_instances nobody listens to them.

    def instances_added(self, host, uuids):
        """The host has these instances now: their claims are confirmed."""
        if self._settings().track_instances:
            self._tell(host, self._cluster.told(host) | frozenset(uuids))
            self._confirm(host, uuids)

    def instances_are(self, host, uuids):
        """The host has exactly these instances: confirmed claims of others end."""
        if self._settings().track_instances:
            listed = frozenset(uuids)
            self._tell(host, listed)
            self._confirm(host, listed)
            self._release_confirmed(host, lambda consumer: consumer not in listed)

    def instance_gone(self, host, uuid):
        """The host does not have the instance any more; a claim that still waits for it stays."""
        if self._settings().track_instances:
            self._tell(host, self._cluster.told(host) - {uuid})
            self._release_confirmed(host, lambda consumer: consumer == uuid)

    def _tell(self, host, instances):
        if instances != self._lists.get(host) or instances != self._cluster.told(host):
            self._store.set_instances(host, instances)
            self._take_list(host, instances)
            self._fresh.tables_changed()

    def _take_list(self, host, instances):
        self._lists[host] = instances
        self._cluster.tell(host, instances)

    def _confirm(self, host, uuids):
        nodes = self._cluster.nodes_of(host)
        waiting = [uuid for uuid in uuids for node in nodes
                   if uuid in node.claims and not node.claims[uuid].is_confirmed]  # fmt: skip
        if waiting:
            self._confirmed(self._store.confirm(waiting, [node.uuid for node in nodes]))

    def _confirmed(self, claims):
        for claim in claims:
            self._cluster.drop(claim)
            self._cluster.add(claim.confirmed())
        self._fresh.changed({claim.node_uuid for claim in claims})

    def _release_confirmed(self, host, gone):
        keys = [claim.key for node in self._cluster.nodes_of(host) for claim in node.claims.values()
                if claim.is_confirmed and gone(claim.consumer_uuid)]  # fmt: skip
        if keys:
            self._dropped(self._store.release(keys, absent=True), 'their node does not report any more')

    # Claims, as callers ask.

    def claims_of(self, consumer_uuid):
        return self._store.claims(consumer_uuid)

    def names(self, node_uuids):
        """(host, nodename) of each node; empty names for one that left meanwhile."""
        nodes = {uuid: self._cluster.node(uuid) for uuid in node_uuids}
        return {uuid: (node.host, node.nodename) if node else ('', '') for uuid, node in nodes.items()}

    def claim(self, request, host, nodename, request_id=None, leaving=None, move=None, new=False):
        """Claim on one node for a request; claims of the instance on the host ``leaving`` end with it.

        ``move``: what brings an instance here that is somewhere else, one of MOVES; an alternate goes on with
        that of the claim that ends, or with the resize that failed in place. What was picked on a node that
        has moved on is picked again, on what is there by then; what a lost answer has claimed already is
        replaced. ``new``: an instance that runs nowhere yet; if it runs on that node, its claim there is
        returned as it is. Raises NodeNotFound; AlreadyPlaced for a new one that runs on another node;
        ComputeResourcesUnavailable with the shortages: then nothing changed.
        """
        for _ in range(self._settings().max_claim_attempts):
            node = self._node(host, nodename)
            if new and (there := self._running(node, self._cluster.claims_of(request.instance_uuid))):
                return there
            try:
                held, learnt = self._try_claim(node, request, request_id, leaving, move, new)
            except errors.ComputeResourcesUnavailable:
                # What is short may be what it has itself, since another scheduler has placed it.
                if new and (there := self._running(node, self._store.claims(request.instance_uuid))):
                    return there
                raise
            if held is not None:
                return held
            if not learnt:
                break
        raise errors.ComputeResourcesUnavailable(node.uuid, 'it was taken by another request meanwhile')

    def _running(self, node, claims):
        """The claim on the node of an instance that runs there, given what may be its claims; None if it runs
        nowhere. Raises AlreadyPlaced."""
        running = [claim for claim in claims if claim.is_confirmed]
        if not running:
            return None
        self.catch_up(sorted({claim.node_uuid for claim in running}), {})
        now = [one for one in self._cluster.claims_of(running[0].consumer_uuid) if one.is_confirmed]
        for claim in now:
            if claim.node_uuid != node.uuid:
                raise errors.AlreadyPlaced(claim.consumer_uuid, self._cluster.node(claim.node_uuid).host)
        return now[0] if now else None

    def _try_claim(self, node, request, request_id, leaving, move, new=False):
        """What stands then, None if it was lost; and whether something was learnt by that."""
        request = self._seated(node, request)
        releases, ended = [], []
        for claim in self._of_member(request):
            releases.append(claim.key)
            ended.append(claim)
        for claim in self._cluster.claims_of(request.instance_uuid):
            if leaving and self._cluster.node(claim.node_uuid).host == leaving:
                releases.append(claim.key)
                ended.append(claim)
                move = move or claim.move or (RESIZE if claim.resizing else None)
            elif claim.node_uuid != node.uuid and not claim.is_confirmed:
                ended.append(claim)  # the store ends it by itself: one claim that waits is enough
        for claim in ended:
            self._cluster.drop(claim)
            if claim.resizing:
                self._cluster.add(claim.reverted())
        booking = None
        try:
            self._check_policy(node, request)
            lifetime_s = self._settings().pending_ttl_s
            marks = {'request_id': request_id, **(request.seat.marks(node.row) if request.seat else {})}
            booking = self._cluster.book(node, request, lifetime_s, move, **marks)
            known = ended if booking.before is None else [*ended, booking.before]
            placement = self.placement([booking.claim], [request], releases, known, new)
            (outcome,) = self._store.commit([placement])
        except Exception:
            self._undo(booking, ended)
            raise
        if outcome.won and new and _was_there(outcome):
            self._undo(booking, ended)
            self.catch_up([node.uuid], {})
            return None, True
        if outcome.won:
            self.follow(outcome.generations)
            self._fresh.committed([(placement.claims, ended, outcome.generations)])
            self.refenced([outcome])
            return booking.held, False
        self._undo(booking, ended)
        self.learn([outcome])
        return None, bool(outcome.fresh or outcome.gone)

    def _seated(self, node, request):
        """The request as that of a top group's member, if it is one and may be on the node."""
        if not is_member(request):
            return request
        try:
            request = self.seating.seated(request)
        except Unseated:
            raise errors.ComputeResourcesUnavailable(node.uuid, 'its group has to be planned anew') from None
        is_there = request.instance_uuid in node.claims or node.row == request.seat.row
        if not is_there and not request.seat.allowed[node.row]:
            raise errors.ComputeResourcesUnavailable(
                node.uuid, 'the policies of its group do not allow it there'
            )
        return request

    def _of_member(self, request):
        """What ends when a member of a top group is claimed for: its planned claim."""
        if request.seat is None:
            return ()
        others = (request.seat.consumer, *request.seat.instead_of)
        return [claim for consumer in others for claim in self._cluster.claims_of(consumer)
                if not claim.is_confirmed]  # fmt: skip

    def _check_policy(self, node, request):
        """Raise ComputeResourcesUnavailable for what the store would refuse without a reason."""
        if request.group is None:
            return
        hosts = self._cluster.hosts
        asked = dataclasses.replace(request, group=group_now(self._cluster, request))
        for rule in catalog.policies():
            verdict = rule.mask(hosts, asked)
            if verdict is not True and not verdict[node.row]:
                why = rule.why(hosts, asked, np.array([node.row]))
                raise errors.ComputeResourcesUnavailable(node.uuid, why)

    def _undo(self, booking, ended):
        if booking is not None:
            self._cluster.unbook(booking)
        for claim in ended:
            self._cluster.drop(claim)
            self._cluster.add(claim)

    def confirm_claim(self, consumer_uuid, host):
        """The instance runs on the host for good: its move to it, or its resize on it, is settled.

        Returns its claims there; raises ClaimNotFound.
        """
        nodes = {node.uuid for node in self._cluster.nodes_of(host)}
        self._catch_up_with(self._store.finish(consumer_uuid, sorted(nodes)))
        found = [claim for claim in self._store.claims(consumer_uuid) if claim.node_uuid in nodes]
        if not found:
            raise errors.ClaimNotFound(f'instance {consumer_uuid} on host {host}')
        return found

    def revert_claim(self, consumer_uuid):
        """The instance stays where it is, as it is: its move or its resize is taken back.

        Returns its claims then; raises ClaimNotFound if there is none to take back.
        """
        changed = self._store.revert(consumer_uuid)
        if not changed:
            raise errors.ClaimNotFound(f'a move or resize of instance {consumer_uuid}')
        self._catch_up_with(changed)
        return self._store.claims(consumer_uuid)

    def _catch_up_with(self, claims):
        """Take over the nodes of claims that the store has changed."""
        if claims:
            nodes = sorted({claim.node_uuid for claim in claims})
            self._fresh.changed(nodes)
            self.catch_up(nodes, {})

    def abort_claim(self, consumer_uuid, host=None):
        """End the instance's claims: on one host, or everywhere. Returns them; raises ClaimNotFound."""
        nodes = None if host is None else {node.uuid for node in self._cluster.nodes_of(host)}
        keys = [
            claim.key
            for claim in self._store.claims(consumer_uuid)
            if nodes is None or claim.node_uuid in nodes
        ]
        if not keys:
            raise errors.ClaimNotFound(f'instance {consumer_uuid}' + (f' on host {host}' if host else ''))
        ended = self._store.release(keys)
        self._dropped(ended, 'were aborted')
        return ended


def _was_there(outcome):
    """Whether a placement was won without a change: what it asked for was there before."""
    return bool(outcome.generations) and all(
        before == after for before, after in outcome.generations.values()
    )
