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
"""What is wrong with the placement groups in a database: read by plain SQL, judged by the tests'
own checker."""

import json

from nova_sched.groups.definition import EXCLUSIVE, Definition
from nova_sched.tests import checker
from nova_sched.tests.integration import audit


def faults(database, levels=('rack',), partly=()):
    """Half plans, broken policies, outsiders where none may be, and plans of no group.

    ``partly``: UUIDs of groups that need not be complete, because they were being built or
    deleted.
    """
    groups, claims, nodes, reports = audit.rows(
        database, 'top_groups', 'claims', 'nodes', 'reports'
    )
    cluster = _cluster(nodes, reports, levels)
    names = {row['uuid']: row['host'] for row in nodes}
    known = {row['uuid'] for row in groups}
    found = [f'{row["member"]} is planned for {row["top_group"]}, which is no group'
             for row in claims if row['top_group'] and row['top_group'] not in known]  # fmt: skip
    for group in groups:
        own = [row for row in claims if row['top_group'] == group['uuid']]
        wrong = _faults(group, own, claims, names, cluster, group['uuid'] in partly)
        found += [f'group {group["uuid"]}: {fault}' for fault in wrong]
    return found


def _faults(group, own, claims, names, cluster, partly):
    definition = Definition.from_plain(json.loads(group['definition'])['definition'])
    planned = [row for row in own if row['state'] == 'planned']
    if group['deleted']:
        return [f'{row["member"]} is planned, but the group is deleted' for row in planned]
    twice = len({row['member'] for row in planned}) != len(planned)
    found = ['a member is planned twice'] if twice else []
    # Who moves is on two hosts: where it is bound for counts.
    places = {row['member']: names[row['node_uuid']]
              for row in sorted(own, key=lambda row: row['state'] == 'planned')}  # fmt: skip
    missing = definition.members.keys() - places.keys()
    if missing and not partly:
        found.append(f'{sorted(missing)} of {len(definition.members)} members are nowhere')
    here = {path: host for path, host in places.items() if path in definition.members}
    for policy in definition.policies:
        if policy.is_required and not missing and checker.breaches(policy, here, cluster):
            found.append(f'{policy.name} is broken: {here}')
        if policy.kind == EXCLUSIVE and policy.is_required:
            found += _outsiders(policy, here, group, claims, names, cluster)
    return found


def _outsiders(policy, here, group, claims, names, cluster):
    """Claims of others in domains that the members of an exclusive policy have for themselves."""
    where = cluster.domains[policy.level]
    own = {where[here[path]] for path in policy.a if path in here}
    inside = [
        row
        for row in claims
        if where[names[row['node_uuid']]] in own
        and (row['top_group'] != group['uuid'] or row['member'] not in policy.a)
    ]
    return [
        f'{policy.name}: {row["consumer_uuid"]} is inside, on {names[row["node_uuid"]]}'
        for row in inside
    ]


def _cluster(nodes, reports, levels):
    told = {row['node_uuid']: json.loads(row['report']) for row in reports}
    domains = {
        level: {row['host']: told[row['uuid']]['stats'].get(level, row['host']) for row in nodes}
        for level in levels
    }
    return checker.Cluster(
        free={}, domains={'host': {row['host']: row['host'] for row in nodes}, **domains}
    )
