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
"""Tests of counts that schedulers add up in a store."""

import sys
import threading
from concurrent import futures

import pytest

from nova_sched import errors
from nova_sched.extensions.optimize.mix_learner import SharedMix
from nova_sched.extensions.optimize.packing.mix import Mix
from nova_sched.tests.unit.engine.test_mix_learner import Store
from nova_sched.tests.unit.extensions.optimize.packing.builders import size

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


def test_the_counts_of_others():
    store = Store()
    store.add('other', 1, Mix({LARGE: 5.0}))
    one = shared(store)
    one.add([SMALL])
    one.exchange()
    assert one.now.counts == {SMALL: 1, LARGE: 5}


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


def test_what_is_now_is_a_copy():
    one = shared()
    one.add([SMALL])
    one.now.add([LARGE])
    assert one.now.counts == {SMALL: 1}


def test_a_scheduler_that_starts_again_has_what_was_stored():
    store = Store()
    one = shared(store)
    one.add([SMALL])
    one.exchange()
    again = SharedMix('me again', store)
    again.exchange()
    assert again.now.counts == {SMALL: 1}
