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
"""Devices for requests: the pools they come from, the devices that are left, and the shortage.

Requests are met in order, each from the devices that the earlier ones left.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nova_sched.hardware import Overdrawn
from nova_sched.hardware.numa.host import HostTopology
from nova_sched.hardware.pci.devices import PF, VDPA, PciPool
from nova_sched.hardware.pci.request import LEGACY, PREFERRED, SOCKET, PciRequest

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
        """Returns the number of free devices of any kind in one cell."""
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
    """Returns whether there are devices for all requests.

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
    """Returns what is short, in text and figures; empty if nothing is. Arguments as for
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
    """Returns the pools without the devices, and the devices. Raises Overdrawn. Arguments as for
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
    """Returns pools that can meet the request, the first choice first. Raises Overdrawn."""
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
    """Returns how many free devices match one of the alternatives, and may be given to a request
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
    """Returns pools as near as the policy prefers; farther ones if needed, as far as the policy
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
    """Returns sets of NUMA nodes, the strictest first."""
    own: set[int | None] = set(cells)
    yield own
    if policy == SOCKET and host is not None:
        yield own | host.on_sockets_of(cells)
    elif policy in (LEGACY, PREFERRED):
        yield own | {None}


def _may_have(pool: PciPool, request: PciRequest) -> bool:
    """Returns whether the devices are available to this request: some kinds must be asked for
    explicitly."""
    if pool.dev_type in (PF, VDPA) and pool.dev_type not in request.dev_types:
        return False
    return request.remote_managed or not pool.remote_managed


def _drawn(
    pools: list[PciPool], rows: list[int], providers: list[str], count: int
) -> Iterator[PciPool]:
    """Takes the devices out of the pools, and yields them: allocated devices first, then any."""
    allocated = [(row, 1) for uuid in providers for row in rows if pools[row].rp_uuid == uuid]
    for row, most in [*allocated, *((row, count) for row in rows)]:
        some = min(most, count, pools[row].count)
        if some:
            yield dataclasses.replace(pools[row], count=some)
            pools[row] = dataclasses.replace(pools[row], count=pools[row].count - some)
            count -= some


def give_back(pools: Sequence[PciPool], taken: Iterable[TakenDevice]) -> tuple[PciPool, ...]:
    """Returns the pools with the devices in them again; pools that the node no longer has come
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
    """Returns the pools without these devices, as far as available: no count goes below zero."""
    left = list(pools)
    for _, some in taken:
        for row, pool in enumerate(left):
            if pool.is_like(some):
                left[row] = dataclasses.replace(pool, count=max(pool.count - some.count, 0))
                break
    return tuple(left)
