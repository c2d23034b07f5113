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
"""PCI: the pools of free devices of a node, and the devices that a request gets.

``supports`` returns whether there are enough devices, ``take`` allocates them, ``give_back`` frees
them, and ``why_not`` reports what is short. ``WantedDevices`` passes all of this to a NUMA fit.
"""

from nova_sched.hardware.pci.devices import PciPool, pools_from_json, pools_of, pools_to_json
from nova_sched.hardware.pci.match import (
    TakenDevice,
    WantedDevices,
    count_matching,
    give_back,
    hold,
    supports,
    take,
    why_not,
)
from nova_sched.hardware.pci.request import PciRequest, requests_of

__all__ = [
    'PciPool',
    'PciRequest',
    'TakenDevice',
    'WantedDevices',
    'count_matching',
    'give_back',
    'hold',
    'pools_from_json',
    'pools_of',
    'pools_to_json',
    'requests_of',
    'supports',
    'take',
    'why_not',
]
