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
"""Tests of the migrations on database servers, and of how such a server is set up."""

import pytest
import sqlalchemy as sa

from nova_sched.db import engine, schema, transactions
from nova_sched.db.tables import METADATA
from nova_sched.tests.unit.db.test_schema import TestMigrations

__all__ = ['TestMigrations']


@pytest.fixture(params=['postgresql', 'mariadb'])
def database(request):
    made = engine.create(request.getfixturevalue(request.param).fresh())
    yield made
    made.dispose()


def test_names_that_differ_in_case_differ(mariadb):
    """Every table compares its words as they are, as the code says and as the migrations made
    it."""
    made = engine.create(mariadb.fresh())
    schema.upgrade(made)
    query = (
        'SELECT table_name, table_collation FROM information_schema.tables WHERE '
        'table_schema = database()'
    )
    with transactions.transaction(made) as connection:
        found = {row[0]: row[1] for row in connection.execute(sa.text(query))}
    made.dispose()
    named = {
        table.name: table.dialect_options['mysql']['collate'] for table in METADATA.sorted_tables
    }
    assert set(named.values()) == {'utf8mb4_bin'}
    assert named.items() <= found.items()


def test_a_statement_sees_what_is_committed_by_then(database):
    query = {'postgresql': 'SHOW transaction_isolation', 'mysql': 'SELECT @@tx_isolation'}[
        database.dialect.name
    ]
    with transactions.transaction(database) as connection:
        found = connection.execute(sa.text(query)).scalar()
    assert found.lower().replace('-', ' ') == 'read committed'
