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
"""Who uses the processor."""

from nova_sched.sim.clock import Clock
from nova_sched.sim.models.meter import CLAIMS, MANAGER, WORKERS, Meter


def work(clock, seconds):
    assert list(clock.move(clock() + seconds)) == []


def test_what_is_done_within_something_counts_for_itself_alone():
    clock = Clock()
    meter = Meter(clock)
    work(clock, 1.0)
    with meter.of(MANAGER):
        work(clock, 2.0)
        with meter.of(CLAIMS):
            work(clock, 4.0)
        work(clock, 8.0)
    work(clock, 16.0)
    assert meter.total() == 31.0
    assert meter.seconds == {WORKERS: 17.0, MANAGER: 10.0, CLAIMS: 4.0}


def test_an_error_ends_a_turn_too():
    clock = Clock()
    meter = Meter(clock)
    try:
        with meter.of(MANAGER):
            raise KeyError
    except KeyError:
        work(clock, 1.0)
    assert meter.total() == meter.seconds[WORKERS] == 1.0


def test_a_new_start_forgets_earlier_values():
    clock = Clock()
    meter = Meter(clock)
    work(clock, 1.0)
    meter.clear()
    work(clock, 2.0)
    assert meter.total() == 2.0
