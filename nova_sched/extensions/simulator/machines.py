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
"""The simulated machines, which record their own usage and build nothing, and this machine."""

import copy
import dataclasses
import json
import pathlib
import random
import socket
import threading
import time
import uuid

from nova_sched import errors, objects
from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU
from nova_sched.extensions.agent import AgentSettings, machine

# Every UUID is derived from a name in this namespace, so that a second run finds the nodes of the
# first.
NAMESPACE = uuid.UUID('1f0a5d1c-3c1e-4f6e-9d3b-6f0f5a0c51ed')
# Racks with odd numbers have it.
FAST_CPU = 'HW_CPU_X86_AVX512F'


@dataclasses.dataclass(frozen=True, slots=True)
class MachineShape:
    """One machine type: memory in MiB, disk in GiB; ``reserved_mb`` of the memory is reserved for
    the host."""

    vcpus: int = 64
    memory_mb: int = 132 * 1024
    disk_gb: int = 2000
    reserved_mb: int = 4096
    cpu_ratio: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The hosts of a cloud: ``nodes`` machines, evenly in ``zones`` with ``racks`` racks each.

    ``disabled`` and ``failing`` are shares (0..1): of the nodes that an operator disabled, and of
    the builds that fail.
    """

    nodes: int = 200
    zones: int = 3
    racks: int = 4
    shape: MachineShape = MachineShape()
    disabled: float = 0.02
    failing: float = 0.01
    seed: int = 1

    @property
    def zone_names(self):
        return [f'zone-{number + 1}' for number in range(self.zones)]


class SimulatedNode:
    """A compute node that keeps a list of instances and records its usage, like an agent.

    ``zone`` and ``rack`` are names; ``fails`` returns for an instance's UUID whether its build
    fails here.
    """

    def __init__(
        self,
        stats,
        inventories,
        zone=None,
        rack=None,
        disabled=False,
        fails=lambda instance: False,
    ):
        self.zone, self.rack, self.disabled = zone, rack, disabled
        self.host, self.nodename, self.uuid = stats.host, stats.hypervisor_hostname, stats.uuid
        self.inventories = inventories
        self.instances = {}
        self.dirty = True  # a change since the last report
        self.reported_s = 0.0  # time.monotonic
        self.reports = 0
        self._stats = stats
        self._root = inventories[stats.uuid]['inventories']
        self._fails = fails
        self._told = frozenset()
        self._lock = threading.Lock()

    def build(self, request):
        """Check the claim again and start the instance. Raise ComputeResourcesUnavailable."""
        if self._fails(request.instance_uuid):
            raise errors.ComputeResourcesUnavailable(self.uuid, 'the build failed')
        with self._lock:
            self.instances[request.instance_uuid] = self._stats.instance_claim(request)
            self.dirty = True

    def drop(self, instance_uuid):
        """Delete the instance. Return whether a report has listed it."""
        with self._lock:
            self._stats.release(self.instances.pop(instance_uuid))
            self.dirty = True
            return instance_uuid in self._told

    def report(self):
        """Return the current report: a ComputeNode and the list of instances."""
        with self._lock:
            self.dirty, self.reported_s = False, time.monotonic()
            self._stats.running_vms = len(self.instances)
            self._told = frozenset(self.instances)
            return copy.deepcopy(self._stats), sorted(self._told)

    def usage(self):
        """Return resource class -> (used by instances, capacity)."""
        return {name: (use.used - self._root[name]['reserved'], capacity)
                for name, capacity in self.capacity().items()
                if (use := self._stats.usage(name)) is not None}  # fmt: skip

    def capacity(self):
        """Return resource class -> allocatable units in total."""
        return {
            name: int((inventory['total'] - inventory['reserved']) * inventory['allocation_ratio'])
            for name, inventory in self._root.items()
        }


def machines(plan):
    """Return the machines of a plan; the same plan always has the same machines."""
    chance = random.Random(f'{plan.seed} disabled')
    nodes = []
    for number in range(plan.nodes):
        zone = plan.zone_names[number % plan.zones]
        rack = number // plan.zones % plan.racks + 1
        host = (
            f'sim-z{number % plan.zones + 1}-r{rack}-n{number // plan.zones // plan.racks + 1:02}'
        )
        nodes.append(_node(host, plan, zone, rack, chance.random() < plan.disabled))
    return nodes


def _node(host, plan, zone, rack, disabled):
    shape = plan.shape
    stats = objects.ComputeNode(
        uuid=str(uuid.uuid5(NAMESPACE, host)),
        host=host,
        hypervisor_hostname=host,
        hypervisor_type='QEMU',
        hypervisor_version=8002002,
        supported_hv_specs=[objects.HVSpec(arch='x86_64', hv_type='kvm', vm_mode='hvm')],
        cpu_info=json.dumps(
            {'arch': 'x86_64', 'vendor': 'Intel', 'model': 'Icelake-Server', 'features': ['aes']}
        ),
        vcpus=shape.vcpus,
        vcpus_used=0,
        memory_mb=shape.memory_mb,
        memory_mb_used=shape.reserved_mb,
        free_ram_mb=shape.memory_mb - shape.reserved_mb,
        local_gb=shape.disk_gb,
        local_gb_used=0,
        free_disk_gb=shape.disk_gb,
        cpu_allocation_ratio=shape.cpu_ratio,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
        current_workload=0,
        running_vms=0,
        stats={},
    )
    provider = {
        'name': host,
        'parent_provider_uuid': None,
        'inventories': {
            VCPU: _inventory(shape.vcpus, 0, shape.cpu_ratio),
            MEMORY_MB: _inventory(shape.memory_mb, shape.reserved_mb),
            DISK_GB: _inventory(shape.disk_gb),
        },
        'traits': ['COMPUTE_NODE', *([FAST_CPU] if rack % 2 else [])],
    }

    def fails(instance):
        return random.Random(f'{plan.seed} {instance} {host}').random() < plan.failing

    return SimulatedNode(
        stats, {stats.uuid: provider}, zone, f'{zone}-rack-{rack}', disabled, fails
    )


def _inventory(total, reserved=0, ratio=1.0):
    return {'total': total, 'reserved': reserved, 'allocation_ratio': ratio}


def this_machine(directory, zone):
    """Return a node with this machine's real CPUs, memory and disk, in the first rack of a zone.

    It builds nothing either. The directory keeps its UUID. Raise BadMachineFacts.
    """
    directory = pathlib.Path(directory)
    settings = AgentSettings(
        host=socket.gethostname(), uuid_file=directory / 'compute_id', instances_path=directory
    )
    stats = machine.compute_node(settings)
    return SimulatedNode(stats, machine.inventories(stats, settings), zone, f'{zone}-rack-1')
