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
"""The real claim store and the real schedulers as pure functions of small values.

``Books.step`` applies an event to a state of the store. Each pair of a state and an event is
computed once, by the code of the product, and remembered.

Numbers that only grow (the generations of a node, the store's times) are replaced by their ranks,
so that two histories that nothing can tell apart are one state. A generation outside of the store,
such as the one that a scheduler has read, is a position among those that the store has for the
node: 2 is the lowest, 1 is below it, 3 is above it and below the next.
"""

import bisect
import dataclasses
import functools
import itertools
import types
from collections.abc import Mapping
from unittest import mock

import numpy as np

from nova_sched import claim as claims_module
from nova_sched import errors
from nova_sched.claim import CONFIRMED, VCPU
from nova_sched.claims import ClaimSelector, NodeFacts
from nova_sched.claims.values import NAMELESS
from nova_sched.engine.catalog import always
from nova_sched.engine.cycle import PLACE, Order
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.hardware import pci
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import ReportOrder
from nova_sched.tests import builders
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.explorer.store import ExplorerStore
from nova_sched.tests.unit.engine.world import World as SchedulerWorld
from nova_sched.tests.unit.engine.world import rules
from nova_sched.tests.unit.hardware import builders as hardware
from nova_sched.weighers import Weigher

NEVER, OVER = 1e9, -1.0
ABOVE_ALL = 10**6  # the generation above which new nodes start: above all that was seen
UNREAD = 0  # the position of a generation that a scheduler does not know
BY_NODE = ('_pieces_at', '_made_at', '_reported_at')  # generations that the store has by node
BOOT = types.SimpleNamespace(request_id='boot')
DEVICES = hardware.wanted(requests=[hardware.request(1)])

# Senders of reports: with numbers, and with what they have seen; what reads a node for it, which
# has seen; with a list alone; with totals alone.
NUMBERED, SEEN, MIRROR = 'numbered', 'seen', 'mirror'
UNNUMBERED, BARE = 'unnumbered', 'bare'


class Prefers(Weigher):
    """The named host first."""

    def __init__(self, host):
        self._host = host

    def raw(self, hosts, rows, request):
        return np.array([float(hosts.nodes[row].host == self._host) for row in rows])

    def multiplier(self, hosts, rows):
        return 1.0


class Row(tuple):
    """A claim in plain values: (UUIDs that it has, confirmed, CPUs, has a device, move)."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What the store has of a node."""

    life: int
    position: int
    view: int
    claims: dict
    promised: int


class Books:
    def __init__(self, nodes=2, capacity=2):
        self.nodes, self.capacity = nodes, capacity
        self.hosts = [f'host-{node}' for node in range(nodes)]
        self.lives, self.uuids = {}, {}
        for node, life in itertools.product(range(nodes), range(3)):
            uuid = uuid_of(f'node {node} {life}')
            self.lives[uuid], self.uuids[node, life] = (node, life), uuid
        self._stores, self._ids, self._steps, self._looks = [], {}, {}, {}
        self.views, self._view_ids = [None], {None: 0}
        self._chains = [
            rules([PciPassthroughFilter()], [Prefers(host)], always()) for host in self.hosts
        ]
        self._plain = _Plain()
        self.first, _ = self._intern(ExplorerStore(clock=lambda: 0))

    @property
    def size(self):
        """(states of the store, events that were computed)"""
        return len(self._stores), len(self._steps)

    def step(self, at, event):
        """(state after the event, its answer, positions by node: old -> new; None: the same)"""
        found = self._steps.get((at, event))
        if found is None:
            found = self._steps[at, event] = self._step(at, event)
        return found

    def _step(self, at, event):
        store = _copy(self._stores[at])
        now_s = max(self._times(store), default=0) + 2
        store.clock = lambda: now_s
        before = [self._generations(store, node) for node in range(self.nodes)]
        answer, view = getattr(self, f'do_{event[0]}')(store, *event[1:]), None
        if isinstance(answer, SchedulerWorld):
            answer, view = answer.answer, answer
        after, moved = self._intern(store)
        if view is not None:
            answer = answer, self._view_of(view, moved)
        remaps = []
        for old, new in zip(before, moved, strict=True):
            positions = range((old[-1] if old else 0) + 2)
            found = (UNREAD, *(_position(new, one) for one in positions[1:]))
            remaps.append(None if found == tuple(positions) else found)
        return after, answer, tuple(remaps)

    # Numbers.

    @staticmethod
    def _times(store):
        found = {facts.seen_s for facts in store._nodes.values()}
        for some in store._claims.values():
            for claim in some.values():
                found |= {claim.created_s, claim.changed_s}
        return found

    def _generations(self, store, node):
        """All that the store has of a node, in order."""
        uuid = store._names.get((self.hosts[node],) * 2)
        if uuid is None:
            return []
        found = {getattr(store, name)[uuid] for name in BY_NODE}
        found.add(store._nodes[uuid].generation)
        found.update(claim.changed_at for claim in store._claims[uuid].values())
        return sorted(found)

    def _intern(self, store):
        """The number of the state, and the generations of each node before they were ranked."""
        times = {value: 2 * rank for rank, value in enumerate(sorted(self._times(store)), 1)}
        lists = [self._generations(store, node) for node in range(self.nodes)]
        for numbers, host in zip(lists, self.hosts, strict=True):
            uuid = store._names.get((host, host))
            if uuid is None:
                continue
            ranks = {value: 2 * rank for rank, value in enumerate(numbers, 1)}
            for name in BY_NODE:
                getattr(store, name)[uuid] = ranks[getattr(store, name)[uuid]]
            facts = store._nodes[uuid]
            changes = {'generation': ranks[facts.generation], 'seen_s': times[facts.seen_s]}
            if facts.report.order != (order := _settled(facts.report.order)):
                changes['report'] = dataclasses.replace(facts.report, order=order)
            store._nodes[uuid] = _replaced(facts, changes)
            for consumer, claim in store._claims[uuid].items():
                changes = {
                    'created_s': times[claim.created_s],
                    'changed_s': times[claim.changed_s],
                    'changed_at': ranks[claim.changed_at],
                }
                if claim.expires_s not in (None, OVER):
                    changes['expires_s'] = NEVER
                store._claims[uuid][consumer] = _replaced(claim, changes)
        store._last_generation = ABOVE_ALL
        key = tuple(
            self._plain(value)
            for name, value in vars(store).items()
            if name not in ('clock', '_lock', 'on_changes', 'locator')
        )
        found = self._ids.setdefault(key, len(self._stores))
        if found == len(self._stores):
            store.clock = store.locator = None
            self._stores.append(store)
        return found, lists

    # What is read.

    def look(self, at):
        """The Facts of each node; None for one that the store does not have."""
        found = self._looks.get(at)
        if found is None:
            store = self._stores[at]
            found = self._looks[at] = tuple(self._facts(store, host) for host in self.hosts)
        return found

    def _facts(self, store, host):
        uuid = store._names.get((host, host))
        if uuid is None:
            return None
        node, claims = store._facts(uuid), store._claims[uuid]
        used = sum(claim.resources[VCPU] for claim in claims.values())
        rows = {int(consumer): _row(claim) for consumer, claim in claims.items()}
        return Facts(
            life=self.lives[uuid][1],
            position=node.generation,
            view=self._view_id(node),
            claims=rows,
            promised=used + node.foreign.get(VCPU, 0),
        )

    # What a scheduler has read: (position, number of the view) of each node.

    def _view_id(self, facts):
        facts = dataclasses.replace(
            facts,
            **_unclaimed(facts),
            generation=0,
            seen_s=0.0,
            claims=tuple(
                _replaced(one, dict.fromkeys(('created_s', 'changed_s', 'changed_at'), 0))
                for one in sorted(facts.claims, key=lambda one: one.consumer_uuid)
            ),
        )
        key = self._plain(facts)
        found = self._view_ids.setdefault(key, len(self.views))
        if found == len(self.views):
            self.views.append(facts)
        return found

    def aged(self, view):
        """The view when the time of all claims in it is over."""
        facts = self.views[view]
        if facts is None:
            return view
        claims = tuple(_replaced(one, {} if one.expires_s is None else {'expires_s': OVER})
                       for one in facts.claims)  # fmt: skip
        return self._view_id(dataclasses.replace(facts, claims=claims))

    def names_in(self, view, consumer):
        """The UUIDs of a consumer's claim in a view."""
        facts = self.views[view]
        claims = () if facts is None else facts.claims
        return [
            name for one in claims if one.consumer_uuid == str(consumer) for name in _row(one)[0]
        ]

    def _scheduler(self, store, view, name, prefers=0):
        """A scheduler that has read this; each claim that it makes gets the UUID ``name``."""
        world = SchedulerWorld(
            store,
            self._chains[prefers],
            cluster=Cluster(),
            clock=store.clock,
            retry_interval_s=0.0,
        )
        world.state_sync.wake = types.SimpleNamespace(set=lambda: None, clear=lambda: None)
        for position, number in view:
            facts = self.views[number]
            if facts is not None:
                world.state_sync.adopt(dataclasses.replace(facts, generation=position or -1))
        world.now_s = store.clock()
        return world

    def _view_of(self, world, generations):
        found = []
        for host, numbers in zip(self.hosts, generations, strict=True):
            node = world.cluster.find(host, host)
            if node is None:
                found.append((UNREAD, 0))
                continue
            claims = tuple(node.claims.values())
            facts = NodeFacts(node.report, 0, claims, fences=node.fences, **_unclaimed(node))
            generation = node.generation
            place = (
                UNREAD if generation is None or generation < 1 else _position(numbers, generation)
            )
            found.append((place, self._view_id(facts)))
        return tuple(found)

    # Events: a report.

    def do_report(self, store, node, life, listed, uses_device, sender, is_later=True, seen=0):
        """``listed``: (consumer, CPUs) of all that runs there; ``is_later``: than the last report
        that was applied, by its number; ``seen``: the generation that its sender had seen."""
        made = builders.report(
            self.hosts[node],
            node_uuid=self.uuids[node, life],
            vcpus=self.capacity,
            vcpus_used=sum(size for _, size in listed),
            instances=None if sender == BARE else frozenset(str(one) for one, _ in listed),
            num_instances=len(listed),
            pci_pools=pci.pools_to_json([hardware.pool(0 if uses_device else 1)]),
            order=_order(sender, life, is_later, seen),
        )
        if sender in (SEEN, MIRROR):
            made = dataclasses.replace(made, held={str(one): {VCPU: size} for one, size in listed})
        (facts,) = store.report([made])
        return 'stale' if facts.stale else 'taken'

    # Calls that a scheduler handles, which has read ``view``.

    def do_boot(self, store, view, consumer, device, name, prefers):
        """The node that the server gets, or an error."""
        world = self._scheduler(store, view, name, prefers)
        world.answer = self._answer(name, self._place, world, str(consumer), device)
        return world

    @staticmethod
    @functools.cache
    def _request(consumer, vcpus, device):
        pieces = {'pieces': DEVICES} if device else {}
        return builders.request(instance_uuid=consumer, vcpus=vcpus, **pieces)

    def _place(self, world, consumer, device):
        order = Order([self._request(consumer, 1, device)], context=BOOT)
        placed = world.loop.send(PLACE, order)
        world.turn_until(placed)
        ((chosen,),) = placed.result()
        host = chosen.host
        node = self.hosts.index(host)
        (claim,) = (one for one in world.store.claims(consumer)
                    if self.lives[one.node_uuid][0] == node)  # fmt: skip
        return node, _row(claim)[0]

    def do_resize(self, store, view, consumer, node, size, device, name, move, named):
        """The UUID that its caller is told."""
        world = self._scheduler(store, view, name)
        request = self._request(str(consumer), size, device)
        host = self.hosts[node]

        def work():
            claim = world.claim_service.claim(
                request, host, host, f'{move} {node}', None, move, False, ClaimSelector(named)
            )
            return (claim.resizing and claim.resizing.uuid) or claim.uuid

        world.answer = self._answer(name, work)
        return world

    def do_confirm(self, store, view, consumer, node, name):
        world = self._scheduler(store, view, None)
        work = world.claim_service.confirm_claim
        world.answer = self._answer(
            None, lambda: bool(work(str(consumer), self.hosts[node], ClaimSelector(name)))
        )
        return world

    def do_revert(self, store, view, consumer, node, name):
        world = self._scheduler(store, view, None)
        work = world.claim_service.revert_claim
        world.answer = self._answer(None, lambda: bool(work(str(consumer), ClaimSelector(name))))
        return world

    def do_abort(self, store, view, consumer, node, name):
        world = self._scheduler(store, view, None)
        work = world.claim_service.abort_claim
        meant = ClaimSelector(name, unconfirmed=True)
        world.answer = self._answer(
            None, lambda: bool(work(str(consumer), self.hosts[node], meant))
        )
        return world

    def do_remove(self, store, view, node, seen):
        world = self._scheduler(store, view, None)
        host = self.hosts[node]
        world.answer = self._answer(
            None, lambda: world.state_sync.remove_node(host, host, seen) is None
        )
        return world

    @staticmethod
    def _answer(name, work, *args):
        """The answer of a call, or the name of its error; claims get this UUID."""
        maker = types.SimpleNamespace(uuid4=lambda: name)
        with mock.patch.object(claims_module, 'uuid', maker):
            try:
                return work(*args)
            except errors.SchedError as error:
                return type(error).__name__

    # Time.

    @staticmethod
    def do_overdue(store):
        for some in store._claims.values():
            for consumer, claim in some.items():
                if claim.expires_s is not None:
                    some[consumer] = dataclasses.replace(claim, expires_s=OVER)

    @staticmethod
    def do_expire(store):
        return len(store.expire())


def _order(sender, life, is_later, seen):
    numbers = {}
    if sender in (NUMBERED, SEEN):
        numbers = {'boot': 1 + life, 'sequence': 11 if is_later else 9}
    if sender in (SEEN, MIRROR):
        numbers['seen'] = seen
    return ReportOrder(**numbers)


def _settled(order):
    """The ReportOrder of the last applied report."""
    return ReportOrder(boot=order.boot, sequence=order.sequence and 10)


def _row(claim):
    resize = claim.resizing and claim.resizing.uuid
    names = (claim.uuid, resize) if resize else (claim.uuid,)
    has_device = bool(claim.all_parts)
    return Row((names, claim.state == CONFIRMED, claim.resources[VCPU], has_device, claim.move))


def _unclaimed(one):
    """What a scheduler knows of the unclaimed use of a node, as fields of a NodeFacts."""
    amounts = {name: amount for name, amount in one.foreign.items() if amount}
    rows = {NAMELESS: amounts} if amounts else {}
    return {'unclaimed': rows, 'foreign_instances': one.foreign_instances}


def _copy(store):
    made = object.__new__(type(store))
    for name, value in vars(store).items():
        setattr(made, name, _copied(value))
    return made


def _copied(value):
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    return set(value) if isinstance(value, set) else value


def _position(numbers, one):
    place = bisect.bisect_left(numbers, one)
    there = place < len(numbers) and numbers[place] == one
    return 2 * place + 2 if there else 2 * place + 1


def _replaced(one, changes):
    if 'report' not in changes and all(getattr(one, name) == changes[name] for name in changes):
        return one  # a report is equal to one of another order
    return dataclasses.replace(one, **changes)


class _Plain:
    """Values as tuples; what a frozen value is, is remembered."""

    def __init__(self):
        self._known = {}  # id -> the value, and its plain form

    def __call__(self, value):
        kind = type(value)
        if kind is dict:
            return tuple(sorted([(str(name), self(one)) for name, one in value.items()]))
        if kind in (str, int, float, bool, type(None)):
            return value
        if kind is tuple:
            return tuple([self(one) for one in value])
        if isinstance(value, set | frozenset):
            return tuple(sorted(map(str, value)))
        if isinstance(value, Mapping):
            return self(dict(value))
        if isinstance(value, tuple | list):
            return tuple([self(one) for one in value])
        found = self._known.get(id(value))
        if found is None:
            names = getattr(kind, '__dataclass_fields__', None)
            if names is None:
                return value
            made = tuple([self(getattr(value, name)) for name in names])
            found = self._known[id(value)] = value, made
        return found[1]
