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
"""PCIWeigher."""

import numpy as np

from nova_sched.weighers import Weigher

MAX_COUNTED = 99  # free devices; a higher number makes no difference


class PCIWeigher(Weigher):
    """Fewer free PCI devices are better, so that hosts with many stay free for requests for
    many."""

    option = 'pci_weight_multiplier'
    load = True
    request_facts = ()

    def raw(self, hosts, rows, request):
        return 1 + MAX_COUNTED - np.minimum(hosts.free_pci_devices[rows], MAX_COUNTED)
