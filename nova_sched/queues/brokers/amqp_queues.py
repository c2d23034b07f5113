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
"""Queues on RabbitMQ: their names there, and how they are created, sent to and deleted.

Publishers send to the exchange of this project, to which each queue is bound by its name. Before a
queue is deleted, it is unbound, and then emptied. RabbitMQ acknowledges and loses messages that
arrive while it deletes a queue, so no message may be in transit to the queue by then.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import amqp
from amqp import spec
from amqp.exceptions import AMQPError, NotFound, PreconditionFailed

from nova_sched import errors
from nova_sched.conf import queues as conf
from nova_sched.queues import broker
from nova_sched.queues.brokers import amqp_links

EXCHANGE = 'nova_sched'
PREFIX = 'nova_sched.'
SETTLE_S = 0.05  # seconds until RabbitMQ has enqueued the messages that it has routed
UNUSED_MS = 3_600_000

TRIES, REASON, SENT_MS = 'tries', 'reason', 'sent_ms'  # headers


def on_broker(queue: str) -> str:
    """Returns the name of a queue on RabbitMQ."""
    return PREFIX + queue


def arguments(queue: str, queue_type: str, fallback_after_s: float) -> dict[str, Any]:
    """Returns the arguments with which RabbitMQ declares a queue."""
    found: dict[str, Any] = {
        'x-queue-type': conf.CLASSIC if broker.temporary(queue) else queue_type
    }
    if broker.temporary(queue):
        found['x-expires'] = UNUSED_MS
    if broker.always_expires(queue):
        found['x-message-ttl'] = milliseconds(fallback_after_s)
    if broker.falls_back(queue):
        found |= {
            'x-dead-letter-exchange': '',
            'x-dead-letter-routing-key': on_broker(broker.FALLBACK),
        }
        if queue_type == conf.QUORUM:
            found |= {'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish'}
    return found


def milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def message(
    body: bytes,
    tries: int = 0,
    reason: str | None = None,
    sent_ms: int | None = None,
    ttl_s: float | None = None,
) -> amqp.Message:
    """Returns a message that survives a restart of the broker.

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

    def __init__(self, connection: amqp.Connection, shape: Callable[[str], Mapping[str, Any]]):
        self._connection = connection
        self._shape = shape
        self._channel = connection.channel()
        self._channel.exchange_declare(EXCHANGE, 'direct', durable=True, auto_delete=False)
        self._channel.confirm_select()
        self._channel.events['basic_return'].add(self._on_return)
        self._returned = False
        self.declare([broker.FALLBACK, broker.RESULTS])

    def close(self) -> None:
        amqp_links.close(self._connection)

    def send(self, queue: str, content: amqp.Message) -> bool:
        """Returns whether the queue exists; RabbitMQ has confirmed the message then."""
        self._returned = False
        self._channel.basic_publish_confirm(
            content,
            EXCHANGE,
            on_broker(queue),
            mandatory=True,
            timeout=amqp_links.SILENCE_S,
            confirm_timeout=amqp_links.SILENCE_S,
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
        some = queues[at : at + amqp_links.BATCH]
        refusal: type[AMQPError] = NotFound if passive else PreconditionFailed
        for queue in some:
            words = (0, on_broker(queue), passive, True, False, False, False, self._shape(queue))
            channel.send_method(spec.Queue.Declare, 'BsbbbbbF', words)
        try:
            for _ in some:
                channel.wait(spec.Queue.DeclareOk)
                at += 1
        except refusal:
            return at, True  # RabbitMQ has ignored the commands after that one
        return at, False

    def facts(self, queue: str) -> broker.QueueFacts | None:
        with self._aside() as channel:
            try:
                _, ready, consumers = channel.queue_declare(on_broker(queue), passive=True)
            except NotFound:
                return None
        return broker.QueueFacts(queue, ready, consumers)

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
                    if self._delete(channel, name, classic):
                        break
            except NotFound:
                return
        if not classic:
            # Until its consumers are notified: if the queue were created again before, they
            # would get no messages from it.
            time.sleep(SETTLE_S)

    def _empty(self, channel: Any, name: str, moved: Callable[[], None]) -> None:
        while (found := channel.basic_get(name)) is not None:
            tries = headers(found).get(TRIES, 0)
            if not self.send(broker.FALLBACK, message(body(found), tries, broker.DROPPED)):
                raise errors.BrokerUnavailable('there is no fallback queue')
            channel.basic_ack(found.delivery_tag)
            moved()

    def _delete(self, channel: Any, name: str, classic: bool) -> bool:
        """Returns whether it was deleted; False if a consumer has returned a message in the
        meantime."""
        try:
            channel.queue_delete(name, if_empty=classic)
        except PreconditionFailed:
            return False
        return True


def body(found: amqp.Message) -> bytes:
    """Returns the body of a received message; py-amqp has text for an empty one."""
    return bytes(found.body or b'')


def headers(found: amqp.Message) -> Mapping[str, Any]:
    """Returns the headers of a received message."""
    return found.properties.get('application_headers') or {}
