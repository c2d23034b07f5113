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
"""Execution of moves: the checks and claims of each, and what conductors tell of it."""

import dataclasses

# What a conductor tells of a move.
RUNNING, DONE, FAILED = 'running', 'done', 'failed'
OUTCOMES = (RUNNING, DONE, FAILED)


@dataclasses.dataclass(frozen=True, slots=True)
class QuietHours:
    """The hours of a day, in UTC, in which no move starts: minutes after midnight.

    ``end`` may be before ``begin``: then they include midnight.
    """

    begin: int
    end: int

    def include(self, now_s):
        """Return whether a time, in seconds since the epoch, is in them."""
        minute = now_s % 86400 / 60
        if self.begin <= self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


@dataclasses.dataclass(frozen=True, slots=True)
class RebalanceSettings:
    """The options of moves. ``in_flight``: moves at the same time.

    For the periodic mode: its ``goal`` (None: there is no such mode), ``interval_s`` between two
    plans, ``moves_per_hour``, ``quiet_hours`` and ``close_s``, how long sources take no new
    servers. Aggregates are given by name or UUID, projects and servers by UUID.
    """

    in_flight: int = 4
    goal: str | None = None
    interval_s: float = 3600.0
    moves_per_hour: int = 20
    quiet_hours: tuple[QuietHours, ...] = ()
    close_s: float | None = None
    protected_aggregates: frozenset[str] = frozenset()
    protected_projects: frozenset[str] = frozenset()
    immovable_servers: frozenset[str] = frozenset()

    def most_an_hour(self, now_s):
        """Return how many periodic moves may start in an hour; None in quiet hours, and without
        a goal."""
        if self.goal is None or any(hours.include(now_s) for hours in self.quiet_hours):
            return None
        return self.moves_per_hour


def settings(conf):
    """Return the options of moves from the present configuration."""
    given = conf.rebalance
    return RebalanceSettings(
        in_flight=given.in_flight,
        goal=given.goal,
        interval_s=given.interval,
        moves_per_hour=given.moves_per_hour,
        quiet_hours=tuple(QuietHours(*hours) for hours in given.quiet_hours),
        close_s=given.close_emptied or None,
        protected_aggregates=frozenset(given.protected_aggregates),
        protected_projects=frozenset(given.protected_projects),
        immovable_servers=frozenset(given.immovable_servers),
    )
