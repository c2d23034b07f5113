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
"""Tests of the watch: what it finds, what it tells the loop, and how it lives and ends."""

import collections
import dataclasses
import logging
import threading

import pytest

from nova_sched import engine, errors
from nova_sched.claim import CONFIRMED
from nova_sched.claims import ClaimSelector, Placement, ServiceFacts
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.engine.sync.store_poller import EXPIRE_INTERVAL_S, StorePoller
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.tests.builders import NOW, aggregate, claim, report, request, uuid_of
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.stores import Unsteady
from nova_sched.tests.unit.engine.world import (
    A,
    B,
    C,
    World,
    end_claims,
    fresh,
    node,
    picture,
    rules,
)


class Counting(Unsteady):
    """Counts how often all nodes were read."""

    def __init__(self):
        super().__init__()
        self.polls = 0

    def heads(self):
        self.polls += 1
        return super().heads()


class Silent(MemoryClaimStore):
    """A store that answers no poll while ``away`` is set, but all else."""

    def __init__(self):
        super().__init__()
        self.away, self.polls = threading.Event(), 0

    def digest(self):
        is_away = self.away.is_set()
        self.polls += 1
        if is_away:
            raise errors.StoreUnavailable('it is away')
        return super().digest()

    def wait_for_polls(self):
        """Wait for a poll that begins from now on, and for its end."""
        before = self.polls
        eventually(lambda: self.polls > before + 2)


class Watched:
    """A world and a watch that polls when the test says so; ``told`` is what it told the loop."""

    def __init__(self, **settings):
        self.store = Counting()
        self.world = World(self.store, **settings)
        self.world.report(report(), report('host-1'))
        self.told = []
        self.deaf = False
        self.watch = StorePoller(self.world.context, self.tell)
        self.poll()
        self.store.polls = 0

    def tell(self, method, *args):
        self.told.append((method, *args))
        if self.deaf:
            raise ZeroDivisionError
        return self.world.call(getattr(self.world.state_sync, method), *args)

    def poll(self):
        """What one more poll tells."""
        del self.told[:]
        self.watch.poll()
        return self.told


@pytest.fixture
def watched():
    """A watch that has polled once; at the end a scheduler that starts now knows the same."""
    made = Watched()
    yield made
    made.poll()
    assert picture(made.world.cluster) == picture(fresh(made.store))


@pytest.fixture
def eager():
    """One for which every poll is a full one: no host may be silent for any time."""
    return Watched(service_down_time_s=0.0)


def test_the_first_poll_is_a_full_one_and_ends_what_is_overdue():
    made, beside = Watched(), []
    other = StorePoller(made.world.context, made.tell, lambda: beside.append('also'))
    del made.told[:]
    other.poll()
    assert made.told == [('catch_up', [], {node('host-0'): NOW, node('host-1'): NOW}), ('expire',)]
    del made.told[:]
    other.poll()
    assert made.told == [('catch_up', [], {})]
    assert beside == ['also']


def test_exclusive_domains_without_claims_end_within_half_a_minute():
    """The interval, the poll that finds its end, and the poll that reads the nodes."""
    assert EXPIRE_INTERVAL_S + 2 * engine.Settings().refresh_interval_s < 30


def test_nothing_new(watched):
    watched.world.place(request(instance_uuid=A))
    assert watched.poll() == [('catch_up', [], {})]
    assert watched.store.polls == 0


def test_what_others_claimed(watched):
    watched.store.commit([Placement((claim(A, node('host-1')),))])
    assert watched.poll() == [('catch_up', [node('host-1')], {})]
    assert watched.world.cluster.hosts.count_instances([A]).tolist() == [0, 1]
    assert watched.store.polls == 1


def test_a_node_that_came(watched):
    watched.store.report([report('host-2')], NOW + 1)
    assert watched.poll() == [('catch_up', [node('host-2')], {node('host-2'): NOW + 1})]
    assert {one.host for one in watched.world.cluster} == {'host-0', 'host-1', 'host-2'}


def test_nodes_that_came_and_went(eager):
    """As many as before, and the sum of their generations the same: a full poll finds out."""
    eager.store.report([report('host-2')], NOW + 1)
    eager.store.remove_node(node('host-0'))
    assert eager.poll() == [
        ('catch_up', [node('host-2'), node('host-0')], {node('host-2'): NOW + 1})
    ]
    assert {one.host for one in eager.world.cluster} == {'host-1', 'host-2'}


def test_a_node_that_came_in_place_of_one_that_went(watched):
    """As many as before; but no generation is used twice."""
    watched.store.remove_node(node('host-0'))
    watched.store.report([report('host-2')], NOW)
    assert watched.poll() == [
        ('catch_up', [node('host-2'), node('host-0')], {node('host-2'): NOW})
    ]


def test_a_node_that_went(watched):
    watched.store.remove_node(node('host-0'))
    assert watched.poll() == [('catch_up', [node('host-0')], {})]
    assert [one.host for one in watched.world.cluster] == ['host-1']


def test_the_small_tables_are_read_each_time(watched):
    watched.store.set_service(ServiceFacts('host-0', disabled=True))
    assert watched.poll() == [('catch_up', [], {})]
    assert watched.world.cluster.hosts.disabled.tolist() == [True, False]
    assert watched.store.polls == 0


def test_a_heartbeat_is_told_once(eager):
    eager.store.report([report('host-1')], NOW + 30)
    assert eager.poll() == [('catch_up', [], {node('host-1'): NOW + 30})]
    assert eager.world.cluster.hosts.seen_s.tolist() == [NOW, NOW + 30]
    assert eager.poll() == [('catch_up', [], {})]


def test_a_heartbeat_that_did_not_get_through_is_told_again(eager):
    eager.store.report([report('host-1')], NOW + 30)
    eager.deaf = True
    with pytest.raises(ZeroDivisionError):
        eager.poll()
    eager.deaf = False
    assert eager.poll() == [('catch_up', [], {node('host-1'): NOW + 30})]


def test_figures_of_polls(watched):
    watched.watch._figures.polled_s = 0.0
    watched.poll()
    assert watched.watch._figures.stale_nodes == 0
    assert watched.watch._figures.poll_lag_s < 60
    watched.store.commit([Placement((claim(A, node('host-1')),))])
    watched.store.remove_node(node('host-0'))
    watched.poll()
    assert watched.watch._figures.stale_nodes == 2
    watched.poll()
    assert watched.watch._figures.stale_nodes == 0


class TestThread:
    def test_it_signs_at_once_and_goes_on_when_that_fails(self, caplog):
        heartbeats = []

        def heartbeat():
            heartbeats.append('heartbeat')
            raise errors.StoreUnavailable('it is away')

        world = World()
        settings = dataclasses.replace(world.settings, refresh_interval_s=0.01)
        polls = Counting()
        context = dataclasses.replace(world.context, store=polls, settings=lambda: settings)
        watch = StorePoller(context, lambda *args: None, heartbeat=heartbeat)
        watch.start()
        eventually(lambda: polls.polls and heartbeats)
        watch.leave()
        watch.join()
        assert heartbeats == ['heartbeat'], 'the next one is seconds away'
        assert 'are not seen until it does' in caplog.text

    def test_a_node_that_is_known_to_be_stale_is_read_soon(self):
        """Though the next poll is far away."""
        world = World(refresh_interval_s=3600.0)
        world.report(report())
        world.scheduler.start()
        world.store.commit([Placement((claim(A, node('host-0')),))])
        world.scheduler.call(
            world.claim_service.claim, request(instance_uuid=B), 'host-0', 'host-0'
        )
        eventually(
            lambda: world.scheduler.call(world.cluster.hosts.count_instances, [A]).tolist() == [1]
        )
        world.scheduler.stop()

    def test_it_keeps_a_scheduler_up_to_date(self):
        world = World(refresh_interval_s=0.01)
        world.report(report())
        world.scheduler.start()
        world.store.commit([Placement((claim(A, node('host-0')),))])
        eventually(
            lambda: world.scheduler.call(world.cluster.hosts.count_instances, [A]).tolist() == [1]
        )
        world.scheduler.stop()

    def test_it_says_once_that_the_store_is_away_and_goes_on(self, caplog):
        world = World(Silent(), refresh_interval_s=0.01)
        world.report(report())
        world.scheduler.start()
        for _ in range(2):
            world.store.away.set()
            world.store.wait_for_polls()
            world.store.away.clear()
            world.store.commit([Placement((claim(B, node('host-0')),))])
            eventually(
                lambda: (
                    world.scheduler.call(world.cluster.hosts.count_instances, [B]).tolist() == [1]
                )
            )
            world.scheduler.call(end_claims, world.claim_service, B)
            world.store.wait_for_polls()
        world.scheduler.stop()
        warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
        assert [one.getMessage() for one in warnings] == [
            (
                'The database does not answer: it is away; '
                'changes of other schedulers are not seen until it does'
            )
        ] * 2

    def test_a_poll_that_breaks_is_repeated(self, caplog):
        class Broken(Counting):
            def digest(self):
                self.polls += 1
                return super().digest() if self.polls > 2 else {}[0]

        world = World(Broken(), refresh_interval_s=0.01)
        world.store.polls = 0
        world.scheduler.start()
        eventually(lambda: world.store.polls > 4)
        world.scheduler.stop()
        assert caplog.text.count('A poll of the store failed') in (1, 2)

    def test_it_ends_with_the_scheduler(self):
        world = World(refresh_interval_s=3600.0)
        before = set(threading.enumerate())
        world.scheduler.start()
        assert set(threading.enumerate()) - before
        world.scheduler.stop()
        assert not set(threading.enumerate()) - before
        world.scheduler.stop()


def everything(world, later_s):
    """Much of what may happen in an hour, on hosts 0 to 9."""
    state_sync, claim_service = world.state_sync, world.claim_service
    world.now_s += later_s / 2
    world.call(end_claims, claim_service, A)
    world.call(claim_service.confirm_claim, B, 'host-1')
    for number in range(6):
        world.call(
            claim_service.claim,
            request(instance_uuid=uuid_of(f'later {number}')),
            f'host-{number}',
            f'host-{number}',
        )
    (waiting,) = world.store.claims(C)
    how = 'host-6', 'host-6', None, 'host-2', None, False, ClaimSelector(waiting.uuid)
    world.call(claim_service.claim, request(instance_uuid=C), *how)
    world.call(state_sync.remove_node, 'host-3', 'host-3')
    world.call(state_sync.remove_node, 'host-4', 'host-4')
    world.now_s += later_s / 2
    world.report(report('host-4', vcpus=3), report('host-10'))
    world.report(report('host-5', vcpus=99), report('host-7', node_uuid=uuid_of('rebuilt')))
    world.report(report('host-8', instances=frozenset([uuid_of('stranger')]), vcpus_used=1))
    world.call(state_sync.set_service, 'host-6', True, 'broken', False, world.now_s)
    world.call(state_sync.set_service, 'host-8', False, None, True, world.now_s)
    world.call(
        state_sync.set_aggregates,
        [aggregate(1, ['host-9']), aggregate(3, ['host-0', 'host-10'], zone='x')],
    )
    world.call(state_sync.set_aggregate, 2, None)
    world.call(state_sync.instances_are, 'host-9', [uuid_of('told')])


def all_of(cluster):
    """The picture, and what is not in it."""
    hosts, ids = cluster.hosts, range(5)
    nodes = {
        node.uuid: (
            node.generation,
            node.report,
            dataclasses.astuple(Plain.of(node.service)),
            bool(hosts.disabled[node.row]),
            bool(hosts.forced_down[node.row]),
            float(hosts.seen_s[node.row]),
            sorted(one.id for one in hosts.aggregates if node.host in one.hosts),
        )
        for node in cluster
    }
    aggregates: dict[int, HostAggregate | None] = {
        number: hosts.aggregates.get(number) for number in ids
    }
    return picture(cluster), nodes, aggregates


@dataclasses.dataclass
class Plain:
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    seen_s: float

    @classmethod
    def of(cls, service):
        return cls(*(getattr(service, field.name) for field in dataclasses.fields(cls)))


@pytest.fixture
def opened(database):
    """A function that opens one store again and again."""
    return lambda: SqlClaimStore(database)


def test_one_that_was_cut_off_for_an_hour_knows_all_after_one_poll(opened):
    others, alone = (World(opened(), rules(), pending_ttl_s=None) for _ in range(2))
    others.report(*(report(f'host-{number}', vcpus=8) for number in range(10)))
    for number, one in enumerate((A, B, C)):
        others.call(
            others.claim_service.claim,
            request(instance_uuid=one),
            f'host-{number}',
            f'host-{number}',
        )
    others.call(
        others.state_sync.set_aggregates, [aggregate(1, ['host-0']), aggregate(2, ['host-1'])]
    )
    alone.state_sync.refresh()
    watch = StorePoller(
        alone.context,
        lambda method, *args: alone.call(getattr(alone.state_sync, method), *args),
    )
    watch.poll()
    before = all_of(alone.cluster)
    assert before == all_of(fresh(opened()))
    everything(others, 3600.0)
    # It goes on deciding meanwhile, by what it knows; the store alone judges.
    alone.now_s += 3000.0
    alone.call(
        alone.claim_service.claim, request(instance_uuid=uuid_of('mine')), 'host-1', 'host-1'
    )
    assert all_of(alone.cluster) != all_of(fresh(opened()))
    watch._next_full = watch._next_expiry = 0.0  # an hour has passed
    alone.now_s = others.now_s
    watch.poll()
    assert all_of(alone.cluster) == all_of(fresh(opened()))
    assert alone.scheduler.figures.stale_nodes > 5
    states = collections.Counter(one.state for one in opened().claims())
    assert states[CONFIRMED] == 1
