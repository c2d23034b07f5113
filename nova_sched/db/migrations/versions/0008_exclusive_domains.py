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
"""Exclusive domains by name, and the nodes' own reports of their domains."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0008'
down_revision = '0007'

TEXT = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')
OPTIONS = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade():
    op.add_column('nodes', sa.Column('told', TEXT))
    op.create_table(
        'exclusive_domains',
        sa.Column('token', sa.String(36), primary_key=True),
        sa.Column('level', sa.String(255), nullable=False),
        sa.Column('name', TEXT, nullable=False),
        sa.Column('top_group', sa.String(36), nullable=False),
        **OPTIONS,
    )
    revisions = sa.table('revisions', sa.column('name'), sa.column('value'))
    op.bulk_insert(revisions, [{'name': 'domains', 'value': 0}])
