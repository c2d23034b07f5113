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
"""What a broker of jobs can do: the contract, and the names of the queues.

Bodies are bytes that no broker reads. A delivery that is not acknowledged when its consumer goes
is delivered to another one. What the name of a queue says of it:

=============
=======================================================================================
``flavor.*``   a message that nobody has taken for ``fallback_after`` seconds goes to the fallback
queue ``host.*``     the same for those that were published with ``expires`` ``reply.*``    the
queue may go when nobody has consumed from it for an hour, with all that is in it other names
messages stay until they are taken =============
=======================================================================================

The queues of fallback and results are always there.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

FALLBACK = 'fallback'  # jobs that no worker has taken
RESULTS = 'results'  # what became of jobs

# Delivery.reason, beside those that only RabbitMQ has.
EXPIRED, DROPPED = 'expired', 'dropped'


def of_host(host: str) -> str:
    """The name of a compute node's own queue."""
    return f'host.{host}'


def of_flavor(queue: str) -> str:
    """The name of the queue of a flavor, with or without a special thing."""
    return f'flavor.{queue}'


def of_reply(name: str) -> str:
    """The name of a queue on which somebody waits for outcomes."""
    return f'reply.{name}'


def falls_back(queue: str) -> bool:
    """Whether what expires in this queue goes to the fallback queue; elsewhere nothing expires."""
    return queue.startswith(('flavor.', 'host.'))


def always_expires(queue: str) -> bool:
    """Whether each message of this queue expires, whatever its publisher says."""
    return queue.startswith('flavor.')


def temporary(queue: str) -> bool:
    """Whether this queue goes when nobody uses it."""
    return queue.startswith('reply.')


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A message in the hands of a consumer, until it acknowledges it or puts it back.

    ``tries``: how often it was put back before. ``redelivered``: a consumer had it and went.
    ``reason`` is why a message of the fallback queue is there, None for one that was sent there.
    ``tag`` is the broker's own.
    """

    queue: str
    body: bytes
    tries: int = 0
    redelivered: bool = False
    reason: str | None = None
    tag: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue as the broker counts it."""

    name: str
    ready: int
    consumers: int


class Broker(abc.ABC):
    """Sends, and keeps the list of queues. May be used from any thread.

    Every method raises BrokerUnavailable when the broker does not answer: what was asked is done
    or not.
    """

    @abc.abstractmethod
    def declare(self, queues: Iterable[str]) -> None:
        """Make the queues that are not there; they outlive the broker's restart."""

    @abc.abstractmethod
    def drop(self, queue: str) -> int:
        """End a queue: all that waits there goes to the fallback queue. Returns how many that
        were.

        A queue to which consumers are subscribed loses them. What is in their hands stays there;
        if its consumer goes before it acknowledges it, it is lost. ValueError for the fallback
        queue itself.
        """

    @abc.abstractmethod
    def facts(self, queue: str) -> QueueFacts | None:
        """What the broker counts; None if there is no such queue."""

    @abc.abstractmethod
    def publish(self, queue: str, body: bytes, tries: int = 0, expires: bool = False) -> bool:
        """Send a message; the broker has it for good when this returns.

        Returns whether there is such a queue. ``expires``: nobody who takes it in time has it go
        to the fallback queue; what waits in a flavor queue always does.
        """

    @abc.abstractmethod
    def consumer(self, deliver: Callable[[Delivery], None], name: str) -> 'Consumer':
        """A new consumer, which calls ``deliver`` from a thread of its own.

        ``deliver`` is quick, raises nothing, and does not wait for a thread that calls the
        consumer's methods, because those wait for it; it may call them itself. ``name`` is for
        people.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End all connections."""


class Consumer(abc.ABC):
    """Takes messages from queues that may change at any time. May be used from any thread.

    After the broker was away it is subscribed as before, without being asked; what it held by then
    is delivered again, to it or to another one, and acknowledging it does nothing.
    """

    @abc.abstractmethod
    def window(self, count: int) -> None:
        """At most so many messages may be in its hands; 1 at first. ValueError for less than
        that."""

    @abc.abstractmethod
    def follow(self, wanted: Mapping[str, int | None]) -> None:
        """Subscribe to queues, each with a priority (the highest is served first); None ends one.

        Only what is named changes. When this returns ``deliver`` is not called any more with a
        message of a queue that was ended. A queue that is not there, or goes, is consumed from as
        soon as it is there.
        """

    @abc.abstractmethod
    def ack(self, delivery: Delivery) -> None:
        """The work is done: the message is gone."""

    @abc.abstractmethod
    def put_back(self, delivery: Delivery, queue: str | None = None) -> None:
        """Somebody else shall have it: it is sent to the end of its queue, or of another one, and
        counted.

        If there is no such queue any more it goes to the fallback queue. If the broker does not
        take it, it is redelivered, uncounted.
        """

    @abc.abstractmethod
    def stop(self) -> None:
        """End all subscriptions, and give back what is in its hands."""
