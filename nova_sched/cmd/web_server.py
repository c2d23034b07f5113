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
"""A web server whose threads never wait for a caller.

Waitress reads each request whole, and sends each answer, in one thread that waits for nobody; its
other threads only run the application. So a caller that sends or reads slowly costs a connection
for some seconds, and no thread. This module adds what Waitress lacks: limits of time for a whole
request, threads of their own for probes, a limit of waiting requests, and an orderly end.
"""

import contextlib
import errno
import logging
import re
import select
import socket
import threading
import time

from waitress import utilities, wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher

MAX_HEAD = 64 * 1024  # bytes of the request line and the headers
MAX_CONNECTIONS = 400  # of two files each; a further one replaces the oldest idle one
MAX_QUEUED = 256  # requests that wait for a thread; a further one is refused
MAX_IN_MEMORY = 64 * 1024  # bytes of a request or an answer; the rest is in a temporary file
# Seconds: for the next request of a connection, for all of a request, for the caller to read some
# of its answer, and then to close.
IDLE_S, WHOLE_S, ANSWER_S, CLOSE_S = 10.0, 30.0, 60.0, 2.0
POLL_S = 0.5  # between two checks for connections that are late
PAUSE_S = 0.01  # before the next attempt, while the process has too many files
BLOCK = 64 * 1024

CODING = re.compile(rb'(?im)^transfer-encoding:(.*)')
# A name or an address, and a port. A probe may do without.
HOST = re.compile(r'(?:[A-Za-z0-9._~-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?')

# It warns of each request that waits for a thread.
logging.getLogger('waitress.queue').setLevel(logging.ERROR)


def plain(status, why):
    """Return the headers and the body of a refusal as plain text."""
    return [('Content-Type', 'text/plain')], f'{status}: {why}\n'.encode()


class Busy(utilities.Error):
    """More requests wait for a thread than may."""

    code, reason = 503, 'Service Unavailable'


class Parser(HTTPRequestParser):
    """Also refuses a Content-Length of more digits than Python reads; a body whose end a proxy may
    see elsewhere, as RFC 9112 says, so that no request hides in it; and a Host that is not a
    name, as links in answers begin with it."""

    def parse_header(self, header_plus):
        try:
            super().parse_header(header_plus)
        except ValueError:
            raise ParsingError('Content-Length is invalid') from None
        headers = self.headers
        # The coding of HTTP/1.1 is taken out of the headers when it is known.
        if 'TRANSFER_ENCODING' in headers or (self.chunked and 'CONTENT_LENGTH' in headers):
            raise ParsingError('The length of the body is not clear')
        if b','.join(CODING.findall(header_plus)).count(b','):
            raise ParsingError('Transfer-Encoding is given twice')
        if not HOST.fullmatch(headers.get('HOST', '')):
            raise ParsingError('Host is invalid')


class Refusal(ErrorTask):
    """The answer to a request that the application does not get."""

    def execute(self):
        error = self.request.error
        headers, body = self.channel.server.refusal(error.code, error.body)
        self.status = f'{error.code} {error.reason}'
        self.response_headers.extend(headers)
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Channel(HTTPChannel):
    """One connection."""

    parser_class, error_task_class = Parser, Refusal

    def __init__(self, server, *args, **kwargs):
        self.since_s = server.clock()  # of the present one of the four limits
        self.is_over = False  # the last answer is sent; what still comes is thrown away
        super().__init__(server, *args, **kwargs)

    def is_late(self, now_s):
        if self.requests and not self.total_outbufs_len:
            return False
        limit_s = (
            CLOSE_S if self.is_over
            else ANSWER_S if self.total_outbufs_len
            else WHOLE_S if self.request is not None
            else IDLE_S
        )  # fmt: skip
        return now_s - self.since_s >= limit_s

    @property
    def is_begun(self):
        """Whether a request is read, worked on or answered."""
        return not self.is_over and bool(
            self.requests or self.request is not None or self.total_outbufs_len
        )

    def received(self, data):
        if self.request is None:
            self.since_s = self.server.clock()
        return super().received(data)

    def write_soon(self, data):
        if not self.total_outbufs_len:
            self.since_s = self.server.clock()
        return super().write_soon(data)

    def service(self):
        super().service()
        self.since_s = self.server.clock()

    def _flush_some(self, do_close=True):
        is_sent = super()._flush_some(do_close)
        if is_sent:
            self.since_s = self.server.clock()
        return is_sent

    def readable(self):
        return self.is_over or super().readable()

    def handle_read(self):
        if not self.is_over:
            super().handle_read()
        elif not self.recv(BLOCK):
            self.handle_close()

    def handle_write(self):
        if self.close_when_flushed and not self.total_outbufs_len and not self.will_close:
            # To close at once, while the caller still sends, would destroy the answer.
            self.close_when_flushed, self.is_over = False, True
            self.since_s = self.server.clock()
            self.socket.shutdown(socket.SHUT_WR)
        else:
            super().handle_write()


class WebServer(TcpWSGIServer):
    """Serves a WSGI application on a host and port. Raises OSError if it cannot listen.

    ``max_body``: bytes of a body. ``refusal(status, why)`` returns the headers and the body of the
    answer to a request that the application does not get. Each path of ``probes`` has a thread of
    its own, so that it is answered whatever others do. ``stop`` waits for ``shutdown_timeout``
    seconds at most for requests that have begun.
    """

    channel_class = Channel

    def __init__(
        self, address, served, max_body, refusal=plain, probes=(), *,
        threads, name, shutdown_timeout=5, clock=time.monotonic,
    ):  # fmt: skip
        family = socket.AF_INET6 if ':' in address[0] else socket.AF_INET
        listening = socket.create_server(address, family=family, backlog=MAX_CONNECTIONS)
        self.refusal, self.clock = refusal, clock
        self._shutdown_timeout, self._stop_s = shutdown_timeout, None
        self._ended = threading.Event()
        super().__init__(
            served,
            _sock=listening,
            sockinfo=(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, listening.getsockname()),
            bind_socket=False,
            listen='127.0.0.1:0',  # not used: it would be looked up
            threads=threads,
            ident=name,
            max_request_header_size=MAX_HEAD,
            max_request_body_size=max_body + 1,  # the first size that is refused
            inbuf_overflow=MAX_IN_MEMORY,
            outbuf_overflow=MAX_IN_MEMORY,
            connection_limit=2**31,  # `handle_accept` has another one
            cleanup_interval=2**31,  # by the wall clock; `_close_late` does it
            backlog=MAX_CONNECTIONS,
            clear_untrusted_proxy_headers=False,
            log_socket_errors=False,
        )
        self._refusing = _one_thread()
        self._probing = {path: _one_thread() for path in probes}

    @property
    def bind_addr(self):
        """Host and port at which it listens."""
        return self.effective_host, self.effective_port

    def getsockname(self):
        return self.socket.getsockname()[:2]  # no name is looked up, which eventlet does by DNS

    def add_task(self, task):
        request = task.requests[0]
        if request.error:
            self._refusing.add_task(task)
        elif request.path in self._probing:
            self._probing[request.path].add_task(task)
        elif len(self.task_dispatcher.queue) < MAX_QUEUED:
            self.task_dispatcher.add_task(task)
        else:
            request.error = Busy('Too many requests wait.')
            self._refusing.add_task(task)

    def handle_accept(self):
        super().handle_accept()
        if len(self.active_channels) > MAX_CONNECTIONS:
            self._close_oldest()

    def accept(self):
        try:
            return super().accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._close_oldest()
                time.sleep(PAUSE_S)
            raise

    def _close_oldest(self):
        """Close one that no thread works for, if there is one; first of those that have sent
        nothing."""
        idle = [channel for channel in self.active_channels.values() if not channel.requests]
        if idle:
            min(idle, key=lambda channel: (channel.is_begun, channel.since_s)).handle_close()

    def _close_late(self):
        now_s, is_ending = self.clock(), self._stop_s is not None
        for channel in list(self.active_channels.values()):
            if channel.is_late(now_s) or (is_ending and not channel.is_begun):
                channel.handle_close()

    def serve(self):
        """Serve until ``stop``, and until what has begun by then is answered."""
        try:
            while not self._is_done():
                # Eventlet has no poll.
                wasyncore.loop(POLL_S, hasattr(select, 'poll'), self._map, count=1)
                self._close_late()
        finally:
            for channel in list(self.active_channels.values()):
                channel.handle_close()
            for dispatcher in (self.task_dispatcher, self._refusing, *self._probing.values()):
                dispatcher.shutdown(timeout=1)
            self.close()
            self._ended.set()

    def _is_done(self):
        if self._stop_s is None:
            return False
        if self.accepting:
            self.accepting = False
            wasyncore.dispatcher.close(self)
        return not self.active_channels or self.clock() >= self._stop_s

    def stop(self):
        """End ``serve``, from another thread, and wait for its end."""
        self._stop_s = self.clock() + self._shutdown_timeout
        if not self._ended.is_set():
            self.pull_trigger()
        self._ended.wait()

    def pull_trigger(self):
        """Wake the loop up, from any thread."""
        # It has ended; or, with eventlet, another thread does so at the same time.
        with contextlib.suppress(OSError, RuntimeError):
            super().pull_trigger()


def _one_thread():
    dispatcher = ThreadedTaskDispatcher()
    dispatcher.set_thread_count(1)
    return dispatcher
