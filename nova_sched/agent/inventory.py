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

"""The node's resources and traits as a provider tree in Placement's form."""

import json
from typing import Any

from nova_sched import objects
from nova_sched.agent import AgentSettings

# Feature as in cpu_info -> traits.
CPU_TRAITS = {
    '3dnow': ('HW_CPU_X86_3DNOW',),
    'abm': ('HW_CPU_X86_ABM',),
    'aes': ('HW_CPU_X86_AESNI',),
    'amx-bf16': ('HW_CPU_X86_AMXBF16',),
    'amx-int8': ('HW_CPU_X86_AMXINT8',),
    'amx-tile': ('HW_CPU_X86_AMXTILE',),
    'avx': ('HW_CPU_X86_AVX',),
    'avx2': ('HW_CPU_X86_AVX2',),
    'avx512-vpopcntdq': ('HW_CPU_X86_AVX512VPOPCNTDQ',),
    'avx512bitalg': ('HW_CPU_X86_AVX512BITALG',),
    'avx512bw': ('HW_CPU_X86_AVX512BW',),
    'avx512cd': ('HW_CPU_X86_AVX512CD',),
    'avx512dq': ('HW_CPU_X86_AVX512DQ',),
    'avx512er': ('HW_CPU_X86_AVX512ER',),
    'avx512f': ('HW_CPU_X86_AVX512F',),
    'avx512ifma': ('HW_CPU_X86_AVX512IFMA',),
    'avx512pf': ('HW_CPU_X86_AVX512PF',),
    'avx512vbmi': ('HW_CPU_X86_AVX512VBMI',),
    'avx512vbmi2': ('HW_CPU_X86_AVX512VBMI2',),
    'avx512vl': ('HW_CPU_X86_AVX512VL',),
    'avx512vnni': ('HW_CPU_X86_AVX512VNNI',),
    'bmi1': ('HW_CPU_X86_BMI',),
    'bmi2': ('HW_CPU_X86_BMI2',),
    'f16c': ('HW_CPU_X86_F16C',),
    'fma': ('HW_CPU_X86_FMA3',),
    'fma4': ('HW_CPU_X86_FMA4',),
    'gfni': ('HW_CPU_X86_AVX512GFNI',),
    'md-clear': ('HW_CPU_X86_INTEL_MD_CLEAR',),
    'mmx': ('HW_CPU_X86_MMX',),
    'mpx': ('HW_CPU_X86_MPX',),
    'pcid': ('HW_CPU_X86_INTEL_PCID',),
    'pclmuldq': ('HW_CPU_X86_CLMUL',),
    'pdpe1gb': ('HW_CPU_X86_PDPE1GB',),
    'pni': ('HW_CPU_X86_SSE3',),
    'rtm': ('HW_CPU_X86_TSX',),
    'sgx': ('HW_CPU_X86_SGX',),
    'sha-ni': ('HW_CPU_X86_SHA',),
    'sse': ('HW_CPU_X86_SSE',),
    'sse2': ('HW_CPU_X86_SSE2',),
    'sse4.1': ('HW_CPU_X86_SSE41',),
    'sse4.2': ('HW_CPU_X86_SSE42',),
    'sse4a': ('HW_CPU_X86_SSE4A',),
    'ssse3': ('HW_CPU_X86_SSSE3',),
    'stibp': ('HW_CPU_X86_STIBP',),
    'svm': ('HW_CPU_X86_SVM', 'HW_CPU_X86_AMD_SVM'),
    'tbm': ('HW_CPU_X86_TBM',),
    'vaes': ('HW_CPU_X86_AVX512VAES',),
    'vmx': ('HW_CPU_X86_VMX', 'HW_CPU_X86_INTEL_VMX'),
    'vpclmulqdq': ('HW_CPU_X86_AVX512VPCLMULQDQ',),
    'xop': ('HW_CPU_X86_XOP',),
}


def inventories(node: objects.ComputeNode, settings: AgentSettings) -> dict[str, dict[str, Any]]:
    """Returns provider UUID -> name, parent, inventories by resource class, traits.

    A resource class with no inventory on the node is left out. Totals and ratios are the node's
    own. VCPU and PCPU are in CPUs, MEMORY_MB in MiB, DISK_GB in GiB.
    """
    reserved_gb = -(-settings.reserved_host_disk_mb // 1024)
    found = {
        'VCPU': _inventory(node.vcpus, settings.reserved_host_cpus, node.cpu_allocation_ratio),
        'PCPU': _inventory(_dedicated_cpus(node) if settings.cpu_dedicated_set else 0, 0, 1.0),
        'MEMORY_MB': _inventory(
            node.memory_mb, settings.reserved_host_memory_mb, node.ram_allocation_ratio
        ),
        'DISK_GB': _inventory(node.local_gb, reserved_gb, node.disk_allocation_ratio),
        **{name: _inventory(total, 0, 1.0) for name, total in settings.resources.items()},
    }
    root = {
        'name': node.hypervisor_hostname,
        'parent_provider_uuid': None,
        'inventories': {
            name: inventory for name, inventory in found.items() if inventory['total']
        },
        'traits': sorted(traits(node) | set(settings.traits)),
    }
    return {node.uuid: root}


def traits(node: objects.ComputeNode) -> set[str]:
    """Returns the traits of the node itself and of its CPUs."""
    cpu = json.loads(node.cpu_info)
    found = {'COMPUTE_NODE', 'OWNER_NOVA'}
    if cpu['topology']['threads'] > 1:
        found.add('HW_CPU_HYPERTHREADING')
    if cpu['arch'] in ('x86_64', 'i686'):
        found.update(trait for feature in cpu['features'] for trait in CPU_TRAITS.get(feature, ()))
    return found


def _inventory(total: int, reserved: int, ratio: float) -> dict[str, int | float]:
    return {
        'total': total,
        'reserved': reserved,
        'min_unit': 1,
        'max_unit': total,
        'step_size': 1,
        'allocation_ratio': ratio,
    }


def _dedicated_cpus(node: objects.ComputeNode) -> int:
    topology = objects.NUMATopology.obj_from_primitive(json.loads(node.numa_topology))
    return len(set().union(*(cell.pcpuset for cell in topology.cells)))
