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
"""Works that run at the same time."""

import threading

import pytest

from nova_sched.cmd.manage import at_once

PATIENCE_S = 20.0


def test_works_run_at_the_same_time_and_keep_their_order():
    meeting = threading.Barrier(3)

    def work(number):
        meeting.wait(PATIENCE_S)  # raises if the works ran one after the other
        return number

    assert at_once.results([lambda n=n: work(n) for n in range(3)]) == [0, 1, 2]


def test_without_works_there_are_no_results():
    assert at_once.results([]) == []


def test_an_error_is_raised():
    with pytest.raises(ZeroDivisionError):
        at_once.results([lambda: 1, lambda: 1 / 0])
