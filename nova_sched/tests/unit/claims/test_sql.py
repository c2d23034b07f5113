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
"""Tests of the SQL store in addition to its contract: small polls, and a database that is away."""

import contextlib
import sqlite3

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import CONFIRMED, MIGRATION, PLANNED
from nova_sched.claims import GroupRecord, Placement, ServiceFacts
from nova_sched.claims import statements as sql
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db.tables import CLAIMS, NODES
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import (
    NOW,
    aggregate,
    claim,
    guarded,
    report,
    runs_of,
    still,
    uuid_of,
)
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.transactions.times import OwnClock

A, NODE, GROUP = uuid_of('instance A'), uuid_of('node host-0'), uuid_of('placement group')
ODD = uuid_of('node host-1')
DAY = 86400.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'db.sqlite'


@pytest.fixture
def store(database):
    return SqlClaimStore(database, still)


class TestOwnClock(OwnClock):
    pass


@each_afresh(
    'name, change',
    {
        'services': ('services', lambda store: store.set_service(ServiceFacts('host-0'))),
        'aggregates': (
            'aggregates',
            lambda store: store.set_aggregate(1, aggregate(1, ['host-0'])),
        ),
        'instances': ('instances', lambda store: store.set_instances('host-0', frozenset([A]))),
    },
)
def test_a_small_table_is_read_only_after_a_change(database, store, name, change):
    reader = SqlClaimStore(database, still)
    assert getattr(reader.changes({}), name) is not None
    assert getattr(reader.changes({}), name) is None
    change(store)
    assert len(getattr(reader.changes({}), name)) == 1
    change(store)  # every scheduler hears the same cast
    after = reader.changes({})
    assert (after.services, after.aggregates, after.instances) == (None, None, None)


def test_a_look_that_fails_forgets_nothing(database, store):
    """What a broken look was about to tell is told by the next one."""
    reader = SqlClaimStore(database, still)
    reader.changes({})
    store.set_service(ServiceFacts('host-0'))
    with database.begin() as connection:
        connection.execute(sa.text('ALTER TABLE services RENAME TO elsewhere'))
    with pytest.raises(Exception, match='services'):
        reader.changes({})
    with database.begin() as connection:
        connection.execute(sa.text('ALTER TABLE elsewhere RENAME TO services'))
    assert reader.changes({}).services == (ServiceFacts('host-0'),)


CALLS = {
    'commit': lambda store: store.commit([Placement((claim(A, NODE),))]),
    'report': lambda store: store.report([report()], NOW),
    'confirm': lambda store: store.confirm([A], [NODE]),
    'release': lambda store: store.release([(A, NODE)]),
    'renew_claim': lambda store: store.renew_claim(claim(A, NODE), 60.0),
    'expire': lambda store: store.expire(NOW),
    'remove_node': lambda store: store.remove_node(NODE),
    'set_service': lambda store: store.set_service(ServiceFacts('host-0')),
    'set_aggregate': lambda store: store.set_aggregate(1, None),
    'set_instances': lambda store: store.set_instances('host-0', frozenset()),
    'renew': lambda store: store.renew(A, NOW),
    'spread_domain': lambda store: store.spread_domain(A, [NODE]),
}
READS = {
    'claims': lambda store: store.claims(),
    'heads': lambda store: store.heads(),
    'read_nodes': lambda store: store.read_nodes([NODE]),
    'changes': lambda store: store.changes({}),
    'top_group': lambda store: store.top_group(A),
    'top_groups': lambda store: store.top_groups(),
    'group_claims': lambda store: store.group_claims(A),
    'domains': lambda store: store.domains(),
}
# What they show is not all that there is.
OF_NODES = 'heads', 'read_nodes', 'changes'


@pytest.fixture
def brief(database):
    """The same database; a connection that finds it locked gives up at once."""

    @sa.event.listens_for(database, 'connect')
    def _connect(connection, _record):
        connection.execute('PRAGMA busy_timeout=1')

    database.dispose()
    return SqlClaimStore(database, still)


@pytest.mark.parametrize('name', CALLS)
def test_every_call_says_that_the_database_is_away(path, brief, name):
    brief.report([report()], NOW)
    rival = sqlite3.connect(path, isolation_level=None)
    rival.execute('BEGIN IMMEDIATE')
    with pytest.raises(errors.StoreUnavailable, match='database is locked'):
        CALLS[name](brief)
    rival.execute('COMMIT')
    rival.close()
    CALLS[name](brief)


@pytest.mark.parametrize('name', OF_NODES)
def test_a_read_waits_for_no_lock(path, brief, name):
    """It shows the state that was committed before another transaction began to write."""
    brief.report([report()], NOW)
    before = READS[name](brief)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rival:
        rival.execute('BEGIN IMMEDIATE')
        rival.execute('UPDATE nodes SET generation = 99')
        assert nodes_of(READS[name](brief)) == nodes_of(before)
        rival.execute('COMMIT')
        assert nodes_of(READS[name](brief)) != nodes_of(before)


@pytest.mark.parametrize('name', sorted(READS.keys() - OF_NODES))
def test_a_read_of_claims_and_groups_waits_for_no_lock(path, brief, name):
    before = READS[name](brief)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rival:
        rival.execute('BEGIN IMMEDIATE')
        assert READS[name](brief) == before


def nodes_of(found):
    return getattr(found, 'nodes', found)


def test_a_broken_placement_leaves_nothing(store, database):
    """A statement that fails in the middle undoes those before it."""
    store.report([report()], NOW)
    with database.begin() as connection:
        connection.execute(sa.text('ALTER TABLE nodes RENAME COLUMN used TO elsewhere'))
    with pytest.raises(Exception, match='used'):
        store.commit([Placement((claim(A, NODE),))])
    assert store.claims() == []


def test_a_definition_is_read_only_on_request(store, database):
    """It is long, and not needed to place a server."""
    store.report([report(), report('host-1')], NOW)
    text, other = 'a long definition', uuid_of('node host-1')
    made = [claim(A, NODE, state=PLANNED, top_group=GROUP), claim(A, other, top_group=GROUP)]
    store.commit([guarded((made[0],), record=GroupRecord(GROUP, definition=text), serial=0)])
    seen = []

    @sa.event.listens_for(database, 'before_cursor_execute')
    def _note(_connection, _cursor, statement, *_):
        seen.append(statement)

    store.commit([guarded((made[1],), ((A, NODE),), planned_releases=((A, NODE),), serial=1)])
    store.commit([guarded((), record=GroupRecord(GROUP), serial=2)])
    store.renew(GROUP, NOW)
    assert (
        store.top_groups()[0].definition is store.top_group(GROUP, whole=False).definition is None
    )
    assert not any('definition' in statement for statement in seen)
    assert store.top_group(GROUP).definition == text
    assert any('definition' in statement for statement in seen)


def test_an_orphan_does_not_keep_its_consumer_from_being_claimed_for(store, database):
    """A claim on a node that is gone, which no code of ours leaves behind."""
    store.report([report('host-0'), report('host-1')], NOW)
    other = uuid_of('node host-1')
    for where in (NODE, other):
        assert store.commit([Placement((claim(A, where),))])[0].won
        if where == NODE:
            with database.begin() as connection:
                connection.execute(sa.delete(NODES).where(NODES.c.uuid == NODE))
    assert [one.node_uuid for one in store.claims()] == [other]


def test_a_consumer_that_comes_to_another_node_meanwhile_is_in_the_way(store, monkeypatch):
    """It is confirmed there between the two reads of a commit, and that node is not locked."""
    store.report([report(f'host-{number}') for number in range(3)])
    here, there, then = (uuid_of(f'node host-{number}') for number in range(3))
    store.commit([Placement((claim(A, here, state=CONFIRMED),))])
    known = runs_of(store.claims(A))
    store.commit([Placement((claim(A, there, move=MIGRATION),))])
    store.confirm([A], [there])
    before, read, reads = store.claims(A), sql.read_claims, []

    def at_first_without_it(*args):
        reads.append(args)
        return [one for one in read(*args) if len(reads) > 1 or one.node_uuid != there]

    monkeypatch.setattr(sql, 'read_claims', at_first_without_it)
    moves = Placement((claim(A, then, move=MIGRATION),), runs=known)
    (outcome,) = store.commit([moves])
    assert (outcome.won, store.claims(A)) == (False, before)
    assert {one.report.node_uuid for one in outcome.fresh} == {there, then}


def test_an_outage_writes_no_claim_whose_time_is_not_up(database):
    """However many claims there are, a call reads those that are overdue, and some at a time."""
    store = SqlClaimStore(database, lambda: NOW)
    store.report([report(vcpus=10)], NOW)
    lives_s = [100.0, *[DAY] * 9]
    for number, life_s in enumerate(lives_s):
        made = claim(uuid_of(f'{number}'), NODE, 1, created_s=NOW, expires_s=NOW + life_s)
        assert store.commit([Placement((made,))])[0].won
    store.expire(unwatched_s=60.0)
    (_, generation), before = store.digest(), store.claims()
    late = SqlClaimStore(database, lambda: NOW + 1000)
    assert late.expire_some(unwatched_s=60.0) == ([], False)
    assert late.digest() == (1, generation + 1)
    changed = [one for one, was in zip(late.claims(), before, strict=True) if one != was]
    assert [one.expires_s for one in changed] == [NOW + 1100]


# Of a later release: it has a field more.
LATER = {
    'claim': sa.update(CLAIMS).values(resources='["later"]'),
    'node': sa.update(NODES).values(inventories='{"VCPU": [8, 0, 1.0, 1, null, 1, 0]}'),
}


def spoil(database, table, uuid):
    """Give the node's row, or its claims, a form that this release cannot read."""
    key = CLAIMS.c.node_uuid if table == 'claim' else NODES.c.uuid
    with database.begin() as connection:
        connection.execute(LATER[table].where(key == uuid))


def consumers_of(claims):
    return {one.consumer_uuid for one in claims}


@pytest.mark.parametrize('table', LATER)
def test_rows_that_cannot_be_read_keep_no_other_claim_from_ending(
    database, store, table, monkeypatch
):
    monkeypatch.setattr(sql, 'CHUNK', 3)
    monkeypatch.setattr(sql, 'OVERDUE', sql.OVERDUE.limit(3))
    store.report([report(), report('host-1', vcpus=99)], NOW)
    odd = [uuid_of(f'odd {number}') for number in range(4)]
    made = [claim(one, ODD, 1, expires_s=5.0) for one in odd]
    made.append(claim(A, NODE, 1, expires_s=9.0))
    assert store.commit([Placement((one,)) for one in made])[0].won
    spoil(database, table, ODD)
    assert consumers_of(store.expire(10.0)) == {A}
    assert store.expire(10.0) == []
    kept = {} if table == 'claim' else {*odd}
    assert consumers_of(store.claims()) == {*kept}


def moving(store):
    """Both claims of a server that migrates to ODD."""
    store.report([report(), report('host-1')], NOW)
    there = claim(A, NODE, 1, state=CONFIRMED)
    come = claim(A, ODD, 1, move=MIGRATION, expires_s=5.0)
    for one in (there, come):
        assert store.commit([Placement((one,))])[0].won


@pytest.mark.parametrize('table', LATER)
def test_a_move_whose_source_cannot_be_read_does_not_end(database, store, table):
    moving(store)
    spoil(database, table, NODE)
    assert store.expire(10.0) == []
    assert ODD in {one.node_uuid for one in store.claims()}


def empty(store, host):
    """A report without instances, by a sender that has seen the node's last change."""
    order = ReportOrder(seen=store.heads()[uuid_of(f'node {host}')][0])
    return report(host, instances=frozenset(), order=order)


@pytest.mark.parametrize('table', LATER)
def test_an_odd_claim_on_another_node_hinders_no_report(database, store, table):
    moving(store)
    spoil(database, table, ODD)
    (facts,) = store.report([empty(store, 'host-0')])
    assert consumers_of(facts.claims) == {A}  # it may keep its source


@pytest.mark.parametrize('table', LATER)
def test_the_end_of_a_move_whose_source_cannot_be_read(database, store, table):
    moving(store)
    store.confirm([A], [ODD])
    spoil(database, table, NODE)
    (facts,) = store.report([empty(store, 'host-1')])
    # That of the source may be the later one, and keep this one.
    assert consumers_of(facts.claims) == ({A} if table == 'claim' else set())


def test_claims_end_some_at_a_time(database, monkeypatch):
    """After an outage, and as ever."""
    monkeypatch.setattr(sql, 'CHUNK', 3)
    monkeypatch.setattr(sql, 'OVERDUE', sql.OVERDUE.limit(3))
    store = SqlClaimStore(database, lambda: NOW)
    store.report([report(vcpus=10)], NOW)
    made = [
        claim(uuid_of(f'{number}'), NODE, 1, created_s=NOW, expires_s=NOW + 100)
        for number in range(7)
    ]
    assert all(one.won for one in store.commit([Placement((one,)) for one in made]))
    store.expire(unwatched_s=60.0)

    def numbers(now_s):
        store.clock = lambda: now_s
        while True:
            ended, is_more = store.expire_some(unwatched_s=60.0)
            yield len(ended), is_more
            if not is_more:
                return

    assert [*numbers(NOW + 1000)] == [(0, True), (0, True), (0, False)]
    assert {one.expires_s for one in store.claims()} == {NOW + 1100}
    assert [*numbers(NOW + 1050)] == [(0, False)]
    assert [*numbers(NOW + 1100)] == [(3, True), (3, True), (1, False)]
