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
"""nova-sched-status: what it finds in a cloud, and its exit status."""

import json

import pytest
import sqlalchemy as sa
from oslo_upgradecheck.upgradecheck import Code

from nova_sched import rpc
from nova_sched.cmd import status
from nova_sched.conf import CONF
from nova_sched.tests import fake_nova
from nova_sched.tests.fake_placement import Fault
from nova_sched.tests.fixtures import warm
from nova_sched.tests.functional.harness import HOST
from nova_sched.tests.functional.test_nova_source import CELL, cloud
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each
from nova_sched.tests.unit.db import nova_tables as nova

__all__ = ['cloud']

GOOD, WARNING, BAD = Code.SUCCESS, Code.WARNING, Code.FAILURE


@pytest.fixture
def check(cloud):
    """Runs a check by its name: code, details."""

    rpc.transport(CONF, 'fake://').cleanup()  # it registers the options of the bus

    def run(name, **options):
        values = {**cloud.options, 'default.transport_url': 'fake://', **options}
        with settings(values):
            found = dict(status.Checks(CONF)._upgrade_checks)[name](status.Checks(CONF))
        return found.code, found.details

    return run


def sql(cloud, database, statement):
    with cloud.engines[database].begin() as connection:
        connection.execute(sa.text(statement))


def scheduler_service(cloud, host, seen_s):
    row = {'report_count': 1, 'version': 74, 'deleted': 0, 'binary': 'nova-scheduler'}
    row |= {'host': host, 'last_seen_up': nova.ago(seen_s)}
    cloud.write('cell0', nova.SERVICE_RECORDS, row)


def test_a_cloud_that_is_ready(cloud, check):
    names = [name for name, _ in status.Checks(CONF)._upgrade_checks]
    found = {name: check(name) for name in names}
    bus = found.pop('Consumers of the queue')
    assert bus == (WARNING, 'Not known: the bus is not RabbitMQ.')
    assert {name: told for name, told in found.items() if told[0] != GOOD} == {}
    assert found["Nova's cells"][1] == 'Readable: cell1.'
    assert found['Compute services'][1] == 'The oldest has version 74.'
    assert cloud.fake.allocated() == {}


@pytest.mark.parametrize(
    'broken, statement, code, told',
    [
        ({}, None, GOOD, 'microversion 2.84'),
        ({'GET': (403, 'not you')}, None, BAD, 'needs the role admin'),
        ({'GET': (406, 'too new')}, None, BAD, '406'),
        ({}, 'DROP TABLE instance_group_member', BAD, 'instance_group_member: '),
    ],
)
def test_an_account_that_moves_servers(cloud, check, broken, statement, code, told):
    if statement:
        sql(cloud, 'api', statement)
    with fake_nova.served() as fake:
        fake.broken.update(broken)
        options = {'nova_api.auth_type': 'none', 'nova_api.endpoint_override': fake.url}
        found = check("Nova's API", **options)
    assert (found[0], told in found[1]) == (code, True), found


def placement(fault):
    """What lets Placement answer so: ``fault(method)``."""
    return lambda cloud: setattr(cloud.fake, 'faults', lambda method, path: fault(method))


def statement(database, text):
    return lambda cloud: sql(cloud, database, text)


def another_scheduler(host, ago_s):
    return lambda cloud: scheduler_service(cloud, host, ago_s)


RENAME = 'ALTER TABLE compute_nodes RENAME COLUMN pci_stats TO other'
BAD_URL = "UPDATE cell_mappings SET database_connection = '{no}://'"


@pytest.mark.parametrize(
    'name, spoil, code, told',
    [
        ("Nova's API database", statement('api', 'DROP TABLE build_requests'), BAD,
         'build_requests: '),
        ("Nova's cells", statement('cell1', RENAME), BAD, 'cell cell1: compute_nodes: '),
        ("Nova's cells", statement('api', BAD_URL), BAD, f'cell {CELL} is left out: '),
        ("Nova's cells", statement('api', 'DELETE FROM cell_mappings'), BAD, 'no enabled cell'),
        ('Service record', statement('cell0', 'DROP TABLE services'), WARNING,
         'cannot be written'),
        ('Placement', placement(lambda method: Fault(503)), BAD, 'Placement does not answer'),
        ('Placement', placement(lambda method: Fault(403) if method == 'PUT' else None), BAD,
         'PUT /allocations/'),
        ('Placement', placement(lambda method: Fault(406)), BAD, '406'),
        ('Compute services', lambda cloud: cloud.change(nova.SERVICES, 'cmp1', version=71), BAD,
         'cell1: 71'),
        ('Compute services', statement('cell1', 'DELETE FROM services'), WARNING, 'No cell has'),
        ('Schedulers', another_scheduler('control-2', 3), WARNING, 'up on control-2: policies'),
        ('Schedulers', another_scheduler('control-2', 50), GOOD, 'shares'),  # it was stopped
        ('Schedulers', another_scheduler(HOST, 3), GOOD, 'shares'),  # our own
    ],
)  # fmt: skip
def test_what_is_wrong(cloud, check, name, spoil, code, told):
    spoil(cloud)
    found = check(name)
    assert found[0] == code, found
    assert told in found[1]


NO_NOVA = {'claims.connection': 'sqlite:////x', 'database.connection': 'sqlite:////x'}


@each(
    'name, options, code, told',
    [
        ('Configuration', {'filter_scheduler.enabled_filters': ['NoFilter']}, BAD, 'NoFilter'),
        ('Configuration', {'placement.auth_type': None}, BAD, '[placement] auth_type'),
        ('Service record', NO_NOVA, WARNING, 'not a database of Nova'),
        ('Schedulers', {'claims.store': 'memory', **NO_NOVA}, GOOD, 'shares'),
        ('New hosts', {'scheduler.discover_hosts_in_cells_interval': 60}, GOOD, 'can be mapped'),
        ('Database of claims', {'claims.store': 'memory'}, WARNING, 'memory'),
        ("Nova's cells", {'cluster.source': 'reports'}, GOOD, 'hosts report themselves'),
    ],
)
def test_options(check, name, options, code, told):
    found = check(name, **options)
    assert found[0] == code
    assert told in found[1]


@each(
    'text, code',
    [
        ('[DEFAULT]\ntransport_url = fake://\n', 1),
        ('[filter_scheduler]\nenabled_filters = X\n', 2),
        ('nonsense', 255),
    ],
)
def test_the_exit_status(tmp_path, text, code):
    file = tmp_path / 'one.conf'
    file.write_text(text)
    line = ['--config-file', file, 'upgrade', 'check', '--json']
    done = warm.run('nova_sched.cmd.status', line)
    assert done.returncode == code, done
    assert 'Traceback' not in done.stdout + done.stderr
    if code != 255:
        assert len(json.loads(done.stdout)['checks']) == 11


def test_details_reach_no_terminal():
    found = status.Checks(CONF)._get_details(status.good('host\x1b[2J\u202e is up\nok'))
    assert found == r'host\x1b[2J\u202e is up ok'
