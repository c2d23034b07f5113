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
"""Whether the API can answer requests, for proxies and containers. No token is needed, so answers
are brief, and asking often costs the schedulers nothing."""

import logging
import threading
import time

from nova_sched import errors

LOG = logging.getLogger(__name__)

# Probes: no token is needed, and no other request may keep them waiting.
PATHS = ('/healthcheck', '/healthcheck/live', '/healthcheck/ready')
PROBE_S = 5  # seconds to wait for a scheduler
KEPT_S = 2.0  # seconds for which an answer is kept
LATE_S = 3.0 * PROBE_S  # an answer that takes longer is none: the probe and the facts take PROBE_S
LATE = 'a service that it needs does not answer'
REASONS = (
    (errors.NoAnswer, 'no scheduler answers'),
    (errors.StoreUnavailable, 'the database does not answer'),
    (errors.StoreFull, 'the database is full'),
)


class Readiness:
    """Asks a scheduler by ``probe()``, one request at a time.

    ``probe`` raises a SchedError if the service cannot work; then ``facts()`` returns the number
    of compute ``nodes``, and of those ``heard`` in time. May be used from any thread; ``clock``
    counts seconds.
    """

    def __init__(self, probe, facts=lambda: None, clock=time.monotonic):
        self._probe, self._facts, self._clock = probe, facts, clock
        self._lock = threading.Lock()
        self._asked_s, self._due_s = None, clock()
        self._reason = 'it is starting'

    def reason(self):
        """Why the service is not ready, as text; '' if it is. While another request asks, what is
        known from before, unless it has asked for too long."""
        with self._lock:
            now_s = self._clock()
            if self._asked_s is not None:
                return self._reason if now_s - self._asked_s <= LATE_S else LATE
            if now_s < self._due_s:
                return self._reason
            self._asked_s = now_s
        try:
            self._reason = self._ask()
        finally:
            self._due_s, self._asked_s = self._clock() + KEPT_S, None
        return self._reason

    def _ask(self):
        try:
            self._probe()
        except errors.SchedError as error:
            LOG.warning('Not ready: %s', error)
            whys = [why for kind, why in REASONS if isinstance(error, kind)]
            return whys[0] if whys else LATE
        try:
            facts = self._facts()
        except Exception as error:  # noqa: BLE001, a scheduler of an older release has no answer
            LOG.debug('The compute nodes are not known: %s', error)
            return ''
        # Before the first report there is nothing that could have failed.
        is_silent = facts and facts['nodes'] and not facts['heard']
        return 'no compute node has reported in time' if is_silent else ''
