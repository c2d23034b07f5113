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
"""A database of an earlier release is upgraded, and the cloud that it describes goes on."""

import json
import time
from pathlib import Path

import alembic.command
import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import engine, schema
from nova_sched.db.transactions import transaction
from nova_sched.engine.sync import store_poller
from nova_sched.rpc import client
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import eventually, spec
from nova_sched.tests.functional.queue_cloud import OPTIONS, QueueCloud
from nova_sched.tests.functional.test_agent import conf
from nova_sched.tests.options import settings

__all__ = ['conf']

TIMEOUT_S = 60
# The rows were recorded from that release's own daemons: see the README.md there.
FOLDER = Path(__file__).parents[1] / 'data' / 'releases'


def recorded(revision):
    """The recording at a revision: ``tables`` (rows by table) and facts of its cloud."""
    return json.loads((FOLDER / f'revision-{revision}.json').read_text())


def load(engine, recording):
    """Make the tables of the recording's release in an empty database, and fill them.

    All times are moved, as if the recording had been made just now.
    """
    later_s = time.time() - recording['captured_s']
    with transaction(engine) as connection:
        alembic.command.upgrade(schema.config(connection), recording['revision'])
    with engine.begin() as connection:
        for name, rows in recording['tables'].items():
            if name == 'alembic_version':
                continue
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            connection.execute(sa.delete(table))
            if rows:
                connection.execute(sa.insert(table), [_row(table, row, later_s) for row in rows])


def _row(table, row, later_s):
    """A row of SQLite as any database takes it."""
    found = {}
    for name, value in row.items():
        if name.endswith('_s') and value is not None:
            value += later_s
        elif isinstance(table.columns[name].type, sa.Boolean) and value is not None:
            value = bool(value)
        found[name] = value
    return found


class Upgraded(QueueCloud):
    """The recorded cloud, on its database; its agents have their files."""

    def __init__(self, conf, root, recording):
        for host, files in recording['homes'].items():
            (root / host).mkdir()
            for name, text in files.items():
                (root / host / name).write_text(text)
        self.recording = recording
        super().__init__(conf, root)
        self.stats = client.StatsClient(self.bus, timeout_s=TIMEOUT_S)
        self.groups = client.GroupsClient(self.bus, timeout_s=TIMEOUT_S)
        self.conductors = client.SchedulerClient(self.bus, timeout_s=TIMEOUT_S)

    def boot(self, name, **words):
        return self.conductors.select_destinations(spec(**words), [uuid_of(name)])[0][0]


@pytest.fixture
def connection(conf):
    """The URL of an empty database."""
    return conf.database.connection


@pytest.fixture
def cloud(conf, connection, tmp_path, request, monkeypatch):
    monkeypatch.setattr(store_poller, 'EXPIRE_INTERVAL_S', 0.5)
    recording = recorded('0006')
    conf.set_override('connection', connection, group='database')
    database = engine.create(connection)
    load(database, recording)
    schema.upgrade(database)
    database.dispose()
    fallback_s = getattr(request, 'param', 3600)
    options = {'queues.fallback_after': fallback_s, 'default.service_down_time': 3600}
    with settings(OPTIONS | options):
        made = Upgraded(conf, tmp_path, recording)
        yield made
        made.close()


def test_the_claims_stand(cloud):
    held = {name: cloud.claims.show(uuid_of(name)) for name in ('built', 'pending', 'web', 'one')}
    assert {name: [one.state for one in found] for name, found in held.items()} == {
        'built': ['confirmed'],
        'pending': ['pending'],
        'web': ['confirmed'],
        'one': ['pending'],
    }
    assert held['web'][0].host == cloud.recording['web']


def test_the_group_stands_and_is_built_on(cloud):
    group = cloud.recording['group']
    web, other = cloud.recording['web'], cloud.recording['web'][:-1]
    rest = f'{other}{"cd".replace(web[-1], "")}'
    with pytest.raises(errors.NoValidHost):
        cloud.boot('outsider', force_hosts=[rest])
    hints = {'top_group': [group], 'member': ['app/db']}
    asked = {'vcpus': 2, 'memory_mb': 512, 'scheduler_hints': hints}
    assert cloud.boot('db', **asked).service_host == rest
    states = {one.path: one.state for one in cloud.groups.show(group).members}
    assert states == {'app/db': 'pending', 'app/web': 'confirmed'}
    cloud.groups.delete(group)
    for name in 'web', 'db':
        cloud.claims.abort_claim(uuid_of(name))
    eventually(lambda: _opened(cloud, rest), TIMEOUT_S)


def _opened(cloud, host):
    try:
        return cloud.boot('outsider', force_hosts=[host])
    except errors.NoValidHost:
        return None


def test_the_servers_and_quotas_of_queues_stand(cloud):
    assert cloud.used == {'servers': 3, 'class:VCPU': 18, 'class:MEMORY_MB': 48}
    assert cloud.job_table.limits('p') == {'servers': 7}
    cloud.agent('a')
    cloud.router.delete(uuid_of('first'))
    eventually(lambda: cloud.held('first') == [])
    assert cloud.used['servers'] == 2


# For so long the message counts as not lost, and then it waits for the agents: they start before.
@pytest.mark.parametrize('cloud', [10], indirect=True)
def test_a_job_that_waited_is_done(cloud):
    """Its queue at the broker was lost with the broker: the manager finds it in the database."""
    assert cloud.jobs('waiting') == [('create', 'queued')]
    for host in 'ab':
        cloud.agent(host)
    cloud.router.delete(uuid_of('first'))
    eventually(lambda: cloud.jobs('waiting') == [('create', 'done')], TIMEOUT_S)
    assert [state for _, state, _ in cloud.held('waiting')] == ['confirmed']
