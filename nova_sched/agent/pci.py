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

"""The PCI devices of this machine, as the kernel lists them."""

import dataclasses
import logging
from pathlib import Path

from nova_sched import errors
from nova_sched.agent import sysfs

LOG = logging.getLogger(__name__)
PCI, PF, VF = 'type-PCI', 'type-PF', 'type-VF'


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """One PCI function; ids and class are hexadecimal digits in lower case."""

    address: str  # as 0000:03:00.1
    vendor_id: str
    product_id: str
    pci_class: str  # as 020000
    numa_node: int | None
    dev_type: str  # type-PCI; type-PF if it can have virtual functions; type-VF if it is one
    parent: str | None = None  # address of a virtual function's physical one
    driver: str | None = None
    interface: str | None = None  # network interface of the function, if the host drives one
    parent_interface: str | None = None


def devices(sys_root: Path) -> list[Device]:
    """Returns all devices by address. A device that cannot be read is logged and left out."""
    found = []
    for path in sysfs.children(sys_root / 'bus/pci/devices'):
        try:
            found.append(_device(path))
        except errors.BadMachineFacts as error:
            # Devices can appear and disappear while they are listed; the rest stay valid.
            LOG.warning('PCI device %s is left out: %s', path.name, error)
    return found


def _device(path: Path) -> Device:
    parent = sysfs.link_name(path / 'physfn')
    return Device(
        address=path.name,
        vendor_id=f'{sysfs.number(path / "vendor", 16):04x}',
        product_id=f'{sysfs.number(path / "device", 16):04x}',
        pci_class=f'{sysfs.number(path / "class", 16):06x}',
        numa_node=sysfs.optional_number(path / 'numa_node'),
        dev_type=VF if parent else PF if sysfs.optional_number(path / 'sriov_totalvfs') else PCI,
        parent=parent,
        driver=sysfs.link_name(path / 'driver'),
        interface=_interface(path),
        parent_interface=_interface(path / 'physfn') if parent else None,
    )


def _interface(path: Path) -> str | None:
    return next((net.name for net in sysfs.children(path / 'net')), None)
