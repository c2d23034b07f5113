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

"""The CPUs of this machine: which are online, their sockets and siblings, model and features, and
their metrics under the names that Nova's metrics weigher knows."""

import dataclasses
import datetime
import json
import platform
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import psutil

from nova_sched import errors, words
from nova_sched.extensions.agent import sysfs

# CPU features by the kernel's name that libvirt, and so Nova, spells differently.
LIBVIRT_NAMES = {
    'amx_bf16': 'amx-bf16',
    'amx_int8': 'amx-int8',
    'amx_tile': 'amx-tile',
    'arch_capabilities': 'arch-capabilities',
    'avx512_bitalg': 'avx512bitalg',
    'avx512_vbmi2': 'avx512vbmi2',
    'avx512_vnni': 'avx512vnni',
    'avx512_vpopcntdq': 'avx512-vpopcntdq',
    'md_clear': 'md-clear',
    'pclmulqdq': 'pclmuldq',
    'sha_ni': 'sha-ni',
    'sse4_1': 'sse4.1',
    'sse4_2': 'sse4.2',
    'tsc_deadline_timer': 'tsc-deadline',
}
VENDORS = {'GenuineIntel': 'Intel', 'AuthenticAMD': 'AMD', 'HygonGenuine': 'Hygon', '0x41': 'ARM'}
# The source of the metrics; Nova's name -> psutil's
SOURCE = 'nova_sched.agent'
_FIELDS = {'user': 'user', 'kernel': 'system', 'idle': 'idle', 'iowait': 'iowait'}


@dataclasses.dataclass(frozen=True, slots=True)
class Cpu:
    """One online CPU; ``siblings`` are the online CPUs of its core, including itself."""

    id: int
    socket: int | None
    siblings: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Processor:
    """The CPU model; features are in libvirt's spelling, sorted."""

    arch: str
    vendor: str | None
    model: str | None
    features: tuple[str, ...]
    physical_bits: int | None  # width of physical addresses


def parse_ranges(ranges: str, what: str) -> frozenset[int]:
    """Return the CPU ids of a text such as ``0-3,8,^2``.

    Raise BadMachineFacts, which names ``what`` as the source of the text.
    """
    try:
        return words.cpu_ids(ranges)
    except ValueError as error:
        raise errors.BadMachineFacts(what, str(error)) from None


def present(sys_root: Path) -> frozenset[int]:
    """Return the CPUs of the machine, online or not."""
    path = sys_root / 'devices/system/cpu/present'
    return parse_ranges(sysfs.text(path), str(path))


def online(sys_root: Path) -> dict[int, Cpu]:
    """Return the online CPUs by id. Raise BadMachineFacts if the kernel does not list them."""
    root = sys_root / 'devices/system/cpu'
    ids = parse_ranges(sysfs.text(root / 'online'), str(root / 'online'))
    if not ids:
        raise errors.BadMachineFacts(str(root / 'online'), 'no CPU is online')
    by_id = {}
    for cpu in sorted(ids):
        folder, siblings = root / f'cpu{cpu}/topology', frozenset([cpu])
        # Some virtual machines have no topology in sysfs: each CPU counts as one core then.
        if folder.is_dir():
            listed = folder / 'thread_siblings_list'
            siblings |= ids & parse_ranges(sysfs.text(listed), str(listed))
        socket = sysfs.optional_number(folder / 'physical_package_id')
        by_id[cpu] = Cpu(cpu, socket, siblings)
    return by_id


def topology(cpus: Collection[Cpu]) -> dict[str, int]:
    """Return sockets, cores per socket and threads per core: the maximum of each over
    these CPUs."""
    cores: dict[int | None, set[frozenset[int]]] = {}
    for cpu in cpus:
        cores.setdefault(cpu.socket, set()).add(cpu.siblings)
    return {
        'sockets': len(cores),
        'cores': max(map(len, cores.values()), default=0),
        'threads': max((len(cpu.siblings) for cpu in cpus), default=0),
    }


def processor(proc_root: Path, arch: str | None = None) -> Processor:
    """Return the first CPU of cpuinfo; ``arch`` defaults to the running kernel's."""
    first = sysfs.text(proc_root / 'cpuinfo').partition('\n\n')[0]
    lines = (line.partition(':') for line in first.splitlines())
    facts = {key.strip(): value.strip() for key, _, value in lines}
    flags = facts.get('flags') or facts.get('Features') or ''
    vendor = facts.get('vendor_id') or facts.get('CPU implementer')
    bits = re.match(r'(\d+) bits physical', facts.get('address sizes', ''))
    return Processor(
        arch=arch or platform.machine(),
        vendor=VENDORS.get(vendor, vendor) if vendor else None,
        model=facts.get('model name') or facts.get('CPU part'),
        features=tuple(sorted({LIBVIRT_NAMES.get(flag, flag) for flag in flags.split()})),
        physical_bits=int(bits[1]) if bits else None,
    )


def metrics(now: datetime.datetime) -> str:
    """Return the metrics of this machine, in the form of ``metrics_text``.

    Shares are of the time since the last call. The first call in a process covers the time since
    its start.
    """
    frequency = psutil.cpu_freq()
    return metrics_text(
        psutil.cpu_times(),
        psutil.cpu_times_percent(),
        psutil.cpu_percent(),
        frequency.current if frequency else None,
        now,
    )


def metrics_text(
    times: Any, percents: Any, busy_percent: float, mhz: float | None, now: datetime.datetime
) -> str:
    """Return the JSON text of a list of metrics: times in ns since boot, shares of 1, frequency
    in MHz.

    ``times`` (seconds) and ``percents`` are psutil's, ``now`` is in UTC.
    """
    values: dict[str, float] = {} if mhz is None else {'cpu.frequency': int(mhz)}
    for name, field in _FIELDS.items():
        values[f'cpu.{name}.time'] = int(getattr(times, field) * 1e9)
        values[f'cpu.{name}.percent'] = _share(getattr(percents, field))
    values['cpu.percent'] = _share(busy_percent)
    rest = {
        'timestamp': now.replace(tzinfo=None).isoformat(timespec='microseconds'),
        'source': SOURCE,
    }
    return json.dumps([{'name': name, 'value': value, **rest} for name, value in values.items()])


def _share(percent: float) -> float:
    return round(min(max(percent, 0), 100) / 100, 4)
