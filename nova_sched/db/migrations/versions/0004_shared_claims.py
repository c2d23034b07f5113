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
"""Claims that move or resize, server groups, candidates, and the schedulers that share this
database."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0004'
down_revision = '0003'

TEXT = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')
OPTIONS = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade():
    pieces_at = sa.Column('pieces_at', sa.BigInteger, nullable=False, server_default='0')
    op.add_column('nodes', pieces_at)
    op.add_column('claims', sa.Column('unseen', sa.Boolean(create_constraint=False)))
    op.add_column('claims', sa.Column('move', sa.String(16)))
    op.add_column('claims', sa.Column('resizing', TEXT))
    op.create_table(
        'server_groups',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('policy', sa.String(32), nullable=False),
        sa.Column('most', sa.Integer, nullable=False),
        sa.Column('generation', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.create_table(
        'candidates',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('request_uuid', sa.String(36), nullable=False),
        sa.Column('instance_uuid', sa.String(36), nullable=False),
        sa.Column('node_uuid', sa.String(36), nullable=False),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('nodename', sa.String(255), nullable=False),
        sa.Column('place', sa.Integer, nullable=False),
        **OPTIONS,
    )
    op.create_index('ix_candidates_request_uuid', 'candidates', ['request_uuid'])
    op.create_table(
        'candidate_requests',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('expires_s', sa.Double(), nullable=False),
        sa.Column('spec', TEXT, nullable=False),
        **OPTIONS,
    )
    op.create_index('ix_candidate_requests_expires_s', 'candidate_requests', ['expires_s'])
    op.create_table(
        'schedulers',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('pid', sa.Integer, nullable=False),
        sa.Column('started_s', sa.Double(), nullable=False),
        sa.Column('seen_s', sa.Double(), nullable=False),
        sa.Column('figures', TEXT, nullable=False),
        **OPTIONS,
    )
