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
"""What the list of ended sessions is on every database: tests that each database runs.

A module of tests brings the fixture ``database``: an engine on the newest schema, with empty
tables.
"""

import sqlalchemy as sa

from nova_sched.db.ended_sessions import SqlEndedSessions
from nova_sched.db.tables import ENDED_SESSIONS
from nova_sched.db.transactions import transaction
from nova_sched.tests.builders import uuid_of

ONE, OTHER = uuid_of('one'), uuid_of('other')


class EndedSessions:
    def test_what_has_ended(self, database):
        ended = SqlEndedSessions(database)
        ended.add(ONE, 60.0)
        ended.add(ONE, 60.0)
        another_process = SqlEndedSessions(database)
        assert (another_process.has(ONE), another_process.has(OTHER)) == (True, False)

    def test_old_rows_go(self, database):
        ended = SqlEndedSessions(database)
        ended.add(ONE, -60.0)
        ended.add(OTHER, 60.0)
        with transaction(database) as connection:
            assert connection.execute(sa.select(ENDED_SESSIONS.c.uuid)).scalars().all() == [OTHER]
