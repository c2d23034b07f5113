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
"""The RPC server: one thread that takes messages and answers them, in batches."""

import collections
import concurrent.futures
import contextlib
import logging
import math
import os
import sys
import threading
import time

import oslo_messaging as messaging

from nova_sched.engine.clock import handling
from nova_sched.engine.loop import Deferred
from nova_sched.rpc.direct import settings, wire
from nova_sched.rpc.direct.replies import ReplySender
from nova_sched.rpc.direct.session import BrokerSession
from nova_sched.rpc.rabbit import BusUser

LOG = logging.getLogger(__name__)

PREFETCH = 256  # messages of each queue that are handled at the same time
THREADS = 64  # the default of executor_thread_pool_size
MAX_HANDLED = 1000  # handled messages that are recognised when they are delivered again
MAX_NAP_S = 0.01  # for the loop to handle a batch, before more messages are read
MAX_BATCH = 64  # messages to pass to the loop as one batch
CONNECTING_S = 1.0  # for a server that is stopped while it connects
ENDING_S = 10.0  # for a broker that is away when the server ends


class DirectServer(BusUser):
    """An RPC server on RabbitMQ. It is ended with ``stop`` and ``finish``.

    Its thread takes what waits, and passes it to the dispatcher. Methods that do not wait run in
    that thread, the others in a pool. The thread sends the answers as they come, and acknowledges
    a message when RabbitMQ has confirmed its answer. After a lost connection RabbitMQ delivers the
    other messages again. Those that this process handled or handles are not handled again.
    """

    def __init__(self, bus, target, dispatcher, loop=None):
        """``loop`` (engine.loop.Loop) decides what the methods begin.

        Raises BadConfig for a bus that is not RabbitMQ.
        """
        bus_settings = settings.of(bus)
        rabbit = bus_settings.rabbit
        self._wanted = settings.of_server(rabbit, target.exchange, target.topic, target.server)
        self._dispatcher = dispatcher
        self._loop = loop
        self._prefetch = rabbit.rabbit_qos_prefetch_count or PREFETCH
        self._pool = concurrent.futures.ThreadPoolExecutor(
            getattr(bus.conf, 'executor_thread_pool_size', THREADS), 'nova-sched-rpc'
        )
        self._offsets = {}
        self._calls = {}  # unique id: the Call that is handled, or whose answer is not confirmed
        self._nameless = set()  # the same without a unique id
        self._handled = collections.OrderedDict()  # unique ids
        self._decided = collections.deque()  # calls to finish; other threads append
        self._replies = ReplySender(rabbit, self._forget)
        self._stopping = self._cancelled = False
        self._gathering = contextlib.nullcontext if loop is None else loop.gathering
        self._end_at_s = None
        self._listening = threading.Event()
        self._is_napping = False
        if loop is not None:
            loop.follow(self._after_batch)
        name = f'{os.path.basename(sys.argv[0])}:{os.getpid()}:{target.topic}'
        self._bus = bus_settings.thread(self, name, 'The RPC server')

    # Called by other threads.

    def start(self):
        """Return when the server takes messages; it waits for a broker that is away."""
        self._bus.start()
        self._listening.wait()

    def stop(self):
        """Take no more messages. Does not wait."""
        self._stopping = True
        self._bus.rouse()

    def finish(self):
        """After ``stop``: wait until all messages that were taken are answered, and end."""
        if self._listening.wait(CONNECTING_S):  # one that still connects takes no message
            self._bus.join()
        self._pool.shutdown(wait=False)

    def _done(self, call):
        self._decided.append(call)
        # In the loop's thread, all answers of a batch wait for its end.
        if self._loop is None or not self._loop.is_current():
            self._bus.rouse()

    def _after_batch(self):
        """The loop has handled a batch."""
        if self._decided or self._is_napping:
            self._bus.rouse()

    # Called by the thread of the bus.

    def open(self, connection):
        is_ending = self._stopping
        session = BrokerSession(connection, self._wanted, self._prefetch)
        if not is_ending:
            session.consume(self._offsets)
        self._cancelled = is_ending
        self._end_at_s = None
        self._listening.set()
        return session

    def lost(self, session, _error):
        """The answers that were not confirmed are sent again on the next connection."""
        if session is None:
            return
        self._offsets |= session.offsets
        self._replies.take_confirms(session)
        self._replies.take_back(session)
        for call in [*self._calls.values(), *self._nameless]:
            call.tags.clear()

    def is_over(self):
        """Whether all is done after ``stop``, or the broker does not come back for it."""
        if not self._stopping:
            return False
        session = self._bus.session
        if session is None and self._end_at_s is None:
            self._end_at_s = time.monotonic() + ENDING_S
        if not self._listening.is_set() or not (self._calls or self._nameless):
            return session is None or (self._cancelled and not session.unacknowledged)
        return self._end_at_s is not None and time.monotonic() > self._end_at_s

    def ended(self):
        self._listening.set()

    def due_s(self):
        session = self._bus.session
        if self._decided or (session is not None and session.arrived):
            return -math.inf
        due_s = math.inf if session is None else self._replies.due_s
        return due_s if self._end_at_s is None else min(due_s, self._end_at_s)

    def work(self):
        session = self._bus.session
        if session is not None:
            if self._stopping and not self._cancelled:
                self._cancelled = True
                session.cancel()
            if session.arrived:
                with self._gathering():
                    for _ in range(min(len(session.arrived), MAX_BATCH)):
                        self._take(session)
        for _ in range(len(self._decided)):
            call = self._decided.popleft()
            if call.deferred is None:
                self._answered(call)
            elif call.deferred.waits():
                self._pool.submit(self._finish, call, self._done)
            else:
                self._finish(call, self._answered)
        if session is not None:
            self._replies.take_confirms(session)
            self._replies.send(session)
            session.acknowledge()
        if self._loop is not None and self._loop.is_busy and not self._decided:
            # A short time until the loop has handled its batch: two threads that compute at the
            # same time keep each other waiting.
            self._is_napping = True
            self._bus.nap(MAX_NAP_S)
            self._is_napping = False

    # Messages.

    def _take(self, session):
        """Handle the next message, unless it was delivered before. If so, the answer to it also
        answers this delivery."""
        received = session.take()
        tag = received.delivery_tag
        try:
            call = wire.Call(wire.read(received))
        except Exception:
            LOG.exception('A message cannot be read, and is dropped')
            session.reject(tag)
            return
        known = self._calls.get(call.unique_id)
        if known is not None:
            known.tags.append((session, tag))
            LOG.info('Message %s was delivered again while it is handled', call.unique_id)
        elif call.unique_id in self._handled:
            session.settle(tag)
            LOG.info('Message %s was delivered again after it was handled', call.unique_id)
        else:
            self._begin(call, session, tag)

    def _begin(self, call, session, tag):
        call.tags.append((session, tag))
        call.received = self._dispatcher.received(call)
        if call.unique_id is None:
            self._nameless.add(call)
        else:
            self._calls[call.unique_id] = call
        if self._dispatcher.is_once(call.message):
            call.settle(session)
            session.acknowledge()
        if self._dispatcher.begins(call.message):
            self._handle(call)
        else:
            self._pool.submit(self._handle, call)
        if call.msg_id and call.beat_s and call.text is None:
            self._replies.start_heartbeats(call)

    def _handle(self, call):
        """Pass a message to its method. In any thread."""
        answer = self._run_method(call, lambda: self._dispatcher.dispatch(call))
        if isinstance(answer, Deferred):
            call.deferred = answer
            answer.future.add_done_callback(lambda _: self._done(call))
        else:
            call.text = answer
            self._done(call)

    def _finish(self, call, then):
        """Make the answer from what the engine has decided, and pass the call on to ``then``. In
        any thread."""
        deferred, call.deferred = call.deferred, None
        call.text = self._run_method(call, deferred.result)
        then(call)

    def _run_method(self, call, work):
        """The text of the answer, or the Deferred that ``work`` returns."""
        failure = None
        try:
            with handling(call.received):
                result = work()
            if isinstance(result, Deferred):
                return result
            return wire.answer(call.msg_id, result)
        except messaging.ExpectedException as error:
            failure = error.exc_info
        except (messaging.NoSuchMethod, messaging.UnsupportedVersion) as error:
            failure = sys.exc_info()
            LOG.error('A message is refused: %s', error)
        except Exception:
            failure = sys.exc_info()
            LOG.exception('Exception during message handling')
        try:
            return wire.answer(call.msg_id, failure=failure)
        except Exception:
            LOG.exception('Can not send reply for message')
            return b''
        finally:
            del failure

    def _answered(self, call):
        """A call has its answer, or a cast is handled."""
        if call.msg_id and call.reply_q and call.text:
            self._replies.add(call)
        else:
            self._replies.drop(call)

    def _forget(self, call):
        """All is done for a message."""
        if self._bus.session is not None:
            call.settle(self._bus.session)
        self._nameless.discard(call)
        if self._calls.get(call.unique_id) is call:
            del self._calls[call.unique_id]
            self._handled[call.unique_id] = None
            if len(self._handled) > MAX_HANDLED:
                self._handled.popitem(last=False)
