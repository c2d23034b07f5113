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
"""nova-sched-manage claim: one claim in full, the end of claims, and the audit, as operators run
them."""

import itertools
import json
import threading

import pytest
import sqlalchemy as sa

from nova_sched.claim import (
    CONFIRMED,
    DISK_GB,
    EVACUATION,
    LIVE_MIGRATION,
    MEMORY_MB,
    MIGRATION,
    PENDING,
    PLANNED,
    RESIZE,
    VCPU,
    Claim,
    Resizing,
)
from nova_sched.claims import Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage.rows import waits_for
from nova_sched.tests.builders import claim, now, report, uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, told, wanted
from nova_sched.tests.unit.hardware.builders import request as device

A, B, C = map(uuid_of, 'ABC')
ZERO, ONE, TWO = (uuid_of(f'node host-{number}') for number in range(3))
HAS = machine(cell(0, [], range(4), pages=[(2048, 512)]), pools=[pool(2)])
PARTS = HAS.fit(wanted(dedicated(2, memory_mb=4, pagesize_kb=2048), requests=[device(1)]))


def host_0(**words):
    """A report of host-0, which has A."""
    used = {'vcpus_used': 1, 'memory_mb_used': 512}
    return report('host-0', instances=frozenset([A]), **used, **told(HAS), **words)


@pytest.fixture
def store(database):
    """A is confirmed on host-0 and moves to host-1, B waits for host-0 with CPUs and a device."""
    # Claims are listed in the order in which they were made: no two at the same moment.
    begin, moments = now(), itertools.count()
    made = SqlClaimStore(database, clock=lambda: begin + next(moments) / 1000)
    made.report([host_0(), report('host-1')], now())
    times = {'created_s': now(), 'expires_s': now() + 3700}
    for one in (
        claim(A, ZERO, state=CONFIRMED, created_s=now() - 100),
        claim(A, ONE, move=MIGRATION, **times),
        claim(B, ZERO, parts=PARTS, group_uuid=uuid_of('group'), project_id='p', user_id='u',
              request_id='req-1', image_properties={'hw_disk_bus': 'scsi'}, **times),
    ):  # fmt: skip
        assert made.commit([Placement((one,))])[0].won
    for _ in range(2):  # the first one may be older than the claims: its usage is unclaimed
        made.report([host_0()], now())
    return made


def execute(database, statement):
    with database.begin() as connection:
        connection.execute(sa.text(statement))


def the(store, consumer, node):
    return next(one for one in store.claims(consumer) if one.node_uuid == node)


# Show.


def test_show_by_consumer(manage, store):
    lines = manage(f'claim show {B}').out.splitlines()
    made = the(store, B, ZERO)
    assert lines[:4] == [
        f'Consumer    {B}',
        f'Claim       {made.uuid}',
        'Host        host-0',
        f'Node        {ZERO}',
    ]
    assert lines[4].startswith('State       pending; made ')
    assert lines[4].endswith(' s ago, expires in 61 min')
    assert lines[5:] == [
        (
            'Waits for   the host to report the instance, or claims.confirm_claim; '
            'it ends when it expires'
        ),
        'Resources   1 VCPU, 512 MEMORY_MB',
        'Cell 0      4 MiB in pages of 2048 KiB; CPUs 0, 1 alone',
        'Devices     1 of 8086:1572 near cell 0',
        f'Group       {uuid_of("group")}',
        'Project     p',
        'User        u',
        'Request     req-1',
        'Image       hw_disk_bus=scsi',
    ]


def test_show_a_move(manage, store):
    found = json.loads(manage(f'claim show {A} --format json').out)
    assert [(row['host'], row['state'], row['move']) for row in found] == [
        ('host-0', CONFIRMED, None),
        ('host-1', PENDING, MIGRATION),
    ]
    assert manage(f'claim show {A}').out.count(f'Consumer    {A}\n') == 2
    assert 'State       pending, migration;' in manage(f'claim show {A}').out


def test_show_by_the_claims_own_uuid(manage, store):
    """What it waits for is told with a look at the consumer's other claims."""
    own = the(store, A, ZERO).uuid
    (row,) = json.loads(manage(f'claim show {own} --format json').out)
    assert (row['claim_uuid'], row['consumer_uuid'], row['counted']) == (own, A, False)
    assert row['waits_for'].startswith('the migration to host-1: ')
    status, out, err = manage(f'claim show {C}')
    assert (status, out) == (1, '')
    assert f'There is no claim of {C}' in err


def test_show_a_resize_in_place(manage, store):
    sizes = {VCPU: 1, DISK_GB: 1}, {VCPU: 3, DISK_GB: 2}
    for size in sizes:
        made = Claim(
            C, ONE, size, state=CONFIRMED if size == sizes[0] else PENDING, created_s=now()
        )
        assert store.commit([Placement((made,))])[0].won
    (row,) = json.loads(manage(f'claim show {C} --format json').out)
    assert row['resources'] == {DISK_GB: 3, VCPU: 3}
    assert (row['resizing']['old'], row['resizing']['new']) == sizes
    out = manage(f'claim show {C}').out
    assert 'State       confirmed, resizing; made ' in out
    assert 'Old size    1 VCPU, 1 DISK_GB\nNew size    3 VCPU, 2 DISK_GB\n' in out


HOSTS = {ZERO: 'host-0', ONE: 'host-1'}
SIZES = Resizing({VCPU: 1}, {VCPU: 2})


@each(
    'claims, words',
    [
        ([{'state': PLANNED}], 'the request for this member of its group;'),
        ([{'state': PENDING}], 'the host to report the instance, or'),
        ([{'state': CONFIRMED}], None),
        ([{'state': CONFIRMED, 'move': RESIZE}], None),  # its source is gone
        (
            [{'state': CONFIRMED, 'resizing': SIZES}],
            'claims.confirm_claim makes the new size final, claims.revert_claim brings',
        ),
        (
            [{'state': CONFIRMED}, {'node_uuid': ONE, 'move': RESIZE}],
            'the resize to host-1: claims.confirm_claim ends this claim, claims.revert_claim',
        ),
        (
            [{'state': CONFIRMED}, {'node_uuid': ONE, 'move': LIVE_MIGRATION}],
            'the live-migration to host-1: it ends when its host reports that the instance',
        ),
        (
            [{'state': CONFIRMED, 'move': MIGRATION}, {'node_uuid': ONE, 'state': CONFIRMED}],
            'claims.confirm_claim ends the claim on host-1, claims.revert_claim ends this one',
        ),
        (
            [{'state': CONFIRMED, 'move': EVACUATION}, {'node_uuid': TWO, 'state': CONFIRMED}],
            'a node that is gone to report that the instance is gone, or claims.confirm_claim',
        ),
        ([{'node_uuid': TWO}], 'its node is gone: '),
    ],
)
def test_what_the_first_waits_for(claims, words):
    made = [
        Claim(**{'consumer_uuid': A, 'node_uuid': ZERO, 'resources': {}, **one}) for one in claims
    ]
    found = waits_for(made[0], made, HOSTS.get)
    assert found is None if words is None else found.startswith(words)


# Release.


def test_release_a_claim_that_waits(manage, store):
    before = store.heads()
    out = manage(f'claim release {B}').out
    assert out == f'Ended the pending claim of {B} on host-0: 1 VCPU, 512 MEMORY_MB.\n'
    assert store.claims(B) == []
    assert manage('claim audit').status == 0
    after = store.heads()  # running schedulers see it
    assert {uuid: after[uuid][0] - before[uuid][0] for uuid in before} == {ZERO: 1, ONE: 0}


def test_a_confirmed_claim_ends_by_force_alone(manage, store):
    before = store.claims()
    status, out, err = manage(f'claim release {A}')
    assert (status, out) == (1, '')
    assert 'the claim on host-0 is confirmed: the host has the instance; --force' in err
    assert store.claims() == before
    ended = json.loads(manage(f'claim release {A} --force --format json').out)
    assert [(row['host'], row['state']) for row in ended] == [
        ('host-0', CONFIRMED),
        ('host-1', PENDING),
    ]
    assert store.claims(A) == []
    assert manage('claim audit').status == 0


def test_release_on_one_host(manage, store):
    assert manage(f'claim release {A} --host host-1').status == 0
    assert [one.node_uuid for one in store.claims(A)] == [ZERO]


def test_release_on_a_node_that_is_gone(manage, database, store):
    execute(database, f"DELETE FROM nodes WHERE uuid = '{ONE}'")
    assert manage(f'claim release {A}').status == 1
    assert 'on gone: ' in manage(f'claim release {A} --force').out


@each(
    'words, what',
    [
        (C, f'instance {C}'),
        (f'{B} --host host-1', f'instance {B} on host host-1'),
        (f'{B} --host nobody --force', f'instance {B} on host nobody'),
    ],
)
def test_release_nothing(manage, store, words, what):
    status, out, err = manage(f'claim release {words}')
    assert (status, out) == (1, '')
    assert f'There is no claim of {what}' in err
    assert len(store.claims()) == 3


# Audit.

DRIFT = f"UPDATE nodes SET used = '{{\"VCPU\": 7}}' WHERE uuid = '{ZERO}'"


def test_nothing_is_found(manage, store):
    clean = '2 nodes, 3 claims, 0 server groups: 0 errors, 0 notes.\n'
    assert manage('claim audit') == (0, clean, '')
    assert json.loads(manage('claim audit --format json').out) == {
        'ok': True,
        'nodes': 2,
        'claims': 3,
        'groups': 0,
        'consumers': None,
        'findings': [],
    }


def test_what_is_found_is_left_until_it_is_repaired(manage, database, store):
    execute(database, DRIFT)
    problem = [
        'ERROR drift: host host-0',
        '  7 VCPU recorded; claims and unclaimed usage are 1024 MEMORY_MB, 2 VCPU',
    ]
    counts = '2 nodes, 3 claims, 0 server groups: '
    for _ in range(2):
        status, out, _ = manage('claim audit')
        assert status == 1
        assert out.splitlines() == [
            *problem,
            '  -> with --fix, the recorded usage of the node is computed again',
            '',
            f'{counts}1 error, 0 notes.',
        ]
    status, out, _ = manage('claim audit --fix')
    assert status == 0
    fixed = [*problem, '  -> repaired', '', f'{counts}1 error, 0 notes; 1 repaired.']
    assert out.splitlines() == fixed
    assert manage('claim audit').out == f'{counts}0 errors, 0 notes.\n'


def test_what_cannot_be_repaired_stays_an_error(manage, database, store):
    """A node that has shrunk below what it holds."""
    store.report([host_0(vcpus=1)], now())
    execute(database, DRIFT)
    status, out, _ = manage('claim audit --fix --format json')
    document = json.loads(out)
    assert (status, document['ok']) == (1, False)
    assert [
        (one['kind'], one['fixed'], one['found'], one['expected']) for one in document['findings']
    ] == [
        ('drift', True, {VCPU: 7}, {MEMORY_MB: 1024, VCPU: 2}),
        ('capacity', False, {VCPU: 2}, {VCPU: 1}),
    ]
    assert [bool(one['repair']) for one in document['findings']] == [True, False]
    assert document['findings'][1]['advice']


def test_a_note_is_no_error(manage, database, store):
    execute(database, f"INSERT INTO server_groups VALUES ('{uuid_of('empty')}', 'affinity', 1, 1)")
    status, out, _ = manage('claim audit')
    assert status == 0
    assert out.splitlines()[0] == f'NOTE empty-group: group {uuid_of("empty")}'
    assert manage('claim audit --fix').out.endswith(
        '1 server group: 0 errors, 1 note; 1 repaired.\n'
    )


@pytest.fixture
def reports(database):
    """``reports()`` lets host-0 report again and again, without B."""
    ended = threading.Event()

    def again():
        while not ended.wait(0.02):
            execute(database, f"UPDATE nodes SET seen_s = seen_s + 0.02 WHERE uuid = '{ZERO}'")

    thread = threading.Thread(target=again)
    yield thread.start
    ended.set()
    if thread.ident is not None:
        thread.join()


@pytest.mark.parametrize(
    'reporting, words, status, severity',
    [
        (False, 'claim audit --wait 0.1', 0, 'note'),  # the host has not reported since
        (True, 'claim audit', 0, 'note'),
        (True, 'claim audit --wait 0.3', 1, 'error'),  # a report should have ended it
    ],
)
def test_a_second_look(manage, database, store, reports, reporting, words, status, severity):
    """A claim is confirmed, and its host does not list the instance: maybe not yet."""
    store.confirm([B], [ZERO])
    execute(database, f"UPDATE claims SET changed_at = 0 WHERE consumer_uuid = '{B}'")
    if reporting:
        reports()
    result = manage(f'{words} --format json')
    findings = [(one['kind'], one['severity']) for one in json.loads(result.out)['findings']]
    assert (result.status, findings) == (status, [('unlisted', severity)])
