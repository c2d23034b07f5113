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
"""Claims, as callers ask for them: made on one node, confirmed, taken back, ended."""

import dataclasses

import numpy as np

from nova_sched import errors
from nova_sched.claims.order import ANY
from nova_sched.engine import catalog
from nova_sched.engine.member_resolver import ReplanRequired, is_member
from nova_sched.objects.claim import RESIZE
from nova_sched.state.membership import group_now


class ClaimService:
    """Where compute nodes and conductors change claims one by one. Its methods run in the loop
    only."""

    def __init__(self, cluster, store, state_sync, replica_sync, member_resolver, settings):
        self._cluster, self._store = cluster, store
        self._state_sync, self._replica_sync = state_sync, replica_sync
        self._member_resolver, self._settings = member_resolver, settings

    def claims_of(self, consumer_uuid):
        return self._store.claims(consumer_uuid)

    def claim(
        self,
        request,
        host,
        nodename,
        request_id=None,
        leaving=None,
        move=None,
        new=False,
        meant=ANY,
    ):
        """Claim on one node for a request; claims of the instance on the host ``leaving`` end with
        it.

        ``meant`` (Meant) has the UUID of the claim there, if the caller knows it, and when the
        caller asked: what was claimed since then is not replaced, and raises Outdated. ``move``:
        what brings an instance here that is somewhere else, one of MOVES; an alternate goes on
        with that of the claim that ends, or with the resize that failed in place. What was picked
        on a node that has moved on is picked again, on what is there by then; what a lost answer
        has claimed already is replaced. ``new``: an instance that runs nowhere yet; if it runs on
        that node, its claim there is returned as it is. Raises NodeNotFound; AlreadyPlaced for a
        new one that runs on another node; ComputeResourcesUnavailable with the shortages: then
        nothing changed.
        """
        if meant.name is not None and (done := self._was_left(request, host, nodename, meant)):
            return done
        for _ in range(self._settings().max_claim_attempts):
            node = self._state_sync.node(host, nodename)
            if new and (
                there := self._running(node, self._cluster.claims_of(request.instance_uuid))
            ):
                return there
            try:
                held, learnt = self._try_claim(
                    node, request, request_id, leaving, move, new, meant
                )
            except errors.ComputeResourcesUnavailable:
                # What is short may be what it has itself, since another scheduler has placed it.
                if new and (
                    there := self._running(node, self._store.claims(request.instance_uuid))
                ):
                    return there
                raise
            if held is not None:
                return held
            if not learnt:
                break
        raise errors.ComputeResourcesUnavailable(
            node.uuid, 'it was taken by another request meanwhile'
        )

    def _was_left(self, request, host, nodename, meant):
        """The claim that this very call has made before, if the claim that it is to end has ended
        with it.

        Raises ClaimNotFound if that has ended in another way.
        """
        claims = self._store.claims(request.instance_uuid)
        if any(meant.covers(claim) for claim in claims):
            return None
        node = self._state_sync.node(host, nodename)
        there = [
            claim for claim in claims if claim.node_uuid == node.uuid and not claim.is_confirmed
        ]
        if not there:
            raise errors.ClaimNotFound(f'{meant.name} of instance {request.instance_uuid}')
        return there[0]

    def _running(self, node, claims):
        """The claim on the node of an instance that runs there, given what may be its claims; None
        if it runs nowhere. Raises AlreadyPlaced."""
        running = [claim for claim in claims if claim.is_confirmed]
        if not running:
            return None
        self._state_sync.catch_up(sorted({claim.node_uuid for claim in running}), {})
        now = [
            one for one in self._cluster.claims_of(running[0].consumer_uuid) if one.is_confirmed
        ]
        for claim in now:
            if claim.node_uuid != node.uuid:
                raise errors.AlreadyPlaced(
                    claim.consumer_uuid, self._cluster.node(claim.node_uuid).host
                )
        return now[0] if now else None

    def _try_claim(self, node, request, request_id, leaving, move, new, meant):
        """What stands then, None if it was lost; and whether something was learnt by that."""
        if not new:
            self._check_age(request.instance_uuid, meant)
        request = self._resolved(node, request)
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
            marks = {
                'request_id': request_id,
                **(request.member_placement.marks(node.row) if request.member_placement else {}),
            }
            booking = self._cluster.book(node, request, lifetime_s, move, **marks)
            known = ended if booking.before is None else [*ended, booking.before]
            placement = self._state_sync.placement(
                [booking.claim], [request], releases, known, new
            )
            (outcome,) = self._store.commit([placement])
        except Exception:
            self._undo(booking, ended)
            raise
        if outcome.won and new and _was_there(outcome):
            self._undo(booking, ended)
            self._state_sync.catch_up([node.uuid], {})
            return None, True
        if outcome.won:
            self._state_sync.follow(outcome)
            self._replica_sync.committed([(placement.claims, ended, outcome.generations)])
            self._state_sync.refenced([outcome])
            return self._cluster.node(node.uuid).claims[request.instance_uuid], False
        self._undo(booking, ended)
        self._state_sync.learn([outcome])
        return None, bool(outcome.fresh or outcome.gone)

    def _check_age(self, consumer, meant):
        """Raise Outdated if claims of the instance have changed since the caller asked."""
        for claim in self._cluster.claims_of(consumer):
            if claim.changed_s > meant.since_s and not (meant.name and claim.is_named(meant.name)):
                raise errors.Outdated(
                    f'A claim for instance {consumer}', 'another one was made since'
                )

    def _resolved(self, node, request):
        """The request as that of a top group's member, if it is one and may be on the node."""
        if not is_member(request):
            return request
        try:
            request = self._member_resolver.resolved(request)
        except ReplanRequired:
            raise errors.ComputeResourcesUnavailable(
                node.uuid, 'its group has to be planned anew'
            ) from None
        is_there = request.instance_uuid in node.claims or node.row == request.member_placement.row
        if not is_there and not request.member_placement.allowed[node.row]:
            raise errors.ComputeResourcesUnavailable(
                node.uuid, 'the policies of its group do not allow it there'
            )
        return request

    def _of_member(self, request):
        """What ends when a member of a top group is claimed for: its planned claim."""
        if request.member_placement is None:
            return ()
        return [
            claim
            for claim in self._cluster.claims_of(request.member_placement.consumer)
            if not claim.is_confirmed
        ]

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

    # What becomes of claims. ``meant`` (Meant) says which of them the caller knew, and has asked
    # about.

    def confirm_claim(self, consumer_uuid, host, meant=ANY):
        """The instance runs on the host for good: its move to it, or its resize on it, is settled.

        Returns its claims there; raises ClaimNotFound.
        """
        claims = self._store.claims(consumer_uuid)
        nodes = self._state_sync.nodes_of(host, claims)
        there = [claim for claim in claims if claim.node_uuid in nodes]
        if not any(map(meant.covers, there)):
            raise _not_meant(there, meant, f'instance {consumer_uuid} on host {host}')
        self._state_sync.caught_up_with(self._store.finish(consumer_uuid, sorted(nodes), meant))
        found = [claim for claim in self._store.claims(consumer_uuid) if claim.node_uuid in nodes]
        if not found:
            raise errors.ClaimNotFound(f'instance {consumer_uuid} on host {host}')
        return found

    def revert_claim(self, consumer_uuid, meant=ANY):
        """The instance stays where it is, as it is: its move or its resize is taken back.

        Returns its claims then; raises ClaimNotFound if there is none to take back.
        """
        changed = self._store.revert(consumer_uuid, meant)
        if not changed:
            open_ones = [
                one for one in self._store.claims(consumer_uuid) if one.move or one.resizing
            ]
            raise _not_meant(open_ones, meant, f'a move or resize of instance {consumer_uuid}')
        found = self._store.claims(consumer_uuid)
        self._state_sync.caught_up_with([*changed, *found])
        return found

    def abort_claim(self, consumer_uuid, host=None, meant=ANY):
        """End the instance's claims: on one host, or everywhere. Returns them; raises
        ClaimNotFound."""
        claims = self._store.claims(consumer_uuid)
        nodes = None if host is None else self._state_sync.nodes_of(host, claims)
        keys = [claim.key for claim in claims if nodes is None or claim.node_uuid in nodes]
        ended = self._store.release(keys, meant=meant) if keys else []
        if not ended:
            there = [claim for claim in claims if claim.key in keys]
            what = f'instance {consumer_uuid}' + (f' on host {host}' if host else '')
            raise _not_meant(there, meant, what)
        self._state_sync.dropped(ended, 'were aborted')
        self._state_sync.caught_up_with(
            [claim for claim in claims if claim.key not in {one.key for one in ended}]
        )
        return ended


def _not_meant(claims, meant, what):
    """The error for a call that changes none of these claims: the one that it names is gone, or
    they have changed since it was sent."""
    about = (claim for claim in claims if meant.name is None or claim.is_named(meant.name))
    if any(claim.changed_s > meant.since_s for claim in about):
        return errors.Outdated(
            f'The call about {what}', 'its claims have changed since it was sent'
        )
    return errors.ClaimNotFound(what)


def _was_there(outcome):
    """Whether a placement was won without a change: what it asked for was there before."""
    return bool(outcome.generations) and all(
        before == after for before, after in outcome.generations.values()
    )
