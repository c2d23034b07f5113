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
"""The real schedulers, and what judges and settles claims, as pure functions of small values.

``Books.step`` applies an event to a state of the store. Each pair of a state and an event is
computed once, by the code of the product, and remembered.

Numbers that only grow, the generations of a node, are replaced by their ranks, so that two
histories that nothing can tell apart are one state. Of the store's times there remain which of a
consumer's claims is older, and whether a claim's time is over: nothing here reads another one. A
generation outside of the store, such as the one that a scheduler has read, is a position among
those that the store has for the node: 2 is the lowest, 1 is below it, 3 is above it and below the
next.
"""

import bisect
import dataclasses
import functools
import itertools
import random
import types
from collections.abc import Mapping
from typing import NamedTuple
from unittest import mock

import numpy as np

from nova_sched import claim as claims_module
from nova_sched import errors
from nova_sched.claim import VCPU
from nova_sched.claims import ClaimSelector, NodeFacts
from nova_sched.claims.values import NAMELESS
from nova_sched.engine import Settings
from nova_sched.engine.catalog import always
from nova_sched.engine.claim_service import ClaimService
from nova_sched.engine.context import Context
from nova_sched.engine.cycle import PLACE, Cycle, Order
from nova_sched.engine.explain.decision_log import DecisionLog
from nova_sched.engine.figures import Figures
from nova_sched.engine.groups.member_resolver import MemberResolver
from nova_sched.engine.loop import Message
from nova_sched.engine.place import Placer
from nova_sched.engine.sync.membership import SchedulerMembership
from nova_sched.engine.sync.state_sync import StateSync
from nova_sched.filters.numa_topology import NUMATopologyFilter
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from nova_sched.groups.topology import DomainTopology
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import ReportOrder
from nova_sched.tests import builders
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.explorer.store import ExplorerStore
from nova_sched.tests.unit.engine.world import SETTINGS, rules
from nova_sched.tests.unit.hardware import builders as hardware
from nova_sched.weighers import Weigher

NOW_S, NEVER, OVER = 100.0, 1e9, -1.0
ABOVE_ALL = 10**6  # the generation above which new nodes start: above all that was seen
UNREAD = 0  # the position of a generation that a scheduler does not know
BY_NODE = ('_pieces_at', '_made_at', '_reported_at')  # generations that the store has by node
BOOT = 'boot'  # the ID of a request

# What a consumer may want beside a CPU: the device of its node, one of two CPUs for itself, a node
# without another member of its server group.
DEVICE, PINNED, APART = 'device', 'pinned', 'apart'
WANTS = {
    None: {},
    DEVICE: {'pieces': hardware.wanted(requests=[hardware.request(1)])},
    PINNED: {'pieces': hardware.wanted(hardware.dedicated(1))},
    APART: {'group': {'uuid': uuid_of('a group'), 'policy': 'anti-affinity', 'members': []}},
}
CPUS = {0: 'CPU 0', 1: 'CPU 1'}
FILTERS = {
    DEVICE: PciPassthroughFilter,
    PINNED: NUMATopologyFilter,
    APART: ServerGroupAntiAffinityFilter,
}

# Senders of reports: with numbers, and with what they have seen; what reads a node for it, which
# has seen; with a list alone; with totals alone.
NUMBERED, SEEN, MIRROR = 'numbered', 'seen', 'mirror'
UNNUMBERED, BARE = 'unnumbered', 'bare'


class Scheduler:
    """What a scheduler changes claims with: its host state, and what works on it. The parts that
    are shared keep nothing that decides."""

    settings = Settings(**{**SETTINGS, 'retry_interval_s': 0.0})
    topology, membership = DomainTopology(), SchedulerMembership()
    decision_log, figures = DecisionLog(), Figures()

    def __init__(self, store):
        self.cluster = Cluster(capacity=2)
        self._context = Context(
            self.cluster,
            store,
            settings=lambda: self.settings,
            clock=store.clock,
            random=random.Random(1),
            topology=self.topology,
            membership=self.membership,
            decision_log=self.decision_log,
            figures=self.figures,
        )
        self.state_sync = StateSync(self._context)
        self._members = MemberResolver(self.cluster, None, None, _at_once)
        self.claim_service = ClaimService(self._context, self.state_sync, self._members)

    def place(self, order, rules):
        """The hosts of each instance."""
        placer = Placer(self.cluster, rules, self._context.random)
        loop = types.SimpleNamespace(has_waiting=False)
        cycle = Cycle(self._context, loop, placer, self.state_sync, self._members, _at_once)
        message = Message(PLACE, order)
        waiting = [message]
        while waiting:
            waiting = cycle.run(waiting)
        return message.future.result()


def _at_once(work, *args):
    return work(*args)


class Prefers(Weigher):
    """The named host first."""

    def __init__(self, host):
        self._host = host

    def raw(self, hosts, rows, request):
        return np.array([float(hosts.nodes[row].host == self._host) for row in rows])

    def multiplier(self, hosts, rows):
        return 1.0


class Row(NamedTuple):
    """A claim in plain values: its UUIDs, the ID of its request, and the names of its pieces."""

    names: tuple
    is_confirmed: bool
    cpus: int
    pieces: tuple
    request: str | None

    @property
    def all_names(self):
        return (*self.names, self.request)


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What the store has of a node."""

    life: int
    position: int
    view: int
    claims: dict
    promised: int


class Books:
    """``wants``: what consumers may want; nodes have nothing else for them."""

    def __init__(self, nodes, capacity, wants):
        self.nodes, self.capacity, self.wants = nodes, capacity, wants
        self.hosts = [f'host-{node}' for node in range(nodes)]
        self.lives, self.uuids = {}, {}
        for node, life in itertools.product(range(nodes), range(3)):
            uuid = uuid_of(f'node {node} {life}')
            self.lives[uuid], self.uuids[node, life] = (node, life), uuid
        self._stores, self._ids, self._steps, self._looks = [], {}, {}, {}
        self.views, self._view_ids = [None], {None: 0}
        filters = [FILTERS[one]() for one in sorted(wants)]
        self._chains = [rules(filters, [Prefers(host)], always()) for host in self.hosts]
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
        store, (kind, *how) = _copy(self._stores[at]), event
        store.clock = lambda: NOW_S
        before = [self._generations(store, node) for node in range(self.nodes)]
        scheduler, do = None, getattr(self, f'do_{kind}')
        if kind in ('report', 'overdue', 'expire'):
            answer = do(store, *how)
        else:
            view, name, *how = how
            scheduler = self._scheduler(store, view)
            answer = _answer(name, do, scheduler, *how)
        after, moved = self._intern(store)
        if scheduler is not None:
            answer = answer, self._view_of(scheduler, moved)
        remaps = []
        for old, new in zip(before, moved, strict=True):
            positions = range((old[-1] if old else 0) + 2)
            found = (UNREAD, *(_position(new, one) for one in positions[1:]))
            remaps.append(None if found == tuple(positions) else found)
        return after, answer, tuple(remaps)

    # Numbers.

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
        lists = [self._generations(store, node) for node in range(self.nodes)]
        orders: dict[str, list[int]] = {}
        for claim in sorted(store._every, key=lambda claim: claim.number):
            orders.setdefault(claim.consumer_uuid, []).append(claim.number)
        for numbers, host in zip(lists, self.hosts, strict=True):
            uuid = store._names.get((host, host))
            if uuid is None:
                continue
            ranks = {value: 2 * rank for rank, value in enumerate(numbers, 1)}
            for name in BY_NODE:
                getattr(store, name)[uuid] = ranks[getattr(store, name)[uuid]]
            facts = store._nodes[uuid]
            changes = {'generation': ranks[facts.generation], 'seen_s': 0.0}
            if facts.report.order != (order := _settled(facts.report.order)):
                changes['report'] = dataclasses.replace(facts.report, order=order)
            store._nodes[uuid] = _replaced(facts, changes)
            for consumer, claim in store._claims[uuid].items():
                changes = {
                    'created_s': float(orders[consumer].index(claim.number)),
                    'changed_s': 0.0,
                    'changed_at': ranks[claim.changed_at],
                    # 1: the consumer had no other claim. Of the rest, only the order counts.
                    'number': min(orders[consumer][0], 2) + orders[consumer].index(claim.number),
                }
                if claim.expires_s not in (None, OVER, 0.0):  # 0: it is over
                    changes['expires_s'] = NEVER
                store._claims[uuid][consumer] = _replaced(claim, changes)
        store._last_generation = ABOVE_ALL
        key = tuple(
            self._plain(value)
            for name, value in vars(store).items()
            if name not in ('clock', '_lock', 'on_changes', 'locator', 'lifetime_s')
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
        """The UUIDs of a consumer's claim in a view, and the ID of its request."""
        facts = self.views[view]
        claims = () if facts is None else facts.claims
        return [
            name
            for one in claims
            if one.consumer_uuid == str(consumer)
            for name in _row(one).all_names
        ]

    def _scheduler(self, store, view):
        """A scheduler that has read this."""
        scheduler = Scheduler(store)
        for position, number in view:
            facts = self.views[number]
            if facts is not None:
                scheduler.state_sync.adopt(dataclasses.replace(facts, generation=position or -1))
        return scheduler

    def _view_of(self, scheduler, generations):
        found = []
        for host, numbers in zip(self.hosts, generations, strict=True):
            node = scheduler.cluster.find(host, host)
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

    def do_report(self, store, node, life, listed, pieces, sender, is_later=True, seen=0):
        """``listed``: (consumer, CPUs) of all that runs there, ``pieces``: the names of those that
        it holds; ``is_later``: than the last report that was applied, by its number; ``seen``: the
        generation that its sender had seen."""
        made = builders.report(
            self.hosts[node],
            node_uuid=self.uuids[node, life],
            vcpus=self.capacity,
            vcpus_used=sum(size for _, size in listed),
            instances=None if sender == BARE else frozenset(str(one) for one, _ in listed),
            num_instances=len(listed),
            order=_order(sender, life, is_later, seen),
            **_machine(pieces, self.wants),
        )
        if sender in (SEEN, MIRROR):
            held = {str(one): {VCPU: size} if size else {} for one, size in listed}
            made = dataclasses.replace(made, held=held)
        (facts,) = store.report([made])
        return 'stale' if facts.stale else 'taken'

    # Calls that a scheduler handles. Each returns the answer.

    def do_boot(self, scheduler, consumer, wants, prefers):
        """The node that the server gets, and its Row."""
        node = self._placed(scheduler, _request(consumer, 1, wants), BOOT, prefers)
        (claim,) = (one for one in scheduler.claim_service.claims_of(str(consumer))
                    if self.lives[one.node_uuid][0] == node)  # fmt: skip
        return node, _row(claim)

    def _placed(self, scheduler, request, request_id, prefers):
        """The node that a scheduler places a request on, if it prefers this one."""
        order = Order([request], context=types.SimpleNamespace(request_id=request_id))
        ((chosen,),) = scheduler.place(order, self._chains[prefers])
        return self.hosts.index(chosen.host)

    def do_select(self, scheduler, consumer, wants, size, leaving, request_id, prefers):
        """The node for a server that leaves one (None: it may stay there)."""
        hosts = () if leaving is None else (self.hosts[leaving],)
        request = _request(consumer, size, wants, hosts)
        return self._placed(scheduler, request, request_id, prefers)

    def do_resize(self, scheduler, consumer, wants, size, node, request_id, move):
        """The UUID that its caller is told."""
        request, host = _request(consumer, size, wants), self.hosts[node]
        work = scheduler.claim_service.claim
        return work(request, host, host, request_id, move=move).name

    def do_alternate(self, scheduler, consumer, wants, failed, node, name):
        """The Row of the claim."""
        request, host = _request(consumer, 1, wants), self.hosts[node]
        how = BOOT, self.hosts[failed]
        work = scheduler.claim_service.claim
        return _row(work(request, host, host, *how, selector=ClaimSelector(name)))

    def do_confirm(self, scheduler, consumer, node, name):
        work = scheduler.claim_service.confirm_claim
        return bool(work(str(consumer), self.hosts[node], ClaimSelector(name)))

    def do_revert(self, scheduler, consumer, node, name):
        return bool(scheduler.claim_service.revert_claim(str(consumer), ClaimSelector(name)))

    def do_abort(self, scheduler, consumer, node, name):
        meant = ClaimSelector(name, unconfirmed=True)
        return bool(scheduler.claim_service.abort_claim(str(consumer), self.hosts[node], meant))

    def do_remove(self, scheduler, node, seen):
        host = self.hosts[node]
        return scheduler.state_sync.remove_node(host, host, seen) is None

    # Time.

    @staticmethod
    def do_overdue(store):
        for some in store._claims.values():
            for consumer, claim in some.items():
                if claim.expires_s:
                    some[consumer] = dataclasses.replace(claim, expires_s=OVER)

    @staticmethod
    def do_expire(store):
        return len(store.expire())


def _answer(name, work, *args):
    """The answer of a call, or the name of its error; claims get this UUID."""
    maker = types.SimpleNamespace(uuid4=lambda: name)
    with mock.patch.object(claims_module, 'uuid', maker):
        try:
            return work(*args)
        except errors.SchedError as error:
            return type(error).__name__


@functools.cache
def _request(consumer, vcpus, wants, ignored=()):
    about = {'instance_uuid': str(consumer), 'vcpus': vcpus, 'ignore_hosts': [*ignored]}
    return builders.request(**about, **WANTS[wants])


@functools.cache
def _machine(pieces, wants):
    """The CPUs and the device of a node that are wanted, as a report tells of them."""
    pinned = [cpu for cpu in CPUS if CPUS[cpu] in pieces]
    cells = [hardware.cell(pcpuset=CPUS, pinned=pinned)] if PINNED in wants else []
    pools = [hardware.pool(int(DEVICE not in pieces))] if DEVICE in wants else []
    return hardware.told(hardware.machine(*cells, pools=pools))


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
    pieces = []
    for parts in claim.all_parts:
        pieces += [DEVICE for _ in parts.devices]
        for cell in parts.cells.cells if parts.cells else ():
            pieces += [CPUS[cpu] for cpu in sorted(cell.pinning.values())]
    amount = claim.resources[VCPU]
    return Row(names, claim.is_confirmed, amount, tuple(pieces), claim.request_id)


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
