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
"""Groups in the database: the records of groups, the members of server groups, and what a
placement of a group needs of both."""

import dataclasses
from typing import NamedTuple

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claims import GroupRecord, sql_domains
from nova_sched.claims import statements as sql
from nova_sched.claims.exclusive_domains import dropped
from nova_sched.claims.judge import ServerGroupMembers
from nova_sched.db import bulk
from nova_sched.db.tables import CLAIMS, SERVER_GROUPS, TOP_GROUPS

# A definition is long, so it is read only on request.
SHORT = tuple(
    field.name for field in dataclasses.fields(GroupRecord) if field.name != 'definition'
)
CHANGING = tuple(name for name in SHORT if name != 'uuid')

LOCK_RECORDS = bulk.Select(TOP_GROUPS, *SHORT, lock=True)
NEW_RECORDS = bulk.Insert(TOP_GROUPS)
CHANGE_RECORDS = bulk.Update(TOP_GROUPS, *CHANGING)
CHANGE_DEFINITIONS = bulk.Update(TOP_GROUPS, 'definition')
ALL_BUT_DEFINITIONS = sa.select(*(TOP_GROUPS.c[name] for name in SHORT))
IN_ORDER = TOP_GROUPS.c.created_s, TOP_GROUPS.c.uuid


class Steps:
    """The steps of a commit that only placements take which concern groups.

    What a placement is validated by is locked when this is made, before the nodes: the records of
    groups (``records``), and the ``members`` of server groups. ``claims`` are those of the
    placements' consumers. ``domains`` (sql_domains.DomainReader) has the nodes to lock next.
    """

    def __init__(self, connection, locator, placements, claims):
        self._before = lock_records(connection, {one.record_uuid for one in placements} - {None})
        # A quota counts what a new definition adds to the stored one.
        for guard in (one.guard for one in placements if one.guard and one.guard.limits):
            if guard.record.definition is not None and self._before.get(guard.record.uuid):
                self._before[guard.record.uuid] = read_record(connection, guard.record.uuid)
        self.records = dict(self._before)
        self.members = _lock_members(connection, placements)
        ending = dropped(placements, claims)
        self.domains = sql_domains.DomainReader(connection, locator, placements, ending)

    def write(self, connection, held):
        """Write the records as they are now, and mark the server groups that have new members."""
        entered = {claim.group_uuid for claim in held.added.values()} & self.members.keys()
        for chunk in sql.chunks(sorted(entered)):
            connection.execute(sql.RAISE_GROUPS, {'given': chunk})
        write_records(connection, self._before, self.records)


def _lock_members(connection, placements):
    """Group UUID -> the members of each server group with a policy.

    No other transaction can add members before this one ends.
    """
    policies = {policy.group_uuid: policy for one in placements if one.guard
                for policy in one.guard.policies}  # fmt: skip
    if not policies:
        return {}
    there = {row.uuid for row in sql.rows(connection, sql.LOCK_GROUPS, policies)}
    new = [policies[uuid] for uuid in sorted(policies.keys() - there)]
    if new:
        connection.execute(sql.NEW_GROUP, [sql.group_row(policy) for policy in new])
    members: dict[str, list] = {uuid: [] for uuid in policies}
    for group, *member in sql.rows(connection, sql.MEMBERS_OF, policies):
        members[group].append(member)
    return {uuid: ServerGroupMembers(policy, members[uuid]) for uuid, policy in policies.items()}


# Records.


def lock_records(connection, uuids):
    """UUID -> the record without its definition, or None.

    The records are locked until the transaction ends.
    """
    found = {row[0]: _short(row) for row in LOCK_RECORDS.run(connection, uuids)} if uuids else {}
    return {uuid: found.get(uuid) for uuid in uuids}


def _short(row):
    record = GroupRecord(**dict(zip(SHORT, row, strict=True)))
    return dataclasses.replace(record, deleted=bool(record.deleted))


def write_records(connection, before, after):
    """Write the changes; a definition of None keeps the stored one."""
    changed = [record for uuid, record in sorted(after.items()) if record is not before[uuid]]
    old = [dataclasses.asdict(record) for record in changed if before[record.uuid] is not None]
    new = [dataclasses.asdict(record) for record in changed if before[record.uuid] is None]
    NEW_RECORDS.run(connection, new)
    CHANGE_RECORDS.run(connection, old)
    CHANGE_DEFINITIONS.run(connection, [row for row in old if row['definition'] is not None])


def read_record(connection, uuid, whole=True):
    """The record of a group, or None; without its definition unless ``whole``."""
    query = sa.select(TOP_GROUPS) if whole else ALL_BUT_DEFINITIONS
    row = connection.execute(query.where(TOP_GROUPS.c.uuid == uuid)).mappings().first()
    return row and GroupRecord(**row)


def read_records(connection, project_id=None, name=None, marker=None, limit=None, deleted=False):
    """As GroupRecords.top_groups."""
    query = ALL_BUT_DEFINITIONS.order_by(*IN_ORDER).limit(limit)
    if project_id is not None:
        query = query.where(TOP_GROUPS.c.project_id == project_id)
    if name is not None:
        query = query.where(TOP_GROUPS.c.name == name)
    if not deleted:
        query = query.where(~TOP_GROUPS.c.deleted)
    if marker is not None:
        last = read_record(connection, marker, whole=False)
        if last is None or project_id not in (None, last.project_id):
            raise errors.GroupNotFound(marker)
        created, uuid = IN_ORDER
        later = sa.and_(created == last.created_s, uuid > last.uuid)
        query = query.where(sa.or_(created > last.created_s, later))
    return [GroupRecord(**row) for row in connection.execute(query).mappings()]


# Groups without claims. Any scheduler may remove them; none has to.


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
    """Delete the rows of groups without claims: server groups, and groups that are deleted.

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
