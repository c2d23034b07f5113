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
"""When schedulers have looked for overdue claims, in the database: time in which none has does not
count."""

import math
from typing import NamedTuple

import sqlalchemy as sa

from nova_sched.db.tables import REVISIONS

# Rows of REVISIONS, in milliseconds: the last look, and the last time without any.
LAST, BEGIN, END = 'watched', 'unwatched-from', 'unwatched-to'
LOCK = sa.select(REVISIONS.c.name, REVISIONS.c.value).where(
    REVISIONS.c.name.in_([LAST, BEGIN, END])
)
LOCK = LOCK.order_by(REVISIONS.c.name).with_for_update()


class Unwatched(NamedTuple):
    """The last time in which no scheduler looked, in seconds by the store's clock."""

    begin_s: float
    end_s: float

    @property
    def is_set_back(self):
        """Whether the clock was set back in it."""
        return self.end_s < self.begin_s


class Watch:
    """The stored looks, locked until this transaction ends. Read the clock after that."""

    def __init__(self, connection):
        self._connection = connection
        self._stored = dict(connection.execute(LOCK).all())

    def look(self, now_s, most_s):
        """Store that a scheduler looks now. Returns the last Unwatched, or None.

        Time counts as watched if the last look was at most ``most_s`` ago. The clocks of several
        database servers differ, so it may also be up to ``most_s`` ahead; it then stays the last.
        """
        last, now = self._stored.get(LAST), int(now_s * 1000)
        if last is not None and abs(now - last) > most_s * 1000:
            self._put(BEGIN, last)
            self._put(END, math.ceil(now_s * 1000))
            self._put(LAST, now)
        else:
            self._put(LAST, now if last is None else max(now, last))
        if END not in self._stored:
            return None
        return Unwatched(self._stored[BEGIN] / 1000, self._stored[END] / 1000)

    def _put(self, name, value):
        change: sa.Insert | sa.Update = sa.insert(REVISIONS).values(name=name, value=value)
        if name in self._stored:
            change = sa.update(REVISIONS).where(REVISIONS.c.name == name).values(value=value)
        self._connection.execute(change)
        self._stored[name] = value
