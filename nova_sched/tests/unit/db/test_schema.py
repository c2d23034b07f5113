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
"""The migrations, on SQLite.

``integration/test_schema.py`` runs the class on database servers: ``database`` is an engine on an
empty database.
"""

from pathlib import Path

import alembic.autogenerate
import alembic.command
import alembic.migration
import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import CONFIRMED, Claim
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine, schema
from nova_sched.db.tables import METADATA, REVISIONS
from nova_sched.db.transactions import transaction
from nova_sched.tests.builders import report, uuid_of


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/empty.sqlite')
    yield made
    made.dispose()


def differences(engine, metadata=METADATA):
    """What alembic finds different between a database and the tables that the code names."""
    with engine.connect() as connection:
        options = {'compare_type': True, 'compare_server_default': True}
        context = alembic.migration.MigrationContext.configure(connection, opts=options)
        return alembic.autogenerate.compare_metadata(context, metadata)


def _insert(connection, table, row):
    names, values = ', '.join(row), ', '.join(f':{name}' for name in row)
    connection.execute(sa.text(f'INSERT INTO {table} ({names}) VALUES ({values})'), row)


class TestMigrations:
    def test_an_empty_database_has_no_version(self, database):
        assert schema.version(database) is None

    def test_an_upgrade_makes_what_the_code_names(self, database):
        schema.upgrade(database)
        assert differences(database) == []
        assert schema.version(database) == schema.HEAD

    def test_a_second_upgrade_changes_nothing(self, database):
        schema.upgrade(database)
        with database.begin() as connection:
            connection.execute(sa.update(REVISIONS).values(value=7))
        schema.upgrade(database)
        assert differences(database) == []
        with database.connect() as connection:
            assert set(connection.scalars(sa.select(REVISIONS.c.value))) == {7}
            assert set(connection.scalars(sa.select(REVISIONS.c.name))) == {
                'nodes',
                'services',
                'aggregates',
                'host_instances',
                'flavors',
                'domains',
                'moves',
            }

    def test_a_claim_of_the_first_schema(self, database):
        """It holds amounts alone, and stays as it was."""
        with transaction(database) as connection:
            alembic.command.upgrade(schema.config(connection), '0001')
            row = {name: uuid_of(name) for name in ('uuid', 'consumer_uuid', 'node_uuid')}
            row |= {'state': 'confirmed', 'resources': '{"VCPU": 2}', 'created_s': 1.5}
            _insert(connection, 'claims', row)
        schema.upgrade(database)
        (found,) = SqlClaimStore(database).claims()
        made = {'uuid': uuid_of('uuid'), 'created_s': 1.5, 'parts': None, 'counted': False}
        keys = uuid_of('consumer_uuid'), uuid_of('node_uuid')
        assert found == Claim(*keys, {'VCPU': 2}, CONFIRMED, **made)

    def test_the_unclaimed_usage_of_an_older_node(self, database):
        """Its sum alone is known."""
        some = {'full': '{"MEMORY_MB": 512, "VCPU": 4}', 'empty': '{}'}
        with transaction(database) as connection:
            alembic.command.upgrade(schema.config(connection), '0017')
            for name, amounts in some.items():
                row = {'uuid': uuid_of(name), 'host': name, 'nodename': name, 'generation': 1}
                row |= {'seen_s': 1.0, 'inventories': '{}', 'used': amounts}
                row |= {'foreign_use': amounts, 'foreign_instances': 2}
                _insert(connection, 'nodes', row)
                text = report(name, node_uuid=uuid_of(name)).to_json()
                _insert(connection, 'reports', {'node_uuid': uuid_of(name), 'report': text})
        schema.upgrade(database)
        nodes = SqlClaimStore(database).read_nodes([uuid_of('full'), uuid_of('empty')]).nodes
        found = {one.report.host: (one.unclaimed, one.foreign_instances) for one in nodes}
        amounts = {'MEMORY_MB': 512, 'VCPU': 4}
        assert found == {'full': ({'': amounts}, 2), 'empty': ({}, 2)}

    def test_the_members_of_an_older_group(self, database):
        """Those that have claims are counted, each once."""
        with transaction(database) as connection:
            alembic.command.upgrade(schema.config(connection), '0008')
            group = {'uuid': uuid_of('group'), 'project_id': 'p', 'generation': 1, 'serial': 1}
            times = {'deleted': False, 'created_s': 1.0, 'updated_s': 1.0}
            _insert(connection, 'top_groups', group | times)
            for member, node in (('a', 'x'), ('a', 'y'), ('b', 'x')):
                row = {'uuid': uuid_of(f'{member} on {node}'), 'consumer_uuid': uuid_of(member)}
                row |= {'node_uuid': uuid_of(node), 'top_group': uuid_of('group')}
                row |= {'state': 'confirmed', 'resources': '{"VCPU": 2}', 'created_s': 1.5}
                _insert(connection, 'claims', row)
        schema.upgrade(database)
        assert SqlClaimStore(database).plan_usage('p') == {'group_members': 2}

    def test_a_difference_is_found(self, database):
        schema.upgrade(database)
        other = sa.MetaData(naming_convention=METADATA.naming_convention)
        for table in METADATA.sorted_tables:
            table.to_metadata(other)
        claims = other.tables['claims']
        claims.append_column(sa.Column('new', sa.Integer))
        claims.c.state.type = sa.String(99)
        claims.c.project_id.nullable = False
        sa.Index('new_index', claims.c.state)
        kinds = {
            one[0] if isinstance(one, tuple) else one[0][0] for one in differences(database, other)
        }
        assert kinds == {'add_column', 'modify_type', 'modify_nullable', 'add_index'}


def test_the_head_is_the_last_of_the_versions():
    versions = sorted(Path(schema.MIGRATIONS, 'versions').glob('[0-9]*.py'))
    assert versions[-1].name.partition('_')[0] == schema.HEAD


@pytest.mark.parametrize('call', [schema.version, schema.upgrade])
def test_a_database_that_is_away(database, tmp_path, call):
    (tmp_path / 'empty.sqlite').unlink()
    (tmp_path / 'empty.sqlite').mkdir()
    database.dispose()
    with pytest.raises(errors.StoreUnavailable):
        call(database)
