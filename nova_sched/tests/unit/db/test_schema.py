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
"""Tests of the migrations, on SQLite."""

from pathlib import Path

import pytest

from nova_sched import errors
from nova_sched.db import engine, schema
from nova_sched.tests.unit.db import migrations


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/empty.sqlite')
    yield made
    made.dispose()


class TestMigrations(migrations.Migrations):
    pass


def test_the_head_is_the_last_of_the_versions():
    versions = sorted(Path(schema.MIGRATIONS, 'versions').glob('[0-9]*.py'))
    assert versions[-1].name.partition('_')[0] == schema.HEAD


@pytest.mark.parametrize('look', [schema.version, schema.upgrade])
def test_a_database_that_is_away(database, tmp_path, look):
    (tmp_path / 'empty.sqlite').unlink()
    (tmp_path / 'empty.sqlite').mkdir()
    database.dispose()
    with pytest.raises(errors.StoreUnavailable):
        look(database)
