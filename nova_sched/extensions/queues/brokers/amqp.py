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
"""The job broker on RabbitMQ: durable queues, confirmed messages."""

import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from typing import Any

import amqp
from amqp.exceptions import AMQPNotImplementedError

from nova_sched import errors
from nova_sched.extensions.queues import brokers, conf
from nova_sched.extensions.queues.brokers import amqp_link
from nova_sched.extensions.queues.brokers.amqp_consumer import AmqpConsumer
from nova_sched.rpc import rabbit

LOG = logging.getLogger(__name__)

HEARTBEAT_S = 6.0  # a broker that is silent for two of these is unavailable
LINKS = 4  # connections of one process to send messages, and to create and delete queues
# queues per connection to create at once: several connections create many queues faster
SHARE = 200


class AmqpBroker(brokers.Broker):
    """``url`` is in oslo.messaging's form; ``options`` are those of [oslo_messaging_rabbit] for
    TLS.

    ``queue_type`` and ``fallback_after_s`` apply to queues that this broker creates; existing
    queues stay unchanged. RabbitMQ enforces the window of a consumer over all its classic queues.
    It cannot do so over quorum queues: several messages may arrive at once. The consumer returns
    those above the window to their queues, with their remaining time and the same ``tries``. The
    broker connects only when necessary. Raises BadConfig for the URL.
    """

    def __init__(
        self,
        url: str,
        queue_type: str = conf.CLASSIC,
        fallback_after_s: float = 30.0,
        options: Mapping[str, Any] | None = None,
        heartbeat_s: float = HEARTBEAT_S,
        name: str = 'nova_sched',
    ):
        self._server = rabbit.cluster(url, options)
        self._queue_type = queue_type
        self._fallback_after_s = fallback_after_s
        self._heartbeat_s = heartbeat_s
        self._name = name
        self._pool = amqp_link.LinkPool(self._open_link, LINKS)
        self._consumers: weakref.WeakSet[AmqpConsumer] = weakref.WeakSet()
        self._warned = False

    def declare(self, queues: Iterable[str]) -> None:
        names = list(dict.fromkeys(queues))
        share = max(SHARE, -(-len(names) // LINKS))
        parts = [names[at : at + share] for at in range(0, len(names), share)]
        with futures.ThreadPoolExecutor(LINKS) as threads:
            answers = threads.map(
                lambda part: self._pool.run(lambda link: link.declare(part)), parts
            )
            differ = [queue for answer in answers for queue in answer]
        if differ and not self._warned:
            self._warned = True
            LOG.warning(
                'Queues exist with another expiry or type, and stay unchanged: %s', differ[:5]
            )

    def drop(self, queue: str) -> int:
        if queue == brokers.FALLBACK:
            raise ValueError(f'{queue} cannot be dropped')
        moved: list[None] = []

        def end(classic: bool) -> None:
            self._pool.run(lambda link: link.drop(queue, classic, lambda: moved.append(None)))

        try:
            end(classic=self._queue_type == conf.CLASSIC)
        except errors.BrokerUnavailable as error:
            if not isinstance(error.__cause__, AMQPNotImplementedError):
                raise
            end(classic=False)
        return len(moved)

    def facts(self, queue: str) -> brokers.QueueFacts | None:
        return self._pool.run(lambda link: link.facts(queue))

    def publish(
        self,
        queue: str,
        body: bytes,
        tries: int = 0,
        expires: bool = False,
        reason: str | None = None,
        sent_ms: int | None = None,
    ) -> bool:
        """``sent_ms`` is when the message was first sent; it keeps only the remaining time."""
        limited = expires or (sent_ms is not None and brokers.always_expires(queue))
        ttl_s = self._fallback_after_s if limited and brokers.falls_back(queue) else None
        content = amqp_link.message(body, tries, reason, sent_ms, ttl_s)
        return self._pool.run(lambda link: link.send(queue, content))

    def try_once(self) -> None:
        """Connect once. Raises BrokerUnavailable, or BrokerRefused."""
        rabbit.close(self._connection('check'))

    def consumer(self, deliver: Callable[[brokers.Delivery], None], name: str) -> AmqpConsumer:
        whole = self._queue_type == conf.CLASSIC
        consumer = AmqpConsumer(
            lambda: self._connection(name, self._heartbeat_s), self.publish, deliver, name, whole
        )
        self._consumers.add(consumer)
        return consumer

    def close(self) -> None:
        for consumer in list(self._consumers):
            consumer.stop()
        self._pool.close()

    def _connection(self, name: str, heartbeat_s: float = 0.0) -> amqp.Connection:
        return rabbit.connect(self._server, f'{self._name} {name}', heartbeat_s)

    def _open_link(self) -> amqp_link.Link:
        connection = self._connection('sends')
        try:
            return amqp_link.Link(connection, self._queue_type, self._fallback_after_s)
        except rabbit.ERRORS:
            rabbit.close(connection)
            raise
