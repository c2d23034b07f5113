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

import dataclasses
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from nova_sched import errors
from nova_sched.queues.broker import Consumer, of_host
from nova_sched.queues.node.figures import Figures
from nova_sched.queues.node.hands import Hands
from nova_sched.queues.node.site import Site
from nova_sched.queues.node.subscription import NONE, Subscription
from nova_sched.queues.node.troubles import Troubles, line
from nova_sched.state.report import Report
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)

# seconds for which a worker avoids a queue after it put a job back: another worker is to take it
SHUN_S = 5.0


class View(Protocol):
    """The queues of a catalogue that the node can serve.

    ``names`` are the names of the queues at the broker, the same object as long as the catalogue
    is the same.
    """

    @property
    def names(self) -> Sequence[str]: ...

    def judge(self, report: Report) -> np.ndarray:
        """Returns int16 for each name: the node's priority for its jobs; NONE if it
        cannot do one."""

    def takes(self, report: Report, request: Request) -> bool:
        """Whether the filters keep the node for this request. Raises InvalidRequest."""


@dataclasses.dataclass(slots=True)
class Appetite:
    """The settings of a worker: ``slots`` is its number of parallel jobs.

    ``own_priority`` is the priority of its own queue, above the others.
    """

    slots: int
    own_priority: int


class Following:
    """The subscriptions of one consumer. May be used from any thread except the delivering one.

    ``stale``: the node has changed since its queues were chosen. ``view`` chooses the queues, and
    is None as long as there is no catalogue.
    """

    def __init__(
        self,
        consumer: Consumer,
        site: Site,
        hands: Hands,
        appetite: Appetite,
        figures: Figures,
        clock: Callable[[], float],
    ):
        self.stale = True
        self.view: View | None = None
        self._consumer, self._site, self._hands = consumer, site, hands
        self._slots, self._figures, self._clock = appetite.slots, figures, clock
        self._subscription = Subscription(consumer, of_host(site.host), appetite.own_priority)
        self._troubles = Troubles(LOG)
        self._turn = threading.Lock()
        self._window = 1
        self._shunned: dict[str, float] = {}  # queue -> until when
        self._is_closed = False

    def __len__(self) -> int:
        """Returns the number of flavor queues that it is subscribed to."""
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
                    why = 'The queues of this node cannot be chosen, trying until they can: %s'
                    self._troubles.complain('queues', why, line(error))
                    LOG.debug('Evaluation failed', exc_info=True)
                else:
                    self._troubles.relieve('queues', 'The queues of this node are chosen again')
            self._open()

    def takes(self, request: Request) -> bool:
        """Whether the filters keep the node for this request. Raises InvalidRequest."""
        with self._turn:
            return self.view is None or self.view.takes(self._site.facts(), request)

    def _follow(self) -> None:
        self._figures.evaluations += 1
        if self._is_closed:
            self._figures.changes += self._subscription.end()
        elif self.view is None:
            self._figures.changes += self._subscription.follow((), np.empty(0, np.int16))
        else:
            names = self.view.names
            wanted = self._without_shunned(names, self.view.judge(self._site.facts()))
            self._figures.changes += self._subscription.follow(names, wanted)

    def _without_shunned(self, names: Sequence[str], wanted: np.ndarray) -> np.ndarray:
        now_s = self._clock()
        self._shunned = {
            name: until_s for name, until_s in self._shunned.items() if until_s > now_s
        }
        places = [names.index(name) for name in self._shunned if name in names]
        if places:
            wanted = wanted.copy()
            wanted[places] = NONE
        return wanted

    def _open(self) -> None:
        """Open the window for one more job, after the node has left the queues that no
        longer fit."""
        count, all_taken = self._hands.count()
        window = max(1, min(self._slots, count + (all_taken and not self.stale)))
        if window == self._window:
            return
        try:
            self._consumer.window(window)
            self._window = window
        except errors.BrokerUnavailable as error:
            LOG.debug('The window stays at %d: %s', self._window, error)
            self.stale = True
