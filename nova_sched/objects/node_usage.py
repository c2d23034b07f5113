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
"""A claim's view of a ComputeNode: its fields, and the changes that a claim makes to them."""

import dataclasses
import types

from nova_sched.hardware.machine import Machine
from nova_sched.hardware.pci import pools_of
from nova_sched.objects.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.objects.claiming import ClaimableMixin, Usage
from nova_sched.objects.pci import PciDevicePool, PciDevicePoolList


class ComputeNodeUsage(ClaimableMixin):
    """A claim's view of a ComputeNode object: only its own fields.

    Nova counts the reserved amount as used, so ``reserved`` is 0 here. Dedicated CPUs are those of
    the NUMA cells; the pinned ones are in use.
    """

    FIELDS = types.MappingProxyType(
        {
            VCPU: ('vcpus', 'vcpus_used', 'cpu_allocation_ratio'),
            MEMORY_MB: ('memory_mb', 'memory_mb_used', 'ram_allocation_ratio'),
            DISK_GB: ('local_gb', 'local_gb_used', 'disk_allocation_ratio'),
        }
    )

    def usage(self, resource_class):
        if resource_class == PCPU:
            return self._dedicated()
        fields = self.FIELDS.get(resource_class)
        if fields is None:
            return None
        total, used, ratio = (getattr(self, name) for name in fields)
        return Usage(total or 0, 0, ratio or 1.0, used or 0)

    def _dedicated(self):
        machine = self.machine
        if machine is None or machine.topology is None:
            return None
        cells = machine.topology.cells
        return Usage(
            sum(len(cell.pcpuset) for cell in cells),
            0,
            1.0,
            sum(len(cell.pinned_cpus) for cell in cells),
        )

    def take(self, resource_class, amount):
        if resource_class == PCPU:
            return  # ``hold`` pins them
        used = self.FIELDS[resource_class][1]
        setattr(self, used, getattr(self, used) + amount)
        if resource_class == MEMORY_MB:
            self.free_ram_mb = self.memory_mb - self.memory_mb_used
        elif resource_class == DISK_GB:
            self.free_disk_gb = self.local_gb - self.local_gb_used

    @property
    def machine(self):
        topology, pools = self._read('numa_topology'), self._read('pci_device_pools')
        if topology is None and pools is None:
            return None
        ratios = (
            self._read(name) or 1.0 for name in ('cpu_allocation_ratio', 'ram_allocation_ratio')
        )
        found = Machine.from_texts(topology, None, *ratios)
        return dataclasses.replace(found, pools=pools_of(pools))

    def _read(self, field):
        return getattr(self, field) if field in self else None

    def hold(self, parts):
        self._show(self.machine.hold(parts))

    def let_go(self, parts):
        self._show(self.machine.let_go(parts))

    def _show(self, machine):
        """Writes cells and pools back in the form of the fields."""
        if machine.topology is not None:
            self.numa_topology = machine.topology.to_json()
        if self._read('pci_device_pools') is not None:
            free = [
                PciDevicePool(**dataclasses.asdict(pool)) for pool in machine.pools if pool.count
            ]
            self.pci_device_pools = PciDevicePoolList(objects=free)
