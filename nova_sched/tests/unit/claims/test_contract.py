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
"""The contract of a claim store, on the database that needs no server."""

import pytest

from nova_sched.claims import ClaimStore
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.tests.builders import still
from nova_sched.tests.unit.claims import contracts
from nova_sched.tests.unit.claims.databases import cleared


@pytest.fixture
def another(sqlite):
    database = cleared(sqlite)
    return lambda: SqlClaimStore(database, still)


globals().update(contracts.tests(__name__))


def test_each_contract_has_its_batteries():
    assert set(contracts.CONTRACTS) == set(ClaimStore.__bases__)
    assert all(contracts.CONTRACTS.values())
