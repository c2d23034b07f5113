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
"""Tests of the list of ended sessions, on SQLite."""

import pytest

from nova_sched import errors
from nova_sched.db.ended_sessions import SqlEndedSessions
from nova_sched.tests.unit.db import ended_sessions


class TestEndedSessions(ended_sessions.EndedSessions):
    pass


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda ended: ended.add(ended_sessions.ONE, 1.0), id='add'),
        pytest.param(lambda ended: ended.has(ended_sessions.ONE), id='has'),
    ],
)
def test_a_database_that_is_away(gone, work):
    with pytest.raises(errors.StoreUnavailable):
        work(SqlEndedSessions(gone))
