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
"""Audit of top groups: planned claims without a group, and nodes whose exclusive domain tokens
contradict the claims and instances on them."""

from nova_sched.claims import findings as kind
from nova_sched.claims.findings import NOTE, AuditFinding
from nova_sched.objects.claim import PLANNED


def strays(snapshot):
    """Planned claims whose top group does not exist."""
    there = {record.uuid for record in snapshot.records if not record.deleted}
    for claim in snapshot.claims:
        if claim.state == PLANNED and claim.top_group not in there:
            of = (
                f'top group {claim.top_group}, which is gone'
                if claim.top_group
                else 'no top group'
            )
            words = f'it is planned for member {claim.member} of {of}'
            yield AuditFinding(kind.STRAY, words, claim.top_group, None, **_of(claim, snapshot))


def fences(snapshot):
    """Finds tokens on nodes without a claim that has them, outsiders on nodes with tokens, and
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
    mine, others = set(claim.fences), node.fences & borne
    if others - mine:
        words = (
            f'{node.place} is in exclusive domains of other groups: '
            f'{", ".join(sorted(others - mine))}'
        )
        yield AuditFinding(
            kind.OUTSIDER, words, sorted(mine), sorted(others), **_of(claim, snapshot)
        )
    if mine - node.fences:
        words = f'{node.place} does not carry the tokens {", ".join(sorted(mine - node.fences))}'
        yield AuditFinding(
            kind.UNFENCED, words, sorted(node.fences), sorted(mine), **_of(claim, snapshot)
        )


def _at(node):
    return {'node_uuid': node.uuid, 'host': node.host}


def _of(claim, snapshot):
    node = snapshot.nodes.get(claim.node_uuid)
    where = _at(node) if node else {'node_uuid': claim.node_uuid}
    return {
        **where,
        'consumer_uuid': claim.consumer_uuid,
        'claim_uuid': claim.uuid,
        'group_uuid': claim.top_group,
    }
