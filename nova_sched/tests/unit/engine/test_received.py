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
"""The store's clock, pauses of the process, and what both say of a message."""

import math

import pytest

from nova_sched import errors
from nova_sched.engine.clock import SETTLE_S, STILL_S, Pauses, StoreClock
from nova_sched.engine.received import NOW, REDELIVERY_S, Arrivals, Received, current, handling
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


class TestClock:
    @pytest.mark.parametrize('wrong_s', [0.0, HOUR_S, -HOUR_S])
    def test_it_is_the_stores_whatever_the_machine_says(self, wrong_s):
        machine = Machine(wrong_s)
        clock = machine.clock()
        clock.look()
        machine.passes(7.5)
        assert clock() == pytest.approx(machine.store_s)
        assert clock.offset_s == pytest.approx(wrong_s)

    def test_it_is_ahead_by_at_most_an_answer(self):
        machine = Machine(answer_s=0.2)
        clock = machine.clock()
        clock.look()
        assert machine.store_s <= clock() <= machine.store_s + 0.2

    def test_a_wrong_clock_is_told_once(self, caplog):
        machine = Machine(HOUR_S)
        clock = machine.clock()
        clock.look()
        clock.look()
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
            clock.look()


@pytest.fixture
def machine():
    return Machine(wrong_s=HOUR_S)


@pytest.fixture
def pauses(machine):
    made = Pauses(lambda: machine.moment)
    made.start(watch=False)
    return made


@pytest.fixture
def arrivals(machine, pauses):
    clock = machine.clock()
    clock.look()
    return Arrivals(clock, pauses)


class TestPauses:
    def test_a_process_that_runs(self, machine, pauses):
        for _ in range(10):
            machine.passes(STILL_S / 2)
            pauses.tick()
        assert pauses.count == 0
        assert pauses.sent_after() == machine.moment

    def test_a_process_that_stood_still(self, machine, pauses):
        begin = machine.moment
        machine.passes(30.0)
        assert pauses.sent_after() == begin
        assert (pauses.count, pauses.stood_still(begin)) == (1, 30.0)
        machine.passes(SETTLE_S - 3.0)
        assert pauses.sent_after() == begin
        machine.passes(3.0)
        assert pauses.sent_after() == machine.moment
        assert pauses.stood_still(machine.moment) == 0.0

    def test_two_pauses_with_a_moment_between_are_one(self, machine, pauses):
        begin = machine.moment
        machine.passes(30.0)
        pauses.tick()
        machine.passes(1.0)
        pauses.tick()
        machine.passes(20.0)
        assert pauses.sent_after() == begin
        assert (pauses.count, pauses.stood_still(begin)) == (2, 51.0)

    def test_a_pause_that_no_clock_here_has_seen(self, machine, pauses):
        pauses.found(60.0)
        assert pauses.count == 1
        assert pauses.sent_after() == machine.moment - 60.0

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


class TestArrivals:
    def test_a_message_that_has_just_come(self, machine, arrivals):
        assert arrivals.take().since_s == pytest.approx(machine.store_s)

    def test_one_that_may_have_come_during_a_pause(self, machine, arrivals):
        before_s = machine.store_s
        machine.passes(30.0)
        assert arrivals.take().since_s == pytest.approx(before_s)

    def test_one_that_was_delivered_again(self, machine, arrivals):
        assert arrivals.take(is_again=True).since_s == pytest.approx(
            machine.store_s - REDELIVERY_S
        )

    @pytest.mark.parametrize(
        'words, passes_s, is_over',
        [
            pytest.param({}, HOUR_S, False, id='a cast'),
            pytest.param({'patience_s': 60.0}, 2.9, False, id='soon'),
            pytest.param({'patience_s': 60.0}, 61.0, True, id='too late'),
            pytest.param(
                {'patience_s': HOUR_S, 'silence_s': 60.0}, 59.0, False, id='a short pause'
            ),
            pytest.param({'patience_s': HOUR_S, 'silence_s': 60.0}, 61.0, True, id='a long pause'),
            pytest.param(
                {'silence_s': 60.0},
                61.0,
                True,
                id='a long pause, for a caller that waits for ever',
            ),
        ],
    )
    def test_a_caller_that_waits_no_more(self, machine, arrivals, words, passes_s, is_over):
        received = arrivals.take(**words)
        machine.passes(passes_s)
        assert received.is_over() == is_over

    def test_a_caller_that_hears_signs_of_life_waits_on(self, machine, arrivals, pauses):
        """The database is away for minutes, and this process runs."""
        received = arrivals.take(HOUR_S, 60.0)
        for _ in range(200):
            machine.passes(1.0)
            pauses.tick()
        assert not received.is_over()

    def test_a_message_from_before_the_pause_that_is_read_after_it(self, machine, arrivals):
        machine.passes(61.0)
        assert arrivals.take(HOUR_S, 60.0).is_over()


class TestReceived:
    def test_the_message_of_a_thread(self):
        received = Received(1.0)
        with handling(received):
            assert current() is received
        assert current() is NOW
        assert NOW.since_s == math.inf

    def test_the_check(self):
        Received().check('The call')
        with pytest.raises(errors.Outdated, match='The call came too late'):
            Received(is_over=lambda: True).check('The call')


class TestSuspended:
    @pytest.fixture
    def world(self, machine):
        made = World(clock=machine.clock())
        made.scheduler._look_at_clock()
        return made

    def test_a_machine_that_was_suspended(self, world, machine):
        """Its own count of seconds stood still as well."""
        machine.store_s += 30.0
        world.scheduler._look_at_clock()
        assert world.scheduler.pauses.count == 1

    def test_a_store_that_was_away_is_no_pause(self, world, machine):
        """A caller that hears signs of life meanwhile still waits."""
        machine.passes(90.0)
        world.scheduler._look_at_clock()
        assert world.scheduler.pauses.count == 0
