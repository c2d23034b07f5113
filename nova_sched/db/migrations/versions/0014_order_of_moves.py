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
"""The next move is found without a look at all that wait."""

from alembic import op

revision = '0014'
down_revision = '0013'


def upgrade():
    op.drop_index('ix_moves_state', 'moves')
    op.create_index('ix_moves_state', 'moves', ['state', 'since_s', 'uuid'])
