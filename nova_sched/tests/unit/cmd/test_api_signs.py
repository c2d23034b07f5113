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
"""Whether a web server answers, on a real one."""

import http.server
import threading

import pytest

from nova_sched import errors
from nova_sched.cmd.api_signs import ApiSigns


class Live(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == '/healthcheck/live' else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def served():
    made = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Live)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_address
    made.shutdown()
    thread.join()
    made.server_close()


def away():
    raise errors.BrokerUnavailable('localhost', 'it is away')


@pytest.mark.parametrize(
    'port, reach, ready',
    [
        pytest.param(None, lambda: None, 1, id='it answers'),
        pytest.param(None, away, 0, id='the bus is away'),
        pytest.param(1, lambda: None, 0, id='it does not answer'),
    ],
)
def test_ready(served, port, reach, ready):
    signs = ApiSigns((served[0], port or served[1]), reach)
    assert signs.ready == 0
    signs.look()
    assert signs.ready == ready


def test_a_bus_that_goes_away_later_does_not_matter(served):
    reached = iter([None])
    signs = ApiSigns(served, lambda: next(reached))
    signs.look()
    signs.look()
    assert signs.ready == 1


def test_silence_is_counted_from_the_last_answer(served, monkeypatch):
    moments, answers = iter([10.0, 20.0, 25.0]), iter([True, False])
    signs = ApiSigns(served, lambda: None, lambda: next(moments))
    monkeypatch.setattr(signs, '_answers', lambda: next(answers))
    signs.look()
    signs.look()
    assert signs.silence_s == 15.0
