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
"""Rights on Nova's databases, as far as SQLite has them; database servers are in integration."""

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import engine, nova_rights
from nova_sched.tests.unit.db import nova_service_records
from nova_sched.tests.unit.db import nova_tables as nova


@pytest.fixture
def url(tmp_path):
    return f'sqlite:///{tmp_path}/nova.sqlite'


@pytest.fixture
def database(url):
    made = engine.create(url)
    yield made
    made.dispose()


@pytest.mark.parametrize(
    'change, found',
    [
        pytest.param(None, {}, id='all is there'),
        pytest.param('DROP TABLE migrations', {'migrations': 'no such table'}, id='a table'),
        pytest.param(
            'ALTER TABLE compute_nodes RENAME COLUMN stats TO other',
            {'compute_nodes': 'no such column'},
            id='a column',
        ),
    ],
)
def test_what_cannot_be_read(url, database, change, found):
    nova.emptied(database, nova.OF_CELL)
    if change:
        with database.begin() as connection:
            connection.execute(sa.text(change))
    told = nova_rights.unreadable(engine.reader(url), nova_rights.OF_CELL)
    assert told.keys() == found.keys()
    assert all(found[name] in why for name, why in told.items())


def test_the_api_database(url, database):
    nova.emptied(database, nova.OF_API)
    for tables in (nova_rights.OF_API, nova_rights.OF_MOVES):
        assert nova_rights.unreadable(engine.reader(url), tables) == {}


def test_a_database_that_is_away():
    away = engine.reader('postgresql+psycopg2://a:b@127.0.0.1:1/nova')
    with pytest.raises(errors.StoreUnavailable):
        nova_rights.unreadable(away, nova_rights.OF_CELL)


def test_whether_the_record_can_be_written(url, database):
    nova_service_records.OWN.create_all(database)
    assert nova_rights.unwritable(database) is None
    assert 'readonly' in nova_rights.unwritable(engine.reader(url))
    with database.begin() as connection:
        assert connection.execute(sa.text('SELECT count(*) FROM services')).scalar() == 0


def test_whether_new_hosts_can_be_mapped(url, database):
    nova.emptied(database, nova.OF_API)
    nova.emptied(database, nova.OF_CELL)
    assert nova_rights.unmappable(database, [database]) is None
    assert 'readonly' in nova_rights.unmappable(engine.reader(url), [])
    assert 'readonly' in nova_rights.unmappable(database, [engine.reader(url)])
