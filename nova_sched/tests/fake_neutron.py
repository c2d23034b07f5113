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
"""A Neutron for tests: ports, subnets and their segments, over HTTP."""

import contextlib
import http.server
import json
from urllib.parse import parse_qs, urlsplit

from keystoneauth1 import adapter, session, token_endpoint

from nova_sched.cloud.neutron import TIMEOUTS_S, NeutronClient
from nova_sched.tests.fixtures.web import serving


class FakeNeutron:
    """``ports``: UUID -> (network, subnets). ``subnets``: UUID -> (network, segment or None).

    ``broken`` is what all requests are answered with instead: a status and a text.
    """

    def __init__(self):
        self.ports, self.subnets = {}, {}
        self.broken, self.url = None, None

    def answer(self, path, query):
        if self.broken is not None:
            return self.broken
        _, kind, *uuid = path.strip('/').split('/')
        if uuid and uuid[0] not in getattr(self, kind):
            return 404, json.dumps({'NeutronError': {'message': f'{uuid[0]} could not be found'}})
        if kind == 'ports':
            network, subnets = self.ports[uuid[0]]
            found = {'network_id': network, 'fixed_ips': [{'subnet_id': one} for one in subnets]}
            return 200, json.dumps({'port': found})
        if uuid:
            return 200, json.dumps({'subnet': {'segment_id': self.subnets[uuid[0]][1]}})
        wanted = query['network_id'][0]
        found = [
            {'segment_id': segment}
            for network, segment in self.subnets.values()
            if network == wanted
        ]
        return 200, json.dumps({'subnets': found})


@contextlib.contextmanager
def served(fake=None):
    """Serve a FakeNeutron on the loopback as long as the block runs; yields it."""
    fake = fake or FakeNeutron()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            place = urlsplit(self.path)
            status, text = fake.answer(place.path, parse_qs(place.query))
            self.send_response(status)
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            """No test reads it."""

    with serving(Handler) as fake.url:
        yield fake


def client_of(fake):
    """A NeutronClient for it, which logs in nowhere."""
    auth = token_endpoint.Token(fake.url, 'admin')
    made = adapter.Adapter(session.Session(auth), service_type='network')
    return NeutronClient(made, TIMEOUTS_S)
