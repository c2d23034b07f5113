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
"""Keystone, Glance, Neutron and Cinder as one HTTP server in a thread of this process."""

import contextlib
import datetime
import http.server
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nova_sched.tests.fixtures.process import LOOPBACK

REGION = 'RegionOne'


@dataclass(frozen=True)
class Request:
    """``path`` has the words below the service's own; ``body`` is what the JSON says."""

    method: str
    path: tuple[str, ...]
    headers: dict[str, str]
    body: object


@dataclass(frozen=True)
class Answer:
    """``body`` is sent as JSON; None sends no body."""

    status: int
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)


def stamp(later_s: float = 0) -> str:
    """The time in so many seconds, as the APIs write it."""
    time = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=later_s)
    return time.strftime('%Y-%m-%dT%H:%M:%S.000000Z')


def versions(url: str, **words: str) -> Answer:
    """The document at the root of a service: one version, with its address."""
    version = {'status': 'CURRENT', 'links': [{'rel': 'self', 'href': url}], **words}
    return Answer(300, {'versions': [version]})


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


# Two that any server may be built and rebuilt from.
FIRST, SECOND = (
    '11111111-1111-4111-8111-111111111111',
    '22222222-2222-4222-8222-222222222222',
)
FIELDS = (
    'id name status visibility container_format disk_format size virtual_size checksum min_disk '
    'min_ram protected owner created_at updated_at tags os_hidden self file schema locations '
    'direct_url'
).split()


class Glance:
    """``images`` are the images by id, as the API shows them."""

    def __init__(self, url: str):
        self._url = url
        self.images = {one: _image(one, {'name': one}) for one in (FIRST, SECOND)}

    def answer(self, request: Request) -> Answer | None:
        match request.method, *request.path:
            case 'GET', *path if not path:
                return versions(f'{self._url}/v2/', id='v2.16')
            case 'GET', 'v2', 'images':
                return Answer(200, {'images': list(self.images.values()), 'first': '/v2/images'})
            case 'POST', 'v2', 'images':
                made = request.body.get('id') or str(uuid.uuid4())
                self.images[made] = _image(made, request.body)
                return Answer(201, self.images[made])
            case 'GET', 'v2', 'schemas', name:
                return Answer(200, _schema(name))
            case method, 'v2', 'images', name:
                return self._one(method, name, request.body)
            case 'PUT' | 'GET', 'v2', 'images', name, 'file':
                return Answer(204)
        return None

    def _one(self, method: str, name: str, body: object) -> Answer | None:
        if name not in self.images:
            return Answer(404, {'message': f'no image {name}'})
        if method == 'DELETE':
            del self.images[name]
            return Answer(204)
        if method == 'PATCH':
            changes = {
                one['path'].strip('/'): one['value'] for one in body if one['op'] != 'remove'
            }
            self.images[name].update(changes)
        return Answer(200, self.images[name])


def _image(made: str, words: dict) -> dict[str, object]:
    return {
        'status': 'active',
        'visibility': 'public',
        'container_format': 'bare',
        'disk_format': 'raw',
        'size': 1048576,
        'virtual_size': None,
        'checksum': '0' * 32,
        'min_disk': 0,
        'min_ram': 0,
        'protected': False,
        'owner': None,
        'created_at': stamp(),
        'updated_at': stamp(),
        'tags': [],
        'os_hidden': False,
        'self': f'/v2/images/{made}',
        'file': f'/v2/images/{made}/file',
        'schema': '/v2/schemas/image',
        **words,
        'id': made,
    }


def _schema(name: str) -> dict[str, object]:
    return {
        'name': name,
        'properties': {field: {} for field in FIELDS},
        'additionalProperties': {'type': 'string'},
    }


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


class Cinder:
    def __init__(self, url: str):
        self._url = url

    def answer(self, request: Request) -> Answer | None:
        match request.method, *request.path:
            case 'GET', *path if path in ([], ['v3']):
                return versions(f'{self._url}/v3/', id='v3.0', version='3.71', min_version='3.0')
            case 'GET', *_, 'volumes' | 'detail':
                return Answer(200, {'volumes': []})
        return None


class Stubs:
    """``unknown`` are the requests that no stub answers, as ``GET /network/v2.0/trunks``."""

    def __init__(self, url: str, compute_url: str, placement_url: str):
        self.url = url
        self.unknown: list[str] = []
        self._services = {
            'image': Glance(f'{url}/image'),
            'network': Neutron(f'{url}/network'),
            'volume': Cinder(f'{url}/volume'),
        }
        catalog = {
            'identity': f'{url}/identity',
            'compute': f'{compute_url}/v2.1',
            'placement': placement_url,
            'image': f'{url}/image',
            'network': f'{url}/network',
            'block-storage': f'{url}/volume/v3',
        }
        self._services['identity'] = Keystone(f'{url}/identity', catalog)

    @property
    def identity_url(self) -> str:
        return f'{self.url}/identity'

    def answer(self, method: str, path: str, headers: dict, body: object) -> Answer:
        name, *words = [word for word in urlsplit(path).path.split('/') if word] or ['']
        service = self._services.get(name)
        found = service and service.answer(Request(method, tuple(words), headers, body))
        if found is None:
            self.unknown.append(f'{method} {path}')
        return found or Answer(404, {'error': {'code': 404, 'message': f'no stub for {path}'}})


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512


@contextlib.contextmanager
def running(compute_url: str, placement_url: str) -> Iterator[Stubs]:
    """Stubs whose catalog has these two services, for as long as the block runs."""
    server = _Server((LOOPBACK, 0), None)
    stubs = Stubs(f'http://{LOOPBACK}:{server.server_port}', compute_url, placement_url)
    server.RequestHandlerClass = _handler(stubs)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stubs
    finally:
        server.shutdown()
        server.server_close()


def _handler(stubs: Stubs) -> type:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        disable_nagle_algorithm = True

        def log_message(self, *args):
            """``unknown`` says what is of interest."""

        def handle_one(self):
            text = self._read()
            kind = self.headers.get('Content-Type', '')
            body = json.loads(text) if text and 'json' in kind else None
            answer = stubs.answer(self.command, self.path, dict(self.headers), body)
            sent = b'' if answer.body is None else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            given = {
                'Content-Type': 'application/json',
                'Content-Length': str(len(sent)),
                **answer.headers,
            }
            for name, value in given.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != 'HEAD':
                self.wfile.write(sent)

        def _read(self) -> bytes:
            if 'chunked' not in self.headers.get('Transfer-Encoding', ''):
                return self.rfile.read(int(self.headers.get('Content-Length') or 0))
            pieces = []
            while size := int(self.rfile.readline().split(b';')[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b''.join(pieces)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = handle_one  # noqa: N815

    return Handler
