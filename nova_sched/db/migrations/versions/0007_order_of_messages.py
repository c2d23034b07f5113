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
"""The order of messages: when a claim last changed, when a node was made, and which of its reports
was applied last."""

import sqlalchemy as sa
from alembic import op

revision = '0007'
down_revision = '0006'


def upgrade():
    op.add_column(
        'claims', sa.Column('changed_s', sa.Double(), nullable=False, server_default='0')
    )
    op.add_column('nodes', sa.Column('made_s', sa.Double(), nullable=False, server_default='0'))
    op.add_column('nodes', sa.Column('boot', sa.BigInteger))
    op.add_column('nodes', sa.Column('sequence', sa.BigInteger))
    op.add_column('nodes', sa.Column('told_s', sa.Double()))
    op.add_column(
        'host_instances', sa.Column('told_s', sa.Double(), nullable=False, server_default='0')
    )
