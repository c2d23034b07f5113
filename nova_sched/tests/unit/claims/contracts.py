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
"""The battery of each contract of a claim store: every database runs all of them."""

import pytest

from nova_sched import claims
from nova_sched.tests.unit.claims.batteries import (
    change_feed,
    group_records,
    node_reports,
    plan_quotas,
    small_tables,
    steps,
    transactions,
)

CONTRACTS = {
    claims.ClaimTransactions: transactions.BATTERY,
    claims.NodeReports: node_reports.BATTERY,
    claims.SmallTables: small_tables.BATTERY,
    claims.GroupRecords: group_records.BATTERY,
    claims.PlanQuotas: plan_quotas.BATTERY,
    claims.ChangeFeed: change_feed.BATTERY,
}


@pytest.fixture
def store(another):
    """An empty store, whose books are right after the test."""
    made = another()
    yield made
    steps.check_books(made)


def tests(module):
    """What a module that has the fixture ``another`` runs: the fixture ``store``, and one test
    class for each class of the batteries."""
    classes = {
        f'Test{one.__name__}': type(f'Test{one.__name__}', (one,), {'__module__': module})
        for battery in CONTRACTS.values()
        for one in battery
    }
    return {'store': store, **classes}
