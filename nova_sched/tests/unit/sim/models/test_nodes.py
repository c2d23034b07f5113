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
"""Simulated nodes as their workers see them, and how full they are at the start."""

import pytest

from nova_sched import errors
from nova_sched.sim.machines import machines
from nova_sched.sim.models import nodes
from nova_sched.sim.trace import Flavor
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.sim.builders import GIB, SMALL, node, plan, requests

LARGE = Flavor('large', 6, 2 * GIB)


def used(report, name='VCPU'):
    return report.used[name]


def test_what_is_being_built_takes_room_and_is_not_told_before_it_is_there():
    node_api = nodes.Site(node('old'))
    (request,) = requests('new')
    node_api.begin(request)
    assert (used(node_api.facts()), used(node_api.told())) == (2, 1)
    assert node_api.facts().instances == {uuid_of('old'), uuid_of('new')}
    assert node_api.told().instances == {uuid_of('old')}
    assert not node_api.holds(uuid_of('new'))
    node_api.keep(uuid_of('new'))
    assert node_api.told().instances == node_api.facts().instances
    assert node_api.holds(uuid_of('new'))


@pytest.mark.parametrize(
    'end',
    [
        pytest.param(lambda node_api: node_api.undo(uuid_of('new')), id='undone'),
        pytest.param(lambda node_api: node_api.destroy(uuid_of('new')), id='destroyed'),
    ],
)
def test_what_ends_leaves_no_trace(end):
    node_api = nodes.Site(node())
    before = node_api.facts()
    node_api.begin(*requests('new'))
    end(node_api)
    assert node_api.facts() == before
    assert not node_api.hidden()


def test_only_what_is_being_built_is_undone():
    node_api = nodes.Site(node('old'))
    node_api.undo(uuid_of('old'))
    assert node_api.holds(uuid_of('old'))


def test_a_node_says_no_where_it_is_full():
    node_api = nodes.Site(node(vcpus=1))
    node_api.begin(*requests('first'))
    with pytest.raises(errors.ComputeResourcesUnavailable):
        node_api.begin(*requests('second'))
    assert node_api.hidden() == {uuid_of('first')}


def test_who_watches_is_told_of_every_change():
    node_api, told = nodes.Site(node()), []
    node_api.watch(lambda: told.append(used(node_api.facts())))
    node_api.begin(*requests('new'))
    node_api.keep(uuid_of('new'))
    node_api.destroy(uuid_of('new'))
    node_api.destroy(uuid_of('new'))
    assert told == [1, 1, 0]


@pytest.mark.parametrize(
    'packed, in_use',
    [
        pytest.param(False, [4, 4, 4, 4], id='spread: each node has its share'),
        pytest.param(True, [8, 8, 0, 0], id='packed: some are full and the others empty'),
    ],
)
def test_how_full_nodes_are_at_the_start(packed, in_use):
    node_apis = [nodes.Site(one) for one in machines(plan(nodes=4))]
    nodes.fill(node_apis, {SMALL: 1}, 0.5, packed, seed=1)
    assert [used(node_api.facts()) for node_api in node_apis] == in_use


def test_nothing_is_filled_above_its_share_by_a_large_server():
    node_apis = [nodes.Site(one) for one in machines(plan(nodes=2))]
    nodes.fill(node_apis, {LARGE: 1}, 0.5, False, seed=1)
    assert [used(node_api.facts()) for node_api in node_apis] == [0, 0]


def test_special_things_are_shared_out():
    specials = [f'trait:T{number}' for number in range(9)] + ['resource:A', 'resource:B']
    found = nodes.special_facts(specials, 9)
    assert all(len(traits) in (1, 2) and len(classes) == 1 for traits, classes in found)
    assert set().union(*(traits for traits, _ in found)) == {f'T{number}' for number in range(9)}
    assert [classes for _, classes in found[:2]] == [['A'], ['B']]
    assert nodes.special_facts([], 1) == [(frozenset(), [])]


def test_a_node_reports_its_special_things():
    report = nodes.Site(node(), frozenset({'CUSTOM_T'}), ['CUSTOM_R']).facts()
    assert 'CUSTOM_T' in report.traits
    assert report.inventories['CUSTOM_R'].total == nodes.UNITS
    assert used(report, 'CUSTOM_R') == 0


def test_a_host_is_told_of_its_own_aggregates_and_of_all_zones():
    members = machines(plan(nodes=4, zones=2, racks=2))
    found = nodes.of_host(nodes.aggregates_of(members), members[3].host)
    assert {one.name: one.hosts for one in found} == {
        'zone-1': set(),
        'zone-2': {members[3].host},
        members[3].rack: {members[3].host},
    }
