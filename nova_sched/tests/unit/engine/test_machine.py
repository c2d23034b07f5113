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
"""A search for a way to bring engine and store out of step: everything that may happen, in any
order.

Whatever happened, an engine's row of a node is what a scheduler that starts now would make of the
store, as long as their generations are the same; after a refresh they all are.
"""

import math
from unittest import mock

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from nova_sched import errors
from nova_sched.claim import MOVES, VCPU
from nova_sched.claims import ClaimSelector
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import schema
from nova_sched.engine.sync import state_sync
from nova_sched.engine.sync.store_poller import StorePoller
from nova_sched.filters.numa_topology import NUMATopologyFilter
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.state.request import NO_HARDWARE
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.claims.batteries.steps import check_books
from nova_sched.tests.unit.engine.world import (
    World,
    end_claims,
    fresh,
    picture,
    rules,
    settle_claim,
    spreading,
)
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    pool,
    shared,
    told,
    wanted,
)
from nova_sched.tests.unit.hardware.builders import request as device

LISTING, SILENT = (
    ('agent-0', 'agent-1'),
    ('stock-0', 'stock-1'),
)  # hosts whose reports list their instances or do not
HOSTS = LISTING + SILENT
CPUS = {host: 3 + number for number, host in enumerate(HOSTS)}
# Server groups, each with its instances.
GROUPS = {
    group: [uuid_of(f'instance {group} {number}') for number in range(3)]
    for group in (None, 'anti-affinity', 'affinity', 'soft-anti-affinity')
}
INSTANCES = [uuid for members in GROUPS.values() for uuid in members]
FAR_FUTURE_S = 9e9
# What a node's generation vouches for; what hosts' messages tell of instances is not part of it.
GUARDED = (
    'name',
    'claims',
    'foreign',
    'foreign_instances',
    'machine',
    'num_instances',
    'num_io_ops',
    'use',
)
HAS = machine(cell(0, [0], range(1, 4)), cell(1, [], range(4, 6)), pools=[pool(1, 0), pool(1, 1)])
PIECES = [
    wanted(dedicated(1)),
    wanted(dedicated(2)),
    wanted(shared(1), requests=[device(1)]),
    wanted(requests=[device(1)]),
]

hosts, instances = st.sampled_from(HOSTS), st.sampled_from(INSTANCES)
pieces = st.none() | st.sampled_from(PIECES)
groups = st.sampled_from([None, None, 'anti-affinity', 'affinity', 'soft-anti-affinity'])
orders = groups.flatmap(
    lambda group: st.fixed_dictionaries(
        {
            'instances': st.lists(
                st.sampled_from(GROUPS[group]), min_size=1, max_size=3, unique=True
            ),
            'vcpus': st.integers(1, 3),
            'pieces': pieces,
            'group': st.just(group),
            'ignored': st.none() | hosts,
            'claim': st.sampled_from([True, True, True, False]),
            'alternates': st.booleans(),
        }
    )
)


def asked(order):
    """The requests of an order, for each of its instances."""
    ignored = [order['ignored']] if order['ignored'] else []
    return [
        wants(uuid, order['vcpus'], order['pieces'], ignore_hosts=ignored)
        for uuid in order['instances']
    ]


def wants(uuid, vcpus, inside, **words):
    policy = next(group for group, members in GROUPS.items() if uuid in members)
    group = policy and {'uuid': uuid_of(policy), 'policy': policy, 'members': [uuid]}
    return request(
        instance_uuid=uuid,
        vcpus=vcpus,
        memory_mb=1,
        pieces=inside or NO_HARDWARE,
        group=group,
        **words,
    )


class Engines(RuleBasedStateMachine):
    """Some schedulers on one store, each of which hears of the others only when it looks."""

    count = 1

    def stores(self):
        """A function that opens the store once more."""
        database = schema.in_memory()
        return lambda: SqlClaimStore(database)

    def __init__(self):
        super().__init__()
        self.open = self.stores()
        self.engines = [self.engine() for _ in range(self.count)]

    def engine(self):
        usual = spreading()
        chain = rules(
            [*usual.filters, NUMATopologyFilter(), PciPassthroughFilter()], usual.weighers
        )
        return World(self.open(), chain)

    def refused(self, engine, work, *args):
        """Run a call; whether it was refused, as may be."""
        try:
            engine.call(work, *args)
        except errors.SchedError:
            return True
        return False

    @initialize()
    def every_host_reports_once(self):
        for host in HOSTS:
            self.take_report(self.engines[0], host, 0, frozenset())
        for engine in self.engines:
            engine.state_sync.refresh()

    def take_report(self, engine, host, used, listed, **words):
        words |= {'instances': listed} if host in LISTING else {'num_instances': len(listed)}
        words |= told(self.inside(host, listed))
        engine.report(report(host, vcpus=CPUS[host], vcpus_used=used, memory_mb=100, **words))

    def inside(self, host, listed):
        """What a node reports of its cells and devices: its instances have what was claimed for
        them."""
        found = HAS
        for one in self.open().claims():
            here = one.consumer_uuid in listed if host in LISTING else one.is_confirmed
            if one.node_uuid == uuid_of(f'node {host}') and one.parts and here:
                found = found.hold(one.parts)
        return found

    @rule(
        data=st.data(),
        host=hosts,
        used=st.integers(0, 5),
        listed=st.frozensets(instances, max_size=3),
    )
    def report(self, data, host, used, listed):
        self.take_report(self.one(data), host, used, listed)

    @rule(data=st.data(), host=hosts)
    def report_what_is_there(self, data, host):
        """As a healthy node does: it lists what was claimed on it, and uses what that takes."""
        here = {
            one.consumer_uuid: one
            for one in self.open().claims()
            if one.node_uuid == uuid_of(f'node {host}')
        }
        used = sum(one.resources[VCPU] for one in here.values())
        self.take_report(self.one(data), host, used, frozenset(here))

    def one(self, data):
        return self.engines[data.draw(st.integers(0, len(self.engines) - 1), 'engine')]

    @rule(data=st.data(), batch=st.lists(orders, min_size=1, max_size=3))
    def place(self, data, batch):
        engine = self.one(data)
        before = picture(engine.cluster)
        knew_all = self.up_to_date(engine, engine.store.heads().items())
        known = set(engine.cluster.hosts.places)
        futures = [
            engine.send_place(*asked(order), alternates=order['alternates'], claim=order['claim'])
            for order in batch
        ]
        engine.turn_until(*futures)
        placed = [
            self.check_answer(order, future) for order, future in zip(batch, futures, strict=True)
        ]
        if len(batch) == 1 and placed[0] and not known & {*batch[0]['instances']}:
            self.check_policy(batch[0]['group'], futures[0].result())
        claimed = any(done and order['claim'] for done, order in zip(placed, batch, strict=True))
        if not claimed and knew_all:
            assert picture(engine.cluster) == before

    def check_answer(self, order, future):
        """Whether the order was placed; then the answer is as it should be."""
        if isinstance(future.exception(), errors.NoValidHost):
            return False
        chosen = [selected[0].host for selected in future.result()]
        assert len(chosen) == len(order['instances'])
        assert order['ignored'] not in chosen
        for selected in future.result():
            alternates = [one.host for one in selected[1:]]
            assert len(alternates) <= (2 if order['alternates'] else 0)
            assert not set(alternates) & {*chosen, order['ignored']}
            assert len(set(alternates)) == len(alternates)
        return True

    def check_policy(self, policy, placed):
        """Of a group whose members were nowhere before."""
        chosen = [selected[0].host for selected in placed]
        if policy == 'anti-affinity':
            assert len(set(chosen)) == len(chosen)
        if policy == 'affinity':
            assert len(set(chosen)) == 1

    @rule(
        data=st.data(),
        uuid=instances,
        host=hosts,
        leaving=st.none() | hosts,
        vcpus=st.integers(1, 3),
        inside=pieces,
        move=st.none() | st.sampled_from(MOVES),
    )
    def claim(self, data, uuid, host, leaving, vcpus, inside, move):
        engine = self.one(data)
        one = wants(uuid, vcpus, inside)
        before = picture(engine.cluster)
        knew_all = self.up_to_date(engine, engine.store.heads().items())
        there = engine.claim_service.claims_of(uuid)
        meant = ClaimSelector(data.draw(st.sampled_from(there)).name if there else None)
        how = host, host, None, leaving, move, False, meant
        refused = self.refused(engine, engine.claim_service.claim, one, *how)
        if refused and knew_all:
            assert picture(engine.cluster) == before

    def up_to_date(self, engine, heads):
        return {(one.uuid, one.generation) for one in engine.cluster} == {
            (uuid, generation) for uuid, (generation, _) in heads
        }

    @rule(data=st.data(), uuid=instances, host=hosts)
    def confirm(self, data, uuid, host):
        engine = self.one(data)
        self.refused(engine, settle_claim, engine.claim_service, uuid, host)

    @rule(data=st.data(), uuid=instances)
    def revert(self, data, uuid):
        engine = self.one(data)
        for one in engine.claim_service.claims_of(uuid):
            meant = ClaimSelector(one.name)
            self.refused(engine, engine.claim_service.revert_claim, uuid, meant)

    @rule(data=st.data(), uuid=instances, host=st.none() | hosts)
    def abort(self, data, uuid, host):
        engine = self.one(data)
        self.refused(engine, end_claims, engine.claim_service, uuid, host)

    @rule(data=st.data(), late=st.booleans())
    def expire(self, data, late):
        engine = self.one(data)
        clock, engine.store.clock = engine.store.clock, lambda: FAR_FUTURE_S if late else 0.0
        with mock.patch.object(state_sync, 'UNWATCHED_S', math.inf):
            engine.call(engine.state_sync.expire)
        engine.store.clock = clock
        if late:
            assert all(one.is_confirmed for one in self.open().claims())

    @rule(
        host=st.sampled_from(SILENT),
        uuids=st.frozensets(instances, max_size=3),
        method=st.sampled_from(['instances_added', 'instances_are']),
    )
    def tell(self, host, uuids, method):
        """Messages of hosts go to every scheduler."""
        for engine in self.engines:
            engine.call(getattr(engine.state_sync, method), host, uuids)

    @rule(host=st.sampled_from(SILENT), uuid=instances)
    def tell_that_one_is_gone(self, host, uuid):
        for engine in self.engines:
            engine.call(engine.state_sync.instance_gone, host, uuid)

    @rule(data=st.data(), host=hosts)
    def remove(self, data, host):
        engine = self.one(data)
        self.refused(engine, engine.state_sync.remove_node, host, host)

    @rule(data=st.data(), host=hosts)
    def rebuild(self, data, host):
        """A node comes back under its old name with another UUID, and is gone again."""
        engine = self.one(data)
        self.take_report(engine, host, 0, frozenset(), node_uuid=uuid_of(f'new node {host}'))
        self.take_report(engine, host, 0, frozenset())

    @rule(data=st.data())
    def refresh(self, data):
        engine = self.one(data)
        engine.state_sync.refresh()
        assert picture(engine.cluster) == picture(fresh(self.open()))
        assert self.up_to_date(engine, engine.store.heads().items())

    @rule(data=st.data())
    def restart(self, data):
        place = data.draw(st.integers(0, len(self.engines) - 1), 'engine')
        self.engines[place] = self.engine()

    @invariant()
    def rows_are_what_their_generation_says(self):
        heads, true = self.open().heads(), picture(fresh(self.open()))
        for engine in self.engines:
            mine = picture(engine.cluster)
            for node in engine.cluster:
                seen = mine[node.uuid]
                assert seen['places'] == seen['instances']
                if node.uuid in heads and heads[node.uuid][0] == node.generation:
                    assert {name: seen[name] for name in GUARDED} == {
                        name: true[node.uuid][name] for name in GUARDED
                    }

    @invariant()
    def the_store_keeps_its_word(self):
        store = self.open()
        check_books(store)
        waiting = [one.consumer_uuid for one in store.claims() if not one.is_confirmed]
        assert len(set(waiting)) == len(waiting)
        for one in store.changes({}).nodes:
            assert sum(claim.resources[VCPU] for claim in one.claims) <= CPUS[one.report.host]
            # The two sizes of one instance may share pieces: one of them runs at a time.
            held = [parts for claim in one.claims for parts in claim.all_parts[:1]]
            cpus = [cpu for parts in held if parts.cells for placed in parts.cells.cells
                    for cpu in placed.host_cpus]  # fmt: skip
            assert len(cpus) == len(set(cpus))
            devices = [
                (some.pool.numa_node, some.pool.count) for parts in held for some in parts.devices
            ]
            assert sorted(set(devices)) == sorted(devices), 'there is one device in each cell'

    @invariant()
    def no_policy_is_broken(self):
        hosts = {one.report.node_uuid: one.report.host for one in self.open().changes({}).nodes}
        for policy in ('anti-affinity', 'affinity'):
            members = [one for one in self.open().claims() if one.group_uuid == uuid_of(policy)]
            if policy == 'anti-affinity':
                nodes = [one.node_uuid for one in members]
                assert len(set(nodes)) == len(nodes)
            else:
                on = [
                    {hosts[one.node_uuid] for one in members if one.consumer_uuid == uuid}
                    for uuid in {one.consumer_uuid for one in members}
                ]
                assert not on or set.intersection(*on)


class OneEngine(Engines):
    pass


class TwoEngines(Engines):
    count = 2


class Polling(Engines):
    """Three schedulers that read the store in both ways: their stale nodes, and all."""

    count = 3

    @rule(data=st.data())
    def heal(self, data):
        engine = self.one(data)
        engine.call(engine.state_sync.heal)

    @rule(data=st.data())
    def poll(self, data):
        """As the thread does, once in a while of every node."""
        engine = self.one(data)
        watch = StorePoller(
            engine.context,
            lambda method, *args: engine.call(getattr(engine.state_sync, method), *args),
        )
        watch._next_expiry = float('inf')
        watch.poll()
        assert picture(engine.cluster) == picture(fresh(self.open()))
        assert self.up_to_date(engine, engine.store.heads().items())


def search(machine, count):
    # No shrinking: a long example now is worth more than a short one after the time is up.
    most = cases(count)
    chosen = settings(max_examples=most, stateful_step_count=30, phases=[Phase.generate])
    run_state_machine_as_test(machine, settings=chosen)


def test_one_engine():
    search(OneEngine, 30)


def test_two_engines():
    search(TwoEngines, 40)


def test_polling():
    search(Polling, 40)
