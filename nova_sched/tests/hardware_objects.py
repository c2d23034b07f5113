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
"""Machines and hardware requests of ``nova_sched.hardware``, as the objects that nodes and
conductors send."""

import dataclasses

from nova_sched import objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, request, wanted

# A host that has room for six of these guests: in each cell CPUs for four, pages and devices for
# three.
HOST = machine(
    *(
        cell(
            number,
            [],
            range(8 * number, 8 * number + 8),
            memory_mb=8192,
            pages=[(4, 1_000_000), (2048, 800)],
        )
        for number in range(2)
    ),
    pools=[pool(3, number) for number in range(2)],
)
GUEST = wanted(dedicated(2, memory_mb=512, pagesize_kb=2048), requests=[request(1)])
PINNED = {'hw:cpu_policy': 'dedicated'}  # extra specs of such a guest


def node_fields(machine):
    """Fields of a ComputeNode with these cells and devices."""
    pools = [objects.PciDevicePool(**dataclasses.asdict(pool)) for pool in machine.pools]
    return {
        'numa_topology': machine.topology and machine.topology.to_json(),
        'pci_device_pools': objects.PciDevicePoolList(objects=pools),
    }


def spec_fields(pieces):
    """Fields of a RequestSpec that asks for these pieces."""
    guest, networks = pieces.guest, {'physnets': set(pieces.physnets), 'tunneled': pieces.tunneled}
    return {
        'numa_topology': guest
        and objects.InstanceNUMATopology(
            cells=list(map(_cell, guest.cells)), emulator_threads_policy=guest.emulator_policy
        ),
        'pci_requests': objects.InstancePCIRequests(requests=list(map(_request, pieces.requests))),
        'network_metadata': objects.NetworkMetadata(**networks),
    }


def _cell(cell):
    return objects.InstanceNUMACell(
        id=cell.id,
        cpuset=set(cell.cpuset),
        pcpuset=set(cell.pcpuset),
        memory=cell.memory_mb,
        pagesize=cell.pagesize_kb,
        cpu_policy=cell.cpu_policy,
        cpu_thread_policy=cell.thread_policy,
    )


def _request(request):
    return objects.InstancePCIRequest(
        count=request.count,
        spec=[dict(one) for one in request.spec],
        alias_name=request.alias_name,
        request_id=request.request_id and uuid_of(request.request_id),
        requester_id=request.requester_id,
        numa_policy=request.numa_policy,
        is_new=False,
    )
