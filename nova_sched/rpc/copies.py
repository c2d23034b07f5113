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
"""Copies of the calls that the conductors send to a scheduler, from a queue of this process."""

import dataclasses
import logging
import time
import uuid
from typing import Any

import oslo_messaging as messaging
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.rpc import EXCHANGE, TOPIC, rabbit, translate
from nova_sched.rpc.direct import settings as direct_settings
from nova_sched.rpc.direct import wire
from nova_sched.rpc.translate import SchedulerSerializer
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)

METHOD = 'select_destinations'
SECRETS = ('auth_token', 'service_catalog')  # of a context
# Copies that RabbitMQ sends ahead. Without a limit it would send all that the connection does not
# take, and keep it in its memory, so that the queue would have no bound.
PREFETCH = 100
CHECK_S = 10.0  # between two checks of the length of the queue
STOP_S = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class CopiedCall:
    """A call of ``select_destinations``: a Request for each instance.

    The context has no token. ``is_named``: the caller gave the instances' UUIDs. ``since_s`` is
    the moment of its arrival, by time.monotonic.
    """

    context: RequestContext
    requests: list[Request]
    is_named: bool
    since_s: float


class CallCopies(rabbit.BusUser):
    """A thread that takes a copy of each call from its own queue.

    RabbitMQ deletes the queue with the connection; of the messages that wait there, it drops the
    oldest ones beyond ``most``. The thread acknowledges these copies only, and answers none.
    ``take`` gets each CopiedCall in this thread, and must not wait. While the broker or the
    exchange is away, the thread tries again. ``counts`` (a Counter) gets the number of
    `unreadable` messages, and of `overflows`: checks that found the queue full. Raises
    BadConfig for a bus that is not RabbitMQ.
    """

    def __init__(self, transport, take, most, counts, check_s=CHECK_S):
        bus_settings = direct_settings.of(transport)
        self._take, self._most, self._check_s = take, most, check_s
        self._serializer = SchedulerSerializer()
        self._counts = counts
        self._leaving = False
        self._thread = bus_settings.thread(self, 'nova-sched-shadow', 'The reader of copied calls')

    def start(self):
        self._thread.start()

    def stop(self):
        """Take no more copies."""
        self._leaving = True
        self._thread.rouse()
        self._thread.join(STOP_S)

    # Called by the thread of the bus.

    def open(self, connection):
        channel, queue = connection.channel(), f'scheduler_shadow_{uuid.uuid4().hex}'
        channel.auto_decode = False  # bodies as bytes
        limits = {'x-max-length': self._most, 'x-overflow': 'drop-head'}
        channel.queue_declare(queue, exclusive=True, auto_delete=True, arguments=limits)
        channel.queue_bind(queue, EXCHANGE, TOPIC)
        channel.basic_qos(0, PREFETCH, False)
        channel.basic_consume(queue, exclusive=True, callback=self._arrived)
        LOG.info('Copies of the calls to %s arrive in queue %s', TOPIC, queue)
        return _CopySession(connection, lambda: self._check_length(channel, queue), self._check_s)

    def is_over(self):
        return self._leaving

    def _check_length(self, channel, queue):
        """Count and log a full queue, because RabbitMQ does not say what it drops."""
        _, ready, _ = channel.queue_declare(queue, passive=True)
        if ready >= self._most:
            self._counts['overflows'] += 1
            LOG.warning('The queue of copies is full (%d): RabbitMQ has dropped the oldest', ready)

    def _arrived(self, received):
        received.channel.basic_ack(received.delivery_tag)
        try:
            call = self._read(received, time.monotonic())
        except Exception as error:  # noqa: BLE001, a message may hold anything
            self._counts['unreadable'] += 1
            # An error of this package repeats little of a message; others may repeat secrets.
            if isinstance(error, messaging.ExpectedException):
                error = error.exc_info[1]
            said = str(error) if isinstance(error, errors.SchedError) else type(error).__name__
            LOG.warning('A copy of a call cannot be read: %s', said)
        else:
            if call is not None:
                self._take(call)

    def _read(self, received, since_s):
        """The CopiedCall of an amqp.Message; None for another method."""
        message = wire.read(received)
        context, *_ = wire.split(message)
        for name in SECRETS:
            context.pop(name, None)
        if message.get('method') != METHOD or message.get('namespace') is not None:
            return None
        request_context = self._serializer.deserialize_context(context)
        read = self._serializer.deserialize_entity
        args: dict[str, Any] = {
            name: read(request_context, value) for name, value in message['args'].items()
        }
        spec = translate.spec(
            args.get('spec_obj'), args.get('request_spec'), args.get('filter_properties')
        )
        uuids = args.get('instance_uuids')
        return CopiedCall(request_context, translate.requests(spec, uuids), bool(uuids), since_s)


class _CopySession(rabbit.Session):
    """Checks the queue before it reads messages that waited while this process was stopped."""

    def __init__(self, connection, check, check_s):
        super().__init__(connection)
        self._check, self._check_s = check, check_s
        self._checked_s = time.monotonic()

    def read(self):
        for _ in range(rabbit.MAX_FRAMES):
            if time.monotonic() >= self._checked_s + self._check_s:
                self._check()
                self._checked_s = time.monotonic()
                return  # its answer came after the copies that waited: all may have been read
            self.connection.blocking_read(self._silence_s)
            if not self.is_pending():
                return
