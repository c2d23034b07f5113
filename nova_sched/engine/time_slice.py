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
"""Requests of a new kind in slices: a decision pauses between machines, so that other requests do
not wait until all machines are judged."""

import time

SLICE_S = 0.001
YIELD_S = 0.0001  # for other threads, which otherwise run only every 5 ms
hold_clock = time.perf_counter  # a benchmark measures holds by processor time


class TimeSlice:
    """The time that a batch may spend on machines that no earlier request of the kind has judged:
    until ``end_s`` by the monotonic clock. None: SLICE_S after the first of them.

    ``others_wait`` returns whether other messages wait: without them, another slice begins.
    """

    def __init__(self, others_wait, clock=time.monotonic, sleep=time.sleep):
        self._others_wait, self._clock, self._sleep = others_wait, clock, sleep
        self.end_s = None
        self._is_spent = False
        self._held_since_s = self._longest_s = 0.0

    def is_over(self):
        """Called after each machine."""
        now_s = self._clock()
        if self.end_s is None:
            self.end_s, self._is_spent = now_s + SLICE_S, False
        if now_s < self.end_s:
            return False
        if not self._is_spent:
            self.let()
        self._is_spent = self._others_wait()
        if not self._is_spent:
            self.end_s = None
            self._longest_s = self.held_s()
            self._held_since_s = hold_clock()
        return self._is_spent

    def let(self):
        """Let other threads run: they bring messages, or wait for what was just answered."""
        self._sleep(YIELD_S)

    def hold(self):
        """From now on, others that come have to wait, until ``is_over`` sees whether there are
        any."""
        self._held_since_s, self._longest_s = hold_clock(), 0.0

    def held_s(self):
        """Return for how long others had to wait at most since ``hold``, if there were any."""
        return max(self._longest_s, hold_clock() - self._held_since_s)
