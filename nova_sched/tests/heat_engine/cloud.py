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
"""All that Heat talks to, as one HTTP server: identity, compute, images, and a scheduler that
records."""

import contextlib
import http.server
import json
import threading
import urllib.error
import urllib.request
import uuid
from typing import Any

FLAVORS = {
    'small': {'id': '1', 'vcpus': 1, 'ram': 2048, 'disk': 10, 'extra_specs': {}},
    'large': {
        'id': '2',
        'vcpus': 4,
        'ram': 8192,
        'disk': 40,
        'extra_specs': {'quota:cpu_shares': '2048'},
    },
}
IMAGE = {
    'id': '8f0a3c52-6d0e-4a55-9f5e-3b1f7f6f0a11',
    'name': 'debian',
    'status': 'active',
    'disk_format': 'qcow2',
    'min_ram': 0,
    'min_disk': 0,
    'size': 1024,
    'visibility': 'public',
    'tags': [],
    'hw_architecture': 'x86_64',
}
TOKEN = 'demo:demo-project'  # as our API takes it without Keystone
BY_ID = {flavor['id']: name for name, flavor in FLAVORS.items()}
TIMEOUT_S = 120
COMPUTE, IMAGES, SCHEDULING = 'compute', 'image', 'server-scheduling'


class Cloud:
    """What there is, what was asked, and what is to go wrong.

    ``servers``: bodies of the servers that were asked for, by id. ``groups``: placement groups as
    the scheduler tells them, by UUID; ``calls``: all that it was asked, as (method, path, headers,
    body). ``story``: what was done to groups and servers, in order. ``answers``: (status, error)
    that the scheduler gives to the next definitions. ``ours``: the Process whose scheduler is
    asked instead; ``racks``: where it has put servers, by their names.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.url = ''
        self.clear()

    def clear(self):
        self.servers: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str, dict[str, str], Any]] = []
        self.story: list[str] = []
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.ours: Any = None
        self.racks: dict[str, str] = {}

    def asked(self, method):
        """Bodies of the calls to the scheduler by this method."""
        return [body for verb, _, _, body in self.calls if verb == method]

    def hints(self):
        """Scheduler hints of each server that was asked for, by the server's name."""
        return {
            one['server']['name']: one.get('os:scheduler_hints', {})
            for one in self.servers.values()
        }

    def group(self):
        """The only group."""
        (group,) = self.groups.values()
        return group

    def catalog(self):
        """Heat's request as keystonemiddleware would have left it: a token with its catalogue."""
        endpoints = {
            COMPUTE: f'{self.url}/compute/v2.1',
            IMAGES: f'{self.url}/image',
            SCHEDULING: f'{self.url}/scheduling',
        }
        return {
            'token': {
                'methods': ['password'],
                'issued_at': '2026-01-01T00:00:00.000000Z',
                'expires_at': '2126-01-01T00:00:00.000000Z',
                'user': {
                    'id': 'demo-user',
                    'name': 'demo',
                    'domain': {'id': 'default', 'name': 'Default'},
                },
                'project': {
                    'id': 'demo-project',
                    'name': 'demo',
                    'domain': {'id': 'default', 'name': 'Default'},
                },
                'roles': [{'id': 'member', 'name': 'member'}],
                'catalog': [
                    {
                        'type': kind,
                        'name': kind,
                        'id': kind,
                        'endpoints': [
                            {
                                'id': kind,
                                'interface': 'public',
                                'region': 'here',
                                'region_id': 'here',
                                'url': url,
                            }
                        ],
                    }
                    for kind, url in endpoints.items()
                ],
            }
        }

    # Identity: for what Heat does later, when a scaling policy is signalled.

    def identity(self, method):
        if method == 'POST':
            return 201, self.catalog()
        links = [{'rel': 'self', 'href': f'{self.url}/identity/v3/'}]
        return 200, {'version': {'id': 'v3.14', 'status': 'stable', 'links': links}}

    # Compute: GET and POST of what Heat's server resource needs.

    def compute_get(self, path):
        if path in ('', '/'):
            links = [{'rel': 'self', 'href': f'{self.url}/compute/v2.1/'}]
            version = {'id': 'v2.1', 'status': 'CURRENT', 'version': '2.90', 'min_version': '2.1'}
            return 200, {
                'version': {**version, 'links': links},
                'versions': [{**version, 'links': links}],
            }
        kind, _, name = path.strip('/').partition('/')
        name, _, part = name.partition('/')
        if path in ('/flavors', '/flavors/detail'):
            return 200, {'flavors': [_flavor(name) for name in FLAVORS]}
        if kind == 'flavors' and name in BY_ID:
            specs = {'extra_specs': FLAVORS[BY_ID[name]]['extra_specs']}
            return 200, specs if part else {'flavor': _flavor(BY_ID[name])}
        if kind == 'servers' and name in self.servers:
            server = _server(name, self.servers[name]['server'])
            return 200, {'interfaceAttachments': []} if part else {'server': server}
        if path == '/limits':
            return 200, {'limits': {'absolute': {'maxServerMeta': 128}, 'rate': []}}
        return 404, {'itemNotFound': {'code': 404, 'message': f'no {path}'}}

    def compute_post(self, path, body):
        if path == '/os-server-groups':
            return 200, {
                'server_group': {'id': str(uuid.uuid4()), 'members': [], **body['server_group']}
            }
        if path != '/servers':
            return 202, {}
        made = str(uuid.uuid4())
        self.servers[made] = body
        self.story.append(f'+{body["server"]["name"]}')
        if self.ours:
            self._place(made, body)
        return 202, {'server': {'id': made, 'links': []}}

    def compute_delete(self, path):
        gone = self.servers.pop(path.rpartition('/')[2], None)
        if gone:
            self.story.append(f'-{gone["server"]["name"]}')
            if self.ours and self.racks.pop(gone['server']['name'], None):
                self.ours.ask('end', path.rpartition('/')[2])
        return 204, None

    def _place(self, made, body):
        """Ask for a host, as Nova's conductor does; without one the server is in error."""
        server = body['server']
        flavor = FLAVORS[BY_ID[server['flavorRef']]]
        told = self.ours.ask(
            'boot',
            {
                'uuid': made,
                'name': server['name'],
                'project': 'demo-project',
                'zone': server.get('availability_zone'),
                'flavor': {
                    'name': BY_ID[server['flavorRef']],
                    'vcpus': flavor['vcpus'],
                    'memory_mb': flavor['ram'],
                    'root_gb': flavor['disk'],
                    'extra_specs': flavor['extra_specs'],
                },
                'image': {
                    'id': IMAGE['id'],
                    'name': IMAGE['name'],
                    'disk_format': IMAGE['disk_format'],
                    'properties': {'hw_architecture': IMAGE['hw_architecture']},
                },
                'hints': body.get('os:scheduler_hints', {}),
            },
        )
        if 'rack' in told:
            self.racks[server['name']] = told['rack']
        else:
            server['fault'] = told['error']

    # Images.

    def image_get(self, path):
        if path in ('', '/', '/versions'):
            links = [{'rel': 'self', 'href': f'{self.url}/image/v2/'}]
            return 200, {'versions': [{'id': 'v2.9', 'status': 'CURRENT', 'links': links}]}
        if path == f'/v2/images/{IMAGE["id"]}':
            return 200, IMAGE
        if path == '/v2/images':
            return 200, {'images': [IMAGE]}
        if path == '/v2/schemas/image':
            return 200, {
                'name': 'image',
                'properties': {},
                'additionalProperties': {'type': 'string'},
            }
        return 404, {}

    # The scheduler.

    def scheduling(self, method, path, headers, body):
        """Status, answer and entity tag."""
        if self.ours:
            asked = urllib.request.Request(
                self.ours.url + path,
                json.dumps(body).encode() if body else None,
                headers,
                method=method,
            )
            try:
                answer = urllib.request.urlopen(asked, timeout=TIMEOUT_S)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                text = answer.read()
                return (
                    answer.status,
                    json.loads(text) if text else None,
                    answer.headers.get('ETag'),
                )
        status, said = self._recorded(method, path, body)
        return status, said, f'"{said["generation"]}-0"' if said and 'generation' in said else None

    def _recorded(self, method, path, body):
        uuid_, _, what = path.removeprefix('/v1/groups').strip('/').partition('/')
        if method in ('POST', 'PUT') and not what and self.answers:
            status, error = self.answers.pop(0)
            return status, {'errors': [{'status': status, **error}]}
        if method != 'GET' and what != 'renew':
            self.story.append(method)
        if method == 'POST' and not uuid_:
            uuid_ = str(uuid.uuid4())
            self.groups[uuid_] = {
                'uuid': uuid_,
                'name': body['name'],
                'generation': 0,
                'moves': [],
            }
        if uuid_ not in self.groups:
            return 404, {
                'errors': [
                    {'status': 404, 'title': 'Not Found', 'detail': f'There is no group {uuid_}.'}
                ]
            }
        group = self.groups[uuid_]
        if method == 'DELETE':
            del self.groups[uuid_]
            return 204, None
        if body and 'template' in body:
            group['generation'] += 1
            group['status'] = 'planned'
            group['members'] = [{'path': 'web', 'state': 'planned', 'domains': {'rack': 'r1'}}]
        return 201 if method == 'POST' else 200, group


def _forwarded(headers):
    return {
        name: headers[name]
        for name in ('X-Auth-Token', 'Content-Type', 'If-Match')
        if name in headers
    }


def _flavor(name):
    flavor = {key: value for key, value in FLAVORS[name].items() if key != 'extra_specs'}
    more = {'OS-FLV-EXT-DATA:ephemeral': 0, 'swap': '', 'OS-FLV-DISABLED:disabled': False}
    return {'name': name, 'rxtx_factor': 1.0, 'links': [], **flavor, **more}


def _server(made, server):
    return {
        'id': made,
        'name': server['name'],
        'status': 'ERROR' if 'fault' in server else 'ACTIVE',
        'fault': {'code': 500, 'message': server.get('fault', '')},
        'addresses': {},
        'links': [],
        'flavor': {'id': server['flavorRef']},
        'image': {'id': server['imageRef']} if server.get('imageRef') else '',
        'os-extended-volumes:volumes_attached': [],
    }


def handler(cloud):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        disable_nagle_algorithm = True

        def log_message(self, *args):
            """No test reads it."""

        def answer(self):
            length = int(self.headers.get('Content-Length') or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            service, _, path = self.path.partition('?')[0].lstrip('/').partition('/')
            with cloud.lock:
                status, said, *tag = self.route(service, f'/{path}' if path else '', body)
                etag = tag[0] if tag else None
                text = b'' if said is None else json.dumps(said).encode()
            self.send_response(status)
            if etag:
                self.send_header('ETag', etag)
            if service == 'identity':
                self.send_header('X-Subject-Token', TOKEN)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def route(self, service, path, body):
            method = self.command
            if service == 'scheduling':
                cloud.calls.append((method, path, dict(self.headers), body))
                return cloud.scheduling(method, path, _forwarded(self.headers), body)
            if service == 'identity':
                return cloud.identity(method)
            if service == 'image':
                return cloud.image_get(path)
            path = path.removeprefix('/v2.1')
            if method == 'GET':
                return cloud.compute_get(path)
            if method == 'DELETE':
                return cloud.compute_delete(path)
            return cloud.compute_post(path, body)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    return Handler


@contextlib.contextmanager
def running():
    """A Cloud that answers on a port of its own."""
    cloud = Cloud()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler(cloud))
    server.daemon_threads = True
    cloud.url = f'http://127.0.0.1:{server.server_port}'
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield cloud
    finally:
        server.shutdown()
        server.server_close()
