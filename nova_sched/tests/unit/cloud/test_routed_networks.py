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
"""The aggregates of requested networks."""

import types

import pytest

from nova_sched import errors
from nova_sched.cloud.routed_networks import FOR_TENANTS, RoutedNetworks
from nova_sched.tests.rows import each

PORTS = {'bound': ('routed', ['a']), 'flat port': ('flat', ['c']), 'fresh': ('routed', [])}
SEGMENTS = {'a': 's1', 'b': 's2', 'c': None, 'lost': 's3'}
NETWORKS = {'routed': ['s1', 's2'], 'flat': [], 'lost': ['s3']}
AGGREGATES = {'s1': ['A'], 's2': ['B'], 's3': []}


class Broken(dict):
    def __getitem__(self, name):
        raise errors.NeutronError('away')


def networks(ports=PORTS, aggregates=AGGREGATES.get):
    neutron = types.SimpleNamespace(
        port=lambda uuid: ports[uuid], segment_of=SEGMENTS.get, segments_of=NETWORKS.get
    )
    return RoutedNetworks(neutron, types.SimpleNamespace(aggregates=aggregates))


@each(
    'asked, found',
    [
        pytest.param([], (), id='none'),
        pytest.param([(None, 'routed')], ({'A', 'B'},), id='any segment of a network'),
        pytest.param([(None, 'flat')], (), id='a network that is not routed'),
        pytest.param([('bound', None)], ({'A'},), id='the segment of a port'),
        pytest.param([('bound', 'routed')], ({'A'},), id='and not all of its network'),
        pytest.param([('fresh', None)], ({'A', 'B'},), id='a port without an address'),
        pytest.param([('flat port', None)], (), id='a port that is not routed'),
        pytest.param([('bound', None), (None, 'routed')], ({'A'}, {'A', 'B'}), id='two'),
    ],
)
def test_aggregates(asked, found):
    made = networks()
    assert made.aggregates(asked) == made.begin(asked).result() == found
    made.stop()


def away(_):
    raise errors.PlacementUnavailable('away')


@each(
    'made, asked, why',
    [
        pytest.param(networks(), (None, 'lost'), 'Segment s3.*has no aggregate', id='none'),
        pytest.param(networks(Broken()), ('bound', None), 'Neutron: away', id='no Neutron'),
        pytest.param(
            networks(aggregates=away),
            ('bound', None),
            'Placement does not.*away',
            id='no Placement',
        ),
    ],
)
def test_refusals(made, asked, why):
    with pytest.raises(errors.NoValidHost, match=why) as told:
        made.aggregates([asked])
    assert told.value.for_tenants == FOR_TENANTS
