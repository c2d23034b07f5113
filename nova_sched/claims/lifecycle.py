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
"""Changes of existing claims: each event as a function from a claim to its new state."""

import dataclasses

from nova_sched.claim import Claim


def amend(claims, change, usages, consumer_claims, now_s):
    """Apply ``change``, which returns the new claim or None, to each claim; one that it returns
    itself stays. Returns the claims that it changed, as they were."""
    changed = [(claim, after) for claim in claims if (after := change(claim)) is not claim]
    for before, after in changed:
        usage = usages[before.node_uuid]
        usage.take(before.resources, -1)
        if after is not None:
            usage.take(after.resources)
        consumer_claims.put(before.key, after)
    consumer_claims.stamp(now_s, usages)
    return [before for before, _ in changed]


def allocating(claims):
    """The change that confirms these claims, by their UUIDs; those that are confirmed are written
    again, with new generations."""
    uuids = {uuid for claim in claims for uuid in (claim.uuid, claim.name)}

    def change(claim):
        return dataclasses.replace(claim.confirmed()) if claim.uuid in uuids else claim

    return change


def leaving(keys, selector):
    """The change that ends the claims of these keys that ``selector`` covers. One that names a
    resize ends that alone: the instance keeps its size."""

    def change(claim):
        if claim.key not in keys or not selector.covers(claim):
            return claim
        is_resize = claim.resizing and selector.claim_uuid == claim.name != claim.uuid
        return claim.reverted() if is_resize else None

    return change


def finishing(claims, node_uuids, selector):
    """The change that settles a consumer's move or resize, given all its claims: it stays on these
    nodes.

    Nothing changes unless ``selector`` covers a claim there. Claims that were made after the move
    continue: reports may have settled it long ago.
    """
    covered = [
        claim for claim in claims if claim.node_uuid in node_uuids and selector.covers(claim)
    ]
    move = max((claim for claim in covered if claim.move), key=Claim.order, default=None)

    def change(claim):
        if claim in covered:
            return claim.finished()
        return None if move is not None and claim.order() <= move.order() else claim

    return change


def reverting(claims, selector):
    """The change that takes back the consumer's move or resize that ``selector`` covers, given all
    of its claims.

    A confirmed claim ends only if an older one says where the consumer goes back to: without one,
    the move was settled long ago, and the consumer runs there.
    """

    def change(claim):
        if not (claim.is_open and selector.covers(claim)):
            return claim
        if claim.resizing:
            return claim.reverted()
        if not claim.is_confirmed:
            return None
        is_older = (other.is_confirmed and other.order() < claim.order() for other in claims)
        return None if any(is_older) else claim

    return change


def expiring(now_s):
    """The change that ends overdue claims, or notes that the time of a confirmed one is over. The
    sources of moves that end with them stay."""
    return lambda claim: claim.expired() if claim.overdue(now_s) else claim
