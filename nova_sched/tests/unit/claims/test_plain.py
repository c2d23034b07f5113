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
"""Tests of claims as plain values."""

import dataclasses
import json

import pytest

from nova_sched import errors
from nova_sched.claims.plain import NAMES, USUAL, from_plain, to_plain
from nova_sched.objects.claim import CONFIRMED, RESIZE, Claim, Resizing
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, wanted
from nova_sched.tests.unit.hardware.builders import request as device

A, NODE = uuid_of('instance A'), uuid_of('node')
PARTS = machine(cell(0, [], range(4)), pools=[pool(2)]).fit(
    wanted(dedicated(2), requests=[device(1)])
)
RESIZING = Resizing({'VCPU': 1}, {'VCPU': 2, 'CUSTOM_FPGA': 1}, PARTS)

ALL = {
    'state': CONFIRMED,
    'project_id': 'project',
    'user_id': 'user',
    'group_uuid': uuid_of('group'),
    'request_id': 'req-1',
    'created_s': NOW + 0.123456789,
    'changed_s': NOW + 1.5,
    'expires_s': 0.0,
    'parts': PARTS,
    'counted': True,
    'unseen': True,
    'image_properties': {'os_type': 'linux', 'hw_cpu_policy': 'dedicated'},
    'move': RESIZE,
    'resizing': RESIZING,
    'top_group': uuid_of('placement group'),
    'member': 'app/web/3',
    'fences': ('fence', 'another'),
}


def test_each_field_is_tried():
    assert {*ALL, 'consumer_uuid', 'node_uuid', 'resources', 'uuid'} == set(NAMES)
    plain = claim(A, NODE)
    assert {name: getattr(plain, name) for name in USUAL} == USUAL
    assert PARTS.cells
    assert PARTS.devices
    assert all(getattr(plain, name) != value for name, value in ALL.items())


@pytest.mark.parametrize(
    'fields',
    [{}, ALL, *({name: value} for name, value in ALL.items())],
    ids=lambda fields: '-'.join(fields),
)
def test_it_comes_back_as_it_was(fields):
    made = claim(A, NODE, **fields)
    assert from_plain(json.loads(json.dumps(to_plain(made)))) == made


def test_what_is_usual_is_left_out():
    assert set(to_plain(claim(A, NODE))) == set(NAMES) - set(USUAL)


def test_it_is_a_copy():
    made = claim(A, NODE, image_properties={'os_type': 'linux'})
    to_plain(made)['resources']['VCPU'] = 99
    to_plain(made)['image_properties'].clear()
    assert made == dataclasses.replace(made, resources={'VCPU': 1, 'MEMORY_MB': 512})
    assert made.image_properties == {'os_type': 'linux'}


@pytest.mark.parametrize(
    'plain',
    [
        pytest.param({'consumer_uuid': A}, id='fields are missing'),
        pytest.param(
            {**to_plain(claim(A, NODE)), 'colour': 'red'}, id='a field of a later release'
        ),
        pytest.param({**to_plain(claim(A, NODE)), 'parts': '{}'}, id='no parts'),
        pytest.param({**to_plain(claim(A, NODE)), 'parts': 'no JSON'}, id='no JSON'),
        pytest.param({**to_plain(claim(A, NODE)), 'resizing': 'no JSON'}, id='no resizing'),
        pytest.param('text', id='no mapping'),
    ],
)
def test_what_is_no_claim(plain):
    with pytest.raises((TypeError, ValueError, errors.SchedError)):
        from_plain(plain)


def test_the_smallest_claim():
    assert from_plain(
        {'consumer_uuid': A, 'node_uuid': NODE, 'resources': {}, 'uuid': A}
    ) == Claim(A, NODE, {}, uuid=A)
