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
"""The world beside the store: what runs where, what callers were told, which messages are in
flight.

A world is made of Parts. Each kind of events is a function of some of them: it gets no others,
and returns each next world with a sentence. ``World.wrong`` says which promise a world breaks.
"""

import dataclasses
import functools
from typing import NamedTuple

from nova_sched.claim import KEEPING_THE_SOURCE
from nova_sched.claim import RESIZE as RESIZE_MOVE
from nova_sched.tests.explorer.books import APART, MIRROR, NUMBERED, SEEN, UNREAD, Books

# What a caller waits for, or has.
(IDLE, ASKED, TOLD, BUILT, RUNS, GONE, ABORTS, ASKED_RESIZE, TOLD_RESIZE, GROWN, KEEPS, REVERTS,
 ASKED_MOVE, TOLD_MOVE, MOVED, SETTLES, ASKED_ALTERNATE, REFUSED, ASKED_SELECT,
 TOLD_SELECT) = range(20)  # fmt: skip


class Caller(NamedTuple):
    """A server: the UUID by which its claim on ``here`` is named, its size and its pieces there;
    the other node, the UUID and the size of its move or resize, and the number of its request."""

    phase: int = IDLE
    here: int = 0
    name: str | None = None
    size: int = 0
    pieces: tuple = ()
    there: int = 0
    other: str | None = None
    larger: int = 0
    request: int = 0

    def now(self, phase, **changes):
        return self._replace(phase=phase, **changes)

    def settled(self, phase, **changes):
        """After a call that has named what it meant."""
        rest = {'name': None, 'there': 0, 'other': None, 'larger': 0}
        return self._replace(phase=phase, **{**rest, **changes})

    @property
    def size_there(self):
        return self.larger or self.size


EXACT = SEEN, NUMBERED, MIRROR  # senders after whose reports nothing stays
AT_REST = frozenset([IDLE, RUNS, GONE])
WAITS = frozenset([ASKED, ABORTS, ASKED_RESIZE, KEEPS, REVERTS, ASKED_MOVE, SETTLES, BUILT,
                   ASKED_ALTERNATE, ASKED_SELECT])  # fmt: skip
HAS_TIME = AT_REST | {ASKED, ASKED_RESIZE, ASKED_MOVE, ASKED_SELECT}
NOTHING, DONE = Caller(), Caller(GONE)

CHOSEN = 'chosen'  # instead of a UUID: a scheduler has chosen the node where it moves to
LAST = 999  # a generation above all that there are

BOOT, CONFIRM, ABORT, RESIZE, MOVE, REVERT, REMOVE, ALTERNATE, SELECT, STAY = range(10)
BY_REQUEST = frozenset([RESIZE, MOVE, SELECT, STAY])  # calls that have its ID, not a UUID
REFUSALS = 'ComputeResourcesUnavailable', 'Outdated', 'NodeNotFound', 'ClaimNotFound'
TEXTS = {
    BOOT: 'boot',
    CONFIRM: 'confirm_claim',
    ABORT: 'abort_claim',
    RESIZE: 'resize_claim',
    MOVE: 'resize_claim for a move',
    REVERT: 'revert_claim',
    REMOVE: 'remove_node',
    ALTERNATE: 'claim_alternate',
    SELECT: 'select_destinations for a move',
    STAY: 'select_destinations for a resize on any node',
}


@dataclasses.dataclass(frozen=True)
class Scope:
    """What there is in a world, and what may happen."""

    consumers: int = 2
    runs: bool = False  # the first consumer runs at first
    nodes: int = 1
    schedulers: int = 1
    capacity: int = 2
    wants: tuple = ()  # of each consumer: what it wants beside a CPU; those of pinned CPUs stay
    stranger: int = 0  # the size of an instance on the first node that nobody claims
    sender: str = SEEN
    names: bool = True  # calls name their claims
    calls: int = 2  # in flight at once
    reports: int = 1  # of a node, in flight at once
    resize: bool = False
    moves: tuple = ()
    selects: bool = False  # schedulers choose where a server moves to
    unnamed: bool = False  # what is chosen moves, and no call says how; nor does one in place
    alternates: bool = False
    aborts: bool = True
    deletes: bool = True
    again: bool = False  # what was deleted boots again under its UUID, as after it was shelved
    doubles: bool = True  # calls may arrive twice
    double_reports: bool = True
    time_passes: int = 0
    rebuilds: int = 0
    removals: int = 0
    stops: int = 0

    @property
    def mirrors(self):
        """Whether the schedulers read the nodes themselves, and report what they have read."""
        return self.sender == MIRROR


class Parts(NamedTuple):
    """A world, or those parts of it that matter; the others are None.

    ``at``: the state of the store. ``reports`` by node: those on the bus, oldest first, and the
    number of those that are not newer than the last one that was applied. ``agents``: what the
    sender of each node's reports keeps. ``views`` by scheduler: what it has read of each node.
    ``lives`` by node: the number of its UUID, and whether it is up. ``luck``: the size of what
    nobody claims, and how often time may pass, and nodes be rebuilt, stop and be removed.

    ``moved`` by node: how an event has moved the numbers of generations, in those parts too that
    it did not get.
    """

    at: int | None = None
    callers: tuple | None = None
    calls: tuple | None = None
    reports: tuple | None = None
    agents: tuple | None = None
    views: tuple | None = None
    lives: tuple | None = None
    luck: tuple | None = None
    moved: tuple | None = None


class World:
    JUDGED = 'at', 'callers', 'agents', 'lives', 'luck'  # the parts that ``wrong`` gets

    def __init__(self, scope, books=Books):
        self.scope = scope
        self.books = books(scope.nodes, scope.capacity, frozenset(scope.wants))
        self.wants = (*scope.wants, *[None] * (scope.consumers - len(scope.wants)))
        self.names = [[f'{one}.{number}' for number in range(9)] for one in range(scope.consumers)]
        self._names_in = functools.cache(self.books.names_in)
        self.keeps_source = bool(KEEPING_THE_SOURCE.intersection(scope.moves))
        self._rests, self._listed = {}, {}

    def kinds(self):
        """(function of a world that returns the next ones, the parts that it gets) of each kind of
        events."""
        scope = self.scope
        comes = ('callers', 'calls', 'agents', *(['reports'] if scope.mirrors else []))
        of_node = 'at', 'callers', 'reports', 'agents', 'lives', 'luck'
        if scope.removals:
            of_node += ('calls',)
        return [
            (self._by_callers, comes),
            (self._by_calls, ('at', 'callers', 'calls', 'views', 'lives')),
            *((functools.partial(self._by_node, node), of_node) for node in range(scope.nodes)),
            (self._by_reading, ('at', 'views')),
            (self._by_time, ('at', 'callers', 'views', 'luck')),
            (self._by_expiry, ('at',)),
        ]

    def first(self):
        scope = self.scope
        at = self.books.first
        for node in range(scope.nodes):
            listed = self._strangers(node, (scope.stranger,))
            event = 'report', node, 0, listed, (), scope.sender, True, 0
            at, _, _ = self.books.step(at, event)
        views = tuple(self._view(at, node) for node in range(scope.nodes))
        first = Parts(
            at,
            callers=(NOTHING,) * scope.consumers,
            calls=(),
            reports=(((), 0),) * scope.nodes,
            agents=(self._memory(),) * scope.nodes,
            views=(views,) * scope.schedulers,
            lives=((0, 1),) * scope.nodes,
            luck=(scope.stranger, scope.time_passes, scope.rebuilds, scope.stops, scope.removals),
        )
        return self._running(first) if scope.runs else first

    def _running(self, world):
        for begin in '{c} calls boot', 'boot of {c}', '{c} is built', 'confirm_claim of {c}':
            steps = [*self._by_callers(world), *self._by_calls(world)]
            world = next(after for (text, *_), after in steps if text.startswith(begin))
        return world._replace(moved=None)

    def _memory(self):
        """What the sender of a node's reports keeps at first.

        A mirror keeps what each scheduler has read. An agent keeps the generation that it was told
        last, and one of an earlier release the instances that it has not listed in an accepted
        report, too: it lists them once, if only without amounts.
        """
        return ((),) * self.scope.schedulers if self.scope.mirrors else (2, ())

    @staticmethod
    def _strangers(node, luck):
        return ((9, luck[0]),) if luck[0] and node == 0 else ()

    def _view(self, at, node):
        """(position, number of the view) of a node as a scheduler reads it now."""
        facts = self.books.look(at)[node]
        return (UNREAD, 0) if facts is None else (facts.position, facts.view)

    # What really is.

    def listed(self, callers, node, luck):
        """(what runs on the node: consumers with sizes, the names of the pieces in use)"""
        key = callers, node, luck[0]
        found = self._listed.get(key)
        if found is None:
            found = self._listed[key] = self._lists(*key)
        return found

    def _lists(self, callers, node, stranger):
        found, pieces = [], []
        for consumer, caller in enumerate(callers):
            if caller.phase in (IDLE, ASKED, TOLD, ABORTS, GONE, ASKED_ALTERNATE):
                continue
            here = caller.there if caller.phase in (MOVED, SETTLES) else caller.here
            if here == node:
                is_new = caller.phase in (GROWN, KEEPS, MOVED, SETTLES)
                size = caller.size_there if is_new else caller.size
                found.append((consumer, size))
                pieces += caller.pieces
        return (*found, *self._strangers(node, (stranger,))), tuple(sorted(pieces))

    # What is promised.

    def wrong(self, world):
        """The promise that this world breaks; None."""
        at, callers, luck = world.at, world.callers, world.luck
        facts, scope = self.books.look(at), self.scope
        needs, pieces = [0] * scope.nodes, [[] for _ in range(scope.nodes)]
        for consumer, caller in enumerate(callers):
            phase, here, name, size, mine, there, other, larger, _ = caller
            if phase in (IDLE, ASKED, GONE, ABORTS):
                continue
            if phase == ASKED_ALTERNATE:
                if not any(
                    consumer in facts[node].claims for node in (here, there) if facts[node]
                ):
                    return f'{_C[consumer]} asks for an alternate, and has no claim left'
                continue
            if phase == REFUSED:
                return f'{_C[consumer]} is refused what it was told'
            places, sized = (), caller.size_there
            if phase in (TOLD, BUILT):
                places = ((here, name, size),)
            elif phase == TOLD_SELECT and there == here:
                places = ((here, None, max(size, larger)),)
            elif phase in (TOLD_RESIZE, GROWN):
                places = ((here, other, max(size, larger)),)
            elif phase == KEEPS:
                places = ((here, None, larger),)
            elif phase == MOVED and not self.keeps_source:
                places = ((there, other, sized),)
            elif phase == TOLD_SELECT:
                places = ((here, None, size), (there, None, sized))
            elif phase in (TOLD_MOVE, MOVED):
                places = ((here, None, size), (there, other, sized))
            elif phase == SETTLES:
                places = ((there, None, sized),)
            else:
                places = ((here, None, size),)
            for node, named, least in places:
                needs[node] += least
                pieces[node] += mine
                if self.wants[consumer] == APART:
                    pieces[node].append('place of the group')
                row = facts[node] and facts[node].claims.get(consumer)
                if row is None:
                    if phase in (TOLD, TOLD_MOVE, TOLD_SELECT):
                        return f'{_C[consumer]} was told {_N[node]}, and has no claim there'
                    return f'{_C[consumer]} runs on {_N[node]}, and has no claim there'
                if named is not None and scope.names and named not in row.names:
                    what = 'resize' if phase in (TOLD_RESIZE, GROWN) else 'claim'
                    told = f'{_C[consumer]} was told a UUID on {_N[node]}'
                    return f'{told} that is not that of its {what}'
                if phase == RUNS and not row.is_confirmed:
                    return f'the claim of {_C[consumer]} was confirmed, and may expire'
                if row.cpus < least:
                    return f'{_C[consumer]} has {least} on {_N[node]}, and a claim of {row.cpus}'
                for piece in mine:
                    if piece not in row.pieces:
                        return f'{_C[consumer]} has the {piece} of {_N[node]}, and no claim of it'
        for node in range(scope.nodes):
            stranger = luck[0] if node == 0 else 0
            if needs[node] + stranger > scope.capacity:
                return f'{needs[node] + stranger} of {scope.capacity} are given away on {_N[node]}'
            for piece in pieces[node]:
                if pieces[node].count(piece) > 1:
                    return f'the {piece} of {_N[node]} is given to two'
            if facts[node] and facts[node].promised < needs[node] + stranger:
                return (
                    f'{facts[node].promised} are promised on {_N[node]}, and '
                    f'{needs[node] + stranger} are in use'
                )
        if all(caller.phase in AT_REST for caller in callers):
            return self._wrong_at_rest(at, callers, luck, world.agents, world.lives)
        return None

    def _wrong_at_rest(self, at, callers, luck, agents, lives):
        """What is wrong after two more reports of each node, and after all that waits is over."""
        lists = tuple(self.listed(callers, node, luck) for node in range(self.scope.nodes))
        key = at, lists, agents, lives
        if key in self._rests:
            return self._rests[key]
        step = self.books.step
        for node, (listed, pieces) in enumerate(lists):
            facts = self.books.look(at)[node]
            if facts is None:
                continue
            untold = [] if self.scope.mirrors else [agents[node][1]]
            ends = ['report', 'report', 'report', ('overdue',), 'report', ('expire',), 'report']
            if self.scope.mirrors and all((listed, pieces) == one for one in agents[node]):
                ends = [('overdue',), ('expire',)]  # nothing has changed: nobody reads it again
            for then in ends:
                if then == 'report':
                    seen = self.books.look(at)[node].position
                    sender = self.scope.sender
                    said = listed
                    if untold and not self.scope.mirrors:
                        gone = set(untold.pop()).difference(one for one, _ in listed)
                        said = (*listed, *((one, 0) for one in sorted(gone)))
                    then = 'report', node, lives[node][0], said, pieces, sender, True, seen
                at, _, _ = step(at, then)
        found = None
        for node, (listed, _) in enumerate(lists):
            facts = self.books.look(at)[node]
            if facts is None:
                continue
            sizes = dict(listed)
            for consumer in facts.claims:
                if consumer not in sizes and self.scope.sender in EXACT:
                    found = f'{_C[consumer]} keeps a claim on {_N[node]} for good'
            total = sum(sizes.values())
            if found is None and facts.promised != total and self.scope.sender in EXACT:
                found = f'{facts.promised} stay promised on {_N[node]}, and {total} are in use'
        self._rests[key] = found
        return found

    # What may happen next.

    def _moved(self, world, event):
        """The world after an event in the store, and its answer."""
        after, answer, moved = self.books.step(world.at, event)
        if after == world.at and not any(moved):
            return world, answer
        return self.moved(world, moved)._replace(at=after, moved=moved), answer

    def moved(self, world, moved):
        """The world after the numbers of generations have moved, in the parts that it has."""
        _, _, calls, reports, agents, views, *_ = world
        for node, to in enumerate(moved):
            if to is None:
                continue
            if views is not None:
                views = tuple(_with(one, node, (to[one[node][0]], one[node][1])) for one in views)
            if reports is not None and self.scope.sender in (SEEN, MIRROR):
                queue, done = reports[node]
                queue = tuple((*one[:3], to[one[3]], *one[4:]) for one in queue)
                reports = _with(reports, node, (queue, done))
            if agents is not None and self.scope.sender == SEEN:
                seen, untold = agents[node]
                agents = _with(agents, node, (to[seen], untold))
            if calls is not None and self.scope.removals:
                calls = tuple(
                    _with(call, 4, to[call[4]]) if call[0] == REMOVE and call[2] == node else call
                    for call in calls
                )
        return world._replace(calls=calls, reports=reports, agents=agents, views=views)

    def _handled(self, world, number, name, kind, *how):
        """The world after a scheduler has handled a call, and its answer. A claim that it makes
        gets this name."""
        after, (answer, view) = self._moved(world, (kind, world.views[number], name, *how))
        return after._replace(views=_with(after.views, number, view)), answer

    def _name(self, world, consumer):
        """A UUID that nothing refers to."""
        used = {world.callers[consumer].name, world.callers[consumer].other}
        used.update(call[3] for call in world.calls)
        for facts in self.books.look(world.at):
            if facts is not None and consumer in facts.claims:
                used.update(facts.claims[consumer].all_names)
        for view in world.views:
            for _, number in view:
                used.update(self._names_in(number, consumer))
        for name in self.names[consumer]:
            if name not in used:
                return name
        raise AssertionError('too few names')

    # Each returns (sentence, world) of each next event.

    def _by_callers(self, world):
        found = []
        for consumer, caller in enumerate(world.callers):
            self._by_caller(world, consumer, caller, found)
        return found

    def _by_calls(self, world):
        found, calls = [], world.calls
        for place, call in enumerate(calls):
            if place and calls[place - 1] == call:
                continue
            left = (*calls[:place], *calls[place + 1 :])
            for number in range(self.scope.schedulers):
                self._by_call(world, number, call, left, found, '')
                if self.scope.doubles and not call[6]:
                    twice = _sorted((*left, (*call[:5], 0, 1)))
                    self._by_call(world, number, call, twice, found, ' (a copy stays on the bus)')
        return found

    def _by_reading(self, world):
        now = tuple(self._view(world.at, node) for node in range(self.scope.nodes))
        return [
            (('{s} reads the nodes', 0, 0, number),
             world._replace(views=_with(world.views, number, now)))
            for number in range(self.scope.schedulers)
        ]  # fmt: skip

    def _by_time(self, world):
        if not world.luck[1] or any(caller.phase not in HAS_TIME for caller in world.callers):
            return []
        passed, _ = self._moved(world, ('overdue',))
        if passed is world:
            return []
        aged = tuple(tuple((place, self.books.aged(one)) for place, one in view)
                     for view in passed.views)  # fmt: skip
        after = passed._replace(views=aged, luck=_with(world.luck, 1, world.luck[1] - 1))
        return [(('the time to confirm claims is over', 0, 0, 0), after)]

    def _by_expiry(self, world):
        ended, count = self._moved(world, ('expire',))
        return [(('the claims whose time is over expire', 0, 0, 0), ended)] if count else []

    def _send(self, world, consumer, caller, kind, node, name, size):
        """The world after a caller has sent a call; it waits for no earlier one."""
        old = [(*call[:5], 0, call[6]) if call[1] == consumer else call for call in world.calls]
        calls = _sorted((*old, (kind, consumer, node, name, size, 1, 0)))
        return world._replace(callers=_with(world.callers, consumer, caller), calls=calls)

    def _by_caller(self, world, consumer, caller, found):
        scope, calls = self.scope, world.calls
        phase, here, name, size, _, there, other, larger, _ = caller
        said = name if scope.names else None
        said_other = other if scope.names else None
        room = len(calls) < scope.calls

        def send(text, after, kind, node, uuid, amount=0):
            if not room:
                return
            if phase == RUNS and scope.selects:
                after = after._replace(request=after.request + 1)
            if kind in BY_REQUEST and scope.selects:
                uuid = f'request {after.request}'
            sent = self._send(world, consumer, after, kind, node, uuid, amount)
            if after.phase == BUILT != phase:
                sent = self._comes(sent, consumer, node)
            found.append(((text, consumer, node, 0), sent))

        def change(text, after):
            changed = self._set(world, consumer, after)
            if after.phase == MOVED:
                changed = self._comes(changed, consumer, there)
            found.append(((text, consumer, here, 0), changed))

        if phase in WAITS:
            for call in calls:
                if call[1] == consumer and call[5]:
                    kind, _, node, uuid, amount, _, _ = call
                    send(f'{{c}} calls {TEXTS[kind]} again', caller, kind, node, uuid, amount)
        if phase == IDLE:
            is_next = not consumer or world.callers[consumer - 1].phase != IDLE
            if is_next or self.wants[consumer] != self.wants[consumer - 1]:
                send('{c} calls boot', caller.now(ASKED), BOOT, 0, None, 1)
        elif phase == TOLD:
            text = '{c} is built on {n}, and its host calls confirm_claim'
            send(text, caller.now(BUILT), CONFIRM, here, said)
            if scope.aborts:
                text = 'the build of {c} on {n} fails, and its host calls abort_claim'
                send(text, caller.now(ABORTS), ABORT, here, said)
            if scope.alternates:
                text = 'the build of {c} fails, and its conductor calls claim_alternate for {n}'
                after = caller.now(ASKED_ALTERNATE, there=1 - here)
                send(text, after, ALTERNATE, 1 - here, said)
        elif phase == RUNS:
            if scope.deletes:
                change('{c} is deleted on {n}', NOTHING if scope.again else DONE)
            if scope.resize and size == 1:
                text = '{c} calls resize_claim to 2 on {n}'
                send(text, caller.now(ASKED_RESIZE), RESIZE, here, None, 2)
            if scope.moves:
                size = 3 - size if scope.resize and RESIZE_MOVE in scope.moves else size
                after = caller.now(ASKED_MOVE, there=1 - here, larger=size)
                send(f'{{c}} calls {TEXTS[MOVE]} to {{n}}', after, MOVE, 1 - here, None, size)
                if scope.selects:
                    after = caller.now(ASKED_SELECT, there=1 - here, larger=size)
                    send(f'{{c}} calls {TEXTS[SELECT]}', after, SELECT, here, None, size)
                    if size != caller.size:
                        send(f'{{c}} calls {TEXTS[STAY]}', after, STAY, here, None, size)
        elif phase == TOLD_SELECT:
            change('{c} does not leave {n}, and nobody says so', caller.settled(RUNS))
            if there == here:
                after = caller.now(ASKED_RESIZE)
                send('{c} calls resize_claim on {n}', after, RESIZE, here, None, larger)
            elif scope.unnamed:
                after = caller.settled(MOVED, there=there, other=other, larger=larger)
                change('{c} moves from {n}', after)
            else:
                after = caller.now(ASKED_MOVE)
                send(f'{{c}} calls {TEXTS[MOVE]} to {{n}}', after, MOVE, there, None, larger)
        elif phase == TOLD_RESIZE:
            change('{c} grows to its new size on {n}', caller.now(GROWN))
            text = '{c} keeps its size, and calls revert_claim'
            send(text, caller.now(REVERTS), REVERT, here, said_other)
        elif phase == GROWN:
            text = '{c} keeps its new size, and calls confirm_claim'
            send(text, caller.now(KEEPS), CONFIRM, here, said_other)
            text = '{c} gets its old size back, and calls revert_claim'
            send(text, caller.now(REVERTS), REVERT, here, said_other)
        elif phase == TOLD_MOVE:
            change('{c} moves from {n}', caller.now(MOVED))
            text = '{c} does not move, and calls revert_claim'
            send(text, caller.now(REVERTS), REVERT, there, said_other)
        elif phase == MOVED:
            text = '{c} stays on {n}, and calls confirm_claim'
            send(text, caller.now(SETTLES), CONFIRM, there, said_other)
            if self.keeps_source:
                text = '{c} goes back, and calls revert_claim'
                send(text, caller.now(REVERTS), REVERT, there, said_other)

    def _comes(self, world, consumer, node):
        """The world after a server has come to a node. What a mirror has read of it before has
        another generation of Placement then, and is read again."""
        if self.scope.mirrors:
            waiting, done = world.reports[node]
            old = tuple((*one[:5], 'old') for one in waiting), done
            agents = _with(world.agents, node, self._memory())
            return world._replace(reports=_with(world.reports, node, old), agents=agents)
        seen, untold = world.agents[node]
        kept = seen, tuple(sorted({*untold, consumer}))
        return world._replace(agents=_with(world.agents, node, kept))

    def _by_call(self, world, number, call, left, found, twice):
        kind, consumer, node, name, size, live, _ = call
        rest = world._replace(calls=left)
        late = f'{"" if live or kind == REMOVE else " (late: nobody waits for it)"}{twice}'
        if kind == BOOT:
            self._boot(rest, number, consumer, live, found, late)
            return
        if kind == ALTERNATE:
            self._alternate(rest, number, call, found, late)
            return
        if kind in (RESIZE, MOVE):
            self._resize(rest, number, call, found, late)
            return
        if kind in (SELECT, STAY):
            self._select(rest, number, call, found, late)
            return
        if kind == REMOVE:
            after, answer = self._handled(rest, number, None, 'remove', node, size)
        else:
            verb = {CONFIRM: 'confirm', ABORT: 'abort', REVERT: 'revert'}[kind]
            after, answer = self._handled(rest, number, None, verb, consumer, node, name)
            if live:
                after = self._answered(after, call, answer)
        text = f'{TEXTS[kind]} of {{c}} arrives at {{s}}{late}: {_said(answer)}'
        if kind == REMOVE:
            text = text.replace('{c}', '{n}')
        found.append(((text, consumer, node, number), after))

    def _answered(self, world, call, answer):
        """The world after a caller has got its answer."""
        consumer, named = call[1], call[3] is not None
        caller = world.callers[consumer]
        phase = caller.phase
        if answer is not True and not named:  # it looks which claim it means, and says so
            meant = caller.name if phase in (BUILT, ABORTS) else caller.other
            return self._send(world, consumer, caller, call[0], call[2], meant, 0)
        is_gone = answer == 'ClaimNotFound'
        if phase == BUILT and answer is True:
            after = caller.settled(RUNS)
        elif phase == ABORTS and (answer is True or is_gone):
            after = NOTHING
        elif phase == KEEPS and answer is True:
            after = caller.settled(RUNS, size=caller.larger)
        elif phase == REVERTS and (answer is True or is_gone):
            after = caller.settled(RUNS)
        elif phase == SETTLES and answer is True:
            after = caller.settled(RUNS, here=caller.there, size=caller.size_there)
        else:
            after = caller.now(REFUSED)
        return self._set(world, consumer, after)

    @staticmethod
    def _set(world, consumer, caller):
        return world._replace(callers=_with(world.callers, consumer, caller))

    def _boot(self, world, number, consumer, live, found, late):
        """A scheduler chooses a node by what it has read; each node is once the one it prefers."""
        name = self._name(world, consumer)
        for prefers in range(self.scope.nodes):
            if not self._takes_servers(world, prefers):
                continue
            after, answer = self._handled(
                world, number, name, 'boot', consumer, self.wants[consumer], prefers
            )
            if isinstance(answer, str):
                text, caller, node = f'refused, {answer}', NOTHING, 0
            else:
                node, row = answer
                if not self._takes_servers(world, node):
                    continue
                text, caller = 'placed on {n}', Caller(TOLD, node, row.names[0], 1, row.pieces)
            if live:
                after = self._set(after, consumer, caller)
            text = f'boot of {{c}} arrives at {{s}}{late}: {text}'
            found.append(((text, consumer, node, number), after))

    def _is_behind(self, at, node, listed):
        """Whether claims on a node were newer than what was read of it: it is read again."""
        names = {one for one, _ in listed}
        claims = self.books.look(at)[node].claims
        return any(row.is_confirmed != (one in names) for one, row in claims.items())

    def _takes_servers(self, world, node):
        """Whether a node may get servers: it is up, and the store knows the node that is there."""
        life, up = world.lives[node]
        facts = self.books.look(world.at)[node]
        return up and (facts is None or facts.life == life)

    def _select(self, world, number, call, found, late):
        """A scheduler chooses where a server moves to, or is resized."""
        kind, consumer, here, request, size, live, _ = call
        name, caller = self._name(world, consumer), world.callers[consumer]
        leaving, told = here if kind == SELECT else None, []
        for prefers in range(self.scope.nodes) if kind == STAY else (1 - here,):
            how = consumer, self.wants[consumer], size, leaving, request, prefers
            after, answer = self._handled(world, number, name, 'select', *how)
            if answer in told:
                continue
            told.append(answer)
            if isinstance(answer, str):
                text, caller_after, node = f'refused, {answer}', caller.settled(RUNS), here
            else:
                text, node = '{n}', answer
                caller_after = caller.now(TOLD_SELECT, there=node, larger=size, name=CHOSEN)
                if self.scope.unnamed and node != here:
                    (made, *_) = self.books.look(after.at)[node].claims[consumer].names
                    caller_after = caller_after._replace(other=made)
            if live:
                after = self._set(after, consumer, caller_after)
            text = f'{TEXTS[kind]} of {{c}} arrives at {{s}}{late}: {text}'
            found.append(((text, consumer, node, number), after))

    def _resize(self, world, number, call, found, late):
        kind, consumer, node, request, size, live, _ = call
        is_move = kind == MOVE
        move = self.scope.moves[0] if is_move else None if self.scope.unnamed else RESIZE_MOVE
        request = request or f'{move} {node}'
        how = consumer, self.wants[consumer], size, node, request, move
        after, answer = self._handled(world, number, self._name(world, consumer), 'resize', *how)
        caller = world.callers[consumer]
        if answer in REFUSALS:
            facts = self.books.look(after.at)[node]
            row = facts and facts.claims.get(consumer)
            is_mine = row is None or row.is_confirmed or row.request in (request, None)
            text, was_told = f'refused, {answer}', caller.name == CHOSEN
            told = caller.now(REFUSED) if was_told and is_mine else caller.settled(RUNS)
        elif is_move:
            told = caller.settled(TOLD_MOVE, there=node, other=answer, larger=size)
            text = 'done'
        else:
            text, told = 'done', caller.settled(TOLD_RESIZE, other=answer, larger=size)
        if live:
            after = self._set(after, consumer, told)
        what = 'resize_claim for a move' if is_move else 'resize_claim'
        text = f'{what} of {{c}} to {{n}} arrives at {{s}}{late}: {text}'
        found.append(((text, consumer, node, number), after))

    def _alternate(self, world, number, call, found, late):
        _, consumer, node, named, _, live, _ = call
        how = consumer, self.wants[consumer], 1 - node, node, named
        name, caller = self._name(world, consumer), world.callers[consumer]
        after, answer = self._handled(world, number, name, 'alternate', *how)
        if not isinstance(answer, str):
            text, told = 'done', Caller(TOLD, node, answer.names[0], 1, answer.pieces)
        elif answer in ('ComputeResourcesUnavailable', 'NodeNotFound'):
            text, told = f'refused, {answer}', caller.now(TOLD, there=0)
        else:
            text, told = f'refused, {answer}', caller.now(REFUSED)
        if live:
            after = self._set(after, consumer, told)
        text = f'claim_alternate of {{c}} for {{n}} arrives at {{s}}{late}: {text}'
        found.append(((text, consumer, node, number), after))

    def _by_node(self, node, world):
        return [*self._sends(world, node), *self._arrives(world, node), *self._lives(world, node)]

    def _sends(self, world, node):
        """What the sender of a node's reports may send next."""
        scope, (waiting, done), (life, up) = self.scope, world.reports[node], world.lives[node]
        listed, pieces = self.listed(world.callers, node, world.luck)
        if not up:
            senders = []
        elif scope.mirrors:
            facts = self.books.look(world.at)[node]
            position = 0 if facts is None else facts.position
            senders = [(life, listed, pieces, position, one) for one in range(scope.schedulers)
                       if (listed, pieces) != world.agents[node][one]]  # fmt: skip
        else:
            position, untold = world.agents[node]
            gone = set(untold).difference(one for one, _ in listed)
            said = (*listed, *((one, 0) for one in sorted(gone)))
            senders = [(life, said, pieces, position, 0)]
        found = []
        for message in senders:
            if waiting and waiting[-1] == message and len(waiting) > done:
                continue
            if scope.mirrors and any(one[4] == message[4] for one in waiting):
                continue  # it applies one reading before it begins the next
            queue, applied = (*waiting, message), done
            if len(queue) > scope.reports:
                queue, applied = queue[1:], max(applied - 1, 0)
            after = world._replace(reports=_with(world.reports, node, (queue, applied)))
            text = '{s} reads {n}: ' if scope.mirrors else '{n} sends a report: '
            found.append(((text + _list(listed), 0, node, message[4]), after))
        return found

    def _arrives(self, world, node):
        """What may come of the reports of a node that wait."""
        found, scope, is_mirror = [], self.scope, self.scope.mirrors
        (waiting, done), life = world.reports[node], world.lives[node][0]
        for place, message in enumerate(waiting):
            is_later = place >= done
            life_then, then, pieces, position, who, *is_old = message
            after, answer = self._moved(
                world,
                ('report', node, life_then, then, pieces, scope.sender, is_later, position),
            )
            if answer == 'stale' and scope.sender not in (SEEN, MIRROR):
                continue
            whose = '' if life_then == life else ', of its former UUID'
            text = f'the report of {{n}} ({_list(then)}{whose}) arrives'
            if is_mirror:
                text = f'what {{s}} has read of {{n}} ({_list(then)}) arrives'
            if answer == 'stale':
                text += ', and is refused as older'
            waiting_after, _ = after.reports[node]
            for keeps in (0, 1) if scope.double_reports and not is_mirror else (0,):
                agents = after.agents
                if keeps:
                    queue, applied = waiting_after, max(done, place + 1)
                    if after.at == world.at and applied == done:
                        continue
                else:
                    queue = (*waiting_after[:place], *waiting_after[place + 1 :])
                    applied = place if is_later else done - 1
                    if not is_mirror and place == len(waiting) - 1 and life_then == life:
                        told = self.books.look(after.at)[node].position
                        told = told if scope.sender == SEEN else 2
                        untold = agents[node][1]
                        if answer != 'stale':
                            listed = {one for one, _ in then}
                            untold = tuple(one for one in untold if one not in listed)
                        agents = _with(agents, node, (told, untold))
                if is_mirror:
                    applied = 0
                    if not (is_old or answer == 'stale' or self._is_behind(after.at, node, then)):
                        kept = _with(agents[node], who, (then, pieces))
                        agents = _with(agents, node, kept)
                said = text + (' (a copy stays on the bus)' if keeps else '')
                reports = _with(after.reports, node, (queue, applied))
                now = after._replace(reports=reports, agents=agents)
                found.append(((said, 0, node, who), now))
        return found

    def _lives(self, world, node):
        """What may happen to a node itself."""
        found, scope, luck, (life, up) = [], self.scope, world.luck, world.lives[node]
        facts, stands = self.books.look(world.at)[node], (0, node, 0)
        is_busy = any(
            caller.phase not in (IDLE, GONE, ASKED) and node in (caller.here, caller.there)
            for caller in world.callers
        )
        if luck[2] and not is_busy and up and life == 0:
            less = (0 if node == 0 else luck[0], luck[1], luck[2] - 1, *luck[3:])
            agents = world.agents
            if not scope.mirrors:
                agents = _with(agents, node, (1, ()))
            after = world._replace(
                agents=agents, lives=_with(world.lives, node, (1, 1)), luck=less
            )
            found.append((('{n} is rebuilt, with a new UUID', *stands), after))
        listed, _ = self.listed(world.callers, node, luck)
        if up and luck[3] and not is_busy and facts is not None and not listed:
            less = _with(luck, 3, luck[3] - 1)
            after = world._replace(lives=_with(world.lives, node, (life, 0)), luck=less)
            found.append((('{n} stops', *stands), after))
        if not up:
            after = world._replace(lives=_with(world.lives, node, (life, 1)))
            found.append((('{n} starts again', *stands), after))
            if luck[4] and facts is not None and len(world.calls) < scope.calls:
                call = (REMOVE, 9, node, None, facts.position, 0, 0)
                calls, less = _sorted((*world.calls, call)), _with(luck, 4, luck[4] - 1)
                after = world._replace(calls=calls, luck=less)
                found.append((('the operator calls remove_node of {n}', *stands), after))
        return found


_C, _N = 'ABC', ('N1', 'N2')


def sentence(label):
    text, consumer, node, scheduler = label
    return text.format(c=_C[consumer % 9], n=_N[node], s=f'S{scheduler + 1}')


def _list(listed):
    names = [f'{_C[one] if one < 9 else "a server of nobody"} of {size}' for one, size in listed]
    return 'it has ' + (', '.join(names) or 'nothing')


def _said(answer):
    return 'done' if answer is True else f'refused, {answer}'


def _with(values, place, one):
    return (*values[:place], one, *values[place + 1 :])


def _sorted(calls):
    return tuple(sorted(calls, key=repr))
