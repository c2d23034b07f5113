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
"""One move of a server, as plans list it."""

import dataclasses

from nova_sched import errors, words

MOST = 10_000  # moves of one plan: more of them are several plans


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A server that leaves one compute node for another. All three are UUIDs."""

    server: str
    source: str
    destination: str


def read(given):
    """Reads the list ``moves`` of a plan, objects with `server`, `source` and `destination`, as a
    list of Move; other keys are left out. Raises InvalidRequest, with the place."""
    if not isinstance(given, list):
        raise errors.InvalidRequest('moves', f'{words.short(given)} is no list of moves')
    if len(given) > MOST:
        raise errors.InvalidRequest('moves', f'{len(given)} of them; at most {MOST} are accepted')
    moves = [_move(one, f'moves[{place}]') for place, one in enumerate(given)]
    seen = set()
    for place, one in enumerate(moves):
        if one.server in seen:
            why = f'server {one.server} is in an earlier move: a plan moves a server once'
            raise errors.InvalidRequest(f'moves[{place}]', why)
        seen.add(one.server)
    return moves


def _move(one, where):
    if not isinstance(one, dict):
        raise errors.InvalidRequest(where, f'{words.short(one)} is no object')
    names = ('server', 'source', 'destination')
    move = Move(*(words.uuid(one.get(name), f'{where}.{name}') for name in names))
    if move.source == move.destination:
        raise errors.InvalidRequest(where, f'its source is its destination, {move.source}')
    return move
