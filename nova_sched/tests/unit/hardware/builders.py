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
"""Builders of hosts, guests, pools and requests; a row names only what it is about."""

import dataclasses
import gzip
import json
import types
from pathlib import Path

import pytest

from nova_sched.hardware import numa, pci
from nova_sched.hardware.machine import HardwareRequest, Machine


def recorded(name):
    """Rows of recorded cases; data/README.md tells what is in them."""
    content = gzip.decompress((Path(__file__).parent / 'data' / f'{name}.json.gz').read_bytes())
    return [
        pytest.param(case, id=f'case {number}') for number, case in enumerate(json.loads(content))
    ]


def named(value):
    """Plain values as objects with attributes, all the way down; ``spec`` keeps its dicts."""
    if isinstance(value, list):
        return [named(item) for item in value]
    if not isinstance(value, dict):
        return value
    return types.SimpleNamespace(
        **{name: item if name == 'spec' else named(item) for name, item in value.items()}
    )


def cell(
    number=0, cpuset=(), pcpuset=(), cores=None, pinned=(), memory_mb=4096, pages=(), **fields
):
    """A host cell; ``cores`` None: each dedicated CPU has a core of its own; pages as (KiB, total,
    used)."""
    return numa.HostCell(
        id=number,
        cpuset=frozenset(cpuset),
        pcpuset=frozenset(pcpuset),
        memory_mb=memory_mb,
        pinned_cpus=frozenset(pinned),
        siblings=tuple(map(frozenset, [[cpu] for cpu in pcpuset] if cores is None else cores)),
        pages=tuple(numa.HostPages(*some) for some in pages),
        **fields,
    )


def threaded(number=0, first=0, cores=4, **fields):
    """A host cell without CPUs set apart: cores of two threads, (0, 4), (1, 5) and so on from
    ``first``."""
    pairs = [(core, core + cores) for core in range(first, first + cores)]
    cpus = [cpu for pair in pairs for cpu in pair]
    return cell(number, cpus, cpus, pairs, **fields)


def host(*cells):
    return numa.HostTopology(cells)


def shared(cpus=1, number=0, memory_mb=128, **fields):
    return numa.GuestCell(number, frozenset(range(cpus)), frozenset(), memory_mb, **fields)


def dedicated(cpus=1, number=0, memory_mb=128, **fields):
    return mixed(0, cpus, number, memory_mb, cpu_policy='dedicated', **fields)


def mixed(cpus=1, pinned=1, number=0, memory_mb=128, cpu_policy='mixed', **fields):
    both = range(cpus), range(cpus, cpus + pinned)
    return numa.GuestCell(
        number, *map(frozenset, both), memory_mb, cpu_policy=cpu_policy, **fields
    )


def guest(*cells, emulator=None):
    """A guest whose cells are numbered as they come."""
    numbered = (dataclasses.replace(some, id=number) for number, some in enumerate(cells))
    return numa.GuestTopology(tuple(numbered), emulator)


def pool(count=1, node=0, vendor='8086', product='1572', **tags):
    return pci.PciPool(vendor, product, node, tags, count)


def request(count=1, *alternatives, policy='legacy', name='nic', **fields):
    spec = alternatives or ({'vendor_id': '8086'},)
    return pci.PciRequest(count, spec, policy, alias_name=name, **{'request_id': 'r1'} | fields)


def machine(*cells, pools=(), **ratios):
    """A machine of these cells; without any, one that tells of none."""
    return Machine(host(*cells) if cells else None, tuple(pools), **ratios)


def wanted(*cells, requests=(), emulator=None, **fields):
    return HardwareRequest(
        guest(*cells, emulator=emulator) if cells else None, tuple(requests), **fields
    )


def told(one):
    """A machine as words of a report, see tests.builders."""
    cells, pools = one.topology, one.pools
    return {
        'numa_topology': cells and cells.to_json(),
        'pci_pools': pci.pools_to_json(pools) if pools else None,
    }
