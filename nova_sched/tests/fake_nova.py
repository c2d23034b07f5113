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
"""Nova's API for tests: servers, their live migrations and compute services, over HTTP."""

import contextlib
import http.server
import json
from urllib.parse import parse_qs, urlsplit

from keystoneauth1 import adapter, session, token_endpoint

from nova_sched.cloud.compute_api import MICROVERSION, ComputeApi
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fixtures.web import serving


class FakeNova:
    """``servers``: UUID -> [host, task state]. ``migrations`` and ``asked`` (server, host), the
    live migrations that were started, are in the order of time. ``services``: host -> [status,
    disabled reason]; None: its cell is down. ``details``: server -> results and details of the
    events of its last action.

    ``broken`` maps a method, or a method and a path, to a status and a text that requests are
    answered with instead; ``loses_answers``: it does what is posted, and answers nothing of use.
    """

    def __init__(self):
        self.servers, self.migrations, self.asked = {}, [], []
        self.services, self.details, self.broken = {}, {}, {}
        self.loses_answers, self.url, self.versions = False, None, set()
        self.before_post = lambda: None

    # What happens in the cloud.

    def migration(self, server, source, destination=None, status='accepted', kind=None):
        number = len(self.migrations) + 1
        self.migrations.append(
            {
                'id': number,
                'uuid': uuid_of(f'migration {number}'),
                'instance_uuid': server,
                'migration_type': kind or 'live-migration',
                'status': status,
                'source_compute': source,
                'dest_compute': destination,
                # By a clock that goes backwards.
                'created_at': f'2026-11-25T{23 - number:02}:00:00.000000',
            }
        )
        return self.migrations[-1]

    def end(self, server, status='completed', host=None, details=None):
        """The last migration of a server ends, and so does its task."""
        found = [one for one in self.migrations if one['instance_uuid'] == server][-1]
        found['status'] = status
        self.servers[server][1] = None
        if host:
            found['dest_compute'] = self.servers[server][0] = host
        if details:
            self.details[server] = [('Success', None), ('Error', details)]

    # Requests.

    def answer(self, method, path, query, body):
        if told := self.broken.get((method, path), self.broken.get(method)):
            return told
        match method, *path.strip('/').split('/'):
            case 'GET', 'servers', uuid if uuid in self.servers:
                host, task = self.servers[uuid]
                found = {'OS-EXT-SRV-ATTR:host': host, 'OS-EXT-STS:task_state': task}
                return 200, {'server': {'id': uuid, **found}}
            case 'POST', 'servers', uuid, 'action' if uuid in self.servers:
                return self._act(uuid, body['os-migrateLive'])
            case 'GET', 'os-migrations':
                return 200, {'migrations': self._listed(query)}
            case 'GET', 'servers', uuid, 'os-instance-actions':
                actions = [('stop', 'req-2'), ('live-migration', 'req-1')]
                named = [{'action': name, 'request_id': one} for name, one in actions]
                return 200, {'instanceActions': named if uuid in self.details else named[:1]}
            case 'GET', 'servers', uuid, 'os-instance-actions', 'req-1':
                events = [
                    {'start_time': str(place), 'result': result, 'details': details}
                    for place, (result, details) in enumerate(self.details[uuid])
                ]
                return 200, {'instanceAction': {'events': events[::-1]}}
            case 'GET', 'os-services':
                return 200, {'services': self._services(query)}
            case 'PUT', 'os-services', uuid:
                (host,) = (one for one in self.services if uuid_of(one) == uuid)
                self.services[host] = [body['status'], body.get('disabled_reason')]
                return 200, {}
        return 404, {'itemNotFound': {'code': 404, 'message': f'{path} could not be found.'}}

    def _act(self, server, asked):
        assert asked.keys() == {'host', 'block_migration'}  # never forced
        assert asked['block_migration'] == 'auto'
        self.before_post()
        host, task = self.servers[server]
        if task is not None:
            why = f"Cannot 'os-migrateLive' instance {server} while it is in task_state {task}"
            return 409, {'conflictingRequest': {'code': 409, 'message': why}}
        self.asked.append((server, asked['host']))
        self.servers[server][1] = 'migrating'
        self.migration(server, host)
        return (504, 'a proxy tells') if self.loses_answers else (202, '')

    def _listed(self, query):
        found = [
            one
            for one in self.migrations
            if one['instance_uuid'] in query.get('instance_uuid', [one['instance_uuid']])
            and one['migration_type'] in query.get('migration_type', [one['migration_type']])
        ]
        return sorted(found, key=lambda one: one['created_at'], reverse=True)

    def _services(self, query):
        return [
            self._service(host, found)
            for host, found in self.services.items()
            if [host] == query['host'] and query['binary'] == ['nova-compute']
        ]

    def _service(self, host, found):
        if found is None:
            return {'binary': 'nova-compute', 'host': host, 'status': 'UNKNOWN'}
        status, reason = found
        return {'id': uuid_of(host), 'status': status, 'disabled_reason': reason}


@contextlib.contextmanager
def served(fake=None):
    """Serve a FakeNova on the loopback as long as the block runs; yields it."""
    fake = fake or FakeNova()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            size = int(self.headers.get('Content-Length') or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            fake.versions.add(self.headers.get('OpenStack-API-Version'))
            place = urlsplit(self.path)
            status, found = fake.answer(self.command, place.path, parse_qs(place.query), body)
            text = found if isinstance(found, str) else json.dumps(found)
            self.send_response(status)
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self):
            self.do_GET()

        def do_PUT(self):
            self.do_GET()

        def log_message(self, *_):
            """No test reads it."""

    with serving(Handler) as fake.url:
        yield fake


def client_of(fake, timeouts_s=(3.0, 20.0)):
    """A ComputeApi for it, which logs in nowhere."""
    auth = token_endpoint.Token(fake.url, 'admin')
    made = adapter.Adapter(
        session.Session(auth), service_type='compute', default_microversion=MICROVERSION
    )
    return ComputeApi(made, timeouts_s)
