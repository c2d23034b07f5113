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
"""PciPassthroughFilter: the host has the PCI devices that the request asks for."""

import numpy as np

from nova_sched.filters import Filter
from nova_sched.state.facts import HostFacts


class PciPassthroughFilter(Filter):
    """Every PCI request has enough free devices, in any NUMA cell of the host."""

    for_tenants = 'they do not have the requested PCI devices'
    host_facts = HostFacts.DEVICES
    request_facts = ('pieces',)

    def mask(self, hosts, request):
        return self.judge(hosts, request, np.arange(hosts.rows))

    def judge(self, hosts, request, rows):
        wanted = request.pieces
        if not wanted.requests:
            return True
        question = self.name, wanted.key
        return hosts.map_machines(
            rows, question, lambda machine: machine is not None and machine.has_devices(wanted)
        )

    def why(self, hosts, request, rows):
        machines = [
            machine for machine in hosts.machines(rows) if machine is not None and machine.pools
        ]
        if not machines:
            return 'PCI devices are asked for, and no host reports a free one'
        nearest = max(machines, key=lambda machine: machine.free_devices)
        return nearest.why_not_devices(request.pieces)
