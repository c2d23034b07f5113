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
"""Commits that a database server stops: what the claim store says, and that claims are made once
or never."""

import time
from concurrent import futures

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claims import Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine, transactions
from nova_sched.db.tables import CLAIMS
from nova_sched.tests.builders import claim, still, uuid_of
from nova_sched.tests.integration.messages import just_before, on_the_side
from nova_sched.tests.integration.test_claim_store import lock, waiting
from nova_sched.tests.unit.claims.batteries.steps import check_books, node, ready

HOSTS = ['host-0', 'host-1', 'host-2']
# One claim is written by a way of its own.
COUNTS = pytest.mark.parametrize('count', [1, 3], ids=['one claim', 'several claims'])


@pytest.fixture
def store(database):
    made = SqlClaimStore(database, still)
    ready(made, *HOSTS)
    yield made
    check_books(made)


def wanted(count):
    """Placements of that many claims, in the order in which their nodes are locked."""
    nodes = sorted(node(host) for host in HOSTS)[:count]
    return [Placement((claim(uuid_of(f'instance on {one}'), one),)) for one in nodes]


def done(store):
    """UUIDs of all claims."""
    return sorted(one.uuid for one in store.claims())


def done_once(store, placements):
    """Make the same call again: now, or before, each claim was made, and none twice."""
    assert all(outcome.won for outcome in store.commit(placements))
    return done(store) == uuids(placements)


def uuids(placements):
    return sorted(one.claims[0].uuid for one in placements)


def stopped(store, placements, kind):
    """Let a commit fail with this very error."""
    with pytest.raises(errors.SchedError) as raised:
        store.commit(placements)
    assert type(raised.value) is kind, raised.value


# Connections that are lost.

END = {'postgresql': 'SELECT pg_terminate_backend({})', 'mysql': 'KILL CONNECTION {}'}
SESSIONS = {
    'postgresql': 'SELECT pid FROM pg_stat_activity',
    'mysql': 'SELECT id FROM information_schema.processlist',
}


def cut(database, connection):
    """Let the server end the session of a driver's connection, and wait until it is gone."""
    kind, session = database.dialect.name, connection.session
    with database.execution_options(isolation_level='AUTOCOMMIT').connect() as other:
        other.execute(sa.text(END[kind].format(session)))
        deadline = time.monotonic() + 120
        while session in other.scalars(sa.text(SESSIONS[kind])).all():
            assert time.monotonic() < deadline, 'the session does not end'
            time.sleep(0.02)


@pytest.mark.parametrize(
    'count, words, done_before, made',
    [
        pytest.param(1, 'COMMIT', False, 0, id='one claim, before the commit'),
        pytest.param(1, 'COMMIT', True, 1, id='one claim, before the answer to the commit'),
        pytest.param(3, 'FOR UPDATE', False, 0, id='several claims, before the lock'),
        pytest.param(3, 'INSERT INTO claims', False, 0, id='several claims, behind the lock'),
        pytest.param(3, 'UPDATE nodes', False, 0, id='several claims, between two writes'),
        pytest.param(3, 'COMMIT', False, 0, id='several claims, before the commit'),
        pytest.param(3, 'COMMIT', True, 3, id='several claims, before the answer to the commit'),
    ],
)
def test_a_connection_is_lost(database, store, count, words, done_before, made):
    placements = wanted(count)

    def lose(connection, message):
        if done_before:
            on_the_side(connection, message)
        cut(database, connection)

    with just_before(words, lose):
        stopped(store, placements, errors.StoreUnavailable)
    assert done(store) == uuids(placements[:made])
    assert done_once(store, placements)


def test_a_connection_that_was_lost_between_two_calls(database, store):
    with just_before('COMMIT', lambda connection, _message: kept.append(connection)):
        kept = []
        store.claims()
    cut(database, kept[0])
    placements = wanted(1)
    stopped(store, placements, errors.StoreUnavailable)
    assert done_once(store, placements)


# Others in the way.


def test_a_deadlock_of_several_claims(database, store):
    placements = wanted(3)
    first, *_, last = sorted(node(host) for host in HOSTS)
    with futures.ThreadPoolExecutor(1) as pool:
        with database.begin() as connection:
            lock(connection, last)
            running = pool.submit(stopped, store, placements, errors.StoreBusy)
            waiting(database, 1)
            lock(connection, first)
        running.result(30)
    assert done(store) == []
    assert done_once(store, placements)


def test_a_deadlock_of_one_claim(database, store):
    """It holds its node, and waits for another claim of the instance, whose transaction waits for
    the node."""
    placements = wanted(1)
    (ours,) = placements[0].claims
    mine, *others = sorted(node(host) for host in HOSTS)
    theirs = {
        'uuid': uuid_of('another claim'),
        'consumer_uuid': ours.consumer_uuid,
        'unconfirmed': ours.consumer_uuid,
        'node_uuid': others[0],
        'state': 'pending',
        'resources': '{}',
        'created_s': 0.0,
    }
    with futures.ThreadPoolExecutor(1) as pool:
        with database.connect() as connection:
            for one in others * 20:  # who has done more by far is not the one to give way
                lock(connection, one)
            connection.execute(sa.insert(CLAIMS), theirs)
            running = pool.submit(stopped, store, placements, errors.StoreBusy)
            waiting(database, 1)
            lock(connection, mine)
            connection.rollback()
        running.result(30)
    assert done(store) == []
    assert done_once(store, placements)


IMPATIENT = {
    'postgresql': '?options=-c%20lock_timeout%3D300',
    'mysql': '&init_command=SET%20SESSION%20innodb_lock_wait_timeout%3D1',
}


@COUNTS
def test_a_lock_that_takes_too_long(url, database, store, count):
    made = engine.create(url + IMPATIENT[database.dialect.name])
    impatient, placements = SqlClaimStore(made, still), wanted(count)
    with database.begin() as connection:
        lock(connection, placements[-1].claims[0].node_uuid)
        stopped(impatient, placements, errors.StoreBusy)
    assert done(store) == []
    assert done_once(impatient, placements)
    made.dispose()


def session_of(connection):
    return connection.connection.driver_connection.session


def test_after_a_deadlock_a_thread_goes_on_with_its_session(database, store):
    first, *others = sorted(node(host) for host in HOSTS)
    sessions, of_thread = transactions.Sessions(database), []

    def work(*nodes):
        with sessions.transaction() as connection:
            of_thread.append(session_of(connection))
            for one in nodes:
                lock(connection, one)

    with futures.ThreadPoolExecutor(1) as pool:
        with database.connect() as other:
            for one in others * 20:
                lock(other, one)
            running = pool.submit(work, first, others[0])
            waiting(database, 1)
            lock(other, first)
            other.rollback()
        with pytest.raises(errors.StoreBusy):
            running.result(30)
        pool.submit(work, first, *others).result(30)
    assert of_thread[0] == of_thread[1]


def seen_s(connection):
    return connection.scalars(sa.text('SELECT seen_s FROM nodes ORDER BY uuid')).all()


# Servers that are set up otherwise.


def by_owner(server, *statements):
    made = sa.create_engine(server.url, isolation_level='AUTOCOMMIT')
    with made.connect() as connection:
        for one in statements:
            connection.exec_driver_sql(one)
    made.dispose()


def name_of(url):
    return sa.make_url(url).database


def test_each_statement_sees_what_is_committed_whatever_is_the_default(
    server, url, database, store
):
    kind = database.dialect.name
    begin, end = {
        'postgresql': (
            f'ALTER DATABASE {name_of(url)} SET default_transaction_isolation = serializable',
            f'ALTER DATABASE {name_of(url)} RESET default_transaction_isolation',
        ),
        'mysql': (
            "SET GLOBAL tx_isolation = 'SERIALIZABLE'",
            "SET GLOBAL tx_isolation = 'REPEATABLE-READ'",
        ),
    }[kind]
    by_owner(server, begin)
    try:
        made = engine.create(url)
        with transactions.Sessions(made).transaction() as connection:
            before = sum(seen_s(connection))
            with database.begin() as other:
                lock(other, node(HOSTS[0]))
            assert sum(seen_s(connection)) == before + 1
        made.dispose()
    finally:
        by_owner(server, end)


def test_a_transaction_that_cannot_be_serialized(database, store):
    """None of ours asks to be; but then it is done again as after a deadlock."""
    if database.dialect.name != 'postgresql':
        pytest.skip('MariaDB locks instead')
    sessions, one = transactions.Sessions(database), node(HOSTS[0])

    def work(level):
        with sessions.transaction() as connection:
            connection.execute(sa.text(f'SET TRANSACTION ISOLATION LEVEL {level}'))
            seen_s(connection)
            with database.begin() as other:
                lock(other, one)
            lock(connection, one)

    with pytest.raises(errors.StoreBusy):
        work('REPEATABLE READ')
    work('READ COMMITTED')


@pytest.fixture
def follower(server, url, database):
    """A URL by which only reads are allowed while the server follows another, and the switch for
    that."""
    name = name_of(url)
    if database.dialect.name == 'postgresql':
        # A session is what it was when it began, so that who keeps one stays with what it has.
        option = f'ALTER DATABASE {name} {{}} default_transaction_read_only'
        on, off, address = option.format('SET') + ' = on', option.format('RESET'), url
    else:
        # The tests' own account may write to any server.
        may = ', '.join(f'{word}_priv' for word in ('Select', 'Insert', 'Update', 'Delete'))
        by_owner(
            server,
            "CREATE USER IF NOT EXISTS plain@'127.0.0.1'",
            f'REPLACE INTO mysql.db (Host, Db, User, {may}) '
            f"VALUES ('127.0.0.1', '{name}', 'plain', 'Y', 'Y', 'Y', 'Y')",
            'FLUSH PRIVILEGES',
        )
        on, off = 'SET GLOBAL read_only = 1', 'SET GLOBAL read_only = 0'
        address = sa.make_url(url).set(username='plain').render_as_string()
    yield address, lambda follows: by_owner(server, on if follows else off)
    by_owner(server, off)


@COUNTS
def test_a_server_that_only_follows_another(follower, database, store, count):
    """After a failover: until it may be written to, every call says that there is no database."""
    address, switch = follower
    placements = wanted(count)
    switch(True)
    made = engine.create(address)
    mine = SqlClaimStore(made, still)
    for _ in range(2):
        stopped(mine, placements, errors.StoreUnavailable)
        assert done(store) == []
    switch(False)
    assert done_once(mine, placements)
    made.dispose()
