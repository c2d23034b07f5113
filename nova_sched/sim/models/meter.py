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
"""Processor time per simulated component, in a process that simulates many of them."""

import collections
import contextlib
import time
from collections.abc import Callable, Iterator

# A conductor; a manager of queues; the scheduler's decisions; claims of workers and managers;
# reports of nodes; work that only serves the measurement; and the rest: workers with their broker.
CONDUCTOR, MANAGER, SCHEDULER, CLAIMS, REPORTS, RANKING, WORKERS = PARTS = (
    'conductor',
    'manager',
    'scheduler',
    'claims',
    'reports',
    'ranking',
    'workers',
)


class Meter:
    """Seconds of processor time by part; a nested measurement counts only for the inner part."""

    def __init__(self, clock: Callable[[], float] = time.process_time):
        self.seconds: collections.Counter[str] = collections.Counter()
        self._clock, self._part, self._since_s = clock, WORKERS, clock()

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Counts the time in the context for that part."""
        before = self._turn(part)
        try:
            yield
        finally:
            self._turn(before)

    def clear(self) -> None:
        """Starts again from zero."""
        self._turn(self._part)
        self.seconds.clear()

    def total(self) -> float:
        """Returns the seconds of all parts until now."""
        self._turn(self._part)
        return sum(self.seconds.values())

    def _turn(self, part: str) -> str:
        """Switches to another part; returns the previous one."""
        now_s, before = self._clock(), self._part
        self.seconds[before] += now_s - self._since_s
        self._part, self._since_s = part, now_s
        return before
