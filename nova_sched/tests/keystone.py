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
"""A Keystone of a few lines, over real HTTP: a token, a catalog of itself, and unified limits."""

import contextlib
import http.server
import json
import threading
from urllib.parse import parse_qs, urlsplit

import oslo_limit.limit
from keystoneauth1 import loading

from nova_sched.conf import CONF

SERVICE, ENDPOINT, REGION = 'compute-service', 'compute-endpoint', 'RegionOne'


class Keystone:
    """``registered`` (resource to limit) is for all, ``own`` (project to resource to limit) goes
    before.

    ``asked`` are the paths that were asked for limits; ``broken`` is what all of them are answered
    with instead, a status and a text, and ``model`` how limits are enforced.
    """

    def __init__(self, registered=None, own=None):
        self.registered, self.own = dict(registered or {}), dict(own or {})
        self.asked, self.broken, self.model = [], None, 'flat'
        self.url = None

    def answer(self, path, query):
        """What a GET gets: a document, None for what is not there."""
        if path in ('/v3', '/v3/'):
            links = [{'rel': 'self', 'href': f'{self.url}/'}]
            return {'version': {'id': 'v3.14', 'status': 'stable', 'links': links}}
        if path == '/v3/limits/model':
            return {'model': {'name': self.model, 'description': ''}}
        if path == f'/v3/endpoints/{ENDPOINT}':
            one = {
                'id': ENDPOINT,
                'service_id': SERVICE,
                'region_id': REGION,
                'interface': 'public',
            }
            return {'endpoint': {**one, 'url': self.url}}
        if path == '/v3/registered_limits':
            return {'registered_limits': self._limits(query, self.registered, 'default_limit')}
        if path == '/v3/limits':
            own = self.own.get(query['project_id'], {})
            return {'limits': self._limits(query, own, 'resource_limit')}
        return None

    def _limits(self, query, limits, word):
        assert (query['service_id'], query['region_id']) == (SERVICE, REGION)
        about = {'service_id': SERVICE, 'region_id': REGION}
        return [
            {'id': name, **about, 'resource_name': name, word: limit}
            for name, limit in limits.items()
        ]

    def token(self):
        """The body of an answer to who logs in."""
        here = {
            'id': 'e',
            'interface': 'public',
            'region': REGION,
            'region_id': REGION,
            'url': self.url,
        }
        catalog = [{'id': 'i', 'type': 'identity', 'name': 'keystone', 'endpoints': [here]}]
        until = '2999-01-01T00:00:00.000000Z'
        return {
            'token': {
                'methods': ['password'],
                'expires_at': until,
                'user': {'id': 'u'},
                'catalog': catalog,
            }
        }

    def config(self):
        """The lines of a configuration that has it ask here."""
        return (
            '[quota]\ndriver = keystone\n'
            f'[oslo_limit]\nendpoint_id = {ENDPOINT}\nauth_type = v3password\n'
            f'auth_url = {self.url}\nusername = nova\npassword = secret\n'
            'user_domain_id = default\nsystem_scope = all\n'
        )


@contextlib.contextmanager
def served(keystone):
    """Answer on the loopback for as long as the block runs."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _handler(keystone))
    server.daemon_threads = True
    keystone.url = f'http://127.0.0.1:{server.server_port}/v3'
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.02})
    thread.start()
    try:
        yield keystone
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        forget()


def forget():
    """End what oslo.limit keeps for the whole process: its connection, and options that are
    required."""
    oslo_limit.limit._SDK_CONNECTION = None
    CONF.reset()
    CONF.unregister_opts(loading.get_auth_plugin_conf_options('v3password'), group='oslo_limit')


def _handler(keystone):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            place = urlsplit(self.path)
            if 'limits' in place.path:
                keystone.asked.append(place.path)
                if keystone.broken:
                    self._send(*keystone.broken)
                    return
            query = {name: values[0] for name, values in parse_qs(place.query).items()}
            found = keystone.answer(place.path, query)
            self._send(
                404 if found is None else 200, json.dumps(found or {'error': {'code': 404}})
            )

        def do_POST(self):
            self.rfile.read(int(self.headers['Content-Length']))
            self._send(201, json.dumps(keystone.token()), {'X-Subject-Token': 'token'})

        def _send(self, status, text, headers=()):
            body = text.encode()
            self.send_response(status)
            given = {
                'Content-Type': 'application/json',
                'Content-Length': str(len(body)),
                **dict(headers),
            }
            for name, value in given.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """No test reads it."""

    return Handler
