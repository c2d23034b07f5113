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
"""The client of Neutron, and the aggregates of requested networks."""

import types

import pytest

from nova_sched import errors
from nova_sched.cloud.neutron import FOR_TENANTS, RoutedNetworks
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_neutron import client_of, served
from nova_sched.tests.rows import each

PORT, NET, OTHER = uuid_of('port'), uuid_of('network'), uuid_of('another network')
A, B, C = uuid_of('subnet a'), uuid_of('subnet b'), uuid_of('subnet c')


@pytest.fixture
def fake():
    with served() as made:
        made.ports = {PORT: (NET, [A, B])}
        made.subnets = {A: (NET, 's1'), B: (NET, 's2'), C: (OTHER, None)}
        yield made


def test_a_port(fake):
    assert client_of(fake).port(PORT) == (NET, [A, B])


@each('subnet, segment', [(A, 's1'), (C, None)], ids=['routed', 'not routed'])
def test_the_segment_of_a_subnet(fake, subnet, segment):
    assert client_of(fake).segment_of(subnet) == segment


@each(
    'network, segments',
    [(NET, ['s1', 's2']), (OTHER, []), (uuid_of('unknown'), [])],
    ids=['routed', 'not routed', 'unknown'],
)
def test_the_segments_of_a_network(fake, network, segments):
    assert client_of(fake).segments_of(network) == segments


@pytest.mark.parametrize(
    'broken, why',
    [
        pytest.param(None, '404.*could not be found', id='unknown'),
        pytest.param((401, 'log in'), '401: log in', id='no access'),
        pytest.param((503, 'away'), '503: away', id='out of order'),
        pytest.param((200, 'hello'), 'is not JSON', id='no JSON'),
    ],
)
def test_errors(fake, broken, why):
    fake.broken = broken
    with pytest.raises(errors.NeutronError, match=why):
        client_of(fake).port(uuid_of('unknown'))


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
