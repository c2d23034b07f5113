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
"""nova-sched-shadow as a process: on RabbitMQ, Nova's databases and a Placement."""

import json
import os

import pytest

from nova_sched import errors, objects, rpc
from nova_sched.conf import CONF
from nova_sched.rpc import client
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_placement import served
from nova_sched.tests.fixtures import warm
from nova_sched.tests.fixtures.process import LOOPBACK, free_port
from nova_sched.tests.fixtures.scheduler import OVERRIDES, Daemon
from nova_sched.tests.functional.harness import eventually, spec
from nova_sched.tests.functional.test_nova_source import NovaCloud, node
from nova_sched.tests.integration.test_copies import Bus
from nova_sched.tests.unit.db import nova_tables as nova

PATIENCE_S = 60.0
A, B, C = (uuid_of(name) for name in 'abc')


class ShadowDaemon(Daemon):
    module, listens = 'nova_sched.extensions.shadow.cmd', 'arrive in queue'


class Shadow:
    """A cloud of two hosts, and a shadow of its scheduler, which the test plays."""

    def __init__(self, folder, fake, url, options):
        self.fake, self.cloud, self.folder = fake, NovaCloud(folder, fake), folder
        known = {'DEFAULT.state_path': folder, 'DEFAULT.service_down_time': 60}
        known |= {
            name.replace('default.', 'DEFAULT.'): value
            for name, value in self.cloud.options.items()
        }
        known |= options
        self.daemon = ShadowDaemon(folder / 'shadow', url, self.cloud.urls['cell0'], known)

    def send(self, bus, *uuids, **words):
        """A conductor's call, for servers that Nova builds."""
        for uuid in uuids:
            self.cloud.write('api', nova.BUILD_REQUESTS, {'instance_uuid': uuid})
        asked = {'spec_obj': objects.to_primitive(spec(**words)), 'instance_uuids': list(uuids)}
        asked |= {'return_objects': True, 'return_alternates': True}
        message = {'method': 'select_destinations', 'version': '4.5', 'args': asked}
        bus.send(message, {'request_id': 'req-1', 'auth_token': 'secret-token'})

    def place(self, uuid, host):
        """As a scheduler writes an allocation."""
        self.fake.consumers[uuid] = [1, {node(host): {'VCPU': 1, 'MEMORY_MB': 512}}, 'p', 'u']

    def built(self, uuid):
        """Nova waits for no host any more."""
        table = nova.BUILD_REQUESTS
        with self.cloud.engines['api'].begin() as connection:
            connection.execute(table.delete().where(table.c.instance_uuid == uuid))

    def lines(self):
        path = self.folder / 'shadow.jsonl'
        found = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
        return [line for line in found if 'outcome' in line]

    def outcomes(self, count):
        eventually(lambda: len(self.lines()) == count, PATIENCE_S)
        return [line['outcome'] for line in self.lines()]

    def close(self):
        self.daemon.kill()
        self.cloud.close()


@pytest.fixture
def make(tmp_path):
    made = []
    with served() as fake:

        def start(url, options=None):
            made.append(Shadow(tmp_path, fake, url, options or {}))
            return made[-1]

        yield start
        for one in made:
            one.close()


@pytest.fixture
def bus(rabbitmq):
    made = Bus(rabbitmq.fresh())
    yield made
    made.close()


@pytest.fixture
def shadow(make, bus):
    made = make(bus.url)
    made.daemon.start()
    return made


def program(*words):
    """What `nova-sched-shadow` prints."""
    env = {name: value for name, value in os.environ.items() if name not in OVERRIDES}
    done = warm.run('nova_sched.extensions.shadow.cmd', words, env=env, timeout=PATIENCE_S)
    done.check_returncode()
    return done.stdout


def test_it_watches_and_only_reads(rabbitmq, bus, shadow):
    shadow.send(bus, A, vcpus=1)
    shadow.place(A, 'cmp1')
    assert shadow.outcomes(1)[0] in ('same', 'among_best')
    assert shadow.lines()[0]['servers'][0]['cloud'] == 'cmp1'
    shadow.send(bus, B, vcpus=8)
    shadow.send(bus, C, vcpus=1)
    shadow.built(B)
    shadow.built(C)
    assert sorted(shadow.outcomes(3)[1:]) == ['both_refused', 'cloud_refused']

    config = ('--config-file', str(shadow.daemon.settings))
    report = json.loads(program('report', *config, '--format', 'json'))
    assert (report['calls'], report['both_refused'], report['cloud_refused']) == (3, 1, 1)
    assert '3 calls for 3 servers' in program('report', *config, '--since', '1h')

    assert {method for method, _ in shadow.fake.requests} == {'GET'}
    assert shadow.fake.bodies == []
    assert not (shadow.folder / 'claims.sqlite').exists()
    with shadow.cloud.engines['cell0'].connect() as connection:
        assert connection.exec_driver_sql('SELECT count(*) FROM services').scalar() == 0
    assert bus.waiting() == 3, 'the copies were taken, and no message of a scheduler'
    assert 'secret-token' not in shadow.daemon.said()

    assert shadow.daemon.stop() == 0
    assert 'Stopped' in shadow.daemon.said()
    assert 'Traceback' not in shadow.daemon.said()


def test_questions(bus, shadow):
    made = rpc.transport(CONF, bus.url)

    def capacity():
        try:
            return client.ShadowExplainClient(made, timeout_s=5.0).capacity(spec(vcpus=1))
        except errors.NoAnswer:  # it has no queue for questions yet
            return None

    try:
        assert eventually(capacity, PATIENCE_S)['hosts'] == 2
        asks = client.ShadowExplainClient(made, timeout_s=PATIENCE_S)
        assert asks.dry_run(spec(vcpus=1))['outcome'] == 'placed'
        assert asks.why_not(spec(vcpus=8), 'cmp1')['nodes'][0]['passes'] is False
        found = client.ShadowCloudClient(made, timeout_s=PATIENCE_S).status()
        assert [cell['taking'] for cell in found['cells']] == [2]
        assert (found['ok'], found['writes']) == (True, None)
    finally:
        made.cleanup()
    assert bus.waiting() == 0


def test_what_waits_at_the_end_is_written(bus, shadow):
    shadow.send(bus, A, vcpus=1)
    shadow.daemon.until_it_says('Decided req-1')
    assert shadow.daemon.stop() == 0
    assert shadow.outcomes(1) == ['not_known']


def test_the_broker_is_away(make):
    shadow = make(f'rabbit://guest:guest@{LOOPBACK}:{free_port()}/')
    shadow.daemon.start(wait=False)
    shadow.daemon.until_it_says('cannot connect to the broker')
    said = shadow.daemon.said().count
    for who in ('The RPC server', 'The reader of copied calls'):
        assert said(f'{who} cannot connect to the broker') <= 1
    assert shadow.daemon.stop() == 0


def test_nova_is_away(make, bus):
    url = f'mysql+pymysql://nova:secret@{LOOPBACK}:{free_port()}/nova_api'
    shadow = make(bus.url, {'api_database.connection': url})
    shadow.daemon.start(wait=False)
    shadow.daemon.until_it_says('The shadow waits until it can read')
    assert 'arrive in queue' not in shadow.daemon.said()
    assert 'secret@' not in shadow.daemon.said()
    assert shadow.daemon.stop() == 0
