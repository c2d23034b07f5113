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
"""Ask until an answer is the expected one: services work on after they have answered."""

import time
from collections.abc import Callable
from typing import Any

import kombu

WAIT_S = 120.0  # the machine may be busy
PAUSE_S = 0.1


def eventually(expected: Any, ask: Callable[[], Any], pause_s: float = PAUSE_S) -> None:
    """Ask until the answer is ``expected``; AssertionError with both after WAIT_S."""
    until = time.monotonic() + WAIT_S
    while (found := ask()) != expected and time.monotonic() < until:
        time.sleep(pause_s)
    assert found == expected


def has_consumer(transport_url: str, queue: str) -> bool:
    """Whether the queue is there and a service consumes from it."""
    with kombu.Connection(transport_url.replace('rabbit://', 'amqp://')) as connection:
        try:
            declared = connection.default_channel.queue_declare(queue, passive=True)
        except connection.channel_errors:
            return False
        return declared.consumer_count > 0


def until_left(transport_url: str, queue: str) -> None:
    """Wait until RabbitMQ has noticed that the queue's consumer was killed."""
    eventually(False, lambda: has_consumer(transport_url, queue))


def until_consumed(transport_url: str, queue: str) -> None:
    """Wait until a service that was started consumes from the queue."""
    eventually(True, lambda: has_consumer(transport_url, queue))
