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
import os
import random
import selectors
import socket
import sys
import threading
import time

import oslo_messaging as messaging

from nova_sched import errors
from nova_sched.engine.clock import handling
from nova_sched.engine.deferred import Deferred
from nova_sched.rpc import amqp_link
from nova_sched.rpc.direct import envelope, settings, subscriptions
from nova_sched.rpc.direct.call import Call
from nova_sched.rpc.direct.reply_sender import ReplySender
from nova_sched.rpc.direct.session import BrokerSession

LOG = logging.getLogger(__name__)

PREFETCH = 256  # messages of each queue that are handled at the same time
THREADS = 64  # the default of executor_thread_pool_size
AGAIN_S = 0.25  # at most, until the server connects again
KNOWN = 1000  # handled messages that are recognised when they are delivered again
LET_S = 0.01  # for the loop to handle a batch, before more messages are read
TOGETHER = 64  # messages to pass to the loop as one batch
ENDING_S = 10.0  # for a broker that is away when the server ends


class DirectServer:
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
        self._settings = settings.of(bus)
        rabbit = self._settings.rabbit
        self._wanted = subscriptions.of_server(
            rabbit, target.exchange, target.topic, target.server
        )
        self._topic = target.topic
        self._dispatcher = dispatcher
        self._loop = loop
        self._prefetch = rabbit.rabbit_qos_prefetch_count or PREFETCH
        self._pool = concurrent.futures.ThreadPoolExecutor(
            getattr(bus.conf, 'executor_thread_pool_size', THREADS), 'nova-sched-rpc'
        )
        self._session = None
        self._offsets = {}
        self._calls = {}  # unique id: the Call that is handled, or whose answer is not confirmed
        self._nameless = set()  # the same without a unique id
        self._handled = collections.OrderedDict()  # unique ids
        self._decided = collections.deque()  # calls to finish; other threads append
        self._replies = ReplySender(rabbit, self._forget)
        self._pause_s = 0.0
        self._connect_at_s = 0.0
        self._beat_at_s = 0.0
        self._stopping = self._cancelled = False
        self._gathering = contextlib.nullcontext if loop is None else loop.gathering
        self._end_at_s = None
        self._listening, self._drained = threading.Event(), threading.Event()
        self._hear, self._wake = socket.socketpair()
        self._is_woken = self._is_waiting = False
        if loop is not None:
            loop.follow(self._after_batch)
        for end in (self._hear, self._wake):
            end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._wake_only = selectors.DefaultSelector()
        for selector in (self._selector, self._wake_only):
            selector.register(self._hear, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name='nova-sched-bus', daemon=True)

    # Called by other threads.

    def start(self):
        """Returns when the server takes messages; it waits for a broker that is away."""
        self._thread.start()
        self._listening.wait()

    def stop(self):
        """Take no more messages. Does not wait."""
        self._stopping = True
        self._rouse()

    def finish(self):
        """After ``stop``: wait until all messages that were taken are answered, and end."""
        self._thread.join()
        self._pool.shutdown(wait=False)
        self._selector.close()
        self._wake_only.close()
        self._hear.close()
        self._wake.close()

    def _rouse(self):
        """Let the thread look for work."""
        if not self._is_woken:
            self._is_woken = True
            with contextlib.suppress(OSError):  # it has just ended
                self._wake.send(b'.')

    def _done(self, call):
        self._decided.append(call)
        # In the loop's thread, all answers of a batch wait for its end.
        if self._loop is None or not self._loop.is_current():
            self._rouse()

    def _after_batch(self):
        """The loop has handled a batch."""
        if self._decided or self._is_waiting:
            self._rouse()

    # Called by the server's thread.

    def _run(self):
        try:
            while not self._is_over():
                try:
                    self._turn()
                except amqp_link.ERRORS as error:
                    self._lose(error)
                except Exception:
                    LOG.exception('The RPC server failed, and connects again')
                    self._lose(None)
        finally:
            self._close()
            self._listening.set()

    def _is_over(self):
        """Whether all is done after ``stop``, or the broker does not come back for it."""
        if not self._stopping:
            return False
        if self._session is None and self._end_at_s is None:
            self._end_at_s = time.monotonic() + ENDING_S
        if not self._listening.is_set() or not (self._calls or self._nameless):
            return self._session is None or (self._cancelled and not self._session.unacknowledged)
        return self._end_at_s is not None and time.monotonic() > self._end_at_s

    def _close(self):
        session, self._session = self._session, None
        if session is None:
            return
        self._selector.unregister(session)
        try:
            session.end()
        except amqp_link.ERRORS as error:
            LOG.warning('The connection to the broker did not end in good order: %s', error)
            session.close()

    def _turn(self):
        """Wait until there is work, and do it."""
        if self._session is None and time.monotonic() >= self._connect_at_s:
            self._connect()
        if self._stopping and self._session is not None and not self._cancelled:
            self._cancelled = True
            self._session.cancel()
        self._wait()
        if self._session is not None:
            self._take_arrived()
        self._finish_decided()
        if self._session is not None:
            self._replies.take_confirms(self._session)
            self._replies.send(self._session)
            self._session.acknowledge()

    def _wait(self):
        """Wait for a message, a decision or the next due time, and read what has come."""
        session = self._session
        if self._loop is not None and self._loop.is_busy and not self._decided:
            self._let_the_loop_run()
        until_s = self._due_s()
        if self._decided or (session is not None and (session.arrived or session.is_pending())):
            timeout_s = 0.0
        else:
            timeout_s = max(0.0, until_s - time.monotonic())
        ready = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        if self._hear in ready:
            self._is_woken = False
            with contextlib.suppress(BlockingIOError):
                self._hear.recv(4096)
        if session is None:
            return
        if session in ready or session.is_pending():
            session.read()
        now_s = time.monotonic()
        if now_s >= self._beat_at_s:
            rate = max(self._settings.rabbit.heartbeat_rate, 2) * 2
            self._beat_at_s = now_s + session.beat_s / rate
            session.beat(rate)

    def _let_the_loop_run(self):
        """Wait until the loop has handled its batch, but not long: of two threads that compute at
        the same time, each waits for the other one all the time."""
        self._is_waiting = True
        self._wake_only.select(LET_S)
        self._is_waiting = False

    def _due_s(self):
        """When there is work even if nothing comes."""
        if self._session is None:
            due = [self._connect_at_s]
        else:
            due = [self._beat_at_s, self._replies.due_s]
        if self._end_at_s is not None:
            due.append(self._end_at_s)
        return min(due)

    # The connection.

    def _connect(self):
        rabbit = self._settings.rabbit
        name = f'{os.path.basename(sys.argv[0])}:{os.getpid()}:{self._topic}'
        connection = None
        try:
            connection = amqp_link.connect(
                self._settings.cluster, name, rabbit.heartbeat_timeout_threshold
            )
            session = BrokerSession(connection, self._wanted, self._prefetch)
            if not self._stopping:
                session.consume(self._offsets)
        except (errors.BrokerUnavailable, *amqp_link.ERRORS) as error:
            if connection is not None:
                amqp_link.close(connection)
            self._rest()
            LOG.error(
                'The broker is unreachable: %s. Trying again in %.1f s',
                getattr(error, 'why', error),
                self._pause_s,
            )
            return
        self._cancelled = self._stopping
        self._session = session
        self._selector.register(session, selectors.EVENT_READ)
        self._pause_s = self._beat_at_s = 0.0
        self._end_at_s = None
        self._listening.set()
        LOG.info('The RPC server is connected to the broker')

    def _lose(self, error):
        """Drop the connection. The answers that were not confirmed are sent again on the next
        one."""
        session, self._session = self._session, None
        if session is None:
            LOG.error('The RPC server failed: %s', error)
            self._rest()
            return
        LOG.error('The broker is unreachable: %s', error or type(error).__name__)
        self._selector.unregister(session)
        self._offsets |= session.offsets
        session.close()
        self._replies.take_back(session)
        for call in [*self._calls.values(), *self._nameless]:
            call.tags.clear()
        self._connect_at_s = time.monotonic() + random.uniform(0.0, AGAIN_S)

    def _rest(self):
        rabbit = self._settings.rabbit
        if self._pause_s:
            self._pause_s += rabbit.rabbit_retry_backoff
        else:
            self._pause_s = rabbit.rabbit_retry_interval
        self._pause_s = min(self._pause_s, rabbit.rabbit_interval_max)
        self._connect_at_s = time.monotonic() + self._pause_s

    # Messages.

    def _take_arrived(self):
        arrived = self._session.arrived
        if not arrived:
            return
        with self._gathering():
            for _ in range(min(len(arrived), TOGETHER)):
                self._take(arrived.popleft())

    def _take(self, found):
        session, tag = self._session, found.delivery_tag
        try:
            call = Call(envelope.read(found))
        except Exception:
            LOG.exception('A message cannot be read, and is dropped')
            session.reject(tag)
            return
        if not self._is_known(call, tag):
            self._begin(call, tag)

    def _is_known(self, call, tag):
        """Whether this message was delivered before; if so, its answer also answers it now."""
        known = self._calls.get(call.unique_id)
        if known is not None:
            known.tags.append((self._session, tag))
            LOG.info('Message %s was delivered again while it is handled', call.unique_id)
        elif call.unique_id in self._handled:
            self._session.settle(tag)
            LOG.info('Message %s was delivered again after it was handled', call.unique_id)
        else:
            return False
        return True

    def _begin(self, call, tag):
        call.tags.append((self._session, tag))
        call.received = self._dispatcher.received(call)
        if call.unique_id is None:
            self._nameless.add(call)
        else:
            self._calls[call.unique_id] = call
        if self._dispatcher.is_once(call.message):
            call.settle(self._session)
            self._session.acknowledge()
        if self._dispatcher.begins(call.message):
            self._handle(call)
        else:
            self._pool.submit(self._handle, call)
        if call.msg_id and call.beat_s and call.text is None:
            self._replies.show_life(call)

    def _handle(self, call):
        """Pass a message to its method. In any thread."""
        answer = self._run_method(call, lambda: self._dispatcher.dispatch(call))
        if isinstance(answer, Deferred):
            call.deferred = answer
            answer.future.add_done_callback(lambda _: self._done(call))
        else:
            call.text = answer
            self._done(call)

    def _finish(self, call):
        """Make the answer from what the engine has decided. In any thread."""
        deferred, call.deferred = call.deferred, None
        call.text = self._run_method(call, deferred.result)
        self._done(call)

    def _run_method(self, call, work):
        """The text of the answer, or the Deferred that ``work`` returns."""
        failure = None
        try:
            with handling(call.received):
                result = work()
            if isinstance(result, Deferred):
                return result
            return envelope.answer(call.msg_id, result)
        except messaging.ExpectedException as error:
            failure = error.exc_info
        except (messaging.NoSuchMethod, messaging.UnsupportedVersion) as error:
            failure = sys.exc_info()
            LOG.error('A message is refused: %s', error)
        except Exception:
            failure = sys.exc_info()
            LOG.exception('Exception during message handling')
        try:
            return envelope.answer(call.msg_id, failure=failure)
        except Exception:
            LOG.exception('Can not send reply for message')
            return b''
        finally:
            del failure

    def _finish_decided(self):
        for _ in range(len(self._decided)):
            call = self._decided.popleft()
            if call.deferred is None:
                self._answered(call)
            elif call.deferred.waits():
                self._pool.submit(self._finish, call)
            else:
                deferred, call.deferred = call.deferred, None
                call.text = self._run_method(call, deferred.result)
                self._answered(call)

    def _answered(self, call):
        """A call has its answer, or a cast is handled."""
        if call.msg_id and call.reply_q and call.text:
            self._replies.add(call)
        else:
            self._replies.drop(call)

    def _forget(self, call):
        """All is done for a message."""
        if self._session is not None:
            call.settle(self._session)
        self._nameless.discard(call)
        if self._calls.get(call.unique_id) is call:
            del self._calls[call.unique_id]
            self._handled[call.unique_id] = None
            if len(self._handled) > KNOWN:
                self._handled.popitem(last=False)
