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
"""Random compute nodes as their reports and services tell of them. All objects are Nova's."""

import json

from nova import objects

from nova_sched.tests.nova_client import random_hardware
from nova_sched.tests.nova_client.cloud import compute_node

ARCHITECTURES = ('x86_64', 'i686', 'aarch64', 'ppc64le')
HYPERVISORS = ('kvm', 'qemu', 'xen', 'lxc')
MODES = ('hvm', 'xen', 'exe')
TYPES = ('QEMU', 'ironic', 'VMware vCenter Server', 'LXC', '')
VERSIONS = (None, 0, 1, 999, 1000, 2001000, 8002001, 8002002, 10000000)
ADDRESSES = (
    None,
    '192.0.2.7',
    '192.0.2.130',
    '198.51.100.9',
    '10.0.0.1',
    '2001:db8::7',
    '2001:DB8:0:1::9',
)
STATS = ('tier', 'rack', 'free_ram_mb', 'cpu_arch', 'size', 'capabilities', 'sla level')
METRICS = (
    'cpu.frequency',
    'cpu.user.time',
    'cpu.user.percent',
    'cpu.kernel.percent',
    'cpu.idle.percent',
    'cpu.percent',
)
PROPERTIES = {
    'os_distro': ('debian', 'windows', 'a,b', ''),
    'os_type': ('linux', 'windows'),
    'hw_video_ram': (0, 16, 64),
    'hw_boot_menu': (True, False),
    'hw_vif_model': ('virtio', 'e1000'),
    'traits_required': (['HW_CPU_X86_AVX'], ['HW_CPU_X86_AVX', 'CUSTOM_GOLD']),
    'hw_machine_type': ('q35', 'pc'),
}
NO_VALUE = 'numa.membw.current'  # its metric has values by cell instead


def image(dice, choices=PROPERTIES):
    """Properties of an image, a few of those that there are to choose from."""
    return {name: dice.choice(choices[name]) for name in dice.some(choices, 3)}


def node(dice, host):
    """A ComputeNode of this host, with everything that a rule may ask about."""
    totals = {
        'vcpus': dice.choice((0, 1, 8, 8, 64)),
        'memory_mb': dice.choice((0, 512, 16384, 16384, 1048576)),
        'local_gb': dice.choice((0, 1, 100, 100, 6000)),
    }
    used = {f'{name}_used': _use(dice, total) for name, total in totals.items()}
    ratios = {
        f'{name}_allocation_ratio': dice.choice((1.0, 0.5, 1.5, 4.0, 16.0))
        for name in ('cpu', 'ram', 'disk')
    }
    topology = random_hardware.host_topology(dice) if dice.maybe(0.8) else None
    return compute_node(
        host,
        uuid=dice.uuid(),
        **totals,
        **used,
        **ratios,
        disk_available_least=_disk_left(dice, totals['local_gb'] - used['local_gb_used']),
        hypervisor_type=dice.choice(TYPES),
        hypervisor_version=dice.choice(VERSIONS[1:]),
        host_ip=dice.choice(ADDRESSES),
        cpu_info=_cpu_info(dice),
        stats=_stats(dice),
        metrics=metrics(dice),
        supported_hv_specs=[_triple(dice) for _ in range(dice.choice((0, 1, 1, 2, 3)))],
        numa_topology=topology and json.dumps(topology.obj_to_primitive()),
        pci_device_pools=None if dice.maybe(0.05) else random_hardware.pools(dice),
        updated_at=None,
    )


def _use(dice, total):
    """How much is used: nothing, some, all, or more than there is."""
    return dice.choice((0, 0, total // 3, total // 2, total, total + 7, 3 * total))


def _disk_left(dice, free_gb):
    return dice.choice((None, None, free_gb, free_gb + 10, free_gb - 3, 0, -5))


def _cpu_info(dice):
    """JSON text of a nested description; now and then something else."""
    if dice.maybe(0.1):
        return dice.choice(
            (None, '', 'baremetal cpu', '[]', '"x86_64"', '7', 'null', '{"arch": "x86_64"')
        )
    return json.dumps(
        {
            'arch': dice.choice(ARCHITECTURES),
            'vendor': dice.choice(('Intel', 'AMD', 'gold', '')),
            'features': dice.some(('aes', 'avx', 'vmx', 'avx512f'), 4),
            'topology': {'cores': dice.choice((1, 4, 8, '8')), 'threads': 2, 'sockets': None},
            'maxphysaddr': dice.choice(
                ({}, {'bits': 39}, {'bits': 46}, {'mode': 'emulate', 'bits': 52}, {'bits': None})
            ),
            'model': dice.value(),
        }
    )


def _stats(dice):
    counts = {
        'num_instances': str(dice.choice((0, 1, 7, 50))),
        'io_workload': str(dice.choice((0, 1, 8, 9))),
        'failed_builds': str(dice.choice((0, 0, 1, 12))),
    }
    told = {name: counts[name] for name in dice.some(counts, 3, least=1)}
    return told | {
        name: None if dice.maybe(0.05) else dice.value() for name in dice.some(STATS, 4)
    }


def metrics(dice):
    """The metrics of a node as text; percentages travel as fractions."""
    found = []
    for name in dice.some(METRICS, len(METRICS)):
        value = dice.choice((0, 1, 29, 57, 100))
        found.append(
            {
                'name': name,
                'value': value / 100 if name.endswith('percent') else value * 1000,
                'timestamp': '2027-01-15T08:00:00.000000',
                'source': 'libvirt.LibvirtDriver',
            }
        )
    if dice.maybe(0.3):
        found.append(
            {
                'name': NO_VALUE,
                'numa_membw_values': {'0': 10, '1': 43},
                'timestamp': '2027-01-15T08:00:00.000000',
                'source': 'libvirt.LibvirtDriver',
            }
        )
    return None if dice.maybe(0.05) else json.dumps(found)


def _triple(dice):
    return objects.HVSpec(
        arch=dice.choice(ARCHITECTURES),
        hv_type=dice.choice(HYPERVISORS),
        vm_mode=dice.choice(MODES),
    )
