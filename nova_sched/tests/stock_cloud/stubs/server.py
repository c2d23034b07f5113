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
"""The HTTP server of all stubs, in a thread of this process."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

from nova_sched.tests.fixtures.process import LOOPBACK
from nova_sched.tests.stock_cloud.stubs.answers import Answer, Request
from nova_sched.tests.stock_cloud.stubs.cinder import Cinder
from nova_sched.tests.stock_cloud.stubs.glance import Glance
from nova_sched.tests.stock_cloud.stubs.keystone import Keystone
from nova_sched.tests.stock_cloud.stubs.neutron import Neutron


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
