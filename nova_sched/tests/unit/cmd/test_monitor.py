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
"""When systemd is told what, step by step."""

import pytest

from nova_sched.cmd.monitor import Monitor


class FakeSystemd:
    """Keeps what it is told."""

    is_there, watchdog_s = True, 8.0

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda *text: self.told.append((name, *text))

    def take(self):
        taken, self.told = self.told, []
        return taken


class FakeSigns:
    def __init__(self):
        self.ready, self.silence_s, self.is_reloaded = 0, 0.0, True
        self.reloads = 0

    def want_reload(self):
        self.reloads, self.is_reloaded = self.reloads + 1, False

    def apply(self, is_valid):
        self.is_valid = is_valid


class Watched:
    """A monitor of two workers, whose clock stands until ``step``."""

    def __init__(self):
        self.systemd, self.signs, self.problem, self.now_s = FakeSystemd(), FakeSigns(), '', 0.0
        self.monitor = Monitor(
            self.systemd, self.signs, 2, lambda: self.problem, lambda: self.now_s
        )

    def step(self, seconds=0.0, **signs):
        """What systemd is told, without signs of life."""
        self.now_s += seconds
        vars(self.signs).update(signs)
        self.monitor.step()
        return [one for one in self.systemd.take() if one != ('alive',)]

    def pings(self, seconds, **signs):
        """How many signs of life systemd gets meanwhile; a step each second."""
        vars(self.signs).update(signs)
        for _ in range(seconds):
            self.now_s += 1
            self.monitor.step()
        return self.systemd.take().count(('alive',))


READY = ('ready', '2 of 2 workers ready')


@pytest.fixture
def watched():
    return Watched()


@pytest.fixture
def working(watched):
    watched.step(ready=2)
    watched.systemd.take()
    return watched


def test_it_is_ready_when_all_workers_are(watched):
    assert watched.step() == [('status', '0 of 2 workers ready')]
    assert watched.step(ready=1) == [('status', '1 of 2 workers ready')]
    assert watched.step(ready=2) == [READY]
    assert watched.step() == []


def test_a_worker_that_is_replaced_changes_the_status_only(working):
    assert working.step(ready=1) == [('status', '1 of 2 workers ready')]
    assert working.step(ready=2) == [('status', '2 of 2 workers ready')]


def test_a_reload_ends_with_ready(working):
    working.monitor.reloading()
    working.monitor.applied(is_valid=True)
    assert working.step() == [('reloading',)]
    assert working.step(is_reloaded=True) == [READY]
    assert working.signs.is_valid


def test_a_reload_before_it_is_ready(watched):
    watched.monitor.reloading()
    assert watched.step(is_reloaded=True)[-1] == ('status', '0 of 2 workers ready')
    assert watched.step(ready=2) == [READY]


def test_a_configuration_with_an_error_is_in_the_status(working):
    working.monitor.reloading()
    working.problem = 'no filter is named X'
    words = '2 of 2 workers ready; The configuration is not reloaded: no filter is named X'
    assert working.step(is_reloaded=True) == [('reloading',), ('ready', words)]


def test_after_its_end_begins_it_says_no_more(working):
    working.monitor.stopping()
    assert working.step(ready=0) == [('stopping',)]


@pytest.mark.parametrize(
    'signs, least, most',
    [
        pytest.param({'silence_s': 0.5}, 4, 5, id='four times within the time'),
        pytest.param({'silence_s': 4.0}, 4, 5, id='half of the time without a move'),
        pytest.param({'silence_s': 4.1}, 0, 0, id='a loop that hangs'),
        pytest.param({'ready': 1, 'silence_s': 0.0}, 4, 5, id='a worker that starts'),
    ],
)
def test_signs_of_life(working, signs, least, most):
    assert least <= working.pings(8, **signs) <= most


def test_a_loop_that_hangs_is_logged_once_each_time(working, caplog):
    working.pings(8, silence_s=5.0)
    working.pings(8, silence_s=0.0)
    assert working.pings(8, silence_s=6.0) == 0
    assert [record.getMessage().split(';')[0] for record in caplog.records] == [
        'The loop of a worker has not moved for 5 s',
        'The loop of a worker has not moved for 6 s',
    ]


def test_without_a_watchdog_there_are_no_signs(working):
    working.systemd.watchdog_s = None
    assert working.pings(8, silence_s=0.0) == 0
