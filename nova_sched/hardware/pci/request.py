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
"""Requests for PCI devices, from a flavor's aliases or from ports."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from nova_sched.hardware import read
from nova_sched.hardware.pci.devices import is_yes

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
        """Returns the name for texts: that of the flavor's alias, or the port's UUID."""
        name = self.alias_name or self.requester_id or self.request_id or 'PCI request'
        return name[:MAX_NAME]

    @functools.cached_property
    def alternatives(self) -> tuple[dict[str, str | None], ...]:
        """Returns the part of the spec that is about devices, values in lower case."""
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
        """Returns the device types that it names."""
        return frozenset(device_spec.get('dev_type') for device_spec in self.spec)

    @functools.cached_property
    def remote_managed(self) -> bool:
        return any(is_yes(device_spec.get('remote_managed')) for device_spec in self.spec)

    @functools.cached_property
    def live_migratable(self) -> bool:
        """Returns whether it needs devices with which a running guest can be migrated."""
        return bool(self.spec) and all(
            is_yes(device_spec.get('live_migratable')) for device_spec in self.spec
        )

    def providers(self, mapping: Mapping[str, Sequence[str]] | None) -> list[str]:
        """Returns the resource providers that were allocated for it, one per device; none: any
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
        """Reads any object with InstancePCIRequest's attributes, which may be unset."""
        return cls(
            count=read(request, 'count', 0),
            spec=tuple(map(dict, read(request, 'spec', ()))),
            numa_policy=read(request, 'numa_policy', LEGACY),
            request_id=read(request, 'request_id'),
            requester_id=read(request, 'requester_id'),
            alias_name=read(request, 'alias_name'),
        )


def requests_of(requests: Any) -> tuple[PciRequest, ...]:
    """Reads any object with InstancePCIRequests' attributes; None asks for nothing."""
    return tuple(map(PciRequest.of, read(requests, 'requests', ())))
