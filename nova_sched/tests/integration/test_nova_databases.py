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
"""What is read of Nova's databases, on database servers."""

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import engine, nova_rights
from nova_sched.tests.unit.db import nova_tables as nova
from nova_sched.tests.unit.db.test_nova_databases import (
    TestHostDiscovery,
    TestNovaApi,
    TestNovaCell,
    TestServiceRecords,
)

__all__ = ['TestHostDiscovery', 'TestNovaApi', 'TestNovaCell', 'TestServiceRecords']


@pytest.fixture(scope='module')
def written(url):
    made = engine.create(url)
    yield made
    made.dispose()


@pytest.fixture
def database(written):
    return written


class TestRights:
    """An account that may only SELECT, and not on all tables."""

    @pytest.fixture
    def limited(self, database, url):
        nova.emptied(database, nova.OF_CELL)
        named = sa.engine.make_url(url)
        is_postgresql = database.dialect.name == 'postgresql'
        made, user = (
            ("CREATE USER watcher PASSWORD 'secret'", 'watcher')
            if is_postgresql
            else ("CREATE USER watcher@'%' IDENTIFIED BY 'secret'", "watcher@'%'")
        )
        granted = [
            f'GRANT SELECT ON {table.name} TO {user}'
            for table in nova_rights.OF_CELL
            if table.name != 'instances'
        ]
        with database.begin() as connection:
            for statement in (made, *granted):
                connection.execute(sa.text(statement))
        yield named.set(username='watcher', password='secret').render_as_string(False)
        with database.begin() as connection:
            if is_postgresql:
                connection.execute(sa.text(f'DROP OWNED BY {user}'))
            connection.execute(sa.text(f'DROP USER {user}'))

    def test_a_table_that_may_not_be_read(self, limited):
        reader = engine.reader(limited)
        found = nova_rights.unreadable(reader, nova_rights.OF_CELL)
        reader.dispose()
        assert list(found) == ['instances']
        assert 'denied' in found['instances']

    def test_a_record_that_may_not_be_written(self, limited, database):
        nova.OF_CELL.tables['services'].drop(database)
        nova.OF_RECORDS.create_all(database)
        assert nova_rights.unwritable(database) is None
        with database.begin() as connection:
            user = 'watcher' if database.dialect.name == 'postgresql' else "watcher@'%'"
            connection.execute(sa.text(f'GRANT SELECT ON services TO {user}'))
        account = engine.create(limited)
        why = nova_rights.unwritable(account)
        account.dispose()
        nova.OF_RECORDS.drop_all(database)
        assert 'denied' in why

    def test_an_account_that_is_refused(self, limited):
        wrong = sa.engine.make_url(limited).set(username='nobody-there')
        with pytest.raises((errors.BadConfig, errors.StoreUnavailable)):
            nova_rights.unreadable(engine.reader(wrong.render_as_string(False)), [])
