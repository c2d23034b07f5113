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
"""Moves of servers between hosts: plans of them.

The parts of a plan that others need are here, read from texts: its goal, how many moves it may
have, and the moves themselves.

::

    problem -> what a plan is made from: hosts, servers and rules, as arrays
    plan    -> a plan while it grows (Room), and when it is made (Plan)
    greedy  -> plans for the goals empty, drain, fit and spread
    exact   -> better plans for empty and fit, by CP-SAT, in a process of its own
    bound   -> the most hosts that any plan empties
"""

import dataclasses

from nova_sched import errors, words
from nova_sched.words import suggestion

EMPTY, DRAIN, FIT, SPREAD = GOALS = ('empty', 'drain', 'fit', 'spread')
SEARCH_S, MAX_SEARCH_S = 60, 600  # that a thorough plan takes: usually, and at most
MAX_NAMES = 1000  # of what a plan drains
NAMED = {DRAIN: 'hosts, aggregates or zones, with commas', FIT: 'a flavor'}
MAX_MOVES = 10_000  # moves of one plan: more of them are several plans


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """One of GOALS; ``names`` are what it drains, or the flavor that is to fit."""

    kind: str
    names: tuple[str, ...] = ()


def read_goal(text):
    """Read `empty`, `spread`, `drain:HOST,...` or `fit:FLAVOR`. Raises InvalidRequest."""
    if not isinstance(text, str):
        raise errors.InvalidRequest('goal', 'it is not text')
    kind, colon, rest = text.partition(':')
    names = tuple(dict.fromkeys(name.strip() for name in rest.split(',') if name.strip()))
    for name in filter(None, (kind, *names)):
        words.name(name, 'goal')
    if len(names) > MAX_NAMES:
        why = f'{len(names)} names; at most {MAX_NAMES} are accepted'
        raise errors.InvalidRequest('goal', why)
    if kind not in GOALS:
        advice = suggestion(kind, GOALS) or f'; there are {", ".join(GOALS)}'
        raise errors.InvalidRequest('goal', f'there is no goal {kind}{advice}')
    if kind in NAMED and not names:
        raise errors.InvalidRequest('goal', f'{kind} needs {NAMED[kind]}: {kind}:NAME')
    if kind not in NAMED and colon:
        raise errors.InvalidRequest('goal', f'{kind} takes no name')
    if kind == FIT and len(names) > 1:
        raise errors.InvalidRequest('goal', 'fit takes one flavor')
    return Goal(kind, names)


def most_moves(text, servers):
    """Read a number of moves, or a share of the servers such as `1%`, which is one move at least.
    None: no limit. Raises InvalidRequest."""
    if text is None:
        return servers
    try:
        if isinstance(text, str) and text.strip().endswith('%'):
            share = words.finite(text.strip()[:-1], most=100)
            if share <= 0:
                raise ValueError
            return max(1, int(servers * share / 100))
        return words.whole(text, 1)
    except ValueError:
        shown = text[:64] if isinstance(text, str) else words.short(text)
        why = f'{shown} is neither a number from 1 nor a share such as 1%'
        raise errors.InvalidRequest('moves', why) from None


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A server that leaves one compute node for another. All three are UUIDs."""

    server: str
    source: str
    destination: str


def read_moves(given):
    """Read the list ``moves`` of a plan, objects with `server`, `source` and `destination`, as a
    list of Move; other keys are left out. Raises InvalidRequest, with the place."""
    if not isinstance(given, list):
        raise errors.InvalidRequest('moves', f'{words.short(given)} is not a list of moves')
    if len(given) > MAX_MOVES:
        raise errors.InvalidRequest(
            'moves', f'{len(given)} of them; at most {MAX_MOVES} are accepted'
        )
    moves = [_move(item, f'moves[{place}]') for place, item in enumerate(given)]
    seen = set()
    for place, move in enumerate(moves):
        if move.server in seen:
            why = f'server {move.server} is in an earlier move: a plan moves a server once'
            raise errors.InvalidRequest(f'moves[{place}]', why)
        seen.add(move.server)
    return moves


def _move(item, where):
    if not isinstance(item, dict):
        raise errors.InvalidRequest(where, f'{words.short(item)} is not an object')
    names = ('server', 'source', 'destination')
    move = Move(*(words.uuid(item.get(name), f'{where}.{name}') for name in names))
    if move.source == move.destination:
        raise errors.InvalidRequest(where, f'its source is its destination, {move.source}')
    return move
