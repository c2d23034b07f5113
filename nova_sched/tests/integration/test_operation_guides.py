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
"""What the guides promise of backups and of logs in JSON."""

import json
import os
import subprocess
import uuid

import pytest
import sqlalchemy as sa
from oslo_context.context import RequestContext

from nova_sched import errors, rpc
from nova_sched.claim import VCPU
from nova_sched.claims.audit import audit
from nova_sched.claims.maintenance import ClaimMaintenance
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf import CONF
from nova_sched.db import engine, schema
from nova_sched.extensions.simulator import conductor
from nova_sched.extensions.simulator.conductor import SimulatedConductor
from nova_sched.extensions.simulator.machines import Plan, machines
from nova_sched.extensions.simulator.session import SMALL, stored_accounts
from nova_sched.extensions.simulator.simulated_hosts import CallPool, SimulatedHosts
from nova_sched.rpc.client import SchedulerClient
from nova_sched.tests import manual
from nova_sched.tests.fixtures.process import LOOPBACK
from nova_sched.tests.fixtures.scheduler import Daemon
from nova_sched.tests.manual import MANUAL

TOKEN = 'a-secret-token'
LOGGING = MANUAL / 'examples' / 'logging.conf'
WRITES_TO = '/var/log/nova-sched/scheduler.json'
(EXAMPLE,) = (json.loads(one.text) for one in manual.of('logs.rst') if one.language == 'json')


class Booting:
    """Simulated nodes and a conductor on a bus."""

    def __init__(self, url):
        self._bus = rpc.transport(CONF, url)
        self._pool = CallPool(8, 'conductor')
        self.hosts = SimulatedHosts(
            machines(Plan(nodes=6, disabled=0.0, failing=0.0)), self._bus, self._pool
        )
        self._conductor = SimulatedConductor(self._bus, self.hosts)

    def boot(self, count):
        for server in (str(uuid.uuid4()) for _ in range(count)):
            assert self._conductor.boot(conductor.spec(SMALL, [server]), [server]).hosts
        self.hosts.report_all()

    def refused(self, request_id):
        """A request with this id, for a zone that is not there."""
        client, server = SchedulerClient(self._bus), str(uuid.uuid4())
        context = RequestContext(
            overwrite=False, request_id=request_id, project_id='p', auth_token=TOKEN
        )
        with pytest.raises(errors.NoValidHost):
            client.select_destinations(
                conductor.spec(SMALL, [server], 'nowhere'), [server], context=context
            )

    def close(self):
        self._pool.shutdown()
        self._bus.cleanup()


@pytest.fixture
def booting(rabbitmq):
    """With the URL of the bus."""
    url = rabbitmq.fresh()
    made = Booting(url)
    yield made, url
    made.close()


def postgresql_program(server, name, *words):
    """Run one of PostgreSQL's programs against the server."""
    address = sa.make_url(server.url)
    ours = {'PGHOST': LOOPBACK, 'PGPORT': str(server.port), 'PGUSER': address.username}
    subprocess.run([name, *map(str, words)], env={**os.environ, **ours}, check=True)


def made(database):
    """An engine on a database with the schema of this release."""
    found = engine.create(database)
    schema.upgrade(found)
    return found


def test_servers_that_are_younger_than_the_backup_are_counted(booting, postgresql, tmp_path):
    (cloud, bus), dump = booting, tmp_path / 'nova_sched.dump'
    before, after = postgresql.fresh(), postgresql.fresh()
    made(before).dispose()
    first = Daemon(tmp_path / 'first', bus, before)
    second = Daemon(tmp_path / 'second', bus, after)
    try:
        first.start()
        cloud.hosts.join()
        cloud.boot(10)
        name = sa.make_url(before).database
        postgresql_program(postgresql, 'pg_dump', '--format', 'custom', '--file', dump, name)
        cloud.boot(5)
        assert first.stop() == 0
        to = sa.make_url(after).database
        postgresql_program(postgresql, 'pg_restore', '--dbname', to, dump)
        second.start()
        cloud.hosts.report_all()  # the answers tell the generations of the restored database
        cloud.hosts.report_all()
        restored = engine.create(after)
        maintenance = ClaimMaintenance(restored)
        snapshot = maintenance.snapshot()
        assert [one for one in audit(snapshot, maintenance.now_s()) if one.is_error] == []
        assert len(snapshot.claims) == 10
        assert sum(one.used[VCPU] for one in stored_accounts(SqlClaimStore(restored))) == 15
        restored.dispose()
    finally:
        first.kill()
        second.kill()


def with_use_json(_home):
    """Options with which the log on standard error is JSON."""
    return {'DEFAULT.use_json': True}, None


def with_a_file(home):
    """Options that name the file of the manual, and the log that it makes."""
    log, config = home / 'scheduler.json', home / 'logging.conf'
    text = LOGGING.read_text('utf-8')
    assert WRITES_TO in text
    config.write_text(text.replace(WRITES_TO, str(log)))
    return {'DEFAULT.log_config_append': config}, log


@pytest.mark.parametrize('options', [with_use_json, with_a_file])
def test_a_log_in_json_has_the_request_of_each_line(booting, tmp_path, options):
    (cloud, bus), (more, log) = booting, options(tmp_path)
    daemon = Daemon(tmp_path / 'daemon', bus, f'sqlite:///{tmp_path}/db.sqlite', more)
    try:
        daemon.start()
        request_id = f'req-{uuid.uuid4()}'
        cloud.refused(request_id)
        daemon.until_it_says('Decided req-')
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    text = daemon.said() if log is None else log.read_text('utf-8')
    lines = [json.loads(line) for line in text.splitlines()]
    (decided,) = [one for one in lines if one['message'].startswith('Decided req-')]
    assert decided['levelname'] == 'INFO'
    assert decided['name'] == 'nova_sched.engine.answer'
    assert decided['message'].startswith(f'Decided {request_id}: ')
    assert decided['context']['request_id'] == request_id
    assert decided['context']['project_id'] == 'p'
    assert all(one.keys() >= EXAMPLE.keys() for one in lines)
    assert TOKEN not in text + daemon.said()
