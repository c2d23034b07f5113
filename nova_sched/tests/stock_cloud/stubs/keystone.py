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
"""Keystone: every user may log in with the one password, and has every role."""

import uuid

from nova_sched.tests.stock_cloud.stubs.answers import REGION, Answer, Request, stamp

PASSWORD = 'secret'
SERVICE_USERS = frozenset(['nova', 'scheduler', 'placement'])
NAMES = uuid.UUID('6b0d2a1e-0c3c-4f0e-9f55-2f5b1f2f7a10')


def identifier(kind: str, name: str) -> str:
    """The id of what has this name: ``identifier('user', 'scheduler')``."""
    return uuid.uuid5(NAMES, f'{kind}:{name}').hex


class Keystone:
    """``catalog`` maps a service's type to its URL; the stub's own is ``url``."""

    def __init__(self, url: str, catalog: dict[str, str]):
        self._url = url
        self._catalog = [_service(kind, address) for kind, address in catalog.items()]

    def answer(self, request: Request) -> Answer | None:
        match request.method, *request.path:
            case 'GET', *path if not path:
                return Answer(300, {'versions': {'values': [self._version()]}})
            case 'GET', 'v3':
                return Answer(200, {'version': self._version()})
            case 'POST', 'v3', 'auth', 'tokens':
                return self._login(request.body['auth'])
            case 'GET' | 'HEAD', 'v3', 'auth', 'tokens':
                return self._validate(request.headers.get('X-Subject-Token', ''))
            case 'GET', 'v3', 'projects', name:
                project = {'id': name, 'name': name, 'enabled': True, 'domain_id': 'default'}
                return Answer(200, {'project': project})
        return None

    def _version(self) -> dict[str, object]:
        links = [{'rel': 'self', 'href': f'{self._url}/v3/'}]
        media = {
            'base': 'application/json',
            'type': 'application/vnd.openstack.identity-v3+json',
        }
        return {
            'id': 'v3.14',
            'status': 'stable',
            'updated': stamp(),
            'links': links,
            'media-types': [media],
        }

    def _login(self, auth: dict) -> Answer:
        identity = auth['identity']
        if 'password' in identity:
            user = identity['password']['user']
            if user['password'] != PASSWORD:
                return Answer(401, {'error': {'code': 401, 'message': 'wrong password'}})
            name = user['name']
        else:
            name = identity['token']['id'].split('.')[1]
        scope = auth.get('scope')
        project = scope['project']['name'] if isinstance(scope, dict) else 'service'
        token = f'token.{name}.{project}.{uuid.uuid4().hex}'
        return Answer(201, self._token(name, project), {'X-Subject-Token': token})

    def _validate(self, token: str) -> Answer:
        match token.split('.'):
            case 'token', user, project, _:
                return Answer(200, self._token(user, project), {'X-Subject-Token': token})
        return Answer(404, {'error': {'code': 404, 'message': 'no such token'}})

    def _token(self, user: str, project: str) -> dict[str, object]:
        roles = ['reader', 'member', 'manager', 'admin']
        roles += ['service'] if user in SERVICE_USERS else []
        domain = {'id': 'default', 'name': 'Default'}
        return {
            'token': {
                'methods': ['password'],
                'issued_at': stamp(-5),
                'expires_at': stamp(86400),
                'audit_ids': [identifier('audit', user)[:22]],
                'user': {
                    'id': identifier('user', user),
                    'name': user,
                    'domain': domain,
                    'password_expires_at': None,
                },
                'project': {
                    'id': identifier('project', project),
                    'name': project,
                    'domain': domain,
                },
                'is_domain': False,
                'roles': [{'id': identifier('role', role), 'name': role} for role in roles],
                'catalog': self._catalog,
            }
        }


def _service(kind: str, url: str) -> dict[str, object]:
    endpoints = [
        {
            'id': identifier('endpoint', f'{kind} {interface}'),
            'interface': interface,
            'region': REGION,
            'region_id': REGION,
            'url': url,
        }
        for interface in ('public', 'internal', 'admin')
    ]
    return {
        'type': kind,
        'name': kind,
        'id': identifier('service', kind),
        'endpoints': endpoints,
    }
