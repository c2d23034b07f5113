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
"""Forgets server groups that have no members any more; any scheduler may do it, and none must."""

import sqlalchemy as sa

from nova_sched.claims import statements as sql
from nova_sched.db import bulk
from nova_sched.db.tables import CLAIMS, SERVER_GROUPS

EMPTY = (
    sa.select(SERVER_GROUPS.c.uuid)
    .where(~sa.exists().where(CLAIMS.c.group_uuid == SERVER_GROUPS.c.uuid))
    .order_by(SERVER_GROUPS.c.uuid)
    .limit(sql.CHUNK)
)
IN_USE = sa.select(CLAIMS.c.group_uuid).where(CLAIMS.c.group_uuid.in_(sql.GIVEN)).distinct()
FORGET = bulk.Delete(SERVER_GROUPS)


def forget_groups(sessions):
    """Drop the rows of groups in which nobody has a claim; returns how many.

    A scheduler that places the first member again finds no row then, and makes one. ``sessions`` are those of
    nova_sched.db. Raises what a transaction of theirs raises.
    """
    forgotten, more = 0, True
    while more:
        with sessions.transaction(reads=True) as connection:
            found = connection.scalars(EMPTY).all()
        more = len(found) == sql.CHUNK
        if found:
            forgotten += _forget(sessions, found)
    return forgotten


def _forget(sessions, uuids):
    with sessions.transaction() as connection:
        # Who holds a row may be about to place a member, so look again behind the lock.
        there = {row.uuid for row in sql.rows(connection, sql.LOCK_GROUPS, uuids)}
        empty = there.difference(row.group_uuid for row in sql.rows(connection, IN_USE, there))
        FORGET.run(connection, sorted(empty))
    return len(empty)
