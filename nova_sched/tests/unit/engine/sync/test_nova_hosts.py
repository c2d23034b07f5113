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
"""What Nova's databases tell of services, aggregates and nodes."""

import dataclasses

import pytest

from nova_sched.claims import ServiceFacts
from nova_sched.tests.builders import CELL, NOW, aggregate, report, request, uuid_of
from nova_sched.tests.unit.engine.world import World

OTHER = uuid_of('other cell')


@pytest.fixture
def world():
    made = World(reads_nova=True)
    made.report(report('a'), report('b'), report('c', cell_uuid=OTHER))
    return made


def seen(world):
    return {node.host: world.cluster.hosts.seen_s[node.row] for node in world.cluster}


def flags(world):
    hosts = world.cluster.hosts
    return {
        node.host: (bool(hosts.disabled[node.row]), bool(hosts.forced_down[node.row]))
        for node in world.cluster
    }


def tell(world, cell, *not_up):
    world.call(world.scheduler.nova_hosts.services_are, cell, {one.host: one for one in not_up})


def test_a_report_is_not_a_heartbeat(world):
    assert seen(world) == {'a': 0.0, 'b': 0.0, 'c': 0.0}
    world.state_sync.refresh()
    assert seen(world) == {'a': 0.0, 'b': 0.0, 'c': 0.0}


def test_hosts_that_are_not_named_are_up(world):
    tell(world, CELL)
    assert seen(world) == {'a': NOW, 'b': NOW, 'c': 0.0}


@pytest.mark.parametrize(
    'facts, flag, seen_s',
    [
        pytest.param(
            ServiceFacts('a', True, 'disk', False, NOW), (True, False), NOW, id='disabled'
        ),
        pytest.param(ServiceFacts('a', False, None, True, NOW), (False, True), NOW, id='forced'),
        pytest.param(
            ServiceFacts('a', False, None, False, NOW - 90), (False, False), NOW - 90, id='silent'
        ),
    ],
)
def test_a_service_that_is_not_up_and_comes_back(world, facts, flag, seen_s):
    tell(world, CELL)
    tell(world, CELL, facts)
    assert (flags(world)['a'], seen(world)['a']) == (flag, seen_s)
    assert (flags(world)['b'], seen(world)['b']) == ((False, False), NOW)
    tell(world, CELL)
    assert (flags(world)['a'], seen(world)['a']) == ((False, False), NOW)


def test_a_host_that_is_up_is_marked_a_few_times_in_the_down_time(world):
    tell(world, CELL)
    world.now_s += 10
    tell(world, CELL)
    assert seen(world)['a'] == NOW
    world.now_s += 11
    tell(world, CELL)
    assert seen(world)['a'] == NOW + 21


def test_a_node_that_is_read_later_has_the_state_of_its_service(world):
    tell(world, CELL, ServiceFacts('d', True, 'new', False, NOW))
    world.report(report('d'))
    assert flags(world)['d'] == (True, False)


def test_hosts_of_a_disabled_cell_get_no_servers(world):
    tell(world, OTHER)
    world.call(world.scheduler.nova_hosts.cells_are, [CELL])
    assert flags(world) == {'a': (False, False), 'b': (False, False), 'c': (True, False)}
    tell(world, OTHER)
    assert flags(world)['c'] == (False, False)


@pytest.mark.parametrize(
    'facts',
    [
        pytest.param(ServiceFacts('a', True, 'it was moved', False, NOW), id='disabled'),
        pytest.param(ServiceFacts('a', False, None, True, NOW), id='forced down'),
        pytest.param(ServiceFacts('a', False, None, False, NOW - 90), id='silent'),
    ],
)
def test_a_service_record_that_is_left_in_another_cell(world, facts):
    """It says nothing of the nodes of the cell that the host is in now."""
    new = report('new')
    for seen_s in (facts.seen_s, facts.seen_s + 0.01):  # clocks differ, each time by another span
        record = dataclasses.replace(facts, seen_s=seen_s)
        tell(world, OTHER, record, dataclasses.replace(record, host='new'))
        world.report(new)
        tell(world, CELL)
        for host in ('a', 'new'):
            assert (flags(world)[host], seen(world)[host]) == ((False, False), NOW)
    world.report(dataclasses.replace(new, cell_uuid=OTHER))
    assert flags(world)['new'] == (facts.disabled, facts.forced_down)
    assert seen(world)['new'] == facts.seen_s + 0.01


def test_nodes_of_one_host_in_two_cells(world):
    """As of bare metal: each has the service of its cell."""
    world.report(report('ironic', nodename='b0'), report('ironic', nodename='b1', cell_uuid=OTHER))
    tell(world, CELL)
    tell(world, OTHER, ServiceFacts('ironic', True, 'repair', False, NOW))
    hosts, find = world.cluster.hosts, world.cluster.find
    disabled = [bool(hosts.disabled[find('ironic', name).row]) for name in ('b0', 'b1')]
    assert disabled == [False, True]
    assert world.cluster.hosts_with_settings() == {'ironic'}


def test_aggregates_are_those_of_nova(world):
    of = world.scheduler.nova_hosts.aggregates_are
    world.call(of, [aggregate(1, ['a']), aggregate(2, ['b'], ssd='true')])
    world.call(of, [aggregate(2, ['a'], ssd='true'), aggregate(3, ['b'])])
    known = {one.id: one.hosts for one in world.cluster.hosts.aggregates}
    assert known == {2: {'a'}, 3: {'b'}}
    assert {one.id for one in World(world.store).cluster.hosts.aggregates} == {2, 3}


@pytest.mark.parametrize(
    'cell_uuid, was_seen, left',
    [
        pytest.param(CELL, True, {'b', 'c'}, id='it is gone'),
        pytest.param(CELL, False, {'a', 'b', 'c'}, id='it was made after the poll'),
        pytest.param(OTHER, True, {'a', 'b', 'c'}, id='it is in a cell that still has it'),
    ],
)
def test_a_node_that_is_gone(world, cell_uuid, was_seen, left):
    uuid = world.cluster.find('a', 'a').uuid
    seen = world.scheduler.nova_hosts.generations([uuid])[uuid] if was_seen else 0
    world.call(world.scheduler.nova_hosts.node_is_gone, uuid, cell_uuid, seen)
    assert {node.host for node in world.cluster} == left
    assert {node.host for node in World(world.store).cluster} == left


def test_the_nodes_of_a_cell(world):
    of_cell = [world.call(world.scheduler.nova_hosts.nodes_of_cell, one) for one in (CELL, OTHER)]
    hosts = [{world.cluster.node(uuid).host for uuid in uuids} for uuids in of_cell]
    assert hosts == [{'a', 'b'}, {'c'}]


def test_nodes_and_hosts_by_cell(world):
    a, b, c = (world.cluster.find(name, name).uuid for name in 'abc')
    find = world.scheduler.nova_hosts.hosts_by_cell
    assert find([a, uuid_of('unknown')]) == {CELL: {'a': [a]}}
    assert find([a], {'c', 'unknown'}) == {CELL: {'a': [a]}, OTHER: {'c': [c]}}
    assert find([], {'a', 'b'}) == {CELL: {'a': [a], 'b': [b]}}


def test_the_nodes_of_claims_that_may_be_in_the_way(world):
    """Those of the requests' own instances, and of the members of their groups."""
    tell(world, CELL)
    own, told, other, group = map(uuid_of, ('own', 'told', 'other', 'group'))
    together = {'uuid': group, 'policy': 'anti-affinity'}
    for uuid, host, words in ((own, 'a', {}), (told, 'b', {}), (other, 'c', {'group': together})):
        tell(world, OTHER)
        world.place(request(instance_uuid=uuid, force_hosts=[host], **words))
    nodes = {host: world.cluster.find(host, host).uuid for host in 'abc'}
    new = request(instance_uuid=uuid_of('new'))
    member = request(
        instance_uuid=uuid_of('new'), group={**together, 'members': [told], 'hosts': []}
    )
    of = world.scheduler.nova_hosts.nodes_of_claims
    assert world.call(of, [new]) == set()
    assert world.call(of, [new, request(instance_uuid=own)]) == {nodes['a']}
    assert world.call(of, [member]) == {nodes['b'], nodes['c']}


def test_claims_that_are_old(world):
    tell(world, CELL)
    world.place(request(instance_uuid=uuid_of('one')))
    world.now_s += 10
    world.place(request(instance_uuid=uuid_of('two')))
    nodes = dict.fromkeys([node.uuid for node in world.cluster], frozenset())
    of = world.scheduler.nova_hosts.unsettled_claims
    found = [world.call(of, NOW + after_s, nodes) for after_s in (0, 5, 15)]
    assert [[one.consumer_uuid for one in some] for some in found] == [
        [],
        [uuid_of('one')],
        [uuid_of('one'), uuid_of('two')],
    ]


def test_confirmed_claims_without_a_server(world):
    tell(world, CELL)
    world.place(request(instance_uuid=uuid_of('one')))
    (claim,) = world.store.claims()
    world.store.confirm([claim.consumer_uuid], [claim.node_uuid])
    world.state_sync.refresh()
    of = world.scheduler.nova_hosts.unsettled_claims
    found = [
        [one.consumer_uuid for one in world.call(of, NOW + after_s, {claim.node_uuid: consumers})]
        for after_s, consumers in (
            (5, frozenset()),
            (5, frozenset([claim.consumer_uuid])),
            (0, frozenset([claim.consumer_uuid])),
        )
    ]
    assert found == [[], [claim.consumer_uuid], []]


ONE, OTHERS = uuid_of('one'), uuid_of('other server')


@pytest.mark.parametrize(
    'state, servers, vcpus, explained',
    [
        pytest.param('confirmed', [ONE], 1, True, id='the claim is for the only server'),
        pytest.param('confirmed', [ONE], 2, False, id='Placement has more'),
        pytest.param('confirmed', [ONE, OTHERS], 1, False, id='there is another server'),
        pytest.param('confirmed', [OTHERS], 1, False, id='there is just another server'),
        pytest.param('pending', [ONE], 1, False, id='it is not certain that it is built'),
    ],
)
def test_claims_that_need_no_allocations_to_be_read(world, state, servers, vcpus, explained):
    tell(world, CELL)
    world.place(request(instance_uuid=ONE, vcpus=1))
    (claim,) = world.store.claims()
    if state == 'confirmed':
        world.store.confirm([ONE], [claim.node_uuid])
        world.state_sync.refresh()
    used = {name: amount for name, amount in claim.resources.items() if amount} | {'VCPU': vcpus}
    some = used, frozenset(servers)
    nodes = {claim.node_uuid: some, 'unknown': some}
    found = world.call(world.scheduler.nova_hosts.explained, nodes)
    assert found.pop('unknown') == {'': used, **{one: {} for one in servers}}
    assert found == ({claim.node_uuid: {ONE: claim.resources}} if explained else {})


def test_a_claim_ends_unless_it_has_changed(world):
    tell(world, CELL)
    world.place(request(instance_uuid=uuid_of('one')))
    (claim,) = world.store.claims()
    end = world.scheduler.nova_hosts.end_claim
    world.now_s += 10
    world.store.confirm([claim.consumer_uuid], [claim.node_uuid])
    assert not world.call(end, claim)
    (now,) = world.store.claims()
    assert now.is_confirmed
    world.store.release([claim.key])
    world.state_sync.refresh()
    world.place(request(instance_uuid=uuid_of('one')))
    (claim,) = world.store.claims()
    assert world.call(end, claim)
    assert world.store.claims() == []
    assert world.cluster.claims_of(claim.consumer_uuid) == []


@pytest.mark.parametrize(
    'words, host, zone',
    [
        pytest.param({}, None, [], id='any host'),
        pytest.param({'availability_zone': 'z'}, None, ['of z'], id='a zone'),
        pytest.param({'availability_zone': 'nova'}, None, [], id='a zone without aggregates'),
        pytest.param({'force_hosts': ['b']}, 'b', [], id='one host'),
        pytest.param({'ignore_hosts': ['b']}, None, [], id='two hosts'),
    ],
)
def test_the_scope_of_a_request(world, words, host, zone):
    for number, name in ((1, 'z'), (2, 'other')):
        made = dataclasses.replace(
            aggregate(number, ['a'], availability_zone=name), uuid=uuid_of(f'of {name}')
        )
        world.state_sync.set_aggregate(number, made)
    node, found, is_owned = world.call(world.scheduler.nova_hosts.scope, request(**words))
    assert node == (host and world.cluster.find(host, host).uuid)
    assert found == {uuid_of(name) for name in zone}
    assert not is_owned


@pytest.mark.parametrize(
    'versions, is_owned',
    [
        pytest.param([74], True, id='new'),
        pytest.param([73, 74], True, id='all since the trait'),
        pytest.param([74, 72], False, id='one that is older'),
        pytest.param([None, 74], True, id='a cell without computes'),
        pytest.param([None], False, id='no computes'),
        pytest.param([0, 74], True, id='a version that is not known'),
    ],
)
def test_the_owner_of_providers(world, versions, is_owned):
    nova_hosts = world.scheduler.nova_hosts
    cells = dict(zip([CELL, 'two', OTHER], versions, strict=False)) | {'last': None}
    world.call(nova_hosts.cells_are, cells)
    for cell, version in cells.items():
        assert not world.cluster.hosts.is_owned  # nothing is known of an enabled cell
        world.call(nova_hosts.services_are, cell, {}, {}, version)
    assert world.cluster.hosts.is_owned is is_owned


def test_the_computes_of_a_cell_that_is_gone_do_not_matter(world):
    """The claim store has its nodes until they are removed."""
    nova_hosts = world.scheduler.nova_hosts
    world.call(nova_hosts.cells_are, [CELL, OTHER])
    world.call(nova_hosts.services_are, CELL, {}, {}, 74)
    world.call(nova_hosts.services_are, OTHER, {}, {}, 72)
    assert not world.cluster.hosts.is_owned
    world.call(nova_hosts.cells_are, [CELL])
    assert world.cluster.hosts.is_owned
    after = World(world.store, reads_nova=True)
    after.call(after.scheduler.nova_hosts.cells_are, [CELL])
    after.call(after.scheduler.nova_hosts.services_are, CELL, {}, {}, 74)
    assert after.cluster.hosts.is_owned
    after.call(after.scheduler.nova_hosts.cells_are, [CELL, OTHER])
    assert not after.cluster.hosts.is_owned


def test_a_node_is_left_out_by_itself(world):
    """The service of its host stays as it is."""
    cluster, nova_hosts = world.cluster, world.scheduler.nova_hosts
    uuids = {host: cluster.find(host, host).uuid for host in ('a', 'b')}

    def left_out(*hosts):
        odd = {uuids[host]: (host, 'its stats are broken') for host in hosts}
        world.call(nova_hosts.services_are, CELL, {}, odd)
        return {host for host in uuids if cluster.hosts.disabled[cluster.find(host, host).row]}

    assert left_out('a') == {'a'}
    assert cluster.find('a', 'a').is_left_out
    assert not cluster.service('a').is_left_out
    assert nova_hosts.standing()[CELL]['a'] == ('left out', 'its stats are broken')
    assert left_out('b') == {'b'}
    assert left_out() == set()
    assert not cluster.find('b', 'b').is_left_out


def test_a_row_that_is_left_in_another_cell_leaves_out_no_node(world):
    cluster, nova_hosts = world.cluster, world.scheduler.nova_hosts
    node = cluster.find('a', 'a')
    odd = {node.uuid: ('a', 'it is mapped to another cell')}
    world.call(nova_hosts.services_are, OTHER, {}, odd)
    assert not node.is_left_out
    world.report(report('a', cell_uuid=OTHER))
    world.call(nova_hosts.services_are, OTHER, {}, odd)
    assert cluster.node(node.uuid).is_left_out
    world.report(report('a'))
    world.call(nova_hosts.services_are, CELL, {})
    assert not cluster.node(node.uuid).is_left_out


@pytest.mark.parametrize(
    'facts, standing',
    [
        pytest.param(None, ('up', None), id='up'),
        pytest.param(
            ServiceFacts('a', True, 'left out: no provider', False, NOW),
            ('left out', 'no provider'),
            id='left out',
        ),
        pytest.param(
            ServiceFacts('a', True, 'disk', False, NOW),
            ('disabled', 'its service is disabled: disk'),
            id='disabled',
        ),
        pytest.param(
            ServiceFacts('a', False, None, True, NOW),
            ('forced down', 'its service is forced down'),
            id='forced down',
        ),
        pytest.param(
            ServiceFacts('a', False, None, False, NOW - 90),
            ('silent', 'the last heartbeat of its service is 90 s old'),
            id='silent',
        ),
    ],
)
def test_the_standing_of_a_host(world, facts, standing):
    tell(world, CELL, *[facts] if facts else [])
    found = world.call(world.scheduler.nova_hosts.standing)
    assert found[CELL]['a'] == standing
    assert found[CELL]['b'] == ('up', None)


def test_a_trait_that_disables(world):
    world.report(report('a', traits=frozenset(['COMPUTE_STATUS_DISABLED'])))
    tell(world, CELL)
    state, why = world.call(world.scheduler.nova_hosts.standing)[CELL]['a']
    assert (state, 'COMPUTE_STATUS_DISABLED' in why) == ('disabled', True)


def test_hosts_that_are_left_out_before_they_have_reported(world):
    left_out = [ServiceFacts(host, True, 'left out: no provider') for host in ('a', 'new')]
    tell(world, CELL, *left_out, ServiceFacts('off', True, 'disk'))
    assert world.cluster.hosts.left_out == 1
    tell(world, CELL)
    assert world.cluster.hosts.left_out == 0


def test_a_change_of_the_stored_services_changes_no_host(world):
    tell(world, CELL, ServiceFacts('a', True, 'disk', False, NOW))
    world.store.set_service(ServiceFacts('b', True, 'by an earlier release'))
    world.state_sync.refresh()
    assert flags(world) == {'a': (True, False), 'b': (False, False), 'c': (False, False)}
