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

import oslo_messaging as messaging

from nova_sched.conf.telemetry import CLAIMS, GROUPS, REFUSALS
from nova_sched.rpc import event_payload
from nova_sched.rpc.claim_notifications import ClaimNotifications
from nova_sched.rpc.event_outbox import STOP_S, EventOutbox
from nova_sched.rpc.messages import PlainSerializer
from nova_sched.rpc.notifications import has_driver, transport

REFUSED, GROUP = 'nova_sched.request.refused', 'nova_sched.group.'
MAX_WAITING = 1000  # further ones are dropped


class EventNotifications(EventOutbox):
    """Sends events in a thread of its own, in the order in which they were told. Without a bus
    that takes them, they are dropped and counted: decisions never wait. None is sent again.

    ``notifier`` is a messaging.Notifier. ``wanted`` are kinds of events, as in the option.
    ``claims``, a ClaimNotifications with another thread, is None if those are not wanted.
    """

    def __init__(self, notifier, wanted=(REFUSALS, GROUPS), waiting=MAX_WAITING):
        super().__init__('nova-sched-events', notifier, waiting, 'Events')
        self._wanted = frozenset(wanted)
        self.claims = ClaimNotifications(notifier) if CLAIMS in self._wanted else None

    def start(self):
        super().start()
        if self.claims is not None:
            self.claims.start()

    def stop(self, timeout_s=STOP_S):
        """Send what waits, for a few seconds at most."""
        super().stop(timeout_s)
        if self.claims is not None:
            self.claims.stop(timeout_s)

    def refused(self, context, make):
        """Tell of a refused request. ``make()`` returns its decision record, in the thread of this
        outbox; ``context`` is the oslo.context of the call, or None. Does not wait."""
        if REFUSALS in self._wanted:
            self._tell(REFUSED, context, lambda: event_payload.refusal(make()))

    def group(self, event, make):
        """Tell of an event of a group. ``make()`` returns its facts as plain values, in the thread
        of this outbox. Does not wait."""
        if GROUPS in self._wanted:
            self._tell(GROUP + event, None, lambda: event_payload.group(event, make()))

    def _tell(self, *event):
        if not self.put(event):
            self._drop()

    def _pass_on(self, batch):
        for event in batch:
            self._send(*event)


def of_options(conf):
    """The EventNotifications of these options; None: none are wanted. Connects to nothing. Raises
    BadConfig."""
    wanted = conf.notifications.scheduler_events
    if not wanted:
        return None
    bus = transport(conf)
    if not has_driver(conf):
        return None
    notifier = messaging.Notifier(
        bus,
        f'nova-sched-scheduler:{conf.host}',
        serializer=PlainSerializer(),
        topics=conf.notifications.versioned_notifications_topics,
    )
    return EventNotifications(notifier, wanted)
