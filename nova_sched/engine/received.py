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
"""How long the caller of a message waits, as far as the receiving process can know.

That saves work: a call whose caller has left is not carried out. No claim depends on it. The
thread that handles a message gets it from ``current()``.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """One message. ``is_over`` returns whether its caller has stopped waiting."""

    is_over: Callable[[], bool] = lambda: False


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
