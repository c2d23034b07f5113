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
"""Whether the callers of messages still wait."""

import pytest

from nova_sched.engine.clock import CURRENT, NO_CALL, STILL_S, Received, handling
from nova_sched.tests.unit.engine.machine import HOUR_S
from nova_sched.tests.unit.engine.world import World


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
        machine.passes(61.0)
        assert pauses.received(HOUR_S, 60.0).is_over()
        assert pauses.received(60.0).is_over()
        machine.passes(STILL_S)
        pauses.tick()
        machine.passes(0.1)
        assert not pauses.received(HOUR_S, 60.0).is_over()


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
