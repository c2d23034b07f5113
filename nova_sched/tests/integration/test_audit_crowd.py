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
"""The audit of a crowd finds wrong answers, broken policies and false refusals, and nothing
else."""

import json

import pytest
import sqlalchemy as sa

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node
from nova_sched.tests.hardware_objects import node_fields
from nova_sched.tests.integration import audit, audit_answers, audit_refusals, orders, stage
from nova_sched.tests.unit.hardware.builders import cell, machine, pool

A, B, C = map(uuid_of, 'abc')
HERE, THERE = uuid_of('here'), uuid_of('there')
NODES = [{'uuid': HERE, 'host': 'here'}, {'uuid': THERE, 'host': 'there'}]


def order(*instances, number=0, size=1, pinned=False, devices=0, group=None):
    asks = orders.asks(size, pinned, devices)
    return orders.order(number, 'plain', list(instances), asks, group)


def answer(asked, *nodes, error=None, sent_s=1.0, answered_s=2.0):
    """An order with its answer: nodes, an error, or a plain refusal."""
    error = error if nodes else error or audit_answers.REFUSED
    told = {'nodes': list(nodes) or None, 'error': error, 'reason': 'why'}
    return {**asked, 'sent_s': [sent_s], 'answered_s': answered_s, **told}


def group(policy='anti-affinity', most=1):
    return {'uuid': uuid_of('group'), 'policy': policy, 'most': most, 'members': []}


def row(consumer, node=HERE, vcpus=1, created_s=0.0, parts=None, of_group=False, **fields):
    """A claim as it stands in its table."""
    resources = {'VCPU': vcpus, 'MEMORY_MB': 512 * vcpus, 'DISK_GB': 1}
    return {
        'consumer_uuid': consumer,
        'node_uuid': node,
        'resources': json.dumps(fields.pop('resources', resources)),
        'parts': parts,
        'group_uuid': uuid_of('group') if of_group else None,
        'created_s': created_s,
        **fields,
    }


ONE, PAIR = order(A), order(A, B)


@pytest.mark.parametrize(
    'asked, told, claims, words',
    [
        pytest.param(ONE, answer(ONE, HERE), [row(A)], None, id='placed'),
        pytest.param(ONE, answer(ONE), [], None, id='refused'),
        pytest.param(ONE, answer(ONE, error='NoAnswer'), [row(A)], None, id='no answer, placed'),
        pytest.param(ONE, answer(ONE, error='NoAnswer'), [], None, id='no answer, not placed'),
        pytest.param(ONE, answer(ONE, HERE), [row(A, THERE)], 'was told', id='elsewhere'),
        pytest.param(ONE, answer(ONE, HERE), [], 'was told', id='nowhere'),
        pytest.param(ONE, answer(ONE, HERE), [row(A), row(A, THERE)], 'was told', id='twice'),
        pytest.param(ONE, answer(ONE), [row(A)], 'was refused', id='refused, but placed'),
        pytest.param(PAIR, answer(PAIR), [row(B)], 'was refused', id='half of a refused one'),
        pytest.param(
            PAIR, answer(PAIR, error='NoAnswer'), [row(B)], 'had no answer', id='half of one'
        ),
        pytest.param(
            PAIR,
            answer(PAIR, HERE, THERE),
            [row(A), row(B)],
            'was told',
            id='one of two elsewhere',
        ),
        pytest.param(ONE, answer(ONE, error='KeyError'), [], 'failed with KeyError', id='failed'),
        pytest.param(ONE, answer(ONE), [row(C)], 'without a request', id='a stranger'),
        pytest.param(ONE, answer(ONE, HERE), [row(A, vcpus=2)], 'a claim has', id='too much'),
        pytest.param(
            ONE, answer(order(A, number=1), HERE), [row(A)], 'has 0 answers', id='unanswered'
        ),
    ],
)
def test_answers(asked, told, claims, words):
    found = list(audit_answers.wrong([asked], [told], claims))
    assert len(found) == (words is not None)
    assert all(words in fault for fault in found)


@pytest.mark.parametrize(
    'of, claims, words',
    [
        pytest.param(
            group(), [row(A, of_group=True), row(B, THERE, of_group=True)], None, id='apart'
        ),
        pytest.param(
            group(),
            [row(A, of_group=True), row(B, of_group=True)],
            '2 members on here',
            id='together',
        ),
        pytest.param(
            group(most=2), [row(A, of_group=True), row(B, of_group=True)], None, id='two allowed'
        ),
        pytest.param(
            group('affinity'),
            [row(A, of_group=True), row(B, of_group=True)],
            None,
            id='affine, together',
        ),
        pytest.param(
            group('affinity'),
            [row(A, of_group=True), row(B, THERE, of_group=True)],
            "members on ['here', 'there']",
            id='affine, apart',
        ),
        pytest.param(
            group('soft-affinity'),
            [row(A, of_group=True), row(B, THERE, of_group=True)],
            None,
            id='a soft one, apart',
        ),
        pytest.param(group(), [row(A)], 'is of group None', id='not of the group'),
    ],
)
def test_policies(of, claims, words):
    answers = [answer(order(consumer, group=of), HERE) for consumer in (A, B)]
    found = list(audit_answers.broken(answers, claims, NODES))
    assert len(found) == (words is not None)
    assert all(words in fault for fault in found)


def node(uuid, vcpus, pcpus=0):
    """A row of its table: memory and disk are no matter here."""
    amounts = {'VCPU': vcpus, 'PCPU': pcpus, 'MEMORY_MB': 9999, 'DISK_GB': 99}
    inventories = {name: [total, 0, 1.0] for name, total in amounts.items()}
    name = 'here' if uuid == HERE else 'there'
    return {
        'uuid': uuid,
        'host': name,
        'inventories': json.dumps(inventories),
        'unclaimed': '{}',
    }


def report(uuid, *cells, pools=()):
    """What a node with these cells and pools has told."""
    made = compute_node(**node_fields(machine(*cells, pools=pools))) if cells or pools else None
    told = made and json.dumps(made.pci_device_pools.obj_to_primitive())
    facts = {'host': uuid, 'numa_topology': made and made.numa_topology, 'pci_pools': told}
    return {'node_uuid': uuid, 'report': json.dumps(facts)}


def has_room(refused, claims=(), ended=(), vcpus=(4, 0), others=()):
    """Whether it is found that the hosts `here` and `there`, with so many CPUs, had room for
    it."""
    nodes = [node(uuid, free) for uuid, free in zip((HERE, THERE), vcpus, strict=True)]
    reports = [report(HERE), report(THERE)]
    answers = [refused, *others]
    return bool(list(audit_refusals.false_refusals(answers, claims, ended, nodes, reports)))


@pytest.mark.parametrize(
    'refused, claims, ended, vcpus, found',
    [
        pytest.param(order(A, size=4), [], [], (4, 0), True, id='it fits'),
        pytest.param(order(A, size=5), [], [], (4, 4), False, id='nowhere enough'),
        pytest.param(order(A, size=4), [row(B)], [], (4, 3), False, id='taken before'),
        pytest.param(
            order(A, size=4), [row(B, created_s=3.0)], [], (4, 0), True, id='taken later'
        ),
        pytest.param(order(A, B, C, size=2), [], [], (4, 3), True, id='several, on both'),
        pytest.param(order(A, B, C, size=2), [], [], (4, 1), False, id='not for all of several'),
        pytest.param(
            order(A, size=4), [], [row(B, ended_s=1.5)], (4, 0), False, id='one left meanwhile'
        ),
        pytest.param(
            order(A, size=4), [], [row(B, ended_s=-1.0)], (4, 0), True, id='one left long ago'
        ),
        pytest.param(order(A, size=4), [], [row(A, ended_s=1.5)], (4, 0), True, id='its own left'),
    ],
)
def test_refusals(refused, claims, ended, vcpus, found):
    assert has_room(answer(refused), claims, ended, vcpus) == found


@pytest.mark.parametrize(
    'of, count, claims, vcpus, found',
    [
        pytest.param(group(), 1, [row(B)], (4, 0), False, id='a member is there'),
        pytest.param(group(), 1, [row(C)], (4, 0), True, id='a stranger is there'),
        pytest.param(group(), 1, [row(B)], (4, 1), True, id='another host is free'),
        pytest.param(group(most=2), 1, [row(B)], (4, 0), True, id='one more is allowed'),
        pytest.param(group(most=2), 2, [row(B)], (4, 0), False, id='two more are not'),
        pytest.param(group('affinity'), 1, [row(B)], (1, 4), False, id='home is full'),
        pytest.param(group('affinity'), 1, [row(B)], (2, 0), True, id='home has room'),
        pytest.param(group('affinity'), 2, [], (1, 1), False, id='no home for two'),
        pytest.param(group('affinity'), 2, [], (1, 2), True, id='a home for two'),
        pytest.param(group('soft-anti-affinity'), 1, [row(B)], (4, 0), True, id='a soft one'),
    ],
)
def test_refusals_by_policy(of, count, claims, vcpus, found):
    refused = answer(order(*(A, uuid_of('a2'))[:count], group=of))
    member = answer(order(B, number=1, group=of), HERE)
    assert has_room(refused, claims, vcpus=vcpus, others=[member]) == found


@pytest.mark.parametrize(
    'asked, pcpus, pages, devices, found',
    [
        pytest.param(
            {'size': 2, 'pinned': True}, (2, 0), (128, 0), (0, 0), True, id='CPUs and pages'
        ),
        pytest.param(
            {'size': 2, 'pinned': True}, (1, 1), (128, 128), (0, 0), False, id='CPUs in two cells'
        ),
        pytest.param(
            {'size': 2, 'pinned': True}, (2, 2), (127, 127), (0, 0), False, id='too few pages'
        ),
        pytest.param(
            {'size': 2, 'pinned': True}, (2, 0), (0, 128), (0, 0), False, id='pages elsewhere'
        ),
        pytest.param(
            {'size': 2, 'pinned': True, 'devices': 1}, (2, 2), (128, 0), (0, 1), False, id='far'
        ),
        pytest.param(
            {'size': 2, 'pinned': True, 'devices': 1}, (2, 2), (0, 128), (0, 1), True, id='near'
        ),
        pytest.param({'devices': 1}, (0, 0), (0, 0), (0, 1), True, id='a device anywhere'),
        pytest.param({'devices': 1}, (0, 0), (0, 0), (0, 0), False, id='no device'),
        pytest.param({'devices': 2}, (0, 0), (0, 0), (1, 1), True, id='devices of two cells'),
    ],
)
def test_refusals_of_pieces(asked, pcpus, pages, devices, found):
    cells = [
        cell(
            number,
            [],
            range(8 * number, 8 * number + pcpus[number]),
            pages=[(2048, pages[number])],
        )
        for number in (0, 1)
    ]
    pools = [pool(count, number) for number, count in enumerate(devices)]
    refused = answer(order(A, **asked))
    nodes, reports = [node(HERE, 4, pcpus=9)], [report(HERE, *cells, pools=pools)]
    lies = audit_refusals.false_refusals([refused], [], [], nodes, reports)
    assert bool(list(lies)) == found


@pytest.mark.parametrize(
    'tries, answered_s, found, doubtful',
    [
        pytest.param([1.0, 2.0], 3.0, {'here': 3}, True, id='its claim may have had the host'),
        pytest.param(
            [1.0, 2.0], 3.0, {'here': 3, 'there': 1}, True, id='and one is not enough for two'
        ),
        pytest.param([1.0, 2.0], 3.0, {'here': 3, 'there': 2}, False, id='another host is left'),
        pytest.param([2.0], 3.0, {'here': 3}, False, id='asked once: nothing ended'),
        pytest.param([1.0, 1.2], 1.4, {'here': 3}, False, id='answered long before'),
        pytest.param([9.5, 9.9], 10.0, {'here': 3}, False, id='asked after that'),
    ],
)
def test_refusals_that_may_be_true(tries, answered_s, found, doubtful):
    beside = {**answer(order(C), HERE, answered_s=answered_s), 'sent_s': tries}
    refused = answer(PAIR, sent_s=2.5, answered_s=9.0)
    assert audit_refusals.doubtful([beside, refused], refused, found) == doubtful


@pytest.mark.parametrize('kind', ['postgresql', 'mariadb'])
def test_claims_that_end_are_kept(request, kind):
    database = stage.upgraded(request.getfixturevalue(kind))
    audit_refusals.keep_ended(database)
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    claim = {'uuid': A, 'state': 'pending', **row(B, created_s=1.0)}
    names, values = ', '.join(claim), ', '.join(f':{name}' for name in claim)
    with engine.begin() as session:
        session.execute(sa.text(f'INSERT INTO claims ({names}) VALUES ({values})'), claim)
    assert audit.rows(database, 'ended_claims') == [[]]
    with engine.begin() as session:
        session.execute(sa.text('DELETE FROM claims'))
        (now_s,) = session.execute(
            sa.text(
                'SELECT '
                f'{"EXTRACT(EPOCH FROM now())" if kind == "postgresql" else "UNIX_TIMESTAMP()"}'
            )
        ).one()
    ((kept,),) = audit.rows(database, 'ended_claims')
    assert (kept['consumer_uuid'], kept['created_s']) == (B, 1.0)
    assert abs(kept['ended_s'] - float(now_s)) < 5
