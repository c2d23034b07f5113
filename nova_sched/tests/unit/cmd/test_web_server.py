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
"""The web server: what it takes for a request, and that callers who dawdle keep nobody waiting."""

import contextlib
import errno
import http.client
import socket
import subprocess
import sys
import threading
import time

import pytest
from waitress import wasyncore

from nova_sched.cmd import web_server
from nova_sched.cmd.web_server import MAX_HEAD, Channel, WebServer

MAX_BODY = 1000
TIMEOUT_S = 60
POST, GET = b'POST /a HTTP/1.1\r\n', b'GET /a?b HTTP/1.1\r\n'
CHUNKED = POST + b'Transfer-Encoding: chunked\r\n\r\n'
NEXT = GET + b'\r\n'
HALF = b'1f4\r\n' + b'x' * 500 + b'\r\n'  # of the longest body


def length(value):
    return POST + b'Content-Length: %s\r\n\r\n' % value


# What comes, and the statuses and the bodies of the answers; the application answers with the
# body.
REQUESTS = [
    ('no body', NEXT, [(200, b'')]),
    ('two', NEXT * 2, [(200, b'')] * 2),
    ('a body', length(b'3') + b'abc', [(200, b'abc')]),
    ('a body, and another', length(b'1') + b'a' + NEXT, [(200, b'a'), (200, b'')]),
    ('the longest body', length(b'1000') + b'x' * 1000, [(200, b'x' * 1000)]),
    ('a longer body', length(b'1001'), [413]),
    ('an absurd length', length(b'9' * 4000), [413]),
    ('a length beyond numbers', length(b'9' * 5000), [400]),
    ('a negative length', length(b'-1'), [400]),
    ('a length with a sign', length(b'+1'), [400]),
    ('a length with a line below', length(b'1_0'), [400]),
    ('a length that is no number', length(b'0x10'), [400]),
    ('an empty length', length(b''), [400]),
    ('a list of lengths', length(b'1, 1'), [400]),
    ('two lengths', POST + b'Content-Length: 1\r\nContent-Length: 1\r\n\r\na', [400]),
    ('two other lengths', POST + b'Content-Length: 1\r\ncontent-length: 2\r\n\r\na', [400]),
    ('nearly a length', POST + b'Content_Length: 9\r\n\r\n', [(200, b'')]),
    ('chunks', CHUNKED + b'3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n', [(200, b'abcde')]),
    ('no chunk', CHUNKED + b'0\r\n\r\n' + NEXT, [(200, b''), (200, b'')]),
    ('the longest body in chunks', CHUNKED + HALF + b'1e0\r\n' + b'x' * 480 + b'\r\n0\r\n\r\n',
     [(200, b'x' * 980)]),
    ('a longer body in chunks', CHUNKED + HALF * 2 + b'1\r\na\r\n0\r\n\r\n', [413]),
    ('an absurd chunk', CHUNKED + b'f' * 900 + b'\r\n' + b'x' * 2000, [413]),
    ('a negative chunk', CHUNKED + b'-1\r\n', [400]),
    ('a chunk of another length', CHUNKED + b'1\r\nabc\r\n', [400]),
    ('a chunk that never begins', CHUNKED + b'1;' + b'x' * 20000, [413]),
    ('a trailer without end', CHUNKED + b'0\r\n' + b'X: y\r\n' * 20000, [413]),
    ('a length and a coding', POST + b'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n'
     b'0\r\n\r\n' + NEXT, [400]),
    ('a coding and a length', CHUNKED[:-2] + b'Content-Length: 5\r\n\r\n0\r\n\r\n', [400]),
    ('two codings', CHUNKED[:-2] + b'transfer-encoding: chunked\r\n\r\n0\r\n\r\n', [400]),
    ('a coding twice', POST + b'Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n', [400]),
    ('a coding and none', POST + b'Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n', [400]),
    ('a coding of HTTP/1.0', CHUNKED.replace(b'1.1', b'1.0') + b'0\r\n\r\n' + NEXT, [400]),
    ('two hosts', GET + b'Host: a\r\nHost: b\r\n\r\n', [400]),
    ('a host of HTML', GET + b'Host: a"><script>\r\n\r\n', [400]),
    ('a host with a path', GET + b'Host: a/b\r\n\r\n', [400]),
    ('a host with a user', GET + b'Host: localhost@evil\r\n\r\n', [400]),
    ('an address as host', GET + b'Host: [::1]:8790\r\n\r\n', [(200, b'')]),
    ('another coding', POST + b'Transfer-Encoding: gzip, chunked\r\n\r\n', [501]),
    ('a long line', GET + b'X: ' + b'y' * MAX_HEAD, [431]),
    ('a long line that ends', GET + b'X: ' + b'y' * MAX_HEAD + b'\r\n\r\n', [431]),
    ('many lines', GET + b'X: y\r\n' * MAX_HEAD, [431]),
    ('a long path', b'GET /' + b'a' * MAX_HEAD, [431]),
    ('a line without a name', GET + b': y\r\n\r\n', [400]),
    ('a line without a colon', GET + b'X\r\n\r\n', [400]),
    ('a blank before the colon', GET + b'Content-Length : 1\r\n\r\n', [400]),
    ('a break within a line', GET + b'X: y\nContent-Length: 1\r\n\r\n', [400]),
    ('a zero within a line', GET + b'X: \0\r\n\r\n', [400]),
    ('a break within the first line', b'GET /a\n HTTP/1.1\r\n\r\n', [400]),
]  # fmt: skip


@pytest.mark.parametrize('step', [7, 10**9])
def test_what_comes_is_these_requests(served, step):
    wrong = {}
    for name, text, wanted in REQUESTS:
        if len(text) < 5000 or step > 7:
            found = [one if isinstance(wanted[0], tuple) else one[0]
                     for one in answers(served, text, step, len(wanted))]  # fmt: skip
            if found != wanted:
                wrong[name] = found
    assert wrong == {}


def answers(served, text, step, count):
    """The status and the body of each answer to a text that comes in steps of so many bytes."""
    found = []
    with _opened(served) as one:
        with contextlib.suppress(OSError):  # it may be told before
            for at in range(0, len(text), step):
                one.sendall(text[at : at + step])
        stream = one.makefile('rb')
        for _ in range(count):
            _, status, *_ = stream.readline().split() or (None, 0)
            size = int(http.client.parse_headers(stream)['Content-Length'] or 0)
            found.append((int(status), stream.read(size)))
    return found


class Application:
    """Answers with the body; on /hold when it is let go, on /large with more than a caller's
    system takes."""

    LARGE = 64 * 1024 * 1024

    def __init__(self):
        self.held, self.let_go = threading.Semaphore(0), threading.Event()
        self.streamed = threading.Event()
        self.later_s = 0.0  # than the clock says

    def __call__(self, environ, start_response):
        body = environ['wsgi.input'].read()
        if environ['PATH_INFO'] == '/hold':
            self.held.release()
            assert self.let_go.wait(TIMEOUT_S)
        elif environ['PATH_INFO'] == '/large':
            body = bytes(self.LARGE)
        elif environ['PATH_INFO'] == '/stream':
            start_response('200 OK', [])
            return self._stream()
        start_response('200 OK', [('Content-Length', str(len(body)))])
        return [body]

    def _stream(self):
        try:
            while True:
                yield bytes(1024 * 1024)
        finally:
            self.streamed.set()


@pytest.fixture
def application():
    made = Application()
    yield made
    made.let_go.set()


@pytest.fixture
def served(application):
    """With two threads."""
    made = WebServer(
        ('127.0.0.1', 0),
        application,
        MAX_BODY,
        probes=['/live'],
        threads=2,
        name='test',
        shutdown_timeout=TIMEOUT_S,
        clock=lambda: time.monotonic() + application.later_s,
    )
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    application.let_go.set()
    made._shutdown_timeout = 1
    made.stop()
    thread.join(TIMEOUT_S)


@pytest.fixture
def many(served):
    """Opens connections, all of which have sent a text."""
    with contextlib.ExitStack() as stack:

        def opened(count, text):
            found = [_opened(served) for _ in range(count)]
            for one in found:
                stack.enter_context(one)
                one.sendall(text)
            return found

        yield opened


def _opened(served):
    return socket.create_connection(served.bind_addr, timeout=TIMEOUT_S)


def ask(served, path='/', body=None, method='POST'):
    """Status and body."""
    connection = http.client.HTTPConnection(*served.bind_addr, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize(
    'text',
    [
        b'',
        b'GET / HTT',
        POST + b'Content-Length: 9\r\n\r\nab',
        CHUNKED + b'9\r\nab',
        POST + b'Content-Length: 2\r\n\r\nab',  # a whole request
        b'GET /large HTTP/1.1\r\n\r\n',  # whose answer is not read
    ],
    ids=['nothing', 'head', 'body', 'chunk', 'request', 'answer'],
)
def test_callers_that_dawdle_hold_no_thread(served, many, text, monkeypatch):
    """Ten times as many as there are threads; and none of them is dropped meanwhile."""
    monkeypatch.setattr(Application, 'LARGE', 8 * 1024 * 1024)
    for each in ('IDLE_S', 'WHOLE_S', 'ANSWER_S'):
        monkeypatch.setattr(web_server, each, 3600.0)
    many(20, text)
    for _ in range(5):
        assert ask(served, body=b'abc') == (200, b'abc')


def test_a_stream_that_is_not_read_ends(served, application, many):
    many(1, b'GET /stream HTTP/1.1\r\n\r\n')
    until_s = time.monotonic() + TIMEOUT_S
    while not application.streamed.wait(0.1):
        application.later_s += web_server.ANSWER_S  # once both systems keep no more
        assert time.monotonic() < until_s
    assert ask(served)[0] == 200


def test_a_large_answer_comes_whole(served, application):
    status, body = ask(served, '/large')
    assert (status, len(body)) == (200, application.LARGE)


def test_a_caller_that_waits_before_the_body_is_told_to_go_on(served, many):
    (one,) = many(1, POST + b'Content-Length: 3\r\nExpect: 100-continue\r\n\r\n')
    assert one.recv(1000) == b'HTTP/1.1 100 Continue\r\n\r\n'
    one.sendall(b'abc')
    assert b'200 OK' in one.recv(1000)


def test_probes_are_answered_while_all_threads_work(served, application, many):
    many(20, b'GET /hold HTTP/1.1\r\n\r\n')
    for _ in range(2):  # both threads
        assert application.held.acquire(timeout=TIMEOUT_S)
    for _ in range(5):
        assert ask(served, '/live')[0] == 200


def test_a_probe_that_is_not_read_keeps_no_other_waiting(served, many):
    many(20, b'GET /live HTTP/1.1\r\n\r\n' * 100)
    assert ask(served, '/live')[0] == 200


@pytest.mark.parametrize(
    'text, for_s, told',
    [
        (b'GET / HTT', web_server.WHOLE_S, b''),
        (length(b'9') + b'ab', web_server.WHOLE_S, b''),
        (length(b'9'), web_server.WHOLE_S, b''),
        (b'', web_server.IDLE_S, b''),
        (b'GET / HTTP/1.1\r\n\r\n', web_server.IDLE_S, b'HTTP/1.1 200'),  # no other request
    ],
    ids=['head', 'body', 'no body', 'nothing', 'next'],
)
def test_what_does_not_come_in_time_is_dropped(served, application, many, text, for_s, told):
    (one,) = many(1, text)
    assert ask(served)[0] == 200  # the text has been read by then
    application.later_s = for_s
    found = b''
    while data := one.recv(1000):
        found += data
    assert found[: len(told)] == told


def test_a_refusal_reaches_a_caller_that_still_sends(served, many):
    """It has sent more than both systems keep."""
    (one,) = many(1, GET)
    with contextlib.suppress(OSError):  # it may be told before
        for _ in range(1000):
            one.sendall(b'X: ' + b'y' * 100000)
    assert one.recv(1000).split()[1] == b'431'


def test_a_further_connection_replaces_one_that_sends_nothing(served, many, monkeypatch):
    monkeypatch.setattr(web_server, 'MAX_CONNECTIONS', 10)
    begun = many(1, b'GET / HTT')
    assert ask(served)[0] == 200  # it has been read by then
    idle = many(20, b'')
    assert ask(served)[0] == 200
    begun[0].sendall(b'P/1.1\r\n\r\n')
    assert begun[0].recv(1000).startswith(b'HTTP/1.1 200')
    assert idle[0].recv(1000) == b''


def test_a_process_with_too_many_files_gives_up_an_idle_connection(served, many, monkeypatch):
    monkeypatch.setattr(web_server, 'IDLE_S', 10**6)
    accept = wasyncore.dispatcher.accept

    def accept_one(server):
        if served.active_channels:
            raise OSError(errno.EMFILE, 'too many')
        return accept(server)

    (idle,) = many(1, b'')
    while not served.active_channels:
        time.sleep(0.01)
    monkeypatch.setattr(wasyncore.dispatcher, 'accept', accept_one)
    assert ask(served)[0] == 200
    assert idle.recv(1) == b''


def test_an_answer_that_took_long_is_sent(served, application, many, monkeypatch):
    flush = Channel._flush_some

    def flush_late(channel, **kwargs):
        served._close_late()
        return flush(channel, **kwargs)

    (caller,) = many(1, b'GET /hold HTTP/1.0\r\n\r\n')
    assert application.held.acquire(timeout=TIMEOUT_S)
    monkeypatch.setattr(Channel, '_flush_some', flush_late)
    application.later_s = web_server.ANSWER_S + 1
    application.let_go.set()
    assert b'200 OK' in caller.recv(1000)


def test_requests_that_wait_for_a_thread_have_a_limit(served, application, many, monkeypatch):
    monkeypatch.setattr(web_server, 'MAX_QUEUED', 3)
    many(2, b'GET /hold HTTP/1.1\r\n\r\n')
    for _ in range(2):
        assert application.held.acquire(timeout=TIMEOUT_S)
    waiting = many(3, b'GET / HTTP/1.1\r\n\r\n')
    while len(served.task_dispatcher.queue) < 3:
        assert ask(served, '/live')[0] == 200
    assert ask(served)[0] == 503
    application.let_go.set()
    assert all(b'200 OK' in one.recv(1000) for one in waiting)


SCRIPT = """
import eventlet
eventlet.monkey_patch()
import http.client, threading
from nova_sched.cmd.web_server import WebServer

def application(environ, start_response):
    start_response('200 OK', [('Content-Length', '4')])
    return [b'good']

def ask():
    for _ in range(20):
        connection = http.client.HTTPConnection(*served.bind_addr)
        connection.request('GET', '/')
        assert connection.getresponse().read() == b'good'
        connection.close()

served = WebServer(('127.0.0.1', 0), application, 1000, threads=4, name='test')
serving = threading.Thread(target=served.serve)
serving.start()
callers = [threading.Thread(target=ask) for _ in range(8)]
for one in callers:
    one.start()
for one in callers:
    one.join()
served.stop()
serving.join()
"""


def test_with_eventlet():
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', SCRIPT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ('', '', 0)
