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
"""PCI: which pools of free devices a node has, and which of them a request gets.

``supports`` says whether there are enough, ``take`` books them, ``give_back`` frees them,
``why_not`` says what is short; ``Wanted`` hands all of it to a NUMA fit.
"""

from nova_sched.hardware.pci.devices import Pool, pools_from_json, pools_of, pools_to_json
from nova_sched.hardware.pci.match import Taken, Wanted, give_back, hold, supports, take, why_not
from nova_sched.hardware.pci.request import Request, requests_of

__all__ = [
    'Pool',
    'Request',
    'Taken',
    'Wanted',
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
