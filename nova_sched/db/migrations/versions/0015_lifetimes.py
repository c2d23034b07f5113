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
"""How long servers last, and what the claim of each tells about that."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0015'
down_revision = '0014'


def upgrade():
    text = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')
    op.add_column('claims', sa.Column('life', text))
    op.create_table(
        'lifetimes',
        sa.Column('scheduler', sa.String(36), primary_key=True),
        sa.Column('serial', sa.BigInteger, nullable=False),
        sa.Column('written_s', sa.Double(), nullable=False),
        sa.Column('counts', text, nullable=False),
        mysql_engine='InnoDB',
        mysql_charset='utf8mb4',
        mysql_collate='utf8mb4_bin',
    )
