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
"""Tests of the mix of requests, on SQLite."""

import pytest

from nova_sched import errors
from nova_sched.extensions.optimize.mixes import SqlMixes
from nova_sched.tests.unit.db import mixes


class TestMixes(mixes.Mixes):
    pass


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda store: store.add(mixes.ONE, 1, None), id='add'),
        pytest.param(lambda store: store.total(), id='total'),
    ],
)
def test_a_database_that_is_away(gone, work):
    with pytest.raises(errors.StoreUnavailable):
        work(SqlMixes(gone))
