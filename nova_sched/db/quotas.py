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
"""The limits and the usage of projects, inside a transaction that stores or ends jobs.

All transactions lock rows in one order: jobs by UUID, holds by instance, usage by project. So no
deadlock can occur. All requests of a project need its row, so only the last two statements hold
its lock.
"""

import collections
import contextlib
import json

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db.tables import QUOTA_HOLDS, QUOTA_LIMITS, QUOTA_USAGE
from nova_sched.db.transactions import (
    THERE,
    DeleteRows,
    InsertRows,
    SelectRows,
    UpdateRows,
)

NO_LIMIT = -1

LOCK_HOLDS = SelectRows(QUOTA_HOLDS, 'instance_uuid', 'project_id', 'amounts', lock=True)
PUT_HOLDS, WRITE_HOLDS = InsertRows(QUOTA_HOLDS), UpdateRows(QUOTA_HOLDS, 'amounts')
DROP_HOLDS = DeleteRows(QUOTA_HOLDS)
LOCK_USAGE = SelectRows(QUOTA_USAGE, 'project_id', 'used', lock=True)
PUT_USAGE, WRITE_USAGE = InsertRows(QUOTA_USAGE), UpdateRows(QUOTA_USAGE, 'used')
# Written, not only locked: on Galera, locks are local to one server.
RAISE_PLANS = (
    sa.update(QUOTA_USAGE)
    .where(QUOTA_USAGE.c.project_id.in_(sa.bindparam('projects', expanding=True)))
    .values(plans=QUOTA_USAGE.c.plans + 1)
)

PROJECT = sa.bindparam('project')
READ_USAGE = sa.select(QUOTA_USAGE.c.used).where(QUOTA_USAGE.c.project_id == PROJECT)
USERS = sa.select(QUOTA_USAGE.c.project_id).where(QUOTA_USAGE.c.used != '{}')
READ_LIMITS = sa.select(QUOTA_LIMITS.c.resource, QUOTA_LIMITS.c.most).where(
    QUOTA_LIMITS.c.project_id == PROJECT
)
LIMITED = sa.select(QUOTA_LIMITS.c.project_id).distinct()
_THIS_LIMIT = QUOTA_LIMITS.c.project_id == PROJECT, QUOTA_LIMITS.c.resource == sa.bindparam('of')
SET_LIMIT = sa.update(QUOTA_LIMITS).where(*_THIS_LIMIT).values(most=sa.bindparam('now'))
DROP_LIMIT = sa.delete(QUOTA_LIMITS).where(*_THIS_LIMIT)
PUT_LIMIT = sa.insert(QUOTA_LIMITS)


class NoRows(Exception):
    """The usage of ``projects`` has no rows yet: they must exist before transactions can wait for
    them."""

    def __init__(self, projects):
        super().__init__(projects)
        self.projects = projects


def make_rows(sessions, projects):
    """Make a row for the usage of each project, in separate transactions that are not rolled
    back.

    On Galera, a row that another server makes at the same time appears as StoreBusy.
    """
    for project in projects:
        row = {'project_id': project, 'used': '{}', 'plans': 0}
        with contextlib.suppress(*THERE, errors.StoreBusy), sessions.brief() as connection:
            PUT_USAGE.run(connection, [row])


def hold_plans(connection, projects):
    """Wait for other transactions that add to the plans of these projects; later ones wait for
    this one's end. Raises NoRows: then the transaction must be rolled back."""
    if missing := set(projects) - {project for project, _ in LOCK_USAGE.run(connection, projects)}:
        raise NoRows(sorted(missing))
    connection.execute(RAISE_PLANS, {'projects': sorted(projects)})


def own_limits(connection, project_id):
    """The limits that were set for a project, by resource; -1 is unlimited."""
    return dict(connection.execute(READ_LIMITS, {'project': project_id}).all())


def take(connection, holds, limits):
    """Make holds, or raise existing ones, by resource, to the greater amount.

    ``limits`` are the limits of each project, by resource. Raises QuotaExceeded, InvalidRequest
    for an instance of another project, and NoRows: then the transaction must be rolled back.
    """
    wanted = _by_instance(holds)
    held = {instance: facts for instance, *facts in LOCK_HOLDS.run(connection, wanted)}
    new, changed, more = [], [], collections.defaultdict(collections.Counter)
    for instance, (project, amounts) in sorted(wanted.items()):
        holder, before = held.get(instance, (project, '{}'))
        if holder != project:
            raise errors.InvalidRequest(f'hold of instance {instance}', f'project {holder} has it')
        before = json.loads(before)
        after = _greater(before, amounts)
        row = {'instance_uuid': instance, 'project_id': project, 'amounts': text(after)}
        (changed if instance in held else new).append(row)
        more[project].update({name: after[name] - before.get(name, 0) for name in after})
    # An UPDATE to the same amounts writes nothing, and on Galera only a written row makes this
    # transaction conflict with the end of the hold on another server.
    DROP_HOLDS.run(connection, [row['instance_uuid'] for row in changed])
    PUT_HOLDS.run(connection, [*new, *changed])
    _charge(connection, {project: +amounts for project, amounts in more.items()}, limits)


def _by_instance(holds):
    """Instance to its project and amounts."""
    wanted = {}
    for hold in holds:
        _, before = wanted.get(hold.instance_uuid, (None, {}))
        wanted[hold.instance_uuid] = hold.project_id, _greater(before, hold.amounts)
    return wanted


def _greater(amounts, other):
    return {name: max(amounts.get(name, 0), other.get(name, 0)) for name in {**amounts, **other}}


def _charge(connection, more, limits):
    """Add amounts to the usage of projects, up to their limits."""
    more = {project: amounts for project, amounts in more.items() if amounts}
    used = {
        project: json.loads(usage_text) for project, usage_text in LOCK_USAGE.run(connection, more)
    }
    if missing := more.keys() - used.keys():
        raise NoRows(sorted(missing))
    for project, amounts in more.items():
        for name, amount in sorted(amounts.items()):
            limit, usage = limits[project].get(name, NO_LIMIT), used[project].get(name, 0)
            if 0 <= limit < usage + amount:
                raise errors.QuotaExceeded(project, name, amount, usage, limit)
    rows = [
        {'project_id': project, 'used': text(plus(used[project], amounts))}
        for project, amounts in sorted(more.items())
    ]
    WRITE_USAGE.run(connection, rows)


def give_back(connection, hold, used, amounts):
    """Set the amounts of a locked hold; without amounts, it ends.

    ``used`` is the usage of its project, locked too.
    """
    if amounts:
        kept = {'instance_uuid': hold.instance_uuid, 'amounts': text(amounts)}
        WRITE_HOLDS.run(connection, [kept])
    else:
        DROP_HOLDS.run(connection, [hold.instance_uuid])
    change = {
        name: amounts.get(name, 0) - hold.amounts.get(name, 0)
        for name in {**amounts, **hold.amounts}
    }
    WRITE_USAGE.run(
        connection, [{'project_id': hold.project_id, 'used': text(plus(used, change))}]
    )


def plus(amounts, other):
    """Return amounts added by resource, without those that are zero."""
    return {name: amounts.get(name, 0) + other.get(name, 0) for name in {**amounts, **other}}


def text(amounts):
    return json.dumps({name: amount for name, amount in amounts.items() if amount}, sort_keys=True)
