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
"""The order of reports by generations of nodes instead of times.

What there is was made at generation 0: each report is newer than that.
"""

import sqlalchemy as sa
from alembic import op

revision = '0018'
down_revision = '0017'


def upgrade():
    for table, name in (('nodes', 'made_at'), ('nodes', 'reported_at'), ('claims', 'changed_at')):
        op.add_column(table, sa.Column(name, sa.BigInteger, nullable=False, server_default='0'))
    for table, name in (
        ('nodes', 'made_s'),
        ('nodes', 'told_s'),
        ('claims', 'unseen'),
        ('host_instances', 'told_s'),
    ):
        op.drop_column(table, name)
