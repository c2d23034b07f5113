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
"""Groups in the database: the records of groups, the members of server groups, the usage of plans,
and what the guards of placements need of them."""

import dataclasses
import json
from typing import NamedTuple

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import PLANNED
from nova_sched.claims import GroupRecord, plan_quota, sql_domains
from nova_sched.claims import statements as sql
from nova_sched.claims.exclusive_domains import dropped
from nova_sched.claims.guards import Guards, ServerGroupMembers
from nova_sched.db import quotas
from nova_sched.db.tables import CLAIMS, EXCLUSIVE_DOMAINS, SERVER_GROUPS, TOP_GROUPS
from nova_sched.db.transactions import DeleteRows, InsertRows, SelectRows, UpdateRows
from nova_sched.hardware.machine import HardwareAllocation

# A definition is long, so it is read only on request.
SHORT = tuple(
    field.name for field in dataclasses.fields(GroupRecord) if field.name != 'definition'
)
CHANGING = tuple(name for name in SHORT if name != 'uuid')

LOCK_RECORDS = SelectRows(TOP_GROUPS, *SHORT, lock=True)
NEW_RECORDS = InsertRows(TOP_GROUPS)
CHANGE_RECORDS = UpdateRows(TOP_GROUPS, *CHANGING)
CHANGE_DEFINITIONS = UpdateRows(TOP_GROUPS, 'definition')
ALL_BUT_DEFINITIONS = sa.select(*(TOP_GROUPS.c[name] for name in SHORT))
IN_ORDER = TOP_GROUPS.c.created_s, TOP_GROUPS.c.uuid


class Steps:
    """The steps of a commit that only a batch with guards takes.

    What guards are validated by is locked when this is made, before the nodes: the records of
    groups, and the members of server groups. ``claims`` are those of the placements' consumers.
    ``nodes`` are to be locked next. ``placements`` have all nodes of the domains that they close.
    """

    def __init__(self, connection, locator, placements, claims):
        self._records = lock_records(
            connection, {placement.record_uuid for placement in placements} - {None}
        )
        # A quota counts what a new definition adds to the stored one.
        for guard in (
            placement.guard
            for placement in placements
            if placement.guard and placement.guard.limits
        ):
            if guard.record.definition is not None and self._records.get(guard.record.uuid):
                self._records[guard.record.uuid] = read_record(connection, guard.record.uuid)
        self._members = _lock_members(connection, placements)
        ending = dropped(placements, claims)
        self._domains = sql_domains.DomainReader(connection, locator, placements, ending)
        self.nodes, self.placements = self._domains.nodes, self._domains.placements

    def guards(self, connection, usages):
        """Return the Guards, with the locked nodes. Raises NodesChanged, and quotas.NoRows."""
        exclusive_domains = self._domains.exclusive_domains(connection, usages)
        plans = hold_plans(connection, self.placements)
        return Guards(self._members, dict(self._records), exclusive_domains, plans)

    def write(self, connection, usages, consumer_claims, guards):
        """Write the exclusive domains and the records as they are now, and mark the server groups
        that have new members."""
        sql_domains.write(connection, usages, guards.exclusive_domains)
        entered = {
            claim.group_uuid for claim in consumer_claims.added.values()
        } & guards.members.keys()
        for chunk in sql.chunks(sorted(entered)):
            connection.execute(sql.RAISE_GROUPS, {'given': chunk})
        before = self._records
        changed = [
            record for uuid, record in sorted(guards.records.items()) if record is not before[uuid]
        ]
        old = [dataclasses.asdict(record) for record in changed if before[record.uuid] is not None]
        new = [dataclasses.asdict(record) for record in changed if before[record.uuid] is None]
        NEW_RECORDS.run(connection, new)
        CHANGE_RECORDS.run(connection, old)
        # A definition of None keeps the stored one.
        CHANGE_DEFINITIONS.run(connection, [row for row in old if row['definition'] is not None])


def _lock_members(connection, placements):
    """Group UUID -> the members of each server group with a policy.

    No other transaction can add members before this one ends.
    """
    policies = {policy.group_uuid: policy for placement in placements if placement.guard
                for policy in placement.guard.policies}  # fmt: skip
    if not policies:
        return {}
    existing = {row.uuid for row in sql.rows(connection, sql.LOCK_GROUPS, policies)}
    new = [policies[uuid] for uuid in sorted(policies.keys() - existing)]
    if new:
        rows = [
            {
                'uuid': policy.group_uuid,
                'policy': policy.kind,
                'most': policy.most,
                'generation': 0,
            }
            for policy in new
        ]
        connection.execute(sql.NEW_GROUP, rows)
    left = frozenset().union(*(policy.left for policy in policies.values()))
    rows = sql.rows(connection, sql.MEMBERS_OF, policies)
    elsewhere = {(group, consumer) for group, consumer, *_, claim in rows if claim not in left}
    members: dict[str, list] = {uuid: [] for uuid in policies}
    for group, *member, claim in rows:
        if claim not in left or (group, member[0]) not in elsewhere:
            members[group].append(member)
    return {uuid: ServerGroupMembers(policy, members[uuid]) for uuid, policy in policies.items()}


# Records.


def lock_records(connection, uuids):
    """UUID -> the record without its definition, or None.

    The records are locked until the transaction ends.
    """
    records: dict[str, GroupRecord | None] = dict.fromkeys(uuids)
    for row in LOCK_RECORDS.run(connection, uuids) if uuids else ():
        record = GroupRecord(**dict(zip(SHORT, row, strict=True)))
        records[record.uuid] = dataclasses.replace(record, deleted=bool(record.deleted))
    return records


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


# The usage of plans. A transaction that adds to plans with limits holds the row of their project
# from before it reads the usage to its end, so two of them cannot both take the rest.

OF_PROJECT = TOP_GROUPS.c.project_id == sa.bindparam('project')
# Most planned claims of a project are equal: one row for each kind of those without hardware.
KIND = (
    CLAIMS.c.resources,
    CLAIMS.c.parts,
    sa.case((CLAIMS.c.parts.is_not(None), CLAIMS.c.node_uuid)),
)
PLANNED_CLAIMS = (
    sa.select(*KIND, sa.func.count())
    .join(TOP_GROUPS, TOP_GROUPS.c.uuid == CLAIMS.c.top_group)
    .where(OF_PROJECT, CLAIMS.c.state == PLANNED)
    .group_by(*KIND)
)
# Definitions are ASCII, as JSON writes it: characters are bytes.
DEFINITIONS = sa.select(
    sa.func.sum(sa.case((TOP_GROUPS.c.deleted, 0), else_=TOP_GROUPS.c.members)),
    sa.func.sum(sa.func.length(TOP_GROUPS.c.definition)),
).where(OF_PROJECT)
DOMAINS = (
    sa.select(sa.func.count())
    .select_from(EXCLUSIVE_DOMAINS)
    .join(TOP_GROUPS, TOP_GROUPS.c.uuid == EXCLUSIVE_DOMAINS.c.top_group)
    .where(OF_PROJECT)
)


def plan_usage(connection, project_id):
    """The usage of the plans of a project, by resource."""
    given = {'project': project_id}
    used = plan_quota.amounts({}, 0)
    for resources, parts, node, number in connection.execute(PLANNED_CLAIMS, given):
        held = parts and HardwareAllocation.from_json(parts)
        whole = plan_quota.resources_of(json.loads(resources), held, node)
        used.update(plan_quota.amounts(whole, number))
    members, size = connection.execute(DEFINITIONS, given).one()
    used[plan_quota.MEMBERS], used[plan_quota.BYTES] = int(members or 0), int(size or 0)
    used[plan_quota.DOMAINS] = connection.scalar(DOMAINS, given)
    return +used


def hold_plans(connection, placements):
    """Project -> the usage of its plans, for the placements that have limits. Raises
    quotas.NoRows."""
    projects = {
        placement.guard.record.project_id
        for placement in placements
        if placement.guard and placement.guard.limits
    }
    if not projects:
        return {}
    quotas.hold_plans(connection, projects)
    return {project: plan_usage(connection, project) for project in sorted(projects)}


# Groups without claims. Any scheduler may remove them; none has to.


class GroupStatements(NamedTuple):
    """A kind of groups: the statements that find groups without members, lock groups, find groups
    with members, and delete groups."""

    empty: sa.Select
    lock: SelectRows
    in_use: sa.Select
    end: DeleteRows


def _kind(table, column, *condition):
    empty = sa.select(table.c.uuid).where(~sa.exists().where(column == table.c.uuid), *condition)
    return GroupStatements(
        empty.order_by(table.c.uuid).limit(sql.CHUNK),
        SelectRows(table, 'uuid', lock=True),
        sa.select(column).where(column.in_(sql.GIVEN)).distinct(),
        DeleteRows(table),
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
            uuids = connection.scalars(kind.empty).all()
        more = len(uuids) == sql.CHUNK
        if not uuids:
            continue
        with sessions.transaction() as connection:
            # A transaction that locks a row may be about to place a member, so read again after
            # the lock.
            locked = {uuid for (uuid,) in kind.lock.run(connection, uuids)}
            used = {row[0] for row in sql.rows(connection, kind.in_use, locked)}
            kind.end.run(connection, sorted(locked - used))
        forgotten += len(locked - used)
    return forgotten
