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
"""Parts and machines as text, and which requests are alike."""

import dataclasses
import json

import pytest

from nova_sched import errors, objects
from nova_sched.hardware import pci
from nova_sched.hardware.machine import HardwareAllocation, HardwareRequest, Machine
from nova_sched.objects import object_io
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    guest,
    machine,
    mixed,
    pool,
    request,
    shared,
    wanted,
)

GPU = {'vendor_id': '10de'}
LARGE_PAGES = [(4, 100_000, 0), (2048, 8, 0)]
TWO = machine(
    cell(0, [0, 1], range(10, 14), memory_mb=2048, pages=LARGE_PAGES),
    cell(1, [2, 3], range(20, 24), memory_mb=1024),
    pools=[pool(2, 0), pool(1, 1, '10de', '20b0')],
)


@pytest.mark.parametrize(
    'parts',
    [
        pytest.param(HardwareAllocation(), id='nothing'),
        pytest.param(TWO.fit(wanted(dedicated(4), dedicated(4))), id='cells'),
        pytest.param(
            TWO.fit(wanted(requests=[request(2), request(1, GPU, request_id=None)])), id='devices'
        ),
        pytest.param(
            TWO.fit(
                wanted(
                    mixed(1, 2, thread_policy='isolate'), requests=[request()], emulator='isolate'
                )
            ),
            id='both',
        ),
        pytest.param(
            TWO.fit(wanted(dedicated(1), requests=[request(1, GPU)])),
            id='first cell in the second',
        ),
        pytest.param(
            machine(pools=[pool(1, None, physical_network=None, x='1')]).fit(
                wanted(requests=[request()])
            ),
            id='tags',
        ),
    ],
)
def test_parts_are_read_as_they_were_written(parts):
    again = HardwareAllocation.from_json(parts.to_json())
    assert again == parts
    assert bool(again) == bool(parts)


def test_the_objects_can_read_the_parts():
    plain = json.loads(TWO.fit(wanted(dedicated(2), requests=[request(1)])).to_json())
    cells = object_io.read_json(plain['cells'], objects.InstanceNUMATopology).cells
    assert [(one.id, one.cpu_pinning) for one in cells] == [(0, {0: 10, 1: 11})]
    ((request_id, given_pool),) = plain['devices']
    assert request_id == 'r1'
    assert objects.PciDevicePool.obj_from_primitive(given_pool).count == 1


@pytest.mark.parametrize(
    'text',
    [
        pytest.param('', id='no JSON'),
        pytest.param('[]', id='a list'),
        pytest.param('{"cells": null}', id='no devices'),
        pytest.param('{"cells": "{}", "devices": []}', id='cells are no object'),
        pytest.param('{"cells": null, "devices": [["r1"]]}', id='a device without a pool'),
        pytest.param('{"cells": null, "devices": [["r1", {}]]}', id='its pool is no object'),
    ],
)
def test_malformed_parts(text):
    with pytest.raises(errors.MalformedObject):
        HardwareAllocation.from_json(text)


def test_a_machine_from_what_a_node_reports():
    texts = TWO.topology.to_json(), pci.pools_to_json(TWO.pools)
    assert Machine.from_texts(*texts, 4.0, 1.5) == dataclasses.replace(
        TWO, cpu_ratio=4.0, ram_ratio=1.5
    )
    assert Machine.from_texts(texts[0], None) == dataclasses.replace(TWO, pools=())
    assert Machine.from_texts('', texts[1]) == dataclasses.replace(TWO, topology=None)


@pytest.mark.parametrize(
    'topology, some, name',
    [
        pytest.param('{', None, 'NUMATopology', id='cells'),
        pytest.param(None, '[]', 'PciDevicePoolList', id='pools'),
    ],
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


@pytest.mark.parametrize(
    'changes, equal',
    [
        pytest.param({}, True, id='the same again'),
        pytest.param(
            {
                'requests': (
                    request(1, {'product_id': '1572', 'vendor_id': '8086'}, request_id='r2'),
                )
            },
            True,
            id='another request id, its words in another order',
        ),
        pytest.param(
            {'requests': (request(1, {'vendor_id': '8086', 'product_id': '1572'}, name='gpu'),)},
            True,
            id='another alias of the same',
        ),
        pytest.param({'guest': guest(dedicated(3))}, False, id='more CPUs'),
        pytest.param({'guest': guest(dedicated(2, memory_mb=129))}, False, id='more memory'),
        pytest.param({'guest': guest(dedicated(2), emulator='isolate')}, False, id='emulator'),
        pytest.param({'guest': None}, False, id='devices alone'),
        pytest.param({'requests': ()}, False, id='no devices'),
        pytest.param({'requests': (request(2, {'vendor_id': '8086'}),)}, False, id='more devices'),
        pytest.param({'requests': (request(1, {'vendor_id': '8086'}),)}, False, id='others'),
        pytest.param(
            {
                'requests': (
                    request(1, {'vendor_id': '8086', 'product_id': '1572'}, policy='required'),
                )
            },
            False,
            id='nearer ones',
        ),
        pytest.param({'physnets': frozenset('a')}, False, id='network'),
        pytest.param({'tunneled': True}, False, id='tunnel'),
        pytest.param({'needs_siblings': True}, False, id='siblings'),
    ],
)
def test_key(changes, equal):
    assert (alike(**changes).key == alike().key) == equal


@pytest.mark.parametrize(
    'pieces, asks',
    [
        pytest.param(HardwareRequest(), False, id='nothing'),
        pytest.param(wanted(shared()), True, id='cells'),
        pytest.param(wanted(requests=[request()]), True, id='devices'),
        pytest.param(
            HardwareRequest(physnets=frozenset('a'), tunneled=True, needs_siblings=True),
            False,
            id='only where',
        ),
    ],
)
def test_whether_anything_is_asked_for(pieces, asks):
    assert bool(pieces) == asks


@pytest.mark.parametrize(
    'has, asked, may',
    [
        pytest.param(TWO, wanted(dedicated(4)), True, id='cells'),
        pytest.param(TWO, wanted(dedicated(5)), False, id='more CPUs than any cell has'),
        pytest.param(TWO, wanted(requests=[request(99)]), True, id='devices are not looked at'),
        pytest.param(machine(), wanted(shared()), False, id='no cells told'),
        pytest.param(
            machine(), wanted(requests=[request()]), True, id='no cells told or asked for'
        ),
    ],
)
def test_may_take(has, asked, may):
    assert has.may_take(asked) == may
