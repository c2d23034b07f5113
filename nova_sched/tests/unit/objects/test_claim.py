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
"""A claim as callers get it."""

import datetime

import pytest

from nova_sched import objects
from nova_sched.claim import CONFIRMED, PENDING, PLANNED
from nova_sched.objects import object_io

SOME = '7a9f961e-91b7-5eec-ba67-426d5c717816'


def claim(**fields):
    defaults = {
        'uuid': SOME,
        'instance_uuid': SOME,
        'compute_node_uuid': SOME,
        'host': 'a',
        'nodename': 'n',
        'state': PENDING,
        'move': None,
        'resize_uuid': None,
        'resources': {'VCPU': 2, 'MEMORY_MB': 512},
        'numa_topology': None,
        'pci_device_pools': None,
        'project_id': None,
        'user_id': None,
        'allocation_request': None,
        'created_at': datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        'updated_at': None,
        'expires_at': None,
    }
    return objects.ClaimInfo(**defaults | fields)


def test_a_claim_crosses_the_wire():
    written = objects.to_primitive(claim())
    assert written[object_io.NAMESPACE] == 'nova_sched'
    assert written[object_io.VERSION] == '1.2'
    assert written[object_io.DATA]['created_at'] == '2026-01-01T00:00:00Z'
    assert objects.to_primitive(objects.from_primitive(written)) == written


def test_every_field_can_be_told():
    assert set(objects.to_primitive(claim())[object_io.DATA]) == set(objects.ClaimInfo.fields)


def test_what_it_holds_crosses_the_wire():
    cell = objects.InstanceNUMACell(
        id=1,
        cpuset=set(),
        pcpuset={0, 1},
        memory=512,
        pagesize=2048,
        cpu_pinning_raw={'0': 5, '1': 13},
    )
    gpu = objects.PciDevicePool(vendor_id='10de', product_id='20b0', numa_node=1, tags={}, count=2)
    holding = claim(
        numa_topology=objects.InstanceNUMATopology(cells=[cell]),
        pci_device_pools=objects.PciDevicePoolList(objects=[gpu]),
    )
    again = objects.from_primitive(objects.to_primitive(holding))
    assert again.numa_topology.cells[0].cpu_pinning == {0: 5, 1: 13}
    assert again.pci_device_pools.objects[0].count == 2


@pytest.mark.parametrize('state', [PLANNED, PENDING, CONFIRMED])
def test_a_state(state):
    assert claim(state=state).state == state


@pytest.mark.parametrize(
    'fields',
    [
        pytest.param({'state': 'lost'}, id='unknown state'),
        pytest.param({'resources': {'VCPU': 'two'}}, id='amount of words'),
        pytest.param({'host': None}, id='null host'),
    ],
)
def test_a_bad_claim_is_refused(fields):
    with pytest.raises(ValueError):
        claim(**fields)
