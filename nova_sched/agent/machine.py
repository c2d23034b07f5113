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

"""This machine as a ComputeNode: facts that are read once, combined with usage and reserved
amounts."""

import dataclasses
import datetime
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
from oslo_utils import netutils

from nova_sched import errors, objects
from nova_sched.agent import AgentSettings, cpus, identity, numa, pci, usage

# Kernels for another architecture that a processor also runs.
ALSO_RUNS = {'x86_64': ('i686',)}
# Fields that change all the time on an idle node.
NOISE = frozenset({'metrics', 'disk_available_least'})


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
    """Returns this machine as it is now, with these instances on it. Raises BadMachineFacts."""
    return describe(read(settings), settings, usage.total(guests, failed_builds))


def read(settings: AgentSettings) -> MachineFacts:
    """Returns the facts of the machine.

    Raises BadMachineFacts, which names the fact that cannot be read or is not plausible.
    """
    memory_mb = psutil.virtual_memory().total >> 20
    disk = _disk(settings.instances_path)
    return MachineFacts(
        uuid=identity.node_uuid(settings.uuid_file),
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


def describe(
    machine: MachineFacts, settings: AgentSettings, used: usage.UsageTotals
) -> objects.ComputeNode:
    """Returns the ComputeNode of these facts. Reserved amounts count as used, as in Nova."""
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
    """Returns the online CPUs that instances share, and those that are dedicated to one instance
    each.

    Raises BadMachineFacts if the configured sets overlap, or name CPUs that the machine does not
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
    """Returns a primitive with its lists sorted, most of which were sets, and without change
    records."""
    if isinstance(value, Mapping):
        return {
            key: _unordered(part) for key, part in value.items() if key != 'nova_object.changes'
        }
    if isinstance(value, list | tuple):
        return sorted((_unordered(part) for part in value), key=repr)
    return value


def _disk(path: Path) -> Any:
    try:
        return psutil.disk_usage(str(path))
    except OSError as error:
        raise errors.BadMachineFacts(
            f'the file system of {path}', error.strerror or str(error)
        ) from error


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
            'the architecture', f'{arch} is none that a cloud knows'
        ) from error
