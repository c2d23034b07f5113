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
"""A private broker, our daemon on it, Nova's client before it, and a cloud for each test."""

import time

import oslo_messaging as messaging
import pytest
from nova import objects, rpc
from nova.baserpc import BaseAPI
from nova.conf import CONF
from nova.context import RequestContext
from nova.scheduler.rpcapi import SchedulerAPI

from nova_sched.tests.fixtures.interpreter import frames, interpreter, package
from nova_sched.tests.fixtures.rabbitmq import rabbitmq
from nova_sched.tests.nova_client import daemon as our
from nova_sched.tests.nova_client import specs
from nova_sched.tests.nova_client.cloud import Cloud
from nova_sched.tests.nova_client.settings import options

__all__ = ['rabbitmq']

DAEMON = pytest.StashKey[our.Daemon]()
PYTHON = pytest.StashKey()
LINES = 30  # of the daemon's log that a failure shows


def pytest_sessionstart(session):
    # Not in a fixture: making an environment may take longer than any test is given.
    if not session.config.option.collectonly:
        session.config.stash[PYTHON] = interpreter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    daemon = item.config.stash.get(DAEMON, None)
    if report.failed and daemon is not None:
        report.sections.append(
            ('nova-sched-scheduler', '\n'.join(daemon.said().splitlines()[-LINES:]))
        )
    return report


@pytest.fixture(scope='session')
def bus(rabbitmq, tmp_path_factory):
    """Nova's side of the bus: its configuration, objects and transport, as its services set them
    up."""
    url = rabbitmq.fresh()
    nova_conf = tmp_path_factory.mktemp('nova') / 'nova.conf'
    nova_conf.write_text(
        f'[DEFAULT]\ntransport_url = {url}\nlong_rpc_timeout = 60\nrpc_response_timeout = 30\n'
    )
    CONF(['--config-file', str(nova_conf)], project='nova', default_config_dirs=[])
    objects.register_all()
    rpc.set_defaults(control_exchange='nova')
    rpc.init(CONF)
    yield url
    rpc.cleanup()


@pytest.fixture(scope='session')
def daemon(bus, request, tmp_path_factory):
    """Our daemon, ready; at the end it must leave in good order, and nothing may have surprised
    it."""
    ping = BaseAPI('scheduler')

    def answers():
        try:
            return ping.ping(new_context(), 'ready', timeout=1)['arg'] == 'ready'
        except messaging.MessagingTimeout:
            return False

    home = tmp_path_factory.mktemp('scheduler')
    made = our.make(request.config.stash[PYTHON], home, bus, answers)
    request.config.stash[DAEMON] = made
    try:
        made.process.start()
        yield made
        made.process.stop()
    finally:
        made.process.kill()
    assert '] Stopped\n' in made.said()
    # Tracebacks elsewhere do not count: oslo.messaging logs one for each message without an
    # endpoint, and rpc/messages.py hands it such a message.
    folder = package(made.python)
    ours = frames(made.said(), folder)
    assert [name for name in ours if name != str(folder / 'rpc' / 'serving.py')] == []


def new_context():
    return RequestContext('demo-user', 'demo-project', is_admin=True, auth_token='secret-token')


@pytest.fixture
def context():
    """The context of one request to Nova's API."""
    return new_context()


@pytest.fixture
def scheduler(daemon):
    """Nova's own client."""
    return SchedulerAPI()


@pytest.fixture
def cloud(daemon, context):
    """An empty cloud."""
    made = Cloud(context)
    yield made
    made.close()


@pytest.fixture
def boot(scheduler, context):
    """Boot as a conductor does: ``boot(count, **words of specs.spec)``.

    Returns the Selections, a list for each instance.
    """

    def boot(count=1, *, instance_uuids=None, alternates=True, **words):
        asked = instance_uuids or specs.uuids(count)
        return scheduler.select_destinations(
            context,
            specs.spec(context, asked, **words),
            asked,
            return_objects=True,
            return_alternates=alternates,
        )

    return boot


@pytest.fixture
def hosts(boot):
    """The same, for the chosen hosts only."""
    return lambda *args, **words: [found[0].service_host for found in boot(*args, **words)]


@pytest.fixture
def look(daemon, context):
    """Where an instance would go, as conductors asked before RPC 4.4: such a call claims
    nothing."""
    with options('upgrade_levels', scheduler='4.3'):
        old = SchedulerAPI()

    def look(**words):
        return old.select_destinations(
            context, specs.spec(context, specs.uuids(1), **words), None
        )[0]['host']

    return look


@pytest.fixture
def zone_of(boot):
    """The zone that an answer names for a node; nothing is claimed to learn it."""

    def zone_of(node):
        found = boot(**specs.rebuild(node))
        return found[0][0].availability_zone

    return zone_of


@pytest.fixture
def eventually():
    """Ask until a function returns what is expected: a cast is done some time after it was
    sent."""

    def eventually(expected, ask, timeout_s=120.0):
        until = time.monotonic() + timeout_s
        while (found := ask()) != expected and time.monotonic() < until:
            time.sleep(0.05)
        assert found == expected

    return eventually
