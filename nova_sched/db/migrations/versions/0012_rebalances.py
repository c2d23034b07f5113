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
"""Rebalances: moves of servers between hosts, and hosts that take no new servers meanwhile."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0012'
down_revision = '0011'

MYSQL = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}
UUID, NAME = sa.String(36), sa.String(255)


def upgrade():
    text = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')
    op.create_table(
        'rebalances',
        sa.Column('uuid', UUID, primary_key=True),
        sa.Column('goal', NAME),
        sa.Column('periodic', sa.Boolean(create_constraint=False), nullable=False),
        sa.Column('created_s', sa.Double(), nullable=False),
        sa.Column('stopped_s', sa.Double()),
        **MYSQL,
    )
    op.create_table(
        'moves',
        sa.Column('uuid', UUID, primary_key=True),
        sa.Column('rebalance_uuid', UUID, nullable=False),
        sa.Column('server', UUID, nullable=False),
        sa.Column('source', UUID, nullable=False),
        sa.Column('destination', UUID, nullable=False),
        sa.Column('since_s', sa.Double(), nullable=False),
        sa.Column('state', sa.String(16), nullable=False),
        sa.Column('serial', sa.BigInteger, nullable=False),
        sa.Column('claim_uuid', UUID),
        sa.Column('started_s', sa.Double()),
        sa.Column('changed_s', sa.Double(), nullable=False),
        sa.Column('due_s', sa.Double()),
        sa.Column('why', text),
        **MYSQL,
    )
    op.create_index('ix_moves_rebalance_uuid', 'moves', ['rebalance_uuid'])
    op.create_index('ix_moves_state', 'moves', ['state'])
    op.create_table(
        'closed_hosts',
        sa.Column('host', NAME, primary_key=True),
        sa.Column('rebalance_uuid', UUID, nullable=False),
        sa.Column('until_s', sa.Double(), nullable=False),
        sa.Column('closed', sa.Boolean(create_constraint=False), nullable=False),
        **MYSQL,
    )
    # Held by each transaction that starts moves, so that no two exceed the limit together.
    op.bulk_insert(
        sa.table('revisions', sa.column('name'), sa.column('value')),
        [{'name': 'moves', 'value': 0}],
    )
