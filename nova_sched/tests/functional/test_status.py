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
    'spoil, code, told',
    [
        pytest.param(lambda cloud, fake: None, GOOD, 'microversion 2.84', id='good'),
        pytest.param(
            lambda cloud, fake: fake.broken.update(GET=(403, 'not you')),
            BAD,
            'needs the role admin',
            id='no role',
        ),
        pytest.param(
            lambda cloud, fake: fake.broken.update(GET=(406, 'too new')),
            BAD,
            '406',
            id='an old Nova',
        ),
        pytest.param(
            lambda cloud, fake: sql(cloud, 'api', 'DROP TABLE instance_group_member'),
            BAD,
            'instance_group_member: ',
            id='a table of the API database',
        ),
    ],
)
def test_an_account_that_moves_servers(cloud, check, spoil, code, told):
    with fake_nova.served() as fake:
        spoil(cloud, fake)
        options = {'nova_api.auth_type': 'none', 'nova_api.endpoint_override': fake.url}
        found = check("Nova's API", **options)
    assert (found[0], told in found[1]) == (code, True), found


@pytest.mark.parametrize(
    'name, spoil, code, told',
    [
        pytest.param(
            "Nova's API database",
            lambda cloud: sql(cloud, 'api', 'DROP TABLE build_requests'),
            BAD,
            'build_requests: ',
            id='a table of the API database',
        ),
        pytest.param(
            "Nova's cells",
            lambda cloud: sql(
                cloud, 'cell1', 'ALTER TABLE compute_nodes RENAME COLUMN pci_stats TO other'
            ),
            BAD,
            'cell cell1: compute_nodes: ',
            id='a column of a cell',
        ),
        pytest.param(
            "Nova's cells",
            lambda cloud: sql(
                cloud, 'api', "UPDATE cell_mappings SET database_connection = '{no}://'"
            ),
            BAD,
            f'cell {CELL} is left out: ',
            id='a URL of a cell',
        ),
        pytest.param(
            "Nova's cells",
            lambda cloud: sql(cloud, 'api', 'DELETE FROM cell_mappings'),
            BAD,
            'no enabled cell',
            id='no cell',
        ),
        pytest.param(
            'Service record',
            lambda cloud: sql(cloud, 'cell0', 'DROP TABLE services'),
            WARNING,
            'cannot be written',
            id='no rights on the record',
        ),
        pytest.param(
            'Placement',
            lambda cloud: setattr(cloud.fake, 'faults', lambda method, path: Fault(503)),
            BAD,
            'Placement does not answer',
            id='no Placement',
        ),
        pytest.param(
            'Placement',
            lambda cloud: setattr(
                cloud.fake, 'faults', lambda method, path: Fault(403) if method == 'PUT' else None
            ),
            BAD,
            'PUT /allocations/',
            id='no right to write allocations',
        ),
        pytest.param(
            'Placement',
            lambda cloud: setattr(cloud.fake, 'faults', lambda method, path: Fault(406)),
            BAD,
            '406',
            id='an old Placement',
        ),
        pytest.param(
            'Compute services',
            lambda cloud: cloud.change(nova.SERVICES, 'cmp1', version=71),
            BAD,
            'cell1: 71',
            id='an old nova-compute',
        ),
        pytest.param(
            'Compute services',
            lambda cloud: sql(cloud, 'cell1', 'DELETE FROM services'),
            WARNING,
            'No cell has',
            id='no nova-compute',
        ),
        pytest.param(
            'Schedulers',
            lambda cloud: scheduler_service(cloud, 'control-2', 3),
            WARNING,
            'up on control-2: policies',
            id='another nova-scheduler',
        ),
        pytest.param(
            'Schedulers',
            lambda cloud: scheduler_service(cloud, 'control-2', 50),
            GOOD,
            'shares',
            id='one that was stopped',
        ),
        pytest.param(
            'Schedulers',
            lambda cloud: scheduler_service(cloud, HOST, 3),
            GOOD,
            'shares',
            id='the one of this host',
        ),
    ],
)
def test_what_is_wrong(cloud, check, name, spoil, code, told):
    spoil(cloud)
    found = check(name)
    assert found[0] == code, found
    assert told in found[1]


@pytest.mark.parametrize(
    'name, options, code, told',
    [
        pytest.param(
            'Configuration',
            {'filter_scheduler.enabled_filters': ['NoFilter']},
            BAD,
            'NoFilter',
            id='an unknown filter',
        ),
        pytest.param(
            'Configuration',
            {'placement.auth_type': None},
            BAD,
            '[placement] auth_type',
            id='no account of Placement',
        ),
        pytest.param(
            'Service record',
            {'claims.connection': 'sqlite:////x', 'database.connection': 'sqlite:////x'},
            WARNING,
            'not a database of Nova',
            id='no record',
        ),
        pytest.param(
            'Schedulers',
            {
                'claims.store': 'memory',
                'claims.connection': 'sqlite:////x',
                'database.connection': 'sqlite:////x',
            },
            GOOD,
            'shares',
            id='no services of schedulers',
        ),
        pytest.param(
            'New hosts',
            {'scheduler.discover_hosts_in_cells_interval': 60},
            GOOD,
            'can be mapped',
            id='new hosts',
        ),
        pytest.param(
            'Database of claims', {'claims.store': 'memory'}, WARNING, 'memory', id='memory'
        ),
        pytest.param(
            "Nova's cells",
            {'cluster.source': 'reports'},
            GOOD,
            'hosts report themselves',
            id='a cloud whose hosts report',
        ),
    ],
)
def test_options(check, name, options, code, told):
    found = check(name, **options)
    assert found[0] == code
    assert told in found[1]


@pytest.mark.parametrize(
    'text, code',
    [
        pytest.param('[DEFAULT]\ntransport_url = fake://\n', 1, id='a warning'),
        pytest.param('[filter_scheduler]\nenabled_filters = X\n', 2, id='a failure'),
        pytest.param('nonsense', 255, id='no configuration'),
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
