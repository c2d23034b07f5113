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

from nova_sched import engine, errors
from nova_sched.claims import Placement, ServiceFacts
from nova_sched.engine.sync.changes import ChangeEvent
from nova_sched.engine.sync.store_poller import EXPIRE_INTERVAL_S, StorePoller
from nova_sched.tests.builders import NOW, claim, report, request, uuid_of
from nova_sched.tests.unit.engine.stores import Unsteady
from nova_sched.tests.unit.engine.test_scheduler import wait_for
from nova_sched.tests.unit.engine.world import World, fresh, picture

A, B = uuid_of('instance A'), uuid_of('instance B')


def node(host):
    return uuid_of(f'node {host}')


class Counting(Unsteady):
    """Counts how often all nodes were looked at."""

    def __init__(self):
        super().__init__()
        self.looks = 0

    def heads(self):
        self.looks += 1
        return super().heads()


class Watched:
    """A world and a watch that looks when the test says so; ``told`` is what it told the loop."""

    def __init__(self, **settings):
        self.store = Counting()
        self.world = World(self.store, **settings)
        self.world.report(report(), report('host-1'))
        self.told = []
        self.deaf = False
        self.watch = StorePoller(self.world.context, self.tell)
        self.look()
        self.store.looks = 0

    def tell(self, method, *args):
        self.told.append((method, *args))
        if self.deaf:
            raise ZeroDivisionError
        return self.world.call(getattr(self.world.state_sync, method), *args)

    def look(self):
        """What one more look tells."""
        del self.told[:]
        self.watch.look()
        return self.told


@pytest.fixture
def watched():
    """A watch that has looked once; at the end a scheduler that starts now knows the same."""
    made = Watched()
    yield made
    made.look()
    assert picture(made.world.cluster) == picture(fresh(made.store))


@pytest.fixture
def eager():
    """One for which every look is a full one: no host may be silent for any time."""
    return Watched(service_down_time_s=0.0)


def test_the_first_look_is_a_full_one_and_ends_what_is_overdue():
    made, beside = Watched(), []
    other = StorePoller(made.world.context, made.tell, lambda: beside.append('also'))
    del made.told[:]
    other.look()
    assert made.told == [('catch_up', [], {node('host-0'): NOW, node('host-1'): NOW}), ('expire',)]
    del made.told[:]
    other.look()
    assert made.told == [('catch_up', [], {})]
    assert beside == ['also']


def test_exclusive_domains_without_claims_end_within_half_a_minute():
    """The interval, the poll that finds its end, and the poll that reads the nodes."""
    assert EXPIRE_INTERVAL_S + 2 * engine.Settings().refresh_interval_s < 30


def test_nothing_new(watched):
    watched.world.place(request(instance_uuid=A))
    assert watched.look() == [('catch_up', [], {})]
    assert watched.store.looks == 0


def test_what_others_claimed(watched):
    watched.store.commit([Placement((claim(A, node('host-1')),))])
    assert watched.look() == [('catch_up', [node('host-1')], {})]
    assert watched.world.cluster.hosts.count_instances([A]).tolist() == [0, 1]
    assert watched.store.looks == 1


def test_a_node_that_came(watched):
    watched.store.report([report('host-2')], NOW + 1)
    assert watched.look() == [('catch_up', [node('host-2')], {node('host-2'): NOW + 1})]
    assert {one.host for one in watched.world.cluster} == {'host-0', 'host-1', 'host-2'}


def test_nodes_that_came_and_went(eager):
    """As many as before, and the sum of their generations the same: a full look finds out."""
    eager.store.report([report('host-2')], NOW + 1)
    eager.store.remove_node(node('host-0'))
    assert eager.look() == [
        ('catch_up', [node('host-2'), node('host-0')], {node('host-2'): NOW + 1})
    ]
    assert {one.host for one in eager.world.cluster} == {'host-1', 'host-2'}


def test_a_node_that_came_in_place_of_one_that_went(watched):
    """As many as before; but no generation is used twice."""
    watched.store.remove_node(node('host-0'))
    watched.store.report([report('host-2')], NOW)
    assert watched.look() == [
        ('catch_up', [node('host-2'), node('host-0')], {node('host-2'): NOW})
    ]


def test_a_node_that_went(watched):
    watched.store.remove_node(node('host-0'))
    assert watched.look() == [('catch_up', [node('host-0')], {})]
    assert [one.host for one in watched.world.cluster] == ['host-1']


def test_the_small_tables_are_looked_at_each_time(watched):
    watched.store.set_service(ServiceFacts('host-0', disabled=True))
    assert watched.look() == [('catch_up', [], {})]
    assert watched.world.cluster.hosts.disabled.tolist() == [True, False]
    assert watched.store.looks == 0


def test_a_sign_of_life_is_told_once(eager):
    eager.store.report([report('host-1')], NOW + 30)
    assert eager.look() == [('catch_up', [], {node('host-1'): NOW + 30})]
    assert eager.world.cluster.hosts.seen_s.tolist() == [NOW, NOW + 30]
    assert eager.look() == [('catch_up', [], {})]


def test_a_sign_of_life_that_did_not_get_through_is_told_again(eager):
    eager.store.report([report('host-1')], NOW + 30)
    eager.deaf = True
    with pytest.raises(ZeroDivisionError):
        eager.look()
    eager.deaf = False
    assert eager.look() == [('catch_up', [], {node('host-1'): NOW + 30})]


def test_figures_of_looks(watched):
    watched.watch._figures.looked_s = 0.0
    watched.look()
    assert watched.watch._figures.stale_nodes == 0
    assert watched.watch._figures.look_lag_s < 60
    watched.store.commit([Placement((claim(A, node('host-1')),))])
    watched.store.remove_node(node('host-0'))
    watched.look()
    assert watched.watch._figures.stale_nodes == 2
    watched.look()
    assert watched.watch._figures.stale_nodes == 0


class TestThread:
    def test_it_signs_at_once_and_goes_on_when_that_fails(self, caplog):
        signs = []

        def sign():
            signs.append('sign')
            raise errors.StoreUnavailable('it is away')

        world = World()
        settings = dataclasses.replace(world.settings, refresh_interval_s=0.01)
        looks = Counting()
        context = dataclasses.replace(world.context, store=looks, settings=lambda: settings)
        watch = StorePoller(context, lambda *args: None, sign=sign)
        watch.start()
        wait_for(lambda: looks.looks and signs)
        watch.leave()
        watch.join()
        assert signs == ['sign'], 'the next one is seconds away'
        assert 'are not seen until it does' in caplog.text

    def test_what_others_told_of_is_read_soon(self):
        """Though the next look is far away."""
        world = World(refresh_interval_s=3600.0)
        world.report(report())
        world.scheduler.start()
        world.store.commit([Placement((claim(A, node('host-0')),))])
        world.scheduler.receive(ChangeEvent(NOW, looks={node('host-0'): None}))
        wait_for(
            lambda: world.scheduler.call(world.cluster.hosts.count_instances, [A]).tolist() == [1]
        )
        world.scheduler.stop()

    def test_it_keeps_a_scheduler_up_to_date(self):
        world = World(refresh_interval_s=0.01)
        world.report(report())
        world.scheduler.start()
        world.store.commit([Placement((claim(A, node('host-0')),))])
        wait_for(
            lambda: world.scheduler.call(world.cluster.hosts.count_instances, [A]).tolist() == [1]
        )
        world.scheduler.stop()

    def test_it_says_once_that_the_store_is_away_and_goes_on(self, caplog):
        world = World(Unsteady(), refresh_interval_s=0.01)
        world.report(report())
        world.scheduler.start()
        for _ in range(2):
            world.store.away.set()
            before = world.store.asked_in_vain
            wait_for(lambda before=before: world.store.asked_in_vain > before + 5)
            world.store.away.clear()
            world.store.commit([Placement((claim(B, node('host-0')),))])
            wait_for(
                lambda: (
                    world.scheduler.call(world.cluster.hosts.count_instances, [B]).tolist() == [1]
                )
            )
            world.scheduler.call(world.claim_service.abort_claim, B)
            wait_for(lambda: not world.scheduler.replica_sync.wake.is_set())
            world.scheduler.call(len, world.cluster)  # now it has read what the abort changed
        world.scheduler.stop()
        warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
        assert [one.getMessage() for one in warnings] == [
            (
                'The database does not answer: it is away; '
                'changes of other schedulers are not seen until it does'
            )
        ] * 2

    def test_a_look_that_breaks_is_repeated(self, caplog):
        class Broken(Counting):
            def digest(self):
                self.looks += 1
                return super().digest() if self.looks > 2 else {}[0]

        world = World(Broken(), refresh_interval_s=0.01)
        world.store.looks = 0
        world.scheduler.start()
        wait_for(lambda: world.store.looks > 4)
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
