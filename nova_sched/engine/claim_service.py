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
"""Claims that callers make, confirm, revert or abort one by one."""

import dataclasses

import numpy as np

from nova_sched import errors
from nova_sched.claim import RESIZE, TO_ANOTHER_HOST
from nova_sched.claims import ANY, ClaimSelector
from nova_sched.engine import catalog
from nova_sched.engine.groups.member_resolver import ReplanRequired
from nova_sched.engine.place import is_made_by
from nova_sched.state.membership import group_now


class ClaimService:
    """Changes single claims for compute nodes and conductors. Its methods run in the loop only."""

    def __init__(self, context, state_sync, member_resolver):
        self._cluster, self._store = context.cluster, context.store
        self._settings, self._clock = context.settings, context.clock
        self._state_sync, self._member_resolver = state_sync, member_resolver

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
        selector=ANY,
        known=None,
    ):
        """Claim on one node for a request.

        The claim on the host ``leaving`` that ``selector`` (ClaimSelector) names ends with it, and
        so does the open resize on the node, if it is named. ``move``, one of MOVES: the kind of
        move that brings a placed instance to this node. An alternate continues the move of the
        claim that ends, or the resize that failed in place. If the node has changed, its hardware
        is picked again. ``new``: the instance does not run yet. If it runs on that node, its claim
        there is returned unchanged. ``known``: the names of the instance's claims; with another
        pending claim or open resize, Outdated is raised.

        Returns the claim: the one that is there, if it is what the call asks for. So the call may
        be repeated. Raises NodeNotFound; ClaimNotFound; Outdated; AlreadyPlaced for a new instance
        that runs on another node; ComputeResourcesUnavailable with the shortages. Nothing has
        changed then.
        """
        consumer = request.instance_uuid
        self._cluster.hosts.now_s = self._clock()  # a lifetime counts from now
        for _ in range(self._settings().max_claim_attempts):
            if leaving:
                self._state_sync.claims_of(consumer)
            node, claims = self._state_sync.node(host, nodename), self._cluster.claims_of(consumer)
            if leaving and (result := self._made_before(request, node, leaving, selector, claims)):
                return result
            is_running = any(claim.is_confirmed for claim in claims)
            if new and is_running and (running := self._running(consumer, node)):
                return running
            if known is not None and any(
                claim.name not in known for claim in claims if claim.is_provisional
            ):
                what = f'A claim for instance {consumer}'
                raise errors.Outdated(what, 'another one was made since')
            if arrived := self._arrived(request, node, request_id, move):
                return arrived
            try:
                result = self._try_claim(node, request, request_id, move, new, selector)
            except errors.ComputeResourcesUnavailable:
                # The instance may have this capacity itself: another scheduler may have placed it.
                if new and (running := self._running(consumer, node)):
                    return running
                raise
            if result is not None:
                return result
        raise errors.ComputeResourcesUnavailable(
            node.uuid, 'it was taken by another request meanwhile'
        )

    def _made_before(self, request, node, leaving, selector, claims):
        """The claim on the node that an earlier attempt of a call for an alternate has made, given
        the instance's claims; None if it is still to be made.

        Raises ClaimNotFound if the claim on the failed host has ended in another way, and Outdated
        if it is confirmed or not named, or if another host was chosen since.
        """
        name, on_host = selector.claim_uuid, self._state_sync.on_host(claims, leaving)
        meant = next((claim for claim in on_host if claim.name == name), None)
        if meant and meant.is_provisional:
            return None
        if not on_host and name is None:
            on_host = [claim for claim in claims
                       if claim.is_provisional and claim.node_uuid != node.uuid]  # fmt: skip
            if not on_host:
                return None
        for claim in claims if name and not meant else ():
            size = claim.resizing.new if claim.resizing else claim.resources
            if claim.node_uuid == node.uuid and (
                not claim.is_confirmed or size == request.resources
            ):
                return claim
        raise _refusal(on_host, name, f'instance {request.instance_uuid} on host {leaving}')

    def _running(self, consumer, node):
        """The instance's confirmed claim on the node; None if it runs nowhere. Raises
        AlreadyPlaced."""
        self._state_sync.claims_of(consumer)
        running = [claim for claim in self._cluster.claims_of(consumer) if claim.is_confirmed]
        for claim in running:
            if claim.node_uuid != node.uuid:
                host = self._cluster.node(claim.node_uuid).host
                raise errors.AlreadyPlaced(consumer, host)
        return running[0] if running else None

    def _arrived(self, request, node, request_id, move):
        """The claim on the node of an instance that a move has already brought there; None if it
        runs elsewhere, or is to be resized there. Raises Outdated if another move has brought it,
        and ComputeResourcesUnavailable if the instance may have left the node."""
        consumer = request.instance_uuid
        if not any(
            claim.is_confirmed and claim.node_uuid == node.uuid
            for claim in self._cluster.claims_of(consumer)
        ):
            return None
        running = [claim for claim in self._state_sync.claims_of(consumer) if claim.is_confirmed]
        here = next((claim for claim in running if claim.node_uuid == node.uuid), None)
        if here is None:
            return None
        if here.is_unheard(running):
            why = 'it has yet to report whether it still has the instance'
            raise errors.ComputeResourcesUnavailable(node.uuid, why)
        # It is on the node by a resize or migration that is not settled, or on the host to which
        # the move would bring it. Then the call came late, and must not make a resize in place.
        if move is None:
            return None
        if move not in TO_ANOTHER_HOST and not (here.keeps_source and here.resizing is None):
            return None
        if (here.move, here.request_id) != (move, request_id):
            raise errors.Outdated(f'A move of instance {consumer}', f'it runs on {node.host}')
        return here

    def _try_claim(self, node, request, request_id, move, new, selector):
        """The claim; None if it was lost. The host state knows more then."""
        request = self._resolve_member(node, request)
        if new and any(
            claim.is_confirmed for claim in self._cluster.claims_of(request.instance_uuid)
        ):
            return None
        elsewhere = [
            claim
            for claim in self._cluster.claims_of(request.instance_uuid)
            if claim.node_uuid != node.uuid
            and (not claim.is_confirmed or (claim.resizing and claim.name == selector.claim_uuid))
        ]
        for claim in elsewhere:
            if claim.name == selector.claim_uuid:
                move = move or claim.move or (RESIZE if claim.resizing else None)
        lifetime_s = self._settings().pending_ttl_s
        # The store ends them, and the planned claim of a group member: only one may be pending.
        member = request.member_placement
        planned = self._cluster.claims_of(member.consumer) if member else ()
        ended = [claim for claim in planned if not claim.is_confirmed] + elsewhere
        for claim in ended:
            if claim.resizing:
                self._cluster.adopt(claim.reverted())
            else:
                self._cluster.drop(claim)
        consumption, before = None, node.claims.get(request.instance_uuid)
        marks = {'request_id': request_id, 'created_s': self._cluster.hosts.now_s}
        if request.member_placement:
            marks |= request.member_placement.marks(node.row)
        try:
            # The instance may run: what it uses must not count against itself.
            if before and is_made_by(request, {**marks, 'move': move}, before, node):
                self._undo(None, ended)
                return self._renewed(before, node)
            self._check_policy(node, request)
            consumption = self._cluster.consume(node, request, lifetime_s, move, **marks)
            if before and before.resizing and before.name == consumption.held.name:
                self._undo(consumption, ended)
                return self._renewed(before, node)
            if before is not None and before.name != selector.claim_uuid:
                if before.resizing:  # the instance may have its new size already
                    raise errors.Outdated(
                        f'A resize of instance {before.consumer_uuid}',
                        'another one is open: name that, or revert it',
                    )
                # The instance may run already, and its caller may have been told the claim.
                is_chosen = before.move is None and before.is_for(consumption.claim)
                if not (before.is_confirmed or is_chosen):
                    self._check_move(before, request_id, move)
            for claim in elsewhere:  # also one of this request: its alternate, or a later choice
                if claim.name != selector.claim_uuid:
                    self._check_move(claim, None, move)
            placement = self._state_sync.placement(
                [consumption.claim], [request], ended, [before] if before else ()
            )
            (outcome,) = self._store.commit([placement])
        except Exception:
            self._undo(consumption, ended)
            raise
        if not outcome.won:
            self._undo(consumption, ended)
            self._state_sync.committed([], [outcome])
            return None
        self._state_sync.committed([outcome])
        return outcome.claims[0]

    def _renewed(self, pending, node):
        """The pending claim or open resize on the node, renewed: the call asks for the same. None
        if it is neither any more; then the host state has the current one."""
        is_kept = self.renew_claim(pending)
        return node.claims.get(pending.consumer_uuid) if is_kept else None

    def _check_move(self, pending, request_id, move):
        """Raise Outdated if a pending claim that is for a move, or would end by one, is not of
        this request: a late copy of an earlier call must not take it."""
        # The store says whether it is still there, and of which request it is now.
        stored = self._store.claims(pending.consumer_uuid)
        pending = next((claim for claim in stored if claim.name == pending.name), None)
        if pending is None or pending.request_id == request_id is not None:
            return
        if move or pending.is_on_its_way:
            raise errors.Outdated(
                f'A move of instance {pending.consumer_uuid}',
                'another claim is pending: confirm it, name it, or abort it',
            )

    def _resolve_member(self, node, request):
        """The request, with its placement if it is for a group member that may be on the node."""
        if not request.is_member:
            return request
        try:
            request = self._member_resolver.resolve_request(request)
        except ReplanRequired:
            raise errors.ComputeResourcesUnavailable(
                node.uuid, 'its group has to be replanned'
            ) from None
        is_there = request.instance_uuid in node.claims or node.row == request.member_placement.row
        if not is_there and not request.member_placement.allowed[node.row]:
            raise errors.ComputeResourcesUnavailable(
                node.uuid, 'the policies of its group do not allow it there'
            )
        return request

    def _check_policy(self, node, request):
        """Raise ComputeResourcesUnavailable, with the reason, where the store would refuse without
        one."""
        if request.group is None:
            return
        hosts = self._cluster.hosts
        current = dataclasses.replace(request, group=group_now(self._cluster, request))
        for rule in catalog.policies():
            verdict = rule.mask(hosts, current)
            if verdict is not True and not verdict[node.row]:
                why = rule.why(hosts, current, np.array([node.row]))
                raise errors.ComputeResourcesUnavailable(node.uuid, why)

    def _undo(self, consumption, ended):
        if consumption is not None:
            self._cluster.release(consumption)
        for claim in ended:
            self._cluster.adopt(claim)

    # Changes of existing claims. ``selector`` (ClaimSelector) names the claim that is meant.

    def renew_claim(self, claim):
        """Let a pending claim live for `[claims] pending_ttl` from now on. Returns whether it has
        not expired or ended before."""
        is_renewed = self._store.renew_claim(claim, self._settings().pending_ttl_s)
        self._state_sync.caught_up_with([claim])
        return is_renewed

    def confirm_claim(self, consumer_uuid, host, selector=ANY):
        """The instance runs on the host permanently: its move to it, or its resize on it, is
        finished.

        Without a name, only an instance is confirmed that is neither moved nor resized, and for
        which no move was chosen. A resize that is settled may be confirmed again, although a late
        copy of another call has opened one that nobody was told of. Returns its claims there.
        Raises ClaimNotFound and Outdated.
        """
        claims = self._state_sync.on_host(self._state_sync.claims_of(consumer_uuid), host)
        what, name = f'instance {consumer_uuid} on host {host}', selector.claim_uuid
        if name is None:
            if not claims or any(claim.is_open or claim.is_on_its_way for claim in claims):
                raise _refusal(claims, name, what)
            name = claims[0].name
        nodes = sorted(claim.node_uuid for claim in claims)
        edit = self._store.finish(consumer_uuid, nodes, ClaimSelector(name))
        self._state_sync.caught_up_with(edit.changed)
        claims = self._state_sync.on_host(edit.claims, host)
        if not any(
            claim.is_confirmed and claim.uuid == name and (claim.name == name or not claim.move)
            for claim in claims
        ):
            raise _refusal(claims, name, what)
        return claims

    def revert_claim(self, consumer_uuid, selector=ANY):
        """The instance stays on its host with its old size: its move or its resize is reverted.

        Returns its claims then. Raises ClaimNotFound if there is no move or resize, and Outdated.
        """
        what = f'a move or resize of instance {consumer_uuid}'
        if selector.claim_uuid is None:
            claims = self._store.claims(consumer_uuid)
            raise _refusal([claim for claim in claims if claim.is_open], None, what)
        edit = self._store.revert(consumer_uuid, selector)
        if not edit.changed:
            raise _refusal(edit.claims, selector.claim_uuid, what)
        self._state_sync.caught_up_with([*edit.changed, *edit.claims])
        return edit.claims

    def abort_claim(self, consumer_uuid, host=None, selector=ANY):
        """End a claim of the instance, which is on this host if one is named. Returns it in a
        list. Raises ClaimNotFound and Outdated."""
        claims, what = self._state_sync.claims_of(consumer_uuid), f'instance {consumer_uuid}'
        if host is not None:
            claims = self._state_sync.on_host(claims, host)
            what += f' on host {host}'
        if selector.claim_uuid is None:
            raise _refusal(claims, None, what)
        keys = {claim.key for claim in claims}
        edit = self._store.release(sorted(keys), selector=selector)
        if not edit.changed:
            remaining = [claim for claim in edit.claims if claim.key in keys]
            raise _refusal(remaining, selector.claim_uuid, what)
        self._state_sync.dropped(edit.ended, 'were aborted')
        self._state_sync.caught_up_with(edit.claims)
        return edit.changed


def _refusal(claims, name, what):
    """The error for a call that has changed none of these claims: the named one is gone, or is not
    as the caller knew it. A call that names none (None) ends, reverts and settles nothing."""
    claim = next((claim for claim in claims if name is None or claim.has_uuid(name)), None)
    if claim is None:
        return errors.ClaimNotFound(what)
    if name is None:
        why = (
            'it may be older than the claim that is there now; name the claim that it means by '
            'its UUID, or by its resize_uuid'
        )
    elif claim.name != name:
        why = 'a resize of it is open, which is named by its own UUID'
    elif claim.is_confirmed:
        why = 'the claim is confirmed, and the instance is there'
    else:
        why = 'the claim is not confirmed'
    return errors.Outdated(f'The call about {what}', why)
