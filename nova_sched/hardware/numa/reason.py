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
"""Why a guest does not fit, in words and numbers: the nearest miss."""

from typing import Any

from nova_sched.hardware.numa import cell as one
from nova_sched.hardware.numa.fit import far_networks, fit
from nova_sched.hardware.numa.guest import Guest, GuestCell, Limits
from nova_sched.hardware.numa.host import Topology


def why_not(
    host: Topology, guest: Guest, limits: Limits | None = None, pci: Any = None, packing: bool = False
) -> str:
    """What keeps the guest out of the host; empty if it fits. Arguments as for ``fit``."""
    if fit(host, guest, limits, pci, packing):
        return ''
    if len(host.cells) < len(guest.cells):
        return f'needs {len(guest.cells)} NUMA cells, the host has {len(host.cells)}'
    for position, cell in enumerate(guest.cells):
        if short := _nowhere(host, cell, guest.reserved_cpus(position), limits):
            return f'guest cell {cell.id} {short}'
    if fit(host, guest, limits, pci, packing, thorough=True):
        return 'it fits, but in a way that Nova does not find, nor would its compute node'
    anywhere = limits and Limits(limits.cpu_ratio, limits.ram_ratio)
    fitted = fit(host, guest, anywhere, packing=packing, thorough=True)
    if not fitted:
        return f'each guest cell fits in a host cell, but not all {len(guest.cells)} at once'
    if far := far_networks(host, fitted.host_cells, limits):
        return f'host cells {sorted(fitted.host_cells)} fit, but are not near {", ".join(far)}'
    devices = pci and pci.why_not(fitted.host_cells, host)
    return f'host cells {sorted(fitted.host_cells)} fit, but not with the PCI devices: {devices}'


def _nowhere(host: Topology, cell: GuestCell, reserved: int, limits: Limits | None) -> str:
    """What the host cell lacks that came nearest to taking the guest cell; empty if one takes it."""
    found = [one.place(host_cell, cell, reserved, limits) for host_cell in host.cells]
    short = [some for some in found if isinstance(some, one.Shortage)]
    if not short or len(short) < len(found):
        return ''
    nearest = max(short, key=lambda some: (some.stage, some.has - some.needs))
    return f'needs {nearest.needs:g} {nearest.what}, the best host cell has {max(nearest.has, 0):g}'
