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
"""Steps after a look: one that fails neither stops the others nor is logged again and again."""

import pytest

from nova_sched import errors
from nova_sched.cloud.mirror import MirrorHooks


class Steps:
    """Two steps, the first of which raises ``problem`` if there is one."""

    def __init__(self):
        self.problem = None
        self.seen = []
        self.run = MirrorHooks({'Writing': self.write, 'Ending': self.end}).run

    def write(self, has_compared):
        if self.problem is not None:
            raise self.problem
        self.seen.append(('write', has_compared))

    def end(self, has_compared):
        self.seen.append(('end', has_compared))


@pytest.fixture
def steps(caplog):
    caplog.set_level('INFO')
    return Steps()


def test_each_step_is_run_in_order(steps, caplog):
    steps.run(True)
    steps.run(False)
    assert steps.seen == [('write', True), ('end', True), ('write', False), ('end', False)]
    assert caplog.messages == []


def test_a_step_that_fails_is_logged_once_and_the_next_is_run(steps, caplog):
    steps.problem = errors.StoreUnavailable('connection refused')
    steps.run(True)
    steps.run(False)
    assert steps.seen == [('end', True), ('end', False)]
    steps.problem = None
    steps.run(False)
    failed, succeeds = caplog.messages
    assert failed.startswith(
        'Writing has failed: The database does not answer: connection refused'
    )
    assert succeeds == 'Writing succeeds again'


def test_an_unexpected_error_does_not_stop_the_next_step(steps, caplog):
    steps.problem = ZeroDivisionError('by zero')
    steps.run(True)
    assert steps.seen == [('end', True)]
    (record,) = caplog.records
    assert record.exc_info[0] is ZeroDivisionError
    assert record.getMessage() == 'Writing has failed with an unexpected error; it is tried again'
