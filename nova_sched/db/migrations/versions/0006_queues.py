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
"""The queue model: flavors, jobs, and quotas."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0006'
down_revision = '0005'

TEXT = sa.Text().with_variant(mysql.LONGTEXT(), 'mysql', 'mariadb')
OPTIONS = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade():
    op.create_table(
        'flavors',
        sa.Column('name', sa.String(255), primary_key=True),
        sa.Column('flavorid', sa.String(255), nullable=False),
        sa.Column('vcpus', sa.BigInteger, nullable=False),
        sa.Column('memory_mb', sa.BigInteger, nullable=False),
        sa.Column('root_gb', sa.BigInteger, nullable=False),
        sa.Column('ephemeral_gb', sa.BigInteger, nullable=False),
        sa.Column('swap', sa.BigInteger, nullable=False),
        sa.Column('extra_specs', TEXT, nullable=False),
        sa.Column('created_s', sa.Double(), nullable=False),
        sa.UniqueConstraint('flavorid', name='uq_flavors_flavorid'),
        **OPTIONS,
    )
    revisions = sa.table('revisions', sa.column('name'), sa.column('value'))
    op.bulk_insert(revisions, [{'name': 'flavors', 'value': 0}])
    op.create_table(
        'jobs',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('kind', sa.String(16), nullable=False),
        sa.Column('instance_uuid', sa.String(36), nullable=False),
        sa.Column('project_id', sa.String(255)),
        sa.Column('user_id', sa.String(255)),
        sa.Column('request_id', sa.String(255)),
        sa.Column('queue', sa.String(255)),
        sa.Column('host', sa.String(255)),
        sa.Column('state', sa.String(16), nullable=False),
        sa.Column('tries', sa.Integer, nullable=False),
        sa.Column('why', sa.Text),
        sa.Column('message', TEXT, nullable=False),
        sa.Column('created_s', sa.Double(), nullable=False),
        sa.Column('updated_s', sa.Double(), nullable=False),
        **OPTIONS,
    )
    op.create_index('ix_jobs_instance_uuid', 'jobs', ['instance_uuid'])
    op.create_index('ix_jobs_created_s', 'jobs', ['created_s'])
    op.create_index('ix_jobs_state', 'jobs', ['state', 'updated_s'])
    _create_quotas()


def _create_quotas():
    op.create_table(
        'quota_limits',
        sa.Column('project_id', sa.String(255), primary_key=True),
        sa.Column('resource', sa.String(255), primary_key=True),
        sa.Column('most', sa.BigInteger, nullable=False),
        **OPTIONS,
    )
    op.create_table(
        'quota_usage',
        sa.Column('project_id', sa.String(255), primary_key=True),
        sa.Column('used', TEXT, nullable=False),
        **OPTIONS,
    )
    op.create_table(
        'quota_holds',
        sa.Column('instance_uuid', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('amounts', TEXT, nullable=False),
        **OPTIONS,
    )
