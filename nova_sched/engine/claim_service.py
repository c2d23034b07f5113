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
from nova_sched.claims import ANY
from nova_sched.engine import catalog
from nova_sched.engine.groups.member_resolver import ReplanRequired, is_member
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
    ):
        """Claim on one node for a request. Claims of the instance on the host ``leaving`` end with
        it.

        ``selector`` (ClaimSelector) has the UUID of the claim there, if the caller knows it, and
        the time when the caller sent the call. Claims made since then are not replaced; Outdated
        is raised. ``move``, one of MOVES: the kind of move that brings a placed instance to this
        node. An alternate continues the move of the claim that ends, or the resize that failed in
        place. If the node has changed, its hardware is picked again. A claim that was made by a
        call whose answer was lost is replaced. ``new``: the instance does not run yet. If it runs
        on that node, its claim there is returned unchanged.

        Returns the claim. Raises NodeNotFound; AlreadyPlaced for a new instance that runs on
        another node; ComputeResourcesUnavailable with the shortages. Nothing has changed then.
        """
        if selector.claim_uuid is not None and (
            done := self._was_left(request, host, nodename, selector)
        ):
            return done
        self._cluster.hosts.now_s = self._clock()  # a lifetime counts from now
        for _ in range(self._settings().max_claim_attempts):
            node = self._state_sync.node(host, nodename)
            if new and (
                there := self._running(node, self._cluster.claims_of(request.instance_uuid))
            ):
                return there
            try:
                held, learnt = self._try_claim(
                    node, request, request_id, leaving, move, new, selector
                )
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

    def _was_left(self, request, host, nodename, selector):
        """The claim that an earlier attempt of this call has made, if the claim that it replaces
        has ended.

        None if that claim still exists. Raises ClaimNotFound if it has ended in another way.
        """
        claims = self._store.claims(request.instance_uuid)
        if any(claim.has_uuid(selector.claim_uuid) for claim in claims):
            return None
        node = self._state_sync.node(host, nodename)
        there = [
            claim for claim in claims if claim.node_uuid == node.uuid and not claim.is_confirmed
        ]
        if not there:
            raise errors.ClaimNotFound(
                f'{selector.claim_uuid} of instance {request.instance_uuid}'
            )
        return there[0]

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

    def _try_claim(self, node, request, request_id, leaving, move, new, selector):
        """The claim, None if the commit was lost; and whether the loss has updated the host
        state."""
        if not new:
            self._check_age(request.instance_uuid, selector)
        request = self._resolve_member(node, request)
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
                ended.append(claim)  # the store ends it: only one claim may be pending
        for claim in ended:
            self._cluster.drop(claim)
            if claim.resizing:
                self._cluster.add(claim.reverted())
        consumption = None
        try:
            self._check_policy(node, request)
            lifetime_s = self._settings().pending_ttl_s
            marks = {
                'request_id': request_id,
                'created_s': self._cluster.hosts.now_s,  # by the store's clock
                **(request.member_placement.marks(node.row) if request.member_placement else {}),
            }
            consumption = self._cluster.consume(node, request, lifetime_s, move, **marks)
            known = ended if consumption.before is None else [*ended, consumption.before]
            placement = self._state_sync.placement(
                [consumption.claim], [request], releases, known, new
            )
            (outcome,) = self._store.commit([placement])
        except Exception:
            self._undo(consumption, ended)
            raise
        if outcome.won and new and _was_there(outcome):
            self._undo(consumption, ended)
            self._state_sync.catch_up([node.uuid], {})
            return None, True
        if outcome.won:
            self._state_sync.committed([(placement.claims, ended, outcome)])
            return self._cluster.node(node.uuid).claims[request.instance_uuid], False
        self._undo(consumption, ended)
        self._state_sync.committed([], [outcome])
        return None, bool(outcome.fresh or outcome.used or outcome.gone)

    def _check_age(self, consumer, selector):
        """Raise Outdated if claims of the instance have changed since the caller sent the call."""
        for claim in self._cluster.claims_of(consumer):
            if claim.changed_s > selector.since_s and not (
                selector.claim_uuid and claim.has_uuid(selector.claim_uuid)
            ):
                raise errors.Outdated(
                    f'A claim for instance {consumer}', 'another one was made since'
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

    # Changes of existing claims. ``selector`` (ClaimSelector) identifies the claims that the
    # caller knew.

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

        Returns its claims there. Raises ClaimNotFound and Outdated.
        """
        claims = self._store.claims(consumer_uuid)
        nodes = self._state_sync.nodes_of(host, claims)
        there = [claim for claim in claims if claim.node_uuid in nodes]
        if not any(map(selector.covers, there)):
            raise _not_selected(there, selector, f'instance {consumer_uuid} on host {host}')
        self._state_sync.caught_up_with(self._store.finish(consumer_uuid, sorted(nodes), selector))
        found = [claim for claim in self._store.claims(consumer_uuid) if claim.node_uuid in nodes]
        if not found:
            raise errors.ClaimNotFound(f'instance {consumer_uuid} on host {host}')
        return found

    def revert_claim(self, consumer_uuid, selector=ANY):
        """The instance stays on its host with its old size: its move or its resize is reverted.

        Returns its claims then. Raises ClaimNotFound if there is no move or resize, and Outdated.
        """
        changed = self._store.revert(consumer_uuid, selector)
        if not changed:
            open_ones = [
                one for one in self._store.claims(consumer_uuid) if one.move or one.resizing
            ]
            raise _not_selected(
                open_ones, selector, f'a move or resize of instance {consumer_uuid}'
            )
        found = self._store.claims(consumer_uuid)
        self._state_sync.caught_up_with([*changed, *found])
        return found

    def abort_claim(self, consumer_uuid, host=None, selector=ANY):
        """End the instance's claims: on one host, or everywhere. Returns them. Raises
        ClaimNotFound and Outdated."""
        claims = self._store.claims(consumer_uuid)
        nodes = None if host is None else self._state_sync.nodes_of(host, claims)
        keys = [claim.key for claim in claims if nodes is None or claim.node_uuid in nodes]
        ended = self._store.release(keys, selector=selector) if keys else []
        if not ended:
            there = [claim for claim in claims if claim.key in keys]
            what = f'instance {consumer_uuid}' + (f' on host {host}' if host else '')
            raise _not_selected(there, selector, what)
        self._state_sync.dropped(ended, 'were aborted')
        self._state_sync.caught_up_with(
            [claim for claim in claims if claim.key not in {one.key for one in ended}]
        )
        return ended


def _not_selected(claims, selector, what):
    """The error for a call that changes none of these claims: its claim is gone, or they have
    changed since it was sent."""
    about = (
        claim
        for claim in claims
        if selector.claim_uuid is None or claim.has_uuid(selector.claim_uuid)
    )
    if any(claim.changed_s > selector.since_s for claim in about):
        return errors.Outdated(
            f'The call about {what}', 'its claims have changed since it was sent'
        )
    return errors.ClaimNotFound(what)


def _was_there(outcome):
    """Whether a placement was won without a change, because its claims existed already."""
    return bool(outcome.generations) and all(
        before == after for before, after in outcome.generations.values()
    )
