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
"""The batteries of each contract of a claim store: every store runs all of them."""

from nova_sched import claims
from nova_sched.tests.unit.claims import (
    battery,
    battery_exclusive_domains,
    battery_groups,
    battery_hardware,
    battery_lifecycle,
    battery_new,
    battery_order,
    battery_top_groups,
)

CONTRACTS = {
    claims.ClaimTransactions: (
        battery.Commit,
        battery_new.New,
        battery_order.Unplaced,
        battery_hardware.HardwareAllocation,
        battery_lifecycle.Lifecycle,
        battery_order.Times,
        battery_order.Words,
        battery.Ends,
    ),
    claims.NodeReports: (battery.Reports, battery_order.ReportOrders),
    claims.SmallTables: (battery.SmallTables,),
    claims.GroupRecords: (
        battery_groups.Groups,
        battery_top_groups.TopGroups,
        battery_exclusive_domains.ExclusiveDomains,
        battery_exclusive_domains.Domains,
    ),
    claims.ChangeFeed: (battery.News,),
}


def tests(module):
    """Test classes by name, one for each battery, for a module that has the fixtures ``store`` and
    ``another``."""
    return {
        f'Test{one.__name__}': type(f'Test{one.__name__}', (one,), {'__module__': module})
        for batteries in CONTRACTS.values()
        for one in batteries
    }
