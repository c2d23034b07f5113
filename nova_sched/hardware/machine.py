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
"""The NUMA cells and PCI devices of one node, and the ones that a guest gets."""

import dataclasses
import functools
import json
from collections.abc import Mapping

from nova_sched.hardware import Steps, numa, pci, wire
from nova_sched.hardware.providers import Allotted


@dataclasses.dataclass(frozen=True)
class HardwareRequest:
    """The hardware request: NUMA cells, PCI devices, and networks that must be near the cells.

    ``needs_siblings``: only hosts whose cores have several threads qualify.
    """

    guest: numa.GuestTopology | None = None
    requests: tuple[pci.PciRequest, ...] = ()
    physnets: frozenset[str] = frozenset()
    tunneled: bool = False
    needs_siblings: bool = False

    def __bool__(self) -> bool:
        return self.guest is not None or bool(self.requests)

    @functools.cached_property
    def key(self) -> str:
        """Return a key that is equal for requests that fit on the same hosts."""
        devices = [
            (
                request.count,
                [sorted(spec.items()) for spec in request.spec],
                request.numa_policy,
                request.alias_name is None,
            )
            for request in self.requests
        ]
        near = sorted(self.physnets), self.tunneled
        return repr((self.guest, devices, near, self.needs_siblings))


@dataclasses.dataclass(frozen=True, slots=True)
class HardwareAllocation:
    """The hardware allocation: the CPUs, pages, devices and child providers that a claim holds."""

    cells: numa.Fitted | None = None
    devices: tuple[pci.TakenDevice, ...] = ()
    providers: tuple[Allotted, ...] = ()

    def __bool__(self) -> bool:
        return self.cells is not None or bool(self.devices or self.providers)

    def to_json(self) -> str:
        devices = [[device.request_id, device.pool.to_primitive()] for device in self.devices]
        allotted = [part.to_plain() for part in self.providers]
        cells = self.cells and self.cells.to_json()
        return json.dumps({'cells': cells, 'devices': devices, 'providers': allotted})

    @classmethod
    def from_json(cls, text: str) -> 'HardwareAllocation':
        """Read the text that ``to_json`` wrote. Raises MalformedObject."""
        with wire.reading('HardwareAllocation'):
            plain = json.loads(text)
            devices = (
                pci.TakenDevice(name, pci.PciPool.from_primitive(pool))
                for name, pool in plain['devices']
            )
            return cls(
                plain['cells'] and numa.Fitted.from_json(plain['cells']),
                tuple(devices),
                tuple(map(Allotted.from_plain, plain['providers'])),
            )


@dataclasses.dataclass(frozen=True)
class Machine:
    """The NUMA cells and pools of free devices of one node, and the allocation ratios of its
    cells.

    ``topology`` None: the node reports no cells. Equal machines accept the same guests, so a
    result for one is valid for all.
    """

    topology: numa.HostTopology | None = None
    pools: tuple[pci.PciPool, ...] = ()
    cpu_ratio: float = 1.0
    ram_ratio: float = 1.0

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.topology, self.pools, self.cpu_ratio, self.ram_ratio))

    @functools.cached_property
    def _summary(self) -> numa.NumaSummary | None:
        return None if self.topology is None else numa.NumaSummary.of(self.topology)

    @functools.cached_property
    def free_devices(self) -> int:
        return sum(pool.count for pool in self.pools)

    @classmethod
    def from_texts(
        cls,
        topology: str | None,
        pools: str | None,
        cpu_ratio: float = 1.0,
        ram_ratio: float = 1.0,
    ) -> 'Machine':
        """Read the objects that a ComputeNode carries as text. Raises MalformedObject."""
        return cls(
            numa.HostTopology.from_json(topology) if topology else None,
            pci.pools_from_json(pools) if pools else (),
            cpu_ratio,
            ram_ratio,
        )

    def may_take(self, pieces: HardwareRequest) -> bool:
        """Return False if a few summary figures show that the request cannot fit. True is
        inconclusive."""
        guest, summary = pieces.guest, self._summary
        return guest is None or (summary is not None and summary.may_take(guest))

    def has_devices(
        self, pieces: HardwareRequest, provider_mapping: Mapping | None = None
    ) -> bool:
        """Return whether enough devices of the right kinds are free, in any NUMA cell."""
        return not pieces.requests or (
            bool(self.pools)
            and pci.supports(self.pools, pieces.requests, provider_mapping=provider_mapping)
        )

    def fit(
        self,
        pieces: HardwareRequest,
        packing: bool = False,
        provider_mapping: Mapping | None = None,
        shared: Steps | None = None,
    ) -> HardwareAllocation | None:
        """Return the hardware allocation for the guest; None if it does not fit.

        ``packing`` prefers fuller cells; ``provider_mapping``: see ``pci.PciRequest``; ``shared``:
        the steps of all machines that the guest is tried on; raises Undecided if too few of them
        are left.
        """
        if not self.may_take(pieces) or not self.has_devices(pieces, provider_mapping):
            return None
        if pieces.guest is None or self.topology is None:
            return HardwareAllocation(
                None, pci.take(self.pools, pieces.requests, provider_mapping=provider_mapping)[1]
            )
        wanted = pci.WantedDevices(self.pools, pieces.requests, provider_mapping)
        fitted = numa.fit(
            self.topology, pieces.guest, self.limits(pieces), wanted, packing, shared=shared
        )
        if fitted is None:
            return None
        near = fitted.host_cells, self.topology
        return HardwareAllocation(
            fitted, pci.take(self.pools, pieces.requests, *near, provider_mapping)[1]
        )

    def why_not(self, pieces: HardwareRequest, packing: bool = False) -> str:
        """Return why the guest does not fit, with figures; empty if it fits."""
        if short := self.why_not_devices(pieces):
            return short
        missed = self.miss(pieces, packing)
        return missed.why if missed else ''

    def why_not_devices(self, pieces: HardwareRequest) -> str:
        """Return which devices are short, regardless of their NUMA cell; empty if none is."""
        return pci.why_not(self.pools, pieces.requests)

    def miss(
        self, pieces: HardwareRequest, packing: bool = False, steps: Steps | None = None
    ) -> numa.NumaMiss | None:
        """Return why the guest does not fit into the cells, comparable between nodes; None if it
        fits. ``steps`` are those of its searches."""
        if pieces.guest is None:
            return None
        if self.topology is None:
            return numa.NumaMiss(-1, 0, 'the host reports no NUMA cells')
        wanted = pci.WantedDevices(self.pools, pieces.requests)
        return numa.miss(self.topology, pieces.guest, self.limits(pieces), wanted, packing, steps)

    def limits(self, pieces: HardwareRequest) -> numa.NumaLimits:
        """Return the allocation ratios of the cells, and the networks that must be near the
        guest."""
        return numa.NumaLimits(self.cpu_ratio, self.ram_ratio, pieces.physnets, pieces.tunneled)

    def hold(self, parts: HardwareAllocation) -> 'Machine':
        """Return the machine without the hardware that the allocation holds.

        Hardware that another claim holds too is counted once. Two schedulers may learn late of
        each other's claims. A node may also have given a guest other hardware than was claimed for
        it.
        """
        topology, pools = self.topology, self.pools
        if parts.cells is not None and topology is not None:
            topology = numa.hold(topology, parts.cells)
        if parts.devices:
            pools = pci.hold(pools, parts.devices)
        return dataclasses.replace(self, topology=topology, pools=pools)

    def let_go(self, parts: HardwareAllocation) -> 'Machine':
        """Return the machine with the allocated hardware free again. Raises Overdrawn if it was
        not held."""
        topology = self.topology
        if parts.cells is not None and topology is not None:
            topology = numa.give_back(topology, parts.cells)
        return dataclasses.replace(
            self, topology=topology, pools=pci.give_back(self.pools, parts.devices)
        )
