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
"""The objects that only this project defines cross the wire with all that they say."""

import datetime
import json

import pytest

from nova_sched import objects
from nova_sched.objects import base, object_io
from nova_sched.tests.builders import uuid_of

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
CELL = objects.InstanceNUMACell(
    id=1,
    cpuset=set(),
    pcpuset={0, 1},
    memory=512,
    pagesize=2048,
    cpu_pinning_raw={'0': 5, '1': 13},
)
GPU = objects.PciDevicePool(vendor_id='10de', product_id='20b0', numa_node=1, tags={}, count=2)


def null(cls):
    """Null for every field: a row names the values of those that cannot be null."""
    return dict.fromkeys(cls.fields)


CLAIM = {
    **null(objects.ClaimInfo),
    'uuid': uuid_of('claim'),
    'instance_uuid': uuid_of('instance'),
    'compute_node_uuid': uuid_of('node'),
    'host': 'a',
    'nodename': 'n',
    'state': 'pending',
    'resources': {'VCPU': 2, 'MEMORY_MB': 512},
    'created_at': NOON,
}
HELD = {
    'numa_topology': objects.InstanceNUMATopology(cells=[CELL]),
    'pci_device_pools': objects.PciDevicePoolList(objects=[GPU]),
}
CANDIDATE = {
    'uuid': uuid_of('candidate'),
    'instance_uuid': uuid_of('instance'),
    'compute_node_uuid': uuid_of('node'),
    'host': 'a',
    'nodename': 'n',
    'rank': 1,
    'expires_at': NOON,
}
MEMBER = {
    **null(objects.GroupMember),
    'path': 'app/web/3',
    'state': 'unplaced',
    'domains': {'rack': 'r1'},
}
MOVE = {**null(objects.GroupMove), 'path': 'app/db', 'to_host': 'b', 'reason': 'apart'}
GROUP = {
    **null(objects.TopGroup),
    'uuid': uuid_of('group'),
    'status': 'planned',
    'generation': 1,
    'serial': 3,
    'template': 'heat_template_version: rocky\n',
    'parameters': '{"count": 3}',
    'members': [objects.GroupMember(**MEMBER)],
    'moves': [objects.GroupMove(**MOVE)],
    'warnings': ['one node tells no rack'],
    'dry_run': False,
    'created_at': NOON,
}


@pytest.mark.parametrize(
    'cls, values',
    [
        pytest.param(objects.ClaimInfo, CLAIM, id='a claim'),
        pytest.param(objects.ClaimInfo, {**CLAIM, **HELD}, id='a claim of CPUs and devices'),
        pytest.param(objects.Candidate, CANDIDATE, id='a candidate'),
        pytest.param(objects.GroupMember, MEMBER, id='a member of a group'),
        pytest.param(objects.GroupMove, MOVE, id='a move'),
        pytest.param(objects.TopGroup, GROUP, id='a group'),
        pytest.param(objects.TopGroup, {**GROUP, 'uuid': None, 'dry_run': True}, id='a dry run'),
        pytest.param(objects.TopGroup, {'status': 'built'}, id='a group of a list'),
    ],
)
def test_an_object_crosses_the_wire(cls, values):
    primitive = objects.to_primitive(cls(**values))
    assert primitive[object_io.NAMESPACE] == 'nova_sched'
    assert primitive[object_io.VERSION] == cls.VERSION
    read = objects.from_primitive(json.loads(json.dumps(primitive)))
    assert objects.to_primitive(read) == primitive
    assert read.set_fields().keys() == values.keys()
    for name, value in values.items():
        if name not in ('members', 'moves') and not isinstance(value, base.NovaObject):
            assert getattr(read, name) == value


def test_a_domain_without_a_name_is_refused():
    with pytest.raises(ValueError):
        objects.GroupMember(**{**MEMBER, 'domains': {'rack': None}})
