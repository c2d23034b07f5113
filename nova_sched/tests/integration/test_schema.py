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
"""The schema on database servers: migrations, how a server is set up, and what
nova-sched-manage says of it."""

import json

import pytest
import sqlalchemy as sa

from nova_sched.db import engine, schema, transactions
from nova_sched.db.tables import METADATA
from nova_sched.tests.fixtures import warm
from nova_sched.tests.unit.db.test_schema import TestMigrations

__all__ = ['TestMigrations']


@pytest.fixture(params=['postgresql', 'mariadb'])
def url(request):
    """A new, empty database on each server in turn."""
    return request.getfixturevalue(request.param).fresh()


@pytest.fixture
def database(url):
    made = engine.create(url)
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


# nova-sched-manage.


@pytest.fixture
def manage(tmp_path):
    """``manage(url, 'host list')`` runs the program in a process of its own."""
    file = tmp_path / 'nova_sched.conf'

    def run(connection, words):
        file.write_text(
            f'[DEFAULT]\ntransport_url = fake://\n[database]\nconnection = {connection}\n'
        )
        given = ['--config-file', file, *words.split(), '--format', 'json']
        return warm.run('nova_sched.cmd.manage:main', given)

    return run


def test_the_schema_is_made_once_and_used(manage, url):
    upgrades = [json.loads(manage(url, 'db upgrade').stdout) for _ in range(2)]
    assert [one['before'] for one in upgrades] == [None, schema.HEAD]
    version = json.loads(manage(url, 'db version').stdout)
    assert (version['version'], version['needed']) == (schema.HEAD, schema.HEAD)
    assert json.loads(manage(url, 'host list').stdout) == []
    assert json.loads(manage(url, 'claim list').stdout) == []
    audit = json.loads(manage(url, 'claim audit --fix').stdout)
    assert (audit['ok'], audit['findings']) == (True, [])
    assert json.loads(manage(url, 'config check').stdout)['ok']


def test_an_empty_database_is_told_from_a_missing_one(manage, url):
    refused = manage(url, 'host list')
    assert refused.returncode == 1
    assert 'the schema is empty' in refused.stderr
    check = json.loads(manage(url, 'config check').stdout)
    assert [one['advice'] for one in check['findings'] if one['severity'] == 'error'] == [
        'run nova-sched-manage db upgrade'
    ]


@pytest.mark.parametrize(
    'before, after, word',
    [
        pytest.param('nova_sched@', 'stranger:secret@', 'stranger', id='unknown user'),
        pytest.param('/test', '/none_test', 'none_test', id='unknown database'),
    ],
)
def test_a_refusal_is_one_sentence_without_the_password(manage, url, before, after, word):
    refused = manage(url.replace(before, after), 'db upgrade')
    assert refused.returncode == 1
    assert word in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert 'secret' not in refused.stderr
