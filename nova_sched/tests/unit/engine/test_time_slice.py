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
"""Requests of a new kind in slices: which requests wait, and the same answers."""

import importlib
import threading

import pytest

from nova_sched import errors
from nova_sched.engine import time_slice
from nova_sched.engine.clock import Received, handling
from nova_sched.engine.cycle import MAX_LOSSES, PLACE, Order
from nova_sched.engine.loop import Message
from nova_sched.engine.time_slice import SLICE_S, YIELD_S, TimeSlice
from nova_sched.filters import numa_topology
from nova_sched.filters.numa_topology import NUMATopologyFilter
from nova_sched.hardware import Undecided
from nova_sched.state import vocab
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.unit.engine.world import World, fresh, picture, rules
from nova_sched.tests.unit.hardware.builders import cell, host, shared, wanted
from nova_sched.weighers.ram import RAMWeigher

HOSTS = 300
fit_module = importlib.import_module('nova_sched.hardware.numa.fit')  # not the function


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def test_a_slice_begins_with_the_first_machine_of_a_batch():
    clock, slept = Clock(), []
    made = TimeSlice(lambda: True, clock, slept.append)
    for batch in range(1, 3):
        made.end_s = None
        clock.now_s += 5.0
        assert not made.is_over()
        clock.now_s += SLICE_S * 0.99
        assert not made.is_over()
        assert len(slept) == batch - 1
        clock.now_s += SLICE_S * 0.02
        assert made.is_over()
        assert made.is_over()  # the next decision of the batch has nothing left of it
    assert slept == [YIELD_S] * 2


def test_without_other_messages_another_slice_begins():
    clock, slept = Clock(), []
    made = TimeSlice(lambda: False, clock, slept.append)
    for _ in range(3):
        assert not made.is_over()
        clock.now_s += SLICE_S
        assert not made.is_over()
    assert slept == [YIELD_S] * 3


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(time_slice, 'SLICE_S', 0.0)


def world(**words):
    """Hosts of which no two have the same cells, the last with the most memory."""
    made = World(chain=rules([NUMATopologyFilter()], [RAMWeigher()]), **words)
    reports = [
        report(
            f'host-{row:03}',
            memory_mb=9000 + row,
            numa_topology=host(cell(0, range(4), memory_mb=4096 + row)).to_json(),
        )
        for row in range(HOSTS)
    ]
    made.report(*reports)
    return made


def asks(name, cells=0, **words):
    if cells:
        words['pieces'] = wanted(*[shared(1, memory_mb=4096 + 10 * cells)])
    return request(instance_uuid=uuid_of(name), vcpus=1, memory_mb=512, **words)


def turns_until(made, future):
    """The number of batches until the future has its result."""
    count = 0
    while not future.done():
        made.loop.turn()
        count += 1
    return count


def hosts_of(future):
    return [found[0].host for found in future.result(0)]


def test_a_known_kind_does_not_wait_for_a_new_one(tiny):
    made = world()
    new = made.send_place(asks('new', cells=1))
    known = made.send_place(asks('known'), claim=False)
    made.loop.turn()
    assert (known.done(), new.done()) == (True, False)
    made.send_place(asks('another'), claim=False)
    turns_until(made, new)
    assert hosts_of(new) == hosts_of(known) == [f'host-{HOSTS - 1}']


def test_a_new_kind_alone_is_decided_at_once(tiny):
    made = world()
    new = made.send_place(asks('new', cells=1))
    assert turns_until(made, new) == 1


def test_reports_between_them_do_not_hide_that_others_wait(tiny, monkeypatch):
    made = world()
    new = made.send_place(asks('new', cells=1))
    made.send_report(report('host-new'))
    known = made.send_place(asks('known'), claim=False)
    made.loop.turn()
    assert (known.done(), new.done()) == (True, False)
    monkeypatch.setattr(type(made.loop), 'has_waiting', True)
    for number in range(3):
        made.send_report(report('host-new'))
        known = made.send_place(asks(f'known {number}'), claim=False)
        made.loop.turn()
        assert (known.done(), new.done()) == (True, False)
    turns_until(made, new)


def test_any_number_of_new_kinds_lets_others_through(tiny):
    made = world()
    made.loop._max_batch = 2
    futures = [made.send_place(asks(f'new {count}', cells=count)) for count in range(1, 9)]
    for _ in range(3):
        made.loop.turn()
    known = made.send_place(asks('known'), claim=False)
    assert turns_until(made, known) <= 2
    assert not all(future.done() for future in futures)
    while not all(future.done() for future in futures):
        made.loop.turn()


def test_more_new_kinds_than_verdicts_are_kept_for_come_to_their_end(tiny, monkeypatch):
    monkeypatch.setattr(vocab, 'MAX_KEPT', 3)
    made = world()
    monkeypatch.setattr(type(made.loop), 'has_waiting', True)
    futures = [made.send_place(asks(f'new {count}', cells=count)) for count in range(1, 9)]
    turns = 0
    while not all(future.done() for future in futures):
        made.loop.turn()
        turns += 1
    assert turns < 9 * HOSTS


@pytest.mark.parametrize('fewest_of_kinds', [4000, 0])
def test_a_host_is_not_refused_for_ever_for_searches_on_others(fewest_of_kinds, monkeypatch):
    """A later request searches those for which the first one had too few steps."""
    monkeypatch.setattr(numa_topology, 'SHARED_STEPS', 20)
    monkeypatch.setattr(fit_module, 'FEWEST_STEPS', 1)
    clock = [100.0]
    monkeypatch.setattr(vocab.time, 'monotonic', lambda: clock[0])
    made = World(chain=rules([NUMATopologyFilter()], [RAMWeigher()]))
    cells = [cell(number, range(4), memory_mb=512) for number in range(4)]
    made.report(*[
        report(f'host-{row}', memory_mb=9000 + row, numa_topology=host(
            *cells, cell(4, range(4), memory_mb=5000 + row, cpu_usage=1)
        ).to_json()) for row in range(9)
    ])  # fmt: skip
    made.scheduler.placer.kinds.fewest = fewest_of_kinds
    found = []
    for number in range(5):
        found += [made.place(asks(f'{number} {again}', cells=1), claim=False) for again in '12']
        clock[0] += vocab.AGAIN_S
    best = [one[0][0] for one in found]
    assert best == [f'host-{row}' for row in (3, 3, 6, 6, 8, 8, 8, 8, 8, 8)]
    assert bool(len(made.scheduler.placer.kinds)) is (fewest_of_kinds == 0)


def test_a_paused_request_repeats_no_undecided_search(tiny, monkeypatch):
    """However long all of them take together; a later request repeats them."""
    clock, searched = [100.0], []
    monkeypatch.setattr(vocab.time, 'monotonic', lambda: clock[0])

    def search(*_):
        clock[0] += vocab.AGAIN_S / 100
        searched.append(clock[0])
        raise Undecided

    monkeypatch.setattr(numa_topology, '_takes', search)
    made = world()
    monkeypatch.setattr(type(made.loop), 'has_waiting', True)
    for count in range(1, 3):
        new = made.send_place(asks(f'new {count}', cells=1))
        turns_until(made, new)
        assert isinstance(new.exception(0), errors.NoValidHost)
        assert len(searched) == count * HOSTS


def test_a_later_request_for_the_instance_waits_for_the_paused_one(tiny):
    made = world()
    first = made.send_place(asks('one', cells=1))
    made.send_place(asks('known'), claim=False)
    made.send_report(report('host-new'))
    second = made.send_place(asks('one'))
    made.loop.turn()
    assert (first.done(), second.done()) == (False, False)
    turns_until(made, second)
    assert first.done()
    (claim,) = made.store.claims(uuid_of('one'))
    (chosen,) = second.result(0)
    assert claim.node_uuid == chosen[0].node_uuid


def test_a_paused_request_leaves_no_claim(tiny):
    made = world()
    several = made.send_place(asks('a'), asks('b', cells=1))
    made.send_place(asks('known'))
    made.loop.turn()
    assert not several.done()
    assert [one.consumer_uuid for one in made.store.claims()] == [uuid_of('known')]
    assert picture(made.cluster) == picture(fresh(made.store))
    turns_until(made, several)
    assert len(hosts_of(several)) == 2


def test_a_request_that_lost_often_is_not_paused(tiny):
    made = world()
    message = Message(PLACE, Order([asks('new', cells=1)]))
    message.attempts = MAX_LOSSES
    known = made.send_place(asks('known'))
    made.loop._queue.put(message)
    made.loop.turn()
    assert (message.future.done(), known.done()) == (True, False)


def test_a_paused_request_whose_caller_is_gone_is_dropped(tiny):
    made = world()
    gone = threading.Event()
    with handling(Received(is_over=gone.is_set)):
        new = made.send_place(asks('new', cells=1))
    made.send_place(asks('known'))
    made.loop.turn()
    gone.set()
    made.loop.turn()
    assert isinstance(new.exception(0), errors.Outdated)
