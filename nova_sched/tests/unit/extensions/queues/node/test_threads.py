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
"""The threads of jobs: what they call, how they pause, and their end."""

import threading
import time

import pytest

from nova_sched.extensions.queues.node.inflight import JobThreads
from nova_sched.tests.functional.harness import PATIENCE_S, eventually
from nova_sched.tests.rows import each_afresh


@pytest.fixture
def threads():
    made = JobThreads()
    yield made
    made.stop()


def walk(threads, job):
    """Run a job to its end."""
    ended = threading.Event()

    def watched():
        try:
            job()
        finally:
            ended.set()

    threads.start(watched)
    assert ended.wait(PATIENCE_S)


def test_a_call_gives_what_it_returns(threads):
    found = []

    def job():
        found.append(threads.call(lambda: 'claim'))
        found.append(threads.pause(0.01))
        found.append(threads.call('{}{}'.format, 'bui', 'lt'))

    walk(threads, job)
    assert found == ['claim', None, 'built']


def test_a_call_raises_what_is_raised_in_it(threads):
    found = []

    def job():
        try:
            threads.call(lambda: [][0])
        except IndexError:
            found.append('caught')
        found.append(threads.call(lambda: 'on'))

    walk(threads, job)
    assert found == ['caught', 'on']


def test_a_job_may_be_started_by_who_holds_what_it_needs(threads):
    lock, found = threading.Lock(), []

    def job():
        with lock:
            found.append('begun')

    with lock:
        threads.start(job)
        assert found == []
    eventually(lambda: found == ['begun'])


def test_threads_wait_for_each_other_and_not_for_the_caller(threads):
    meet, found = threading.Barrier(3), []

    def job(number):
        threads.call(meet.wait, PATIENCE_S)
        found.append(number)

    for number in range(2):
        threads.start(job, number)
    meet.wait(PATIENCE_S)
    eventually(lambda: len(found) == 2)


def test_what_falls_due_later_is_called(threads):
    called = threading.Event()
    threads.later(0.01, called.set)
    assert called.wait(PATIENCE_S)


def boom():
    raise RuntimeError('boom')


@each_afresh('last', {'returns': lambda: 'a result', 'raises': boom})
def test_after_the_end_a_job_does_nothing_more_and_no_call_is_made(threads, caplog, last):
    called, ended = [], threading.Event()

    def end():
        threads.later(0.2, lambda: called.append('later'))
        threads.stop()
        return last()

    def job():
        try:
            threads.call(end)
            called.append('a step')
        except Exception:  # noqa: BLE001, as jobs handle errors
            called.append('a handler')
        finally:
            ended.set()
        called.append('the rest')

    threads.start(job)
    assert ended.wait(PATIENCE_S)
    threads.start(called.append, 'a job')
    threads.later(0.0, lambda: called.append('a call'))
    time.sleep(0.4)
    assert (called, caplog.text) == ([], '')


def test_a_pause_ends_with_the_worker(threads):
    called, began, ended = [], threading.Event(), threading.Event()

    def job():
        began.set()
        try:
            threads.pause(600.0)
            called.append('a step')
        finally:
            ended.set()

    threads.start(job)
    assert began.wait(PATIENCE_S)
    threads.stop()
    assert ended.wait(PATIENCE_S)
    assert called == []


def test_what_falls_due_later_ends_with_the_worker_too(threads, capfd):
    began, go, ended = threading.Event(), threading.Event(), threading.Event()

    def due():
        began.set()
        try:
            threads.call(go.wait, PATIENCE_S)
        finally:
            ended.set()

    threads.later(0.0, due)
    assert began.wait(PATIENCE_S)
    threads.stop()
    go.set()
    assert ended.wait(PATIENCE_S)
    time.sleep(0.05)
    assert capfd.readouterr().err == ''


def test_a_job_that_breaks_is_told(threads, caplog):
    def job():
        threads.call(lambda: None)
        raise RuntimeError('boom')

    threads.start(job)
    eventually(lambda: 'boom' in caplog.text)
