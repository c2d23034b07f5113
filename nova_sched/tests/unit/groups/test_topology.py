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
"""Levels, and who is in which domain."""

import pytest

from nova_sched import errors
from nova_sched.groups.topology import DomainLocator, DomainTopology, warnings
from nova_sched.tests.builders import aggregate, cluster, put, report


def domains(topology, made):
    return {
        name: [level.names[one] for one in level.ids.tolist()]
        for name, level in topology.levels_of(made.hosts, 'nova').items()
    }


@pytest.mark.parametrize(
    'aggregates, stats, level, found',
    [
        pytest.param([], {}, 'host', ['host-0', 'host-1', 'host-2'], id='hosts are their own'),
        pytest.param([], {}, 'rack', ['host-0', 'host-1', 'host-2'], id='nobody tells'),
        pytest.param(
            [], {'rack': ['a', 'a', 'b']}, 'rack', ['a', 'a', 'b'], id='facts of the nodes'
        ),
        pytest.param(
            [aggregate(1, ['host-0', 'host-2'], rack='x')],
            {},
            'rack',
            ['x', 'host-1', 'x'],
            id='aggregates',
        ),
        pytest.param(
            [aggregate(1, ['host-0'], rack='x')],
            {'rack': ['a', 'a', 'a']},
            'rack',
            ['x', 'a', 'a'],
            id='aggregates go before facts',
        ),
        pytest.param(
            [], {'rack': ['a', 'a', 'b']}, 'room', ['a', 'a', 'b'], id='as the level below'
        ),
        pytest.param([], {}, 'zone', ['nova'] * 3, id='the default zone'),
        pytest.param(
            [aggregate(1, ['host-1'], availability_zone='z')],
            {},
            'zone',
            ['nova', 'z', 'nova'],
            id='zones',
        ),
        pytest.param(
            [aggregate(1, ['host-1'], rack='b'), aggregate(2, ['host-1', 'host-0'], rack='a')],
            {},
            'rack',
            ['a', 'a', 'host-2'],
            id='two racks',
        ),
    ],
)
def test_where_domains_come_from(aggregates, stats, level, found):
    each = [{name: values[row] for name, values in stats.items()} for row in range(3)]
    made = cluster(3, aggregates, stats=each)
    topology = DomainTopology()
    assert domains(topology, made)[level] == found
    locator = DomainLocator(topology, lambda: 'nova')  # one node at a time, it finds the same
    assert [
        locator.domains(
            node.host,
            node.nodename,
            locator.told(node.report),
            made.hosts.aggregates.of(node.host),
        )[level]
        for node in made.hosts.nodes
    ] == found


def test_levels_that_do_not_nest():
    made = cluster(2, stats=[{'rack': 'r', 'power_feed': 'p'}, {'rack': 'r', 'power_feed': 'q'}])
    topology = DomainTopology(['host', 'rack', 'zone'], ['host < power_feed'])
    assert topology.levels == ('host', 'rack', 'zone', 'power_feed')
    assert domains(topology, made)['power_feed'] == ['p', 'q']


def test_a_level_goes_by_the_one_below_that_is_its_own():
    made = cluster(2, stats=[{'rack': 'r'}, {'rack': 'r'}])
    found = domains(DomainTopology(['host', 'rack', 'zone'], ['host < feed', 'rack < cage']), made)
    assert (found['feed'], found['cage']) == (['host-0', 'host-1'], ['r', 'r'])


@pytest.mark.parametrize(
    'levels, orders, why',
    [
        pytest.param(['rack', 'host'], [], 'does not begin with host', id='no host'),
        pytest.param(['host', 'rack', 'rack'], [], 'a name twice', id='twice'),
        pytest.param(['host', '', 'rack'], [], 'an empty one', id='empty'),
        pytest.param(['host', 'rack'], ['row < room'], 'does not begin with', id='an unknown one'),
        pytest.param(
            ['host', 'rack', 'zone'],
            ['host < feed < zone'],
            'zone is above rack and above feed',
            id='two below',
        ),
        pytest.param(['host', 'rack', 'room'], ['room < rack'], 'above', id='a circle'),
    ],
)
def test_bad_orders(levels, orders, why):
    with pytest.raises(errors.BadConfig, match=why):
        DomainTopology(levels, orders)


def test_what_a_report_changes_is_seen():
    topology, made = DomainTopology(), cluster(2, stats=[{'rack': 'a'}, {'rack': 'a'}])
    made.hosts.lasting_stats = topology.stats
    assert domains(topology, made)['rack'] == ['a', 'a']
    put(made, report('host-1', stats={'rack': 'b'}))
    assert domains(topology, made)['rack'] == ['a', 'b']


def test_a_look_is_kept():
    topology, made = DomainTopology(), cluster(2)
    assert topology.levels_of(made.hosts, 'nova') is topology.levels_of(made.hosts, 'nova')


@pytest.mark.parametrize(
    'aggregates, pairs',
    [
        pytest.param(
            [], {('rack', 'room'), ('rack', 'zone'), ('room', 'zone')}, id='each in the next'
        ),
        pytest.param(
            [aggregate(1, ['host-2', 'host-3'], availability_zone='z')],
            {('rack', 'room'), ('rack', 'zone')},
            id='a room spans zones',
        ),
        pytest.param(
            [aggregate(1, ['host-1'], availability_zone='z')],
            {('rack', 'room')},
            id='a rack spans zones',
        ),
    ],
)
def test_which_levels_lie_in_each_other(aggregates, pairs):
    stats = [{'rack': rack, 'room': 'm'} for rack in 'aabb']
    topology, made = DomainTopology(orders=['host < feed']), cluster(4, aggregates, stats=stats)
    assert topology.nests(topology.levels_of(made.hosts, 'nova')) == pairs


def test_without_hosts_no_levels_lie_in_each_other():
    topology, made = DomainTopology(), cluster(0)
    assert topology.nests(topology.levels_of(made.hosts, 'nova')) == frozenset()


def test_warnings():
    made = cluster(
        3,
        [aggregate(1, ['host-0'], rack='a'), aggregate(2, ['host-0', 'host-1'], rack='b')],
    )
    found = warnings(DomainTopology(['host', 'rack']).levels_of(made.hosts, 'nova'), most=1)
    assert found == ['1 node reports no rack: host-2', '1 node is in more than one rack: host-0']
    several = cluster(
        4, [aggregate(n, ['host-0', 'host-1'], rack=rack) for n, rack in enumerate('ab', 1)]
    )
    assert warnings(DomainTopology(['host', 'rack']).levels_of(several.hosts, 'nova'), most=1) == [
        '2 nodes report no rack: host-2, and 1 more',
        '2 nodes are in more than one rack: host-0, and 1 more',
    ]
    assert warnings(DomainTopology(['host', 'zone']).levels_of(made.hosts, 'nova')) == []
