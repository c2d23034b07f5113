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
"""The NUMA cells, PCI devices and child providers of a node, and whether a request fits them.

All data here is immutable. A fit reads and changes nothing. A take returns what is left free.
``numa`` and ``pci`` are the public modules of the package.
"""

from collections.abc import Callable
from typing import Any

from nova_sched import errors


class Overdrawn(errors.SchedError):
    """Raised when something is taken that is not free, or freed that is not in use. Nothing has
    changed."""

    facts = ('what', 'why')
    message = '{what}: {why}'


class Undecided(Exception):
    """A search has taken all of its steps: it is not known whether the request fits. ``for_now``:
    it had few steps, because other searches had taken most of those that they share."""

    def __init__(self, for_now: bool = False):
        super().__init__()
        self.for_now = for_now


class Interrupted(BaseException):
    """A search pauses for others. ``rest`` goes on with it. It is not an Exception, because it is
    not a failure."""

    def __init__(self, rest: Callable[[], Any]):
        super().__init__()
        self.rest = rest


class Steps:
    """The steps that a search may still take.

    Of many searches for one request, those that come late have few: ``shared`` are the steps of
    all, and ``fewest`` those that a search has in any case. ``pause`` returns whether a search is
    to be interrupted; None: never. ``interrupted`` is the one that was: what it is for, and its
    rest.
    """

    def __init__(
        self,
        limit: int,
        shared: 'Steps | None' = None,
        fewest: int = 0,
        pause: Callable[[], bool] | None = None,
    ):
        self.left: int = limit if shared is None else min(limit, max(shared.left, fewest))
        self._shared, self._is_cut = shared, self.left < limit
        self.pause: Callable[[], bool] | None = pause if shared is None else shared.pause
        self.interrupted: tuple[Any, Callable[[], Any] | None] = None, None

    def spend(self, steps: int = 1) -> None:
        """Raise Undecided if fewer steps than that are left."""
        self.left -= steps
        if self._shared is not None:
            self._shared.left -= steps
        if self.left < 0:
            raise Undecided(self._is_cut)


def read(thing: Any, name: str, default: Any = None) -> Any:
    """Return an attribute, or the default if it is missing, None or unset (versioned objects
    raise when an unset field is read)."""
    try:
        value = getattr(thing, name)
    except (AttributeError, NotImplementedError):
        return default
    return default if value is None else value
