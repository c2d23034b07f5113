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
"""Change events: committed changes that are sent to the other schedulers in parallel with the
loop."""

import dataclasses
import logging
import time
from collections.abc import Mapping

from nova_sched import errors
from nova_sched.engine.figures import Figures
from nova_sched.engine.outbox import Outbox
from nova_sched.objects.claim import Claim

LOG = logging.getLogger(__name__)

GATHER_S = 0.015  # changes within this time are sent together
MOST = 500  # changes and claims in one message, at most
WAITING = 2000  # changes that wait to be sent, at most


@dataclasses.dataclass(frozen=True, slots=True)
class Commit:
    """Claims that one transaction changed.

    ``nodes`` maps the UUID of each node to its generation before and after. Earlier claims of the
    ``consumers`` on these nodes have ended, and are replaced by ``claims``.
    """

    nodes: Mapping[str, tuple[int, int]]
    consumers: tuple[str, ...]
    claims: tuple[Claim, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeEvent:
    """What one scheduler changed in the store; ``made_s`` is the earliest time, in seconds since
    the epoch.

    ``looks`` maps nodes that changed in another way than by claims to their generations then, None
    if unknown. ``tables``: services, aggregates or instance lists changed.
    """

    made_s: float
    commits: tuple[Commit, ...] = ()
    looks: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    tables: bool = False

    @property
    def size(self):
        return 1 + sum(len(commit.claims) for commit in self.commits)


def together(changes):
    """Several ChangeEvents as one, in their order."""
    looks: dict[str, int | None] = {}
    for one in changes:
        looks |= one.looks
    return ChangeEvent(
        min(one.made_s for one in changes),
        tuple(commit for one in changes for commit in one.commits),
        looks,
        any(one.tables for one in changes),
    )


class ChangePublisher(Outbox):
    """Sends change events to the other schedulers, in a separate thread.

    ``send`` sends a ChangeEvent, and raises SchedError if it cannot. Without it, or while
    ``alone()``, nothing is sent. Changes that cannot be sent, and those beyond ``waiting`` in the
    queue, are dropped: the other schedulers find them at their next poll of the database.
    """

    def __init__(self, send=None, alone=lambda: False, clock=time.time, waiting=WAITING):
        super().__init__('nova-sched-news', GATHER_S, waiting, MOST)
        self._send = send
        self._alone = alone
        self._clock = clock
        self.figures = Figures()
        self._away = False

    def start(self):
        if self._send is not None:
            super().start()

    def stop(self, timeout_s=5.0):
        """Send the queued changes, and take no more. Waits ``timeout_s`` seconds at most for the
        bus."""
        super().stop(timeout_s)

    @property
    def is_heard(self):
        """Whether there are other schedulers to send to."""
        return self._send is not None and not self._alone()

    def tell(self, commits=(), looks=None, tables=False):
        """Queue changes for the other schedulers. Never waits."""
        if not self.is_heard:
            return
        event = ChangeEvent(self._clock(), tuple(commits), looks or {}, tables)
        if not self.put(event):
            self.figures.news_dropped += 1

    def _size(self, event):
        return event.size

    def _pass_on(self, changes):
        try:
            self._send(together(changes))
            self.figures.news_told += 1
            self._away = False
        except errors.SchedError as error:
            self.figures.news_dropped += len(changes)
            if not self._away:
                LOG.warning('%s; other schedulers read the changes from the database', error)
            self._away = True
        except Exception:
            self.figures.news_dropped += len(changes)
            LOG.exception('%d changes cannot be sent to other schedulers', len(changes))
