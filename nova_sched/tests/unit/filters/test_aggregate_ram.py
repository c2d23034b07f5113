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
"""AggregateRamFilter."""

from typing import ClassVar

from nova_sched.filters.aggregate_ram import AggregateRamFilter
from nova_sched.tests.unit.filters.ratio_battery import RatioBattery


class TestAggregateRamFilter(RatioBattery):
    rule, key = AggregateRamFilter, 'ram_allocation_ratio'
    full: ClassVar = {'memory_mb': 1000, 'memory_mb_used': 1000}
    asked: ClassVar = {'memory_mb': 500}
    unit, quarter = '500 MiB of memory', 250
