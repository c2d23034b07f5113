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
"""Steps of jobs, walked through by threads and in simulated time."""

import threading
import time

import pytest

from nova_sched.queues.node.steps import CLAIMS, DRIVER, ComponentCall, Pause, Simulated, Threads
from nova_sched.sim.replay import Clock
from nova_sched.tests.functional.harness import PATIENCE_S, eventually

TAKES = {DRIVER: 10.0, CLAIMS: 0.0}


class InThreads:
    """Steps on threads, in real time."""

    def __init__(self):
        self.runner = Threads()

    def walk(self, steps):
        ended = threading.Event()

        def watched():
            try:
                yield from steps
            finally:
                ended.set()

        self.runner.start(watched())
        assert ended.wait(PATIENCE_S)


class InTime:
    """Steps in simulated time."""

    def __init__(self):
        self.clock = Clock()
        self.runner = Simulated(self.after, lambda call: TAKES[call.what])

    def after(self, seconds, call):
        self.clock.at(self.clock() + seconds, call)

    def walk(self, steps):
        self.runner.start(steps)
        self.run()

    def run(self, seconds=1000.0):
        for call in self.clock.move(self.clock() + seconds):
            call()


@pytest.fixture(params=[InThreads, InTime], ids=['threads', 'simulated'])
def runner(request):
    made = request.param()
    yield made
    made.runner.stop()


def test_a_call_gives_what_it_returns(runner):
    found = []

    def steps():
        found.append((yield ComponentCall(CLAIMS, lambda: 'claim')))
        found.append((yield Pause(0.01)))
        found.append((yield ComponentCall(DRIVER, lambda: 'built')))

    runner.walk(steps())
    assert found == ['claim', None, 'built']


@pytest.mark.parametrize('what', [CLAIMS, DRIVER])
def test_a_call_raises_what_is_raised_in_it(runner, what):
    found = []

    def steps():
        try:
            yield ComponentCall(what, lambda: [][0])
        except IndexError:
            found.append('caught')
        found.append((yield ComponentCall(what, lambda: 'on')))

    runner.walk(steps())
    assert found == ['caught', 'on']


def test_nothing_is_done_before_start_returns():
    clock, found = InTime(), []

    def steps():
        found.append('begun')
        yield Pause(1.0)

    clock.runner.start(steps())
    assert found == []
    clock.run(0.0)
    assert found == ['begun']


def test_a_simulated_call_is_done_at_the_end_of_its_time():
    clock, found = InTime(), []

    def steps():
        yield ComponentCall(DRIVER, lambda: found.append(clock.clock()))
        yield Pause(5.0)
        yield ComponentCall(CLAIMS, lambda: found.append(clock.clock()))

    clock.runner.start(steps())
    clock.run(9.0)
    assert found == []
    clock.run()
    assert found == [10.0, 15.0]


def test_many_simulated_jobs_go_on_at_the_same_time():
    clock, ends = InTime(), []

    def steps(number):
        yield ComponentCall(DRIVER, lambda: None)
        ends.append((number, clock.clock()))

    for number in range(1000):
        clock.runner.start(steps(number))
    clock.run()
    assert ends == [(number, 10.0) for number in range(1000)]


def test_threads_wait_for_each_other_and_not_for_the_caller():
    runner, meet, found = Threads(), threading.Barrier(3), []

    def steps(number):
        yield ComponentCall(DRIVER, lambda: meet.wait(PATIENCE_S))
        found.append(number)

    for number in range(2):
        runner.start(steps(number))
    meet.wait(PATIENCE_S)
    eventually(lambda: len(found) == 2)


def test_what_falls_due_later_is_called():
    called = threading.Event()
    Threads().later(0.01, called.set)
    assert called.wait(PATIENCE_S)


def test_after_the_end_no_step_is_taken_and_no_call_made(runner):
    called = []

    def end():
        runner.runner.later(0.2, lambda: called.append('later'))
        runner.runner.stop()

    def steps():
        yield ComponentCall(CLAIMS, end)
        called.append('a step')
        yield ComponentCall(CLAIMS, lambda: called.append('a call'))

    runner.runner.start(steps())
    if isinstance(runner, InTime):
        runner.run()
    else:
        time.sleep(0.4)
    assert called == []


def test_a_pause_on_threads_ends_with_the_runner():
    runner, ended = Threads(), threading.Event()

    def steps():
        try:
            yield Pause(600.0)
        finally:
            ended.set()

    runner.start(steps())
    runner.stop()
    assert ended.wait(PATIENCE_S)


def test_a_job_that_breaks_on_a_thread_is_told(caplog):
    runner = Threads()

    def steps():
        yield ComponentCall(CLAIMS, lambda: None)
        raise RuntimeError('boom')

    runner.start(steps())
    eventually(lambda: 'boom' in caplog.text)
