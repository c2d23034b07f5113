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
"""The subscriptions of a worker, and their update by differences only."""

from collections.abc import Sequence

import numpy as np

from nova_sched.queues.broker import Consumer

NONE, UNSURE = (
    -1,
    -2,
)  # instead of a priority: not subscribed; the broker was called, and did not answer


class Subscription:
    """The subscriptions of one consumer: to ``own``, its node's own queue, and to flavor queues.

    Its own queue comes first, and has the highest priority. The state of the flavor queues is an
    array in the order of their names, because workers and queues may both be many. One thread at a
    time may call its methods.
    """

    def __init__(self, consumer: Consumer, own: str, own_priority: int):
        self._consumer = consumer
        self._own, self._own_priority = own, own_priority
        self._names: Sequence[str] = ()
        self._now = np.empty(0, np.int16)
        self._gone: dict[
            str, None
        ] = {}  # queues that it may be subscribed to, and that are not in the catalogue any more
        self._has_own = False

    def __len__(self) -> int:
        """Returns the number of flavor queues that it is subscribed to."""
        return int(np.count_nonzero(self._now >= 0))

    def follow(self, names: Sequence[str], priorities: np.ndarray) -> int:
        """Subscribe to queues; ``priorities`` has one for each name, NONE for no subscription.

        The names of one catalogue are the same object each time. Returns the number of changes.
        Raises BrokerUnavailable; the next call then repeats the changes that the broker may have
        missed.
        """
        if names is not self._names:
            self._rename(names)
        changed = np.flatnonzero(priorities != self._now).tolist()
        change: dict[str, int | None] = {} if self._has_own else {self._own: self._own_priority}
        change |= self._gone
        for place in changed:
            wanted = int(priorities[place])
            change[names[place]] = None if wanted == NONE else wanted
        if change:
            self._now[changed] = UNSURE
            self._consumer.follow(change)
            self._now[changed] = priorities[changed]
            self._has_own, self._gone = True, {}
        return len(change)

    def end(self) -> int:
        """End all subscriptions, including the own queue. Returns and raises as
        ``follow`` does."""
        change = self._gone | {
            self._names[place]: None for place in np.flatnonzero(self._now != NONE).tolist()
        }
        if self._has_own:
            change[self._own] = None
        if change:
            self._consumer.follow(change)
            self._now[:] = NONE
            self._has_own, self._gone = False, {}
        return len(change)

    def _rename(self, names: Sequence[str]) -> None:
        """Keep the state of each queue under another catalogue."""
        before = {
            self._names[place]: self._now[place]
            for place in np.flatnonzero(self._now != NONE).tolist()
        }
        places = {name: place for place, name in enumerate(names)}
        self._now = np.full(len(names), NONE, np.int16)
        for name, priority in before.items():
            if name in places:
                self._now[places[name]] = priority
            else:
                self._gone[name] = None
        for name in [name for name in self._gone if name in places]:
            del self._gone[name]
            self._now[places[name]] = UNSURE
        self._names = names
