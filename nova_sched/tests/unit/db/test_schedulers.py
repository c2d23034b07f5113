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
"""Tests of the list of schedulers, on SQLite."""

import pytest

from nova_sched import errors
from nova_sched.db.schedulers import SqlSchedulers
from nova_sched.tests.unit.db import schedulers


class TestSchedulers(schedulers.Schedulers):
    pass


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda store: store.write(schedulers.one()), id='write'),
        pytest.param(lambda store: store.alive(0.0), id='alive'),
        pytest.param(lambda store: store.forget(0.0), id='forget'),
        pytest.param(lambda store: store.remove('uuid'), id='remove'),
    ],
)
def test_a_database_that_is_away(gone, work):
    with pytest.raises(errors.StoreUnavailable):
        work(SqlSchedulers(gone))
