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
"""The client of Nova's API."""

import pytest

from nova_sched import errors
from nova_sched.cloud.compute_api import LiveMigration, MovedServer
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_nova import client_of, served
from nova_sched.tests.rows import each_afresh

ONE, TWO = uuid_of('server 1'), uuid_of('server 2')
ACTION = f'/servers/{ONE}/action'


@pytest.fixture
def fake():
    with served() as made:
        made.servers = {ONE: ['cmp1', None]}
        yield made


def test_a_server(fake):
    client_of(fake).check()
    assert client_of(fake).server(ONE) == MovedServer('cmp1', None)
    assert fake.versions == {'compute 2.84'}


def test_the_newest_live_migration_is_the_first_whatever_the_clocks_say(fake):
    fake.migration(ONE, 'cmp1', 'cmp2', 'error')
    fake.migration(TWO, 'cmp1')
    fake.migration(ONE, 'cmp1', 'cmp3', kind='resize')
    fake.migration(ONE, 'cmp1', status='queued')
    assert client_of(fake).live_migrations(ONE) == [
        LiveMigration(4, uuid_of('migration 4'), 'queued', 'cmp1', None),
        LiveMigration(1, uuid_of('migration 1'), 'error', 'cmp1', 'cmp2'),
    ]


def test_a_server_is_live_migrated(fake):
    client_of(fake).live_migrate(ONE, 'cmp2')
    assert fake.asked == [(ONE, 'cmp2')]
    with pytest.raises(errors.NovaConflict, match='in task_state migrating'):
        client_of(fake).live_migrate(ONE, 'cmp2')
    assert fake.asked == [(ONE, 'cmp2')]


@each_afresh(
    'events, why',
    {
        'no live migration': (None, None),
        'no failure': ([('Success', None)], None),
        'no details': ([('Error', None)], None),
        'two': ([('Error', 'b'), ('Success', 'x'), ('Error', 'a')], 'b; a'),
        'twice the same': ([('Error', 'a'), ('Error', 'a')], 'a'),
        'a long one': ([('Error', 'a' * 900)], 'a' * 500),
    },
)
def test_why_a_live_migration_failed(fake, events, why):
    if events is not None:
        fake.details[ONE] = events
    assert client_of(fake).failure(ONE) == why


def test_services(fake):
    fake.services = {'cmp1': ['enabled', None]}
    api = client_of(fake)
    api.set_service(api.service('cmp1')[0], 'closed')
    assert api.service('cmp1') == (uuid_of('cmp1'), True, 'closed')
    api.set_service(uuid_of('cmp1'), None)
    assert api.service('cmp1') == (uuid_of('cmp1'), False, None)
    with pytest.raises(errors.NotFound, match='host cmp9'):
        api.service('cmp9')
    fake.services['cmp1'] = None
    with pytest.raises(errors.NovaUnavailable, match='the cell of host cmp1 is down'):
        api.service('cmp1')


@pytest.mark.parametrize(
    'broken, error, why',
    [
        pytest.param((400, {'badRequest': {'message': 'no  host'}}), errors.NovaRefused,
                     '400: no host', id='not valid'),
        pytest.param((401, 'log in'), errors.NovaRefused, '401: log in', id='no access'),
        pytest.param((403, {'forbidden': {'message': "Policy doesn't allow x"}}),
                     errors.NovaForbidden, "role admin: POST.*403: Policy doesn't", id='policy'),
        pytest.param((404, 'x'), errors.NotFound, f'Server {ONE}', id='gone'),
        pytest.param((409, '["x"]'), errors.NovaConflict, '409', id='conflict'),
        pytest.param((429, 'slowly'), errors.NovaUnavailable, '429: slowly', id='too much'),
        pytest.param((503, 'away'), errors.NovaUnavailable, '503: away', id='out of order'),
    ],
)  # fmt: skip
def test_errors(fake, broken, error, why):
    fake.broken['POST', ACTION] = broken
    with pytest.raises(error, match=why):
        client_of(fake).live_migrate(ONE, 'cmp2')
    assert fake.asked == []


@each_afresh(
    'answer',
    {
        'no JSON': 'hello',
        'another form': [],
        'its cell is away': {'server': {'id': ONE, 'status': 'UNKNOWN'}},
    },
)
def test_an_answer_that_tells_nothing(fake, answer):
    fake.broken['GET'] = 200, answer
    for ask in (lambda api: api.server(ONE), lambda api: api.live_migrations(ONE)):
        with pytest.raises(errors.NovaUnavailable):
            ask(client_of(fake))
