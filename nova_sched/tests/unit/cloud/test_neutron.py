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
from nova_sched.tests.rows import each_afresh, table

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


@table('subnet, segment', {'routed': (A, 's1'), 'not routed': (C, None)})
def test_the_segment_of_a_subnet(fake, subnet, segment):
    assert client_of(fake).segment_of(subnet) == segment


@table(
    'network, segments',
    {
        'routed': (NET, ['s1', 's2']),
        'not routed': (OTHER, []),
        'unknown': (uuid_of('unknown'), []),
    },
)
def test_the_segments_of_a_network(fake, network, segments):
    assert client_of(fake).segments_of(network) == segments


@each_afresh(
    'broken, why',
    {
        'unknown': (None, '404.*could not be found'),
        'no access': ((401, 'log in'), '401: log in'),
        'out of order': ((503, 'away'), '503: away'),
        'no JSON': ((200, 'hello'), 'is not JSON'),
    },
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


@table(
    'asked, found',
    {
        'none': ([], ()),
        'any segment of a network': ([(None, 'routed')], ({'A', 'B'},)),
        'a network that is not routed': ([(None, 'flat')], ()),
        'the segment of a port': ([('bound', None)], ({'A'},)),
        'and not all of its network': ([('bound', 'routed')], ({'A'},)),
        'a port without an address': ([('fresh', None)], ({'A', 'B'},)),
        'a port that is not routed': ([('flat port', None)], ()),
        'two': ([('bound', None), (None, 'routed')], ({'A'}, {'A', 'B'})),
    },
)
def test_aggregates(asked, found):
    made = networks()
    assert made.aggregates(asked) == made.begin(asked).result() == found
    made.stop()


def away(_):
    raise errors.PlacementUnavailable('away')


@table(
    'made, asked, why',
    {
        'none': (networks(), (None, 'lost'), 'Segment s3.*has no aggregate'),
        'no Neutron': (networks(Broken()), ('bound', None), 'Neutron: away'),
        'no Placement': (networks(aggregates=away), ('bound', None), 'Placement does not.*away'),
    },
)
def test_refusals(made, asked, why):
    with pytest.raises(errors.NoValidHost, match=why) as told:
        made.aggregates([asked])
    assert told.value.for_tenants == FOR_TENANTS
