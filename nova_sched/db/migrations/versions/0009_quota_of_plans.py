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
"""The quota of plans: the number of members of a group, and what orders changes of plans."""

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'

# The members of an older group that have claims; its next update counts all of them.
COUNT = """
UPDATE top_groups SET members = (
    SELECT COUNT(DISTINCT consumer_uuid) FROM claims WHERE claims.top_group = top_groups.uuid)
"""


def upgrade():
    op.add_column(
        'top_groups', sa.Column('members', sa.Integer, nullable=False, server_default='0')
    )
    op.create_index('ix_top_groups_project_id', 'top_groups', ['project_id'])
    op.add_column(
        'quota_usage', sa.Column('plans', sa.BigInteger, nullable=False, server_default='0')
    )
    op.execute(COUNT)
