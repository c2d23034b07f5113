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
"""Explains in text and figures why a guest does not fit: the nearest miss."""

from typing import Any, NamedTuple

from nova_sched.hardware import Steps, Undecided
from nova_sched.hardware.numa import cell as cell_fit
from nova_sched.hardware.numa.fit import MAX_STEPS, far_networks, search
from nova_sched.hardware.numa.guest import GuestCell, GuestTopology, NumaLimits
from nova_sched.hardware.numa.host import HostTopology


class NumaMiss(NamedTuple):
    """Why a guest does not fit. Of two, the greater one came nearer: ``stage`` is the failed
    check."""

    stage: int
    gap: float
    why: str


CELLS, WITHIN, AT_ONCE, NEAR, DEVICES = 0, 1, 100, 101, 102


def why_not(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None = None,
    pci: Any = None,
    packing: bool = False,
) -> str:
    """Returns why the guest does not fit on the host; empty if it fits. Arguments as for
    ``fit``."""
    missed = miss(host, guest, limits, pci, packing)
    return missed.why if missed else ''


def miss(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None = None,
    pci: Any = None,
    packing: bool = False,
    steps: Steps | None = None,
) -> NumaMiss | None:
    """Returns why the guest does not fit on the host, comparable between hosts; None if it
    fits. ``steps`` are those of all searches; None: MAX_STEPS."""
    if len(host.cells) < len(guest.cells):
        why = f'needs {len(guest.cells)} NUMA cells, the host has {len(host.cells)}'
        return NumaMiss(CELLS, len(host.cells), why)
    for position, cell in enumerate(guest.cells):
        if missed := _nowhere(host, cell, guest.reserved_cpus(position), limits):
            return missed
    try:
        return _together(host, guest, limits, pci, packing, steps or Steps(MAX_STEPS))
    except Undecided:
        return NumaMiss(AT_ONCE, -1, 'its cells allow too many choices to search all of them')


def _together(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None,
    pci: Any,
    packing: bool,
    steps: Steps,
) -> NumaMiss | None:
    """Returns what is short where each guest cell fits into some host cell; None if they fit.
    Raises Undecided."""
    if search(host, guest, limits, pci, packing, False, steps):
        return None
    if search(host, guest, limits, pci, packing, True, steps):
        return NumaMiss(
            AT_ONCE, 0, 'it fits, but in a way that Nova does not find, nor would its compute node'
        )
    anywhere = limits and NumaLimits(limits.cpu_ratio, limits.ram_ratio)
    fitted = search(host, guest, anywhere, None, packing, True, steps)
    if not fitted:
        why = f'each guest cell fits in a host cell, but not all {len(guest.cells)} at once'
        return NumaMiss(AT_ONCE, 0, why)
    if far := far_networks(host, fitted.host_cells, limits):
        why = f'host cells {sorted(fitted.host_cells)} fit, but are not near {", ".join(far)}'
        return NumaMiss(NEAR, -len(far), why)
    devices = pci and pci.why_not(fitted.host_cells, host)
    why = f'host cells {sorted(fitted.host_cells)} fit, but not with the PCI devices: {devices}'
    return NumaMiss(DEVICES, 0, why)


def _nowhere(
    host: HostTopology, cell: GuestCell, reserved: int, limits: NumaLimits | None
) -> NumaMiss | None:
    """Returns what is short in the host cell that came nearest to fitting the guest cell; None if
    one fits."""
    outcomes = [cell_fit.place(host_cell, cell, reserved, limits) for host_cell in host.cells]
    short = [some for some in outcomes if isinstance(some, cell_fit.CellShortage)]
    if not short or len(short) < len(outcomes):
        return None
    nearest = max(short, key=lambda some: (some.stage, some.has - some.needs))
    needs = (
        f'needs {nearest.needs:g} {nearest.what}, the best host cell has {max(nearest.has, 0):g}'
    )
    return NumaMiss(
        WITHIN + nearest.stage, nearest.has - nearest.needs, f'guest cell {cell.id} {needs}'
    )
