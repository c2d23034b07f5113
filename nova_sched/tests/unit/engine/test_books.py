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
"""Tests of the books: whatever changes, the cluster and the store end up alike."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claims import Placement, ServiceFacts
from nova_sched.objects.claim import CONFIRMED, PENDING, VCPU
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import NOW, aggregate, claim, report, request, uuid_of
from nova_sched.tests.unit.engine.stores import Contested, Unsteady
from nova_sched.tests.unit.engine.world import World, fresh, picture

A, B, C = (uuid_of(f'instance {letter}') for letter in 'ABC')


def node(host='host-0'):
    return uuid_of(f'node {host}')


def asks(instance=A, **words):
    return request(instance_uuid=instance, **words)


@pytest.fixture
def world():
    """Two hosts with 4 CPUs each; at the end a scheduler that starts now knows the same."""
    made = World(Contested())
    made.report(report(vcpus=4), report('host-1', vcpus=4))
    yield made
    made.books.refresh()
    assert picture(made.cluster) == picture(fresh(made.store))


def states(world):
    """(consumer, host) -> state of every claim, the same in the cluster and the store."""
    booked = {
        (one.consumer_uuid, node.host): one.state for node in world.cluster for one in node.claims.values()
    }
    hosts = {one.uuid: one.host for one in world.cluster}
    stored = {(one.consumer_uuid, hosts[one.node_uuid]): one.state for one in world.store.claims()}
    assert booked == stored
    return booked


def used(world):
    return world.cluster.hosts.resource(VCPU).used.tolist()


def commit(store, *claims):
    """As another scheduler does it."""
    assert store.commit([Placement(claims)])[0].won


class TestRefresh:
    def test_what_others_did_is_taken_over(self, world):
        commit(world.store, claim(A, node(), vcpus=2))
        world.store.report([report('host-2', vcpus=8, vcpus_used=1)], NOW + 5)
        world.store.set_service(ServiceFacts('host-1', True, 'broken', True, NOW + 7))
        world.store.set_aggregate(1, aggregate(1, ['host-0'], availability_zone='z'))
        world.store.set_instances('host-1', frozenset([B]))
        world.books.refresh()
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
        world.call(world.books.set_aggregates, [aggregate(1, ['host-1']), aggregate(2, ['host-1'])])
        world.place(asks(A), asks(B))
        world.store.remove_node(node())
        world.store.set_aggregate(1, None)
        world.store.set_aggregate(2, aggregate(2, ['host-1'], ssd='true'))
        world.books.refresh()
        assert [one.host for one in world.cluster] == ['host-1']
        assert [one.metadata for one in world.cluster.hosts.aggregates] == [{'ssd': 'true'}]

    def test_a_node_that_was_rebuilt_under_its_old_name(self, world):
        world.store.report([report('host-1', node_uuid=uuid_of('new'), vcpus=9)], NOW)
        world.books.refresh()
        assert {one.uuid for one in world.cluster} == {node(), uuid_of('new')}
        assert world.cluster.find('host-1', 'host-1').uuid == uuid_of('new')

    def test_nodes_that_changed_names(self, world):
        for host, uuid in (('host-2', node('host-0')), ('host-0', node('host-1'))):
            world.store.report([report(host, node_uuid=uuid)], NOW)
        world.books.refresh()
        assert {one.uuid: one.host for one in world.cluster} == {
            node('host-0'): 'host-2',
            node('host-1'): 'host-0',
        }

    def test_nothing_new_changes_nothing(self, world):
        world.place(asks(A))
        world.books.refresh()
        before = picture(world.cluster)
        world.books.refresh()
        assert picture(world.cluster) == before

    def test_an_old_list_is_no_news(self, world):
        """A list from messages that did not change since does not win over a report that came later."""
        world.call(world.books.instances_added, 'host-0', [A])
        world.report(report(vcpus=4, instances=frozenset([B])))
        world.store.set_instances('host-1', frozenset([C]))
        world.books.refresh()
        assert world.cluster.hosts.count_instances([A, B, C]).tolist() == [1, 1]
        assert world.cluster.told('host-0') == {B}

    def test_a_new_list_is_news(self, world):
        world.report(report(vcpus=4, instances=frozenset([B])))
        world.store.set_instances('host-0', frozenset([A]))
        world.books.refresh()
        assert world.cluster.told('host-0') == {A}
        world.report(report(vcpus=4, instances=frozenset([B])))
        assert world.cluster.told('host-0') == {B}

    def test_catch_up_with_some_nodes(self, world):
        for host in ('host-0', 'host-1'):
            commit(world.store, claim(uuid_of(host), node(host)))
        world.store.set_service(ServiceFacts('host-1', True))
        world.books.catch_up([node('host-1'), node('gone')], {node('host-0'): NOW + 9})
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
        world.books.refresh()
        assert used(world) == [2, 1]

    def test_what_nobody_confirmed_ends(self, world):
        world.place(asks(A), asks(B), asks(C))
        world.call(world.books.instances_added, 'host-0', [A, B])
        world.call(world.books.instances_added, 'host-1', [A, B])
        world.now_s += 10**9
        world.call(world.books.expire)
        assert sorted(consumer for consumer, _ in states(world)) == sorted([A, B])

    def test_not_before_its_time(self, world):
        world.place(asks(A))
        world.now_s = world.store.claims()[0].expires_s - 1
        world.call(world.books.expire)
        assert len(states(world)) == 1


class TestOwner:
    @pytest.mark.parametrize(
        'words, silent_s, down, refused',
        [
            pytest.param({'host': 'host-0'}, 0, False, False, id='its own host'),
            pytest.param({'host': 'new', 'node_uuid': uuid_of('new')}, 0, False, False, id='a new node'),
            pytest.param(
                {'host': 'new', 'node_uuid': node()}, 0, False, True, id='another host, which is up'
            ),
            pytest.param({'host': 'new', 'node_uuid': node()}, 60, False, True, id='just up'),
            pytest.param({'host': 'new', 'node_uuid': node()}, 61, False, False, id='silent too long'),
            pytest.param({'host': 'new', 'node_uuid': node()}, 0, True, False, id='forced down'),
        ],
    )
    def test_who_may_report_a_node(self, world, words, silent_s, down, refused):
        world.call(world.books.set_service, 'host-0', False, None, down, 0.0)
        world.now_s += silent_s
        future = world.send_report(report(**words))
        world.turn_until(future)
        assert isinstance(future.exception(0), errors.NodeOwned) == refused
        assert (words['host'] in [one.host for one in world.cluster]) != refused


class TestNodesAndServices:
    def test_set_service(self, world):
        world.call(world.books.set_service, 'host-1', True, 'why', True, NOW + 5)
        assert world.store.changes({}).services == (ServiceFacts('host-1', True, 'why', True, NOW + 5),)
        service = world.cluster.service('host-1')
        assert (service.disabled, service.disabled_reason, service.forced_down) == (True, 'why', True)
        assert world.cluster.hosts.seen_s.tolist() == [NOW, NOW + 5]

    def test_what_is_not_said_of_a_service_stays(self, world):
        world.call(world.books.set_service, 'host-1', True, 'why', True, NOW + 5)
        world.call(world.books.set_service, 'host-1', None, None, None, NOW + 9)
        assert world.store.changes({}).services == (ServiceFacts('host-1', True, 'why', True, NOW + 9),)
        world.call(world.books.set_service, 'host-1', False, None, None, 0.0)
        service = world.cluster.service('host-1')
        assert (service.disabled, service.disabled_reason, service.forced_down) == (False, None, True)

    def test_remove_node(self, world):
        world.place(asks(A), asks(B))
        world.call(world.books.remove_node, 'host-0', 'host-0')
        assert [one.host for one in world.cluster] == ['host-1']
        assert all(host == 'host-1' for _, host in states(world))
        with pytest.raises(errors.NodeNotFound, match='host-0 on host host-0'):
            world.call(world.books.remove_node, 'host-0', 'host-0')

    def test_aggregates(self, world):
        one, two = aggregate(1, ['host-0'], availability_zone='z'), aggregate(2, ['host-1'])
        world.call(world.books.set_aggregates, [one, two])
        assert world.store.changes({}).aggregates == (one, two)
        assert world.cluster.hosts.in_zone('z', 'nova').tolist() == [True, False]
        world.call(world.books.delete_aggregate, 1)
        world.call(world.books.delete_aggregate, 99)
        assert world.store.changes({}).aggregates == (two,)
        assert not world.cluster.hosts.has_zone('z')


class TestInstances:
    """What hosts' messages tell, of claims A and B on host-0 and C on host-1, all waiting."""

    @pytest.fixture
    def world(self, world):
        for consumer, host in ((A, 'host-0'), (B, 'host-0'), (C, 'host-1')):
            world.place(asks(consumer, force_hosts=[host]))
        return world

    def test_added(self, world):
        world.call(world.books.instances_added, 'host-0', [A, C])
        assert states(world) == {(A, 'host-0'): CONFIRMED, (B, 'host-0'): PENDING, (C, 'host-1'): PENDING}
        world.call(world.books.instances_added, 'host-0', [uuid_of('stranger')])
        assert world.cluster.told('host-0') == {A, C, uuid_of('stranger')}

    def test_exactly(self, world):
        world.call(world.books.instances_added, 'host-0', [A])
        world.call(world.books.instances_are, 'host-0', [B])
        assert states(world) == {(B, 'host-0'): CONFIRMED, (C, 'host-1'): PENDING}
        world.call(world.books.instances_are, 'host-0', [])
        assert states(world) == {(C, 'host-1'): PENDING}
        assert used(world) == [0, 1]

    def test_nobody_listens_without_track_instances(self, world):
        world.call(world.books.instances_added, 'host-0', [A])
        before = states(world), world.cluster.told('host-0')
        world.settings = dataclasses.replace(world.settings, track_instances=False)
        world.call(world.books.instances_added, 'host-0', [B])
        world.call(world.books.instances_are, 'host-0', [])
        world.call(world.books.instance_gone, 'host-0', A)
        assert (states(world), world.cluster.told('host-0')) == before

    def test_a_claim_that_waits_is_not_ended_by_a_list(self, world):
        world.call(world.books.instances_are, 'host-0', [])
        assert states(world) == {(A, 'host-0'): PENDING, (B, 'host-0'): PENDING, (C, 'host-1'): PENDING}

    def test_gone(self, world):
        world.call(world.books.instances_added, 'host-0', [A])
        for uuid in (A, B, C, uuid_of('stranger')):
            world.call(world.books.instance_gone, 'host-0', uuid)
        assert states(world) == {(B, 'host-0'): PENDING, (C, 'host-1'): PENDING}
        assert world.cluster.hosts.count_instances([A]).tolist() == [0, 0]

    def test_of_an_unknown_host(self, world):
        world.call(world.books.instances_added, 'host-9', [uuid_of('early')])
        world.report(report('host-9'))
        assert world.cluster.hosts.count_instances([uuid_of('early')]).tolist() == [0, 0, 1]

    def test_of_a_host_with_several_nodes(self, world):
        for number in range(2):
            world.report(report('metal', nodename=f'node {number}', vcpus=1))
        world.place(asks(uuid_of('bare'), force_nodes=['node 1']))
        world.call(world.books.instances_added, 'metal', [uuid_of('bare')])
        assert states(world)[uuid_of('bare'), 'metal'] == CONFIRMED
        world.call(world.books.instance_gone, 'metal', uuid_of('bare'))
        assert (uuid_of('bare'), 'metal') not in states(world)

    def test_the_same_message_again_changes_nothing(self, world):
        world.call(world.books.instances_added, 'host-0', [A])
        before = world.store.heads()
        world.call(world.books.instances_added, 'host-0', [A])
        world.call(world.books.instances_are, 'host-0', [A])
        assert world.store.heads() == before

    def test_the_list_is_kept(self, world):
        world.call(world.books.instances_added, 'host-0', [A])
        assert fresh(world.store).told('host-0') == {A}


class TestClaim:
    def claim(self, world, host='host-0', leaving=None, **words):
        return world.call(world.books.claim, asks(**words), host, host, 'req-1', leaving)

    def test_a_claim(self, world):
        made = self.claim(world, vcpus=3)
        assert (made.consumer_uuid, made.node_uuid, made.resources[VCPU], made.request_id) == (
            A,
            node(),
            3,
            'req-1',
        )
        assert states(world) == {(A, 'host-0'): PENDING}
        assert used(world) == [3, 0]
        assert made.expires_s == made.created_s + 3600

    def test_made_twice_is_one(self, world):
        self.claim(world, vcpus=3)
        again = self.claim(world, vcpus=3)
        assert world.store.claims() == [again]
        assert used(world) == [3, 0]

    def test_on_an_unknown_node(self, world):
        with pytest.raises(errors.NodeNotFound):
            self.claim(world, 'host-9')
        assert states(world) == {}

    @pytest.mark.parametrize(
        'words, short',
        [
            pytest.param({'vcpus': 4}, 'VCPU: 4 asked, 3 available', id='in use'),
            pytest.param({'vcpus': 5}, 'VCPU: 5 asked, the node has 4 in all', id='too large'),
            pytest.param({'resources': {'CUSTOM_GOLD': 1}}, 'CUSTOM_GOLD', id='unknown'),
            pytest.param({'vcpus': 5, 'memory_mb': 10**6}, 'VCPU.*MEMORY_MB', id='both are told'),
        ],
    )
    def test_what_is_short_is_told(self, world, words, short):
        world.place(asks(B, force_hosts=['host-0']))
        before = picture(world.cluster)
        with pytest.raises(errors.ComputeResourcesUnavailable, match=short):
            self.claim(world, **words)
        assert picture(world.cluster) == before

    def test_no_more_than_one_consumer_may_have(self, world):
        world.report(report(inventories={VCPU: Inventory(8, max_unit=2)}, used={}))
        with pytest.raises(errors.ComputeResourcesUnavailable, match='VCPU: 3 asked'):
            self.claim(world, vcpus=3, resources={VCPU: 3})
        assert world.store.commits == []

    def test_a_lost_race(self, world):
        world.store.rivals = [[Placement((claim(B, node(), vcpus=3),))]]
        with pytest.raises(errors.ComputeResourcesUnavailable, match='2 asked, 1 available'):
            self.claim(world, vcpus=2)
        assert used(world) == [3, 0]
        world.books.refresh()
        assert states(world) == {(B, 'host-0'): PENDING}

    def test_the_alternate_replaces_the_failed_host(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        self.claim(world, 'host-1', leaving='host-0')
        assert states(world) == {(A, 'host-1'): PENDING}
        assert used(world) == [0, 1]

    def test_even_a_confirmed_claim_there_ends(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        world.call(world.books.instances_added, 'host-0', [A])
        world.call(world.books.instances_are, 'host-0', [A])
        self.claim(world, 'host-1', leaving='host-0')
        assert states(world) == {(A, 'host-1'): PENDING}

    def test_the_failed_host_once_more(self, world):
        world.place(asks(A, vcpus=4, force_hosts=['host-0']))
        world.call(world.books.confirm_claim, A, 'host-0')
        made = self.claim(world, 'host-0', leaving='host-0', vcpus=2)
        assert world.store.claims() == [made]
        assert states(world) == {(A, 'host-0'): PENDING}
        assert used(world) == [2, 0]

    def test_a_claim_that_waits_elsewhere_ends_at_once(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        self.claim(world, 'host-1')
        assert states(world) == {(A, 'host-1'): PENDING}
        assert used(world) == [0, 1]

    def test_a_confirmed_claim_elsewhere_stays(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        world.call(world.books.confirm_claim, A, 'host-0')
        self.claim(world, 'host-1')
        assert states(world) == {(A, 'host-0'): CONFIRMED, (A, 'host-1'): PENDING}

    def test_when_the_alternate_has_no_room_the_failed_host_keeps_its_claim(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        before = picture(world.cluster)
        with pytest.raises(errors.ComputeResourcesUnavailable):
            self.claim(world, 'host-1', leaving='host-0', vcpus=5)
        assert picture(world.cluster) == before
        assert states(world) == {(A, 'host-0'): PENDING}

    def test_when_the_store_is_away_nothing_stays_booked(self):
        world = World(Unsteady())
        world.report(report(vcpus=4), report('host-1'))
        world.place(asks(A, force_hosts=['host-0']))
        before = picture(world.cluster)
        world.loop.hurry()
        world.store.away.set()
        with pytest.raises(errors.StoreUnavailable):
            self.claim(world, 'host-1', leaving='host-0')
        assert picture(world.cluster) == before

    def test_when_the_answer_is_lost_it_is_made_once(self):
        world = World(Unsteady())
        world.report(report(vcpus=4))
        world.store.forgets = 1
        made = self.claim(world, vcpus=3)
        assert world.store.claims() == [made]
        assert used(world) == [3]


class TestNewInstance:
    """It runs nowhere yet, says who claims for it."""

    def claim(self, world, host='host-0', **words):
        return world.call(world.books.claim, asks(**words), host, host, 'req-1', None, None, True)

    def confirmed_by_another(self, world, host, vcpus=1):
        """Another scheduler has claimed for it there, and confirmed that; this one has not heard of it."""
        commit(world.store, claim(A, node(host), vcpus=vcpus, request_id='req-1'))
        world.store.finish(A, [node(host)])

    def test_a_claim(self, world):
        made = self.claim(world, vcpus=3)
        assert world.store.claims() == [made]
        assert (states(world), used(world)) == ({(A, 'host-0'): PENDING}, [3, 0])

    def test_made_twice_is_one(self, world):
        self.claim(world, vcpus=3)
        again = self.claim(world, vcpus=3)
        assert world.store.claims() == [again]
        assert used(world) == [3, 0]

    @pytest.mark.parametrize('known', [True, False], ids=['known here', 'not known here'])
    def test_what_waits_elsewhere_is_replaced(self, world, known):
        """Another worker had the job, and was lost."""
        commit(world.store, claim(A, node('host-1'), request_id='req-1'))
        if known:
            world.books.refresh()
        self.claim(world)
        assert states(world) == {(A, 'host-0'): PENDING}
        with pytest.raises(errors.ClaimNotFound):
            world.call(world.books.confirm_claim, A, 'host-1')
        assert states(world) == {(A, 'host-0'): PENDING}

    @pytest.mark.parametrize('known', [True, False], ids=['known here', 'not known here'])
    @pytest.mark.parametrize('vcpus', [1, 3, 9], ids=['fits', 'does not fit beside it', 'never fits'])
    def test_one_that_runs_elsewhere(self, world, known, vcpus):
        world.place(asks(B, vcpus=2, force_hosts=['host-0']))
        self.confirmed_by_another(world, 'host-1')
        if known:
            world.books.refresh()
        with pytest.raises(errors.AlreadyPlaced) as placed:
            self.claim(world, vcpus=vcpus)
        assert placed.value.args == (A, 'host-1')
        assert states(world) == {(A, 'host-1'): CONFIRMED, (B, 'host-0'): PENDING}

    @pytest.mark.parametrize('known', [True, False], ids=['known here', 'not known here'])
    @pytest.mark.parametrize('vcpus', [3, 9], ids=['its size', 'another size'])
    def test_one_that_runs_on_the_node_stays_as_it_is(self, world, known, vcpus):
        """There is no room for it once more."""
        self.confirmed_by_another(world, 'host-0', vcpus=3)
        if known:
            world.books.refresh()
        (before,) = world.store.claims()
        assert self.claim(world, vcpus=vcpus) == before
        assert world.store.claims() == [before]
        world.books.refresh()
        assert used(world) == [3, 0]

    def test_one_that_runs_on_the_node_with_room_for_another(self, world):
        self.confirmed_by_another(world, 'host-0')
        (before,) = world.store.claims()
        assert self.claim(world) == before
        assert world.store.claims() == [before]
        assert used(world) == [1, 0]

    def test_one_that_has_gone_meanwhile(self, world):
        self.confirmed_by_another(world, 'host-1')
        world.books.refresh()
        world.store.release([(A, node('host-1'))])
        self.claim(world)
        assert states(world) == {(A, 'host-0'): PENDING}

    def test_one_that_is_claimed_for_while_it_moves(self, world):
        """A job that is delivered again, when its instance is on its way already."""
        self.confirmed_by_another(world, 'host-0')
        world.books.refresh()
        world.call(world.books.claim, asks(), 'host-1', 'host-1', 'req-2', None, 'resize')
        self.claim(world)
        assert states(world) == {(A, 'host-0'): CONFIRMED, (A, 'host-1'): PENDING}

    def test_a_lost_answer(self):
        world = World(Unsteady())
        world.report(report(vcpus=4))
        world.store.forgets = 1
        made = self.claim(world, vcpus=3)
        assert world.store.claims() == [made]
        assert used(world) == [3]

    def test_one_that_is_confirmed_elsewhere_at_this_moment(self, world):
        world.store.rivals = [[Placement((claim(A, node('host-1'), state=CONFIRMED),))]]
        with pytest.raises(errors.AlreadyPlaced):
            self.claim(world)
        assert (states(world), used(world)) == ({(A, 'host-1'): CONFIRMED}, [0, 1])

    def test_a_claim_that_has_expired_cannot_be_confirmed(self, world):
        self.claim(world)
        world.now_s += 3600
        world.call(world.books.expire)
        with pytest.raises(errors.ClaimNotFound):
            world.call(world.books.confirm_claim, A, 'host-0')
        assert states(world) == {}


class TestConfirmAndAbort:
    def test_confirm(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        for _ in range(2):
            (found,) = world.call(world.books.confirm_claim, A, 'host-0')
            assert (found.state, found.expires_s) == (CONFIRMED, None)
        assert states(world) == {(A, 'host-0'): CONFIRMED}

    def test_confirm_what_another_scheduler_claimed(self, world):
        commit(world.store, claim(A, node(), vcpus=2))
        (found,) = world.call(world.books.confirm_claim, A, 'host-0')
        assert found.state == CONFIRMED
        assert used(world) == [2, 0]

    @pytest.mark.parametrize('instance, host', [(A, 'host-1'), (B, 'host-0'), (A, 'host-9')])
    def test_confirm_what_is_not_there(self, world, instance, host):
        world.place(asks(A, force_hosts=['host-0']))
        with pytest.raises(errors.ClaimNotFound):
            world.call(world.books.confirm_claim, instance, host)
        assert states(world) == {(A, 'host-0'): PENDING}

    @pytest.mark.parametrize(
        'host, left',
        [
            pytest.param('host-0', {(A, 'host-1')}, id='on one host'),
            pytest.param(None, set(), id='everywhere'),
        ],
    )
    def test_abort(self, world, host, left):
        world.place(asks(A, force_hosts=['host-0']))
        world.call(world.books.confirm_claim, A, 'host-0')
        world.place(asks(A, force_hosts=['host-1']))
        ended = world.call(world.books.abort_claim, A, host)
        assert states(world).keys() == left
        assert len(ended) == 2 - len(left)
        assert used(world) == [0, len(left)]

    def test_abort_what_another_scheduler_claimed(self, world):
        commit(world.store, claim(A, node()))
        assert [one.consumer_uuid for one in world.call(world.books.abort_claim, A)] == [A]
        assert states(world) == {}

    @pytest.mark.parametrize(
        'instance, host', [(B, None), (A, 'host-1'), (A, 'host-9')], ids=['instance', 'host', 'unknown host']
    )
    def test_abort_what_is_not_there(self, world, instance, host):
        world.place(asks(A, force_hosts=['host-0']))
        with pytest.raises(errors.ClaimNotFound):
            world.call(world.books.abort_claim, instance, host)
        assert states(world) == {(A, 'host-0'): PENDING}

    def test_claims_of(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        commit(world.store, claim(B, node()))
        assert [one.consumer_uuid for one in world.call(world.books.claims_of, B)] == [B]
        assert world.call(world.books.claims_of, C) == []

    def test_names(self, world):
        assert world.call(world.books.names, [node('host-1'), node('gone')]) == {
            node('host-1'): ('host-1', 'host-1'),
            node('gone'): ('', ''),
        }
