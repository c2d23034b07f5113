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
"""The proxy passes on what it is told to, when it is told to."""

import asyncio
import contextlib
import socket
import socketserver
import subprocess
import sys
import threading
import time

import pytest

from nova_sched.tests.fixtures.process import LOOPBACK, free_port
from nova_sched.tests.fixtures.proxy import TO_CLIENT, TO_SERVER, Proxy
from nova_sched.tests.functional.harness import eventually

TIMEOUT_S = 20.0
SILENT_S = 0.3  # in which nothing must come


class Upper(socketserver.BaseRequestHandler):
    """Answers each message in capitals."""

    def handle(self):
        with contextlib.suppress(ConnectionResetError):
            while data := self.request.recv(65536):
                self.server.heard.append(data)
                self.request.sendall(data.upper())


@pytest.fixture
def server():
    made = socketserver.ThreadingTCPServer((LOOPBACK, 0), Upper)
    made.heard = []
    made.daemon_threads = True
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def proxy(server):
    with Proxy(server.server_address[1]) as made:
        yield made


@contextlib.contextmanager
def client(port):
    with socket.create_connection((LOOPBACK, port), TIMEOUT_S) as made:
        yield made


def ask(made, text):
    made.sendall(text)
    return made.recv(65536)


def is_silent(made):
    made.settimeout(SILENT_S)
    try:
        made.recv(1)
    except TimeoutError:
        return True
    finally:
        made.settimeout(TIMEOUT_S)
    return False


def test_it_passes_on_what_comes_and_the_end(proxy):
    with client(proxy.port) as one, client(proxy.port) as other:
        assert ask(one, b'one') == b'ONE'
        assert ask(other, b'other') == b'OTHER'
        assert proxy.links == 2
        one.shutdown(socket.SHUT_WR)
        assert one.recv(1) == b''
    eventually(lambda: proxy.links == 0)


def test_much_at_once(proxy):
    text = b'x' * 3_000_000
    with client(proxy.port) as one:
        threading.Thread(target=one.sendall, args=(text,)).start()
        found = 0
        while found < len(text):
            found += len(one.recv(65536))
    assert found == len(text)


def test_delay_is_for_each_way(proxy):
    with client(proxy.port) as one:
        ask(one, b'warm')
        proxy.delay(0.2)
        begin = time.monotonic()
        assert ask(one, b'slow') == b'SLOW'
        assert time.monotonic() - begin >= 0.4
        proxy.restore()
        assert ask(one, b'quick') == b'QUICK'


@pytest.mark.parametrize(
    'ways, heard',
    [
        pytest.param((), False, id='both ways'),
        pytest.param((TO_SERVER,), False, id='to the server'),
        pytest.param((TO_CLIENT,), True, id='to the client'),
    ],
)
def test_what_a_blackhole_takes_comes_later(proxy, server, ways, heard):
    with client(proxy.port) as old:
        ask(old, b'before')
        proxy.blackhole(*ways)
        with client(proxy.port) as new:  # it connects, and gets no answer
            old.sendall(b'old')
            new.sendall(b'new')
            if heard:
                eventually(lambda: {b'old', b'new'} <= set(server.heard))
            assert is_silent(old)
            assert is_silent(new)
            assert ({b'old', b'new'} & set(server.heard) != set()) == heard
            proxy.restore()
            assert old.recv(65536) == b'OLD'
            assert new.recv(65536) == b'NEW'


def test_what_a_blackhole_forgets_is_lost(proxy, server):
    with client(proxy.port) as busy, client(proxy.port) as idle:
        ask(busy, b'busy')
        ask(idle, b'idle')
        proxy.blackhole(forget=True)
        busy.sendall(b'lost')
        eventually(lambda: proxy.lost)
        proxy.restore()
        with pytest.raises(ConnectionResetError):
            busy.recv(1)
        assert b'lost' not in server.heard
        assert ask(idle, b'on') == b'ON'


def test_cut_resets_old_and_new_connections(proxy):
    with client(proxy.port) as old:
        ask(old, b'before')
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
        with pytest.raises(ConnectionResetError), client(proxy.port) as new:
            new.recv(1)
        proxy.restore()
        with client(proxy.port) as new:
            assert ask(new, b'after') == b'AFTER'


def test_close_refuses_new_connections(server):
    with Proxy(server.server_address[1], port=free_port()) as proxy:
        with client(proxy.port) as old:
            ask(old, b'before')
            proxy.close()
            with pytest.raises(ConnectionResetError):
                old.recv(1)
        with pytest.raises(ConnectionRefusedError), client(proxy.port):
            pass
        port = proxy.port
        proxy.restore()
        with client(port) as new:
            assert ask(new, b'after') == b'AFTER'
        proxy.close()


def test_close_ends_what_was_accepted_at_the_same_moment(server, caplog):
    """asyncio leaves open what it accepts just before its server is closed."""

    async def connect_and_close():
        made = socket.create_connection((LOOPBACK, proxy.port), TIMEOUT_S)
        for _ in range(2):  # asyncio accepts it, and makes its transport later
            await asyncio.sleep(0)
        await proxy._close()
        return made

    with (
        Proxy(server.server_address[1], port=free_port()) as proxy,
        proxy._do(connect_and_close) as one,
        pytest.raises(ConnectionResetError),
    ):
        one.recv(1)
    assert not caplog.records


def test_reset_is_for_those_that_are_there(proxy):
    with client(proxy.port) as old:
        ask(old, b'before')
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
        with client(proxy.port) as new:
            assert ask(new, b'after') == b'AFTER'


def test_a_server_that_is_not_there(server):
    with socket.create_server((LOOPBACK, 0)) as nothing:
        port = nothing.getsockname()[1]
    with Proxy(port) as proxy, pytest.raises(ConnectionResetError), client(proxy.port) as one:
        one.recv(1)


def test_it_takes_orders_as_a_process(server):
    command = [
        sys.executable,
        '-m',
        'nova_sched.tests.fixtures.proxy',
        str(server.server_address[1]),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:

        def order(line):
            child.stdin.write(f'{line}\n')
            child.stdin.flush()
            assert child.stdout.readline().split() == line.split()[:1]

        port = int(child.stdout.readline())
        with client(port) as one:
            assert ask(one, b'one') == b'ONE'
            order('delay 0.01')
            order('blackhole to_client')
            one.sendall(b'two')
            assert is_silent(one)
            order('restore')
            assert one.recv(65536) == b'TWO'
            order('cut')
            with pytest.raises(ConnectionResetError):
                one.recv(1)
        child.stdin.close()
        assert child.wait(TIMEOUT_S) == 0
