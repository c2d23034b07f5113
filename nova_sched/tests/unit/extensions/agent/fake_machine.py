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

"""Builds small /sys and /proc trees, so that tests can read machines that do not exist."""

import os
from collections.abc import Mapping
from pathlib import Path

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Gold 6126 CPU @ 2.60GHz
flags\t\t: fpu vmx sse4_1 sse4_2 aes avx2 pni
address sizes\t: 46 bits physical, 48 bits virtual

processor\t: 1
vendor_id\t: SomeoneElse
"""


class FakeMachine:
    """A tree under ``root``; each method adds a part of it and returns the machine."""

    def __init__(self, root: Path):
        self.sys = root / 'sys'
        self.proc = root / 'proc'
        self.file('cpuinfo', CPUINFO, self.proc)

    def file(self, path: str, content: object, root: Path | None = None) -> 'FakeMachine':
        target = (root or self.sys) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f'{content}\n')
        return self

    def unreadable(self, path: str) -> 'FakeMachine':
        """Put a directory where a file should be: even root cannot read that."""
        (self.sys / path).unlink(missing_ok=True)
        (self.sys / path).mkdir(parents=True)
        return self

    def cpus(self, cores: list[str], online: str | None = None, sockets: int = 1) -> 'FakeMachine':
        """CPUs by core, such as ``['0,2', '1,3']``; the cores are dealt to the sockets in
        order."""
        every = ','.join(cores)
        self.file('devices/system/cpu/present', every)
        self.file('devices/system/cpu/online', online or every)
        for position, siblings in enumerate(cores):
            for cpu in siblings.split(','):
                topology = f'devices/system/cpu/cpu{cpu}/topology'
                self.file(f'{topology}/thread_siblings_list', siblings)
                self.file(f'{topology}/physical_package_id', position * sockets // len(cores))
        return self

    def cell(
        self,
        cell: int,
        cpus: str,
        memory_mb: int,
        huge: Mapping[int, tuple[int, int]] | None = None,
    ) -> 'FakeMachine':
        """One NUMA cell; ``huge`` maps a page size in kiB to how many there are and how many are
        free."""
        node = f'devices/system/node/node{cell}'
        self.file(f'{node}/cpulist', cpus)
        self.file(
            f'{node}/meminfo',
            f'Node {cell} MemTotal:  {memory_mb * 1024} kB\nNode {cell} MemFree: 7 kB',
        )
        return self.huge(huge or {}, node)

    def huge(self, huge: Mapping[int, tuple[int, int]], root: str) -> 'FakeMachine':
        for size_kb, (total, free) in huge.items():
            pages = f'{root}/hugepages/hugepages-{size_kb}kB'
            self.file(f'{pages}/nr_hugepages', total).file(f'{pages}/free_hugepages', free)
        return self

    def device(
        self, address: str, vendor='8086', product='1572', numa_node=-1, **facts
    ) -> 'FakeMachine':
        """One PCI function; ``facts``: vfs (how many it can have), parent (address), driver,
        interface."""
        path = f'bus/pci/devices/{address}'
        self.file(f'{path}/vendor', f'0x{vendor}').file(f'{path}/device', f'0x{product}')
        self.file(f'{path}/class', '0x020000').file(f'{path}/numa_node', numa_node)
        if 'vfs' in facts:
            self.file(f'{path}/sriov_totalvfs', facts['vfs'])
        if 'parent' in facts:
            os.symlink(f'../{facts["parent"]}', self.sys / path / 'physfn')
        if 'driver' in facts:
            os.symlink(f'../../drivers/{facts["driver"]}', self.sys / path / 'driver')
        if 'interface' in facts:
            (self.sys / path / 'net' / facts['interface']).mkdir(parents=True)
        return self


def two_cells(root: Path) -> FakeMachine:
    """Two sockets, two cells, four cores of two threads, huge pages of two sizes in the first
    cell.

    ::

        cell 0  CPUs 0 1 4 5  cores 0,4 1,5  4096 MiB  2 MiB pages: 100, 60 free;
                                                        1 GiB pages: 2, free
        cell 1  CPUs 2 3 6 7  cores 2,6 3,7  2048 MiB
    """
    machine = FakeMachine(root).cpus(['0,4', '1,5', '2,6', '3,7'], sockets=2)
    machine.cell(0, '0-1,4-5', 4096, {2048: (100, 60), 1048576: (2, 2)})
    return machine.cell(1, '2-3,6-7', 2048)


def network_card(machine: FakeMachine) -> FakeMachine:
    """A physical function with two virtual ones, near cell 1, and a GPU that tells no cell."""
    machine.device('0000:03:00.0', numa_node=1, vfs=64, driver='i40e', interface='ens1f0')
    for function in (1, 2):
        machine.device(
            f'0000:03:00.{function}', product='154c', numa_node=1, parent='0000:03:00.0'
        )
    return machine.device('0000:81:00.0', vendor='10de', product='20b0', driver='vfio-pci')
