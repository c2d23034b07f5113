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

One thread, the entrance, accepts connections, reads each request whole and sends what is left of
an answer, all without waiting. Cheroot's threads get a request when its last byte is there. So a
caller who sends or reads slowly costs one connection for some seconds, and no thread.
"""

import collections
import contextlib
import errno
import http
import io
import logging
import queue
import re
import selectors
import socket
import threading
import time

from cheroot import server, wsgi

LOG = logging.getLogger(__name__)

MOST_HEAD, MOST_LINES = 64 * 1024, 100  # bytes of the head of a request, and its header lines
MOST_CHUNK_LINE = 1024  # bytes of the line before a chunk
MOST_CONNECTIONS = 512  # that are read or sent to; a further one replaces the oldest
ACCEPTED = 64  # before others have their turn
MOST_QUEUED = 256  # requests that wait for a thread; a further one is refused
MOST_HELD = 64 * 1024 * 1024  # bytes of requests and answers that are not complete
# Seconds: for the next request of a connection, for the head of one, for all of it, for its
# answer, and for the caller to close.
IDLE_S, HEAD_S, WHOLE_S, ANSWER_S, CLOSE_S = 10.0, 10.0, 30.0, 60.0, 2.0
LOOK_S = 0.5  # between two looks at what is due
BLOCK = 64 * 1024
PROBE_THREADS = 2

END, BLANK = b'\r\n', b'\r\n\r\n'
NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
TEXT = re.compile(rb'[\t\x20-\x7e\x80-\xff]*')
DIGITS, HEX = re.compile(rb'[0-9]+'), re.compile(rb'[0-9A-Fa-f]+')


class Refused(Exception):
    """A request that is not read to its end: the status of its answer, and why."""

    def __init__(self, status, why):
        super().__init__(why)
        self.status = status


def plain(status, why):
    """The headers and the body of the answer to a request that is refused: plain text."""
    body = f'{status}: {why}\n'.encode()
    return [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))], body


class RequestReader:
    """Finds the requests in the bytes of one connection.

    A request is returned in plain form: with the length of its body, not in chunks, and without
    headers that say something else about its length. ``most_body``: bytes of a body.
    """

    def __init__(self, most_body):
        self._most_body = most_body
        self._bytes = bytearray()
        self._begin()

    def _begin(self):
        self._searched, self._head, self._body = 0, None, bytearray()
        self._left, self._framing = None, 0  # of a chunk; None: its length comes next

    @property
    def size(self):
        """Bytes that are held."""
        return len(self._bytes) + len(self._body)

    @property
    def has_head(self):
        """Whether the body is being read."""
        return self._head is not None

    @property
    def is_awaited(self):
        """Whether the caller waits for a sign that it may send the body."""
        return self.has_head and self._head.is_awaited and not self.size

    def add(self, data):
        self._bytes += data

    def take(self):
        """The next request as a pair of its path and its bytes; None if it is not complete yet.
        Raises Refused."""
        if self._head is None and not self._read_head():
            return None
        is_complete = self._read_chunks() if self._head.length is None else self._read_plain()
        if not is_complete:
            return None
        head, body = self._head, bytes(self._body)
        self._begin()
        text = END.join([*head.lines, b'Content-Length: %d' % len(body)] if body else head.lines)
        return head.path, text + BLANK + body

    def _read_head(self):
        if self._bytes.startswith(END):  # some callers send it after a body
            del self._bytes[:2]
        end = self._bytes.find(BLANK, max(0, self._searched - 3), MOST_HEAD)
        if end < 0:
            if len(self._bytes) >= MOST_HEAD:
                raise Refused(431, f'The head of a request may have {MOST_HEAD} bytes.')
            self._searched = len(self._bytes)
            return False
        self._head = Head(bytes(self._bytes[:end]), self._most_body)
        del self._bytes[: end + 4]
        return True

    def _read_plain(self):
        if len(self._bytes) < self._head.length:
            return False
        self._body += self._bytes[: self._head.length]
        del self._bytes[: self._head.length]
        return True

    def _read_chunks(self):
        """Move whole chunks to the body."""
        at = 0
        try:
            while True:
                if self._left is None:
                    end = self._line(at)
                    if end is None:
                        return False
                    size = bytes(self._bytes[at:end]).partition(b';')[0].strip(b' \t')
                    self._left, at = self._chunk_size(size), end + 2
                if self._left == 0:  # lines of a trailer, up to an empty one
                    end = self._line(at)
                    if end is None:
                        return False
                    is_last, at = end == at, end + 2
                    if is_last:
                        return True
                    continue
                end = at + self._left
                if len(self._bytes) < end + 2:
                    return False
                if self._bytes[end : end + 2] != END:
                    raise Refused(400, 'A chunk of the body has another length than it says.')
                self._body += self._bytes[at:end]
                self._left, at = None, end + 2
        finally:
            del self._bytes[:at]

    def _line(self, at):
        """Where the line at ``at`` ends; None if its end has not come yet."""
        end = self._bytes.find(END, at, at + MOST_CHUNK_LINE)
        if end < 0 and len(self._bytes) - at >= MOST_CHUNK_LINE:
            raise Refused(400, f'A line between chunks may have {MOST_CHUNK_LINE} bytes.')
        if end >= 0:
            self._framing += end + 2 - at
            if self._framing > self._most_body + MOST_HEAD:
                raise Refused(413, 'The body is in too many chunks.')
        return None if end < 0 else end

    def _chunk_size(self, text):
        if not HEX.fullmatch(text):
            raise Refused(400, 'A chunk of the body does not begin with its length.')
        size = int(text, 16)
        if len(self._body) + size > self._most_body:
            raise Refused(413, f'A body may have {self._most_body} bytes.')
        return size


class Head:
    """The request line and the headers. ``length`` of the body; None: it is in chunks. Raises
    Refused."""

    def __init__(self, text, most_body):
        first, *lines = text.split(END)
        if len(lines) > MOST_LINES:
            raise Refused(431, f'A request may have {MOST_LINES} header lines.')
        if not TEXT.fullmatch(first):
            raise Refused(400, 'The request line has control characters.')
        self.path = first.partition(b' ')[2].partition(b' ')[0].partition(b'?')[0]
        self.lines, self.is_awaited = [first], False
        said = {b'content-length': [], b'transfer-encoding': [], b'expect': [], b'host': []}
        for line in lines:
            name, _, value = line.partition(b':')
            if not (NAME.fullmatch(name) and TEXT.fullmatch(value) and b':' in line):
                raise Refused(400, 'A header line is no name and value.')
            known = name.lower()
            if known in said:
                said[known].append(value.strip(b' \t').lower())
            # An application cannot tell X_A from X-A.
            if b'_' not in name and (known not in said or known == b'host'):
                self.lines.append(line)
        if any(len(values) > 1 for values in said.values()):
            raise Refused(400, 'A header that may be given once is given more than once.')
        self._read_expect(*said[b'expect'])
        self.length = self._length(
            *said[b'content-length'], codings=said[b'transfer-encoding'], most_body=most_body
        )

    def _read_expect(self, wanted=None):
        if wanted not in (None, b'100-continue'):
            raise Refused(417, 'Only 100-continue can be expected.')
        self.is_awaited = wanted is not None

    def _length(self, given=None, codings=(), most_body=0):
        if codings:
            if given is not None or self.lines[0].endswith(b'HTTP/1.0'):
                raise Refused(400, 'The length of the body is given in two ways.')
            if codings != [b'chunked']:
                raise Refused(501, 'The only Transfer-Encoding is chunked.')
            return None
        if given is None:
            return 0
        if not DIGITS.fullmatch(given):
            raise Refused(400, 'Content-Length is no whole number.')
        if len(given) > 18 or int(given) > most_body:
            raise Refused(413, f'A body may have {most_body} bytes.')
        return int(given)


class Answer:
    """What Cheroot writes to: it sends as much as goes without waiting, and keeps the rest."""

    def __init__(self, sock):
        self._socket, self.unsent = sock, bytearray()

    def write(self, data):
        self.unsent += data
        self.send()
        return len(data)

    def send(self):
        """Raises OSError if the caller has gone."""
        with contextlib.suppress(BlockingIOError, InterruptedError):
            while self.unsent:
                del self.unsent[: self._socket.send(self.unsent[:BLOCK])]


class Connection(server.HTTPConnection):
    """A connection of Cheroot over whole requests. ``due_s`` is when the entrance drops it."""

    def __init__(self, served, sock):
        super().__init__(served, sock, _file)
        self.reader = RequestReader(served.most_body)
        self.begun_s = self.due_s = 0.0
        self.stays = True  # after the present answer
        self.is_over = False  # all is sent; the caller closes

    @property
    def size(self):
        """Bytes that are held for it."""
        return self.reader.size + len(self.wfile.unsent) + self.rfile.getbuffer().nbytes

    @property
    def is_begun(self):
        """Whether a request is read, or an answer is sent."""
        return not self.is_over and (self.size > 0 or self.reader.has_head)

    def close(self):
        """A thread of Cheroot has answered the last request."""
        self.server.entrance.take_back(self, stays=False)


class LastRequest(server.HTTPRequest):
    """The last request of its connection."""

    close_connection = True


def _file(sock, mode, _):
    return io.BytesIO() if 'r' in mode else Answer(sock)


class Entrance:
    """Reads and sends for all connections, in the thread that calls ``run``.

    ``make(socket)`` returns a Connection. ``dispatch(connection, path)`` gives a whole request to
    a thread and returns whether one takes it. ``refusal(status, why)`` returns the headers, as
    pairs, and the body of an answer.
    """

    def __init__(self, listening, make, dispatch, refusal, clock=time.monotonic):
        self._listening, self._make = listening, make
        self._dispatch, self._refusal, self._clock = dispatch, refusal, clock
        self._selector = selectors.DefaultSelector()
        self._held, self._working = set(), set()  # held: not given to a thread
        self._returned = collections.deque()
        self._woken, self._waker = socket.socketpair()
        self._stop_s, self._ended = None, threading.Event()
        self._ended.set()
        for each in (listening, self._woken, self._waker):
            each.setblocking(False)
        self._selector.register(listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._wake_up)

    def run(self):
        """Serve until ``stop``, and until what has begun by then is done."""
        self._ended.clear()
        look_s = self._clock()
        try:
            while not self._is_done():
                for key, _ in self._selector.select(LOOK_S):
                    if callable(key.data):
                        key.data()
                    elif key.data in self._held:  # it may have been dropped for another one
                        self._guarded(self._go_on, key.data)
                while self._returned:
                    self._guarded(self._answered, self._returned.popleft())
                if (now_s := self._clock()) >= look_s:
                    look_s = now_s + LOOK_S
                    self._drop_late(now_s)
        finally:
            self._stop_listening()
            for connection in list(self._held):
                self._drop(connection)
            self._ended.set()

    def stop(self, within_s):
        """End ``run``: take no connection any more, and wait for what has begun. May be called
        from another thread."""
        self._stop_s = self._clock() + within_s
        self._wake()
        self._ended.wait()

    def take_back(self, connection, stays):
        """A thread has answered a request. ``stays``: another one may follow."""
        connection.stays = stays
        self._returned.append(connection)
        self._wake()

    def _wake(self):
        with contextlib.suppress(OSError):  # it is full: it wakes up already; or it has ended
            self._waker.send(b'.')

    def _wake_up(self):
        with contextlib.suppress(OSError):
            self._woken.recv(BLOCK)

    def _is_done(self):
        if self._stop_s is None:
            return False
        self._stop_listening()
        for connection in [one for one in self._held if not one.is_begun]:
            self._drop(connection)
        is_idle = not (self._held or self._working or self._returned)
        return is_idle or self._clock() >= self._stop_s

    def _stop_listening(self):
        if self._listening is not None:
            self._selector.unregister(self._listening)
            self._listening.close()
            self._listening = None

    def _accept(self):
        for _ in range(ACCEPTED):
            try:
                sock, address = self._listening.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE) and self._held:
                    self._drop_oldest()
                    continue
                return
            sock.setblocking(False)
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if len(self._held) >= MOST_CONNECTIONS:
                self._drop_oldest()
            connection = self._make(sock)
            connection.remote_addr, connection.remote_port = address[:2]
            self._hold(connection, selectors.EVENT_READ, HEAD_S)

    def _hold(self, connection, events, for_s):
        """Wait for events of a connection."""
        connection.begun_s = self._clock()
        connection.due_s = connection.begun_s + for_s
        if connection in self._held:
            self._selector.modify(connection.socket, events, connection)
        else:
            self._selector.register(connection.socket, events, connection)
            self._held.add(connection)

    def _let_go(self, connection):
        if connection in self._held:
            self._held.discard(connection)
            self._selector.unregister(connection.socket)

    def _drop(self, connection):
        self._let_go(connection)
        with contextlib.suppress(OSError):
            connection.socket.shutdown(socket.SHUT_RDWR)  # a fork may have it, too
        connection.socket.close()

    def _drop_oldest(self):
        """Drop one of those that have sent nothing, if there is one."""
        self._drop(min(self._held, key=lambda one: (one.is_begun, one.begun_s)))

    def _drop_late(self, now_s):
        for connection in [one for one in self._held if one.due_s <= now_s]:
            if connection.is_begun and not connection.wfile.unsent:
                why = Refused(408, 'The request did not come in time.')
                self._guarded(self._refuse, connection, why)
            else:
                self._drop(connection)

    def _guarded(self, step, connection, *more):
        """One connection that fails costs itself only."""
        try:
            step(connection, *more)
        except OSError:
            self._drop(connection)
        except Exception:
            LOG.exception('A connection fails')
            self._drop(connection)

    def _go_on(self, connection):
        """Something has come from the caller, or can be sent to it."""
        if connection.wfile.unsent:
            connection.wfile.send()
            if not connection.wfile.unsent:
                self._sent(connection)
            return
        try:
            data = connection.socket.recv(BLOCK)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            self._drop(connection)
        elif not connection.is_over:
            connection.reader.add(data)
            self._read(connection)

    def _read(self, connection):
        """Give the next request to a thread, if it is whole."""
        reader, had_head = connection.reader, connection.reader.has_head
        try:
            found = reader.take()
            if found is not None:
                self._give(connection, *found)
                return
        except Refused as refused:
            self._refuse(connection, refused)
            return
        if reader.has_head and not had_head:
            connection.due_s = connection.begun_s + WHOLE_S
            if reader.is_awaited:
                connection.wfile.write(b'HTTP/1.1 100 Continue' + BLANK)
        self._make_room(connection)

    def _make_room(self, connection):
        """Keep to the bytes that are held for all: the oldest that holds many of them goes.
        Returns whether this connection may stay."""
        while (
            connection.size > BLOCK
            and sum(one.size for one in self._held | self._working) > MOST_HELD
        ):
            large = [one for one in self._held if one.size > BLOCK and one is not connection]
            if not large:
                self._refuse(connection, Refused(503, 'Too many large requests are read.'))
                return False
            self._drop(min(large, key=lambda one: one.begun_s))
        return True

    def _give(self, connection, path, request):
        self._let_go(connection)
        connection.rfile = io.BytesIO(request)
        self._working.add(connection)
        if self._make_room(connection) and not self._dispatch(connection, path):
            self._refuse(connection, Refused(503, 'Too many requests wait.'))

    def _answered(self, connection):
        self._working.discard(connection)
        connection.rfile = io.BytesIO()
        connection.wfile.send()
        if connection.wfile.unsent:
            self._hold(connection, selectors.EVENT_WRITE, ANSWER_S)
            self._make_room(connection)
        else:
            self._sent(connection)

    def _sent(self, connection):
        """All of an answer has been sent."""
        if connection.stays and self._stop_s is None:
            self._hold(connection, selectors.EVENT_READ, IDLE_S)
            if connection.reader.size:
                self._read(connection)
            return
        # What the caller still sends is thrown away: to close at once would destroy the answer.
        connection.is_over = True
        connection.socket.shutdown(socket.SHUT_WR)
        self._hold(connection, selectors.EVENT_READ, CLOSE_S)

    def _refuse(self, connection, refused):
        headers, body = self._refusal(refused.status, str(refused))
        lines = [
            f'HTTP/1.1 {refused.status} {http.HTTPStatus(refused.status).phrase}',
            *(f'{name}: {value}' for name, value in headers),
            'Connection: close',
        ]
        connection.stays, connection.reader = False, RequestReader(0)
        connection.wfile.write('\r\n'.join([*lines, '', '']).encode() + body)
        self._answered(connection)


class WebServer(wsgi.Server):
    """Serves a WSGI application. Requests for the paths ``probes`` have threads of their own, so
    that they are answered whatever the others do.

    ``most_body``: bytes of a body; ``refusal(status, why)`` returns the headers and the body of
    the answer to a request that is not read.
    """

    def __init__(self, address, served, most_body, refusal=plain, probes=(), **options):
        super().__init__(address, served, request_queue_size=MOST_CONNECTIONS, **options)
        self.most_body = most_body
        self._refusal, self._probes = refusal, frozenset(one.encode() for one in probes)
        self._probing = queue.Queue()
        self.entrance = None

    can_add_keepalive_connection = True

    def prepare(self):
        """Listen, and start the threads. Raises OSError."""
        super().prepare()
        self._connections.close()  # that of Cheroot gives a connection to a thread unread
        self.entrance = Entrance(
            self.socket, lambda sock: Connection(self, sock), self._give, self._refusal
        )
        for _ in range(PROBE_THREADS if self._probes else 0):
            threading.Thread(target=self._probe, name='nova-sched-probe', daemon=True).start()

    def _give(self, connection, path):
        if path in self._probes:
            self._probing.put(connection)
        elif self.requests.qsize < MOST_QUEUED:
            self.requests.put(connection)
        else:
            return False
        return True

    def _probe(self):
        while (connection := self._probing.get()) is not None:
            connection.RequestHandlerClass = LastRequest
            try:
                connection.communicate()
            except OSError as error:
                LOG.debug('A probe is not answered: %s', error)
            finally:
                connection.close()

    def put_conn(self, conn):
        """A thread has answered a request; another one may follow."""
        self.entrance.take_back(conn, stays=True)

    def serve(self):
        self.entrance.run()

    def stop(self):
        """Answer what has begun, and end."""
        if not self.ready:
            return
        self.ready = False
        self.entrance.stop(self.shutdown_timeout)
        self.requests.stop(0)  # they have had their time
        for _ in range(PROBE_THREADS if self._probes else 0):
            self._probing.put(None)
