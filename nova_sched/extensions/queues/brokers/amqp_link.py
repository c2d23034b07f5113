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
"""The job broker on RabbitMQ: sharing of connections, sending, and the queues there.

Publishers send to the exchange of this project, to which each queue is bound by its name. Before a
queue is deleted, it is unbound, and then emptied. RabbitMQ acknowledges and loses messages that
arrive while it deletes a queue, so no message may be in transit to the queue by then.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import amqp
from amqp import spec
from amqp.exceptions import AMQPError, NotFound, PreconditionFailed

from nova_sched import errors
from nova_sched.extensions.queues import brokers, conf
from nova_sched.rpc.rabbit import ERRORS, SILENCE_S, body, close, headers

Result = TypeVar('Result')

BATCH = 500  # commands that are sent before their answers are read


class LinkPool:
    """Connections that several threads share, at most ``size`` at the same time.

    ``open_link`` opens one, or raises BrokerUnavailable; a link has ``close``.
    """

    def __init__(self, open_link: Callable[[], Any], size: int):
        self._open_link = open_link
        self._room = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._closed = False

    def run(self, work: Callable[[Any], Result]) -> Result:
        """Return ``work(link)``; if the link fails, the work is repeated once with a new one.

        Raises BrokerUnavailable; the work is then done or not.
        """
        with self._room:
            try:
                return self._once(self._take(), work)
            except ERRORS:
                pass  # it may have been idle when the broker restarted
            try:
                return self._once(self._open_link(), work)
            except ERRORS as error:
                raise errors.BrokerUnavailable(str(error) or type(error).__name__) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _take(self) -> Any:
        with self._lock:
            if self._closed:
                raise errors.BrokerUnavailable('the connections were closed')
            if self._idle:
                return self._idle.pop()
        return self._open_link()

    def _once(self, link: Any, work: Callable[[Any], Result]) -> Result:
        try:
            result = work(link)
        except BaseException:
            link.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(link)
                return result
        link.close()
        return result


EXCHANGE = 'nova_sched'
PREFIX = 'nova_sched.'
SETTLE_S = 0.05  # seconds until RabbitMQ has enqueued the messages that it has routed
UNUSED_MS = 3_600_000

TRIES, REASON, SENT_MS = 'tries', 'reason', 'sent_ms'  # headers


def on_broker(queue: str) -> str:
    """Return the name of a queue on RabbitMQ."""
    return PREFIX + queue


def arguments(queue: str, queue_type: str, fallback_after_s: float) -> dict[str, Any]:
    """Return the arguments with which RabbitMQ declares a queue."""
    declaration: dict[str, Any] = {
        'x-queue-type': conf.CLASSIC if brokers.temporary(queue) else queue_type
    }
    if brokers.temporary(queue):
        declaration['x-expires'] = UNUSED_MS
    if brokers.always_expires(queue):
        declaration['x-message-ttl'] = milliseconds(fallback_after_s)
    if brokers.falls_back(queue):
        declaration |= {
            'x-dead-letter-exchange': '',
            'x-dead-letter-routing-key': on_broker(brokers.FALLBACK),
        }
        if queue_type == conf.QUORUM:
            declaration |= {
                'x-dead-letter-strategy': 'at-least-once',
                'x-overflow': 'reject-publish',
            }
    return declaration


def milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def message(
    body: bytes,
    tries: int = 0,
    reason: str | None = None,
    sent_ms: int | None = None,
    ttl_s: float | None = None,
) -> amqp.Message:
    """Return a message that survives a restart of the broker.

    With ``ttl_s`` it expires that many seconds after ``sent_ms``.
    """
    now_ms = int(time.time() * 1000)
    headers: dict[str, Any] = {TRIES: tries, SENT_MS: sent_ms or now_ms}
    if reason is not None:
        headers[REASON] = reason
    properties = {}
    if ttl_s is not None:
        left_s = ttl_s - (now_ms - headers[SENT_MS]) / 1000
        properties['expiration'] = str(milliseconds(min(left_s, ttl_s)))
    return amqp.Message(body, application_headers=headers, delivery_mode=2, **properties)


class Link:
    """A connection that sends, and creates and deletes queues. One thread at a time; raises
    ERRORS."""

    def __init__(self, connection: amqp.Connection, queue_type: str, fallback_after_s: float):
        self._connection = connection
        self._queue_type, self._fallback_after_s = queue_type, fallback_after_s
        self._channel = connection.channel()
        self._channel.exchange_declare(EXCHANGE, 'direct', durable=True, auto_delete=False)
        self._channel.confirm_select()
        self._channel.events['basic_return'].add(self._on_return)
        self._returned = False
        self.declare([brokers.FALLBACK, brokers.RESULTS])

    def close(self) -> None:
        close(self._connection)

    def send(self, queue: str, content: amqp.Message) -> bool:
        """Return whether the queue exists; RabbitMQ has confirmed the message then."""
        self._returned = False
        self._channel.basic_publish_confirm(
            content,
            EXCHANGE,
            on_broker(queue),
            mandatory=True,
            timeout=SILENCE_S,
            confirm_timeout=SILENCE_S,
        )
        return not self._returned

    def _on_return(self, *_: Any) -> None:
        self._returned = True

    @contextlib.contextmanager
    def _aside(self) -> Iterator[Any]:
        """A channel for calls that RabbitMQ may answer by closing it; after an error the link is
        closed."""
        channel = self._connection.channel()
        yield channel
        channel.close()

    def declare(self, queues: Sequence[str]) -> list[str]:
        """Create and bind the queues that do not exist. Returns some of the existing ones that
        differ.

        A queue that differs costs a new channel only if the one before it does not differ. After
        one that differs, the next ones are only checked for existence, until one does not exist.
        """
        differ, at, passive = [], 0, False
        with self._aside() as channel:
            while at < len(queues):
                first = at
                at, refused = self._declare_some(channel, queues, at, passive)
                for name in map(on_broker, queues[first:at]):
                    channel.queue_bind(name, EXCHANGE, name, nowait=True)
                channel.basic_qos(0, 0, False)  # answered when all are bound
                if refused and not passive:
                    differ.append(queues[at])
                passive ^= refused
        return differ

    def _declare_some(
        self, channel: Any, queues: Sequence[str], at: int, passive: bool
    ) -> tuple[int, bool]:
        """Declare queues from ``at`` on. Returns where that stopped, and whether the next one is
        refused."""
        batch = queues[at : at + BATCH]
        refusal: type[AMQPError] = NotFound if passive else PreconditionFailed
        for queue in batch:
            features = arguments(queue, self._queue_type, self._fallback_after_s)
            words = (0, on_broker(queue), passive, True, False, False, False, features)
            channel.send_method(spec.Queue.Declare, 'BsbbbbbF', words)
        try:
            for _ in batch:
                channel.wait(spec.Queue.DeclareOk)
                at += 1
        except refusal:
            return at, True  # RabbitMQ has ignored the commands after that one
        return at, False

    def facts(self, queue: str) -> brokers.QueueFacts | None:
        with self._aside() as channel:
            try:
                _, ready, consumers = channel.queue_declare(on_broker(queue), passive=True)
            except NotFound:
                return None
        return brokers.QueueFacts(queue, ready, consumers)

    def drop(self, queue: str, classic: bool, moved: Callable[[], None]) -> None:
        """Unbind, empty and delete a queue; ``moved`` is called for each message moved to
        fallback.

        ``classic``: RabbitMQ can check that the queue is empty when it deletes it. It raises
        AMQPNotImplementedError if that is a quorum queue.
        """
        name = on_broker(queue)
        with self._aside() as channel:
            try:
                channel.queue_unbind(name, EXCHANGE, name)
                self._empty(channel, name, moved)
                time.sleep(SETTLE_S)
                while True:
                    self._empty(channel, name, moved)
                    # Refused if a consumer has returned a message in the meantime.
                    with contextlib.suppress(PreconditionFailed):
                        channel.queue_delete(name, if_empty=classic)
                        break
            except NotFound:
                return
        if not classic:
            # Until its consumers are notified: if the queue were created again before, they
            # would get no messages from it.
            time.sleep(SETTLE_S)

    def _empty(self, channel: Any, name: str, moved: Callable[[], None]) -> None:
        while (taken := channel.basic_get(name)) is not None:
            tries = headers(taken).get(TRIES, 0)
            if not self.send(brokers.FALLBACK, message(body(taken), tries, brokers.DROPPED)):
                raise errors.BrokerUnavailable('there is no fallback queue')
            channel.basic_ack(taken.delivery_tag)
            moved()
