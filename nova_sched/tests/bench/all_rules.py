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
"""One decision with every rule enabled, on hosts with aggregates, NUMA cells and PCI devices."""

import random
import time

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.engine import catalog
from nova_sched.engine.place import Placer
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.hardware.numa import GuestCell, GuestTopology, HostCell, HostTopology
from nova_sched.hardware.pci import PciPool, pools_to_json
from nova_sched.hardware.pci import PciRequest as Devices
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.decisions import Decide, Floor
from nova_sched.tests.bench.timing import row
from nova_sched.tests.options import settings
from nova_sched.tests.stores import MemoryClaimStore

SIZES = (1_000, 10_000, 100_000)
CORES, GIB = 16, 1024
# Hosts of one kind that stand together: their metadata narrow most requests down or override
# numbers.
AGGREGATES = 40
PROJECT = '0123456789abcdef0123456789abcdef'
METRICS = (
    '[{"name": "cpu.frequency", "value": 2600, "timestamp": "2026-01-01T00:00:00Z", '
    '"source": "x"}]'
)


def cells(chance):
    """Two cells of dedicated CPUs, each used in a way of its own; hyperthreads in pairs."""
    made = []
    for number in range(2):
        cpus = range(number * CORES, (number + 1) * CORES)
        pairs = [frozenset(cpus[place : place + 2]) for place in range(0, CORES, 2)]
        busy = chance.sample(pairs, chance.randrange(len(pairs) + 1))
        pinned = frozenset().union(*busy)
        used_mb = len(pinned) * 4 * GIB
        made.append(
            HostCell(
                number,
                frozenset(cpus),
                frozenset(cpus),
                128 * GIB,
                0,
                used_mb,
                pinned,
                tuple(pairs),
            )
        )
    return HostTopology(tuple(made)).to_json()


def devices(chance):
    """Some hosts have network functions, near to one of the cells."""
    tags = {'dev_type': 'type-VF', 'physical_network': 'physnet0'}
    pool = PciPool('8086', '10ca', chance.randrange(2), tags, chance.randrange(9))
    return pools_to_json([pool]) if chance.random() < 0.3 else None


def reports(count):
    chance = random.Random(7)
    for one in fleet.reports(count):
        yield fleet.changed(
            one,
            inventories={**one.inventories, 'PCPU': fleet.Inventory(2 * CORES)},
            traits=frozenset(['HW_CPU_HYPERTHREADING', f'CUSTOM_RACK_{chance.randrange(50)}']),
            numa_topology=cells(chance),
            pci_pools=devices(chance),
            metrics=METRICS,
        )


def aggregates(count):
    """Zones, tenants, flavors' extra specs, image properties, ratios and limits, all over the
    fleet."""
    chance = random.Random(8)
    for number in range(AGGREGATES):
        metadata = {'ssd': 'true', 'max_io_ops_per_host': '50', 'cpu_weight_multiplier': '2.0'}
        metadata |= {'availability_zone': f'zone-{number % 3}'} if number < 3 else {}
        metadata |= {'filter_tenant_id': f'{PROJECT},other'} if number % 4 == 0 else {}
        metadata |= (
            {'ram_allocation_ratio': '1.5', 'os_distro': 'debian,fedora'}
            if number % 5 == 0
            else {}
        )
        members = (
            range(number, count, 3) if number < 3 else chance.sample(range(count), count // 10)
        )
        names = frozenset(f'compute-{place:06}' for place in members)
        yield HostAggregate(number + 1, f'aggregate-{number}', names, metadata)


def filled_store(count):
    store = MemoryClaimStore()
    store.report(list(reports(count)), time.time())
    for one in aggregates(count):
        store.set_aggregate(one.id, one)
    return store


def guest(policy='dedicated', vcpus=4, cells=1, memory_mb=4 * GIB):
    share = vcpus // cells
    pinned = [frozenset(range(n * share, (n + 1) * share)) for n in range(cells)]
    nothing = frozenset()
    return GuestTopology(tuple(
        GuestCell(n, nothing, own, memory_mb, cpu_policy=policy) for n, own in enumerate(pinned)
    ))  # fmt: skip


VF = Devices(1, ({'vendor_id': '8086', 'product_id': '10ca'},), alias_name='vf')
PINNED = {'vcpus': 8, 'memory_mb': 8 * GIB}
REQUESTS = {
    'plain': {},
    'aggregate-heavy': {
        'availability_zone': 'zone-1',
        'flavor_name': 'm1.small',
        'extra_specs': {
            'aggregate_instance_extra_specs:ssd': 'true',
            'trait:HW_CPU_HYPERTHREADING': 'required',
        },
        'required_traits': frozenset(['HW_CPU_HYPERTHREADING']),
        'image_properties': {'os_distro': 'debian', 'hw_architecture': 'x86_64'},
    },
    'NUMA': {**PINNED, 'pieces': HardwareRequest(guest(vcpus=8, cells=2))},
    'PCI': {'pieces': HardwareRequest(requests=(VF,))},
    'NUMA and PCI': {**PINNED, 'pieces': HardwareRequest(guest(vcpus=8, cells=2), (VF,))},
}


def request(kind):
    made = fleet.request(project_id=PROJECT, **REQUESTS[kind])
    if made.pieces.guest:
        made = fleet.changed(made, resources={'PCPU': 8, 'MEMORY_MB': 8 * GIB, 'DISK_GB': 20})
    return made


def everything():
    """Options that enable all filters and weighers."""
    return {
        'filter_scheduler.enabled_filters': sorted(catalog.known('nova_sched.filters')),
        'filter_scheduler.image_props_weight_multiplier': 1.0,
        'default.service_down_time': 86400,  # to make the largest fleet takes longer than a minute
        'metrics.weight_setting': ['cpu.frequency=1.0'],
    }


def rows(budget_s=2.0, sizes=SIZES):
    with settings(everything()):
        chosen = service.settings(CONF)
        for size in sizes:
            cluster, floor = fleet.cluster(filled_store(size), chosen), Floor(size)
            placer = Placer(cluster, service.rules(CONF), random.Random(1))
            for kind in REQUESTS:
                ours = Decide(placer, chosen, lambda kind=kind: request(kind))
                yield row(f'all rules, {kind}, {size:,} hosts', *ours.against(floor, budget_s))
