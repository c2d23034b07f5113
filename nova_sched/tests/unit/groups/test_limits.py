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
"""Limits of processor time, and what ends them in any case."""

import threading
import time
import types

import pytest

from nova_sched.groups import limits
from nova_sched.groups.limits import TimeLimit


class _Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.mark.parametrize(
    'passed_s, share, left',
    [
        pytest.param(0.0, 1.0, 2.0, id='all of it'),
        pytest.param(0.5, 1.0, 1.5, id='the rest'),
        pytest.param(0.5, 0.5, 0.5, id='the rest of a share'),
        pytest.param(1.5, 0.5, 0.0, id='the share is over'),
        pytest.param(3.0, 1.0, 0.0, id='over'),
    ],
)
def test_left(passed_s, share, left):
    clock = _Clock()
    limit = TimeLimit(2.0, clock)
    clock.now_s += passed_s
    assert limit.left(share) == pytest.approx(left)
    assert limit.is_over == (passed_s >= 2.0)


def test_without_seconds_it_never_ends():
    assert TimeLimit(None).left() == float('inf')
    assert not TimeLimit(None).is_over


def test_it_counts_the_processor_time_of_its_own_thread():
    limit, end_s = TimeLimit(5.0), time.process_time() + 0.05

    def work():
        while time.process_time() < end_s:
            pass

    other = threading.Thread(target=work)
    other.start()
    other.join()
    assert limit.left() > 4.95


def test_work_that_gets_no_processor_ends_by_the_wall_clock(monkeypatch):
    wall = _Clock()
    monkeypatch.setattr(limits, 'time', types.SimpleNamespace(monotonic=wall))
    limit = TimeLimit(2.0, _Clock())
    wall.now_s += 2.0 * limits.WALL_FACTOR - 0.1
    assert not limit.is_over
    wall.now_s += 0.1
    assert limit.is_over
