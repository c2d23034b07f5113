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
"""A consumer on RabbitMQ: one thread with one connection, which it opens again after each loss."""

import collections
import contextlib
import logging
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Protocol

import amqp
from amqp.exceptions import AMQPNotImplementedError

from nova_sched import errors
from nova_sched.extensions.queues import brokers
from nova_sched.extensions.queues.brokers.amqp_session import DeliveryTag, Session
from nova_sched.rpc import amqp_link as rabbit

LOG = logging.getLogger(__name__)

BEATS = 4  # checks of the heartbeats in each of their intervals
PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0  # between attempts to connect: each is twice the one before
MISSING_S = 3.0  # between checks for queues that do not exist


class Resend(Protocol):
    """AmqpBroker.send: returns whether the queue exists; raises BrokerUnavailable."""

    def __call__(
        self,
        queue: str,
        body: bytes,
        tries: int = 0,
        expires: bool = False,
        reason: str | None = None,
        sent_ms: int | None = None,
    ) -> bool: ...


class AmqpConsumer(brokers.Consumer):
    """``connect`` opens a connection or raises BrokerUnavailable, as this constructor does.

    The consumer's thread does all work on the connection; other threads pass calls to it.
    ``whole``: see amqp_session. It is turned off permanently when RabbitMQ does not support it.
    """

    def __init__(
        self,
        connect: Callable[[], amqp.Connection],
        send: Resend,
        deliver: Callable[[brokers.Delivery], None],
        name: str,
        whole: bool,
    ):
        self._connect = connect
        self._send = send
        self._deliver = deliver
        self._name = name
        self._whole = whole
        self._wanted: dict[str, int] = {}
        self._window = 1
        self._session: Session | None = None
        self._inflight: set[DeliveryTag] = set()
        self._pause_s = PAUSE_S
        self._connect_at_s = self._retry_at_s = 0.0
        self._orders: collections.deque[tuple[Callable[[], None], futures.Future[None]]] = (
            collections.deque()
        )
        self._stopping = False
        self._over = threading.Event()
        self._hear, self._wake = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._hear, selectors.EVENT_READ)
        for end in (self._hear, self._wake):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=f'queues {name}', daemon=True)
        try:
            self._begin_session()
        except BaseException:
            self._close()
            raise
        self._thread.start()

    # Called by other threads.

    def window(self, count: int) -> None:
        if count < 1:
            raise ValueError(f'a window of {count}')
        self._order(lambda: self._set_window(count))

    def follow(self, wanted: Mapping[str, int | None]) -> None:
        changes = dict(wanted)
        self._order(lambda: self._follow(changes)).result()

    def ack(self, delivery: brokers.Delivery) -> None:
        if self._end(delivery):
            self._order(lambda: self._settle(delivery.tag, done=True))

    def put_back(self, delivery: brokers.Delivery, queue: str | None = None) -> None:
        if self._end(delivery):
            self._send_again(delivery, queue or delivery.queue, delivery.tries + 1)

    def stop(self) -> None:
        self._order(self._stop)
        if threading.current_thread() is not self._thread:
            self._over.wait()

    def _order(self, work: Callable[[], None]) -> 'futures.Future[None]':
        """Run a call in the consumer's thread, at once if this is that thread. Returns a future of
        its end.

        After the thread has ended there is no session, so any thread may run a late call.
        """
        done: futures.Future[None] = futures.Future()
        self._orders.append((work, done))
        if threading.current_thread() is self._thread or self._over.is_set():
            self._obey()
        else:
            with contextlib.suppress(
                OSError
            ):  # many wake-ups are pending already, or the consumer has just ended
                self._wake.send(b'.')
        return done

    def _end(self, delivery: brokers.Delivery) -> bool:
        """Whether the delivery was held until now, on the current connection."""
        try:
            self._inflight.remove(delivery.tag)
        except KeyError:
            return False
        return True

    def _send_again(
        self, delivery: brokers.Delivery, queue: str, tries: int, sent_ms: int | None = None
    ) -> None:
        """Send a copy and acknowledge the delivery; if that fails, return it to RabbitMQ
        unchanged."""
        expires = delivery.tag.expires and queue == delivery.queue
        try:
            sent = self._send(queue, delivery.body, tries, expires, sent_ms=sent_ms) or self._send(
                brokers.FALLBACK, delivery.body, tries, reason=brokers.DROPPED
            )
        except errors.BrokerUnavailable as error:
            LOG.warning('Consumer %s could not put a message back: %s', self._name, error)
            sent = False
        self._order(lambda: self._settle(delivery.tag, done=sent))

    # Called by the consumer's thread.

    def _run(self) -> None:
        try:
            while not self._stopping:
                try:
                    self._turn()
                except rabbit.ERRORS as error:
                    self._lose(error)
        finally:
            if self._session is not None:
                self._session.close()
                self._session = None
            self._over.set()
            self._obey()
            self._close()

    def _turn(self) -> None:
        """Wait until there is work, and do it."""
        if self._session is None and time.monotonic() >= self._connect_at_s:
            try:
                self._begin_session()
            except errors.BrokerUnavailable as error:
                LOG.warning('Consumer %s cannot connect: %s', self._name, error)
                self._rest()
        self._wait()
        self._obey()
        self._hand_over()

    def _wait(self) -> None:
        """Wait for a call, a frame or the next due time, and read the frame."""
        now_s, session = time.monotonic(), self._session
        if session is None:
            until_s = self._connect_at_s
        else:
            until_s = now_s + session.beat_s / BEATS
            if session.missing:
                until_s = min(until_s, self._retry_at_s)
            if session.arrived or session.excess or session.pending():
                until_s = now_s  # read while waiting for an answer
        timeout_s = max(0.0, until_s - now_s)
        ready = {key.fileobj for key, _ in self._selector.select(timeout_s)}
        if self._hear in ready:
            self._hear.recv(4096)
        if session is not None:
            if session.pending() or len(ready) > (self._hear in ready):
                session.read()
            session.beat(BEATS)
            if session.missing and time.monotonic() >= self._retry_at_s:
                self._retry_at_s = time.monotonic() + MISSING_S
                session.retry()

    def _obey(self) -> None:
        while True:
            try:
                work, done = self._orders.popleft()
            except IndexError:
                return
            try:
                work()
            except rabbit.ERRORS as error:
                self._lose(error)
            finally:
                done.set_result(None)

    def _hand_over(self) -> None:
        """Pass new messages to the worker, and return those above the window."""
        while (session := self._session) is not None and not self._stopping:
            if session.excess:
                delivery = session.excess.pop()
                self._send_again(delivery, delivery.queue, delivery.tries, delivery.tag.sent_ms)
            elif session.arrived:
                delivery = session.arrived.popleft()
                self._inflight.add(delivery.tag)
                self._call(delivery)
            else:
                session.reopen()
                return

    def _call(self, delivery: brokers.Delivery) -> None:
        try:
            self._deliver(delivery)
        except Exception:  # an error in ``deliver`` must not end the connection
            LOG.exception('Consumer %s failed on a message of %s', self._name, delivery.queue)

    def _begin_session(self) -> None:
        connection = self._connect()
        try:
            session = Session(connection, self._window, self._whole)
            session.follow(self._wanted)
            self._selector.register(session, selectors.EVENT_READ)
        except rabbit.ERRORS as error:
            rabbit.close(connection)
            self._heed(error)
            raise errors.BrokerUnavailable(str(error)) from error
        self._session = session
        self._pause_s = PAUSE_S
        LOG.info('Consumer %s is connected', self._name)

    def _lose(self, error: Exception) -> None:
        """Drop the connection; RabbitMQ delivers the held messages again."""
        if self._session is not None:
            LOG.warning(
                'Consumer %s lost its connection: %s', self._name, error or type(error).__name__
            )
            self._heed(error)
            self._selector.unregister(self._session)
            self._session.close()
            self._session = None
            self._inflight.clear()
            self._rest()

    def _heed(self, error: Exception) -> None:
        if self._whole and isinstance(error, AMQPNotImplementedError):
            LOG.warning(
                'Some queues are quorum queues: several jobs may arrive at once, '
                'and are put back then. %s',
                error,
            )
            self._whole = False

    def _rest(self) -> None:
        """Connect again after a random pause, so that not all consumers connect at once."""
        self._connect_at_s = time.monotonic() + self._pause_s * random.uniform(0.5, 1.5)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _close(self) -> None:
        self._selector.close()
        self._hear.close()
        self._wake.close()

    # Calls that other threads pass on.

    def _set_window(self, count: int) -> None:
        self._window = count
        if self._session is not None:
            self._session.window(count)

    def _follow(self, changes: Mapping[str, int | None]) -> None:
        for queue, priority in changes.items():
            if priority is None:
                self._wanted.pop(queue, None)
            else:
                self._wanted[queue] = priority
        if self._session is not None:
            self._session.follow(changes)

    def _settle(self, tag: DeliveryTag, done: bool) -> None:
        """Acknowledge or reject; does nothing if the connection of the delivery was lost."""
        if self._session is not None and self._session.holds(tag):
            if done:
                self._session.ack(tag)
            else:
                self._session.reject(tag)

    def _stop(self) -> None:
        self._stopping = True
