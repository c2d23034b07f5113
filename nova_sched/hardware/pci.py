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
"""PCI: the pools of free devices of a node, and the devices that a request gets.

``supports`` returns whether there are enough devices, ``take`` allocates them, ``give_back`` frees
them, and ``why_not`` reports what is short. ``WantedDevices`` passes all of this to a NUMA fit.

Requests are met in order, each from the devices that the earlier ones left.
"""

import dataclasses
import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nova_sched.hardware import Overdrawn, read, wire
from nova_sched.hardware.numa.topology import HostTopology

PF, VDPA = 'type-PF', 'vdpa'  # device types that only requests that name them get
_NO_TAGS = frozenset(['vendor_id', 'product_id', 'numa_node', 'count', 'devices'])
_YES = frozenset(['1', 'on', 't', 'true', 'y', 'yes'])


def is_yes(text: Any) -> bool:
    """Return whether a tag's text means yes; no tag means no."""
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
        """Return whether a SmartNIC controls them; only requests that ask for such devices get
        one."""
        return is_yes(self.tags.get('remote_managed'))

    @property
    def managed(self) -> bool:
        """Return whether the hypervisor changes their driver for the guest; true unless
        configured otherwise."""
        return is_yes(self.tags.get('managed') or 'yes')

    @property
    def live_migratable(self) -> bool:
        """Return whether a running guest with such a device can be migrated."""
        return is_yes(self.tags.get('live_migratable'))

    @property
    def resource_class(self) -> str | None:
        return self.tags.get('resource_class')

    @property
    def traits(self) -> frozenset[str]:
        return frozenset(filter(None, (self.tags.get('traits') or '').split(',')))

    @property
    def rp_uuid(self) -> str | None:
        """Return the resource provider that represents them in Placement."""
        return self.tags.get('rp_uuid')

    @functools.cached_property
    def facts(self) -> dict[str, str]:
        """Return the attributes that a request may name; values in lower case, because case is
        ignored."""
        known = {**self.tags, 'vendor_id': self.vendor_id, 'product_id': self.product_id}
        return {name: str(value).lower() for name, value in known.items() if value is not None}

    def is_like(self, other: 'PciPool') -> bool:
        """Return a key that is equal for the same kind of devices, regardless of their number."""
        return dataclasses.replace(self, count=other.count) == other

    @classmethod
    def of(cls, pool: Any) -> 'PciPool':
        """Read any object with PciDevicePool's attributes, which may be unset, or a flat mapping.

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
        """Read a PciDevicePool object as plain values. Errors in it raise unconverted
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
        """Return a PciDevicePool object."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return wire.primitive('PciDevicePool', '1.1', {**fields, 'tags': dict(self.tags)})


def pools_of(pools: Iterable[Any] | None) -> tuple[PciPool, ...]:
    """Read a PciDevicePoolList or any equivalent container; None holds nothing."""
    return tuple(map(PciPool.of, pools or ()))


def pools_from_json(text: str) -> tuple[PciPool, ...]:
    """Read a PciDevicePoolList object as text. Raises MalformedObject."""
    with wire.reading('PciDevicePoolList'):
        listed = wire.data(json.loads(text), 'PciDevicePoolList')['objects']
        return tuple(map(PciPool.from_primitive, listed))


def pools_to_json(pools: Iterable[PciPool]) -> str:
    """Return the PciDevicePoolList object as text, without the empty pools, as a node reports
    it."""
    objects = [pool.to_primitive() for pool in pools if pool.count]
    return json.dumps(wire.primitive('PciDevicePoolList', '1.1', {'objects': objects}))


LEGACY, REQUIRED, PREFERRED, SOCKET = 'legacy', 'required', 'preferred', 'socket'  # NUMA policies

# Keys of a spec about the allocation in Placement, not about the devices.
_FOR_PLACEMENT = frozenset(['resource_class', 'traits', 'rp_uuid', 'rp_uuids'])
MAX_NAME = 255  # characters of a name; what a caller sends may be of any length


@dataclasses.dataclass(frozen=True)
class PciRequest:
    """``count`` devices that each match one of the alternatives in ``spec``; a value None: the tag
    is absent.

    A request with an ``alias_name`` comes from the flavor, any other from a port.
    """

    count: int
    spec: tuple[Mapping[str, str | None], ...]
    numa_policy: str = LEGACY
    request_id: str | None = None
    requester_id: str | None = None
    alias_name: str | None = None

    @property
    def name(self) -> str:
        """Return the name for texts: that of the flavor's alias, or the port's UUID."""
        name = self.alias_name or self.requester_id or self.request_id or 'PCI request'
        return name[:MAX_NAME]

    @functools.cached_property
    def alternatives(self) -> tuple[dict[str, str | None], ...]:
        """Return the part of the spec that is about devices, values in lower case."""
        return tuple(
            {
                name: value and value.lower()
                for name, value in device_spec.items()
                if name not in _FOR_PLACEMENT
            }
            for device_spec in self.spec
        )

    @functools.cached_property
    def dev_types(self) -> frozenset[str | None]:
        """Return the device types that it names."""
        return frozenset(device_spec.get('dev_type') for device_spec in self.spec)

    @functools.cached_property
    def remote_managed(self) -> bool:
        return any(is_yes(device_spec.get('remote_managed')) for device_spec in self.spec)

    @functools.cached_property
    def live_migratable(self) -> bool:
        """Return whether it needs devices with which a running guest can be migrated."""
        return bool(self.spec) and all(
            is_yes(device_spec.get('live_migratable')) for device_spec in self.spec
        )

    def providers(self, mapping: Mapping[str, Sequence[str]] | None) -> list[str]:
        """Return the resource providers that were allocated for it, one per device; none: any
        device qualifies.

        ``mapping`` is that of the allocation candidate, from requester to providers. Without one,
        the providers come from the request itself, as stored when it was allocated. Ports are
        allocated differently.
        """
        if self.alias_name is None:
            return []
        if not mapping:
            return [
                uuid
                for device_spec in self.spec[:1]
                for uuid in (device_spec.get('rp_uuids') or '').split(',')
                if uuid
            ]
        own = str(self.request_id)
        return [
            uuids[0] for requester, uuids in mapping.items() if uuids and requester.startswith(own)
        ]

    @classmethod
    def of(cls, request: Any) -> 'PciRequest':
        """Read any object with InstancePCIRequest's attributes, which may be unset."""
        return cls(
            count=read(request, 'count', 0),
            spec=tuple(map(dict, read(request, 'spec', ()))),
            numa_policy=read(request, 'numa_policy', LEGACY),
            request_id=read(request, 'request_id'),
            requester_id=read(request, 'requester_id'),
            alias_name=read(request, 'alias_name'),
        )


def requests_of(requests: Any) -> tuple[PciRequest, ...]:
    """Read any object with InstancePCIRequests' attributes; None asks for nothing."""
    return tuple(map(PciRequest.of, read(requests, 'requests', ())))


Mapped = Mapping[str, Sequence[str]] | None
Cells = Collection[int] | None


class TakenDevice(NamedTuple):
    """``pool.count`` devices like those of ``pool``, for one request."""

    request_id: str | None
    pool: PciPool


@dataclasses.dataclass(frozen=True, slots=True)
class WantedDevices:
    """Devices that a guest requests from a node; a NUMA fit asks it whether they are near."""

    pools: tuple[PciPool, ...]
    requests: tuple[PciRequest, ...]
    provider_mapping: Mapped = None

    def devices_in(self, cell: int) -> int:
        """Return the number of free devices of any kind in one cell."""
        return sum(pool.count for pool in self.pools if pool.numa_node == cell)

    def why_not(self, cells: Cells, host: HostTopology) -> str:
        return why_not(self.pools, self.requests, cells, host, self.provider_mapping)


def supports(
    pools: Sequence[PciPool],
    requests: Iterable[PciRequest],
    cells: Cells = None,
    host: HostTopology | None = None,
    provider_mapping: Mapped = None,
) -> bool:
    """Return whether there are devices for all requests.

    ``cells``: ids of the guest's host cells, for the NUMA policies; none: the policies are
    ignored. ``host`` knows which other cells are on their sockets. ``provider_mapping``: see
    ``PciRequest``.
    """
    return not why_not(pools, requests, cells, host, provider_mapping)


def why_not(
    pools: Sequence[PciPool],
    requests: Iterable[PciRequest],
    cells: Cells = None,
    host: HostTopology | None = None,
    provider_mapping: Mapped = None,
) -> str:
    """Return what is short, in text and figures; empty if nothing is. Arguments as for
    ``supports``."""
    try:
        take(pools, requests, cells, host, provider_mapping)
    except Overdrawn as short:
        return str(short)
    return ''


def take(
    pools: Sequence[PciPool],
    requests: Iterable[PciRequest],
    cells: Cells = None,
    host: HostTopology | None = None,
    provider_mapping: Mapped = None,
) -> tuple[tuple[PciPool, ...], tuple[TakenDevice, ...]]:
    """Return the pools without the devices, and the devices. Raises Overdrawn. Arguments as for
    ``supports``."""
    left = list(pools)
    taken: list[TakenDevice] = []
    for request in requests:
        providers = request.providers(provider_mapping)
        rows = _rows(left, request, cells, host, providers)
        taken += (
            TakenDevice(request.request_id, some)
            for some in _drawn(left, rows, providers, request.count)
        )
    return tuple(left), tuple(taken)


def _rows(
    pools: Sequence[PciPool],
    request: PciRequest,
    cells: Cells,
    host: HostTopology | None,
    providers: list[str],
) -> list[int]:
    """Return pools that can meet the request, the first choice first. Raises Overdrawn."""
    count = request.count

    def enough(rows: list[int], what: str) -> list[int]:
        has = sum(pools[row].count for row in rows)
        if has < count:
            raise Overdrawn(request.name, f'{count} devices asked, {has} {what}')
        return rows

    # The pool with the fewest tags is the least special and goes first.
    order = sorted(range(len(pools)), key=lambda row: len(pools[row].tags))
    rows = enough([row for row in order if _matches(pools[row], request)], 'free that match')
    if cells:
        rows = enough(_near(pools, rows, request, cells, host), 'near to the NUMA cells')
    rows = enough(
        [row for row in rows if _may_have(pools[row], request)], 'of a type that was asked for'
    )
    if providers:
        rows = enough(
            [row for row in rows if pools[row].rp_uuid in providers], 'of the allocated providers'
        )
    return rows


def count_matching(
    pools: Sequence[PciPool], alternatives: tuple[Mapping[str, str | None], ...]
) -> int:
    """Return how many free devices match one of the alternatives, and may be given to a request
    with these."""
    request = PciRequest(1, alternatives)
    return sum(
        pool.count for pool in pools if _matches(pool, request) and _may_have(pool, request)
    )


def _matches(pool: PciPool, request: PciRequest) -> bool:
    facts = pool.facts
    return pool.count > 0 and any(
        all(facts.get(name) == value for name, value in alternative.items())
        for alternative in request.alternatives
    )


def _near(
    pools: Sequence[PciPool],
    rows: list[int],
    request: PciRequest,
    cells: Collection[int],
    host: HostTopology | None,
) -> list[int]:
    """Return pools as near as the policy prefers; farther ones if needed, as far as the policy
    allows."""
    near: list[int] = []
    for nodes in _nodes(request.numa_policy, cells, host):
        near = [row for row in rows if pools[row].numa_node in nodes]
        if sum(pools[row].count for row in near) >= request.count:
            return near
    if request.numa_policy == PREFERRED:
        near += [row for row in rows if row not in near]
    return near


def _nodes(
    policy: str, cells: Collection[int], host: HostTopology | None
) -> Iterator[set[int | None]]:
    """Return sets of NUMA nodes, the strictest first."""
    own: set[int | None] = set(cells)
    yield own
    if policy == SOCKET and host is not None:
        yield own | host.on_sockets_of(cells)
    elif policy in (LEGACY, PREFERRED):
        yield own | {None}


def _may_have(pool: PciPool, request: PciRequest) -> bool:
    """Return whether the devices are available to this request: some kinds must be asked for
    explicitly."""
    if pool.dev_type in (PF, VDPA) and pool.dev_type not in request.dev_types:
        return False
    return request.remote_managed or not pool.remote_managed


def _drawn(
    pools: list[PciPool], rows: list[int], providers: list[str], count: int
) -> Iterator[PciPool]:
    """Take the devices out of the pools, and yield them: allocated devices first, then any."""
    allocated = [(row, 1) for uuid in providers for row in rows if pools[row].rp_uuid == uuid]
    for row, most in [*allocated, *((row, count) for row in rows)]:
        some = min(most, count, pools[row].count)
        if some:
            yield dataclasses.replace(pools[row], count=some)
            pools[row] = dataclasses.replace(pools[row], count=pools[row].count - some)
            count -= some


def give_back(pools: Sequence[PciPool], taken: Iterable[TakenDevice]) -> tuple[PciPool, ...]:
    """Return the pools with the devices in them again; pools that the node no longer has come
    back."""
    left = list(pools)
    for _, some in taken:
        for row, pool in enumerate(left):
            if pool.is_like(some):
                left[row] = dataclasses.replace(pool, count=pool.count + some.count)
                break
        else:
            left.append(some)
    return tuple(left)


def hold(pools: Sequence[PciPool], taken: Iterable[TakenDevice]) -> tuple[PciPool, ...]:
    """Return the pools without these devices, as far as available: no count goes below zero."""
    left = list(pools)
    for _, some in taken:
        for row, pool in enumerate(left):
            if pool.is_like(some):
                left[row] = dataclasses.replace(pool, count=max(pool.count - some.count, 0))
                break
    return tuple(left)
