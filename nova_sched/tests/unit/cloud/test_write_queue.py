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
"""Work about one server, one after the other."""

import pytest

from nova_sched.cloud.uncertain_writes import WriteQueue
from nova_sched.tests.rows import each


class Steps:
    """``started`` has the names of what has started, in order."""

    def __init__(self):
        self.queue, self.started, self._taken = WriteQueue(), [], {}

    def enter(self, name, servers):
        def start(turn):
            self.started.append(name)
            self._taken[name] = turn

        self.queue.enter(servers, start)

    def leave(self, name):
        self.queue.leave(self._taken.pop(name))


@each(
    'entered, left, started',
    [
        pytest.param(['a', 'b'], '', '01', id='different servers'),
        pytest.param(['a', 'a', 'a'], '', '0', id='one server'),
        pytest.param(['a', 'a', 'a'], '0', '01', id='the second after the first'),
        pytest.param(['a', 'b', 'ab'], '0', '01', id='several wait for each'),
        pytest.param(['a', 'b', 'ab'], '01', '012', id='all have left'),
        pytest.param(['ab', 'b', 'a'], '0', '012', id='several go before each'),
        pytest.param(['a', 'ab', 'b'], '', '0', id='none overtakes'),
        pytest.param(['a', 'ab', 'b'], '01', '012', id='in the order of arrival'),
        pytest.param(['aa', 'a'], '', '0', id='named twice'),
    ],
)
def test_the_order(entered, left, started):
    steps = Steps()
    for name, servers in enumerate(entered):
        steps.enter(str(name), servers)
    for name in left:
        steps.leave(name)
    assert ''.join(steps.started) == started


def test_nothing_is_kept_of_work_that_has_left():
    steps = Steps()
    for name in range(10):
        steps.enter(name, 'ab')
    for name in range(10):
        steps.leave(name)
    assert (steps.started, steps.queue._last) == (list(range(10)), {})
