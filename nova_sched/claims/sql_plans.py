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
"""The usage of plans in SQL. A transaction that adds to plans with limits holds the row of their
project from before it reads the usage to its end, so two of them cannot both take the rest."""

import json

import sqlalchemy as sa

from nova_sched.claim import PLANNED
from nova_sched.claims import plan_quota
from nova_sched.db import quotas
from nova_sched.db.tables import CLAIMS, EXCLUSIVE_DOMAINS, TOP_GROUPS
from nova_sched.hardware.machine import HardwareAllocation

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


def read(connection, project_id):
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


def hold(connection, placements):
    """Project -> the usage of its plans, for the placements that have limits. Raises
    quotas.NoRows."""
    projects = {
        one.guard.record.project_id for one in placements if one.guard and one.guard.limits
    }
    if not projects:
        return {}
    quotas.hold_plans(connection, projects)
    return {project: read(connection, project) for project in sorted(projects)}
