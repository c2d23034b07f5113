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
"""How fragmented the free capacity is."""

import pytest

from nova_sched import errors
from nova_sched.extensions.optimize.fragmentation import overview, read_places
from nova_sched.extensions.optimize.packing.mix import Mix
from nova_sched.tests.builders import aggregate, cluster
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.optimize.packing.builders import size

MIX = Mix({size(4): 3.0, size(3): 1.0})


@pytest.fixture
def made():
    return cluster(
        4,
        vcpus=[8, 5, 16, 4],
        aggregates=[
            aggregate(1, ['host-0', 'host-1'], availability_zone='az1'),
            aggregate(2, ['host-1', 'host-2']),
        ],
    )


def test_zones_and_worst_hosts(made):
    found = overview(read_places(made.hosts, 'nova'), MIX)
    assert [one['fit'] for one in found['sizes']] == [8, 9]
    assert [(one['zone'], one['hosts'], one['fit']) for one in found['zones']] == [
        ('az1', 2, [3, 3]),
        ('nova', 2, [5, 6]),
    ]
    assert found['worst_hosts'][0]['host'] in ('host-1', 'host-2')
    assert sum(one['stranded']['VCPU'] for one in found['zones']) == found['stranded']['VCPU']


@each(
    'where, hosts',
    [
        pytest.param({'zone': 'az1'}, 2, id='zone'),
        pytest.param({'zone': 'nova'}, 2, id='default zone'),
        pytest.param({'aggregate': '2'}, 2, id='aggregate by id'),
        pytest.param({'zone': 'nova', 'aggregate': '2'}, 1, id='both'),
    ],
)
def test_some_hosts(made, where, hosts):
    assert len(read_places(made.hosts, 'nova', **where).resources) == hosts


@each('where', [{'zone': 'nowhere'}, {'aggregate': 'nothing'}])
def test_places_that_are_not_there(made, where):
    with pytest.raises(errors.NotFound, match='is not known'):
        read_places(made.hosts, 'nova', **where)
