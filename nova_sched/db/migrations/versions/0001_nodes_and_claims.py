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
"""Nodes, reports, claims, services, aggregates, instance lists."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0001'
down_revision = None

TEXT = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')
OPTIONS = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade():
    op.create_table(
        'nodes',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('nodename', sa.String(255), nullable=False),
        sa.Column('generation', sa.BigInteger, nullable=False),
        sa.Column('seen_s', sa.Double(), nullable=False),
        sa.Column('inventories', TEXT, nullable=False),
        sa.Column('used', TEXT, nullable=False),
        sa.Column('foreign_use', TEXT, nullable=False),
        sa.Column('foreign_instances', sa.Integer, nullable=False),
        sa.UniqueConstraint('host', 'nodename', name='uq_nodes_host'),
        **OPTIONS,
    )
    op.create_table(
        'reports',
        sa.Column('node_uuid', sa.String(36), primary_key=True),
        sa.Column('report', TEXT, nullable=False),
        **OPTIONS,
    )
    op.create_table(
        'claims',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('consumer_uuid', sa.String(36), nullable=False),
        sa.Column('node_uuid', sa.String(36), nullable=False),
        sa.Column('state', sa.String(16), nullable=False),
        sa.Column('unconfirmed', sa.String(36)),
        sa.Column('resources', TEXT, nullable=False),
        sa.Column('project_id', sa.String(255)),
        sa.Column('user_id', sa.String(255)),
        sa.Column('group_uuid', sa.String(36)),
        sa.Column('request_id', sa.String(255)),
        sa.Column('created_s', sa.Double(), nullable=False),
        sa.Column('expires_s', sa.Double()),
        sa.UniqueConstraint('consumer_uuid', 'node_uuid', name='uq_claims_consumer_uuid'),
        sa.UniqueConstraint('unconfirmed', name='uq_claims_unconfirmed'),
        **OPTIONS,
    )
    for column in ('node_uuid', 'group_uuid', 'expires_s'):
        op.create_index(f'ix_claims_{column}', 'claims', [column])
    op.create_table(
        'services',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('disabled', sa.Boolean(create_constraint=False), nullable=False),
        sa.Column('disabled_reason', sa.Text),
        sa.Column('forced_down', sa.Boolean(create_constraint=False), nullable=False),
        sa.Column('seen_s', sa.Double(), nullable=False),
        **OPTIONS,
    )
    op.create_table(
        'aggregates',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('uuid', sa.String(36)),
        sa.Column('name', sa.String(255), nullable=False),
        sa.Column('hosts', TEXT, nullable=False),
        sa.Column('details', TEXT, nullable=False),
        **OPTIONS,
    )
    op.create_table(
        'host_instances',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('instances', TEXT, nullable=False),
        **OPTIONS,
    )
    revisions = op.create_table(
        'revisions',
        sa.Column('name', sa.String(32), primary_key=True),
        sa.Column('value', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    names = ('nodes', 'services', 'aggregates', 'host_instances')
    op.bulk_insert(revisions, [{'name': name, 'value': 0} for name in names])
