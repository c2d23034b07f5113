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
"""Keeps the subscriptions and the window of a worker up to date with its node."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from nova_sched import errors
from nova_sched.extensions.queues.brokers import Consumer, of_host
from nova_sched.extensions.queues.node import NodeApi
from nova_sched.extensions.queues.node.inflight import InflightJobs, WorkerFigures
from nova_sched.logs import Problems, first_line
from nova_sched.state.report import Report
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)

# seconds for which a worker avoids a queue after it put a job back: another worker is to take it
SHUN_S = 5.0


class CatalogueView(Protocol):
    """The queues of a catalogue that the node can serve.

    ``names`` are the names of the queues at the broker, the same object as long as the catalogue
    is the same.
    """

    @property
    def names(self) -> Sequence[str]: ...

    def judge(self, report: Report) -> np.ndarray:
        """Return int16 for each name: the node's priority for its jobs; NONE if it
        cannot do one."""

    def takes(self, report: Report, request: Request) -> bool:
        """Whether the filters keep the node for this request. Raises InvalidRequest."""


class SubscriptionSync:
    """The subscriptions of one consumer. May be used from any thread except the delivering one.

    ``stale``: the node has changed since its queues were chosen. ``view`` chooses the queues, and
    is None as long as there is no catalogue.
    """

    def __init__(
        self,
        consumer: Consumer,
        node_api: NodeApi,
        inflight: InflightJobs,
        slots: int,
        own_priority: int,
        figures: WorkerFigures,
        clock: Callable[[], float],
    ):
        self.stale = True
        self.view: CatalogueView | None = None
        self._consumer, self._node_api, self._inflight = consumer, node_api, inflight
        self._slots, self._figures, self._clock = slots, figures, clock
        self._subscription = Subscriptions(consumer, of_host(node_api.host), own_priority)
        self._problems = Problems(LOG)
        self._turn = threading.Lock()
        self._window = 1
        self._shunned: dict[str, float] = {}  # queue -> until when
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of flavor queues that it is subscribed to."""
        return len(self._subscription)

    def shun(self, queue: str) -> None:
        """Avoid a queue for SHUN_S seconds, from the next evaluation on."""
        with self._turn:
            self._shunned[queue] = self._clock() + SHUN_S
        self.stale = True

    def close(self) -> None:
        """Leave all queues permanently at the next evaluation, including the node's own one."""
        self._is_closed = self.stale = True

    def evaluate(self) -> None:
        """Subscribe to the queues that the node satisfies now, if it has changed; adjust the
        window.

        After an error it stays stale.
        """
        with self._turn:
            if self.stale:
                self.stale = False  # first: a change from now on is for the next evaluation
                try:
                    self._follow()
                except Exception as error:
                    self.stale = True
                    self._problems.begin(
                        'queues',
                        'The queues of this node cannot be chosen, trying until they can: %s',
                        f'{type(error).__name__}: {first_line(error)}',
                    )
                    LOG.debug('Evaluation failed', exc_info=True)
                else:
                    self._problems.end('queues', 'The queues of this node are chosen again')
            self._open()

    def takes(self, request: Request) -> bool:
        """Whether the filters keep the node for this request. Raises InvalidRequest."""
        with self._turn:
            return self.view is None or self.view.takes(self._node_api.facts(), request)

    def _follow(self) -> None:
        self._figures.evaluations += 1
        if self._is_closed:
            self._figures.changes += self._subscription.end()
        elif self.view is None:
            self._figures.changes += self._subscription.follow((), np.empty(0, np.int16))
        else:
            names, priorities = self.view.names, self.view.judge(self._node_api.facts())
            now_s = self._clock()
            self._shunned = {
                name: until_s for name, until_s in self._shunned.items() if until_s > now_s
            }
            places = [names.index(name) for name in self._shunned if name in names]
            if places:
                priorities = priorities.copy()
                priorities[places] = NONE
            self._figures.changes += self._subscription.follow(names, priorities)

    def _open(self) -> None:
        """Open the window for one more job, after the node has left the queues that no
        longer fit."""
        count, all_taken = self._inflight.count()
        window = max(1, min(self._slots, count + (all_taken and not self.stale)))
        if window == self._window:
            return
        try:
            self._consumer.window(window)
            self._window = window
        except errors.BrokerUnavailable as error:
            LOG.debug('The window stays at %d: %s', self._window, error)
            self.stale = True


# Instead of a priority: not subscribed; the broker was called, and did not answer.
NONE, UNSURE = -1, -2


class Subscriptions:
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
        # Queues that it may be subscribed to, and that are not in the catalogue any more.
        self._gone: dict[str, None] = {}
        self._has_own = False

    def __len__(self) -> int:
        """Return the number of flavor queues that it is subscribed to."""
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
