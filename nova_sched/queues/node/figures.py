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
"""Counters of a worker."""

import dataclasses
import logging

LOG = logging.getLogger(__name__)

MINUTE_S = 60.0


@dataclasses.dataclass(slots=True)
class Figures:
    """Counts since the start.

    ``taken`` jobs were delivered and started; ``done`` and ``failed`` are their outcomes.
    ``passed`` jobs were sent to another queue: of an alternate, of a flavor, or fallback.
    ``dropped`` jobs were done by another worker. ``put_backs`` are jobs that this node did not
    take, ``redelivered`` those of a worker that disconnected. ``refused`` messages were invalid.
    ``changes`` are subscriptions that began, ended, or got another priority, in ``evaluations`` of
    the node.
    """

    taken: int = 0
    done: int = 0
    failed: int = 0
    passed: int = 0
    dropped: int = 0
    put_backs: int = 0
    redelivered: int = 0
    refused: int = 0
    evaluations: int = 0
    changes: int = 0


NAMES = tuple(field.name for field in dataclasses.fields(Figures))


class Minute:
    """Logs the counts of the last minute, if any but ``evaluations`` has changed."""

    def __init__(self, figures: Figures, now_s: float):
        self._figures = figures
        self._before = dataclasses.replace(figures)
        self._since_s = now_s

    def tell(self, followed: int, now_s: float) -> None:
        """Log the counts, if the minute is over; ``followed`` is the number of subscribed
        queues."""
        if now_s - self._since_s < MINUTE_S:
            return
        new = {name: getattr(self._figures, name) - getattr(self._before, name) for name in NAMES}
        self._before, self._since_s = dataclasses.replace(self._figures), now_s
        if any(count for name, count in new.items() if name != 'evaluations'):
            counts = ', '.join(f'{count} {name.replace("_", " ")}' for name, count in new.items())
            LOG.info('Subscribed to %d queues; in the last minute: %s', followed, counts)
