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
"""Notifications of what the scheduler decided, beside those of Nova about calls."""

import logging

import oslo_messaging as messaging

from nova_sched.conf.notifications import REFUSALS
from nova_sched.engine.outbox import Outbox
from nova_sched.logs import Problems
from nova_sched.measures.catalogue import EVENTS_LOST
from nova_sched.rpc import event_payload
from nova_sched.rpc.notifications import has_driver, transport, without_token
from nova_sched.rpc.serializer import Serializer

LOG = logging.getLogger(__name__)

REFUSED = 'nova_sched.request.refused'
MOST_WAITING = 1000  # further ones are dropped
BATCH = 100
STOP_S = 5.0


class EventNotifications(Outbox):
    """Sends events in a thread of its own, in the order in which they were told. Without a bus
    that takes them, they are dropped and counted: decisions never wait. None is sent again.

    ``notifier`` is a messaging.Notifier.
    """

    def __init__(self, notifier, waiting=MOST_WAITING):
        super().__init__('nova-sched-events', 0.0, waiting, BATCH)
        self._notifier = notifier
        self._problems = Problems(LOG)

    def refused(self, context, make):
        """Tell of a refused request. ``make()`` returns its decision record, in the thread of this
        outbox; ``context`` is the oslo.context of the call, or None. Does not wait."""
        if not self.put((REFUSED, context, lambda: event_payload.refusal(make()))):
            EVENTS_LOST.add()
            self._problems.begin('queue', 'Events are dropped: the bus does not take them')

    def stop(self, timeout_s=STOP_S):
        """Send what waits, for a few seconds at most."""
        super().stop(timeout_s)

    def _pass_on(self, batch):
        for event, context, payload in batch:
            try:
                safe = {} if context is None else without_token(context)
                self._notifier.info(safe, event, payload())
            except Exception as error:  # noqa: BLE001, the next one may be sent
                EVENTS_LOST.add()
                self._problems.begin('send', 'An event cannot be sent: %s', error)
            else:
                for kind in ('send', 'queue'):
                    self._problems.end(kind, 'Events are sent again')


def of_options(conf):
    """The EventNotifications of these options; None: none are wanted. Connects to nothing. Raises
    BadConfig."""
    if REFUSALS not in conf.notifications.scheduler_events:
        return None
    bus = transport(conf)
    if not has_driver(conf):
        return None
    notifier = messaging.Notifier(
        bus,
        f'nova-sched-scheduler:{conf.host}',
        serializer=Serializer(),
        topics=conf.notifications.versioned_notifications_topics,
    )
    return EventNotifications(notifier)
