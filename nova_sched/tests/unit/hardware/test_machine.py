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
"""Machines: what fits, what is held and let go, their text, and which requests are alike."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched import errors, objects
from nova_sched.hardware import Overdrawn, numa, pci
from nova_sched.hardware.machine import HardwareAllocation, HardwareRequest, Machine
from nova_sched.objects import object_io
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    guest,
    machine,
    mixed,
    pool,
    request,
    shared,
    threaded,
    wanted,
)
from nova_sched.tests.unit.hardware.numa.test_properties import guests, hosts
from nova_sched.tests.unit.hardware.test_pci_properties import pools, requests

GPU = {'vendor_id': '10de'}
LARGE_PAGES = [(4, 100_000, 0), (2048, 8, 0)]


TWO = machine(
    cell(0, [0, 1], range(10, 14), memory_mb=2048, pages=LARGE_PAGES, physnets=frozenset('a')),
    cell(1, [2, 3], range(20, 24), memory_mb=1024),
    pools=[pool(2, 0), pool(1, 1, '10de', '20b0'), pool(1, None, 'dead', 'beef')],
)


@table(
    'has, asked, cells, devices',
    {
        'shared, where fewest devices are': (TWO, wanted(shared(2)), [(1, set())], []),
        'dedicated': (TWO, wanted(dedicated(3)), [(1, {20, 21, 22})], []),
        'mixed': (TWO, wanted(mixed(1, 2)), [(1, {20, 21})], []),
        'a CPU for the emulator': (
            TWO,
            wanted(dedicated(1), emulator='isolate'),
            [(1, {20, 21})],
            [],
        ),
        'two cells': (
            TWO,
            wanted(dedicated(4), dedicated(4)),
            [(0, set(range(10, 14))), (1, set(range(20, 24)))],
            [],
        ),
        'more than a cell has': (TWO, wanted(dedicated(5)), None, None),
        'more cells': (TWO, wanted(shared(), shared(), shared()), None, None),
        'huge pages': (TWO, wanted(dedicated(1, memory_mb=16, pagesize_kb=2048)), [(0, {10})], []),
        'too few of them': (TWO, wanted(shared(memory_mb=18, pagesize_kb=2048)), None, None),
        'where the device is': (
            TWO,
            wanted(dedicated(1), requests=[request(1, GPU)]),
            [(1, {20})],
            [(1, '10de')],
        ),
        'both devices': (
            TWO,
            wanted(dedicated(1), requests=[request(2)]),
            [(0, {10})],
            [(2, '8086')],
        ),
        'devices in different cells': (
            TWO,
            wanted(dedicated(1), requests=[request(2), request(1, GPU)]),
            None,
            None,
        ),
        'and a guest in both': (
            TWO,
            wanted(dedicated(1), dedicated(1), requests=[request(2), request(1, GPU)]),
            [(0, {10}), (1, {20})],
            [(2, '8086'), (1, '10de')],
        ),
        'devices alone, wherever they are': (
            TWO,
            wanted(requests=[request(2), request(1, GPU)]),
            [],
            [(2, '8086'), (1, '10de')],
        ),
        'more devices than there are': (TWO, wanted(requests=[request(3)]), None, None),
        'the first takes them all': (TWO, wanted(requests=[request(2), request(1)]), None, None),
        'near the network': (TWO, wanted(shared(), physnets=frozenset('a')), [(0, set())], []),
        'no cells told': (
            machine(pools=[pool(1)]),
            wanted(requests=[request(1)]),
            [],
            [(1, '8086')],
        ),
        'no cells told, but asked for': (
            machine(pools=[pool(1)]),
            wanted(shared(), requests=[request()]),
            None,
            None,
        ),
        'no devices told': (machine(cell(0)), wanted(requests=[request(1)]), None, None),
        'ratio 1': (machine(cell(0, [0], cpu_usage=3)), wanted(shared()), None, None),
        'ratio 4': (
            machine(cell(0, [0], cpu_usage=3), cpu_ratio=4.0),
            wanted(shared()),
            [(0, set())],
            [],
        ),
        'memory ratio 1': (
            machine(cell(0, [0], memory_usage_mb=4000), ram_ratio=1.0),
            wanted(shared()),
            None,
            None,
        ),
        'memory ratio 1.5': (
            machine(cell(0, [0], memory_usage_mb=4000), ram_ratio=1.5),
            wanted(shared()),
            [(0, set())],
            [],
        ),
    },
)
def test_fit(has, asked, cells, devices):
    parts = has.fit(asked)
    assert (has.why_not(asked) == '') == (parts is not None)
    if cells is None:
        assert parts is None
        return
    found = parts.cells.cells if parts.cells else ()
    assert [(one.host_cell, one.host_cpus) for one in found] == cells
    assert [(one.pool.count, one.pool.vendor_id) for one in parts.devices] == devices


@each('packing, on', [(False, 1), (True, 0)])
def test_packing_prefers_the_fuller_cell(packing, on):
    has = machine(cell(0, [0, 1, 2, 3], cpu_usage=1), cell(1, [4, 5, 6, 7]))
    assert has.fit(wanted(shared()), packing=packing).cells.host_cells == (on,)


def test_devices_of_the_allocated_provider():
    has = machine(pools=[pool(1, rp_uuid='rp1'), pool(1, rp_uuid='rp2')])
    asked = wanted(requests=[request(1)])
    for uuid in ('rp1', 'rp2'):
        mapping = {'r1-0': [uuid]}
        assert has.has_devices(asked, mapping)
        assert [one.pool.rp_uuid for one in has.fit(asked, provider_mapping=mapping).devices] == [
            uuid
        ]
    assert has.fit(asked, provider_mapping={'r1-0': ['rp3']}) is None


# Hold and let go.


def test_what_is_held_is_gone_and_comes_back():
    asked = wanted(dedicated(2, memory_mb=8, pagesize_kb=2048), requests=[request(2)])
    parts = TWO.fit(asked)
    held = TWO.hold(parts)
    assert held.topology.cells[0].pinned_cpus == {10, 11}
    assert held.topology.cells[0].pages_by_size[2048].used == 4
    assert held.free_devices == TWO.free_devices - 2
    assert held.fit(asked) is None
    assert held.why_not(asked) == 'nic: 2 devices asked, 0 free that match'
    assert held.let_go(parts) == TWO
    assert hash(held.let_go(parts)) == hash(TWO)


def test_what_two_hold_is_held_once():
    parts = TWO.fit(wanted(dedicated(2), requests=[request(2)]))
    twice = TWO.hold(parts).hold(parts)
    assert twice.topology.cells[0].pinned_cpus == {10, 11}
    assert [one.count for one in twice.pools] == [0, 1, 1]


def test_what_the_machine_has_not_is_passed_over():
    parts = TWO.fit(wanted(dedicated(2), requests=[request(2)]))
    other = machine(cell(7), pools=[pool(1, 5)])
    assert other.hold(parts) == other
    assert machine().hold(parts) == machine()


def test_what_is_not_held_cannot_be_let_go():
    with pytest.raises(Overdrawn, match=r'CPUs \[20\] are not in use'):
        TWO.let_go(TWO.fit(wanted(dedicated(1))))


def test_a_pool_that_ran_empty_is_there_again():
    """A node reports no empty pools; what comes back is a pool of its own then."""
    parts = TWO.fit(wanted(requests=[request(2)]))
    without = dataclasses.replace(TWO, pools=TWO.pools[1:])
    assert without.let_go(parts).free_devices == TWO.free_devices


fits = given(hosts(roomy=True), pools(), guests(small=True), requests, st.booleans())


@fits
def test_whatever_fits_is_held_and_let_go(cells, some, asked, several, packing):
    has = Machine(cells, some, 2.0, 2.0)
    pieces = HardwareRequest(asked, tuple(several))
    parts = has.fit(pieces, packing)
    assert (parts is None) == bool(has.why_not(pieces, packing))
    assert (parts is None) == (
        not has.has_devices(pieces) or has.miss(pieces, packing) is not None
    )
    if parts is None:
        return
    assert has.may_take(pieces)
    held = has.hold(parts)
    assert held.let_go(parts) == has
    assert held.free_devices == has.free_devices - sum(one.count for one in several)
    pinned = {cpu for one in held.topology.cells for cpu in one.pinned_cpus}
    before = {cpu for one in cells.cells for cpu in one.pinned_cpus}
    own = [cpu for one in parts.cells.cells for cpu in one.host_cpus]
    assert len(own) == sum(asked.dedicated_cpus)
    assert before.isdisjoint(own)
    assert pinned >= before | {*own}
    assert HardwareAllocation.from_json(parts.to_json()) == parts
    assert held.let_go(HardwareAllocation.from_json(parts.to_json())) == has


# Why not.


@table(
    'has, asked, why',
    {
        'no cells told': (machine(), wanted(shared()), 'the host reports no NUMA cells'),
        'CPUs': (
            TWO,
            wanted(dedicated(5)),
            'guest cell 0 needs 5 dedicated CPUs, the best host cell has 4',
        ),
        'devices are told first': (
            TWO,
            wanted(dedicated(5), requests=[request(3)]),
            'nic: 3 devices asked, 2 free that match',
        ),
        'devices too far': (
            TWO,
            wanted(dedicated(1), requests=[request(2), request(1, GPU, name='gpu')]),
            (
                'host cells [0] fit, but not with the PCI devices: '
                'gpu: 1 devices asked, 0 near to the NUMA cells'
            ),
        ),
        'network too far': (
            machine(cell(0, [0], physnets=frozenset('a')), cell(1, [1, 2])),
            wanted(shared(2), physnets=frozenset('a')),
            'host cells [1] fit, but are not near network a',
        ),
        'it fits': (TWO, wanted(dedicated(4), requests=[request(2)]), ''),
    },
)
def test_why_not(has, asked, why):
    assert has.why_not(asked) == why


def test_the_greater_miss_came_nearer():
    asked = wanted(dedicated(3), requests=[request(1, policy='required')])
    misses = [
        one.miss(asked)
        for one in (
            machine(),
            machine(cell(0, [0], [1, 2])),
            machine(cell(0, [], range(4), pinned=[0, 1, 2])),
            machine(cell(0, [], range(4), pinned=[0, 1])),
            machine(cell(0, [], range(4)), pools=[pool(1, 5)]),
        )
    ]
    assert misses == sorted(misses)
    assert len({miss[:2] for miss in misses}) == len(misses)
    assert machine(cell(0, [], range(4)), pools=[pool(1, 0)]).miss(asked) is None


def test_no_cells_asked_for_none_missed():
    assert machine().miss(wanted(requests=[request(1)])) is None


def test_whole_cores():
    has = machine(threaded(0, pinned=[0]))
    parts = has.fit(wanted(dedicated(2, thread_policy='isolate')))
    assert parts.cells.cells[0].host_cpus == {1, 2}
    held = has.hold(parts)
    assert held.topology.cells[0].pinned_cpus == {0, 1, 2, 5, 6}, 'their siblings are gone too'
    assert has.hold(parts).let_go(parts) == has


def test_limits():
    asked = wanted(shared(), physnets=frozenset('a'), tunneled=True)
    assert machine(cpu_ratio=4.0, ram_ratio=1.5).limits(asked) == numa.NumaLimits(
        4.0, 1.5, frozenset('a'), True
    )
    assert machine().limits(wanted(shared())) == numa.NumaLimits(1.0, 1.0)


BOTH = machine(
    cell(0, [0, 1], range(10, 14), memory_mb=2048, pages=LARGE_PAGES),
    cell(1, [2, 3], range(20, 24), memory_mb=1024),
    pools=[pool(2, 0), pool(1, 1, '10de', '20b0')],
)


@table(
    'parts',
    {
        'nothing': HardwareAllocation(),
        'cells': BOTH.fit(wanted(dedicated(4), dedicated(4))),
        'devices': BOTH.fit(wanted(requests=[request(2), request(1, GPU, request_id=None)])),
        'both': BOTH.fit(
            wanted(mixed(1, 2, thread_policy='isolate'), requests=[request()], emulator='isolate')
        ),
        'first cell in the second': BOTH.fit(wanted(dedicated(1), requests=[request(1, GPU)])),
        'tags': machine(pools=[pool(1, None, physical_network=None, x='1')]).fit(
            wanted(requests=[request()])
        ),
    },
)
def test_parts_are_read_as_they_were_written(parts):
    again = HardwareAllocation.from_json(parts.to_json())
    assert again == parts
    assert bool(again) == bool(parts)


def test_the_objects_can_read_the_parts():
    plain = json.loads(BOTH.fit(wanted(dedicated(2), requests=[request(1)])).to_json())
    cells = object_io.read(json.loads(plain['cells'])).cells
    assert [(one.id, one.cpu_pinning) for one in cells] == [(0, {0: 10, 1: 11})]
    ((request_id, given_pool),) = plain['devices']
    assert request_id == 'r1'
    assert objects.PciDevicePool.obj_from_primitive(given_pool).count == 1


@table(
    'text',
    {
        'no JSON': '',
        'a list': '[]',
        'no devices': '{"cells": null}',
        'cells are no object': '{"cells": "{}", "devices": []}',
        'a device without a pool': '{"cells": null, "devices": [["r1"]]}',
        'its pool is no object': '{"cells": null, "devices": [["r1", {}]]}',
    },
)
def test_malformed_parts(text):
    with pytest.raises(errors.MalformedObject):
        HardwareAllocation.from_json(text)


def test_a_machine_from_what_a_node_reports():
    texts = BOTH.topology.to_json(), pci.pools_to_json(BOTH.pools)
    assert Machine.from_texts(*texts, 4.0, 1.5) == dataclasses.replace(
        BOTH, cpu_ratio=4.0, ram_ratio=1.5
    )
    assert Machine.from_texts(texts[0], None) == dataclasses.replace(BOTH, pools=())
    assert Machine.from_texts('', texts[1]) == dataclasses.replace(BOTH, topology=None)


@table(
    'topology, some, name',
    {
        'cells': ('{', None, 'NUMATopology'),
        'pools': (None, '[]', 'PciDevicePoolList'),
    },
)
def test_a_machine_from_malformed_texts(topology, some, name):
    with pytest.raises(errors.MalformedObject, match=name):
        Machine.from_texts(topology, some)


# What is asked.


def alike(**changes):
    """A request for a guest and devices, with some of it changed."""
    usual = {
        'guest': guest(dedicated(2)),
        'requests': (request(1, {'vendor_id': '8086', 'product_id': '1572'}),),
    }
    return HardwareRequest(**usual | changes)


@table(
    'changes, equal',
    {
        'the same again': ({}, True),
        'another request id, its words in another order': (
            {
                'requests': (
                    request(1, {'product_id': '1572', 'vendor_id': '8086'}, request_id='r2'),
                )
            },
            True,
        ),
        'another alias of the same': (
            {'requests': (request(1, {'vendor_id': '8086', 'product_id': '1572'}, name='gpu'),)},
            True,
        ),
        'more CPUs': ({'guest': guest(dedicated(3))}, False),
        'more memory': ({'guest': guest(dedicated(2, memory_mb=129))}, False),
        'emulator': ({'guest': guest(dedicated(2), emulator='isolate')}, False),
        'devices alone': ({'guest': None}, False),
        'no devices': ({'requests': ()}, False),
        'more devices': ({'requests': (request(2, {'vendor_id': '8086'}),)}, False),
        'others': ({'requests': (request(1, {'vendor_id': '8086'}),)}, False),
        'nearer ones': (
            {
                'requests': (
                    request(1, {'vendor_id': '8086', 'product_id': '1572'}, policy='required'),
                )
            },
            False,
        ),
        'network': ({'physnets': frozenset('a')}, False),
        'tunnel': ({'tunneled': True}, False),
        'siblings': ({'needs_siblings': True}, False),
    },
)
def test_key(changes, equal):
    assert (alike(**changes).key == alike().key) == equal


@table(
    'pieces, asks',
    {
        'nothing': (HardwareRequest(), False),
        'cells': (wanted(shared()), True),
        'devices': (wanted(requests=[request()]), True),
        'only where': (
            HardwareRequest(physnets=frozenset('a'), tunneled=True, needs_siblings=True),
            False,
        ),
    },
)
def test_whether_anything_is_asked_for(pieces, asks):
    assert bool(pieces) == asks


@table(
    'has, asked, may',
    {
        'cells': (BOTH, wanted(dedicated(4)), True),
        'more CPUs than any cell has': (BOTH, wanted(dedicated(5)), False),
        'devices are not looked at': (BOTH, wanted(requests=[request(99)]), True),
        'no cells told': (machine(), wanted(shared()), False),
        'no cells told or asked for': (machine(), wanted(requests=[request()]), True),
    },
)
def test_may_take(has, asked, may):
    assert has.may_take(asked) == may
