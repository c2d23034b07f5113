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
"""Tests of the store of decision_log, on SQLite."""

import pytest

from nova_sched import errors
from nova_sched.db.decision_log import SqlDecisionLog
from nova_sched.tests.unit.db import decision_log


class TestDecisionLog(decision_log.DecisionLog):
    pass


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda store: store.write([decision_log.one()]), id='write'),
        pytest.param(lambda store: store.read('req-1'), id='read'),
        pytest.param(lambda store: store.forget(0.0), id='forget'),
    ],
)
def test_a_database_that_is_away(gone, work):
    with pytest.raises(errors.StoreUnavailable):
        work(SqlDecisionLog(gone))
