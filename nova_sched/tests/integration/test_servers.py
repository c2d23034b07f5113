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
"""The private servers: they start, answer, and keep what was stored through a stop and through a
kill."""

import time
import uuid

import kombu
import pytest
import sqlalchemy as sa

from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.fixtures import mariadb, postgresql, process, rabbitmq

ENDINGS = [
    pytest.param('stop', id='stopped'),
    pytest.param('kill', id='killed'),
]


@pytest.fixture(params=['postgresql', 'mariadb'])
def database(request):
    """Each database server in turn; killed ones are started again for the next test."""
    server = request.getfixturevalue(request.param)
    yield server
    server.start()


@pytest.fixture
def broker(rabbitmq):
    yield rabbitmq
    rabbitmq.start()


def answers(url):
    engine = sa.create_engine(url)
    try:
        with engine.connect() as session:
            return session.scalar(sa.text('SELECT 1')) == 1
    except sa.exc.OperationalError:
        return False
    finally:
        engine.dispose()


def execute(url, *statements):
    """Run statements in one transaction; what the last one returns, as a list of rows."""
    engine = sa.create_engine(url)
    try:
        with engine.begin() as session:
            for statement in statements:
                done = session.execute(sa.text(statement))
            return done.all() if done.returns_rows else []
    finally:
        engine.dispose()


def test_a_fresh_database_is_new_and_empty(database):
    first, second = database.fresh(), database.fresh()
    execute(first, 'CREATE TABLE t (n INTEGER)')
    assert first != second
    assert sa.inspect(sa.create_engine(first, poolclass=sa.NullPool)).get_table_names() == ['t']
    assert sa.inspect(sa.create_engine(second, poolclass=sa.NullPool)).get_table_names() == []


@pytest.mark.parametrize('ending', ENDINGS)
def test_a_database_keeps_what_was_committed(database, ending):
    url = database.fresh()
    execute(url, 'CREATE TABLE t (n INTEGER)', 'INSERT INTO t VALUES (7)')
    getattr(database, ending)()
    assert not answers(url)
    database.start()
    assert execute(url, 'SELECT n FROM t') == [(7,)]


def test_a_database_restarts_at_its_address(database):
    url = database.fresh()
    database.restart()
    assert answers(url)


@pytest.mark.parametrize(
    'name, query, durable',
    [
        pytest.param('postgresql', 'SHOW fsync', 'on', id='postgresql'),
        pytest.param('mariadb', 'SELECT @@innodb_flush_log_at_trx_commit', 1, id='mariadb'),
    ],
)
def test_a_commit_is_durable(request, name, query, durable):
    assert execute(request.getfixturevalue(name).url, query) == [(durable,)]


def put(url, queue, body):
    """Publish one persistent message and wait for the broker's word that it has it."""
    with kombu.Connection(amqp(url), transport_options={'confirm_publish': True}) as connection:
        durable = connection.SimpleQueue(queue, queue_opts={'durable': True})
        durable.put(body, delivery_mode='persistent')
        durable.close()


def get(url, queue):
    with kombu.Connection(amqp(url)) as connection:
        durable = connection.SimpleQueue(queue, queue_opts={'durable': True})
        message = durable.get(timeout=60)
        message.ack()
        durable.close()
        return message.payload


def amqp(url):
    return url.replace('rabbit://', 'amqp://')


def test_a_fresh_virtual_host_is_new_and_empty(broker):
    first, second = broker.fresh(), broker.fresh()
    put(first, 'q', 'hello')
    assert first != second
    assert [
        queue['name'] for queue in broker.ask('GET', f'queues/{first.rpartition("/")[2]}')
    ] == ['q']
    assert broker.ask('GET', f'queues/{second.rpartition("/")[2]}') == []


@ONLY_THOROUGH
@pytest.mark.parametrize('ending', ENDINGS)
def test_the_broker_keeps_persistent_messages(broker, ending):
    url, word = broker.fresh(), str(uuid.uuid4())
    put(url, 'q', word)
    getattr(broker, ending)()
    assert not process.listening(broker.port)
    broker.start()
    assert get(url, 'q') == word


def test_a_program_that_ends_is_reported_with_its_log(tmp_path):
    broken = process.Process(
        ['sh', '-c', 'echo no such cluster; exit 3'], answers=lambda: False, log=tmp_path / 'log'
    )
    with pytest.raises(process.ServerFailed, match='ended with 3:\nno such cluster'):
        broken.start()


def test_a_silent_program_is_killed_with_its_children(tmp_path):
    silent = process.Process(
        ['sh', '-c', 'sleep 1000 & wait'],
        answers=lambda: False,
        log=tmp_path / 'log',
        timeout_s=0.3,
    )
    begin = time.monotonic()
    with pytest.raises(process.ServerFailed, match=r'did not answer in 0\.3 s'):
        silent.start()
    assert not silent.running
    assert time.monotonic() - begin < 300  # the process sleeps for longer


def test_missing_software_fails_and_says_what_to_install():
    with pytest.raises(process.ServerFailed, match=r'bindep\.txt'):
        process.program('no-such-server', '/usr/lib/no-such-server/*/bin')


@pytest.mark.parametrize(
    'module', [mariadb, postgresql, rabbitmq], ids=lambda module: module.__name__
)
def test_nothing_is_left_behind(module):
    with module.server() as server:
        assert server.log.exists()
        assert process.listening(server.port)
    assert not server.log.parent.exists()
    assert not process.listening(server.port)
