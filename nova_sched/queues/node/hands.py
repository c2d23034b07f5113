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
"""The current jobs of a worker: one per instance is in progress, and the rest wait for its end."""

import collections
import dataclasses
import enum
import threading

from nova_sched.objects.job import QueueJob
from nova_sched.queues.broker import Delivery


@dataclasses.dataclass(slots=True, eq=False)
class Task:
    """A job with its message.

    ``taken``: the node holds the job's resources, and has left the queues that no longer fit.
    ``ended``: only the answer is missing.
    """

    job: QueueJob
    delivery: Delivery
    taken: bool = False
    ended: bool = False

    @property
    def uuid(self) -> str:
        """The UUID of its instance."""
        return self.job.instance_uuid


class Verdict(enum.Enum):
    """The action for a message that has arrived."""

    BEGIN = 'begin'
    WAIT = 'wait'  # for the end of another job of its instance
    AGAIN = 'again'  # an older message of the same job is held, and is obsolete now
    RETURN = 'return'  # another worker had it and disconnected
    LEAVE = 'leave'  # the worker stops: the message is returned at the end


class Hands:
    """May be used from any thread; it makes no calls."""

    def __init__(self) -> None:
        self._chains: dict[
            str, collections.deque[Task]
        ] = {}  # by instance, the job in progress first
        self._idle = threading.Condition()
        self._is_closed = False

    def __len__(self) -> int:
        return sum(map(len, list(self._chains.values())))

    def take(self, task: Task) -> tuple[Verdict, Delivery | None]:
        """Returns the action for a new task, and for AGAIN the message that is obsolete.

        The same job is delivered again after a connection was lost; the last delivery counts.
        """
        with self._idle:
            if self._is_closed:
                return Verdict.LEAVE, None
            chain = self._chains.get(task.uuid)
            for one in chain or ():
                if one.job.uuid == task.job.uuid and not one.ended:
                    older, one.delivery = one.delivery, task.delivery
                    return Verdict.AGAIN, older
            if task.delivery.redelivered:
                return Verdict.RETURN, None
            if chain is None:
                self._chains[task.uuid] = collections.deque([task])
                return Verdict.BEGIN, None
            task.taken = True  # it holds no resources before its turn
            chain.append(task)
            return Verdict.WAIT, None

    def let_go(self, task: Task) -> Task | None:
        """Remove a task that has ended; returns the task that waited for its end."""
        with self._idle:
            chain = self._chains[task.uuid]
            chain.popleft()
            if chain:
                chain[0].taken = False
                return chain[0]
            del self._chains[task.uuid]
            if not self._chains:
                self._idle.notify_all()
            return None

    def count(self) -> tuple[int, bool]:
        """Returns the number of jobs, and whether the node holds the resources of all of them."""
        with self._idle:
            tasks = [task for chain in self._chains.values() for task in chain]
            return len(tasks), all(task.taken for task in tasks)

    def close(self) -> None:
        """Accept no more tasks; waiting ones are returned at the end."""
        with self._idle:
            self._is_closed = True
            for chain in self._chains.values():
                while len(chain) > 1:
                    chain.pop()

    def wait(self, patience_s: float) -> bool:
        """Wait until no task is left. Returns whether that is so."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._chains, patience_s)
