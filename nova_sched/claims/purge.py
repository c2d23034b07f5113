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
"""Removes groups without claims. Any scheduler may do it; none has to."""

from typing import NamedTuple

import sqlalchemy as sa

from nova_sched.claims import statements as sql
from nova_sched.db import bulk
from nova_sched.db.tables import CLAIMS, SERVER_GROUPS, TOP_GROUPS


class GroupStatements(NamedTuple):
    """A kind of groups: the statements that find groups without members, lock groups, find groups
    with members, and delete groups."""

    empty: sa.Select
    lock: bulk.Select
    in_use: sa.Select
    end: bulk.Delete


def _kind(table, column, *condition):
    empty = sa.select(table.c.uuid).where(~sa.exists().where(column == table.c.uuid), *condition)
    return GroupStatements(
        empty.order_by(table.c.uuid).limit(sql.CHUNK),
        bulk.Select(table, 'uuid', lock=True),
        sa.select(column).where(column.in_(sql.GIVEN)).distinct(),
        bulk.Delete(table),
    )


SERVER = _kind(SERVER_GROUPS, CLAIMS.c.group_uuid)
TOP = _kind(TOP_GROUPS, CLAIMS.c.top_group, TOP_GROUPS.c.deleted)


def forget_groups(sessions):
    """Delete the rows of groups without claims: server groups, and top groups that are deleted.

    Returns the number of groups. A scheduler that places the first member of a server group again
    finds no row, and makes one. ``sessions`` are those of nova_sched.db. Raises the errors of
    their transactions.
    """
    return _forget(sessions, SERVER) + _forget(sessions, TOP)


def _forget(sessions, kind):
    forgotten, more = 0, True
    while more:
        with sessions.transaction(reads=True) as connection:
            found = connection.scalars(kind.empty).all()
        more = len(found) == sql.CHUNK
        if found:
            forgotten += _forget_some(sessions, kind, found)
    return forgotten


def _forget_some(sessions, kind, uuids):
    with sessions.transaction() as connection:
        # A transaction that locks a row may be about to place a member, so read again after the
        # lock.
        there = {uuid for (uuid,) in kind.lock.run(connection, uuids)}
        used = {row[0] for row in sql.rows(connection, kind.in_use, there)}
        kind.end.run(connection, sorted(there - used))
    return len(there - used)
