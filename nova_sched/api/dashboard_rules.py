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

"""Access rules of the dashboard, in addition to those of the REST API: what it shows of hosts and
decisions is in no operation of the API."""

from oslo_policy import policy

EVERYWHERE = ['system', 'project']
READER = 'rule:project_reader_or_admin'


def _rule(name, default, description, *operations):
    """``operations`` are pairs of a method and a path below /dashboard."""
    return policy.DocumentedRuleDefault(
        name=f'nova_sched:dashboard:{name}',
        check_str=default,
        scope_types=EVERYWHERE,
        description=description,
        operations=[
            {'method': method, 'path': f'/dashboard{path}'} for method, path in operations
        ],
    )


RULES = [
    _rule(
        'hosts',
        'rule:operator',
        'See all hosts with their claims.',
        ('GET', '/cluster'),
        ('GET', '/cluster/board'),
        ('GET', '/cluster/changes'),
        ('GET', '/cluster/host'),
    ),
    _rule(
        'hosts:set_service',
        'rule:admin',
        'Disable and enable hosts.',
        ('POST', '/cluster/host/service'),
    ),
    _rule(
        'decisions',
        READER,
        "See the refused requests of the caller's project.",
        ('GET', '/decisions'),
        ('GET', '/decisions/{request_id}'),
    ),
    _rule(
        'decisions:all_projects',
        'rule:operator',
        'See the decisions about requests of all projects, with hosts and amounts.',
        ('GET', '/decisions'),
        ('GET', '/decisions/{request_id}'),
    ),
    _rule(
        'ask',
        'rule:operator',
        'Ask where a server would go, and why it does not go to a host.',
        ('GET', '/what-if'),
        ('POST', '/what-if'),
        ('POST', '/decisions/{request_id}/why-not'),
    ),
    _rule('jobs', READER, "See the jobs of the caller's project.", ('GET', '/queues')),
    _rule(
        'jobs:all_projects', 'rule:operator', 'See the jobs of all projects.', ('GET', '/queues')
    ),
    _rule('schedulers', 'rule:operator', 'See the scheduler processes.', ('GET', '/schedulers')),
    _rule(
        'audit',
        'rule:operator',
        'Compare claims and recorded usage. It repairs nothing.',
        ('POST', '/schedulers/audit'),
    ),
]
