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
"""Sessions of the dashboard that callers have ended, for all processes that serve it."""

import contextlib

import sqlalchemy as sa

from nova_sched.db import clock
from nova_sched.db.tables import ENDED_SESSIONS
from nova_sched.db.transactions import THERE, transaction

THIS = ENDED_SESSIONS.c.uuid == sa.bindparam('this')


class SqlEndedSessions:
    """Their rows. Each method raises StoreUnavailable if the database does not answer."""

    def __init__(self, engine):
        self._engine = engine

    def add(self, uuid, for_s):
        """Store that a session has ended, for so many seconds."""
        # A caller may log out twice at the same time.
        with contextlib.suppress(*THERE), transaction(self._engine) as connection:
            now_s = clock.read(connection)
            old = sa.delete(ENDED_SESSIONS).where(ENDED_SESSIONS.c.until_s < now_s)
            connection.execute(old)
            connection.execute(sa.insert(ENDED_SESSIONS), {'uuid': uuid, 'until_s': now_s + for_s})

    def has(self, uuid):
        """Whether a session has ended."""
        with transaction(self._engine) as connection:
            return bool(connection.execute(sa.select(1).where(THIS), {'this': uuid}).all())
