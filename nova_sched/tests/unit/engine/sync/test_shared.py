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
"""Tests of schedulers that share a store: repeated messages, refusals, and the policies of
groups."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.claims import ClaimSelector, Placement
from nova_sched.engine.clock import Received, handling
from nova_sched.tests.builders import claim, report, uuid_of
from nova_sched.tests.rows import each, table
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.world import (
    A,
    B,
    C,
    Score,
    World,
    asks,
    end_claims,
    rules,
    spreading,
)

HOSTS = ('host-0', 'host-1', 'host-2')


def worlds(count=2, vcpus=4, store=None, chain=None):
    """Schedulers on one store, of which each knows the hosts and not what the others do."""
    store = store or MemoryClaimStore()
    made = [World(store, chain or spreading(), seed=number) for number in range(count)]
    for facts in store.report([report(host, vcpus=vcpus) for host in HOSTS], 0.0):
        for one in made:
            one.state_sync.adopt(facts)
            one.cluster.see(facts.report.host, one.now_s)
    return made


def group(policy, **words):
    return {'policy': policy, 'members': [], **words}


def send(world, *requests, request_id=None, is_over=lambda: False):
    """Hosts of each instance for a request with an id, or what its caller would see."""
    with handling(Received(is_over)):
        future = world.send_place(*requests, request_id=request_id)
    world.turn_until(future)
    return [[one.host for one in found] for found in future.result()]


def on(store):
    """consumer -> hosts that it has claims on."""
    hosts = {uuid_of(f'node {host}'): host for host in HOSTS}
    found = {}
    for one in store.claims():
        found.setdefault(one.consumer_uuid, []).append(hosts[one.node_uuid])
    return found


class TestRepeated:
    """First and second would choose different hosts."""

    @pytest.fixture
    def pair(self):
        store = MemoryClaimStore()
        first, second = worlds(2, store=store, chain=rules([], [Score(3, 2, 1)]))
        store.clock = lambda: first.now_s
        second.scheduler.follow(rules([], [Score(1, 2, 3)]))
        second.loop.turn()
        return first, second

    def test_both_at_once_and_the_other_way_round(self, pair):
        first, second = pair
        second.state_sync.refresh()
        assert send(second, asks(), request_id='req-1') == [['host-2']]
        assert send(first, asks(), request_id='req-1') == [['host-2']]

    def test_another_try_of_the_same_request_elsewhere(self, pair):
        """The host where it failed is excluded: that is no repeated message."""
        first, second = pair
        send(first, asks(), request_id='req-1')
        assert send(second, asks(ignore_hosts=['host-0']), request_id='req-1') == [['host-2']]
        assert on(first.store) == {A: ['host-2']}

    @pytest.mark.parametrize('request_id', ['req-1', 'req-2'], ids=['another', 'the same'])
    @pytest.mark.parametrize('knows', [True, False])
    def test_a_request_that_the_claim_satisfies_gets_the_same_claim(self, pair, knows, request_id):
        """Which of the two came first makes no difference: its caller may name the claim yet. It
        lives as long as a new one."""
        first, second = pair
        send(first, asks(), request_id='req-2')
        (claim,) = first.store.claims(A)
        first.now_s += 10
        second.now_s = first.now_s
        if knows:
            second.state_sync.refresh()
        assert send(second, asks(), request_id=request_id) == [['host-0']]
        (again,) = first.store.claims(A)
        changes = {'changed_s': claim.changed_s + 10, 'expires_s': claim.expires_s + 10}
        if request_id != claim.request_id:
            changes['request_id'] = None  # it is of two
        assert again == dataclasses.replace(claim, **changes)
        meant = second.claim_service.confirm_claim, A, 'host-0', ClaimSelector(claim.uuid)
        assert second.call(*meant)[0].is_confirmed

    def test_a_claim_whose_time_is_up_lives_on_unless_it_has_ended(self, pair):
        first, second = pair
        send(first, asks())
        (claim,) = first.store.claims(A)
        second.state_sync.refresh()
        second.now_s = first.now_s = claim.expires_s
        send(second, asks())
        (again,) = first.store.claims(A)
        assert (again.uuid == claim.uuid, again.expires_s > claim.expires_s) == (True, True)

    @pytest.mark.parametrize(
        'words',
        [
            pytest.param({'ignore_hosts': ['host-0']}, id='another host'),
            pytest.param({'vcpus': 2}, id='another size'),
        ],
    )
    def test_a_request_that_the_claim_does_not_satisfy(self, pair, words):
        """The last one who was answered has what it was told, unless its caller has left."""
        first, second = pair
        send(first, asks(), request_id='req-2')
        before = first.store.claims()
        with pytest.raises(errors.Outdated):
            send(second, asks(**words), is_over=lambda: True)
        assert first.store.claims() == before
        (told,) = send(second, asks(**words))
        (after,) = first.store.claims()
        assert after.uuid != before[0].uuid
        assert on(first.store) == {A: told}

    @pytest.mark.parametrize('knows', [True, False])
    def test_a_request_to_build_what_runs_already(self, pair, knows):
        first, second = pair
        send(first, asks(), request_id='req-2')
        first.call(first.claim_service.confirm_claim, A, 'host-0')
        if knows:
            second.state_sync.refresh()
        with pytest.raises(errors.AlreadyRunning):
            send(second, asks(), request_id='req-1')
        assert on(first.store) == {A: ['host-0']}

    def test_a_late_request_to_move(self, pair):
        """A resize away from host-0 was asked for again, done and taken back since. Nobody waits
        for its claim, which expires; the server keeps its own."""
        first, second = pair
        send(first, asks(), request_id='req-1')
        first.call(first.claim_service.confirm_claim, A, 'host-0')
        assert send(second, asks(ignore_hosts=['host-0'])) == [['host-2']]
        assert {one: sorted(hosts) for one, hosts in on(first.store).items()} == {
            A: ['host-0', 'host-2']
        }
        assert {one.is_confirmed for one in first.store.claims(A)} == {True, False}

    @pytest.mark.parametrize('move', [None, 'resize'])
    def test_a_second_move_that_has_not_heard_of_the_confirmation(self, pair, move):
        """The claim that it would replace is the server's own by now."""
        first, second = pair
        send(first, asks(), request_id='req-1')
        first.call(first.claim_service.confirm_claim, A, 'host-0')
        place = asks(vcpus=2), 'host-1', 'host-1', None, None, move
        made = first.call(first.claim_service.claim, *place)
        second.state_sync.refresh()
        first.call(first.claim_service.confirm_claim, A, 'host-1', ClaimSelector(made.uuid))
        first.state_sync.refresh()
        before = [one for one in first.store.claims(A) if one.node_uuid == made.node_uuid]
        send(second, asks(vcpus=2, ignore_hosts=['host-1']))
        after = first.store.claims(A)
        assert before[0] in after
        assert [one.is_confirmed for one in before] == [True]


class TestRefusals:
    def test_who_has_room_by_now_is_found(self):
        """A refusal goes by what the database says, not by what this scheduler remembers."""
        first, second = worlds(vcpus=1)
        for instance, host in zip((A, B, C), HOSTS, strict=True):
            first.call(first.claim_service.claim, asks(instance), host, host)
        second.state_sync.refresh()
        first.call(end_claims, first.claim_service, B)
        assert send(second, asks(uuid_of('instance D'))) == [['host-1']]
        assert second.scheduler.figures.refused == 0


class TestPolicies:
    @table(
        'policy, hosts',
        {
            'apart': ('anti-affinity', {'host-0', 'host-1'}),
            'near': ('affinity', {'host-0'}),
        },
    )
    def test_two_schedulers_place_the_first_members(self, policy, hosts):
        """Neither knows of the other's member; both would like the same host, or each another
        one."""
        first, second = worlds(chain=rules(spreading().filters, [Score(3, 2, 1)]))
        if policy == 'affinity':
            second.scheduler.follow(rules(spreading().filters, [Score(1, 2, 3)]))
        send(first, asks(A, group=group(policy)))
        send(second, asks(B, group=group(policy)))
        assert {host for found in on(first.store).values() for host in found} == hosts
        assert second.scheduler.figures.conflicts == 1

    def test_a_host_that_an_operator_forces_keeps_the_policy(self):
        (world,) = worlds(1)
        send(world, asks(A, group=group('anti-affinity'), force_hosts=['host-0']))
        with pytest.raises(errors.NoValidHost, match='anti-affinity'):
            send(world, asks(B, group=group('anti-affinity'), force_hosts=['host-0']))

    def test_no_instance_is_placed_with_a_member_that_moves(self):
        (world,) = worlds(1)
        near = group('affinity')
        source = claim(A, uuid_of('node host-0'), state=CONFIRMED, group_uuid=uuid_of('group'))
        assert world.store.commit([Placement((source,))])[0].won
        world.call(
            world.claim_service.claim,
            asks(A, group=near),
            'host-1',
            'host-1',
            None,
            None,
            'resize',
        )
        with pytest.raises(errors.NoValidHost, match='on its way from one host to another'):
            send(world, asks(B, group=near))

    def test_an_instance_is_placed_with_a_member_that_was_evacuated(self):
        """Its source, which may be down for good, does not matter once it has arrived."""
        (world,) = worlds(1)
        near = group('affinity')
        source = claim(A, uuid_of('node host-0'), state=CONFIRMED, group_uuid=uuid_of('group'))
        assert world.store.commit([Placement((source,))])[0].won
        evacuated = asks(A, group=near)
        there = 'host-1', 'host-1'
        world.call(world.claim_service.claim, evacuated, *there, None, None, 'evacuation')
        with pytest.raises(errors.NoValidHost, match='on its way from one host to another'):
            send(world, asks(B, group=near))
        world.report(report('host-1', vcpus=4, instances=frozenset([A])))
        assert send(world, asks(B, group=near)) == [['host-1']]

    def test_all_new_members_find_room_on_one_host(self):
        """The best host for the first one has no room for the second."""
        store = MemoryClaimStore()
        (world,) = worlds(
            1, vcpus=3, store=store, chain=rules(spreading().filters, [Score(3, 2, 1)])
        )
        world.call(world.claim_service.claim, asks(C, vcpus=2), 'host-0', 'host-0')
        near = group('affinity')
        assert send(world, asks(A, group=near), asks(B, group=near)) == [['host-1'], ['host-1']]

    @each('policy, why', [('anti-affinity', '1 member'), ('affinity', 'other host')])
    def test_a_claim_by_name_is_told_the_policy(self, policy, why):
        (world,) = worlds(1)
        send(world, asks(A, group=group(policy)))
        (there,) = on(world.store)[A]
        host = there if policy == 'anti-affinity' else next(one for one in HOSTS if one != there)
        with pytest.raises(errors.ComputeResourcesUnavailable, match=why):
            world.call(world.claim_service.claim, asks(B, group=group(policy)), host, host)
