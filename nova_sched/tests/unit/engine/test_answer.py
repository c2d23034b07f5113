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
"""Tests of how a chosen host is described to the caller."""

import json

import pytest

from nova_sched.engine.answer import allocation_request, select
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import CELL, aggregate, cluster, request, uuid_of
from nova_sched.tests.rows import each

OTHER_CELL = uuid_of('other cell')


@each(
    'aggregates, zone',
    [
        pytest.param([], 'home', id='no aggregate'),
        pytest.param(
            [aggregate(1, ['host-0'], ssd='true')], 'home', id='an aggregate without a zone'
        ),
        pytest.param([aggregate(1, ['host-0'], availability_zone='b')], 'b', id='one'),
        pytest.param(
            [
                aggregate(1, ['host-0'], availability_zone='b'),
                aggregate(2, ['host-0'], availability_zone='a, b'),
            ],
            'a,b',
            id='several, in order',
        ),
        pytest.param(
            [aggregate(1, ['host-1'], availability_zone='b')], 'home', id='of another host'
        ),
    ],
)
def test_zone(aggregates, zone):
    assert select(cluster(1, aggregates).hosts, 0, request(), 'home').availability_zone == zone


@each(
    'cell, wanted, told',
    [
        pytest.param(CELL, None, CELL, id='its own'),
        pytest.param(CELL, OTHER_CELL, CELL, id='its own, whatever was asked for'),
        pytest.param(None, OTHER_CELL, OTHER_CELL, id='unknown: the one asked for'),
        pytest.param(None, None, None, id='unknown'),
    ],
)
def test_cell(cell, wanted, told):
    asked = request(destination=RequestedDestination(cell_uuid=wanted) if wanted else None)
    assert select(cluster(1, cell_uuid=cell).hosts, 0, asked, 'home').cell_uuid == told


def test_the_node():
    selected = select(cluster(2, nodename=['a', 'b']).hosts, 1, request(), 'home')
    assert (selected.host, selected.nodename, selected.node_uuid) == (
        'host-1',
        'b',
        uuid_of('node b'),
    )
    assert selected.limits == {}


def test_a_claim_is_described_as_placement_does():
    selected = select(
        cluster(1).hosts, 0, request(), 'home', json.dumps({'VCPU': 2, 'CUSTOM_GOLD': 1})
    )
    assert json.loads(selected.allocation_request) == {
        'allocations': {uuid_of('node host-0'): {'resources': {'VCPU': 2, 'CUSTOM_GOLD': 1}}},
        'mappings': {'': [uuid_of('node host-0')]},
    }
    assert selected.allocation_version == '1.36'


def test_a_mere_check_has_no_claim():
    selected = select(cluster(1).hosts, 0, request(), 'home')
    assert (selected.allocation_request, selected.allocation_version) == ('null', None)


def test_text_of_nothing():
    assert json.loads(allocation_request('node', '{}')) == {
        'allocations': {'node': {'resources': {}}},
        'mappings': {'': ['node']},
    }
