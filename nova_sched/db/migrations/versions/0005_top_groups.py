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
"""Placement groups: their records, the claims of their members, and the tokens of their exclusive
domains on nodes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0005'
down_revision = '0004'

TEXT = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')
OPTIONS = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade():
    op.add_column('nodes', sa.Column('fences', TEXT))
    op.add_column('claims', sa.Column('top_group', sa.String(36)))
    op.add_column('claims', sa.Column('member', TEXT))
    op.add_column('claims', sa.Column('fences', TEXT))
    is_member = sa.text('top_group IS NOT NULL')
    op.create_index(
        'ix_claims_top_group',
        'claims',
        ['top_group'],
        postgresql_where=is_member,
        sqlite_where=is_member,
    )
    op.create_table(
        'top_groups',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255)),
        sa.Column('user_id', sa.String(255)),
        sa.Column('name', sa.String(255)),
        sa.Column('generation', sa.BigInteger, nullable=False),
        sa.Column('serial', sa.BigInteger, nullable=False),
        sa.Column('definition', TEXT),
        sa.Column('created_s', sa.Double(), nullable=False),
        sa.Column('updated_s', sa.Double(), nullable=False),
        sa.Column('expires_s', sa.Double()),
        sa.Column('deleted', sa.Boolean(create_constraint=False), nullable=False),
        **OPTIONS,
    )
    op.create_index('ix_top_groups_created_s', 'top_groups', ['created_s'])
