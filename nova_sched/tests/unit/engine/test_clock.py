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
"""The store's clock, and pauses of the process."""

import pytest

from nova_sched import errors
from nova_sched.engine.clock import STILL_S, Pauses
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.machine import HOUR_S, Machine


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

    def test_a_pause_that_no_clock_here_has_seen(self, pauses):
        pauses.found(60.0)
        assert pauses.count == 1
        assert pauses.received(timeout_s=59.0).is_over()
        assert not pauses.received(timeout_s=61.0).is_over()

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
