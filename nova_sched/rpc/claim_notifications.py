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
"""Notifications of claims, made of what each transaction of the claim store has changed."""

import functools
import threading

from nova_sched.rpc import event_payload
from nova_sched.rpc.event_outbox import EventOutbox

CLAIM = 'nova_sched.claims.'
MAX_WAITING = 20000  # claims; a further transaction is dropped
MAX_TOLD = 100  # claims in one notification


class ClaimNotifications(EventOutbox):
    """Sends the changes of claims, one notification for each kind of change in a transaction, so
    that their number follows that of transactions. Decisions never wait.

    ``notifier`` is a messaging.Notifier.
    """

    def __init__(self, notifier, waiting=MAX_WAITING):
        super().__init__('nova-sched-claim-events', notifier, waiting, 'Events of claims')
        self._most, self._claims = waiting, 0
        self._lock = threading.Lock()

    def changed(self, changes):
        """Tell of ClaimChanges. Does not wait; may be called from any thread."""
        with self._lock:
            fits = not self._claims or self._claims + changes.size <= self._most
            fits = fits and self.put(changes)
            if fits:
                self._claims += changes.size
        if not fits:
            self._drop(changes.size)

    def _pass_on(self, batch):
        for changes in batch:
            for kind, claims in changes.by_kind().items():
                for start in range(0, len(claims), MAX_TOLD):
                    some = claims[start : start + MAX_TOLD]
                    make = functools.partial(event_payload.claims, changes, some)
                    self._send(CLAIM + kind, None, make, len(some))
            with self._lock:
                self._claims -= changes.size
