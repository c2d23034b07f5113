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
"""One guest cell into one host cell: where it would lie, or what is short."""

import functools
from typing import NamedTuple

from nova_sched.hardware import numa_cores
from nova_sched.hardware.numa_guest import (
    ANY,
    DEDICATED,
    ISOLATE,
    LARGE,
    REQUIRE,
    SHARED,
    SMALL,
    GuestCell,
    Limits,
    Placed,
)
from nova_sched.hardware.numa_host import Cell


class Shortage(NamedTuple):
    """What keeps a guest cell out of a host cell; the higher ``stage``, the nearer it came."""

    stage: int
    what: str  # with its unit, as in 'MiB of free memory'
    needs: float
    has: float
    size_kb: int | None = None


def place(host: Cell, guest: GuestCell, reserved: int, limits: Limits | None) -> Placed | Shortage:
    """Where the guest cell would lie in the host cell, with ``reserved`` CPUs for the emulator."""
    size_kb = _page_size(host, guest)
    if isinstance(size_kb, Shortage):
        return size_kb
    short = _too_few(host, guest, reserved)
    if short:
        return short._replace(size_kb=size_kb)
    pins = numa_cores.NONE
    if guest.is_pinned:
        pins = numa_cores.pin(host, len(guest.pcpuset), reserved, guest.thread_policy)
        if pins is None: return _cores_short(host, guest, reserved)._replace(size_kb=size_kb)
    short = _overcommitted(host, guest, limits)
    if short: return short._replace(size_kb=size_kb)
    pinning = dict(zip(guest.pinned_vcpus, pins.guest, strict=True))
    return Placed(guest, host.id, pinning, pins.emulator, size_kb)


def _page_size(host: Cell, guest: GuestCell) -> int | None | Shortage:
    """Size (KiB) of the pages that the guest cell would get, None if it does not care."""
    memory_kb = guest.memory_mb * 1024
    sizes = list(host.pages_by_size)
    if guest.pagesize_kb is None:
        return _any_memory(host, guest)
    if guest.pagesize_kb in (SMALL, LARGE, ANY):
        # The largest that fits: it makes the guest's page tables smallest.
        first = 1 if guest.pagesize_kb == LARGE else 0
        last = 1 if guest.pagesize_kb == SMALL else None
        sizes = sizes[first:last][::-1]
    else:
        sizes = [guest.pagesize_kb]
    for size_kb in sizes:
        pages = host.pages_by_size.get(size_kb)
        if pages and memory_kb % size_kb == 0 and pages.free * size_kb >= memory_kb:
            return size_kb
    return _pages_short(host, guest, sizes)


def _any_memory(host: Cell, guest: GuestCell) -> None | Shortage:
    """Memory of the smallest pages, or of no pages at all; a pinned guest needs it free."""
    if not host.pages:
        has = host.free_memory_mb if guest.is_pinned else host.memory_mb
    else:
        smallest = next(iter(host.pages_by_size.values()))
        pages = smallest.free if guest.is_pinned else smallest.total
        has = pages * smallest.size_kb // 1024
    if guest.memory_mb <= has:
        return None
    return Shortage(1, 'MiB of free memory' if guest.is_pinned else 'MiB of memory', guest.memory_mb, has)


def _pages_short(host, guest, sizes) -> Shortage:
    pages = [host.pages_by_size[size_kb] for size_kb in sizes if size_kb in host.pages_by_size]
    if not pages:
        what = f'{guest.pagesize_kb} KiB' if guest.pagesize_kb > 0 else 'a size other than the smallest'
        return Shortage(0, f'MiB in pages of {what}', guest.memory_mb, 0)
    best = max(pages, key=lambda some: some.free * some.size_kb)
    memory_kb = guest.memory_mb * 1024
    if memory_kb % best.size_kb:
        return Shortage(0, f'MiB in whole pages of {best.size_kb} KiB', guest.memory_mb, best.free * best.size_kb // 1024)
    return Shortage(1, f'free pages of {best.size_kb} KiB', memory_kb // best.size_kb, max(best.free, 0))


def _too_few(host, guest, reserved):
    if guest.cpu_policy != DEDICATED and len(guest.cpuset) > len(host.cpuset):
        return Shortage(2, 'shared CPUs', len(guest.cpuset), len(host.cpuset))
    if guest.is_pinned:
        asked = len(guest.pcpuset) + reserved
        if asked > len(host.pcpuset):
            return Shortage(2, 'dedicated CPUs', asked, len(host.pcpuset))
        if asked > len(host.free_pcpus):
            return Shortage(3, 'free dedicated CPUs', asked, len(host.free_pcpus))
        if guest.thread_policy == ISOLATE and host.threads_per_core > 1 and host.cpuset != host.pcpuset:
            return Shortage(3, 'isolate', 1, 0)
    return None


def _overcommitted(host, guest, limits):
    if limits is None or guest.cpu_policy == DEDICATED: return None
    asked = len(guest.cpuset)
    cpus, memory_mb = len(host.cpuset) * limits.cpu_ratio, host.memory_mb * limits.ram_ratio
    if host.cpu_usage + asked > cpus:
        return Shortage(5, 'shared CPUs under the allocation ratio', asked, cpus - host.cpu_usage)
    if host.memory_usage_mb + guest.memory_mb > memory_mb:
        what = 'MiB of memory under the allocation ratio'
        return Shortage(5, what, guest.memory_mb, memory_mb - host.memory_usage_mb)
    return None


def _cores_short(host, guest, reserved):
    return Shortage(4, 'cores', 1, 0)
