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
"""Sends events over the bus of notifications, in a thread beside the loop."""

import logging

from nova_sched.engine.explain.decision_log import Outbox
from nova_sched.logs import Problems
from nova_sched.measures.catalogue import EVENTS_LOST
from nova_sched.rpc.notifications import without_token

LOG = logging.getLogger(__name__)

MAX_BATCH = 100
STOP_S = 5.0


class EventOutbox(Outbox):
    """An Outbox whose items are sent as events, each once. Those that the bus does not take are
    dropped and counted.

    ``notifier`` is a messaging.Notifier; ``what`` names the events in the log.
    """

    def __init__(self, name, notifier, waiting, what):
        super().__init__(name, 0.0, waiting, MAX_BATCH)
        self._notifier, self._what = notifier, what
        self._problems = Problems(LOG)

    def stop(self, timeout_s=STOP_S):
        """Send what waits, for a few seconds at most."""
        super().stop(timeout_s)

    def _drop(self, count=1):
        """Count events that did not fit into the queue."""
        EVENTS_LOST.add(by=count)
        self._problems.begin('queue', '%s are dropped: the bus does not take them', self._what)

    def _send(self, event, context, make, count=1):
        """Send the payload that ``make()`` returns; it has ``count`` events."""
        try:
            safe = {} if context is None else without_token(context)
            self._notifier.info(safe, event, make())
        except Exception as error:  # noqa: BLE001, the next one may be sent
            EVENTS_LOST.add(by=count)
            self._problems.begin('send', '%s cannot be sent: %s', self._what, error)
        else:
            for kind in ('send', 'queue'):
                self._problems.end(kind, '%s are sent again', self._what)
