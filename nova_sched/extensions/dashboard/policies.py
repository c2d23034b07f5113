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
"""Rights of the dashboard: what it shows of hosts and decisions is in no operation of the API."""

from nova_sched.api import policies


def rules(rule):
    """Return the policies of the pages, made with api.policies.rule."""
    return [
        rule(
            'dashboard:hosts',
            'rule:operator',
            'See all hosts with their claims.',
            ('GET', '/dashboard/cluster'),
            ('GET', '/dashboard/cluster/board'),
            ('GET', '/dashboard/cluster/changes'),
            ('GET', '/dashboard/cluster/host'),
        ),
        rule(
            'dashboard:hosts:set_service',
            'rule:admin',
            'Disable and enable hosts.',
            ('POST', '/dashboard/cluster/host/service'),
        ),
        rule(
            'dashboard:decisions',
            policies.READER,
            "See the refused requests of the caller's project.",
            ('GET', '/dashboard/decisions'),
            ('GET', '/dashboard/decisions/{request_id}'),
        ),
        rule(
            'dashboard:decisions:all_projects',
            'rule:operator',
            'See the decisions about requests of all projects, with hosts and amounts.',
            ('GET', '/dashboard/decisions'),
            ('GET', '/dashboard/decisions/{request_id}'),
        ),
        rule(
            'dashboard:ask',
            'rule:operator',
            'Ask where a server would go, and why it does not go to a host.',
            ('GET', '/dashboard/what-if'),
            ('POST', '/dashboard/what-if'),
            ('POST', '/dashboard/decisions/{request_id}/why-not'),
        ),
        rule(
            'dashboard:jobs',
            policies.READER,
            "See the jobs of the caller's project.",
            ('GET', '/dashboard/queues'),
        ),
        rule(
            'dashboard:jobs:all_projects',
            'rule:operator',
            'See the jobs of all projects.',
            ('GET', '/dashboard/queues'),
        ),
        rule(
            'dashboard:schedulers',
            'rule:operator',
            'See the scheduler processes.',
            ('GET', '/dashboard/schedulers'),
        ),
        rule(
            'dashboard:audit',
            'rule:operator',
            'Compare claims and recorded usage. It repairs nothing.',
            ('POST', '/dashboard/schedulers/audit'),
        ),
    ]
