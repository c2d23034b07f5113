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
"""Simulated time: it stands still until it is moved, and returns the events that fall due."""

import heapq
import itertools


class Clock:
    """Seconds of simulated time. Calling the object returns the time, so it can be passed as a
    clock."""

    def __init__(self, start_s=0.0):
        self._now_s = start_s
        self._due = []
        self._order = itertools.count()

    def __call__(self):
        return self._now_s

    def at(self, when_s, what):
        """Schedules ``what`` at that time; an event in the past falls due with the next move."""
        heapq.heappush(self._due, (when_s, next(self._order), what))

    def move(self, to_s):
        """Moves to a time, and yields the events until then, in order of time, then of ``at``.

        At each step the clock shows the time of the event. It never runs backwards.
        """
        while self._due and self._due[0][0] <= to_s:
            when_s, _, what = heapq.heappop(self._due)
            self._now_s = max(self._now_s, when_s)
            yield what
        self._now_s = max(self._now_s, to_s)
