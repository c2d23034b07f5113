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

"""The PCI devices of this machine, and those that the operator offers to instances, grouped into
pools of equal devices."""

import collections
import dataclasses
import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nova_sched import errors, objects
from nova_sched.extensions.agent import sysfs
from nova_sched.hardware import Overdrawn
from nova_sched.hardware.pci import PciPool

LOG = logging.getLogger(__name__)
PCI, PF, VF = 'type-PCI', 'type-PF', 'type-VF'
DeviceKind = tuple[
    str, str, int | None, tuple[tuple[str, str | None], ...]
]  # vendor, product, NUMA node, tags

_MATCHED = frozenset({'vendor_id', 'product_id', 'address', 'devname'})
_ADDRESS = re.compile(r'(?:([^:]*):)?([^:]*):([^:.]*)(?:\.([^:.]*))?')
_PARTS = ('domain', 'bus', 'slot', 'function')
_ID = re.compile(r'\*|[0-9a-f]{4}')


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
    """Return all devices by address. A device that cannot be read is logged and left out."""
    readable = []
    for path in sysfs.children(sys_root / 'bus/pci/devices'):
        try:
            readable.append(_device(path))
        except errors.BadMachineFacts as error:
            # Devices can appear and disappear while they are listed; the rest stay valid.
            LOG.warning('PCI device %s is left out: %s', path.name, error)
    return readable


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


@dataclasses.dataclass(frozen=True, slots=True)
class Spec:
    """One entry of the operator's ``device_spec``: the properties that a device must have, and its
    tags."""

    vendor_id: str = '*'
    product_id: str = '*'
    address: re.Pattern[str] | None = None
    interface: str | None = None
    tags: Mapping[str, str | None] = dataclasses.field(default_factory=dict)

    def matches(self, device: Device) -> bool:
        """Whether the entry matches a device.

        Address and interface name of a virtual function may be its own or its physical function's.
        """
        return (
            self.vendor_id in ('*', device.vendor_id)
            and self.product_id in ('*', device.product_id)
            and (
                self.interface is None
                or self.interface in (device.interface, device.parent_interface)
            )
            and (
                self.address is None
                or any(map(self.address.fullmatch, (device.address, device.parent or '')))
            )
        )


def parse_specs(entries: Iterable[Mapping[str, Any] | str]) -> list[Spec]:
    """Return the specs from mappings, or from the JSON text of a mapping or of a list of them.

    The known keys are ``vendor_id``, ``product_id``, ``address`` and ``devname``; all others are
    tags. ``address`` is a glob text, or has regular expressions by ``domain``, ``bus``, ``slot``
    and ``function``. Raise BadMachineFacts.
    """
    specs = []
    for entry in entries:
        try:
            read = json.loads(entry) if isinstance(entry, str) else entry
            specs += [_spec(mapping) for mapping in (read if isinstance(read, list) else [read])]
        except (ValueError, TypeError, AttributeError, re.error) as error:
            raise errors.BadMachineFacts('device_spec', f'{entry}: {error}') from error
    return specs


def pools(
    devices: Iterable[Device], specs: Collection[Spec], taken: Collection[str] = ()
) -> objects.PciDevicePoolList:
    """Return the free devices, counted by vendor, product, NUMA node and tags.

    A device gets the tags of the first spec that it matches. A device without a matching spec is
    not offered. ``taken`` are the addresses that instances hold. A virtual function also takes its
    physical function, and a physical function takes all of its virtual ones.
    """
    counts = collections.Counter(kind for _, kind in _offered(list(devices), specs, taken))
    return objects.PciDevicePoolList(
        objects=[
            objects.PciDevicePool(
                vendor_id=vendor, product_id=product, numa_node=node, tags=dict(tags), count=count
            )
            for (vendor, product, node, tags), count in sorted(counts.items(), key=str)
        ]
    )


def pick(
    devices: Collection[Device],
    specs: Collection[Spec],
    taken: Collection[str],
    wanted: Iterable[PciPool],
) -> frozenset[str]:
    """Return addresses of free devices that match these pools, as many as the pools count.

    Raise Overdrawn if there are too few, or if one is part of another.
    """
    chosen = set[str]()
    for pool in wanted:
        like = pool.vendor_id, pool.product_id, pool.numa_node, tuple(sorted(pool.tags.items()))
        for _ in range(pool.count):
            offered = _offered(devices, specs, {*taken, *chosen})
            address = next((address for address, kind in offered if kind == like), None)
            if address is None:
                name = f'{pool.vendor_id}:{pool.product_id}'
                raise Overdrawn('PCI devices', f'no {name} is left that is not part of another')
            chosen.add(address)
    return frozenset(chosen)


def _offered(
    devices: Collection[Device], specs: Collection[Spec], taken: Collection[str]
) -> Iterator[tuple[str, DeviceKind]]:
    """Yield address and kind of each free device."""
    blocked = set(taken) | {device.parent for device in devices if device.address in taken}
    for device in devices:
        spec = next((spec for spec in specs if spec.matches(device)), None)
        if spec and device.address not in blocked and device.parent not in taken:
            kind = device.vendor_id, device.product_id, device.numa_node, _tags(device, spec)
            yield device.address, kind


def _tags(device: Device, spec: Spec) -> tuple[tuple[str, str | None], ...]:
    tags = {'remote_managed': 'false', **spec.tags, 'dev_type': device.dev_type}
    interface = {PF: device.interface, VF: device.parent_interface}.get(device.dev_type)
    if interface:
        tags['parent_ifname'] = interface
    return tuple(sorted(tags.items()))


def _spec(entry: Mapping[str, Any]) -> Spec:
    if 'address' in entry and 'devname' in entry:
        raise ValueError('address and devname exclude each other')
    ids = {
        key: str(entry.get(key, '*')).lower().removeprefix('0x')
        for key in ('vendor_id', 'product_id')
    }
    for key, value in ids.items():
        if not _ID.fullmatch(value):
            raise ValueError(f'{key} is not four hexadecimal digits')
    tags = {key: _word(value) for key, value in entry.items() if key not in _MATCHED}
    address, pattern = entry.get('address'), None
    if 'address' in entry:
        pattern = _regex(address) if isinstance(address, Mapping) else _glob(address)
    return Spec(**ids, address=pattern, interface=entry.get('devname'), tags=tags)


def _word(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def _regex(parts: Mapping[str, str]) -> re.Pattern[str]:
    if unknown := set(parts) - set(_PARTS):
        raise ValueError(f'address has no part {min(unknown)}')
    domain, bus, slot, function = (f'(?:{parts.get(part, ".*")})' for part in _PARTS)
    return re.compile(rf'{domain}:{bus}:{slot}\.{function}', re.IGNORECASE)


def _glob(address: str) -> re.Pattern[str]:
    match = _ADDRESS.fullmatch(address.strip())
    if not match:
        raise ValueError('address is not domain:bus:slot.function')
    # A part that is left out or empty matches any value.
    globs = (re.escape(part or '*').replace(r'\*', '.*') for part in match.groups())
    return _regex(dict(zip(_PARTS, globs, strict=True)))
