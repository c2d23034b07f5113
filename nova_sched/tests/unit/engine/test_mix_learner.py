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
"""Learning the mix of requests, and weighing by it."""

import contextlib
import sys
import threading
from concurrent import futures

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.extensions.optimize import Optimize, mix_learner
from nova_sched.extensions.optimize.fragmentation_weigher import FragmentationWeigher
from nova_sched.extensions.optimize.mix_learner import MixLearner, SharedMix
from nova_sched.extensions.optimize.packing.mix import Mix
from nova_sched.tests.builders import aggregate, cluster, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.unit.engine.world import World, rules
from nova_sched.tests.unit.extensions.optimize.packing.builders import size
from nova_sched.tests.unit.extensions.optimize.packing.test_scores import asked, gpu_cluster
from nova_sched.weighers.ram import RAMWeigher

OPTIMIZE = {'optimize': Optimize()}
MULTIPLIER = 'filter_scheduler.fragmentation_weight_multiplier'
SHARE, PLAIN = asked(1, 460), asked(2, 0)


class Store:
    """A store of mixes that may be away; ``is_lost``: it takes a batch, and its answer is lost."""

    def __init__(self, **counts):
        self.batches, self.is_away, self.is_lost, self.is_busy = {}, False, False, False

    def add(self, scheduler, serial, mix):
        if self.is_busy:
            raise errors.StoreBusy('another transaction')
        if not self.is_away:
            self.batches.setdefault((scheduler, serial), Mix(mix.counts))
        if self.is_away or self.is_lost:
            raise errors.StoreUnavailable('it is away')

    def total(self):
        total = Mix()
        for one in self.batches.values():
            total.merge(one)
        return total


@pytest.fixture
def used():
    with settings({MULTIPLIER: 1.0}):
        yield


def learner(made=None, **words):
    made = gpu_cluster() if made is None else made
    found = MixLearner(made.hosts, lambda work, *args: work(*args), uuid_of('me'), **words)
    found.weigher = FragmentationWeigher()
    found.follow(rules((), [RAMWeigher(), found.weigher]))
    return found


def weights(learned, wanted):
    hosts = learned._hosts
    return learned.weigher.raw(hosts, np.arange(len(hosts)), wanted)


@pytest.mark.usefixtures('used')
def test_what_is_requested_is_learned():
    learned = learner()
    learned.learn([SHARE, SHARE])
    learned.learn([PLAIN])
    learned.refresh()
    assert learned._shared.now.counts == {size(2, 460): 2, size(2): 1}
    assert weights(learned, SHARE).any()


@pytest.mark.usefixtures('used')
def test_a_check_before_a_rebuild_is_no_request():
    learned = learner()
    learned.learn([request(hints={'_nova_check_type': ['rebuild']})])
    learned.count()
    assert not learned._shared.now


def test_multiplier_0_learns_nothing():
    made = cluster(1)
    world = World(chain=rules((), [FragmentationWeigher()]), cluster=made, extensions=OPTIMIZE)
    mix = world.scheduler.parts['optimize'].mix
    for multiplier in (0.0, 1.0):
        with settings({MULTIPLIER: multiplier}):
            mix.follow(rules((), [FragmentationWeigher()]))
            with contextlib.suppress(errors.NoValidHost):  # a refused request counts, too
                world.place(PLAIN)
            mix.count()
        assert mix._shared.now.total == multiplier


def test_an_aggregate_with_a_multiplier_is_enough():
    made = gpu_cluster()
    key = FragmentationWeigher.option
    made.set_aggregate(1, aggregate(1, ['host-0'], **{key: '1'}))
    assert learner(made).is_used


@pytest.mark.usefixtures('used')
def test_without_the_weigher_nothing_is_learned():
    learned = learner()
    learned.follow(rules((), [RAMWeigher()]))
    assert not learned.is_used


@pytest.mark.usefixtures('used')
def test_new_rules_weigh_by_what_was_learned():
    learned, other = learner(), FragmentationWeigher()
    learned.learn([SHARE])
    learned.refresh()
    before = weights(learned, SHARE)
    learned.follow(rules((), [other]))
    hosts = learned._hosts
    assert other.raw(hosts, np.arange(len(hosts)), SHARE).tolist() == before.tolist()


@pytest.mark.usefixtures('used')
def test_when_the_tables_are_made_again():
    learned, refreshed = learner(), []
    for number in range(2000):
        if learned.is_due:
            refreshed.append(number)
            learned.count()
            learned._refreshed, learned._hosts_then = number, len(learned._hosts)
        learned.learn([PLAIN])
    assert refreshed == [0, 20, 50, 100, 200, 400, 800, 1300, 1800]


@pytest.mark.usefixtures('used')
def test_many_new_hosts_are_a_reason():
    made = gpu_cluster()
    learned = learner(made)
    learned.refresh()
    assert not learned.is_due
    made.remove(made.hosts.nodes[0].uuid)
    assert learned.is_due


@pytest.mark.usefixtures('used')
def test_without_history_the_flavors_are_the_mix():
    learned = learner(seed=lambda: [asked(1, 460), asked(2, 460)])
    learned.refresh()
    with_flavors = weights(learned, SHARE)
    learned = learner()
    learned.learn([SHARE])
    learned.refresh()
    assert with_flavors.tolist() == weights(learned, SHARE).tolist()


@pytest.mark.usefixtures('used')
def test_flavors_that_cannot_be_read(caplog):
    def away():
        raise errors.StoreUnavailable('it is away')

    learner(seed=away).refresh()
    assert 'starts without the flavors' in caplog.text


def test_the_mix_of_a_scheduler_that_counts_nothing():
    """It is that of the store, and of the flavors while that is small."""
    store = Store()
    store.add(uuid_of('other'), 1, Mix({size(2, 190): 5.0}))
    found = learner(store=store, seed=lambda: [SHARE]).mix_of_now()
    assert found.counts == {size(2, 190): 5, size(2, 460): mix_learner.SEED}


@pytest.mark.usefixtures('used')
def test_the_figures_are_those_of_the_last_refresh():
    learned = learner()
    assert learned.figures == {}
    learned.learn([SHARE, SHARE, PLAIN])
    learned.refresh()
    figures = learned.figures['fragmentation']
    assert (figures['hosts'], figures['empty_hosts']) == (6, 6)
    assert [one['resources'] for one in figures['sizes']] == [{'VCPU': 2}] * 2


@pytest.mark.usefixtures('used')
def test_the_thread_makes_tables_and_stores_what_is_left():
    store, refreshed = Store(), threading.Event()
    made = gpu_cluster()

    def call(work, *args):
        refreshed.set()
        return work(*args)

    learned = MixLearner(made.hosts, call, uuid_of('me'), store)
    learned.follow(rules((), [FragmentationWeigher()]))
    learned.start()
    assert refreshed.wait(60)
    learned.learn([SHARE])
    learned.stop()
    assert store.total().counts == {size(2, 460): 1}


@pytest.mark.usefixtures('used')
def test_a_failure_is_logged(caplog):
    failed = threading.Event()

    def call(work, *args):
        failed.set()
        raise RuntimeError('no')

    learned = MixLearner(gpu_cluster().hosts, call)
    learned.follow(rules((), [FragmentationWeigher()]))
    learned.start()
    assert failed.wait(60)
    for _ in range(600):
        if 'stay as they were' in caplog.text:
            break
        threading.Event().wait(0.1)
    learned.stop()
    assert 'The tables of FragmentationWeigher stay as they were' in caplog.text


def test_the_queue_of_requests_is_bounded():
    with settings({MULTIPLIER: 1.0}):
        learned = learner()
        learned.learn([SHARE] * (mix_learner.WAITING + 5))
        learned.count()
        assert learned._shared.now.total == mix_learner.WAITING


SMALL, LARGE = size(1), size(8)


def shared(store=None):
    return SharedMix('me', store)


def test_without_a_store_the_total_is_that_of_this_process():
    one = shared()
    for _ in range(2):
        one.add([SMALL])
        one.exchange()
    one.add([LARGE])
    assert one.total.counts == {SMALL: 2}
    assert one.now.counts == {SMALL: 2, LARGE: 1}


def test_counts_that_are_read_while_another_thread_counts():
    one, ended = shared(), threading.Event()

    def count():
        number = 0
        while not ended.is_set():
            number += 1
            one.add([size(number % 400)])
            if number % 400 == 0:
                one.exchange()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with futures.ThreadPoolExecutor(1) as pool:
            counting = pool.submit(count)
            try:
                for _ in range(200):
                    assert len(one.now.counts) <= 400
            finally:
                ended.set()
            counting.result()
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize('trouble', ['is_away', 'is_lost', 'is_busy'])
def test_a_store_with_trouble(trouble, caplog):
    """It is told once, unless it is only busy; nothing is lost, and nothing counts twice."""
    store = Store()
    one = shared(store)
    one.add([SMALL])
    setattr(store, trouble, True)
    one.exchange()
    one.add([LARGE])
    one.exchange()
    assert one.now.counts == {SMALL: 1, LARGE: 1}
    told = caplog.text.count('the mix of requests is not shared until it does')
    assert told == (0 if trouble == 'is_busy' else 1)
    setattr(store, trouble, False)
    one.exchange()
    one.exchange()
    assert one.now.counts == store.total().counts == {SMALL: 1, LARGE: 1}


def test_a_total_that_cannot_be_read(monkeypatch):
    """A batch that the store has taken still counts, once."""
    store = Store()
    one = shared(store)
    one.add([SMALL])
    with monkeypatch.context() as patch:

        def away():
            raise errors.StoreUnavailable('it is away')

        patch.setattr(store, 'total', away)
        one.exchange()
        assert one.now.counts == {SMALL: 1}
    one.exchange()
    assert one.now.counts == {SMALL: 1}
