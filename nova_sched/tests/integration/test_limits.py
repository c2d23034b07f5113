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
"""Limits of time on real servers: what a session has, what ends there, and how a silent server is
noticed."""

import contextlib
import dataclasses
import gc
import os
import socket
import time
from concurrent import futures

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import engine, transactions
from nova_sched.db.limits import DEFAULT, DatabaseLimits
from nova_sched.tests.fixtures.proxy import TO_CLIENT, TO_SERVER, Proxy
from nova_sched.tests.functional.harness import eventually

SLACK_S = 10.0  # for a machine that has much to do
QUICK = DatabaseLimits(connect_s=2, silence_s=2, statement_s=1, lock_s=1, idle_s=1)

SHOWN = {
    'postgresql': (
        'SHOW statement_timeout',
        'SHOW lock_timeout',
        'SHOW idle_in_transaction_session_timeout',
        'SHOW TimeZone',
        'SHOW transaction_isolation',
    ),
    'mysql': (
        'SELECT @@max_statement_time',
        'SELECT @@innodb_lock_wait_timeout',
        'SELECT @@idle_transaction_timeout',
        'SELECT @@time_zone',
        'SELECT @@tx_isolation',
    ),
}
TCP = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT
SLEEP = {'postgresql': 'SELECT pg_sleep({})', 'mysql': 'SELECT SLEEP({})'}
SAID = {
    'postgresql': '?options=-c%20lock_timeout%3D300&keepalives_idle=77',
    'mysql': '&init_command=SET%20SESSION%20innodb_lock_wait_timeout%3D1&read_timeout=77',
}


@pytest.fixture
def table(database):
    """A row that can be locked."""
    with transactions.transaction(database) as connection:
        connection.execute(sa.text('CREATE TABLE a_row (n INTEGER)'))
        connection.execute(sa.text('INSERT INTO a_row VALUES (1)'))
    yield
    with transactions.transaction(database) as connection:
        connection.execute(sa.text('DROP TABLE a_row'))


@pytest.fixture
def made(url):
    """Make engines with other limits, on another address of the same server where that is
    given."""
    engines = []

    def make(limits, port=None, more=''):
        address = sa.make_url(url).set(port=port).render_as_string() if port else url
        engines.append(engine.create(address + more, limits))
        return engines[-1]

    yield make
    gc.collect()  # connections that threads have kept
    for one in engines:
        one.dispose()


@pytest.fixture
def proxy(server):
    with Proxy(server.port) as passing:
        yield passing


def ask(sessions, text):
    with sessions.transaction() as connection:
        return connection.execute(sa.text(text)).scalar()


def shown(database):
    with transactions.transaction(database) as connection:
        return [
            str(connection.execute(sa.text(text)).scalar())
            for text in SHOWN[database.dialect.name]
        ]


def add(connection, count):
    connection.execute(sa.text(f'UPDATE a_row SET n = n + {count}'))


def seconds_until_unavailable(work, *given):
    begin = time.monotonic()
    with pytest.raises(errors.StoreUnavailable):
        work(*given)
    return time.monotonic() - begin


def test_a_session_has_the_limits(made):
    database = made(DEFAULT)
    assert (
        shown(database)
        == {
            'postgresql': ['8s', '6s', '5s', 'UTC', 'read committed'],
            'mysql': ['8.0', '6', '5', '+00:00', 'READ-COMMITTED'],
        }[database.dialect.name]
    )


def test_an_operators_url_is_stronger(database, made):
    kind = database.dialect.name
    told = made(DEFAULT, more=SAID[kind])
    found = shown(told)
    assert found[1] == {'postgresql': '300ms', 'mysql': '1'}[kind]
    assert found[2] in ('5', '5s')
    with told.connect() as connection, socket_of(connection) as sock:
        if kind == 'postgresql':
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 77
        else:
            assert sock.gettimeout() == 77


@contextlib.contextmanager
def socket_of(connection):
    """The socket of the driver's connection, or its copy."""
    driver = connection.connection.driver_connection
    if hasattr(driver, 'fileno'):
        with socket.socket(fileno=os.dup(driver.fileno())) as copy:
            yield copy
    else:
        yield driver._sock


def test_tcp_has_the_limits(made):
    with made(DEFAULT).connect() as connection, socket_of(connection) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        found = [sock.getsockopt(socket.IPPROTO_TCP, option) for option in TCP]
    assert found == [5, 1, 5, 10_000]


def test_a_statement_is_ended(database, made):
    sessions = transactions.Sessions(made(dataclasses.replace(QUICK, statement_s=2)))
    sleep = SLEEP[database.dialect.name]
    assert seconds_until_unavailable(ask, sessions, sleep.format(60)) < 60 - SLACK_S
    ask(sessions, sleep.format(0))


def test_an_audit_may_take_long(database, made):
    sessions = transactions.Sessions(made(QUICK.for_audit()))
    took_s = QUICK.answer_s + 1.5
    began_s = time.monotonic()
    ask(sessions, SLEEP[database.dialect.name].format(took_s))
    assert time.monotonic() - began_s >= took_s - 0.1


def test_a_transaction_that_stands_idle_is_ended(made, table):
    """Another one waits for its lock no longer than that; what it did is undone."""
    relaxed = dataclasses.replace(QUICK, statement_s=60, lock_s=60)
    idle, other = transactions.Sessions(made(QUICK)), transactions.Sessions(made(relaxed))

    def work(sessions, count, meanwhile=lambda: None):
        with sessions.transaction() as connection:
            add(connection, count)
            meanwhile()
            add(connection, count)

    with futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(errors.StoreUnavailable):
            work(idle, 100, lambda: pool.submit(work, other, 5).result(QUICK.idle_s + SLACK_S))
        assert pool.submit(ask, other, 'SELECT n FROM a_row').result() == 11
    assert ask(idle, 'SELECT n FROM a_row') == 11


@pytest.mark.parametrize(
    'ways',
    [
        pytest.param((), id='both ways'),
        pytest.param((TO_SERVER,), id='to it'),
        pytest.param((TO_CLIENT,), id='from it'),
    ],
)
def test_a_silent_server_is_noticed(proxy, made, ways):
    """On the connection that there is, and on each new one; afterwards it goes on with a new
    one."""
    sessions = transactions.Sessions(made(QUICK, proxy.port))
    ask(sessions, 'SELECT 1')
    proxy.blackhole(*ways)
    assert seconds_until_unavailable(ask, sessions, 'SELECT 1') < QUICK.answer_s + SLACK_S
    assert seconds_until_unavailable(ask, sessions, 'SELECT 1') < QUICK.connect_s + SLACK_S
    proxy.restore()
    assert ask(sessions, 'SELECT 1') == 1
    eventually(lambda: proxy.links == 1)


def test_a_server_that_falls_silent_at_the_commit(proxy, made, table):
    """It was done, and the client cannot know."""
    sessions = transactions.Sessions(made(QUICK, proxy.port))

    def work():
        with sessions.transaction() as connection:
            add(connection, 10)
            proxy.blackhole(TO_CLIENT)

    assert seconds_until_unavailable(work) < QUICK.answer_s + SLACK_S
    proxy.restore()
    assert ask(sessions, 'SELECT n FROM a_row') == 11


def test_a_silent_server_at_the_start(proxy, made):
    proxy.blackhole()
    assert seconds_until_unavailable(made, QUICK, proxy.port) < QUICK.connect_s + SLACK_S
