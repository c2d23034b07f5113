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
"""A RabbitMQ without a network, behind the face of py-amqp that we use: it does at once what it is
told."""

import collections
import dataclasses
import itertools
import socket
from types import SimpleNamespace

import amqp
from amqp import spec
from amqp.exceptions import (
    AMQPNotImplementedError,
    NotFound,
    PreconditionFailed,
    RecoverableConnectionError,
)

from nova_sched.extensions.queues.brokers.amqp_link import PREFIX

WHOLE_NOT_QUORUM = 'no window over a whole channel with quorum queues'


@dataclasses.dataclass
class Queue:
    """``takers`` are channel and consumer tag, in the order in which they came."""

    quorum: bool = False
    arguments: dict = dataclasses.field(default_factory=dict)
    bound: bool = False
    ready: collections.deque = dataclasses.field(default_factory=collections.deque)
    takers: list = dataclasses.field(default_factory=list)


class Rabbit:
    """``said`` is what clients have said that changes something, in order."""

    def __init__(self, *queues, quorum=(), heartbeat_s=0):
        self.heartbeat_s = heartbeat_s
        self.queues = {PREFIX + name: Queue(name in quorum) for name in (*queues, *quorum)}
        self.connections = []
        self.said = []

    def connect(self):
        self.connections.append(Connection(self))
        return self.connections[-1]

    def send(self, queue, body=b'', redelivered=False, **headers):
        """A message without a client that sends it; ``expiration`` among the headers is a
        property."""
        properties = {'expiration': headers.pop('expiration')} if 'expiration' in headers else {}
        content = amqp.Message(body, application_headers=headers, **properties)
        self.queues[PREFIX + queue].ready.append((content, redelivered))
        self.serve()

    def drop(self, queue):
        """The queue goes, and its consumers are told."""
        for channel, tag in self.queues.pop(PREFIX + queue).takers:
            del channel.consuming[tag]
            channel.tell(lambda channel=channel, tag=tag: channel.cancelled(tag))

    def serve(self):
        for queue in self.queues.values():
            for channel, tag in sorted(
                queue.takers, key=lambda taker: -taker[0].consuming[taker[1]].priority
            ):
                while queue.ready and channel.has_room(tag):
                    channel.deliver(tag, *queue.ready.popleft())

    def bodies(self, queue):
        return [bytes(content.body) for content, _ in self.queues[PREFIX + queue].ready]

    def consumers(self, queue):
        """The priorities with which it is consumed from."""
        return [
            channel.consuming[tag].priority for channel, tag in self.queues[PREFIX + queue].takers
        ]


class Connection:
    """Frames for the client wait in ``inbox``, each with a byte in the socket."""

    connected, transport = True, None

    def __init__(self, rabbit):
        self.rabbit, self.heartbeat = rabbit, rabbit.heartbeat_s
        self.sock, self.far = socket.socketpair()
        self.inbox = collections.deque()
        self.channels, self.beats, self.lost = [], 0, False

    def channel(self):
        self.channels.append(Channel(self))
        return self.channels[-1]

    def lose(self):
        """The network goes, and RabbitMQ has back what was in hand."""
        if not self.lost:
            self.lost = True
            self.far.close()
            for channel in self.channels:
                channel.give_back()
            self.rabbit.serve()

    def blocking_read(self, timeout):
        assert timeout > 0
        if not self.sock.recv(1):
            raise ConnectionResetError('the far end has closed')
        self.inbox.popleft()()
        return True

    def drain_events(self, timeout):
        self.blocking_read(timeout)

    def read_all(self):
        while self.inbox:
            self.blocking_read(1.0)
        if self.lost:
            raise ConnectionResetError('the far end has closed')

    def heartbeat_tick(self, rate):
        self.beats += 1

    def close(self):
        self.lose()

    def collect(self):
        self.sock.close()


class Channel:
    """What a client says on it. An error comes with the next answer; until then nothing more is
    done."""

    def __init__(self, connection):
        self.rabbit, self.connection = connection.rabbit, connection
        self.callbacks, self.cancel_callbacks = {}, {}
        self.events = collections.defaultdict(set)
        self.consuming, self.held = {}, {}
        self.window, self.each = 0, 0
        self.numbers = itertools.count(1)
        self.answers, self.error = collections.deque(), None

    # What the server does.

    def tell(self, frame):
        if not self.connection.lost:
            self.connection.inbox.append(frame)
            self.connection.far.send(b'.')

    def cancelled(self, tag):
        self.callbacks.pop(tag, None)
        self.cancel_callbacks.pop(tag)(tag)

    def has_room(self, tag):
        consuming = self.consuming[tag]
        return (not self.window or len(self.held) < self.window) and (
            not consuming.each
            or sum(one == tag for one, *_ in self.held.values()) < consuming.each
        )

    def deliver(self, tag, content, redelivered):
        number = next(self.numbers)
        self.held[number] = tag, self.consuming[tag].queue, content
        found = amqp.Message(content.body, **content.properties)
        found.delivery_info = {
            'consumer_tag': tag,
            'delivery_tag': number,
            'redelivered': redelivered,
        }
        self.tell(lambda: self.callbacks[tag](found))

    def give_back(self):
        for tag in list(self.consuming):
            self.end(tag)
        for number in sorted(self.held, reverse=True):
            self.requeue(number)

    def requeue(self, number):
        _, name, content = self.held.pop(number)
        if name in self.rabbit.queues:
            self.rabbit.queues[name].ready.appendleft((content, True))

    def end(self, tag):
        consuming = self.consuming.pop(tag, None)
        if consuming is not None:
            self.rabbit.queues[consuming.queue].takers.remove((self, tag))

    def check(self):
        """The answer of the server to all that was said so far."""
        self.connection.read_all()
        error, self.error = self.error, None
        if error is not None:
            self.answers.clear()
            raise error

    def find(self, name):
        if self.error is None and name not in self.rabbit.queues:
            self.error = NotFound(f"no queue '{name}' in vhost '/'")
        return self.rabbit.queues[name] if self.error is None else None

    # What the client says.

    def basic_qos(self, size, count, whole):
        self.check()
        if whole:
            self.window = count
        else:
            self.each = count
        self.rabbit.serve()
        self.connection.read_all()

    def basic_consume(self, name, tag, nowait, callback, on_cancel, arguments):
        assert nowait
        queue = self.find(name)
        if queue is None:
            return
        if queue.quorum and self.window:
            self.error = AMQPNotImplementedError(WHOLE_NOT_QUORUM)
            return
        self.rabbit.said.append(('consume', name.removeprefix(PREFIX), arguments['x-priority']))
        self.callbacks[tag], self.cancel_callbacks[tag] = callback, on_cancel
        self.consuming[tag] = SimpleNamespace(
            queue=name, priority=arguments['x-priority'], each=self.each
        )
        queue.takers.append((self, tag))
        self.rabbit.serve()

    def basic_cancel(self, tag, nowait):
        assert nowait
        self.send_method(spec.Basic.Cancel, 'sb', (tag, nowait))

    def send_method(self, method, form, words):
        if self.connection.lost:
            raise RecoverableConnectionError('connection already closed')
        if method == spec.Basic.Cancel:
            tag, nowait = words
            if tag in self.consuming:
                self.rabbit.said.append(('cancel', self.consuming[tag].queue.removeprefix(PREFIX)))
            self.end(tag)
            if not nowait:
                self.tell(
                    lambda: (self.callbacks.pop(tag, None), self.cancel_callbacks.pop(tag, None))
                )
        elif method == spec.Queue.Declare:
            _, name, passive, *_, arguments = words
            self.answers.append(lambda: self.declare(name, passive, dict(arguments)))

    def wait(self, method):
        assert method == spec.Queue.DeclareOk
        self.answers.popleft()()
        self.check()

    def declare(self, name, passive, arguments):
        queue = self.rabbit.queues.get(name)
        if passive:
            self.find(name)
        elif queue is None:
            self.rabbit.said.append(('declare', name.removeprefix(PREFIX)))
            self.rabbit.queues[name] = Queue(arguments=arguments)
        elif queue.arguments != arguments:
            self.error = PreconditionFailed(f"inequivalent arg for queue '{name}'")

    def queue_declare(self, name, passive, nowait=False):
        assert passive
        queue = self.find(name)
        if nowait:
            return None
        self.check()
        return name, len(queue.ready), len(queue.takers)

    def basic_ack(self, number):
        self.rabbit.said.append(('ack', self.held.pop(number)[1].removeprefix(PREFIX)))
        self.rabbit.serve()

    def basic_reject(self, number, requeue):
        assert requeue
        self.rabbit.said.append(('reject', self.held[number][1].removeprefix(PREFIX)))
        self.requeue(number)
        self.rabbit.serve()

    # What only a link says.

    def exchange_declare(self, name, kind, durable, auto_delete):
        assert (kind, durable, auto_delete) == ('direct', True, False)

    def confirm_select(self):
        """Each message is confirmed, here too: it is in its queue when the call returns."""

    def basic_publish_confirm(self, content, exchange, name, mandatory, timeout, confirm_timeout):
        assert mandatory
        queue = self.rabbit.queues.get(name)
        if queue is not None and queue.bound:
            queue.ready.append((content, False))
            self.rabbit.serve()
        else:
            for call in self.events['basic_return']:
                call('NO_ROUTE', exchange, name, content)

    def queue_bind(self, name, exchange, key, nowait):
        assert key == name
        if (queue := self.find(name)) is not None:
            queue.bound = True

    def queue_unbind(self, name, exchange, key):
        queue = self.find(name)
        self.check()
        queue.bound = False

    def basic_get(self, name):
        queue = self.find(name)
        self.check()
        if not queue.ready:
            return None
        content, _ = queue.ready.popleft()
        content.delivery_info = {'delivery_tag': next(self.numbers)}
        self.held[content.delivery_info['delivery_tag']] = None, name, content
        return content

    def queue_delete(self, name, if_empty):
        queue = self.find(name)
        if queue is not None and queue.quorum and if_empty:
            self.error = AMQPNotImplementedError('if-empty of a quorum queue')
        elif queue is not None and if_empty and queue.ready:
            self.error = PreconditionFailed('not empty')
        elif queue is not None:
            self.rabbit.drop(name.removeprefix(PREFIX))
        self.check()

    def close(self):
        self.give_back()
