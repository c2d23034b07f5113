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
"""The interface of a job broker, and the names of the queues.

Bodies are bytes that no broker reads. A delivery that is not acknowledged when its consumer ends
is delivered to another one. The name of a queue determines how its messages expire:

* ``flavor.*``: a message that is not taken within ``fallback_after`` seconds goes to the fallback
  queue.
* ``host.*``: the same, but only for messages that were published with ``expires``.
* ``reply.*``: the broker may delete the queue with its messages after an hour without a consumer.
* Other names: messages stay until they are taken.

The fallback queue and the results queue always exist.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

FALLBACK = 'fallback'  # jobs that no worker has taken
RESULTS = 'results'  # results of jobs

# Values of Delivery.reason; RabbitMQ has further ones.
EXPIRED, DROPPED = 'expired', 'dropped'


def of_host(host: str) -> str:
    """Return the name of a compute node's own queue."""
    return f'host.{host}'


def of_flavor(queue: str) -> str:
    """Return the name of a flavor's queue, with or without a special thing."""
    return f'flavor.{queue}'


def of_reply(name: str) -> str:
    """Return the name of a queue on which a caller waits for outcomes."""
    return f'reply.{name}'


def falls_back(queue: str) -> bool:
    """Whether messages that expire in this queue go to the fallback queue; elsewhere none
    expires."""
    return queue.startswith(('flavor.', 'host.'))


def always_expires(queue: str) -> bool:
    """Whether each message of this queue expires, regardless of its publisher."""
    return queue.startswith('flavor.')


def temporary(queue: str) -> bool:
    """Whether the broker deletes this queue when it is unused."""
    return queue.startswith('reply.')


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A message that a consumer holds, until it acknowledges it or puts it back.

    ``tries`` is how often it was put back before. ``redelivered``: a consumer had it and
    disconnected. ``reason`` is why a message is in the fallback queue, None for one that was sent
    there. ``tag`` is for the broker's internal use.
    """

    queue: str
    body: bytes
    tries: int = 0
    redelivered: bool = False
    reason: str | None = None
    tag: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class QueueFacts:
    """The broker's counts for a queue."""

    name: str
    ready: int
    consumers: int


class Broker(abc.ABC):
    """Sends messages, and maintains the list of queues. May be used from any thread.

    Every method raises BrokerUnavailable when the broker does not answer; the operation is then
    done or not.
    """

    @abc.abstractmethod
    def declare(self, queues: Iterable[str]) -> None:
        """Create the queues that do not exist; they survive a restart of the broker."""

    @abc.abstractmethod
    def drop(self, queue: str) -> int:
        """Delete a queue, and move its waiting messages to the fallback queue. Returns their
        number.

        Subscribed consumers lose their subscription. They keep the messages that they hold; such a
        message is lost if its consumer ends before it acknowledges it. Raises ValueError for the
        fallback queue itself.
        """

    @abc.abstractmethod
    def facts(self, queue: str) -> QueueFacts | None:
        """Return the broker's counts; None if the queue does not exist."""

    @abc.abstractmethod
    def publish(self, queue: str, body: bytes, tries: int = 0, expires: bool = False) -> bool:
        """Send a message; the broker has stored it when this returns.

        Return whether the queue exists. With ``expires``, a message that is not taken in time
        goes to the fallback queue; messages in a flavor queue always do.
        """

    @abc.abstractmethod
    def consumer(self, deliver: Callable[[Delivery], None], name: str) -> 'Consumer':
        """Return a new consumer, which calls ``deliver`` from a thread that it owns.

        ``deliver`` must be fast and raise nothing. It may call the consumer's methods, but must
        not wait for another thread that calls them, because those calls wait for ``deliver``.
        ``name`` is for logs.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Close all connections."""


class Consumer(abc.ABC):
    """Takes messages from a set of queues that can change at any time. May be used from any
    thread.

    After an outage of the broker, the consumer subscribes again by itself. The messages that it
    held are delivered again, to it or to another consumer, and acknowledging the old ones has no
    effect.
    """

    @abc.abstractmethod
    def window(self, count: int) -> None:
        """Set how many messages the consumer may hold; 1 at first. Raises ValueError for less than
        1."""

    @abc.abstractmethod
    def follow(self, wanted: Mapping[str, int | None]) -> None:
        """Subscribe to queues, each with a priority (highest first); None ends a subscription.

        Only the named queues change. After the return, ``deliver`` is not called with a message of
        an ended subscription. A queue that does not exist is consumed from as soon as it is
        created.
        """

    @abc.abstractmethod
    def ack(self, delivery: Delivery) -> None:
        """Acknowledge a message: the job is done, and the broker deletes the message."""

    @abc.abstractmethod
    def put_back(self, delivery: Delivery, queue: str | None = None) -> None:
        """Give a message to another consumer: send it to the end of its queue, or of ``queue``.

        Its ``tries`` increases. If the queue no longer exists, the message goes to the fallback
        queue. If the broker does not accept it, it is redelivered with the same ``tries``.
        """

    @abc.abstractmethod
    def stop(self) -> None:
        """End all subscriptions, and return the held messages to their queues."""
