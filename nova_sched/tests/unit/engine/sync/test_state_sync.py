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
"""Tests of the state sync: whatever changes, the cluster and the store end up alike."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.claims import Placement, ServiceFacts
from nova_sched.claims.values import Changes
from nova_sched.engine.sync.state_sync import MAX_STALE_NODES
from nova_sched.tests.builders import NOW, aggregate, claim, report, uuid_of
from nova_sched.tests.unit.engine.world import (
    A,
    B,
    C,
    asks,
    commit,
    fresh,
    node,
    picture,
    states,
    used,
)


class TestRefresh:
    def test_what_others_did_is_taken_over(self, world):
        commit(world.store, claim(A, node(), vcpus=2))
        world.store.report([report('host-2', vcpus=8, vcpus_used=1)], NOW + 5)
        world.store.set_service(ServiceFacts('host-1', True, 'broken', True, NOW + 7))
        world.store.set_aggregate(1, aggregate(1, ['host-0'], availability_zone='z'))
        world.store.set_instances('host-1', frozenset([B]))
        world.state_sync.refresh()
        hosts = world.cluster.hosts
        assert used(world) == [2, 0, 1]
        assert (hosts.disabled.tolist(), hosts.forced_down.tolist()) == (
            [False, True, False],
            [False, True, False],
        )
        assert hosts.seen_s.tolist() == [NOW, NOW + 7, NOW + 5]
        assert hosts.in_zone('z', 'nova').tolist() == [True, False, False]
        assert hosts.count_instances([A, B]).tolist() == [1, 1, 0]

    def test_what_went_is_forgotten(self, world):
        world.call(
            world.state_sync.set_aggregates, [aggregate(1, ['host-1']), aggregate(2, ['host-1'])]
        )
        world.place(asks(A), asks(B))
        world.store.remove_node(node())
        world.store.set_aggregate(1, None)
        world.store.set_aggregate(2, aggregate(2, ['host-1'], ssd='true'))
        world.state_sync.refresh()
        assert [one.host for one in world.cluster] == ['host-1']
        assert [one.metadata for one in world.cluster.hosts.aggregates] == [{'ssd': 'true'}]

    def test_a_node_that_was_rebuilt_under_its_old_name(self, world):
        world.store.report([report('host-1', node_uuid=uuid_of('new'), vcpus=9)], NOW)
        world.state_sync.refresh()
        assert {one.uuid for one in world.cluster} == {node(), uuid_of('new')}
        assert world.cluster.find('host-1', 'host-1').uuid == uuid_of('new')

    def test_nodes_that_changed_names(self, world):
        for host, uuid in (('host-2', node('host-0')), ('host-0', node('host-1'))):
            world.store.report([report(host, node_uuid=uuid)], NOW)
        world.state_sync.refresh()
        assert {one.uuid: one.host for one in world.cluster} == {
            node('host-0'): 'host-2',
            node('host-1'): 'host-0',
        }

    def test_an_old_list_is_no_news(self, world):
        """A list from messages that did not change since does not win over a report that came
        later."""
        world.call(world.state_sync.instances_added, 'host-0', [A])
        world.report(report(vcpus=4, instances=frozenset([B])))
        world.store.set_instances('host-1', frozenset([C]))
        world.state_sync.refresh()
        assert world.cluster.hosts.count_instances([A, B, C]).tolist() == [1, 1]
        assert world.cluster.told('host-0') == {B}

    def test_a_new_list_is_news(self, world):
        world.report(report(vcpus=4, instances=frozenset([B])))
        world.store.set_instances('host-0', frozenset([A]))
        world.state_sync.refresh()
        assert world.cluster.told('host-0') == {A}
        world.report(report(vcpus=4, instances=frozenset([B])))
        assert world.cluster.told('host-0') == {B}

    def test_catch_up_with_some_nodes(self, world):
        for host in ('host-0', 'host-1'):
            commit(world.store, claim(uuid_of(host), node(host)))
        world.store.set_service(ServiceFacts('host-1', True))
        world.state_sync.catch_up([node('host-1'), node('gone')], {node('host-0'): NOW + 9})
        assert used(world) == [0, 1]
        assert world.cluster.hosts.disabled.tolist() == [False, True]
        assert world.cluster.hosts.seen_s.tolist() == [NOW + 9, NOW]


class TestOwnCommits:
    def test_our_own_generation_is_followed(self, world):
        world.place(asks(A))
        known = {one.uuid: one.generation for one in world.cluster}
        assert known == {uuid: generation for uuid, (generation, _) in world.store.heads().items()}

    def test_where_others_came_between_it_is_not(self, world):
        world.store.rivals = [[Placement((claim(B, node()), claim(C, node('host-1'))))]]
        world.place(asks(A, force_hosts=['host-0']))
        assert used(world) == [1, 0]
        world.state_sync.refresh()
        assert used(world) == [2, 1]

    def test_a_node_that_others_filled_is_full_before_it_is_read(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        commit(world.store, claim(B, node(), vcpus=3))
        reads = world.store.read_nodes
        world.store.read_nodes = None
        (outcome,) = world.store.commit([Placement((claim(C, node(), vcpus=2),))])
        assert (outcome.won, outcome.fresh) == (False, ())
        world.state_sync.committed([], [outcome])
        assert used(world) == [4, 0]
        world.store.read_nodes = reads
        world.state_sync.refresh()
        assert used(world) == [4, 0]
        assert not world.cluster.node(node()).foreign.get('VCPU')
        assert picture(world.cluster) == picture(fresh(world.store))

    def test_a_node_that_became_smaller_is_read(self, world):
        world.store.report([report('host-0', vcpus=1)], NOW)
        (outcome,) = world.store.commit([Placement((claim(C, node(), vcpus=2),))])
        assert (outcome.won, outcome.fresh) == (False, ())
        world.state_sync.committed([], [outcome])
        assert world.cluster.node(node()).report.inventories['VCPU'].total == 1

    def test_a_node_where_others_came_between_is_read(self, world):
        world.store.rivals = [[Placement((claim(B, node()), claim(C, node('host-1'))))]]
        world.place(asks(A, force_hosts=['host-0']))
        assert world.state_sync.wake.is_set()
        world.call(world.state_sync.heal)
        assert used(world) == [2, 0]
        assert not world.state_sync.wake.is_set()

    def test_a_node_that_a_claim_left_need_not_be_read(self, world):
        """The outcome has its generation too."""
        for host in ('host-0', 'host-1'):
            world.call(world.claim_service.claim, asks(A), host, host)
        assert not world.state_sync.wake.is_set()
        assert {one.uuid: one.generation for one in world.cluster} == {
            uuid: generation for uuid, (generation, _) in world.store.heads().items()
        }
        assert picture(world.cluster) == picture(fresh(world.store))

    def test_some_stale_nodes_are_read_at_once(self, world):
        looked = []
        world.state_sync.catch_up = lambda nodes, seen: looked.append(len(nodes))
        world.state_sync._mark_stale(
            uuid_of(f'node {number}') for number in range(2 * MAX_STALE_NODES + 50)
        )
        while world.state_sync.wake.is_set():
            world.state_sync.heal()
        assert looked == [MAX_STALE_NODES, MAX_STALE_NODES, 50]

    def test_a_refresh_leaves_no_stale_node(self, world):
        world.state_sync._mark_stale([node()])
        world.state_sync.refresh()
        world.state_sync.catch_up = None
        world.state_sync.heal()

    def test_an_unconfirmed_claim_ends(self, world):
        world.place(asks(A), asks(B), asks(C))
        world.call(world.state_sync.instances_added, 'host-0', [A, B])
        world.call(world.state_sync.instances_added, 'host-1', [A, B])
        world.now_s += 10**9
        world.call(world.state_sync.expire)
        assert sorted(consumer for consumer, _ in states(world)) == sorted([A, B])


class TestOwner:
    @pytest.mark.parametrize(
        'words, silent_s, down, refused',
        [
            pytest.param({'host': 'host-0'}, 0, False, False, id='its own host'),
            pytest.param(
                {'host': 'new', 'node_uuid': uuid_of('new')}, 0, False, False, id='a new node'
            ),
            pytest.param(
                {'host': 'new', 'node_uuid': node()},
                0,
                False,
                True,
                id='another host, which is up',
            ),
            pytest.param({'host': 'new', 'node_uuid': node()}, 60, False, True, id='just up'),
            pytest.param(
                {'host': 'new', 'node_uuid': node()}, 61, False, False, id='silent too long'
            ),
            pytest.param({'host': 'new', 'node_uuid': node()}, 0, True, False, id='forced down'),
        ],
    )
    def test_who_may_report_a_node(self, world, words, silent_s, down, refused):
        world.call(world.state_sync.set_service, 'host-0', False, None, down, 0.0)
        world.now_s += silent_s
        future = world.send_report(report(**words))
        world.turn_until(future)
        assert isinstance(future.exception(0), errors.NodeOwned) == refused
        assert (words['host'] in [one.host for one in world.cluster]) != refused


class TestNodesAndServices:
    def test_set_service(self, world):
        world.call(world.state_sync.set_service, 'host-1', True, 'why', True, NOW + 5)
        assert world.store.changes({}).services == (
            ServiceFacts('host-1', True, 'why', True, NOW + 5),
        )
        service = world.cluster.service('host-1')
        assert (service.disabled, service.disabled_reason, service.forced_down) == (
            True,
            'why',
            True,
        )
        assert world.cluster.hosts.seen_s.tolist() == [NOW, NOW + 5]

    def test_what_is_not_said_of_a_service_stays(self, world):
        world.call(world.state_sync.set_service, 'host-1', True, 'why', True, NOW + 5)
        world.call(world.state_sync.set_service, 'host-1', None, None, None, NOW + 9)
        assert world.store.changes({}).services == (
            ServiceFacts('host-1', True, 'why', True, NOW + 9),
        )
        world.call(world.state_sync.set_service, 'host-1', False, None, None, 0.0)
        service = world.cluster.service('host-1')
        assert (service.disabled, service.disabled_reason, service.forced_down) == (
            False,
            None,
            True,
        )

    def test_settings_that_the_store_no_longer_has_end(self, world, monkeypatch):
        world.call(world.state_sync.set_service, 'host-1', True, 'why', True, NOW + 5)
        monkeypatch.setattr(world.store, 'changes', lambda generations: Changes(services=()))
        world.state_sync.refresh()
        service = world.cluster.service('host-1')
        assert (service.disabled, service.disabled_reason, service.forced_down) == (
            False,
            None,
            False,
        )

    def test_remove_node(self, world):
        world.place(asks(A), asks(B))
        world.call(world.state_sync.remove_node, 'host-0', 'host-0')
        assert [one.host for one in world.cluster] == ['host-1']
        assert all(host == 'host-1' for _, host in states(world))
        with pytest.raises(errors.NodeNotFound, match='host-0 on host host-0'):
            world.call(world.state_sync.remove_node, 'host-0', 'host-0')

    def test_remove_a_node_with_servers(self, world):
        """Whoever means it has seen it."""
        world.place(asks(A, force_hosts=['host-0']))
        world.call(world.state_sync.instances_added, 'host-0', [A])
        remove = world.state_sync.remove_node, 'host-0', 'host-0'
        with pytest.raises(errors.Outdated, match='servers run there'):
            world.call(*remove)
        with pytest.raises(errors.Outdated, match='has reported'):
            world.call(*remove, 0)
        assert states(world) == {(A, 'host-0'): CONFIRMED}
        world.call(*remove, world.cluster.find('host-0', 'host-0').generation)
        assert states(world) == {}

    def test_aggregates(self, world):
        one, two = aggregate(1, ['host-0'], availability_zone='z'), aggregate(2, ['host-1'])
        world.call(world.state_sync.set_aggregates, [one, two])
        assert world.store.changes({}).aggregates == (one, two)
        assert world.cluster.hosts.in_zone('z', 'nova').tolist() == [True, False]
        world.call(world.state_sync.set_aggregate, 1, None)
        world.call(world.state_sync.set_aggregate, 99, None)
        assert world.store.changes({}).aggregates == (two,)
        assert not world.cluster.hosts.has_zone('z')


class TestInstances:
    """What hosts' messages tell, of claims A and B on host-0 and C on host-1, all waiting. They
    may be late, and end nothing."""

    @pytest.fixture
    def world(self, world):
        for consumer, host in ((A, 'host-0'), (B, 'host-0'), (C, 'host-1')):
            world.place(asks(consumer, force_hosts=[host]))
        return world

    def test_added(self, world):
        world.call(world.state_sync.instances_added, 'host-0', [A, C])
        assert states(world) == {
            (A, 'host-0'): CONFIRMED,
            (B, 'host-0'): PENDING,
            (C, 'host-1'): PENDING,
        }
        world.call(world.state_sync.instances_added, 'host-0', [uuid_of('stranger')])
        assert world.cluster.told('host-0') == {A, C, uuid_of('stranger')}

    def test_exactly(self, world):
        """A list that does not say when it was made ends no claim."""
        world.call(world.state_sync.instances_added, 'host-0', [A])
        world.call(world.state_sync.instances_are, 'host-0', [B])
        after = {(A, 'host-0'): CONFIRMED, (B, 'host-0'): CONFIRMED, (C, 'host-1'): PENDING}
        assert (states(world), world.cluster.told('host-0')) == (after, {B})
        world.call(world.state_sync.instances_are, 'host-0', [])
        assert (states(world), world.cluster.told('host-0')) == (after, frozenset())

    def test_instance_lists_are_ignored_without_track_instances(self, world):
        world.call(world.state_sync.instances_added, 'host-0', [A])
        before = states(world), world.cluster.told('host-0')
        world.settings = dataclasses.replace(world.settings, track_instances=False)
        world.call(world.state_sync.instances_added, 'host-0', [B])
        world.call(world.state_sync.instances_are, 'host-0', [])
        world.call(world.state_sync.instance_gone, 'host-0', A)
        assert (states(world), world.cluster.told('host-0')) == before

    def test_gone(self, world):
        world.call(world.state_sync.instances_added, 'host-0', [A])
        before = states(world)
        for uuid in (A, B, C, uuid_of('stranger')):
            world.call(world.state_sync.instance_gone, 'host-0', uuid)
        assert (states(world), world.cluster.told('host-0')) == (before, frozenset())

    def test_of_an_unknown_host(self, world):
        world.call(world.state_sync.instances_added, 'host-9', [uuid_of('early')])
        world.report(report('host-9'))
        assert world.cluster.hosts.count_instances([uuid_of('early')]).tolist() == [0, 0, 1]

    def test_of_a_host_with_several_nodes(self, world):
        for number in range(2):
            world.report(report('metal', nodename=f'node {number}', vcpus=1))
        world.place(asks(uuid_of('bare'), force_nodes=['node 1']))
        world.call(world.state_sync.instances_added, 'metal', [uuid_of('bare')])
        assert states(world)[uuid_of('bare'), 'metal'] == CONFIRMED
        world.call(world.state_sync.instance_gone, 'metal', uuid_of('bare'))
        assert states(world)[uuid_of('bare'), 'metal'] == CONFIRMED

    def test_the_same_message_again_changes_nothing(self, world):
        world.call(world.state_sync.instances_added, 'host-0', [A])
        before = world.store.heads()
        world.call(world.state_sync.instances_added, 'host-0', [A])
        world.call(world.state_sync.instances_are, 'host-0', [A])
        assert world.store.heads() == before
