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
"""Databases that were changed with plain SQL: the audit finds the faults, with figures, and
repairs them."""

import dataclasses
import json

import pytest
import sqlalchemy as sa

from nova_sched.claim import CONFIRMED, MIGRATION, Resizing
from nova_sched.claims import Placement
from nova_sched.claims.audit import audit
from nova_sched.claims.maintenance import ClaimMaintenance
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db.tables import MOVES
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.hardware.providers import Allotted
from nova_sched.tests.builders import NOW, claim, report, still, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.stores import faults
from nova_sched.tests.unit.claims.batteries.steps import seen
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, told, wanted
from nova_sched.tests.unit.hardware.builders import request as device

A, B, C, GROUP = (uuid_of(name) for name in ('a', 'b', 'c', 'group'))
ZERO, ONE = (uuid_of(f'node host-{number}') for number in (0, 1))
HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def database(sqlite):
    return cleared(sqlite)


@pytest.fixture
def store(database):
    """Two hosts of 4 vCPUs; A is on its way to host-0, B is on host-1, where something else runs
    too."""
    made = SqlClaimStore(database, lambda: NOW)
    reports = [
        report('host-0', vcpus=4, instances=frozenset()),
        report('host-1', vcpus=4, vcpus_used=2, memory_mb_used=512, instances=frozenset([B])),
    ]
    held = [
        claim(A, ZERO, created_s=NOW, expires_s=NOW + HOUR, uuid=uuid_of('claim a')),
        claim(B, ONE, created_s=NOW, uuid=uuid_of('claim b')),
    ]
    made.report(reports, NOW)
    assert all(one.won for one in made.commit([Placement((one,)) for one in held]))
    again = [dataclasses.replace(one, order=seen(made, one.host)) for one in reports]
    made.report(again, NOW + 1)
    return made


def run(database, *statements):
    with database.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def found(database, now_s=NOW + 2):
    return audit(ClaimMaintenance(database).snapshot(), now_s)


def copied(uuid, **changes):
    """SQL that copies A's claim, with other values in these columns, given as SQL."""
    columns = (
        'uuid consumer_uuid node_uuid state unconfirmed resources group_uuid '
        'created_s expires_s move'
    ).split()
    values = [changes.get(name, f"'{uuid}'" if name == 'uuid' else name) for name in columns]
    return (
        f'INSERT INTO claims ({", ".join(columns)}) SELECT {", ".join(values)} FROM claims'
        f" WHERE consumer_uuid = '{A}' AND node_uuid = '{ZERO}'"
    )


def use(vcpus, node=ZERO):
    """SQL that sets the used amounts of the node."""
    used = json.dumps({'MEMORY_MB': 512 * vcpus, 'VCPU': vcpus})
    return f"UPDATE nodes SET used = '{used}' WHERE uuid = '{node}'"


# host-1 has a claim more than before.
ONE_MORE = (
    "UPDATE nodes SET used = json_set(used, '$.VCPU', 3, '$.MEMORY_MB', 1024) "
    f"WHERE uuid = '{ONE}'"
)
A_CONFIRMED = (
    "UPDATE claims SET state = 'confirmed', unconfirmed = NULL, expires_s = NULL "
    f"WHERE consumer_uuid = '{A}'"
)
OF_A = {'consumer_uuid': A, 'claim_uuid': uuid_of('claim a'), 'node_uuid': ZERO, 'host': 'host-0'}

# Each with the SQL, and of the one finding: its kind, what it is about, both sides' figures.
REPAIRED = [
    pytest.param(
        [use(3)],
        'drift',
        {'node_uuid': ZERO, 'host': 'host-0'},
        {'MEMORY_MB': 1536, 'VCPU': 3},
        {'MEMORY_MB': 512, 'VCPU': 1},
        id='more recorded than claimed',
    ),
    pytest.param(
        [f"UPDATE nodes SET used = '{{}}' WHERE uuid = '{ONE}'"],
        'drift',
        {'node_uuid': ONE, 'host': 'host-1'},
        {},
        {'MEMORY_MB': 512, 'VCPU': 2},
        id='less recorded than claims and unclaimed usage',
    ),
    pytest.param(
        [copied('lost', consumer_uuid=f"'{C}'", unconfirmed=f"'{C}'", node_uuid="'nowhere'")],
        'orphan',
        {'consumer_uuid': C, 'claim_uuid': 'lost', 'node_uuid': 'nowhere'},
        {'MEMORY_MB': 512, 'VCPU': 1},
        {},
        id='a claim on no node',
    ),
    pytest.param(
        [
            copied('second', node_uuid=f"'{ONE}'", unconfirmed='NULL', created_s='created_s + 1'),
            ONE_MORE,
            'UPDATE claims SET unconfirmed = NULL',
            f"UPDATE claims SET unconfirmed = consumer_uuid WHERE uuid = '{uuid_of('claim a')}'",
        ],
        'duplicate',
        {'consumer_uuid': A},
        2,
        1,
        id='two claims wait for one instance',
    ),
    pytest.param(
        [f"UPDATE claims SET unconfirmed = NULL WHERE consumer_uuid = '{A}'"],
        'mark',
        OF_A,
        None,
        A,
        id='a claim that waits and is not marked',
    ),
    pytest.param(
        [f"UPDATE claims SET unconfirmed = consumer_uuid WHERE consumer_uuid = '{B}'"],
        'mark',
        {'consumer_uuid': B, 'claim_uuid': uuid_of('claim b'), 'node_uuid': ONE, 'host': 'host-1'},
        B,
        None,
        id='a confirmed one that is marked',
    ),
    pytest.param(
        [f'UPDATE claims SET expires_s = {NOW - 1000} WHERE state <> \'confirmed\''],
        'overdue',
        OF_A,
        NOW - 1000,
        NOW + 2,
        id='an expired claim that nobody ended',
    ),
    pytest.param(
        [f"INSERT INTO server_groups VALUES ('{GROUP}', 'affinity', 1, 5)"],
        'empty-group',
        {'group_uuid': GROUP},
        0,
        None,
        id='a group without members',
    ),
    pytest.param(
        [(f"UPDATE claims SET state = 'planned', top_group = '{GROUP}' "
          f"WHERE consumer_uuid = '{A}'")],
        'stray',
        {**OF_A, 'group_uuid': GROUP},
        GROUP,
        None,
        id='planned for a group that is gone',
    ),
    pytest.param(
        [f"UPDATE nodes SET fences = '[\"t\"]' WHERE uuid = '{ONE}'"],
        'fence',
        {'node_uuid': ONE, 'host': 'host-1'},
        't',
        None,
        id='an exclusive domain without claims',
    ),
]  # fmt: skip


@pytest.mark.parametrize('statements, kind, about, recorded, expected', REPAIRED)
def test_what_can_be_repaired(database, store, statements, kind, about, recorded, expected):
    assert found(database) == []
    run(database, *statements)
    findings = found(database)
    ours = [one for one in findings if one.kind == kind]
    assert [(one.found, one.expected, bool(one.repair)) for one in ours] == [
        (recorded, expected, True)
    ]
    named = ('node_uuid', 'host', 'consumer_uuid', 'claim_uuid', 'group_uuid')
    assert {name: value for name in named if (value := getattr(ours[0], name))} == about
    assert ours[0].words
    heads = store.heads()
    ClaimMaintenance(database).repair(findings, NOW + 2)
    assert found(database) == []
    if kind == 'drift':  # a scheduler that knows the old node has to read it again
        assert store.heads()[about['node_uuid']][0] == heads[about['node_uuid']][0] + 1


# B is a member of a group with an exclusive domain.
B_INSIDE = [
    f"INSERT INTO top_groups VALUES ('{GROUP}', NULL, NULL, NULL, 1, 1, NULL, 0, 0, NULL, 1, 0)",
    (f"UPDATE claims SET top_group = '{GROUP}', member = 'db', fences = '[\"t\"]' "
     f"WHERE consumer_uuid = '{B}'"),
    f"UPDATE nodes SET fences = '[\"t\"]' WHERE uuid = '{ONE}'",
]  # fmt: skip
OF_B = {'consumer_uuid': B, 'claim_uuid': uuid_of('claim b'), 'node_uuid': ONE, 'host': 'host-1'}
RESIZING = Resizing({'VCPU': 1}, {'VCPU': 2}).to_json()
NODE_ZERO, NODE_ONE = {'node_uuid': ZERO, 'host': 'host-0'}, {'node_uuid': ONE, 'host': 'host-1'}


@pytest.mark.parametrize(
    'statements, kind, severity, about, recorded, expected',
    [
        pytest.param(
            [f"UPDATE claims SET resources = '{{\"VCPU\": 9}}' WHERE consumer_uuid = '{A}'",
             f"UPDATE nodes SET used = '{{\"VCPU\": 9}}' WHERE uuid = '{ZERO}'"],
            'capacity', 'error', NODE_ZERO, {'VCPU': 9}, {'VCPU': 4},
            id='more claimed than there is',
        ),
        pytest.param(
            [f"UPDATE claims SET resources = '{{\"GOLD\": 1}}' WHERE consumer_uuid = '{A}'",
             f"UPDATE nodes SET used = '{{\"GOLD\": 1}}' WHERE uuid = '{ZERO}'"],
            'capacity', 'error', NODE_ZERO, {'GOLD': 1}, {'GOLD': 0},
            id='a class that the node has not',
        ),
        pytest.param(
            [f"UPDATE nodes SET unclaimed = '{{\"\": {{\"VCPU\": 4}}}}' WHERE uuid = '{ZERO}'",
             f"UPDATE nodes SET used = json_set(used, '$.VCPU', 5) WHERE uuid = '{ZERO}'"],
            'capacity', 'error', NODE_ZERO, {'VCPU': 5}, {'VCPU': 4},
            id='too much with unclaimed usage',
        ),
        pytest.param(
            [f"INSERT INTO server_groups VALUES ('{GROUP}', 'anti-affinity', 2, 1)",
             f"UPDATE claims SET group_uuid = '{GROUP}' WHERE consumer_uuid = '{A}'",
             *(copied(name, consumer_uuid=f"'{name}'", unconfirmed=f"'{name}'")
               for name in ('x', 'y')),
             use(3)],
            'policy', 'error', {**NODE_ZERO, 'group_uuid': GROUP}, 3, 2, id='anti-affinity',
        ),
        pytest.param(
            [f"INSERT INTO server_groups VALUES ('{GROUP}', 'affinity', 1, 1)",
             f"UPDATE claims SET group_uuid = '{GROUP}'"],
            'policy', 'error', {'group_uuid': GROUP}, ['host-0', 'host-1'], ['host-0'],
            id='affinity',
        ),
        pytest.param(
            [A_CONFIRMED],
            'unlisted', 'note', OF_A, CONFIRMED, None, id='a node that lists other instances',
        ),
        pytest.param(
            [copied('there', node_uuid=f"'{ONE}'", state="'confirmed'", unconfirmed='NULL',
                    expires_s='NULL', created_s=f'{NOW + 2 - 3 * DAY}', move="'live-migration'"),
             ONE_MORE,
             ("UPDATE reports SET report = "
              f"json_set(report, '$.instances', json_array('{A}', '{B}'))")],
            'open-move', 'note', {**NODE_ONE, 'consumer_uuid': A, 'claim_uuid': 'there'},
            NOW + 2 - 3 * DAY, None, id='a move that nobody settles',
        ),
        pytest.param(
            [f"UPDATE claims SET expires_s = {NOW - 2 * DAY} WHERE consumer_uuid = '{B}'",
             f"UPDATE claims SET resizing = '{RESIZING}' WHERE consumer_uuid = '{B}'"],
            'open-resize', 'note',
            {**NODE_ONE, 'consumer_uuid': B, 'claim_uuid': uuid_of('claim b')},
            NOW - 2 * DAY, None,
            id='a resize that nobody settles',
        ),
        pytest.param(
            [*B_INSIDE, f"UPDATE nodes SET fences = '[\"t\"]' WHERE uuid = '{ZERO}'"],
            'outsider', 'error', OF_A, [], ['t'], id='an outsider in an exclusive domain',
        ),
        pytest.param(
            [*B_INSIDE, f"UPDATE nodes SET foreign_instances = 2 WHERE uuid = '{ONE}'"],
            'outsider', 'note', NODE_ONE, 2, 0, id='instances without claims in a closed domain',
        ),
        pytest.param(
            [*B_INSIDE, 'UPDATE nodes SET fences = NULL'],
            'unfenced', 'error', {**OF_B, 'group_uuid': GROUP}, [], ['t'],
            id='a missing exclusive domain',
        ),
    ],
)  # fmt: skip
def test_findings_that_are_not_repaired(
    database, store, statements, kind, severity, about, recorded, expected
):
    run(database, *statements)
    (one,) = findings = found(database)
    assert (one.kind, one.severity, one.found, one.expected) == (
        kind,
        severity,
        recorded,
        expected,
    )
    named = ('node_uuid', 'host', 'consumer_uuid', 'claim_uuid', 'group_uuid')
    assert {name: value for name in named if (value := getattr(one, name))} == about
    assert one.words
    assert one.advice
    assert not one.repair
    ClaimMaintenance(database).repair(findings, NOW + 2)
    assert found(database) == findings


@pytest.mark.parametrize(
    'statements',
    [
        pytest.param(
            [f"UPDATE claims SET expires_s = {NOW - 200} WHERE consumer_uuid = '{A}'"],
            id='an expired claim that is about to be ended',
        ),
        pytest.param(
            [f"INSERT INTO server_groups VALUES ('{GROUP}', 'anti-affinity', 1, 1)",
             f"UPDATE claims SET group_uuid = '{GROUP}'"],
            id='anti-affinity, one on each node',
        ),
        pytest.param(
            [f"INSERT INTO server_groups VALUES ('{GROUP}', 'affinity', 1, 1)",
             f"UPDATE claims SET group_uuid = '{GROUP}' WHERE consumer_uuid = '{A}'",
             A_CONFIRMED,
             ("UPDATE reports SET report = "
              f"json_set(report, '$.instances', json_array('{A}', '{B}'))"),
             copied('there', node_uuid=f"'{ONE}'", state="'pending'", unconfirmed=f"'{A}'",
                    expires_s=f'{NOW + HOUR}', move="'resize'"),
             ONE_MORE],
            id='affinity of one that moves',
        ),
        pytest.param(
            [f"INSERT INTO server_groups VALUES ('{GROUP}', 'affinity', 1, 1)",
             f"UPDATE claims SET group_uuid = '{GROUP}'",
             A_CONFIRMED,
             ("UPDATE reports SET report = "
              f"json_set(report, '$.instances', json_array('{A}', '{B}'))"),
             copied('there', node_uuid=f"'{ONE}'", state="'confirmed'", unconfirmed='NULL',
                    expires_s='NULL', move="'evacuation'"),
             ONE_MORE],
            id='affinity of one that was evacuated to the others',
        ),
        pytest.param(
            [A_CONFIRMED, f"UPDATE claims SET changed_at = 99 WHERE consumer_uuid = '{A}'"],
            id='changed since the last report',
        ),
        pytest.param(
            [A_CONFIRMED,
             copied('there', node_uuid=f"'{ONE}'", state="'pending'", unconfirmed=f"'{A}'",
                    expires_s=f'{NOW + HOUR}', move=f"'{MIGRATION}'"),
             ONE_MORE],
            id='the source of an open move, not listed any more',
        ),
        pytest.param(
            [(f"UPDATE claims SET move = 'resize', created_s = {NOW - 9 * DAY} "
              f"WHERE consumer_uuid = '{B}'")],
            id='a move whose source is gone',
        ),
        pytest.param(B_INSIDE, id='a member of a group that is being deleted, in its domain'),
        pytest.param(
            [*B_INSIDE, 'UPDATE top_groups SET deleted = 0',
             (f"UPDATE claims SET state = 'planned', top_group = '{GROUP}' "
              f"WHERE consumer_uuid = '{A}'")],
            id='a planned member of a group',
        ),
        pytest.param(
            ["UPDATE nodes SET used = json_set(used, '$.GOLD', 0)"],
            id='nothing of a class is no difference',
        ),
    ],
)  # fmt: skip
def test_what_is_as_it_should_be(database, store, statements):
    run(database, *statements)
    assert found(database) == []


@pytest.mark.parametrize(
    'statement, claim_uuid',
    [
        pytest.param(
            f"""UPDATE claims SET resources = '["later"]' WHERE node_uuid = '{ONE}'""",
            uuid_of('claim b'),
            id='a claim',
        ),
        pytest.param(
            f"""UPDATE nodes SET inventories = '["later"]' WHERE uuid = '{ONE}'""",
            None,
            id='a node',
        ),
        pytest.param(
            f"""UPDATE reports SET report = '["later"]' WHERE node_uuid = '{ONE}'""",
            None,
            id='a report',
        ),
    ],
)
def test_a_row_that_cannot_be_read(database, store, statement, claim_uuid):
    """It is told, and the rest is audited and repaired as before."""
    maintenance = ClaimMaintenance(database)
    run(database, statement, f"UPDATE nodes SET used = '{{}}' WHERE uuid = '{ZERO}'")
    first, *others = found(database)
    assert (first.kind, first.node_uuid, first.host) == ('unreadable', ONE, 'host-1')
    assert first.claim_uuid == claim_uuid
    assert [(one.kind, one.node_uuid) for one in others] == [('drift', ZERO)]
    maintenance.repair([first, *others], NOW + 2)
    assert [one.kind for one in found(database)] == ['unreadable']


def test_a_claim_that_a_second_report_did_not_settle(database, store):
    """To be an error it has to outlive a report; and a report ends it."""
    before = ClaimMaintenance(database).snapshot()
    assert [one.severity for one in audit(before, NOW, before)] == []
    run(database, A_CONFIRMED)
    before = ClaimMaintenance(database).snapshot()
    assert [one.severity for one in audit(before, NOW, before)] == ['note']
    run(database, f"UPDATE nodes SET seen_s = {NOW + 20} WHERE uuid = '{ZERO}'")
    (one,) = audit(ClaimMaintenance(database).snapshot(), NOW, before)
    assert (one.kind, one.severity) == ('unlisted', 'error')
    last = report('host-0', vcpus=4, instances=frozenset(), order=seen(store))
    store.report([last], NOW + 30)
    assert audit(ClaimMaintenance(database).snapshot(), NOW, before) == []


@pytest.mark.parametrize('alone', [True, False])
def test_a_domain_whose_last_claim_ends_by_force(database, store, alone):
    run(database, *B_INSIDE)
    if not alone:
        run(database, f"UPDATE claims SET top_group = '{GROUP}', fences = '[\"t\"]'",
            'UPDATE nodes SET fences = \'["t"]\'')  # fmt: skip
    ClaimMaintenance(database).release(B, force=True)
    assert {fence for one in store.changes({}).nodes for fence in one.fences} == (
        set() if alone else {'t'}
    )
    assert found(database) == []


def test_a_stray_whose_group_is_back_stays(database, store):
    run(
        database,
        f"UPDATE claims SET state = 'planned', top_group = '{GROUP}' WHERE consumer_uuid = '{A}'",
    )
    stale = found(database)
    assert [one.kind for one in stale] == ['stray']
    run(database, B_INSIDE[0], 'UPDATE top_groups SET deleted = 0')
    claims = store.claims()
    ClaimMaintenance(database).repair(stale, NOW + 2)
    assert store.claims() == claims


def test_a_repair_made_in_the_meantime_stays(database, store):
    """A finding is of the past when it is repaired: what counts is what stands there by then."""
    run(database, copied('lost', consumer_uuid=f"'{C}'", unconfirmed=f"'{C}'", node_uuid="'back'"))
    run(
        database, use(3), f"UPDATE claims SET expires_s = {NOW - 1000} WHERE consumer_uuid = '{A}'"
    )
    run(database, f"INSERT INTO server_groups VALUES ('{GROUP}', 'affinity', 1, 5)")
    stale = found(database)
    assert {one.kind for one in stale} == {'drift', 'overdue', 'orphan', 'empty-group'}
    run(
        database, use(1), f"UPDATE claims SET expires_s = {NOW + HOUR} WHERE consumer_uuid = '{A}'"
    )
    store.report([report('host-9', node_uuid='back', vcpus=4, instances=frozenset())], NOW + 2)
    run(database, f"UPDATE claims SET group_uuid = '{GROUP}' WHERE consumer_uuid = '{A}'")
    claims, heads = store.claims(), store.heads()
    ClaimMaintenance(database).repair(stale, NOW + 2)
    assert (store.claims(), store.heads()) == (claims, heads)
    assert found(database) == []


def test_all_at_once(database, store):
    """Repairs do not stand in each other's way."""
    run(database, *(statement for case in REPAIRED for statement in case.values[0]))
    findings = found(database)
    assert {one.kind for one in findings} == {case.values[1] for case in REPAIRED}
    ClaimMaintenance(database).repair(findings, NOW + 2)
    assert found(database) == []


# Piece by piece.

HAS = machine(cell(0, [], range(4), pages=[(2048, 8)], memory_mb=4096), pools=[pool(1, x='1')])
PAIR = HAS.fit(wanted(dedicated(2, memory_mb=8, pagesize_kb=2048)))
REST = HAS.hold(PAIR).fit(wanted(dedicated(2, memory_mb=8, pagesize_kb=2048)))
NIC = HAS.fit(wanted(requests=[device(1)]))
MANY_PAGES = (
    machine(cell(0, [], range(4), pages=[(2048, 99)]))
    .hold(PAIR)
    .fit(wanted(dedicated(2, memory_mb=10, pagesize_kb=2048)))
)
GPU = {
    ZERO: {'inventories': {'VCPU': {'total': 16}}},
    'gpu': {'parent_provider_uuid': ZERO, 'inventories': {'CUSTOM_GPU': {'total': 10}}},
}


def allotted(units):
    return HardwareAllocation(providers=(Allotted('1', 'gpu', {'CUSTOM_GPU': units}),))


@pytest.mark.parametrize(
    'reported, held, expected',
    [
        pytest.param(told(HAS), [PAIR, REST, NIC], [], id='all of it, once'),
        pytest.param(
            told(HAS),
            [PAIR, PAIR],
            [('shared', {'CPU 0': 2}, {'CPU 0': 1}), ('shared', {'CPU 1': 2}, {'CPU 1': 1})],
            id='two CPUs for two',
        ),
        pytest.param(
            told(HAS.hold(PAIR)),
            [REST, PAIR],
            [('capacity', {'CPUs for one guest alone': 4}, {'CPUs for one guest alone': 2}),
             ('capacity', {'pages of 2048 KiB in cell 0': 8}, {'pages of 2048 KiB in cell 0': 4})],
            id='CPUs and pages that the node uses for somebody else',
        ),
        pytest.param(
            told(HAS),
            [PAIR, MANY_PAGES],
            [('capacity', {'pages of 2048 KiB in cell 0': 9}, {'pages of 2048 KiB in cell 0': 8})],
            id='pages',
        ),
        pytest.param(
            told(HAS),
            [NIC, NIC],
            [('capacity', {'PCI devices 8086:1572 in cell 0': 2},
              {'PCI devices 8086:1572 in cell 0': 1})],
            id='a device for two',
        ),
        pytest.param(
            {'providers': json.dumps(GPU)},
            [allotted(6), allotted(5)],
            [('capacity', {'CUSTOM_GPU of provider gpu': 11}, {'CUSTOM_GPU of provider gpu': 10})],
            id='a device below the node',
        ),
        pytest.param(
            {'providers': json.dumps(GPU)}, [allotted(5), allotted(5)], [], id='that is full'
        ),
    ],
)  # fmt: skip
def test_pieces(database, reported, held, expected):
    store = SqlClaimStore(database, still)
    store.report([report(instances=frozenset(), **reported)], NOW)
    for number, parts in enumerate(held):  # without the generation that they were picked at
        assert store.commit([Placement((claim(uuid_of(str(number)), ZERO, parts=parts),))])[0].won
    assert [(one.kind, one.found, one.expected) for one in found(database)] == expected
    assert all(one.is_error for one in found(database))


ALL = ['shared', 'shared', 'capacity', 'capacity']


@each_afresh(
    'reported, listed, certain',
    {
        'what was claimed': (HAS.hold(PAIR), [A], True),
        'others': (HAS.hold(REST), [A], False),
        'without a word on which instances they are for': (HAS.hold(PAIR), None, False),
        'others for one of two': (HAS.hold(PAIR).hold(REST), [A, B], False),
    },
)
def test_a_node_may_have_given_an_instance_other_cpus(database, reported, listed, certain):
    """Then what looks wrong is a note."""
    store = SqlClaimStore(database, still)
    store.report([report(instances=frozenset(), **told(HAS))], NOW)
    for consumer, parts in ((A, PAIR), (B, PAIR), (C, REST)):
        assert store.commit([Placement((claim(consumer, ZERO, parts=parts),))])[0].won
    store.confirm([A], [ZERO])
    used = {'vcpus_used': len(listed or [A]), 'memory_mb_used': 512 * len(listed or [A])}
    instances = None if listed is None else frozenset(listed)
    for _ in range(2):  # the second one is evidently newer than the claims
        store.report([report(instances=instances, **used, **told(reported))], NOW)
    assert [one.kind for one in found(database)] == ALL
    assert [one.is_error for one in found(database)] == [certain] * 4
    assert len(faults(database, NOW)) == 4 * certain


class TestMovesOfRebalances:
    """A is on host-1, and a move brings it to host-0."""

    @pytest.fixture
    def move(self, store, database):
        """Make a move of A in a state; with its claim on host-0 in a state, or without one."""
        store.release([(A, ZERO)])
        uuid = uuid_of('move')

        def make(state, claimed=None, age_s=2 * HOUR, why=None, there=False, source=True):
            held = [claim(A, ONE, state=CONFIRMED, created_s=NOW, uuid='source')] if source else []
            if claimed:
                made = claim(A, ZERO, state=claimed, created_s=NOW, expires_s=NOW + DAY,
                             request_id=uuid, move='live-migration', uuid='coming')  # fmt: skip
                held.append(made)
            assert all(one.won for one in store.commit([Placement((one,)) for one in held]))
            if there:
                run(database, f"UPDATE reports SET report = json_set(report, '$.instances', "
                              f"json_array('{A}')) WHERE node_uuid = '{ZERO}'")  # fmt: skip
            with database.begin() as connection:
                row = {'uuid': uuid, 'rebalance_uuid': uuid_of('rebalance'), 'server': A}
                row |= {'source': ONE, 'destination': ZERO, 'since_s': NOW, 'state': state}
                row |= {'serial': 3, 'started_s': NOW - age_s, 'changed_s': NOW, 'why': why}
                connection.execute(sa.insert(MOVES), row)
            return [
                one for one in found(database) if one.kind not in ('unlisted', 'capacity', 'drift')
            ]

        return make

    @each_afresh(
        'given, words',
        {
            'it runs': (
                {'state': 'handed-over', 'claimed': 'pending'},
                (
                    'is handed-over, and was started 120 minutes ago: the claim is renewed as '
                    'long as a conductor says that the move runs'
                ),
            ),
            'it is held': (
                {'state': 'held', 'claimed': 'pending'},
                'is held, and was started 120 minutes ago',
            ),
            'it has arrived': (
                {'state': 'handed-over', 'claimed': 'confirmed', 'there': True},
                'the host lists the server, and no conductor has said that the move has ended',
            ),
            'it was reverted': (
                {'state': 'reverted', 'claimed': 'pending', 'why': 'too busy'},
                'is reverted, but the claim ends when it expires',
            ),
            'it was reverted and has arrived': (
                {'state': 'reverted', 'claimed': 'confirmed', 'why': 'too busy', 'there': True},
                'is reverted, but the host lists the server all the same, and its reports decide',
            ),
        },
    )
    def test_a_claim_that_waits_for_its_end(self, move, given, words):
        (one,) = move(**given)
        assert (one.kind, one.severity, one.found) == ('moving', 'note', given['state'])
        assert words in one.words
        assert uuid_of('move') in one.words
        assert uuid_of('rebalance') in one.words
        assert (one.host, one.consumer_uuid, one.claim_uuid) == ('host-0', A, 'coming')
        assert 'rebalance show' in one.advice

    @pytest.mark.parametrize(
        'given, severity, words',
        [
            pytest.param(
                {'state': 'handed-over'}, 'note', 'makes it again within seconds', id='just lost'
            ),
            pytest.param(
                {'state': 'handed-over', 'why': 'full'}, 'error', 'runs: full', id='no room'
            ),
            pytest.param(
                {'state': 'handed-over', 'why': 'full', 'source': False, 'there': True},
                'error', 'runs: full', id='no claim at all',
            ),
            pytest.param(
                {'state': 'confirmed', 'why': 'full', 'there': True},
                'error', 'has ended: full', id='arrived',
            ),
            pytest.param(
                {'state': 'confirmed', 'why': 'full', 'there': True, 'source': False},
                'error', 'has ended: full', id='arrived and without any claim',
            ),
        ],
    )  # fmt: skip
    def test_a_server_without_a_claim(self, move, given, severity, words):
        (one,) = move(**given)
        assert (one.kind, one.severity) == ('unclaimed', severity)
        assert words in one.words
        assert (one.host, one.consumer_uuid, one.claim_uuid) == ('host-0', A, None)
        assert 'claim create' in one.advice

    @each_afresh(
        'given',
        {
            'not long': {'state': 'handed-over', 'claimed': 'pending', 'age_s': HOUR - 10},
            'waiting': {'state': 'waiting'},
            'held': {'state': 'held'},
            'deleted': {'state': 'handed-over', 'source': False},
            'deleted since': {'state': 'confirmed', 'why': 'full'},
            'no reason': {'state': 'confirmed', 'there': True},
            'reverted': {'state': 'reverted', 'why': 'too busy'},
        },
    )
    def test_nothing_to_tell(self, move, given):
        assert move(**given) == []

    def test_claimed_by_hand(self, move, store, database):
        (one,) = move('confirmed', why='full', there=True, source=False)
        store.commit([Placement((claim(A, ZERO, created_s=NOW),))])
        assert [other for other in found(database) if other.kind == one.kind] == []

    def test_an_old_move_is_told_once(self, move, database):
        move('handed-over', 'pending')
        run(database, f"UPDATE claims SET created_s = {NOW - 3 * DAY} WHERE uuid = 'coming'")
        kinds = [one.kind for one in found(database)]
        assert 'moving' in kinds
        assert 'open-move' not in kinds
