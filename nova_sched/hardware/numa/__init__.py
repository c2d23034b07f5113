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
"""NUMA: the cells of a host, the cells that a guest asks for, and how the guest fits into the
host.

``fit`` finds a placement, ``take`` allocates it, ``give_back`` frees it, and ``why_not`` reports
what is short. ``NumaSummary`` shows from a few figures that no placement exists.
"""

from nova_sched.hardware.numa.fit import MAX_STEPS, SHARED_STEPS, NumaMiss, fit, miss, why_not
from nova_sched.hardware.numa.topology import (
    Fitted,
    GuestCell,
    GuestTopology,
    HostCell,
    HostPages,
    HostTopology,
    NumaLimits,
    NumaSummary,
    PlacedCell,
    give_back,
    hold,
    take,
)

__all__ = [
    'MAX_STEPS',
    'SHARED_STEPS',
    'Fitted',
    'GuestCell',
    'GuestTopology',
    'HostCell',
    'HostPages',
    'HostTopology',
    'NumaLimits',
    'NumaMiss',
    'NumaSummary',
    'PlacedCell',
    'fit',
    'give_back',
    'hold',
    'miss',
    'take',
    'why_not',
]
