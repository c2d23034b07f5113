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
"""The decision log: why a request was refused, or which host was selected."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0003'
down_revision = '0002'

TEXT = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')
OPTIONS = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade():
    op.create_table(
        'trails',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('request_id', sa.String(255), nullable=False),
        sa.Column('time_s', sa.Double(), nullable=False),
        sa.Column('trail', TEXT, nullable=False),
        **OPTIONS,
    )
    for column in ('request_id', 'time_s'):
        op.create_index(f'ix_trails_{column}', 'trails', [column])
