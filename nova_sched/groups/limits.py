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
"""Limits of processor time: a busy machine finds the same as an idle one, only later."""

import dataclasses
import time
from collections.abc import Callable

MEMBERS = 100  # of the groups that PlanLimits are for


@dataclasses.dataclass(frozen=True, slots=True)
class PlanLimits:
    """Seconds of processor time for the greedy search, and for the solver's repair, improvement
    and explanation, each for a group of up to MEMBERS.

    ``improve_scores``: the solver also improves a placement that breaks no preferred policy and
    moves no member.
    """

    greedy_s: float = 0.2
    repair_s: float = 1.0
    improve_s: float = 1.0
    explain_s: float = 2.0
    improve_scores: bool = False

    def of_group(self, members: int) -> 'PlanLimits':
        """Return the limits for a group of so many members: the greedy search of a large group has
        proportionally more time."""
        return dataclasses.replace(self, greedy_s=self.greedy_s * max(1.0, members / MEMBERS))


Clock = Callable[[], float]  # seconds of processor time, from any start

WALL_FACTOR = 5.0  # times the limit, by the wall clock, after which the work ends in any case


class TimeLimit:
    """Ends after ``seconds`` of processor time, or WALL_FACTOR times as long by the wall clock.

    ``seconds`` None: never. ``clock`` counts the processor time of the work; by default that of
    the current thread, so that only this thread may ask.
    """

    def __init__(self, seconds: float | None, clock: Clock = time.thread_time) -> None:
        self._clock, self._seconds = clock, seconds
        self._began_s, self._wall_began_s = clock(), time.monotonic()

    def left(self, share: float = 1.0) -> float:
        """Return the seconds of processor time until this share of the limit is used, or 0."""
        if self._seconds is None:
            return float('inf')
        seconds = share * self._seconds
        if time.monotonic() - self._wall_began_s >= WALL_FACTOR * seconds:
            return 0.0
        return max(seconds - (self._clock() - self._began_s), 0.0)

    @property
    def is_over(self) -> bool:
        return self.left() <= 0
