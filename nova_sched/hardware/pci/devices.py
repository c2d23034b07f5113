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
"""PCI devices of a node, as pools of equal free devices."""

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched.hardware import read, wire

PF, VDPA = 'type-PF', 'vdpa'  # device types that only requests that name them get
_NO_TAGS = frozenset(['vendor_id', 'product_id', 'numa_node', 'count', 'devices'])
_YES = frozenset(['1', 'on', 't', 'true', 'y', 'yes'])


def is_yes(text: Any) -> bool:
    """Returns whether a tag's text means yes; no tag means no."""
    return text is not None and str(text).strip().lower() in _YES


@dataclasses.dataclass(frozen=True)
class PciPool:
    """``count`` free devices that have the same vendor and product (hexadecimal digits), NUMA node
    and tags.

    ``numa_node`` None: near no cell. An empty pool stays, so that freed devices can return to it.
    """

    vendor_id: str
    product_id: str
    numa_node: int | None = None
    tags: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    count: int = 0

    def __hash__(self) -> int:
        # Tags are a mapping. Similar pools nearly always have the same tag keys.
        return hash((self.vendor_id, self.product_id, self.numa_node, self.count))

    @property
    def dev_type(self) -> str | None:
        """``type-PCI``, ``type-PF``, ``type-VF`` or ``vdpa``."""
        return self.tags.get('dev_type')

    @property
    def physical_network(self) -> str | None:
        return self.tags.get('physical_network')

    @functools.cached_property
    def remote_managed(self) -> bool:
        """Returns whether a SmartNIC controls them; only requests that ask for such devices get
        one."""
        return is_yes(self.tags.get('remote_managed'))

    @property
    def managed(self) -> bool:
        """Returns whether the hypervisor changes their driver for the guest; true unless
        configured otherwise."""
        return is_yes(self.tags.get('managed') or 'yes')

    @property
    def live_migratable(self) -> bool:
        """Returns whether a running guest with such a device can be migrated."""
        return is_yes(self.tags.get('live_migratable'))

    @property
    def resource_class(self) -> str | None:
        return self.tags.get('resource_class')

    @property
    def traits(self) -> frozenset[str]:
        return frozenset(filter(None, (self.tags.get('traits') or '').split(',')))

    @property
    def rp_uuid(self) -> str | None:
        """Returns the resource provider that represents them in Placement."""
        return self.tags.get('rp_uuid')

    @functools.cached_property
    def facts(self) -> dict[str, str]:
        """Returns the attributes that a request may name; values in lower case, because case is
        ignored."""
        known = {**self.tags, 'vendor_id': self.vendor_id, 'product_id': self.product_id}
        return {name: str(value).lower() for name, value in known.items() if value is not None}

    def is_like(self, other: 'PciPool') -> bool:
        """Returns a key that is equal for the same kind of devices, regardless of their number."""
        return dataclasses.replace(self, count=other.count) == other

    @classmethod
    def of(cls, pool: Any) -> 'PciPool':
        """Reads any object with PciDevicePool's attributes, which may be unset, or a flat mapping.

        The mapping is the form of a pool in Nova's statistics, with tags next to the other keys.
        """
        if isinstance(pool, Mapping):
            tags = {name: value for name, value in pool.items() if name not in _NO_TAGS}
            own = (pool['vendor_id'], pool['product_id'], pool.get('numa_node'))
            return cls(*own, tags, pool.get('count', 0))
        return cls(
            vendor_id=read(pool, 'vendor_id', ''),
            product_id=read(pool, 'product_id', ''),
            numa_node=read(pool, 'numa_node'),
            tags=dict(read(pool, 'tags', {})),
            count=read(pool, 'count', 0),
        )

    @classmethod
    def from_primitive(cls, primitive: Mapping[str, Any]) -> 'PciPool':
        """Reads a PciDevicePool object as plain values. Errors in it raise unconverted
        exceptions."""
        data = wire.data(primitive, 'PciDevicePool')
        node = data.get('numa_node')
        return cls(
            vendor_id=str(data['vendor_id']),
            product_id=str(data['product_id']),
            numa_node=None if node is None else int(node),
            tags=dict(data.get('tags') or {}),
            count=wire.count(data['count']),
        )

    def to_primitive(self) -> dict[str, Any]:
        """Returns a PciDevicePool object."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return wire.primitive('PciDevicePool', '1.1', {**fields, 'tags': dict(self.tags)})


def pools_of(pools: Iterable[Any] | None) -> tuple[PciPool, ...]:
    """Reads a PciDevicePoolList or any equivalent container; None holds nothing."""
    return tuple(map(PciPool.of, pools or ()))


def pools_from_json(text: str) -> tuple[PciPool, ...]:
    """Reads a PciDevicePoolList object as text. Raises MalformedObject."""
    with wire.reading('PciDevicePoolList'):
        listed = wire.data(json.loads(text), 'PciDevicePoolList')['objects']
        return tuple(map(PciPool.from_primitive, listed))


def pools_to_json(pools: Iterable[PciPool]) -> str:
    """Returns the PciDevicePoolList object as text, without the empty pools, as a node reports
    it."""
    objects = [pool.to_primitive() for pool in pools if pool.count]
    return json.dumps(wire.primitive('PciDevicePoolList', '1.1', {'objects': objects}))
