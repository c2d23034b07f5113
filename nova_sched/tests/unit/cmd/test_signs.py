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
"""Signs of life over real processes."""

import multiprocessing
import signal

import pytest

from nova_sched.cmd.signs import Signs

pytestmark = pytest.mark.filterwarnings('ignore:Using fork')  # eventlet is only imported


class Clock:
    def __init__(self, now_s=100.0):
        self.now_s = now_s

    def __call__(self):
        return self.now_s


@pytest.fixture
def workers():
    """``workers(signs, alive_s, …)``: a process for each time, that gives that sign and goes
    on."""
    made, fork = [], multiprocessing.get_context('fork')

    def work(signs, alive_s, reloads, given):
        signs.begin()
        signs.give(alive_s)
        if reloads is not None:
            signs.reloaded(reloads)
        given.set()
        signal.pause()

    def start(signs, *times, reloads=None):
        for alive_s in times:
            given = fork.Event()
            process = fork.Process(target=work, args=(signs, alive_s, reloads, given))
            process.start()
            assert given.wait(60)
            made.append(process)
        return made

    yield start
    for process in made:
        process.kill()
        process.join()


@pytest.mark.parametrize(
    'times, ready, silence_s',
    [
        pytest.param((), 0, 0.0, id='none yet'),
        pytest.param((0.0,), 0, 0.0, id='one that starts'),
        pytest.param((99.0,), 1, 1.0, id='one that works'),
        pytest.param((99.0, 60.0, 0.0), 2, 40.0, id='the most silent one counts'),
        pytest.param((101.0,), 1, 0.0, id='a sign since the clock was read'),
    ],
)
def test_what_the_first_process_reads(workers, times, ready, silence_s):
    signs = Signs(3, Clock())
    workers(signs, *times)
    assert (signs.ready, signs.silence_s) == (ready, silence_s)


def test_a_killed_worker_is_forgotten_and_its_slot_taken(workers):
    signs = Signs(1, Clock())
    (killed,) = workers(signs, 10.0)
    killed.kill()
    killed.join()
    assert (signs.ready, signs.silence_s) == (0, 0.0)
    workers(signs, 99.0)
    assert (signs.ready, signs.silence_s) == (1, 1.0)


def test_a_reload_is_over_when_every_worker_has_made_it(workers):
    signs = Signs(2, Clock())
    signs.want_reload()
    signs.apply(is_valid=True)
    workers(signs, 99.0, reloads=1)
    workers(signs, 99.0, reloads=0)
    assert (signs.reloads, signs.accepted, signs.is_reloaded) == (1, 1, False)


def test_a_worker_that_starts_after_a_reload_has_made_it(workers):
    signs = Signs(1, Clock())
    signs.want_reload()
    signs.apply(is_valid=True)
    workers(signs, 99.0)
    assert signs.is_reloaded


def test_a_configuration_that_is_not_valid_is_not_accepted():
    signs = Signs(1, Clock())
    for is_valid in (True, False):
        signs.want_reload()
        signs.apply(is_valid)
    assert (signs.reloads, signs.accepted) == (2, 1)
