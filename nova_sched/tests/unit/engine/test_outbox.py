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
"""The queue of what a thread passes on in batches."""

import threading
import time

import pytest

from nova_sched.engine.explain.decision_log import Outbox
from nova_sched.tests.rows import each


class Batches(Outbox):
    """``batches`` are those that were passed on."""

    def __init__(self, gather_s=0.0, waiting=10, most=2):
        super().__init__('batches', gather_s, waiting, most)
        self.batches, self.passed = [], threading.Event()

    def _pass_on(self, batch):
        self.batches.append(batch)
        self.passed.set()


@each(
    'items, batches',
    [
        pytest.param([], [], id='nothing'),
        pytest.param([1, 2], [[1, 2]], id='exactly as many as one batch takes'),
        pytest.param([1, 2, 3], [[1, 2], [3]], id='too many for one batch'),
    ],
)
def test_batches(items, batches):
    made = Batches()
    assert all(map(made.put, items))
    made.flush()
    assert made.batches == batches


def test_a_full_queue_takes_no_more():
    made = Batches(waiting=2)
    assert [made.put(item) for item in (1, 1, 1)] == [True, True, False]
    made.flush()
    assert made.batches == [[1, 1]]
    assert made.put(1)


def test_the_thread_gathers_and_passes_on():
    made = Batches(gather_s=0.2, most=1000)
    made.start()
    while not made.passed.is_set():
        made.put(1)
        time.sleep(0.02)
    assert len(made.batches[0]) > 1
    made.stop()


def test_the_end_waits_for_no_gathering_and_loses_nothing():
    made = Batches(gather_s=60.0)
    made.start()
    made.put(1)
    time.sleep(0.02)
    made.put(2)
    made.stop(timeout_s=20)
    assert [item for batch in made.batches for item in batch] == [1, 2]
    assert 'sizes' not in [thread.name for thread in threading.enumerate()]


def test_one_that_was_never_started_ends_at_once():
    made = Batches()
    made.put(1)
    made.stop()
    assert made.batches == []
