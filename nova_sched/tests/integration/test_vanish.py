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
"""The machine of the database or the broker is gone without a word: nothing closes the connections
to it."""

import contextlib
import time

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.db.limits import DEFAULT
from nova_sched.db.tables import NODES
from nova_sched.extensions.queues.brokers.amqp import HEARTBEAT_S, AmqpBroker
from nova_sched.rpc import rabbit, silence
from nova_sched.rpc.client import SchedulerClient
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.fixtures.proxy import TO_CLIENT, Proxy
from nova_sched.tests.fixtures.rabbitmq import address
from nova_sched.tests.functional.harness import compute_node, eventually
from nova_sched.tests.integration import audit
from nova_sched.tests.integration.cloud import Cloud
from nova_sched.tests.integration.test_claim_store import lock, waiting
from nova_sched.tests.integration.test_outage import UNREACHABLE, WAITING, Waiting, boot, check
from nova_sched.tests.options import settings
from nova_sched.tests.unit.extensions.queues.brokers.battery import TINY, Stage

AWAY_S = 31.0  # for which the machine is away
NOTICED_S = (
    DEFAULT.answer_s + DEFAULT.connect_s
)  # the answer that does not come, and the next connection
SLACK_S = 30.0  # for a machine that has much to do
CALL_S = 120.0
# Of a scheduler that waits for a lock until the test is ready to stop it.
LONG_LIMITS = {'database_limits__lock_timeout': 60, 'database_limits__statement_timeout': 60}
BACK_S = 20.0  # after which a broker that is back has answered all who waited

BOTH_SERVERS = pytest.mark.parametrize('name', ['postgresql', 'mariadb'])


@pytest.fixture
def proxy(request, name):
    with Proxy(request.getfixturevalue(name).port) as made:
        yield made


@pytest.fixture
def database(request, name):
    """A database that has its tables, and an engine on it that no proxy disturbs."""
    url = request.getfixturevalue(name).fresh()
    made = db_engine.create(url, DEFAULT.for_upgrade())
    schema.upgrade(made)
    yield made
    made.dispose()


@pytest.fixture
def cloud(rabbitmq, tmp_path, database, proxy):
    """A cloud that reaches its database through the proxy."""
    with contextlib.closing(
        on_a_bus(rabbitmq, tmp_path, database.url.set(port=proxy.port))
    ) as made:
        yield made


@pytest.fixture
def others(rabbitmq, tmp_path, database):
    """A cloud on another bus and the same database."""
    with contextlib.closing(on_a_bus(rabbitmq, tmp_path, database.url)) as made:
        yield made


def on_a_bus(rabbitmq, home, url):
    """A cloud on a bus of its own."""
    made = Cloud(home, rabbitmq.fresh(), url.render_as_string(hide_password=False))
    made.scheduler = SchedulerClient(made.bus, timeout_s=CALL_S)
    return made


def since(begin_s):
    return time.monotonic() - begin_s


def sleep_until(until_s):
    time.sleep(max(0.0, until_s - time.monotonic()))


# The database.


@pytest.mark.parametrize(
    'name, forget',
    [
        pytest.param('postgresql', True, id='PostgreSQL, replaced'),
        pytest.param('mariadb', False, id='MariaDB, cut off'),
    ],
)
def test_a_database_that_vanishes_for_half_a_minute(cloud, database, proxy, forget):
    """A machine that was replaced knows nothing of what was sent; one that was cut off hears it
    late."""
    daemon = cloud.daemon()
    cloud.add(10, vcpus=64)
    proxy.blackhole(forget=forget)
    begin_s = time.monotonic()
    calls = Waiting(boot(cloud), [f'server-{number}' for number in range(10)])
    daemon.until_it_says(WAITING, timeout_s=NOTICED_S + SLACK_S)
    sleep_until(begin_s + AWAY_S)
    assert calls.found == {}
    proxy.restore()
    begin_s = time.monotonic()
    calls.wait()
    # At worst a connection is being made at this moment, in vain.
    assert since(begin_s) < DEFAULT.connect_s + SLACK_S
    cloud.database = database.url.render_as_string(hide_password=False)
    check(cloud, calls)
    assert 'Traceback' not in daemon.said()


def is_locked(database, node):
    try:
        with database.begin() as connection:
            connection.execute(
                sa.select(NODES.c.uuid).where(NODES.c.uuid == node).with_for_update(nowait=True)
            )
    except (sa.exc.DBAPIError, db_error.DBError):
        return True
    return False


@BOTH_SERVERS
@pytest.mark.parametrize('room', [pytest.param(1, marks=ONLY_THOROUGH), 2])
def test_a_scheduler_that_is_stopped_in_a_transaction(cloud, others, database, proxy, room):
    """Its locks are gone after a few seconds; when it goes on it finds that out, and asks
    again."""
    stopped = cloud.daemon('stopped', **LONG_LIMITS)
    cloud.add(1, vcpus=room)
    others.daemon('other')
    node = compute_node('host-0').uuid
    with database.begin() as connection:
        lock(connection, node)
        first = Waiting(boot(cloud), ['first'])
        waiting(database, 1)
        proxy.blackhole(TO_CLIENT)
    eventually(lambda: is_locked(database, node))
    stopped.pause()
    proxy.restore()
    begin_s = time.monotonic()
    assert boot(others)('second') == node
    assert since(begin_s) < DEFAULT.idle_s + DEFAULT.lock_s + SLACK_S
    assert audit.placed(others.database) == {uuid_of('second'): [node]}
    assert first.found == {}
    stopped.resume()
    (told,) = first.wait().values()
    expected = {uuid_of('second'): [node]}
    if room == 2:
        assert told == node
        expected[uuid_of('first')] = [node]
    else:
        assert isinstance(told, errors.NoValidHost)
    assert audit.placed(others.database) == expected
    assert audit.faults(others.database) == []
    assert 'Traceback' not in stopped.said()


# The broker.


def test_a_broker_that_vanishes_for_half_a_minute(rabbitmq, tmp_path):
    virtual_host = rabbitmq.fresh().rpartition('/')[2]
    durable = 'oslo_messaging_rabbit.amqp_durable_queues'
    with contextlib.ExitStack() as end:
        end.enter_context(settings({durable: True}))
        proxy = end.enter_context(Proxy(rabbitmq.port))
        url = address(proxy.port, virtual_host)
        cloud = end.enter_context(
            contextlib.closing(Cloud(tmp_path, url, f'sqlite:///{tmp_path}/x.sqlite'))
        )
        cloud.scheduler = SchedulerClient(cloud.bus, timeout_s=CALL_S)
        daemon = cloud.daemon(**{durable.replace('.', '__'): True})
        cloud.add(10, vcpus=64)
        proxy.blackhole(forget=True)
        begin_s = time.monotonic()
        calls = Waiting(boot(cloud), [f'server-{number}' for number in range(10)])
        daemon.until_it_says(UNREACHABLE, timeout_s=2 * silence.HEARTBEAT_S + 1 + SLACK_S)
        sleep_until(begin_s + AWAY_S)
        assert calls.found == {}
        proxy.restore()
        begin_s = time.monotonic()
        check(cloud, calls)
        assert since(begin_s) < BACK_S + SLACK_S


def test_a_broker_of_jobs_that_vanishes(rabbitmq, caplog):
    virtual_host = rabbitmq.fresh().rpartition('/')[2]
    with Proxy(rabbitmq.port) as proxy:
        broker = AmqpBroker(address(proxy.port, virtual_host))
        stage = Stage(broker, 600.0)
        broker.declare([TINY])
        taker = stage.taker(TINY)
        broker.publish(TINY, b'held')
        taker.next()
        proxy.blackhole(forget=True)
        begin_s = time.monotonic()
        with pytest.raises(errors.BrokerUnavailable):
            broker.publish(TINY, b'lost')
        assert since(begin_s) < rabbit.SILENCE_S + rabbit.CONNECT_S + SLACK_S
        eventually(lambda: 'has lost its connection' in caplog.text, 2 * HEARTBEAT_S + SLACK_S)
        proxy.restore()
        again = taker.next()
        assert (again.body, again.redelivered) == (b'held', True)
        taker.consumer.ack(again)
        assert broker.publish(TINY, b'new')
        assert taker.next().body == b'new'
        broker.close()
