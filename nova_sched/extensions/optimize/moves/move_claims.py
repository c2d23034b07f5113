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
"""The claims of a move: checked and made before it starts, and settled when it ends.

A server that moves has its claim on the source and one on the destination, so both count. In a
Nova cloud, Nova's own call makes that on the destination. Methods run in the loop only.
"""

import contextlib

from nova_sched import errors
from nova_sched.claim import LIVE_MIGRATION
from nova_sched.claims import ClaimSelector


class MoveClaims:
    """``entry`` is a db.rebalances.MoveEntry throughout. ``settings`` returns RebalanceSettings.

    The claim on the destination has the move's UUID as its request ID. So a scheduler that takes
    a move over finds the claim of the one that had it before, whichever claim that is.
    """

    def __init__(self, cluster, state_sync, claim_service, settings):
        self._cluster, self._settings = cluster, settings
        self._state_sync, self._claim_service = state_sync, claim_service

    def check(self, entry):
        """Raise MoveRefused if the move may not start now. Return the names as ``names``."""
        claims = self._state_sync.claims_of(entry.server)
        for uuid, which in (entry.source, 'source'), (entry.destination, 'destination'):
            self._node(uuid, which)
        names = self.names(entry)
        self._check_claims(entry, claims)
        settings, project = self._settings(), claims[0].project_id
        if entry.server in settings.immovable_servers:
            raise errors.MoveRefused('[rebalance] immovable_servers names the server')
        if project in settings.protected_projects:
            raise errors.MoveRefused(f'[rebalance] protected_projects names project {project}')
        for aggregate in self._cluster.hosts.aggregates:
            if settings.protected_aggregates.isdisjoint((aggregate.name, aggregate.uuid)):
                continue
            for host, _ in names:
                if host in aggregate.hosts:
                    raise errors.MoveRefused(
                        f'host {host} is in aggregate {aggregate.name}, which [rebalance] '
                        'protected_aggregates names'
                    )
        return names

    def names(self, entry):
        """((host, nodename) of the source, those of the destination).

        A node that is gone has its UUID for both names. A conductor knows a move that it was
        handed by the move's UUID, and the server may have left the source before the node was
        removed.
        """
        nodes = [(uuid, self._find(uuid)) for uuid in (entry.source, entry.destination)]
        return tuple((node.host, node.nodename) if node else (uuid, uuid) for uuid, node in nodes)

    def hold(self, entry, request, has_moved=False):
        """Claim on the destination. Return the UUID of the claim; of the one that was made before,
        if there is one and it has not expired. Raises MoveRefused, with the shortages.

        ``has_moved``: the server is there already, so it may have no claim on the source.
        """
        claims = self._state_sync.claims_of(entry.server)
        if claims or not has_moved:
            self._check_claims(entry, claims)
        held = _made(entry, claims)
        if held and (held.is_confirmed or self._claim_service.renew_claim(held)):
            return held.uuid
        node = self._node(entry.destination, 'destination')
        try:
            claim = self._claim_service.claim(
                request,
                node.host,
                node.nodename,
                entry.uuid,
                move=LIVE_MIGRATION,
                # A claim of another request that comes in between is not replaced: the next
                # attempt finds it.
                known=frozenset(claim.name for claim in claims),
            )
        except errors.ComputeResourcesUnavailable as error:
            raise errors.MoveRefused(f'host {node.host}: {error.shortages}') from None
        except errors.NoValidHost as error:
            raise errors.MoveRefused(error.reason) from None
        return claim.uuid

    def renew(self, entry):
        """The move runs: its claim on the destination lives on. Return whether it exists."""
        held = _made(entry, self._state_sync.claims_of(entry.server))
        return held is not None and (held.is_confirmed or self._claim_service.renew_claim(held))

    def finish(self, entry):
        """The server is on the destination: its claim there is the only one from now on.

        Return whether it has a claim there, or has moved on since. If not, its claim was lost.
        """
        claims = self._state_sync.claims_of(entry.server)
        node, held = self._cluster.node(entry.destination), _made(entry, claims)
        if node is not None and held is not None and held.move and not held.resizing:
            # A resize that begins after this read has another name.
            meant = ClaimSelector(held.uuid)
            self._settle(self._claim_service.confirm_claim, entry.server, node.host, meant)
            claims = self._state_sync.claims_of(entry.server)
        # A claim on the source that is younger than the move: the server has moved back since.
        before = [
            claim
            for claim in claims
            if claim.node_uuid == entry.source and claim.created_s <= entry.started_s
        ]
        has_left = bool(claims) and not before
        return has_left or any(claim.node_uuid == entry.destination for claim in claims)

    def revert(self, entry):
        """The server stays on the source: the move's claim on the destination ends.

        A claim that the destination has confirmed stays: only its reports can tell that the server
        has left again. Return whether the move has no claim there any more.
        """
        self.drop(entry)
        return _made(entry, self._state_sync.claims_of(entry.server)) is None

    def drop(self, entry):
        """End the move's claim on the destination, unless it is confirmed."""
        held = _made(entry, self._state_sync.claims_of(entry.server))
        if held is not None and not held.is_confirmed:
            pending = ClaimSelector(held.uuid, unconfirmed=True)
            self._settle(self._claim_service.revert_claim, entry.server, pending)

    def is_on(self, entry, node_uuid):
        """Whether the server has one claim, and that one is confirmed on this node."""
        claims = self._state_sync.claims_of(entry.server)
        return len(claims) == 1 and claims[0].is_confirmed and claims[0].node_uuid == node_uuid

    def _settle(self, method, *args):
        # Another call or a report may have settled it: then the claims tell how.
        with contextlib.suppress(errors.ClaimNotFound, errors.Outdated):
            method(*args)

    def _find(self, uuid):
        node = self._cluster.node(uuid)
        if node is None and self._state_sync.poll_again():
            node = self._cluster.node(uuid)
        return node

    def _node(self, uuid, which):
        node = self._find(uuid)
        if node is None:
            raise errors.MoveRefused(f'the {which} {uuid} is not a known compute node')
        return node

    def _check_claims(self, entry, claims):
        if not claims:
            raise errors.MoveRefused(f'server {entry.server} has no claim: it may be deleted')
        others = [claim for claim in claims if claim.request_id != entry.uuid]
        if any(claim.is_provisional for claim in others) or len(others) > 1:
            raise errors.MoveRefused(
                f'server {entry.server} is being built, moved or resized by another request'
            )
        if not others or others[0].node_uuid != entry.source:
            node = self._cluster.node(claims[0].node_uuid)
            where = node.host if node else claims[0].node_uuid
            raise errors.MoveRefused(
                f'server {entry.server} is on host {where}, and not on the source of the move'
            )
        if any(claim.node_uuid != entry.destination for claim in claims if claim not in others):
            raise errors.MoveRefused(f'the claim of move {entry.uuid} is on another host')


def _made(entry, claims):
    """The move's own claim on the destination, or None."""
    return next((claim for claim in claims if claim.request_id == entry.uuid), None)


class NovaMoveClaims(MoveClaims):
    """Nova's conductor asks a scheduler for the destination of each live migration. That call
    claims there and writes the allocation, and both ends count from then on. The claims follow
    Placement: one ends when its allocation is gone. A claim that was made before would be replaced
    by the one of the call, and nothing has to be settled at the end.
    """

    def hold(self, entry, request, has_moved=False):
        """Check the claims once more; there is no claim to return. Raises MoveRefused."""
        self._check_claims(entry, self._state_sync.claims_of(entry.server))

    def renew(self, entry):
        """The claim on the destination lives as long as its allocation."""
        return True

    def finish(self, entry):
        """The claim on the source ends with Nova's allocation there."""
        return True

    def revert(self, entry):
        """The claim on the destination ends with Nova's allocation there."""
        return True

    def drop(self, entry):
        """There is no claim of a move that was not handed over."""

    def is_on(self, entry, node_uuid):
        """Not known: a claim is confirmed by its allocation, before the server arrives. Nova's
        migrations tell."""
        return False
