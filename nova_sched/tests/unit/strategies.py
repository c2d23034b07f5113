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
"""Random clusters and requests, for the rule of thumb that both faces of a rule agree."""

import time
import types

from hypothesis import strategies as st

from nova_sched.hardware import pci
from nova_sched.tests.builders import aggregate, hosts, uuid_of

INSTANCES = [uuid_of(f'instance {number}') for number in range(4)]
KVM, ARM = ('x86_64', 'kvm', 'hvm'), ('aarch64', 'qemu', 'hvm')
CELLS = [uuid_of('cell 1'), uuid_of('cell 2')]
METRICS = '[{"name": "cpu.percent", "value": 0.25}, {"name": "cpu.frequency", "value": 2400}]'
DEVICES = pci.pools_to_json(
    [pci.PciPool('8086', '1572', count=2), pci.PciPool('10de', '20b0', count=3)]
)
CPU_INFO = '{"vendor": "Intel", "maxphysaddr": {"bits": 46}}'
MULTIPLIERS = [
    'ram_weight_multiplier',
    'cpu_weight_multiplier',
    'io_ops_weight_multiplier',
    'metrics_weight_multiplier',
]
METADATA = [
    'availability_zone',
    'boost',
    'cpu_allocation_ratio',
    'filter_tenant_id',
    'hw_architecture',
    'instance_type',
    'max_instances_per_host',
    'max_io_ops_per_host',
    *MULTIPLIERS,
]

DISTROS = ['ubuntu', 'fedora']
QUERIES = [
    '[]',
    '[">=", "$free_ram_mb", 8]',
    '["and", ["=", "$hypervisor_type", "QEMU"], ["not", ["<", "$vcpus_total", "$vcpus_used"]]]',
    '["not", ["in", "$stats.boost", "1", "2"]]',
    '["or", "$service.disabled", ["in", "$host", "host-0", "host-3"]]',
]

some_instances = st.frozensets(st.sampled_from(INSTANCES), max_size=3)
some_numbers = st.integers(0, 12)
some_ratio = st.sampled_from([1.0, 1.5, 4.0])


def _columns(plain):
    """Strategies of each column; ``plain`` leaves out what no Nova host state tells."""
    hidden = (
        {} if plain else {'memory_mb_reserved': some_numbers, 'disk_slack_gb': st.integers(-3, 3)}
    )
    return hidden | {
        'vcpus': st.integers(0, 8),
        'vcpus_used': some_numbers,
        'vcpus_ratio': some_ratio,
        'memory_mb': st.integers(12, 20),
        'memory_mb_used': some_numbers,
        'memory_mb_ratio': some_ratio,
        'disk_gb': st.integers(0, 20),
        'disk_gb_used': some_numbers,
        'disk_gb_ratio': some_ratio,
        'instances': some_instances,
        'io_workload': some_numbers,
        'failed_builds': some_numbers,
        'cell_uuid': st.sampled_from([None, *CELLS]),
        'metrics': st.sampled_from(
            [None, '[]', METRICS, '[{"name": "cpu.percent", "value": null}]']
        ),
        'pci_pools': st.sampled_from([None, DEVICES]),
        'traits': st.frozensets(
            st.sampled_from(['HW_A', 'HW_B', 'COMPUTE_STATUS_DISABLED']), max_size=2
        ),
        'host_ip': st.sampled_from([None, '10.0.0.1', '10.1.0.1', '2001:db8::1']),
        'hypervisor_type': st.sampled_from([None, 'QEMU', 'ironic']),
        'hypervisor_version': st.sampled_from([None, 2001000, 3000000]),
        'cpu_info': st.sampled_from([None, '', 'no json', CPU_INFO]),
        'supported_instances': st.sampled_from([(), (KVM,), (ARM,), (KVM, ARM)]),
        'stats': st.dictionaries(
            st.sampled_from(['boost', 'hypervisor_type']), st.sampled_from(['1', 'x'])
        ),
        'disabled': st.booleans(),
        'forced_down': st.booleans(),
        'age': st.sampled_from([0, 30, 90]),
    }


@st.composite
def clusters(draw, plain=False):
    """The hosts of a cluster of up to five nodes, now."""
    n = draw(st.integers(0, 5))
    columns = {
        name: draw(st.lists(values, min_size=n, max_size=n))
        for name, values in _columns(plain).items()
    }
    now = time.time()
    columns['seen_s'] = [now - age for age in columns.pop('age')]
    names = st.frozensets(st.sampled_from([f'host-{row}' for row in range(5)]))
    metadata = st.dictionaries(
        st.sampled_from(METADATA), st.sampled_from(['a', 'a, b', '2', '0.5', 'nan', 'x86_64'])
    )
    groups = [
        aggregate(number, draw(names), **draw(metadata))
        for number in range(draw(st.integers(0, 3)))
    ]
    made = hosts(n, groups, **columns)
    for uuid, distro in draw(
        st.dictionaries(st.sampled_from(INSTANCES), st.sampled_from(DISTROS))
    ).items():
        made.places.learn(uuid, {'os_distro': distro})
    made.now_s = now
    return made


words = st.fixed_dictionaries(
    {},
    optional={
        'vcpus': st.integers(0, 9),
        'memory_mb': some_numbers,
        'root_gb': some_numbers,
        'ephemeral_gb': some_numbers,
        'swap_mb': st.sampled_from([0, 1, 1024, 1025]),
        'is_bfv': st.booleans(),
        'availability_zone': st.sampled_from([None, 'a', 'b', 'nova']),
        'instance_uuid': st.sampled_from(INSTANCES),
        'project_id': st.sampled_from(['a', 'b']),
        'flavor_name': st.sampled_from(['a', 'b']),
        'extra_specs': st.dictionaries(
            st.sampled_from(
                'capabilities:hypervisor_type hypervisor_type capabilities:cpu_info:vendor boost '
                'capabilities:boost vcpus_total hw:maxphysaddr_bits '
                'accel:device_profile other:boost'.split()
            ),
            st.sampled_from(['QEMU', 's== Intel', '>= 1', '<or> 1 <or> x', '46']).filter(str),
            max_size=2,
        ).map(
            lambda specs: {
                key: '46' if key.startswith('hw:') else text for key, text in specs.items()
            }
        ),
        'image_properties': st.fixed_dictionaries(
            {},
            optional={
                'hw_architecture': st.sampled_from(['x86_64', 'aarch64']),
                'img_hv_type': st.sampled_from(['kvm', 'qemu']),
                'img_hv_requested_version': st.just('>=2.0, <3.0'),
                'hw_maxphysaddr_bits': st.sampled_from([46, 47]),
                'os_distro': st.sampled_from(DISTROS),
                'traits_required': st.lists(st.sampled_from(['HW_A', 'HW_B']), max_size=2),
            },
        ),
        'hints': st.dictionaries(
            st.sampled_from(['same_host', 'different_host']),
            st.lists(st.sampled_from(INSTANCES), max_size=2),
        )
        | st.sampled_from(QUERIES).map(lambda query: {'query': [query]})
        | st.fixed_dictionaries(
            {'build_near_host_ip': st.sampled_from([['10.0.0.9'], ['2001:db8::9']])},
            optional={'cidr': st.sampled_from([['/8'], ['/16']])},
        ),
        'requested_destination': st.builds(
            types.SimpleNamespace,
            cell=st.builds(types.SimpleNamespace, uuid=st.sampled_from(CELLS)),
            allow_cross_cell_move=st.booleans(),
        ),
        'group': st.fixed_dictionaries(
            {
                'policy': st.sampled_from(
                    ['affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity']
                )
            },
            optional={
                'members': st.lists(st.sampled_from(INSTANCES), max_size=4, unique=True),
                'hosts': st.lists(st.sampled_from(['host-0', 'host-1', 'elsewhere']), max_size=2),
                'rules': st.just({'max_server_per_host': '2'}),
            },
        ),
    },
)
