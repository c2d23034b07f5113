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
"""NUMA cells and PCI devices as a compute node reports them."""

import json

from nova import objects


def cells(count=2, *, cpus=4, memory_mb=4096, threads=1, huge_pages=0, shared=False):
    """The NUMA topology of a node as text: alike cells of dedicated CPUs, ``threads`` of them to a
    core.

    ``shared``: the CPUs may be shared as well, as where none were set apart. Of a cell's memory
    ``huge_pages`` are pages of 2 MiB, the rest small ones.
    """
    made = []
    for number in range(count):
        numbers = range(number * cpus, (number + 1) * cpus)
        small_kb = 1024 * memory_mb - 2048 * huge_pages
        made.append(
            objects.NUMACell(
                id=number,
                cpuset=set(numbers) if shared else set(),
                pcpuset=set(numbers),
                memory=memory_mb,
                cpu_usage=0,
                memory_usage=0,
                pinned_cpus=set(),
                siblings=[
                    set(numbers[first : first + threads]) for first in range(0, cpus, threads)
                ],
                mempages=[_pages(4, small_kb // 4), _pages(2048, huge_pages)],
                network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
                socket=number,
            )
        )
    return json.dumps(objects.NUMATopology(cells=made).obj_to_primitive())


def _pages(size_kb, total):
    return objects.NUMAPagesTopology(size_kb=size_kb, total=total, used=0, reserved=0)


def devices(count, *, product='20b0', cell=None):
    """A pool of free PCI devices, all of them in one NUMA cell, or in none."""
    pool = objects.PciDevicePool(
        vendor_id='10de',
        product_id=product,
        numa_node=cell,
        count=count,
        tags={'dev_type': 'type-PCI'},
    )
    return objects.PciDevicePoolList(objects=[pool])


def frequency(mhz):
    """The metrics of a node whose CPUs run at this clock."""
    metric = {
        'name': 'cpu.frequency',
        'value': mhz,
        'timestamp': '2027-01-15T08:00:00.000000',
        'source': 'libvirt',
    }
    return json.dumps([metric])
