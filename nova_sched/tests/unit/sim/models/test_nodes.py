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
    site = nodes.Site(node('old'))
    (request,) = requests('new')
    site.begin(request)
    assert (used(site.facts()), used(site.told())) == (2, 1)
    assert site.facts().instances == {uuid_of('old'), uuid_of('new')}
    assert site.told().instances == {uuid_of('old')}
    assert not site.holds(uuid_of('new'))
    site.keep(uuid_of('new'))
    assert site.told().instances == site.facts().instances
    assert site.holds(uuid_of('new'))


@pytest.mark.parametrize(
    'end',
    [
        pytest.param(lambda site: site.undo(uuid_of('new')), id='undone'),
        pytest.param(lambda site: site.destroy(uuid_of('new')), id='destroyed'),
    ],
)
def test_what_ends_leaves_no_trace(end):
    site = nodes.Site(node())
    before = site.facts()
    site.begin(*requests('new'))
    end(site)
    assert site.facts() == before
    assert not site.hidden()


def test_only_what_is_being_built_is_undone():
    site = nodes.Site(node('old'))
    site.undo(uuid_of('old'))
    assert site.holds(uuid_of('old'))


def test_a_node_says_no_where_it_is_full():
    site = nodes.Site(node(vcpus=1))
    site.begin(*requests('first'))
    with pytest.raises(errors.ComputeResourcesUnavailable):
        site.begin(*requests('second'))
    assert site.hidden() == {uuid_of('first')}


def test_who_watches_is_told_of_every_change():
    site, told = nodes.Site(node()), []
    site.watch(lambda: told.append(used(site.facts())))
    site.begin(*requests('new'))
    site.keep(uuid_of('new'))
    site.destroy(uuid_of('new'))
    site.destroy(uuid_of('new'))
    assert told == [1, 1, 0]


@pytest.mark.parametrize(
    'packed, in_use',
    [
        pytest.param(False, [4, 4, 4, 4], id='spread: each node has its share'),
        pytest.param(True, [8, 8, 0, 0], id='packed: some are full and the others empty'),
    ],
)
def test_how_full_nodes_are_at_the_start(packed, in_use):
    sites = [nodes.Site(one) for one in machines(plan(nodes=4))]
    nodes.fill(sites, {SMALL: 1}, 0.5, packed, seed=1)
    assert [used(site.facts()) for site in sites] == in_use


def test_nothing_is_filled_above_its_share_by_a_large_server():
    sites = [nodes.Site(one) for one in machines(plan(nodes=2))]
    nodes.fill(sites, {LARGE: 1}, 0.5, False, seed=1)
    assert [used(site.facts()) for site in sites] == [0, 0]


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
