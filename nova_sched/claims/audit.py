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
"""The audit: finds contradictions in a snapshot of a store. Pure, and changes nothing.

All data is from one moment, so no finding is an effect of an unfinished transaction.
"""

import collections
import dataclasses

from nova_sched.claim import PLANNED
from nova_sched.claims import findings as kind
from nova_sched.claims.audit_pieces import as_claimed, overdrawn, shared
from nova_sched.claims.findings import ERROR, NOTE, AuditFinding
from nova_sched.claims.reconcile import keeps_source
from nova_sched.db import rebalances
from nova_sched.state.request import AFFINITY

LATE_S = 300.0  # a claim overdue for longer is an error: schedulers end them every 20 s
DAY_S = 86400.0
LONG_S = 3600.0  # a move in flight for less is nothing to tell


def audit(snapshot, now_s, before=None):
    """Return all findings in a Snapshot, errors first; ``now_s`` in seconds since the epoch.

    ``before``: an earlier Snapshot. A claim that its node does not list is an error only if the
    node has reported in between. Otherwise, or without ``before``, it is a note.
    """
    unsorted = [
        *_unreadable(snapshot),
        *_drift(snapshot),
        *_over_capacity(snapshot),
        *_on_pieces(snapshot),
        *_orphans(snapshot),
        *_twice_on_the_way(snapshot),
        *_marks(snapshot),
        *_overdue(snapshot, now_s),
        *_not_listed(snapshot, before),
        *_policies(snapshot),
        *_open(snapshot, now_s),
        *_moves(snapshot, now_s),
        *_strays(snapshot),
        *_exclusive_domains(snapshot),
    ]
    return sorted(unsorted, key=lambda finding: not finding.is_error)


# Nodes.


def _unreadable(snapshot):
    for row in snapshot.unreadable:
        about = dataclasses.asdict(row)
        words = f'its row cannot be read: {about.pop("why")}'
        yield AuditFinding(kind.UNREADABLE, words, **about)


def _drift(snapshot):
    claimed = _claimed(snapshot)
    for node in snapshot.nodes.values():
        comes_to = nonzero(claimed[node.uuid] + collections.Counter(node.foreign))
        used = nonzero(node.used)
        if used != comes_to:
            yield AuditFinding(
                kind.DRIFT,
                f'{amounts(used)} recorded; claims and unclaimed usage are {amounts(comes_to)}',
                used,
                comes_to,
                **_at(node),
            )


def _over_capacity(snapshot):
    claimed = _claimed(snapshot)
    for node in snapshot.nodes.values():
        used = claimed[node.uuid] + collections.Counter(node.foreign)
        for name, amount in sorted(used.items()):
            inventory = node.inventories.get(name)
            capacity = inventory.capacity if inventory else 0
            if amount > capacity:
                parts = {'claimed': claimed[node.uuid][name], 'foreign': node.foreign.get(name, 0)}
                yield AuditFinding(
                    kind.CAPACITY,
                    f'{amount} {name} in use ({parts["claimed"]} by claims, {parts["foreign"]} '
                    f'unclaimed), and the capacity is {capacity}',
                    {name: amount},
                    {name: capacity},
                    **_at(node),
                )


def _on_pieces(snapshot):
    holding = collections.defaultdict(list)
    for claim in snapshot.claims:
        if claim.all_parts and claim.node_uuid in snapshot.nodes:
            holding[claim.node_uuid].append(claim)
    for uuid, claims in holding.items():
        node = snapshot.nodes[uuid]
        certain = node.report is not None and as_claimed(node.report, claims)
        for cpu, holders, uncounted in shared(claims):
            yield _shared(node, cpu, holders, certain or uncounted)
        if node.report is not None:
            severity = ERROR if certain else NOTE
            for what, taken, available in overdrawn(node.report, claims):
                words = f'{taken} {what} claimed, and the node has {available} for them'
                yield AuditFinding(
                    kind.CAPACITY, words, {what: taken}, {what: available}, severity, **_at(node)
                )


def _shared(node, cpu, claims, certain):
    consumers = sorted(claim.consumer_uuid for claim in claims)
    words = f'CPU {cpu} is held by {" and ".join(consumers)}'
    if not certain:
        words += '; the node may have given one of them another CPU than the claimed one'
    severity = ERROR if certain else NOTE
    return AuditFinding(
        kind.SHARED, words, {f'CPU {cpu}': len(claims)}, {f'CPU {cpu}': 1}, severity, **_at(node)
    )


def _claimed(snapshot):
    """node UUID -> sum of the amounts of its claims, by resource class."""
    totals: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for claim in snapshot.claims:
        totals[claim.node_uuid].update(claim.resources)
    return totals


# Claims.


def _orphans(snapshot):
    for claim in snapshot.claims:
        if claim.node_uuid not in snapshot.nodes:
            words = f'{amounts(claim.resources)} on node {claim.node_uuid}, which is gone'
            yield AuditFinding(kind.ORPHAN, words, dict(claim.resources), {}, **_of(claim))


def _twice_on_the_way(snapshot):
    waiting = collections.defaultdict(list)
    for claim in snapshot.claims:
        if not claim.is_confirmed:
            waiting[claim.consumer_uuid].append(claim)
    for consumer, claims in waiting.items():
        if len(claims) > 1:
            hosts = ', '.join(_place(snapshot, claim) for claim in claims)
            words = (
                f'{len(claims)} unconfirmed claims of one instance, on {hosts}; '
                'only one is allowed'
            )
            yield AuditFinding(kind.DUPLICATE, words, len(claims), 1, consumer_uuid=consumer)


def _marks(snapshot):
    for claim in snapshot.claims:
        due = None if claim.is_confirmed else claim.consumer_uuid
        mark = snapshot.marks.get(claim.uuid, due)
        if mark != due:
            words = f'it is {claim.state}, but marked as ' + (
                f'unconfirmed for {mark}' if mark else 'confirmed'
            )
            yield AuditFinding(kind.MARK, words, mark, due, **_of(claim, snapshot))


def _overdue(snapshot, now_s):
    for claim in snapshot.claims:
        if (
            not claim.is_confirmed
            and claim.expires_s is not None
            and claim.expires_s + LATE_S <= now_s
        ):
            late_s = int(now_s - claim.expires_s)
            words = (
                f'it is {claim.state} and expired {late_s} s ago, but no scheduler has ended it'
            )
            yield AuditFinding(kind.OVERDUE, words, claim.expires_s, now_s, **_of(claim, snapshot))


def _not_listed(snapshot, before):
    earlier = {} if before is None else {claim.uuid: claim for claim in not_listed(before)}
    for claim in not_listed(snapshot):
        node = snapshot.nodes[claim.node_uuid]
        reported = claim.uuid in earlier and node.seen_s > before.nodes[claim.node_uuid].seen_s
        words = (
            f'it is confirmed, but the last report lists {len(node.report.instances)} instances '
            'without it'
        )
        yield AuditFinding(
            kind.UNLISTED,
            f'{words}, like the report before' if reported else words,
            claim.state,
            None,
            ERROR if reported else NOTE,
            **_of(claim, snapshot),
        )


def not_listed(snapshot):
    """Confirmed claims without an open move that the last report of their node does not list.

    That report may be older than the caller's confirmation of the instance; the next report is
    not.
    """
    moving = collections.defaultdict(list)  # consumer -> its claims that were made for a move
    for claim in snapshot.claims:
        if claim.move:
            moving[claim.consumer_uuid].append(claim)
    for claim in snapshot.claims:
        node = snapshot.nodes.get(claim.node_uuid)
        if (
            claim.is_confirmed
            and node is not None
            and node.report is not None
            and node.report.instances is not None
            and claim.consumer_uuid not in node.report.instances
            and claim.changed_at <= node.reported_at
            and not claim.awaited
            and claim.consumer_uuid not in snapshot.uncertain
            and not any(keeps_source(other, *claim.key) for other in moving[claim.consumer_uuid])
        ):
            yield claim


def _open(snapshot, now_s):
    """Moves and resizes that have not been settled for a day; they may have been forgotten."""
    counts = collections.Counter(claim.consumer_uuid for claim in snapshot.claims)
    of_rebalances = {move.uuid for move in snapshot.moves}
    for claim in snapshot.claims:
        if claim.request_id in of_rebalances:
            continue  # see _moves
        since_s = claim.created_s if claim.expires_s is None else claim.expires_s
        if claim.move and counts[claim.consumer_uuid] > 1 and claim.created_s + DAY_S <= now_s:
            days = int((now_s - claim.created_s) // DAY_S)
            time = f'{days} day{"" if days == 1 else "s"}'
            words = f'the {claim.move} to it has been open for {time}'
            yield AuditFinding(
                kind.OPEN_MOVE, words, claim.created_s, None, NOTE, **_of(claim, snapshot)
            )
        elif claim.resizing and since_s + DAY_S <= now_s:
            old, new = amounts(claim.resizing.old), amounts(claim.resizing.new)
            words = f'its resize in place from {old} to {new} has not been settled'
            yield AuditFinding(
                kind.OPEN_RESIZE, words, since_s, None, NOTE, **_of(claim, snapshot)
            )


# Moves of rebalances: claims that wait for their end, and servers without a claim where a move has
# brought them.


def _moves(snapshot, now_s):
    """Findings on the moves of a Snapshot; ``now_s`` in seconds since the epoch."""
    claims = collections.defaultdict(list)
    for claim in snapshot.claims:
        claims[claim.consumer_uuid].append(claim)
    for move in snapshot.moves:
        if move.server in snapshot.uncertain:
            continue
        held = claims[move.server]
        own = next((claim for claim in held if claim.request_id == move.uuid), None)
        if own is not None and own.move:
            yield from _unsettled_move(snapshot, move, own, now_s)
        elif all(claim.node_uuid != move.destination for claim in held):
            yield from _unclaimed_move(snapshot, move, held)


def _unsettled_move(snapshot, move, claim, now_s):
    """The destination has the claim, and the move is not settled."""
    if move.state not in rebalances.IN_FLIGHT:
        rest = (
            'the host lists the server all the same, and its reports decide'
            if claim.is_confirmed
            else 'the claim ends when it expires'
        )
        yield _move_finding(
            snapshot, move, kind.MOVING, NOTE, f'is {move.state}, but {rest}', claim
        )
    elif now_s - move.started_s >= LONG_S:
        rest = (
            'the host lists the server, and no conductor has said that the move has ended'
            if claim.is_confirmed
            else 'the claim is renewed as long as a conductor says that the move runs'
        )
        minutes = int((now_s - move.started_s) // 60)
        words = f'is {move.state}, and was started {minutes} minutes ago: {rest}'
        yield _move_finding(snapshot, move, kind.MOVING, NOTE, words, claim)


def _unclaimed_move(snapshot, move, claims):
    """The server has no claim on the destination."""
    node = snapshot.nodes.get(move.destination)
    listed = (node is not None and node.report is not None and node.report.instances) or ()
    if move.state == rebalances.HANDED_OVER and (claims or move.server in listed):
        why = move.why or 'the claim has ended, and a scheduler makes it again within seconds'
        severity = ERROR if move.why else NOTE
        yield _move_finding(snapshot, move, kind.UNCLAIMED, severity, f'runs: {why}')
    elif move.state == rebalances.CONFIRMED and move.why and move.server in listed:
        yield _move_finding(snapshot, move, kind.UNCLAIMED, ERROR, f'has ended: {move.why}')


def _move_finding(snapshot, move, name, severity, words, claim=None):
    node = snapshot.nodes.get(move.destination)
    return AuditFinding(
        name,
        f'move {move.uuid} of rebalance {move.rebalance_uuid} to it {words}',
        move.state,
        None,
        severity,
        node_uuid=move.destination,
        host=node and node.host,
        consumer_uuid=move.server,
        claim_uuid=claim and claim.uuid,
    )


# Server groups.


def _policies(snapshot):
    members = collections.defaultdict(list)
    for claim in snapshot.claims:
        if claim.group_uuid is not None:
            members[claim.group_uuid].append(claim)
    for policy in snapshot.policies:
        group = {'group_uuid': policy.group_uuid}
        if not members[policy.group_uuid]:
            yield AuditFinding(kind.EMPTY_GROUP, 'it has no members', 0, None, NOTE, **group)
            continue
        placed = [
            claim for claim in members[policy.group_uuid] if claim.node_uuid in snapshot.nodes
        ]
        check = _apart if policy.kind != AFFINITY else _together
        yield from check(snapshot, policy, placed)


def _apart(snapshot, policy, claims):
    for uuid, count in collections.Counter(claim.node_uuid for claim in claims).items():
        if count > policy.most:
            node = snapshot.nodes[uuid]
            words = (
                f'anti-affinity: {count} members on {node.place}, and {policy.most} may be there'
            )
            yield AuditFinding(
                kind.POLICY, words, count, policy.most, group_uuid=policy.group_uuid, **_at(node)
            )


def _together(snapshot, policy, claims):
    """Find affinity groups without a host where all members have claims.

    A member may have another claim too, on a host that it moves to or was evacuated from.
    """
    consumers = collections.defaultdict(set)
    for claim in claims:
        consumers[claim.consumer_uuid].add(snapshot.nodes[claim.node_uuid].host)
    hosts = sorted(set().union(*consumers.values()))
    if consumers and not set.intersection(*consumers.values()):
        words = f'affinity: {len(consumers)} members on {len(hosts)} hosts: {", ".join(hosts)}'
        yield AuditFinding(kind.POLICY, words, hosts, hosts[:1], group_uuid=policy.group_uuid)


# Placement groups.


def _strays(snapshot):
    """Planned claims whose placement group does not exist."""
    existing = {record.uuid for record in snapshot.records if not record.deleted}
    for claim in snapshot.claims:
        if claim.state == PLANNED and claim.top_group not in existing:
            of = (
                f'placement group {claim.top_group}, which is gone'
                if claim.top_group
                else 'no placement group'
            )
            words = f'it is planned for member {claim.member} of {of}'
            yield AuditFinding(
                kind.STRAY, words, claim.top_group, None, **_of_group(claim, snapshot)
            )


def _exclusive_domains(snapshot):
    """Find tokens on nodes without a claim that has them, outsiders on nodes with tokens, and
    members on nodes without their tokens."""
    borne = {token for claim in snapshot.claims for token in claim.fences}
    for node in snapshot.nodes.values():
        for token in sorted(node.fences - borne):
            words = f'it carries the token {token} of an exclusive domain, but no claim has it'
            yield AuditFinding(kind.FENCE, words, token, None, NOTE, **_at(node))
        if node.fences & borne and node.foreign_instances:
            words = (
                f'{node.foreign_instances} instances without a claim are in its exclusive domains'
            )
            yield AuditFinding(kind.OUTSIDER, words, node.foreign_instances, 0, NOTE, **_at(node))
    for claim in snapshot.claims:
        if (node := snapshot.nodes.get(claim.node_uuid)) is not None:
            yield from _on_node(snapshot, claim, node, borne)


def _on_node(snapshot, claim, node, borne):
    own, others = set(claim.fences), node.fences & borne
    if others - own:
        words = (
            f'{node.place} is in exclusive domains of other groups: '
            f'{", ".join(sorted(others - own))}'
        )
        yield AuditFinding(
            kind.OUTSIDER, words, sorted(own), sorted(others), **_of_group(claim, snapshot)
        )
    if own - node.fences:
        words = f'{node.place} does not carry the tokens {", ".join(sorted(own - node.fences))}'
        yield AuditFinding(
            kind.UNFENCED, words, sorted(node.fences), sorted(own), **_of_group(claim, snapshot)
        )


def _of_group(claim, snapshot):
    return {**_of(claim, snapshot), 'group_uuid': claim.top_group}


# Texts.


def nonzero(resources):
    return {name: amount for name, amount in sorted(resources.items()) if amount}


def amounts(resources):
    """Return amounts by resource class as text: `512 MEMORY_MB, 1 VCPU`."""
    return ', '.join(f'{amount} {name}' for name, amount in sorted(resources.items())) or 'nothing'


def _at(node):
    return {'node_uuid': node.uuid, 'host': node.host}


def _of(claim, snapshot=None):
    node = snapshot and snapshot.nodes.get(claim.node_uuid)
    where = _at(node) if node else {'node_uuid': claim.node_uuid}
    return {**where, 'consumer_uuid': claim.consumer_uuid, 'claim_uuid': claim.uuid}


def _place(snapshot, claim):
    node = snapshot.nodes.get(claim.node_uuid)
    return node.place if node else f'node {claim.node_uuid}, which is gone'
