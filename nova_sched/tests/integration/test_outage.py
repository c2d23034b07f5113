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
"""The broker or the database is away: the daemon says so, goes on trying, and nothing is lost."""

import contextlib
import os
import re
import signal
import threading
import time

import pytest

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.rpc.client import GroupsClient, SchedulerClient
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fixtures.process import free_port
from nova_sched.tests.fixtures.proxy import Proxy
from nova_sched.tests.functional.harness import PATIENCE_S, eventually, outcome, spec
from nova_sched.tests.integration import audit
from nova_sched.tests.integration.cloud import DURABLE, Cloud
from nova_sched.tests.integration.rpc_servers import SERVERS, cloud
from nova_sched.tests.options import settings

__all__ = ['cloud']

BACKENDS = ('threading', 'eventlet')
UNREACHABLE = re.compile('is unreachable|cannot connect to the broker')
WAITING = 'requests wait until it does'
UNSEEN = 'changes of other schedulers are not seen until it does'


class Waiting:
    """Calls that are under way, each in a thread of its own."""

    def __init__(self, call, names):
        self.found = {}
        self._threads = [
            threading.Thread(target=self._run, args=(call, name), daemon=True) for name in names
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, call, name):
        self.found[name] = outcome(call, name)

    def wait(self):
        for thread in self._threads:
            thread.join()
        return self.found


def boot(cloud):
    """A call that places one server, by its name; it returns the UUID of its node."""
    return lambda name: (
        cloud.scheduler.select_destinations(spec(), [uuid_of(name)])[0][0].compute_node_uuid
    )


def check(cloud, waiting):
    """Every call was answered with a host; the database holds just these claims."""
    found = waiting.wait()
    assert [answer for answer in found.values() if isinstance(answer, Exception)] == []
    assert audit.faults(cloud.database) == []
    assert audit.placed(cloud.database) == {uuid_of(name): [node] for name, node in found.items()}


# The broker.


@pytest.fixture
def broker(rabbitmq):
    yield rabbitmq
    rabbitmq.start()


@pytest.fixture
def link(rabbitmq):
    """A proxy before the broker: closed, it is for daemons as a broker that has ended, which takes
    seconds to start again."""
    with Proxy(rabbitmq.port, port=free_port()) as made:
        yield made


@pytest.fixture(params=SERVERS)
def behind(request, rabbitmq, link, tmp_path):
    """A cloud whose broker is reached by the link; queues are durable."""
    url = rabbitmq.fresh().replace(f':{rabbitmq.port}/', f':{link.port}/')
    made = Cloud(tmp_path, url, f'sqlite:///{tmp_path}/claims.sqlite')
    made.options = {'scheduler.rpc_server': request.param}
    with settings(DURABLE):
        yield made
    link.restore()
    made.close()


@pytest.fixture
def durable(cloud):
    """The cloud on queues that outlive the broker; its daemons get the same options."""
    with settings(DURABLE):
        yield cloud


def durable_daemon(cloud, name='one', start=True, **options):
    durable_options = {key.replace('.', '__'): value for key, value in DURABLE.items()}
    return cloud.daemon(name, start, **durable_options, **options)


def test_calls_are_answered_when_the_broker_is_back(durable, broker):
    daemon = durable_daemon(durable)
    durable.add(20, vcpus=64)
    callers = durable.callers(150)
    callers.go()
    eventually(lambda: len(callers.answers) >= 20)
    broker.kill()
    eventually(lambda: UNREACHABLE.search(daemon.said()))
    broker.start()
    assert callers.outcomes().keys() == {None}
    assert audit.faults(durable.database) == []
    # A call whose answer died with the broker was made again, for the same server: it has one
    # claim.
    assert audit.placed(durable.database) == callers.chosen()


@pytest.mark.parametrize('backend', BACKENDS)
def test_sigterm_ends_a_daemon_whose_broker_is_away(behind, link, backend):
    daemon = durable_daemon(behind, DEFAULT__service_backend=backend)
    link.close()
    eventually(lambda: UNREACHABLE.search(daemon.said()))
    daemon.stop()


@pytest.mark.parametrize('backend', BACKENDS)
def test_a_daemon_that_starts_before_its_broker(behind, link, backend):
    link.close()
    early, late = (
        durable_daemon(behind, name, start=False, DEFAULT__service_backend=backend)
        for name in ('a', 'b')
    )
    for daemon in (early, late):
        daemon.start(wait=False)
        daemon.until_it_says('[Errno 111]')  # refused; both RPC servers say so
    early.stop()
    link.restore()
    late.until_it_says('Scheduling on host')
    behind.add(1)
    boot(behind)('one')


def test_a_client_with_limited_attempts_does_not_wait_for_the_broker(rabbitmq, link):
    """As the API calls: before its first answer, and when the broker ends later."""
    url = rabbitmq.fresh().replace(f':{rabbitmq.port}/', f':{link.port}/')
    bus = rpc.transport(CONF, url)
    asked = GroupsClient(bus, 3.0, attempts=2)
    try:
        for _ in range(2):
            link.close()
            begin = time.monotonic()
            with pytest.raises(errors.NoAnswer):
                asked.list()
            assert time.monotonic() - begin < PATIENCE_S
            link.restore()
            with pytest.raises(errors.NoAnswer, match='Timed out'):
                asked.list()  # the broker takes the message, and no scheduler runs
    finally:
        link.restore()
        bus.cleanup()


# The database.


@pytest.fixture
def server(postgresql):
    yield postgresql
    postgresql.start()


@pytest.fixture
def stored(server, rabbitmq, tmp_path):
    """A cloud on RabbitMQ and PostgreSQL."""
    database = server.fresh()
    with contextlib.closing(Cloud(tmp_path, rabbitmq.fresh(), database)) as made:
        engine = db_engine.create(database)
        schema.upgrade(engine)
        engine.dispose()
        yield made


def test_calls_are_answered_when_the_database_is_back(stored, server):
    daemon = stored.daemon()
    stored.add(20, vcpus=64)
    server.kill()
    waiting = Waiting(boot(stored), [f'server-{number}' for number in range(20)])
    daemon.until_it_says(WAITING)
    stored.scheduler.sync_instance_info('host-0', [uuid_of('stranger')])
    server.start()
    check(stored, waiting)
    daemon.until_it_says('The database answers again')
    eventually(lambda: audit.rows(stored.database, 'host_instances')[0])
    assert daemon.said().count(WAITING) == 1
    assert 'Traceback' not in daemon.said()


def test_a_caller_gets_heartbeats_for_as_long_as_its_call_takes(stored, server):
    daemon = stored.daemon()
    stored.add(1)
    stored.scheduler = SchedulerClient(stored.bus, timeout_s=60, monitor_s=4)
    server.kill()
    begin = time.monotonic()
    waiting = Waiting(boot(stored), ['one'])
    daemon.until_it_says(WAITING)
    eventually(lambda: time.monotonic() - begin > 9)  # more than twice as long as it bears silence
    server.start()
    check(stored, waiting)


def test_an_idle_daemon_says_once_that_the_database_is_away(stored, server):
    daemon = stored.daemon(claims__refresh_interval=0.1)
    stored.add(1)
    server.kill()
    # The poller sees it, or the loop that reads what a poll has just found.
    eventually(lambda: UNSEEN in daemon.said() or WAITING in daemon.said())
    # A call by which many looks have failed: it waits for the database, which is back a second
    # later.
    waiting = Waiting(boot(stored), ['one'])
    daemon.until_it_says(WAITING)
    server.start()
    check(stored, waiting)
    assert daemon.said().count(UNSEEN) <= 1
    assert daemon.said().count(WAITING) == 1


def test_sigterm_ends_a_daemon_whose_database_is_away(stored, server):
    """Those who wait are told, and a call that it has not taken is left to others; nothing was
    claimed for them."""
    daemon = stored.daemon()
    stored.add(1)
    server.kill()
    waiting = Waiting(boot(stored), ['one', 'two'])
    daemon.until_it_says(WAITING)
    assert daemon.stop() == 0
    told = {type(answer) for answer in waiting.wait().values()}
    assert {errors.StoreUnavailable} <= told <= {errors.StoreUnavailable, errors.NoAnswer}
    server.start()
    assert audit.placed(stored.database) == {}


def test_a_database_without_our_tables_stops_the_start(server, rabbitmq, tmp_path):
    with contextlib.closing(Cloud(tmp_path, rabbitmq.fresh(), server.fresh())) as cloud:
        daemon = cloud.daemon(start=False)
        daemon.start(wait=False)
        assert daemon.wait() == os.EX_CONFIG
        assert 'this release needs' in daemon.said()
        assert 'run nova-sched-manage db upgrade' in daemon.said()
        assert 'Traceback' not in daemon.said()


def test_a_daemon_that_starts_before_its_database(stored, server):
    server.kill()
    early, late = (stored.daemon(name, start=False) for name in ('a', 'b'))
    for daemon in (early, late):
        daemon.start(wait=False)
        daemon.until_it_says('trying until that changes')
    assert early.stop() == 0
    server.start()
    late.until_it_says('Scheduling on host')
    assert late.said().count('trying until that changes') == 1
    stored.add(1)
    boot(stored)('one')


def test_a_worker_that_dies_while_the_database_is_away_is_made_good(stored, server):
    daemon = stored.daemon(scheduler__workers=2)
    stored.add(1)
    server.kill()
    daemon.send(signal.SIGKILL, worker=1)
    daemon.until_it_says('trying until that changes')
    server.start()
    daemon.until_it_says('Scheduling on host', 3)
    # The worker that did not hear of the host itself learns of it at its next look.
    eventually(lambda: not isinstance(outcome(boot(stored), 'one'), Exception))
