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
"""Neutron: a cloud without networks."""

from nova_sched.tests.stock_cloud.stubs.answers import Answer, Request, versions
from nova_sched.tests.stock_cloud.stubs.keystone import identifier

LISTS = frozenset(
    'ports networks subnets floatingips extensions routers segments agents quotas'.split()
)


class Neutron:
    def __init__(self, url: str):
        self._url = url

    def answer(self, request: Request) -> Answer | None:
        match request.method, *request.path:
            case 'GET', *path if not path:
                return versions(f'{self._url}/v2.0/', id='v2.0')
            case 'GET', 'v2.0':
                return Answer(200, {'resources': []})
            case 'GET', 'v2.0', 'security-groups':
                return Answer(200, {'security_groups': [_default_group()]})
            case 'GET', 'v2.0', name if name in LISTS:
                return Answer(200, {name: []})
        return None


def _default_group() -> dict[str, object]:
    project = identifier('project', 'demo')
    return {
        'id': identifier('security group', 'default'),
        'name': 'default',
        'description': '',
        'project_id': project,
        'tenant_id': project,
        'security_group_rules': [],
    }
