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
"""Audit of the moves of rebalances: claims that wait for their end, and servers without a claim
where a move has brought them."""

import collections

from nova_sched.claims.findings import ERROR, MOVING, NOTE, UNCLAIMED, AuditFinding
from nova_sched.db.rebalances import CONFIRMED, HANDED_OVER, IN_FLIGHT

LONG_S = 3600.0  # a move in flight for less is nothing to tell


def moves(snapshot, now_s):
    """Findings on the moves of a Snapshot; ``now_s`` in seconds since the epoch."""
    claims = collections.defaultdict(list)
    for claim in snapshot.claims:
        claims[claim.consumer_uuid].append(claim)
    for move in snapshot.moves:
        held = claims[move.server]
        own = next((claim for claim in held if claim.request_id == move.uuid), None)
        if own is not None and own.move:
            yield from _waits(snapshot, move, own, now_s)
        elif all(claim.node_uuid != move.destination for claim in held):
            yield from _has_none(snapshot, move, held)


def _waits(snapshot, move, claim, now_s):
    """The destination has the claim, and the move is not settled."""
    if move.state not in IN_FLIGHT:
        rest = (
            'the host lists the server all the same, and its reports decide'
            if claim.is_confirmed
            else 'the claim ends when it expires'
        )
        yield _finding(snapshot, move, MOVING, NOTE, f'is {move.state}, but {rest}', claim)
    elif now_s - move.started_s >= LONG_S:
        rest = (
            'the host lists the server, and no conductor has said that the move has ended'
            if claim.is_confirmed
            else 'the claim is renewed as long as a conductor says that the move runs'
        )
        minutes = int((now_s - move.started_s) // 60)
        words = f'is {move.state}, and was started {minutes} minutes ago: {rest}'
        yield _finding(snapshot, move, MOVING, NOTE, words, claim)


def _has_none(snapshot, move, claims):
    """The server has no claim on the destination."""
    node = snapshot.nodes.get(move.destination)
    listed = (node is not None and node.report is not None and node.report.instances) or ()
    if move.state == HANDED_OVER and (claims or move.server in listed):
        why = move.why or 'the claim has ended, and a scheduler makes it again within seconds'
        severity = ERROR if move.why else NOTE
        yield _finding(snapshot, move, UNCLAIMED, severity, f'runs: {why}')
    elif move.state == CONFIRMED and move.why and move.server in listed:
        yield _finding(snapshot, move, UNCLAIMED, ERROR, f'has ended: {move.why}')


def _finding(snapshot, move, kind, severity, words, claim=None):
    node = snapshot.nodes.get(move.destination)
    return AuditFinding(
        kind,
        f'move {move.uuid} of rebalance {move.rebalance_uuid} to it {words}',
        move.state,
        None,
        severity,
        node_uuid=move.destination,
        host=node and node.host,
        consumer_uuid=move.server,
        claim_uuid=claim and claim.uuid,
    )
