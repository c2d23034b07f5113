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
"""NUMATopologyFilter: the guest's NUMA cells fit into those of the host."""

import numpy as np

from nova_sched.conf import CONF
from nova_sched.filters import Filter
from nova_sched.hardware import Steps
from nova_sched.hardware.numa import MAX_STEPS, SHARED_STEPS
from nova_sched.state.facts import HostFacts

MAX_OPENED = 100  # machines that an explanation examines at most


class NUMATopologyFilter(Filter):
    """Each guest cell fits into a host cell: CPUs, memory pages, and the requested devices near
    it.

    A request without cells passes. Exception: if it demands whole cores for its CPUs, hosts whose
    cores have a single thread do not pass.
    """

    for_tenants = 'they do not have the requested NUMA cells'
    host_facts = HostFacts.CELLS | HostFacts.DEVICES
    request_facts = ('pieces',)

    def mask(self, hosts, request):
        wanted = request.pieces
        if wanted.guest is None and not wanted.needs_siblings:
            return True
        return self.judge(hosts, request, np.arange(hosts.rows))

    def judge(self, hosts, request, rows):
        wanted = request.pieces
        if wanted.guest is None and not wanted.needs_siblings:
            return True
        packing = CONF.compute.packing_host_numa_cells_allocation_strategy
        question = self.name, wanted.key, packing
        steps = Steps(SHARED_STEPS)
        return hosts.map_machines(
            rows, question, lambda machine: _takes(machine, wanted, packing, steps)
        )

    def limits(self, hosts, request, row):
        wanted, (machine,) = request.pieces, hosts.machines([row])
        return {'numa_topology': machine.limits(wanted)} if wanted.guest and machine else {}

    def why(self, hosts, request, rows):
        wanted, machines = request.pieces, hosts.machines(rows)
        if wanted.guest is None:
            return 'a host whose cores have several threads is asked for'
        packing = CONF.compute.packing_host_numa_cells_allocation_strategy
        steps = Steps(MAX_STEPS)  # for all of them: those that come late are not searched
        results = [
            machine.miss(wanted, packing, steps)
            for machine in list(filter(None, machines))[:MAX_OPENED]
        ]
        misses = [miss for miss in results if miss is not None]
        if not misses:
            return 'NUMA cells are asked for, and no host reports any'
        return max(misses).why


def _takes(machine, wanted, packing, steps):
    topology = machine and machine.topology
    if wanted.needs_siblings and topology is not None and not topology.has_siblings:
        return False
    if wanted.guest is None:
        return True
    return topology is not None and machine.fit(wanted, packing, shared=steps) is not None
