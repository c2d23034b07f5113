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

import dataclasses
import logging
import threading

import pytest

from nova_sched import errors
from nova_sched.claims import Placement, ServiceFacts
from nova_sched.engine.sync.store_poller import StorePoller
from nova_sched.tests.builders import NOW, claim, report, request
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.stores import Unsteady
from nova_sched.tests.unit.engine.world import (
    A,
    B,
    World,
    end_claims,
    fresh,
    node,
    picture,
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


@pytest.mark.parametrize('broken', ['catch_up', 'expire'])
def test_a_step_that_fails_keeps_no_other_one_from_being_done(broken):
    made, done = Watched(), []

    def tell(method, *_):
        done.append(method)
        if method == broken:
            raise ValueError('a row that cannot be read')

    StorePoller(made.world.context, tell, lambda: done.append('also')).poll()
    assert done == ['catch_up', 'expire', 'also']


def test_a_store_that_is_away_is_asked_once_in_a_poll():
    made, done = Watched(), []

    def tell(method, *_):
        done.append(method)
        raise errors.StoreUnavailable('it is away')

    StorePoller(made.world.context, tell, lambda: done.append('also')).poll()
    assert done == ['catch_up']


def test_the_loop_does_other_work_while_many_claims_end():
    made, told, left = Watched(), [], [True, True, False]

    def tell(method, *_):
        told.append(method)
        return left.pop(0) if method == 'expire' else None

    StorePoller(made.world.context, tell).poll()
    assert told == ['catch_up', *['expire'] * 3]


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
