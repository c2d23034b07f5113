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
"""Counts and measurements of a scheduler."""

import collections
import dataclasses
import logging
import time

from nova_sched.logs import MinuteCounts

LOG = logging.getLogger(__name__)

MAX_KEPT = 32768  # decisions whose times are kept


def _latest():
    return collections.deque(maxlen=MAX_KEPT)


@dataclasses.dataclass(slots=True)
class Figures:
    """Counts since the start, and durations of the latest decisions, in seconds.

    ``placed`` counts instances that got a host. ``conflicts`` counts requests whose claims lost to
    other requests. ``retries`` counts requests that were decided again: after a conflict, or
    before a refusal when the database had changes. ``busy`` counts transactions that another one
    stopped, and that were repeated. ``decided_s`` is filters, weighers and claims of one request.
    ``answered_s`` is all of its time in the engine, from the queue until its claims are durable.

    The age of the host state: ``stale_nodes`` differed from the database at the last poll;
    ``polled_s`` is the time of that poll (time.monotonic).
    """

    placed: int = 0
    refused: int = 0
    conflicts: int = 0
    retries: int = 0
    busy: int = 0
    batches: int = 0
    stale_nodes: int = 0
    polled_s: float = dataclasses.field(default_factory=time.monotonic)
    decided_s: collections.deque = dataclasses.field(default_factory=_latest)
    answered_s: collections.deque = dataclasses.field(default_factory=_latest)

    @property
    def poll_lag_s(self):
        """Seconds since the last poll of the database."""
        return time.monotonic() - self.polled_s

    def plain(self):
        """All figures except the durations of decisions, as JSON values."""
        return {
            **{name: getattr(self, name) for name in COUNTS},
            'stale_nodes': self.stale_nodes,
            'look_lag_s': round(self.poll_lag_s, 3),
        }


# Figures that only grow.
COUNTS = tuple('placed refused conflicts retries busy batches'.split())


class MinuteLog:
    """Logs the figures of the last minute, if anything happened."""

    def __init__(self, figures, now_s=None):
        self._figures = figures
        self._minute = MinuteCounts(
            lambda: {name: getattr(figures, name) for name in COUNTS},
            time.monotonic() if now_s is None else now_s,
        )

    def tell(self, position_and_count, now_s=None):
        """Log the figures, if the minute is over. ``position_and_count``: a scheduler's position,
        and the number of schedulers."""
        new = self._minute.take(time.monotonic() if now_s is None else now_s)
        if not new or not any(new.values()):
            return
        figures = self._figures
        LOG.info(
            'Scheduler %d of %d, in the last minute: %d instances placed, %d requests refused; '
            '%d conflicts, %d retries; last poll %.1f s ago, %d nodes stale',
            position_and_count[0] + 1,
            position_and_count[1],
            new['placed'],
            new['refused'],
            new['conflicts'],
            new['retries'],
            figures.poll_lag_s,
            figures.stale_nodes,
        )
