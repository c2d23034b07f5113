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
"""The order of work about servers: for one server, one after the other."""

import dataclasses
import threading
from collections.abc import Callable, Iterable


@dataclasses.dataclass(slots=True, eq=False)
class Turn:
    """Work about some servers, from its entry until it leaves."""

    servers: frozenset[str]
    start: 'Callable[[Turn], None]'
    waits: int = 0
    followers: 'list[Turn]' = dataclasses.field(default_factory=list)


class Turns:
    """Starts work in the order of its entry, as soon as all earlier work about its servers has
    left. May be used from any thread."""

    def __init__(self) -> None:
        self._last: dict[str, Turn] = {}
        self._lock = threading.Lock()

    def enter(self, servers: Iterable[str], start: Callable[[Turn], None]) -> None:
        """Call ``start`` with the Turn, now or when its turn comes. It must not wait."""
        turn = Turn(frozenset(servers), start)
        with self._lock:
            earlier = {self._last[one] for one in turn.servers if one in self._last}
            turn.waits = len(earlier)
            for one in earlier:
                one.followers.append(turn)
            self._last.update(dict.fromkeys(turn.servers, turn))
        if not earlier:
            start(turn)

    def leave(self, turn: Turn) -> None:
        with self._lock:
            for server in turn.servers:
                if self._last[server] is turn:
                    del self._last[server]
            for one in turn.followers:
                one.waits -= 1
            ready = [one for one in turn.followers if not one.waits]
        for one in ready:
            one.start(one)
