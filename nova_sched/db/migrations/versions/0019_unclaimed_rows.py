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
"""The unclaimed usage of nodes by consumer."""

import sqlalchemy as sa
from alembic import op

revision = '0019'
down_revision = '0018'

NODES = sa.table('nodes', sa.column('unclaimed', sa.Text()))


def upgrade():
    op.execute('ALTER TABLE nodes RENAME COLUMN foreign_use TO unclaimed')
    # It was the sum, which is not known by consumer.
    text = NODES.c.unclaimed
    nameless = sa.literal('{"": ') + text + sa.literal('}')
    op.execute(sa.update(NODES).where(text != '{}').values(unclaimed=nameless))
