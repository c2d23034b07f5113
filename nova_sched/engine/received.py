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
"""When a message was sent, as far as the receiving process can know, and how long its caller
waits.

The thread that handles a message gets it from ``current()``. Work without a message counts as
received at this moment.
"""

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Callable

from nova_sched import errors


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """One message. It was sent after ``since_s``, in seconds by the store's clock; -inf: at any
    time before.

    ``is_over`` returns whether its caller has stopped waiting.
    """

    since_s: float = math.inf
    is_over: Callable[[], bool] = lambda: False

    def check(self, what):
        """Raise Outdated if the caller has stopped waiting."""
        if self.is_over():
            raise errors.Outdated(what, 'its caller has stopped waiting for the answer')


# Within this many seconds, a broker notices that a process with a message does not run, and
# delivers the message again.
REDELIVERY_S = 180.0

NOW = Received()
_CURRENT: contextvars.ContextVar[Received] = contextvars.ContextVar('received', default=NOW)


def current():
    """The message that this thread handles."""
    return _CURRENT.get()


@contextlib.contextmanager
def handling(received):
    """Handle a message in this thread."""
    token = _CURRENT.set(received)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class Arrivals:
    """Makes a Received of each incoming message, by the store's ``clock`` and the ``pauses`` of
    this process."""

    def __init__(self, clock, pauses):
        self._clock, self._pauses = clock, pauses

    def take(self, timeout_s=None, silence_s=None, is_again=False):
        """The Received of a message that was just taken off the bus.

        Its caller waits for ``timeout_s`` seconds in total, and for ``silence_s`` seconds after
        the last sign of life of this process; None: without a limit. ``is_again``: the bus has
        delivered it before, to a process that did not handle it.
        """
        taken = self._pauses.sent_after()
        since_s = self._clock.at(taken) - (REDELIVERY_S if is_again else 0.0)

        def is_over():
            waited_s = self._pauses.tick() - taken
            if timeout_s is not None and waited_s > timeout_s:
                return True
            return silence_s is not None and self._pauses.stood_still(taken) > silence_s

        return Received(since_s, is_over)
