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
"""The store's clock, pauses of the process, and whether the callers of messages still wait."""

import pytest

from nova_sched import errors
from nova_sched.engine.clock import (
    CURRENT,
    NO_CALL,
    STILL_S,
    Pauses,
    Received,
    StoreClock,
    handling,
)
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.world import World

HOUR_S = 3600.0


class Machine:
    """A machine whose own clock is wrong, and a store that answers after a while."""

    def __init__(self, wrong_s=0.0, answer_s=0.0):
        self.moment, self.store_s = 100.0, 5000.0
        self.wrong_s, self.answer_s, self.away = wrong_s, answer_s, False

    def passes(self, seconds):
        self.moment += seconds
        self.store_s += seconds

    def ask(self):
        if self.away:
            raise errors.StoreUnavailable('away')
        self.passes(self.answer_s / 2)
        now_s = self.store_s
        self.passes(self.answer_s / 2)
        return now_s

    def clock(self, **words):
        return StoreClock(
            self.ask, lambda: self.moment, lambda: self.store_s + self.wrong_s, **words
        )


@pytest.fixture
def machine():
    return Machine(wrong_s=HOUR_S)


@pytest.fixture
def pauses(machine):
    made = Pauses(lambda: machine.moment)
    made.start(watch=False)
    return made


class TestClock:
    @each('wrong_s', [0.0, HOUR_S, -HOUR_S])
    def test_it_is_the_stores_whatever_the_machine_says(self, wrong_s):
        machine = Machine(wrong_s)
        clock = machine.clock()
        clock.read_store()
        machine.passes(7.5)
        assert clock() == pytest.approx(machine.store_s)
        assert clock.offset_s == pytest.approx(wrong_s)

    def test_it_is_ahead_by_at_most_an_answer(self):
        machine = Machine(answer_s=0.2)
        clock = machine.clock()
        clock.read_store()
        assert machine.store_s <= clock() <= machine.store_s + 0.2

    def test_a_wrong_clock_is_told_once(self, caplog):
        machine = Machine(HOUR_S)
        clock = machine.clock()
        clock.read_store()
        clock.read_store()
        assert caplog.text.count('+3600.0 s off') == 1

    def test_by_itself(self):
        machine = Machine(HOUR_S)
        clock = machine.clock(every_s=10.0)
        assert clock() == pytest.approx(machine.store_s)
        machine.store_s += 5.0  # the store's clock was set
        assert clock() == pytest.approx(machine.store_s - 5.0)
        machine.passes(10.0)
        assert clock() == pytest.approx(machine.store_s)

    def test_a_store_that_is_away(self):
        machine = Machine()
        clock = machine.clock(every_s=10.0)
        clock()
        machine.away = True
        machine.passes(20.0)
        assert clock() == pytest.approx(machine.store_s)
        with pytest.raises(errors.StoreUnavailable):
            clock.read_store()


class TestPauses:
    def test_a_process_that_runs(self, machine, pauses):
        for _ in range(10):
            machine.passes(STILL_S / 2)
            assert pauses.tick() == machine.moment
        assert pauses.count == 0

    def test_a_process_that_stood_still(self, machine, pauses):
        for count in (1, 2):
            machine.passes(30.0)
            pauses.tick()
            assert pauses.count == count
            machine.passes(1.0)
            pauses.tick()

    def test_a_pause_that_no_clock_here_has_seen(self, machine, pauses):
        received = pauses.received(silence_s=59.0), pauses.received(silence_s=61.0)
        machine.passes(1.0)
        pauses.found(60.0)
        assert pauses.count == 1
        assert [one.is_over() for one in received] == [True, False]

    def test_before_the_start_there_are_none(self, machine):
        pauses = Pauses(lambda: machine.moment)
        machine.passes(60.0)
        pauses.tick()
        assert pauses.count == 0

    def test_a_thread_watches(self):
        pauses = Pauses()
        pauses.start()
        pauses.stop()
        assert pauses.count == 0


class TestCallers:
    @pytest.mark.parametrize(
        'words, passes_s, is_over',
        [
            pytest.param({}, HOUR_S, False, id='a cast'),
            pytest.param({'timeout_s': 60.0}, 2.9, False, id='soon'),
            pytest.param({'timeout_s': 60.0}, 61.0, True, id='too late'),
            pytest.param(
                {'timeout_s': HOUR_S, 'silence_s': 60.0}, 59.0, False, id='a short pause'
            ),
            pytest.param({'timeout_s': HOUR_S, 'silence_s': 60.0}, 61.0, True, id='a long pause'),
            pytest.param(
                {'silence_s': 60.0},
                61.0,
                True,
                id='a long pause, for a caller that waits for ever',
            ),
        ],
    )
    def test_a_caller_that_waits_no_more(self, machine, pauses, words, passes_s, is_over):
        received = pauses.received(**words)
        machine.passes(passes_s)
        assert received.is_over() == is_over

    def test_a_caller_that_hears_heartbeats_waits_on(self, machine, pauses):
        """The database is away for minutes, and this process runs."""
        received = pauses.received(HOUR_S, 60.0)
        for _ in range(200):
            machine.passes(1.0)
            pauses.tick()
        assert not received.is_over()

    def test_a_message_from_before_the_pause_that_is_read_after_it(self, machine, pauses):
        """Its caller may have sent it at the end of the pause."""
        machine.passes(61.0)
        assert not pauses.received(HOUR_S, 60.0).is_over()
        assert not pauses.received(60.0).is_over()


class TestReceived:
    def test_the_message_of_a_thread(self):
        received = Received()
        with handling(received):
            assert CURRENT.get() is received
        assert CURRENT.get() is NO_CALL
        assert not NO_CALL.is_over()


class TestSuspended:
    @pytest.fixture
    def world(self, machine):
        made = World(clock=machine.clock())
        made.scheduler._read_clock()
        return made

    def test_a_machine_that_was_suspended(self, world, machine):
        """Its own count of seconds stood still as well."""
        machine.store_s += 30.0
        world.scheduler._read_clock()
        assert world.scheduler.pauses.count == 1

    def test_a_store_that_was_away_is_no_pause(self, world, machine):
        """A caller that hears heartbeats meanwhile still waits."""
        machine.passes(90.0)
        world.scheduler._read_clock()
        assert world.scheduler.pauses.count == 0
