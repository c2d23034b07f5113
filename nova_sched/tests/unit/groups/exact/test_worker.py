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
"""The solver's process: it answers, and whatever befalls it, the asker gets None and the next an
answer."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from nova_sched.groups.exact import worker

TASKS = 'nova_sched.tests.unit.groups.tasks:'
LONG_S = 30.0  # no test waits for it


@pytest.fixture(scope='module')
def solver():
    with worker.Solver() as solver:
        yield solver


def ask(solver, name, *arguments, seconds=LONG_S, wait_s=LONG_S):
    return solver.ask(TASKS + name, *arguments, seconds=seconds, wait_s=wait_s)


def test_a_task_is_answered(solver):
    echoed, seconds = ask(solver, 'echo', {'of': np.arange(100_000)}, seconds=2.5)
    assert (echoed['of'] == np.arange(100_000)).all()
    assert seconds == 2.5


@pytest.mark.parametrize(
    'name, arguments, seconds',
    [
        pytest.param('sleep', [LONG_S], 0.01, id='late'),
        pytest.param('die', [], LONG_S, id='dead'),
        pytest.param('fail', [], LONG_S, id='raised'),
        pytest.param('nowhere', [], LONG_S, id='unknown'),
    ],
)
def test_no_answer_is_none_and_the_next_task_is_answered(solver, name, arguments, seconds):
    began = time.monotonic()
    assert ask(solver, name, *arguments, seconds=seconds) is None
    assert time.monotonic() - began < LONG_S
    assert ask(solver, 'echo', 1) == (1, LONG_S)


def test_a_task_that_raises_leaves_the_process_alive(solver):
    before = ask(solver, 'pid')
    ask(solver, 'fail')
    assert ask(solver, 'pid') == before


def test_a_task_that_prints_does_not_disturb_the_answers(solver):
    assert ask(solver, 'chatter') == 'said'
    assert ask(solver, 'echo', 2) == (2, LONG_S)


def in_the_middle(solver, folder):
    """A thread in the middle of a long task, the list that gets its answer, and the process's
    id."""
    pid, answers, begun = ask(solver, 'pid'), [], folder / 'begun'
    task = 'begin', str(begun), LONG_S
    thread = threading.Thread(target=lambda: answers.append(ask(solver, *task)))
    thread.start()
    while not begun.exists():
        time.sleep(0.01)
    return thread, answers, pid


def test_killed_in_the_middle(solver, tmp_path):
    thread, answers, pid = in_the_middle(solver, tmp_path)
    os.kill(pid, signal.SIGKILL)
    thread.join(LONG_S)
    assert answers == [None]
    assert ask(solver, 'pid') not in (None, pid)
    assert not psutil.pid_exists(pid)  # no zombie either


def test_killed_while_idle(solver):
    pid = ask(solver, 'pid')
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)], timeout=0.1)
    assert [ask(solver, 'echo', turn) for turn in (1, 2)][1] == (2, LONG_S)
    assert not psutil.pid_exists(pid)


def test_one_task_at_a_time_and_others_wait_as_long_as_they_say(solver, tmp_path):
    ask(solver, 'pid')
    answers, end = {}, tmp_path / 'end'

    def work(name, wait_s):
        answers[name] = ask(solver, 'wait_for_file', str(end), wait_s=wait_s)

    first = threading.Thread(target=work, args=('first', LONG_S))
    first.start()
    while not answers and solver.ask(TASKS + 'pid', seconds=LONG_S) is not None:
        time.sleep(0.01)
    patient = threading.Thread(target=work, args=('patient', LONG_S))
    patient.start()
    work('hasty', 0.0)
    end.touch()
    for thread in (first, patient):
        thread.join(LONG_S)
    assert answers == {'first': 'found', 'patient': 'found', 'hasty': None}


def test_closed_in_the_middle(tmp_path):
    with worker.Solver() as solver:
        thread, answers, pid = in_the_middle(solver, tmp_path)
    thread.join(LONG_S)
    assert answers == [None]
    assert not psutil.pid_exists(pid)
    assert ask(solver, 'echo', 1) is None


def test_started_beforehand():
    before = {child.pid for child in psutil.Process().children()}
    with worker.Solver() as solver:
        solver.start()
        [child] = {child.pid for child in psutil.Process().children()} - before
        assert ask(solver, 'pid') == child


def test_it_yields_to_others():
    with worker.Solver(nice=3) as solver:
        nice = psutil.Process(ask(solver, 'pid')).nice()
    assert nice == psutil.Process().nice() + 3


SCRIPT = """
import sys
if sys.argv[1] == 'eventlet':
    import eventlet
    eventlet.monkey_patch()
import os, threading, time
from nova_sched.groups.exact import worker

TASKS = 'nova_sched.tests.unit.groups.tasks:'
beats = []

def beat():
    while True:
        beats.append(time.monotonic())
        time.sleep(0.01)

threading.Thread(target=beat, daemon=True).start()
with worker.Solver() as solver:
    pid = solver.ask(TASKS + 'pid', seconds=120)
    before = len(beats)
    assert solver.ask(TASKS + 'sleep', 2.0, seconds=120) == 'slept'
    assert len(beats) - before > 5, 'nothing else ran meanwhile'
    assert solver.ask(TASKS + 'sleep', 30, seconds=0.01) is None
    assert solver.ask(TASKS + 'die', seconds=120) is None
    assert solver.ask(TASKS + 'echo', 'alive', seconds=120) == ('alive', 120)
    assert solver.ask(TASKS + 'loaded', seconds=120) == ['ortools']
    assert 'ortools' not in sys.modules
try:
    os.kill(pid, 0)
except ProcessLookupError:
    print('good')
"""


@pytest.mark.parametrize('backend', ['threading', 'eventlet'])
def test_it_works_under_both_kinds_of_threads(backend):
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', SCRIPT, backend],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ('good\n', 0), done.stderr


def runs(pid):
    """Not gone, and no zombie, which an orphan may be for long."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_it_ends_with_its_parent():
    script = (
        'import os; from nova_sched.groups.exact import worker; solver = worker.Solver();'
        f'print(solver.ask({TASKS + "pid"!r}, seconds=120), flush=True); os.kill(os.getpid(), 9)'
    )
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', script], capture_output=True, text=True
    )
    deadline = time.monotonic() + LONG_S
    while runs(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs(int(done.stdout))
