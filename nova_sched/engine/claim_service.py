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
from nova_sched.claim import RESIZE
from nova_sched.claims import ANY, ClaimSelector
from nova_sched.engine import catalog
from nova_sched.engine.groups.member_resolver import ReplanRequired, is_member
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
        self._cluster.hosts.now_s = self._clock()  # a lifetime counts from now
        for _ in range(self._settings().max_claim_attempts):
            node = self._state_sync.node(host, nodename)
            if leaving and (
                done := self._made_before(request, node, leaving, selector.claim_uuid)
            ):
                return done
            if new and (
                there := self._running(node, self._cluster.claims_of(request.instance_uuid))
            ):
                return there
            if known is not None:
                self._check_known(request.instance_uuid, known)
            try:
                held, learnt = self._try_claim(node, request, request_id, move, new, selector)
            except errors.ComputeResourcesUnavailable:
                # The instance may have this capacity itself: another scheduler may have placed it.
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

    def _made_before(self, request, node, leaving, name):
        """The claim on the node that an earlier attempt of a call for an alternate has made; None
        if it is still to be made. The host state has the instance's claims then.

        Raises ClaimNotFound if the claim on the failed host has ended in another way, and Outdated
        if it is confirmed or not named.
        """
        claims = self._store.claims(request.instance_uuid)
        failed = self._state_sync.nodes_of(leaving, claims)
        self._state_sync.caught_up_with(claims)
        what = f'instance {request.instance_uuid} on host {leaving}'
        there = [claim for claim in claims if claim.node_uuid in failed]
        meant = [claim for claim in there if claim.name == name]
        if name is None and there:
            raise _unnamed(what)
        if meant and meant[0].is_confirmed and not meant[0].resizing:
            raise _refusal(there, name, what)
        if meant or name is None:
            return None
        for one in claims:
            size = one.resizing.new if one.resizing else one.resources
            if one.node_uuid == node.uuid and (not one.is_confirmed or size == request.resources):
                return one
        raise _refusal(there, name, what)

    def _check_known(self, consumer, known):
        for claim in self._store.claims(consumer):
            if claim.name not in known and (claim.resizing or not claim.is_confirmed):
                raise errors.Outdated(
                    f'A claim for instance {consumer}', 'another one was made since'
                )

    def _running(self, node, claims):
        """The running instance's claim on the node, given its possible claims; None if it runs
        nowhere. Raises AlreadyPlaced."""
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

    def _try_claim(self, node, request, request_id, move, new, selector):
        """The claim, None if it was lost; and whether the loss has updated the host state."""
        request = self._resolve_member(node, request)
        releases, ended = [], []
        for claim in self._of_member(request):
            releases.append(claim.key)
            ended.append(claim)
        for claim in self._cluster.claims_of(request.instance_uuid):
            if claim.node_uuid == node.uuid or (claim.is_confirmed and not claim.resizing):
                continue
            if claim.name == selector.claim_uuid:
                releases.append(claim.key)
                ended.append(claim)
                move = move or claim.move or (RESIZE if claim.resizing else None)
            elif not claim.is_confirmed:
                self._check_move(claim, request_id, move)
                ended.append(claim)  # the store ends it: only one claim may be pending
        for claim in ended:
            self._cluster.drop(claim)
            if claim.resizing:
                self._cluster.add(claim.reverted())
        consumption, there = None, node.claims.get(request.instance_uuid)
        if self._is_repeat(request, request_id, move, there, node):
            self._undo(None, ended)
            return self._kept(there), True
        try:
            self._check_policy(node, request)
            lifetime_s = self._settings().pending_ttl_s
            marks = {
                'request_id': request_id,
                'created_s': self._cluster.hosts.now_s,  # by the store's clock
                **(request.member_placement.marks(node.row) if request.member_placement else {}),
            }
            consumption = self._cluster.consume(node, request, lifetime_s, move, **marks)
            before = consumption.before
            if before is not None:
                lives = not before.overdue(self._clock()) and before.request_id == request_id
                if lives and move == before.move and before.is_for(consumption.claim):
                    self._undo(consumption, ended)
                    return self._kept(before), True
                self._check_resize(before, consumption.held, selector)
                is_other = before.resources != consumption.claim.resources
                if is_other and not before.is_confirmed and before.name != selector.claim_uuid:
                    self._check_move(before, request_id, move)  # the instance may run already
            placement = self._state_sync.placement(
                [consumption.claim],
                [request],
                releases,
                ended if before is None else [*ended, before],
                new,
            )
            (outcome,) = self._store.commit([placement])
        except Exception:
            self._undo(consumption, ended)
            raise
        if outcome.won and _was_there(outcome):
            self._undo(consumption, ended)
            (there,) = outcome.claims
            if there.resizing:
                self._store.renew_claim(there, lifetime_s)
            self._state_sync.catch_up([node.uuid], {})
            return there, True
        if outcome.won:
            self._state_sync.committed([(placement.claims, ended, outcome)])
            return outcome.claims[0], False
        self._undo(consumption, ended)
        self._state_sync.committed([], [outcome])
        return None, bool(outcome.fresh or outcome.used or outcome.gone)

    def _is_repeat(self, request, request_id, move, there, node):
        """Whether a request has made the pending claim on the node already. Its instance may run:
        what it uses must not count against itself."""
        return (
            there is not None
            and move == there.move
            and not there.overdue(self._clock())
            and is_made_by(request, request_id, there, node)
        )

    def _kept(self, claim):
        """The pending claim that a call asks for again, with a new lifetime; None if it is not
        pending any more. The host state has the present one then."""
        is_renewed = self._store.renew_claim(claim, self._settings().pending_ttl_s)
        self._state_sync.caught_up_with([claim])
        node = self._cluster.node(claim.node_uuid)
        return node and node.claims.get(claim.consumer_uuid) if is_renewed else None

    def _check_move(self, pending, request_id, move):
        """Raise Outdated if the claim of another move would end, although the call does not name
        it: a late copy of an earlier move's call must not take it."""
        is_mine = pending.request_id == request_id is not None
        if not move or is_mine or pending.overdue(self._clock()):
            return
        # The host state may have a claim that has ended since.
        if any(one.name == pending.name for one in self._store.claims(pending.consumer_uuid)):
            raise errors.Outdated(
                f'A move of instance {pending.consumer_uuid}',
                'its claim for another place or size is pending: confirm it, name it, or abort it',
            )

    def _check_resize(self, before, held, selector):
        """Raise Outdated if an open resize would give way to another one, although the call does
        not name it: the instance may have its new size already."""
        if before.resizing and held.name != before.name and selector.claim_uuid != before.name:
            raise errors.Outdated(
                f'A resize of instance {before.consumer_uuid}',
                'another one is open: name that, or revert it',
            )

    def _resolve_member(self, node, request):
        """The request, with its placement if it is for a group member that may be on the node."""
        if not is_member(request):
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

    def _of_member(self, request):
        """The claims that end when a group member's request is claimed: its planned claim."""
        if request.member_placement is None:
            return ()
        return [
            claim
            for claim in self._cluster.claims_of(request.member_placement.consumer)
            if not claim.is_confirmed
        ]

    def _check_policy(self, node, request):
        """Raise ComputeResourcesUnavailable, with the reason, where the store would refuse without
        one."""
        if request.group is None:
            return
        hosts = self._cluster.hosts
        asked = dataclasses.replace(request, group=group_now(self._cluster, request))
        for rule in catalog.policies():
            verdict = rule.mask(hosts, asked)
            if verdict is not True and not verdict[node.row]:
                why = rule.why(hosts, asked, np.array([node.row]))
                raise errors.ComputeResourcesUnavailable(node.uuid, why)

    def _undo(self, consumption, ended):
        if consumption is not None:
            self._cluster.release(consumption)
        for claim in ended:
            self._cluster.drop(claim)
            self._cluster.add(claim)

    # Changes of existing claims. ``selector`` (ClaimSelector) names the claim that is meant.

    def renew_claim(self, claim):
        """Let a pending claim live for `[claims] pending_ttl` from now on. Returns whether it has
        not expired or ended before."""
        if not self._store.renew_claim(claim, self._settings().pending_ttl_s):
            return False
        self._state_sync.caught_up_with([claim])
        return True

    def confirm_claim(self, consumer_uuid, host, selector=ANY):
        """The instance runs on the host permanently: its move to it, or its resize on it, is
        finished.

        Without a name, only an instance that neither moves nor is resized is confirmed. Returns
        its claims there. Raises ClaimNotFound and Outdated.
        """
        claims = self._store.claims(consumer_uuid)
        nodes = self._state_sync.nodes_of(host, claims)
        there = [claim for claim in claims if claim.node_uuid in nodes]
        what, name = f'instance {consumer_uuid} on host {host}', selector.claim_uuid
        if name is None:
            if any(claim.is_open for claim in there):
                raise _unnamed(what)
            if not there:
                raise errors.ClaimNotFound(what)
            name = there[0].name
        edit = self._store.finish(consumer_uuid, sorted(nodes), ClaimSelector(name))
        self._state_sync.caught_up_with(edit.changed)
        there = [claim for claim in edit.claims if claim.node_uuid in nodes]
        if not any(one.is_confirmed and one.uuid == one.name == name for one in there):
            raise _refusal(there, name, what)
        return there

    def revert_claim(self, consumer_uuid, selector=ANY):
        """The instance stays on its host with its old size: its move or its resize is reverted.

        Returns its claims then. Raises ClaimNotFound if there is no move or resize, and Outdated.
        """
        what = f'a move or resize of instance {consumer_uuid}'
        if selector.claim_uuid is None:
            claims = self._store.claims(consumer_uuid)
            self._refuse_unnamed([claim for claim in claims if claim.is_open], what)
        edit = self._store.revert(consumer_uuid, selector)
        if not edit.changed:
            raise _refusal(edit.claims, selector.claim_uuid, what)
        self._state_sync.caught_up_with([*edit.changed, *edit.claims])
        return edit.claims

    def abort_claim(self, consumer_uuid, host=None, selector=ANY):
        """End a claim of the instance, which is on this host if one is named. Returns it in a
        list. Raises ClaimNotFound and Outdated."""
        claims = self._store.claims(consumer_uuid)
        what = f'instance {consumer_uuid}'
        if host is not None:
            nodes = self._state_sync.nodes_of(host, claims)
            claims = [claim for claim in claims if claim.node_uuid in nodes]
            what += f' on host {host}'
        if selector.claim_uuid is None:
            self._refuse_unnamed(claims, what)
        keys = {claim.key for claim in claims}
        edit = self._store.release(sorted(keys), selector=selector)
        if not edit.changed:
            there = [claim for claim in edit.claims if claim.key in keys]
            raise _refusal(there, selector.claim_uuid, what)
        self._state_sync.dropped(edit.changed, 'were aborted')
        self._state_sync.caught_up_with(edit.claims)
        return edit.changed

    @staticmethod
    def _refuse_unnamed(claims, what):
        raise _unnamed(what) if claims else errors.ClaimNotFound(what)


def _unnamed(what):
    """The error for a call that would end, revert or settle something and does not say what."""
    return errors.Outdated(
        f'The call about {what}',
        'it may be older than the claim that is there now; name the claim that it means by its '
        'UUID, or by its resize_uuid',
    )


def _refusal(claims, name, what):
    """The error for a call that has changed none of these claims: the named one is gone, or is not
    as the caller knew it."""
    claim = next((claim for claim in claims if claim.has_uuid(name)), None)
    if claim is None:
        return errors.ClaimNotFound(what)
    why = 'the claim is not confirmed'
    if claim.name != name:
        why = 'a resize of it is open, which is named by its own UUID'
    elif claim.is_confirmed:
        why = 'the claim is confirmed, and the instance is there'
    return errors.Outdated(f'The call about {what}', why)


def _was_there(outcome):
    """Whether a placement was won without a change, because its claims existed already."""
    return bool(outcome.generations) and all(
        before == after for before, after in outcome.generations.values()
    )
