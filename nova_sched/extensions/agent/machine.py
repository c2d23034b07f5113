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

"""This machine as a ComputeNode and as a provider tree in Placement's form: facts that are read
once, and a UUID that a file keeps over restarts, combined with usage and reserved amounts."""

import contextlib
import dataclasses
import datetime
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
from oslo_utils import netutils

from nova_sched import errors, objects
from nova_sched.extensions.agent import AgentSettings, cpus, numa, pci, sysfs, usage

# Kernels for another architecture that a processor also runs.
ALSO_RUNS = {'x86_64': ('i686',)}
# Fields that change all the time on an idle node.
NOISE = frozenset({'metrics', 'disk_available_least'})
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The facts of a machine, as read at one time."""

    uuid: str
    online: Mapping[int, cpus.Cpu]
    present: frozenset[int]  # CPUs, online or not
    processor: cpus.Processor
    cells: list[numa.MachineCell]
    devices: list[pci.Device]
    memory_mb: int  # MiB
    disk_gb: int  # GiB
    disk_free_gb: int  # GiB
    kvm: bool
    host_ip: str
    metrics: str = '[]'  # JSON text


def compute_node(
    settings: AgentSettings, guests: Iterable[usage.InstanceUsage] = (), failed_builds: int = 0
) -> objects.ComputeNode:
    """Return this machine as it is now, with these instances on it. Raise BadMachineFacts."""
    return describe(read(settings), settings, usage.total(guests, failed_builds))


def read(settings: AgentSettings) -> MachineFacts:
    """Return the facts of the machine.

    Raise BadMachineFacts, which names the fact that cannot be read or is not plausible.
    """
    memory_mb = psutil.virtual_memory().total >> 20
    try:
        disk = psutil.disk_usage(str(settings.instances_path))
    except OSError as error:
        what = f'the file system of {settings.instances_path}'
        raise errors.BadMachineFacts(what, error.strerror or str(error)) from error
    return MachineFacts(
        uuid=node_uuid(settings.uuid_file),
        online=cpus.online(settings.sys_root),
        present=cpus.present(settings.sys_root),
        processor=cpus.processor(settings.proc_root),
        cells=numa.cells(settings.sys_root, memory_mb),
        devices=pci.devices(settings.sys_root),
        memory_mb=memory_mb,
        disk_gb=disk.total >> 30,
        disk_free_gb=disk.free >> 30,
        kvm=os.path.exists(settings.kvm_device),
        host_ip=settings.host_ip or netutils.get_my_ipv4(),
        metrics=cpus.metrics(datetime.datetime.now(datetime.UTC)) if settings.metrics else '[]',
    )


def node_uuid(path: Path, new: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """Return the UUID in the file. Create the file with a new UUID if it does not exist.

    Raise BadMachineFacts if the file has other content, or can be neither read nor created. With
    a new UUID, the node's instances would stay allocated on a compute node that no longer exists.
    """
    with contextlib.suppress(FileExistsError):
        if not os.path.exists(path):
            _create_file(path, str(new()))
    content = sysfs.text(path)
    try:
        return str(uuid.UUID(content))
    except ValueError as error:
        why = (
            f'{content[:40]!r} is not a UUID; restore the file, '
            'or remove it if this node has no instances'
        )
        raise errors.BadMachineFacts(str(path), why) from error


def _create_file(path: Path, content: str) -> None:
    """Create the file with all of its content or not at all.

    Raise FileExistsError if another process created it first.
    """
    draft = path.with_name(f'{path.name}.{os.getpid()}')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open('w') as file:
            file.write(f'{content}\n')
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, does not replace a file that another process has just made.
        try:
            path.hardlink_to(draft)
        finally:
            draft.unlink()
    except FileExistsError:
        raise
    except OSError as error:
        raise errors.BadMachineFacts(str(path), error.strerror or str(error)) from error


def describe(
    machine: MachineFacts, settings: AgentSettings, used: usage.UsageTotals
) -> objects.ComputeNode:
    """Return the ComputeNode of these facts. Reserved amounts count as used, as in Nova."""
    shared, dedicated = cpu_sets(machine, settings)
    reserved_gb = -(-settings.reserved_host_disk_mb // 1024)
    _check_reserved('reserved_host_cpus', settings.reserved_host_cpus, len(shared))
    _check_reserved('reserved_host_memory_mb', settings.reserved_host_memory_mb, machine.memory_mb)
    _check_reserved('reserved_host_disk_mb', reserved_gb, machine.disk_gb)
    vcpus = used.vcpus - used.dedicated if dedicated else used.vcpus
    memory_mb_used = settings.reserved_host_memory_mb + used.memory_mb
    local_gb_used = reserved_gb + used.disk_gb
    cells = numa.build(machine.cells, shared, dedicated, used.cells, settings)
    return objects.ComputeNode(
        uuid=machine.uuid,
        host=settings.host,
        host_ip=machine.host_ip,
        hypervisor_hostname=settings.node or settings.host,
        hypervisor_type=settings.hypervisor_type,
        hypervisor_version=settings.hypervisor_version,
        supported_hv_specs=_hv_specs(machine),
        cpu_info=json.dumps(_cpu_info(machine)),
        vcpus=len(shared),
        vcpus_used=settings.reserved_host_cpus + vcpus,
        memory_mb=machine.memory_mb,
        memory_mb_used=memory_mb_used,
        free_ram_mb=machine.memory_mb - memory_mb_used,
        local_gb=machine.disk_gb,
        local_gb_used=local_gb_used,
        free_disk_gb=machine.disk_gb - local_gb_used,
        disk_available_least=machine.disk_free_gb,
        cpu_allocation_ratio=settings.cpu_allocation_ratio or 4.0,
        ram_allocation_ratio=settings.ram_allocation_ratio or 1.0,
        disk_allocation_ratio=settings.disk_allocation_ratio or 1.0,
        current_workload=used.busy,
        running_vms=used.instances,
        stats={**settings.facts, **used.stats},
        metrics=machine.metrics,
        numa_topology=json.dumps(cells.obj_to_primitive()),
        pci_device_pools=pci.pools(
            machine.devices, pci.parse_specs(settings.device_spec), used.devices
        ),
    )


def cpu_sets(
    machine: MachineFacts, settings: AgentSettings
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the online CPUs that instances share, and those that are dedicated to one instance
    each.

    Raise BadMachineFacts if the configured sets overlap, or name CPUs that the machine does not
    have.
    """
    online = frozenset(machine.online)
    dedicated = _cpu_set('cpu_dedicated_set', settings.cpu_dedicated_set, machine) or frozenset()
    shared = _cpu_set('cpu_shared_set', settings.cpu_shared_set, machine)
    if shared is None:
        return online - dedicated, online & dedicated
    if both := shared & dedicated:
        raise errors.BadMachineFacts(
            'cpu_shared_set', f'CPUs {sorted(both)} are in cpu_dedicated_set too'
        )
    return online & shared, online & dedicated


def _cpu_set(option: str, ranges: str | None, machine: MachineFacts) -> frozenset[int] | None:
    if ranges is None:
        return None
    named = cpus.parse_ranges(ranges, option)
    if missing := named - machine.present:
        raise errors.BadMachineFacts(option, f'this machine has no CPUs {sorted(missing)}')
    return named


def inventories(node: objects.ComputeNode, settings: AgentSettings) -> dict[str, dict[str, Any]]:
    """Return provider UUID -> name, parent, inventories by resource class, traits.

    A resource class with no inventory on the node is left out. Totals and ratios are the node's
    own. VCPU and PCPU are in CPUs, MEMORY_MB in MiB, DISK_GB in GiB.
    """
    reserved_gb = -(-settings.reserved_host_disk_mb // 1024)
    dedicated = 0
    if settings.cpu_dedicated_set:
        topology = objects.NUMATopology.obj_from_primitive(json.loads(node.numa_topology))
        dedicated = len(set().union(*(cell.pcpuset for cell in topology.cells)))
    of_node = {
        'VCPU': _inventory(node.vcpus, settings.reserved_host_cpus, node.cpu_allocation_ratio),
        'PCPU': _inventory(dedicated, 0, 1.0),
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
            name: inventory for name, inventory in of_node.items() if inventory['total']
        },
        'traits': sorted(traits(node) | set(settings.traits)),
    }
    return {node.uuid: root}


def traits(node: objects.ComputeNode) -> set[str]:
    """Return the traits of the node itself and of its CPUs."""
    cpu = json.loads(node.cpu_info)
    names = {'COMPUTE_NODE', 'OWNER_NOVA'}
    if cpu['topology']['threads'] > 1:
        names.add('HW_CPU_HYPERTHREADING')
    if cpu['arch'] in ('x86_64', 'i686'):
        names.update(trait for feature in cpu['features'] for trait in CPU_TRAITS.get(feature, ()))
    return names


def _inventory(total: int, reserved: int, ratio: float) -> dict[str, int | float]:
    return {
        'total': total,
        'reserved': reserved,
        'min_unit': 1,
        'max_unit': total,
        'step_size': 1,
        'allocation_ratio': ratio,
    }


def changed(before: objects.ComputeNode | None, after: objects.ComputeNode) -> bool:
    """Whether a report now would contain a change, apart from the fields in NOISE."""
    return before is None or _facts(before) != _facts(after)


def _facts(node: objects.ComputeNode) -> dict[str, Any]:
    data = node.obj_to_primitive()['nova_object.data']
    facts = {field: _unordered(value) for field, value in data.items() if field not in NOISE}
    for text in ('cpu_info', 'numa_topology'):
        facts[text] = _unordered(json.loads(data.get(text) or 'null'))
    return facts


def _unordered(value: Any) -> Any:
    """Return a primitive with its lists sorted, most of which were sets, and without change
    records."""
    if isinstance(value, Mapping):
        return {
            key: _unordered(part) for key, part in value.items() if key != 'nova_object.changes'
        }
    if isinstance(value, list | tuple):
        return sorted((_unordered(part) for part in value), key=repr)
    return value


def _check_reserved(option: str, reserved: int, total: int) -> None:
    if reserved > total:
        raise errors.BadMachineFacts(option, f'{reserved} is more than the {total} that there are')


def _cpu_info(machine: MachineFacts) -> dict[str, Any]:
    by_cell = [cpus.topology([machine.online[cpu] for cpu in cell.cpus]) for cell in machine.cells]
    largest = {
        part: max((cell[part] for cell in by_cell), default=0)
        for part in ('sockets', 'cores', 'threads')
    }
    info: dict[str, Any] = {
        'arch': machine.processor.arch,
        'model': machine.processor.model,
        'vendor': machine.processor.vendor,
        'topology': {'cells': len(machine.cells), **largest},
        'features': list(machine.processor.features),
    }
    if machine.processor.physical_bits:
        info['maxphysaddr'] = {'mode': 'emulate', 'bits': machine.processor.physical_bits}
    return info


def _hv_specs(machine: MachineFacts) -> list[objects.HVSpec]:
    arch = machine.processor.arch
    kinds = ('qemu', 'kvm') if machine.kvm else ('qemu',)
    try:
        return [
            objects.HVSpec(arch=runs, hv_type=kind, vm_mode='hvm')
            for runs in (arch, *ALSO_RUNS.get(arch, ()))
            for kind in kinds
        ]
    except ValueError as error:
        raise errors.BadMachineFacts(
            'the architecture', f'{arch} is not one that a cloud knows'
        ) from error
