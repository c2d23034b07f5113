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
"""Queues on RabbitMQ: what they are called there, how they are made, sent to, and ended.

Publishers send to an exchange of ours, to which each queue is bound by its own name: a queue that
is to end is unbound first, and only then emptied and deleted. RabbitMQ acknowledges what it takes
while it deletes a queue, and loses it, so that nothing may be under way to the queue by then.
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
SETTLE_S = 0.05  # in which RabbitMQ has done what it has told already: enqueued what it had routed
UNUSED_MS = 3_600_000

TRIES, REASON, SENT_MS = 'tries', 'reason', 'sent_ms'  # headers


def on_broker(queue: str) -> str:
    """The name that a queue has on RabbitMQ."""
    return PREFIX + queue


def arguments(queue: str, queue_type: str, fallback_after_s: float) -> dict[str, Any]:
    """What RabbitMQ is to know of a queue when it is made."""
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
    """A message that outlives a restart of the broker; with ``ttl_s`` it expires after
    ``sent_ms``."""
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
    """A connection that sends, and makes and ends queues. For one thread at a time; raises
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
        """Whether there is such a queue; RabbitMQ has confirmed the message."""
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
        """A channel for what RabbitMQ may answer by closing it; after an error the whole link is
        closed."""
        channel = self._connection.channel()
        yield channel
        channel.close()

    def declare(self, queues: Sequence[str]) -> list[str]:
        """Make and bind those that are not there. Returns some of those that are there, and
        differ.

        Each of them costs a new channel only where it follows others that do not differ: after one
        that does the next ones are only asked whether they are there, until one is not.
        """
        differ, at, passive = [], 0, False
        with self._aside() as channel:
            while at < len(queues):
                first = at
                at, refused = self._declare_some(channel, queues, at, passive)
                for name in map(on_broker, queues[first:at]):
                    channel.queue_bind(name, EXCHANGE, name, nowait=True)
                channel.basic_qos(0, 0, False)  # its answer comes when all are bound
                if refused and not passive:
                    differ.append(queues[at])
                passive ^= refused
        return differ

    def _declare_some(
        self, channel: Any, queues: Sequence[str], at: int, passive: bool
    ) -> tuple[int, bool]:
        """Declares from there on. Returns up to where that went well, and whether the next one is
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
            return at, True  # and RabbitMQ has ignored what came after that one
        return at, False

    def facts(self, queue: str) -> broker.QueueFacts | None:
        with self._aside() as channel:
            try:
                _, ready, consumers = channel.queue_declare(on_broker(queue), passive=True)
            except NotFound:
                return None
        return broker.QueueFacts(queue, ready, consumers)

    def drop(self, queue: str, classic: bool, moved: Callable[[], None]) -> None:
        """Unbind, empty and delete a queue; ``moved`` is called for each message that goes to
        fallback.

        ``classic``: RabbitMQ can see to it that the queue is empty as it deletes it;
        AMQPNotImplementedError if it is a quorum queue.
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
            # Until its consumers are told: if it came back before, they would get nothing from it.
            time.sleep(SETTLE_S)

    def _empty(self, channel: Any, name: str, moved: Callable[[], None]) -> None:
        while (found := channel.basic_get(name)) is not None:
            tries = headers(found).get(TRIES, 0)
            if not self.send(broker.FALLBACK, message(body(found), tries, broker.DROPPED)):
                raise errors.BrokerUnavailable('there is no fallback queue')
            channel.basic_ack(found.delivery_tag)
            moved()

    def _delete(self, channel: Any, name: str, classic: bool) -> bool:
        """Whether it is gone; not if a consumer has given something back meanwhile."""
        try:
            channel.queue_delete(name, if_empty=classic)
        except PreconditionFailed:
            return False
        return True


def body(found: amqp.Message) -> bytes:
    """The body of a message that came; py-amqp has text for an empty one."""
    return bytes(found.body or b'')


def headers(found: amqp.Message) -> Mapping[str, Any]:
    """The headers of a message that came."""
    return found.properties.get('application_headers') or {}
