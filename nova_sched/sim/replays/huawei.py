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
"""Virtual machines with NUMA needs (Huawei, 2025), in sequences that are chained in random order.

The data has no times and no departures. Placement groups are left out: a server counts alone.
"""

import itertools
import random

from nova_sched.claim import MEMORY_MB, VCPU
from nova_sched.conf import CONF
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.hardware.numa import GuestCell, GuestTopology, HostCell, HostTopology
from nova_sched.sim import trace
from nova_sched.sim.replays.workload import Arrival, Workload, report, server_uuid
from nova_sched.state.request import Request

RULE = 'NUMATopologyFilter'


def workload(hosts, sequences):
    """Returns the Workload of the file of hosts and those of the sequences. Raises BadConfig.

    What is free in a cell is all that the cell has, and CPUs are not overcommitted. A server of
    two cells takes half of its CPUs and memory in each.
    """
    reports = [
        _report(f'host-{number}', cells) for number, cells in enumerate(trace.rows(hosts, _cells))
    ]
    parts = [list(trace.rows(path, _size)) for path in sequences]

    def arrivals(seed):
        order = parts[:]
        random.Random(seed).shuffle(order)
        for number, size in enumerate(itertools.chain(*order)):
            yield _arrival(server_uuid(number), *size)

    filters = [*dict.fromkeys([*CONF.filter_scheduler.enabled_filters, RULE])]
    capacity = sum(one.inventories[VCPU].total for one in reports)
    options = {'filter_scheduler.enabled_filters': filters}
    return Workload('huawei', 'vCPUs', reports, capacity, arrivals, options)


def _cells(row):
    """(CPUs, MiB) of each cell that has any CPU."""
    cells = [(int(row[f'CPU{one}']), int(row[f'RAM{one}']) * 1024) for one in (1, 2)]
    return [cell for cell in cells if cell[0]]


def _report(host, cells):
    first, made = 0, []
    for number, (cpus, memory_mb) in enumerate(cells):
        made.append(
            HostCell(number, frozenset(range(first, first + cpus)), frozenset(), memory_mb)
        )
        first += cpus
    amounts = {VCPU: first, MEMORY_MB: sum(memory_mb for _, memory_mb in cells)}
    return report(host, amounts, numa_topology=HostTopology(tuple(made)).to_json())


def _size(row):
    return int(row['flavor_vcpus']), int(row['flavor_ram']) * 1024, int(row['numa'])


def _arrival(uuid, vcpus, memory_mb, cells):
    each = vcpus // cells
    guest = GuestTopology(
        tuple(
            GuestCell(
                number,
                frozenset(range(number * each, (number + 1) * each)),
                frozenset(),
                memory_mb // cells,
            )
            for number in range(cells)
        )
    )
    request = Request(
        uuid,
        vcpus=vcpus,
        memory_mb=memory_mb,
        resources={VCPU: vcpus, MEMORY_MB: memory_mb},
        flavor_name=f'{vcpus}-{memory_mb}-{cells}',
        pieces=HardwareRequest(guest=guest),
    )
    return Arrival((request,), vcpus, 'one cell' if cells == 1 else f'{cells} cells')
