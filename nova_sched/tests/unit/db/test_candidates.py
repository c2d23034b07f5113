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
"""Tests of the store of candidates, on SQLite."""

import pytest

from nova_sched import errors
from nova_sched.db.candidates import SqlCandidates
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.unit.db import candidates


class TestCandidates(candidates.InDatabase):
    pass


def test_all_of_a_request_is_kept_or_nothing(database):
    store = SqlCandidates(database)
    store.write('1', NOW, [candidates.one()])
    with pytest.raises(Exception, match='candidates'):
        store.write('2', NOW, [candidates.one('two'), candidates.one()])
    assert candidates.rows(database) == (1, 1)


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda store: store.write('', NOW, [candidates.one()]), id='write'),
        pytest.param(lambda store: store.read(uuid_of('one')), id='read'),
        pytest.param(lambda store: store.forget(NOW), id='forget'),
    ],
)
def test_a_database_that_is_away(gone, work):
    with pytest.raises(errors.StoreUnavailable):
        work(SqlCandidates(gone))
