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
"""Claims on a ComputeNode object."""

import pytest

from nova_sched import errors, objects
from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.hardware import pci
from nova_sched.hardware.numa import HostTopology
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.functional.harness import compute_node
from nova_sched.tests.hardware_objects import node_fields
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    mixed,
    pool,
    shared,
    wanted,
)
from nova_sched.tests.unit.hardware.builders import request as device
from nova_sched.tests.unit.objects import reference

A, B = map(uuid_of, 'ab')
HAS = machine(
    cell(0, [0, 1], range(2, 8), pages=[(4, 100_000), (2048, 4)], memory_mb=1024),
    cell(1, [8, 9], range(10, 16), memory_mb=1024),
    pools=[pool(2, 0, physical_network='a'), pool(1, 1, '10de', '20b0')],
)
LARGE = {'memory_mb': 8, 'pagesize_kb': 2048}


def node(has=HAS, **fields):
    """A ComputeNode with these cells and devices."""
    return compute_node(**node_fields(has), **fields)


def inside(one):
    """Pinned CPUs by cell, huge pages in use, and the count of each pool."""
    cells = HostTopology.from_json(one.numa_topology).cells
    pinned = [sorted(found.pinned_cpus) for found in cells]
    large = [pages.used for found in cells for pages in found.pages if pages.size_kb == 2048]
    return pinned, large, {found.vendor_id: found.count for found in one.pci_device_pools}


def asked(pieces, uuid=A, **words):
    return request(**{'instance_uuid': uuid, 'pieces': pieces} | words)


def test_a_claim_takes_cpus_pages_and_devices():
    one = node()
    claim = one.instance_claim(asked(wanted(dedicated(3, **LARGE), requests=[device(1)])))
    assert inside(one) == ([[2, 3, 4], []], [4], {'8086': 1, '10de': 1})
    assert (one.vcpus_used, one.memory_mb_used, one.free_ram_mb) == (1, 512, 16384 - 512)
    assert claim.node_uuid == one.uuid
    assert claim.parts.cells.host_cells == (0,)
    one.release(claim)
    assert inside(one) == ([[], []], [0], {'8086': 2, '10de': 1})
    assert (one.vcpus_used, one.memory_mb_used) == (0, 0)


def test_a_second_request_sees_them_gone():
    one = node()
    wants = wanted(dedicated(6), requests=[device(1, policy='required')])
    first = one.instance_claim(asked(wants, A))
    with pytest.raises(errors.ComputeResourcesUnavailable) as short:
        one.instance_claim(asked(wants, B))
    assert short.value.shortages == (
        'host cells [1] fit, but not with the PCI devices: nic: 1 devices asked, '
        '0 near to the NUMA cells'
    )
    assert short.value.node == one.uuid
    one.release(first)
    assert one.instance_claim(asked(wants, B)).parts == first.parts


def test_a_pool_that_runs_empty_is_not_reported_and_comes_back():
    one = node()
    wants = wanted(requests=[device(2)])
    first = one.instance_claim(asked(wants))
    assert inside(one)[2] == {'10de': 1}
    one.release(first)
    assert inside(one)[2] == {'8086': 2, '10de': 1}
    assert {tuple(some.tags.items()) for some in one.pci_device_pools} == {
        (),
        (('physical_network', 'a'),),
    }


@pytest.mark.parametrize(
    'pieces, words, shortages',
    [
        pytest.param(
            wanted(dedicated(7)),
            {},
            'guest cell 0 needs 7 dedicated CPUs, the best host cell has 6',
            id='CPUs',
        ),
        pytest.param(
            wanted(shared(1, memory_mb=10, pagesize_kb=2048)),
            {},
            'guest cell 0 needs 10 MiB in free pages of 2048 KiB, the best host cell has 8',
            id='pages',
        ),
        pytest.param(
            wanted(requests=[device(1, {'vendor_id': 'dead'}, name='gpu')]),
            {},
            'gpu: 1 devices asked, 0 free that match',
            id='devices',
        ),
        pytest.param(
            wanted(shared(3)),
            {'vcpus': 9, 'root_gb': 101},
            'VCPU: 9 asked, the node has 8 in all; DISK_GB: 101 asked, the node has 100 in all; '
            'guest cell 0 needs 3 shared CPUs, the best host cell has 2',
            id='everything that is short',
        ),
    ],
)
def test_what_is_short_is_said_and_nothing_is_taken(pieces, words, shortages):
    one = node()
    before = objects.to_primitive(one)
    with pytest.raises(errors.ComputeResourcesUnavailable) as short:
        one.instance_claim(asked(pieces, **words))
    assert short.value.shortages == shortages
    assert objects.to_primitive(one) == before


@pytest.mark.parametrize(
    'made, pieces, short',
    [
        pytest.param(
            compute_node(), wanted(shared()), 'reports neither NUMA cells nor', id='unset'
        ),
        pytest.param(
            compute_node(numa_topology=None, pci_device_pools=None),
            wanted(requests=[device()]),
            'reports neither NUMA cells nor',
            id='null',
        ),
        pytest.param(
            node(machine(pools=[pool()])),
            wanted(shared()),
            'reports no NUMA cells',
            id='no cells',
        ),
        pytest.param(
            node(machine(cell(0))),
            wanted(requests=[device()]),
            '1 devices asked, 0 free',
            id='no pools',
        ),
    ],
)
def test_a_node_that_does_not_tell(made, pieces, short):
    with pytest.raises(errors.ComputeResourcesUnavailable, match=short):
        made.instance_claim(asked(pieces))


def test_devices_of_a_node_without_cells():
    one = node(machine(pools=[pool(1)]))
    claim = one.instance_claim(asked(wanted(requests=[device()])))
    assert (one.numa_topology, list(one.pci_device_pools)) == (None, [])
    one.release(claim)
    assert [some.count for some in one.pci_device_pools] == [1]


# Dedicated CPUs by amount.


@pytest.mark.parametrize(
    'before, pieces, resources, short',
    [
        pytest.param(HAS, wanted(dedicated(4)), {PCPU: 4}, None, id='of one cell'),
        pytest.param(HAS, wanted(mixed(1, 3)), {VCPU: 1, PCPU: 3}, None, id='mixed'),
        pytest.param(
            HAS,
            wanted(dedicated(4)),
            {PCPU: 13},
            'PCPU: 13 asked, the node has 12 in all',
            id='too many',
        ),
        pytest.param(
            HAS.hold(HAS.fit(wanted(dedicated(6), dedicated(5)))),
            wanted(dedicated(1)),
            {PCPU: 2},
            'PCPU: 2 asked, 1 available',
            id='what is pinned is used',
        ),
        pytest.param(
            machine(pools=[pool()]),
            wanted(),
            {PCPU: 1},
            'PCPU: 1 asked, the node has 0 in all',
            id='no cells',
        ),
    ],
)
def test_dedicated_cpus(before, pieces, resources, short):
    one = node(before)
    if short:
        with pytest.raises(errors.ComputeResourcesUnavailable, match=short):
            one.instance_claim(asked(pieces, resources=resources))
        return
    claim = one.instance_claim(asked(pieces, resources=resources))
    assert one.usage(PCPU).used == resources[PCPU]
    one.release(claim)
    assert one.usage(PCPU).used == 0


# Other nodes.


def test_amounts_alone():
    one = compute_node(cpu_allocation_ratio=2.0, vcpus_used=3)
    claim = one.instance_claim(request(vcpus=8, memory_mb=1024, root_gb=20))
    assert (one.vcpus_used, one.memory_mb_used, one.local_gb_used) == (11, 1024, 20)
    assert (one.free_ram_mb, one.free_disk_gb) == (15360, 80)
    with pytest.raises(errors.ComputeResourcesUnavailable, match='VCPU: 6 asked, 5 available'):
        one.instance_claim(request(vcpus=6))
    one.release(claim)
    assert (one.vcpus_used, one.memory_mb_used, one.local_gb_used) == (3, 0, 0)
    assert claim.resources == {VCPU: 8, MEMORY_MB: 1024, DISK_GB: 20}


def test_an_unknown_class():
    with pytest.raises(
        errors.ComputeResourcesUnavailable, match='CUSTOM_GOLD: 1 asked, the node has 0'
    ):
        compute_node().instance_claim(request(resources={'CUSTOM_GOLD': 1}))


def test_a_node_of_nova():
    """The recorded node has cells and devices: some of them are taken, and all come back."""
    one = objects.from_primitive(
        reference.wire('object-ComputeNode-numa-pci-metrics.json')['primitive']
    )
    before, free = HostTopology.from_json(one.numa_topology), pci.pools_of(one.pci_device_pools)
    wants = wanted(dedicated(1), requests=[device(1, {'vendor_id': '10de', 'product_id': '20b0'})])
    claim = one.instance_claim(asked(wants))
    (placed,) = claim.parts.cells.cells
    pinned = {
        cpu
        for found in HostTopology.from_json(one.numa_topology).cells
        for cpu in found.pinned_cpus
    }
    assert placed.host_cpus <= pinned
    assert (
        sum(found.count for found in one.pci_device_pools)
        == sum(found.count for found in free) - 1
    )
    one.release(claim)
    assert HostTopology.from_json(one.numa_topology) == before
    assert sorted(map(repr, pci.pools_of(one.pci_device_pools))) == sorted(map(repr, free))
