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
"""Tests of the database engine: how SQLite is set up, and databases that cannot be used."""

import gc
import sys
import time

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import engine, transactions
from nova_sched.tests.rows import each_afresh


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'some.sqlite'


@pytest.fixture(
    params=[
        pytest.param(engine.create, id='of a daemon'),
        pytest.param(engine.for_command, id='of a command'),
    ]
)
def database(request, path):
    made = request.param(f'sqlite:///{path}')
    with transactions.transaction(made) as connection:
        connection.execute(sa.text('CREATE TABLE t (n INTEGER PRIMARY KEY)'))
    yield made
    made.dispose()


@each_afresh(
    'pragma, value',
    {
        'a log that readers read beside the writer': ('journal_mode', 'wal'),
        'on the disk at each commit': ('synchronous', 2),
        'foreign keys are checked': ('foreign_keys', 1),
        'waits for a lock, in ms': ('busy_timeout', 30000),
    },
)
def test_sqlite_is_set_up(database, pragma, value):
    with transactions.transaction(database) as connection:
        assert connection.execute(sa.text(f'PRAGMA {pragma}')).scalar() == value


def test_a_connection_that_is_forgotten_gives_no_other_thread_a_turn(database, monkeypatch):
    """Python may find it in the midst of a transaction; others would wait for that, and it for
    them."""
    turns = []
    monkeypatch.setattr(time, 'sleep', turns.append)
    forgotten = database.connect()
    with transactions.transaction(database):
        del forgotten
        gc.collect()
    assert turns == []


def test_a_link_that_is_cut_while_the_first_connection_is_made(path, monkeypatch):
    """What SQLAlchemy asks first of a server finds the connection closed."""

    def ask(_dialect, connection):
        connection.invalidate()
        connection.close()
        connection.exec_driver_sql('SELECT 1')

    monkeypatch.setattr('sqlalchemy.dialects.sqlite.base.SQLiteDialect.initialize', ask)
    with pytest.raises(errors.StoreUnavailable, match='Connection is closed'):
        engine.create(f'sqlite:///{path}')


@each_afresh(
    'url, error, words',
    {
        'no URL': ('no url at all', errors.BadConfig, 'URL'),
        'unknown dialect': ('nothing://host/name', errors.BadConfig, 'nothing'),
        'unknown driver': ('sqlite+nothing:///x', errors.BadConfig, 'nothing'),
        'no such folder': ('sqlite:////no/such/folder/x.sqlite', errors.BadConfig, 'no directory'),
        'PostgreSQL away': (
            'postgresql+psycopg2://a@127.0.0.1:1/b',
            errors.StoreUnavailable,
            'refused',
        ),
        'MySQL away': ('mysql+pymysql://a@127.0.0.1:1/b', errors.StoreUnavailable, 'connect'),
    },
)
def test_a_database_that_cannot_be_used(tmp_path, monkeypatch, url, error, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        engine.create(url)
    assert list(tmp_path.iterdir()) == []


@each_afresh(
    'url, driver, extra',
    {
        'PostgreSQL': ('postgresql+psycopg2://host/name', 'psycopg2', 'postgresql'),
        'MariaDB': ('mysql+pymysql://host/name', 'pymysql', 'mysql'),
    },
)
def test_a_missing_driver_names_the_extra_that_installs_it(monkeypatch, url, driver, extra):
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(errors.BadConfig, match=rf'pip install nova-sched\[{extra}\]'):
        engine.create(url)
