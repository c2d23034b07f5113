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
"""What the loop measures of requests: nothing while no metrics are shown."""

import pytest

from nova_sched import errors
from nova_sched.engine import measuring, time_slice
from nova_sched.engine.cycle import Order
from nova_sched.measures.catalogue import (
    BATCH_ORDERS,
    CALL_SECONDS,
    DECISIONS,
    FILTER_LEFT,
    FILTER_SEEN,
    INSTANCES_PLACED,
    LOOP_HOLD,
    MEASURES,
)
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.unit.engine.world import World, rules

USED = BATCH_ORDERS, CALL_SECONDS, DECISIONS, FILTER_LEFT, FILTER_SEEN, INSTANCES_PLACED


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    monkeypatch.setattr(MEASURES, 'is_on', True)
    measuring._steps.clear()
    for measure in USED:
        measure.clear()


def decided(**words):
    made = World(chain=rules([], []))
    made.report(*(report(f'host-{row}', vcpus=4) for row in range(3)))
    future = made.loop.send('place', Order([request(instance_uuid=uuid_of('a'), **words)]))
    made.turn_until(future)
    measuring.count_steps()
    return future


def test_a_placed_request():
    decided(vcpus=1).result()
    assert DECISIONS.values == {('placed',): 1}
    assert INSTANCES_PLACED.values == {(): 1}
    stages = {labels[0]: sum(value[:-1]) for labels, value in CALL_SECONDS.values.items()}
    assert stages == {'wait': 1, 'decide': 1, 'commit': 1, 'answer': 1, 'whole': 1}
    assert BATCH_ORDERS.values[()][0] == 1
    assert (FILTER_SEEN.values['ResourceCapacity',], FILTER_LEFT.values['ResourceCapacity',]) == (
        3,
        3,
    )


def test_requests_that_wait_for_another_one_of_their_instance():
    """Each is decided in a batch of its own, and waits once."""
    made = World(chain=rules([], []))
    made.report(report(vcpus=4))
    wanted = Order([request(instance_uuid=uuid_of('a'), vcpus=1)])
    for future in [made.loop.send('place', wanted) for _ in range(3)]:
        made.turn_until(future)
    stages = {labels[0]: sum(value[:-1]) for labels, value in CALL_SECONDS.values.items()}
    assert stages['wait'] == stages['whole'] == 3
    assert BATCH_ORDERS.values[()][0] == 3


def test_a_refused_request():
    with pytest.raises(errors.NoValidHost):
        decided(vcpus=9).result()
    assert DECISIONS.values == {('refused',): 1}
    assert INSTANCES_PLACED.values == {}
    assert (FILTER_SEEN.values['ResourceCapacity',], FILTER_LEFT.values['ResourceCapacity',]) == (
        3,
        0,
    )


def test_nothing_while_no_metrics_are_shown(monkeypatch):
    monkeypatch.setattr(MEASURES, 'is_on', False)
    decided(vcpus=1).result()
    assert not any(measure.values for measure in USED)


def test_steps_that_are_shared_count_each_time():
    steps = (('A', 5, 3), ('B', 3, 1))
    for _ in range(4):
        measuring.answered('placed', steps, 0.1)
    measuring.answered('placed', (('A', 7, 7),), 0.1)
    measuring.count_steps()
    assert FILTER_SEEN.values == {('A',): 27, ('B',): 12}
    assert FILTER_LEFT.values == {('A',): 19, ('B',): 4}


def test_the_longest_hold_of_each_kind(monkeypatch):
    LOOP_HOLD.clear()
    made = World(chain=rules([], []))
    made.report(report('host-0', vcpus=4))
    for count in range(2):
        future = made.loop.send('place', Order([request(instance_uuid=uuid_of(f'{count}'))]))
        made.turn_until(future)
    called = made.loop.send('call', (made.scheduler.questions.health, ()))
    made.turn_until(called)
    assert LOOP_HOLD.values.keys() >= {('place',), ('report',), ('health',)}
    before = dict(LOOP_HOLD.values)
    measuring.held('place', 1e-9)
    assert LOOP_HOLD.values == before
    measuring.held('place', 99.0)
    assert LOOP_HOLD.values['place',] == 99.0


def test_a_hold_ends_where_others_would_come_in(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time_slice, 'hold_clock', lambda: now[0])
    made = time_slice.TimeSlice(lambda: False, lambda: now[0], lambda _: None)
    made.hold()
    for seconds in (0.5, 2.0, 1.0):  # each is longer than a slice
        assert not made.is_over()
        now[0] += seconds
        assert not made.is_over()
    now[0] += 0.25
    assert made.held_s() == 2.0
