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
"""The calls to the scheduler, recorded from RabbitMQ's firehose: no service knows of it."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import kombu


@dataclass
class Call:
    """One call; the broker passed on its request at ``begin_s`` and its last reply at ``end_s``.

    They are seconds of ``time.monotonic``. ``failure`` is the class of the answered error.
    """

    method: str
    arguments: dict
    begin_s: float
    end_s: float | None = None
    failure: str | None = None

    @property
    def duration_s(self) -> float:
        return self.end_s - self.begin_s


class Tap:
    """``calls`` grows while the block runs."""

    def __init__(self):
        self.calls: list[Call] = []
        self._open: dict[str, Call] = {}
        self._is_over = threading.Event()

    def of(self, method: str) -> list[Call]:
        """The answered calls of a method, in their order."""
        return [call for call in self.calls if call.method == method and call.end_s is not None]

    def take(self, headers: dict, text: bytes) -> None:
        """Record a message that the broker passed on."""
        now_s = time.monotonic()
        outer = json.loads(text)
        message = json.loads(outer['oslo.message']) if 'oslo.message' in outer else outer
        number = message.get('_msg_id')
        if 'method' in message:
            keys = [key.partition('.')[0] for key in headers.get('routing_keys', [])]
            if number and 'scheduler' in keys:
                call = Call(message['method'], message['args'], now_s)
                self._open[number] = call
                self.calls.append(call)
        elif number in self._open and message.get('ending'):
            call = self._open.pop(number)
            call.end_s = now_s
        elif number in self._open and message.get('failure'):
            self._open[number].failure = json.loads(message['failure'])['class']

    def read(self, url: str) -> None:
        """Take what passes the broker until the block ends."""
        with kombu.Connection(url) as connection:
            channel = connection.channel()
            trace = kombu.Exchange('amq.rabbitmq.trace', 'topic', durable=True, passive=True)
            queue = kombu.Queue(exchange=trace, routing_key='publish.#', exclusive=True)
            with kombu.Consumer(
                channel, [queue(channel)], no_ack=True, on_message=self._take_message
            ):
                while not self._is_over.is_set():
                    with contextlib.suppress(socket.timeout):
                        connection.drain_events(timeout=0.5)

    def _take_message(self, message: kombu.Message) -> None:
        self.take(message.headers, message.body)

    def close(self) -> None:
        self._is_over.set()


@contextlib.contextmanager
def running(broker, transport_url: str) -> Iterator[Tap]:
    """A Tap of the virtual host of ``transport_url`` on ``broker``, a RabbitMQ fixture."""
    name = transport_url.rpartition('/')[2]
    broker.ask('PUT', f'vhosts/{name}', {'tracing': True})
    tap = Tap()
    url = transport_url.replace('rabbit://', 'amqp://')
    thread = threading.Thread(target=tap.read, args=(url,), daemon=True)
    thread.start()
    try:
        yield tap
    finally:
        tap.close()
        thread.join()
