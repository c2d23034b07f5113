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
"""The requests of a simulated cloud, and its nodes."""

import pytest

from nova_sched import errors
from nova_sched.sim.machines import machines
from nova_sched.sim.models import load
from nova_sched.sim.replay import Demand
from nova_sched.sim.trace import TraceFlavor
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.sim.builders import GIB, SMALL, arrival, node, plan, requests

LARGE = TraceFlavor('large', 4, 8192)


def asks(arrivals, vcpus, by_rule=0.0, seed=1):
    return load.asks(arrivals, vcpus, Demand(['zone-1'], 0.0, seed), by_rule, seed)


@pytest.mark.parametrize(
    'arrivals, peak',
    [
        pytest.param([arrival(3)], 3, id='all stay'),
        pytest.param([arrival(2, flavor=LARGE)], 8, id='vCPUs, not servers'),
        pytest.param(
            [arrival(3, lifetime_s=10), arrival(2, time_s=20)], 3, id='some leave before others'
        ),
        pytest.param(
            [arrival(3, lifetime_s=30), arrival(2, time_s=20)], 5, id='some leave after that'
        ),
    ],
)
def test_the_peak_is_what_is_in_use_at_once(arrivals, peak):
    assert load.peak_vcpus(arrivals) == peak


@pytest.mark.parametrize(
    'vcpus, servers',
    [
        pytest.param(3, 3, id='as it is'),
        pytest.param(9, 9, id='three times'),
    ],
)
def test_the_trace_is_repeated_until_the_peak_is_reached(vcpus, servers):
    found = asks([arrival(2), arrival(1, time_s=300)], vcpus)
    assert len(found) == servers
    assert len({one.uuid for one in found}) == servers
    assert [one.time_s for one in found] == sorted(one.time_s for one in found)


def test_of_a_broken_repetition_batches_come_by_chance_and_whole():
    found = asks([arrival(4, batch=f'b{number}') for number in range(50)], 300)
    assert len(found) % 4 == 0
    assert 200 < len(found) < 400


def test_a_batch_comes_together_and_its_copies_at_other_moments():
    moments = [one.time_s for one in asks([arrival(2)], 4)]
    assert sorted(moments.count(moment) for moment in set(moments)) == [2, 2]
    assert all(0 <= moment - load.START_S <= load.GRID_S for moment in moments)


@pytest.mark.parametrize(
    'share, ruled',
    [pytest.param(0.0, {False}, id='nobody'), pytest.param(1.0, {True}, id='everybody')],
)
def test_who_asks_for_what_no_queue_tells(share, ruled):
    found = asks([arrival(2), arrival(1)], 3, by_rule=share)
    assert {one.by_rule for one in found} == ruled
    assert {bool(one.spec().ignore_hosts) for one in found} == ruled


def test_the_same_seed_asks_for_the_same():
    arrivals = [arrival(2, batch='a'), arrival(1, time_s=300, flavor=LARGE, batch='b')]
    assert asks(arrivals, 20) == asks(arrivals, 20)
    assert asks(arrivals, 20) != asks(arrivals, 20, seed=2)


def test_only_the_first_hours_count():
    arrivals = [arrival(1, time_s=100.0), arrival(1, time_s=3699.0), arrival(1, time_s=3700.0)]
    assert load.cut(arrivals, 1.0) == arrivals[:2]


def test_the_mix_counts_servers():
    assert load.mix([arrival(2), arrival(1, flavor=LARGE), arrival(3)]) == {SMALL: 5, LARGE: 1}


WIDE = TraceFlavor('wide', 6, 2 * GIB)


def used(report, name='VCPU'):
    return report.used[name]


def test_what_is_being_built_takes_room_and_is_not_told_before_it_is_there():
    node_api = load.SimulatedNodeApi(node('old'))
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
    node_api = load.SimulatedNodeApi(node())
    before = node_api.facts()
    node_api.begin(*requests('new'))
    end(node_api)
    assert node_api.facts() == before
    assert not node_api.hidden()


def test_only_what_is_being_built_is_undone():
    node_api = load.SimulatedNodeApi(node('old'))
    node_api.undo(uuid_of('old'))
    assert node_api.holds(uuid_of('old'))


def test_a_node_says_no_where_it_is_full():
    node_api = load.SimulatedNodeApi(node(vcpus=1))
    node_api.begin(*requests('first'))
    with pytest.raises(errors.ComputeResourcesUnavailable):
        node_api.begin(*requests('second'))
    assert node_api.hidden() == {uuid_of('first')}


def test_who_watches_is_told_of_every_change():
    node_api, told = load.SimulatedNodeApi(node()), []
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
    node_apis = [load.SimulatedNodeApi(one) for one in machines(plan(nodes=4))]
    load.fill(node_apis, {SMALL: 1}, 0.5, packed, seed=1)
    assert [used(node_api.facts()) for node_api in node_apis] == in_use


def test_nothing_is_filled_above_its_share_by_a_large_server():
    node_apis = [load.SimulatedNodeApi(one) for one in machines(plan(nodes=2))]
    load.fill(node_apis, {WIDE: 1}, 0.5, False, seed=1)
    assert [used(node_api.facts()) for node_api in node_apis] == [0, 0]


def test_special_things_are_shared_out():
    specials = [f'trait:T{number}' for number in range(9)] + ['resource:A', 'resource:B']
    found = load.special_facts(specials, 9)
    assert all(len(traits) in (1, 2) and len(classes) == 1 for traits, classes in found)
    assert set().union(*(traits for traits, _ in found)) == {f'T{number}' for number in range(9)}
    assert [classes for _, classes in found[:2]] == [['A'], ['B']]
    assert load.special_facts([], 1) == [(frozenset(), [])]


def test_a_node_reports_its_special_things():
    report = load.SimulatedNodeApi(node(), frozenset({'CUSTOM_T'}), ['CUSTOM_R']).facts()
    assert 'CUSTOM_T' in report.traits
    assert report.inventories['CUSTOM_R'].total == load.UNITS
    assert used(report, 'CUSTOM_R') == 0


def test_a_host_is_told_of_its_own_aggregates_and_of_all_zones():
    members = machines(plan(nodes=4, zones=2, racks=2))
    found = load.of_host(load.aggregates_of(members), members[3].host)
    assert {one.name: one.hosts for one in found} == {
        'zone-1': set(),
        'zone-2': {members[3].host},
        members[3].rack: {members[3].host},
    }
