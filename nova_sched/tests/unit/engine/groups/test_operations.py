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
"""Placement groups from the engine's doors: planned as one, built one by one, changed, and
gone."""

import collections
import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claim import PENDING, PLANNED
from nova_sched.claims import ClaimSelector
from nova_sched.engine.groups.reading import Given, ReadingRules
from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    APART,
    NEAR,
    GroupPolicy,
    Member,
    MemberFlavor,
)
from nova_sched.groups.topology import DomainTopology
from nova_sched.objects import InstanceGroup
from nova_sched.tests.builders import aggregate, guarded, uuid_of
from nova_sched.tests.unit.engine.groups.group_cloud import (
    BIG,
    RACKS_APART,
    SOURCE,
    WEBS,
    cloud,
    definition,
    members,
    webs,
)
from nova_sched.tests.unit.engine.world import end_claims


class TestCreate:
    def test_all_members_are_planned(self, eight):
        group = eight.create(webs())
        assert (group.status, group.generation, group.name, group.project_id) == (
            'planned',
            1,
            'g',
            'p',
        )
        assert [one.state for one in group.members] == [PLANNED] * 4
        assert {one.domains['rack'] for one in group.members} == {'r0', 'r1', 'r2', 'r3'}
        claims = eight.store.group_claims(group.uuid)
        assert sorted(claim.member for claim in claims) == sorted(WEBS)
        assert {claim.expires_s for claim in claims} == {group.expires_s}

    def test_the_answer_is_what_is_shown_next(self, eight):
        group = eight.create(webs())
        assert group == eight.groups.show(group.uuid)
        assert {one.member_uuid for one in group.members} == {
            claim.consumer_uuid for claim in eight.store.group_claims(group.uuid)
        }

    def test_the_answer_to_an_update_is_what_is_shown_next(self, eight):
        first = eight.create(webs())
        eight.build(first, 'web/0')
        group = eight.groups.update(first.uuid, webs(**members('cache')), SOURCE, ttl_s=9000)
        assert group.serial > first.serial
        assert group == eight.groups.show(group.uuid)

    def test_what_is_planned_counts_against_capacity(self, eight):
        eight.create(definition(members(*(f'db/{number}' for number in range(8)), flavor=BIG)))
        with pytest.raises(errors.NoValidHost):
            eight.place('other')

    def test_a_dry_run_leaves_no_trace(self, eight):
        group = eight.create(webs(), dry_run=True)
        assert group.dry_run
        assert {one.state for one in group.members} == {PLANNED}
        assert eight.store.claims() == []
        with pytest.raises(errors.GroupNotFound):
            eight.groups.show(group.uuid)

    def test_a_refusal_leaves_no_trace_and_says_why(self, eight):
        five = (*WEBS, 'web/4')
        with pytest.raises(errors.GroupRefused) as refused:
            eight.create(definition(members(*five), dataclasses.replace(RACKS_APART, a=five)))
        assert refused.value.details['words'] == refused.value.reason
        assert eight.store.claims() == []
        assert eight.groups.list() == []

    def test_a_member_that_no_host_takes_is_named_with_the_reason(self, eight):
        huge = {**members('a'), **members('b', flavor=MemberFlavor(64, 1024, name='huge'))}
        with pytest.raises(
            errors.GroupRefused, match=r'Member b: .*ResourceCapacity.*64 vCPUs asked'
        ) as refused:
            eight.create(definition(huge))
        assert list(refused.value.details['closed']) == ['b']

    def test_without_hosts(self):
        with cloud(0) as made, pytest.raises(errors.GroupRefused):
            made.create(webs())

    def test_a_member_that_makes_no_sense(self, eight):
        strange = Member('web', MemberFlavor(2, 1024, extra_specs={'hw:numa_nodes': 'many'}))
        with pytest.raises(errors.InvalidRequest, match='member web'):
            eight.create(definition({'web': strange}))

    def test_planned_claims_are_no_builds(self, eight):
        eight.create(webs())
        assert eight.cluster.hosts.num_io_ops.sum() == 0
        assert eight.cluster.hosts.num_instances.sum() == 4

    def test_another_scheduler_knows(self, eight):
        group = eight.create(webs())
        with cloud(0, eight.store) as other:
            assert other.places(group) == eight.places(group)
            for path in WEBS:
                assert other.build(group, path)[0] == eight.places(group)[path]
            assert set(eight.states(group).values()) == {PENDING}


class TestSurprises:
    def test_a_host_is_switched_off(self, eight):
        group = eight.create(webs())
        built = eight.build(group, 'web/0')[0]
        lost = eight.places(group)['web/1']
        eight.disable(lost)
        found = eight.build(group, 'web/1')[0]
        places = eight.places(group)
        assert found not in (lost, built)
        assert places['web/0'] == built
        assert len({eight.rack(host) for host in places.values()}) == 4

    def test_all_that_are_not_built_are_planned_together(self, eight):
        # The cache is near web/0: when the whole rack goes, both go.
        near = GroupPolicy('cache near', NEAR, 'rack', ('cache',), ('web/0',))
        group = eight.create(webs(near, **members('cache')))
        places = eight.places(group)
        rack = eight.rack(places['web/0'])
        eight.join(8)
        eight.join(9)
        for host in (2 * rack, 2 * rack + 1):
            eight.disable(f'h{host}')
        eight.build(group, 'web/0')
        after = eight.places(group)
        assert eight.rack(after['web/0']) == eight.rack(after['cache']) != rack
        assert len({eight.rack(after[path]) for path in WEBS}) == 4

    def test_when_nothing_is_left(self, eight):
        group = eight.create(webs())
        rack = eight.rack(eight.places(group)['web/0'])
        for host in (2 * rack, 2 * rack + 1):
            eight.disable(f'h{host}')
        with pytest.raises(
            errors.NoValidHost, match='Member web/0 cannot be where it was planned'
        ) as refused:
            eight.build(group, 'web/0', request_id='req-nowhere')
        assert len(eight.store.claims()) == 4
        told = 'Member web/0 cannot be where it was planned, and nowhere else'
        assert refused.value.for_tenants == f'{told}.'
        assert refused.value.reason.startswith(f'{told}: ')
        eight.scheduler.decision_log.flush()
        (record,) = eight.scheduler.decision_log.show('req-nowhere')
        assert (record['outcome'], record['reason']) == ('refused', refused.value.reason)

    def test_a_retry_goes_elsewhere_and_moves_no_member(self, eight):
        group = eight.create(webs())
        before = eight.places(group)
        first = eight.build(group, 'web/0')[0]
        second = eight.build(group, 'web/0', ignore_hosts=[first])[0]
        assert second != first
        assert eight.rack(second) == eight.rack(first)
        assert eight.places(group) == before | {'web/0': second}

    def test_plans_that_have_expired_are_made_again(self, eight):
        group = eight.create(webs(), ttl_s=10)
        eight.world.now_s += 11
        eight.scheduler.call(eight.scheduler.state_sync.expire)
        assert eight.groups.show(group.uuid).status == 'incomplete'
        eight.build(group, 'web/2')
        assert eight.groups.show(group.uuid).status == 'building'

    def test_what_is_planned_after_that_lasts(self, eight):
        group = eight.create(webs(), ttl_s=10)
        eight.world.now_s += 100
        eight.scheduler.call(eight.scheduler.state_sync.expire)
        again = eight.groups.plan(group.uuid, replan=True)
        assert again.expires_s > eight.world.now_s + 100
        assert {claim.expires_s for claim in eight.store.claims()} == {again.expires_s}

    def test_a_level_that_is_not_configured_any_more(self, eight):
        group = eight.create(webs())
        with cloud(0, eight.store, topology=DomainTopology(['host', 'zone'])) as other:
            with pytest.raises(errors.MemberRefused, match='level rack, which is not configured'):
                other.build(group, 'web/0')
            with pytest.raises(errors.GroupRefused, match='level rack, which is not configured'):
                other.groups.plan(group.uuid, replan=True)

    def test_a_definition_of_another_release(self, eight):
        group = eight.create(webs())
        record = eight.store.top_group(group.uuid)
        strange = dataclasses.replace(record, generation=2, definition='{"format": 2}')
        eight.store.commit([guarded((), record=strange, serial=record.serial)])
        with pytest.raises(errors.IncompatibleObject):
            eight.groups.show(group.uuid)
        with pytest.raises(errors.MemberRefused):
            eight.build(group, 'web/0')

    def test_renewed_plans_stay(self, eight):
        group = eight.create(webs(), ttl_s=10)
        assert eight.groups.renew(group.uuid, 100).expires_s == eight.world.now_s + 100
        eight.world.now_s += 11
        eight.scheduler.call(eight.scheduler.state_sync.expire)
        assert eight.groups.show(group.uuid).status == 'planned'

    def test_more_time_than_the_maximum_is_refused(self, eight):
        with pytest.raises(errors.InvalidRequest, match='plan_ttl_max, 86400'):
            eight.create(webs(), ttl_s=86401)
        group = eight.create(webs(), ttl_s=86400)
        for change in (
            lambda: eight.groups.renew(group.uuid, 86401),
            lambda: eight.groups.update(group.uuid, webs(), {}, ttl_s=86401),
        ):
            with pytest.raises(errors.InvalidRequest, match='plan_ttl_max'):
                change()

    @pytest.mark.parametrize('is_update', [False, True], ids=['renewed', 'updated'])
    def test_a_plan_is_not_held_forever(self, eight, is_update):
        """It ends a week after it was made; without a time of its own a renewal takes the rest."""
        week_s, begin_s = 604800, eight.world.now_s
        group = eight.create(webs(), ttl_s=86400)

        def renew(ttl_s=None):
            if is_update:
                return eight.groups.update(group.uuid, webs(), {}, ttl_s=ttl_s)
            return eight.groups.renew(group.uuid, ttl_s)

        for _ in range(7):
            eight.world.now_s += 86000
            last = renew(min(86400, int(begin_s + week_s - eight.world.now_s)))
        with pytest.raises(errors.InvalidRequest, match='2800 s more'):
            renew(2801)
        assert renew().expires_s == last.expires_s == begin_s + week_s
        eight.world.now_s += 2800
        with pytest.raises(errors.InvalidRequest, match='0 s more'):
            renew()

    def test_a_new_plan_and_a_renewal_for_trial(self, eight):
        group = eight.create(webs(), ttl_s=10)
        lost = eight.places(group)['web/0']
        eight.disable(lost)
        foreseen = eight.groups.plan(group.uuid, replan=True, dry_run=True)
        assert {one.path: one.host for one in foreseen.members}['web/0'] != lost
        assert (
            eight.groups.renew(group.uuid, 100, dry_run=True).expires_s == eight.world.now_s + 100
        )
        assert eight.places(group)['web/0'] == lost
        assert eight.groups.show(group.uuid).expires_s == eight.world.now_s + 10

    def test_a_move_keeps_the_policies(self, eight):
        group = eight.create(webs())
        host = eight.build(group, 'web/0')[0]
        eight.confirm(host, 'web/0')
        target = eight.build(group, 'web/0', ignore_hosts=[host])[0]
        assert target != host
        assert eight.rack(target) == eight.rack(host)

    def test_an_alternate_keeps_its_place(self, eight):
        group = eight.create(webs())
        first, other = eight.build(group, 'web/0')
        request = eight.request(group, 'web/0')
        claim_service = eight.scheduler.claim_service
        (before,) = eight.store.claims(request.instance_uuid)
        how = None, first, None, False, ClaimSelector(before.uuid)
        claim = eight.scheduler.call(claim_service.claim, request, other, other, *how)
        assert (claim.member, claim.top_group) == ('web/0', group.uuid)
        elsewhere = eight.places(group)['web/1']
        how = None, other, None, False, ClaimSelector(claim.uuid)
        with pytest.raises(errors.ComputeResourcesUnavailable, match='policies of its group'):
            eight.scheduler.call(claim_service.claim, request, elsewhere, elsewhere, *how)


class TestUpdate:
    def test_one_more_member_moves_no_other(self, eight):
        group = eight.create(webs())
        before = eight.places(group)
        for path in WEBS[:2]:
            eight.build(group, path)
        more = eight.groups.update(group.uuid, webs(**members('cache')), SOURCE, generation=1)
        assert (more.generation, more.moves) == (2, ())
        assert {one.path: one.host for one in more.members if one.path in before} == before

    def test_all_of_a_new_plan_expire_together(self, eight):
        group = eight.create(webs(), ttl_s=10)
        more = eight.groups.update(group.uuid, webs(**members('cache')), SOURCE, ttl_s=100)
        assert {claim.expires_s for claim in eight.store.claims()} == {more.expires_s}

    def test_who_is_no_member_any_more(self, eight):
        group = eight.create(webs())
        eight.build(group, 'web/3')
        less = definition(members(*WEBS[:2]), dataclasses.replace(RACKS_APART, a=WEBS[:2]))
        eight.groups.update(group.uuid, less, SOURCE)
        # The planned one has gone, the server stays until it is deleted.
        assert sorted(claim.member for claim in eight.store.claims()) == [
            'web/0',
            'web/1',
            'web/3',
        ]

    def test_a_planned_member_of_another_size(self, eight):
        group = eight.create(webs())
        found = {**members(*WEBS), **members('web/0', flavor=MemberFlavor(4, 1024, 10))}
        eight.groups.update(group.uuid, definition(found, RACKS_APART), SOURCE)
        assert {claim.member: claim.resources['VCPU'] for claim in eight.store.claims()}[
            'web/0'
        ] == 4

    def test_a_built_member_of_another_size_is_told(self, eight):
        group = eight.create(webs())
        eight.build(group, 'web/0')
        found = {**members(*WEBS), **members('web/0', flavor=MemberFlavor(4, 1024, 10))}
        told = eight.groups.update(group.uuid, definition(found, RACKS_APART), SOURCE)
        assert 'Member web/0 is already built' in told.warnings[-1]

    def test_moves_that_a_new_policy_forces(self, eight):
        group = eight.create(
            definition(members('a', 'b'), GroupPolicy('together', AFFINITY, 'host', ('a', 'b')))
        )
        host = eight.build(group, 'a')[0]
        eight.build(group, 'b')
        eight.confirm(host, 'a', 'b')
        apart = definition(members('a', 'b'), GroupPolicy('apart', APART, 'host', ('a',), ('b',)))
        told = eight.groups.update(group.uuid, apart, SOURCE)
        (move,) = told.moves
        assert (move.source, move.instance_uuid) == (host, uuid_of(move.path))
        assert 'apart' in move.reason
        # The target is held, and the client's migration goes there.
        assert eight.build(group, move.path, ignore_hosts=[host])[0] == move.target

    @pytest.mark.parametrize('method', ['update', 'delete'])
    def test_two_writers(self, eight, method):
        group = eight.create(webs())
        eight.groups.update(group.uuid, webs(), SOURCE, generation=1)
        words = (webs(), SOURCE) if method == 'update' else ()
        with pytest.raises(errors.GroupChanged) as changed:
            getattr(eight.groups, method)(group.uuid, *words, generation=1)
        assert changed.value.args == (group.uuid, 1, 2)

    def test_what_cannot_be_leaves_all_as_it_was(self, eight):
        group = eight.create(webs())
        before = eight.store.claims()
        many = definition(members(*(f'db/{number}' for number in range(9)), flavor=BIG))
        with pytest.raises(errors.GroupRefused):
            eight.groups.update(group.uuid, many, SOURCE)
        assert eight.store.claims() == before
        assert eight.groups.show(group.uuid).generation == 1


class TestDelete:
    def test_plans_go_at_once_and_servers_when_they_go(self, eight):
        group = eight.create(webs())
        eight.build(group, 'web/0')
        assert eight.groups.delete(group.uuid).status == 'deleting'
        assert [claim.consumer_uuid for claim in eight.store.claims()] == [uuid_of('web/0')]
        with pytest.raises(errors.MemberRefused, match='is being deleted'):
            eight.build(group, 'web/1')
        eight.scheduler.call(end_claims, eight.scheduler.claim_service, uuid_of('web/0'))
        with pytest.raises(errors.GroupNotFound):
            eight.groups.show(group.uuid)

    def test_a_dry_run_deletes_nothing(self, eight):
        group = eight.create(webs())
        assert eight.groups.delete(group.uuid, dry_run=True).dry_run
        assert eight.groups.show(group.uuid).status == 'planned'


def test_server_groups_count_planned_members(eight):
    """A server that is no member of the placement group, but of the server group that a member
    will be in."""
    server_group = uuid_of('server group')
    group = eight.create(definition(members('web/0', hints={'group': server_group})))
    taken = eight.places(group)['web/0']
    apart = InstanceGroup(
        uuid=server_group, policy='anti-affinity', members=[], hosts=[], rules={}
    )
    with pytest.raises(errors.NoValidHost, match='ServerGroupAntiAffinityFilter'):
        eight.place('other', force_hosts=[taken], instance_group=apart)
    assert eight.place('other', instance_group=apart) != taken


def test_two_hundred_at_once():
    paths = tuple(f'm/{number}' for number in range(200))
    with cloud(100) as made:
        group = made.create(
            definition(members(*paths), GroupPolicy('few', ANTI_AFFINITY, 'host', paths, most=2))
        )
        assert collections.Counter(made.places(group).values()) == {
            f'h{number}': 2 for number in range(100)
        }


SERVER = {'type': 'OS::Nova::Server', 'properties': {'flavor': {'vcpus': 1, 'ram': 512}}}
ROOM_OF_TWO_ZONES = {
    'heat_template_version': '2021-04-16',
    'resources': {
        **dict.fromkeys(('a', 'b'), SERVER),
        'app': {
            'type': 'OS::NovaSched::Group',
            'properties': {
                'members': ['a', 'b'],
                'policies': [
                    {'type': 'affinity', 'level': 'room'},
                    {'type': 'anti-affinity', 'level': 'zone'},
                ],
            },
        },
    },
}


def contradiction(made):
    rules = ReadingRules(made.groups.levels, 10, {}, {}, 2.0)
    return made.groups.account('p', Given(ROOM_OF_TWO_ZONES), rules)['contradiction']


class TestReads:
    def test_projects_see_their_own(self, eight):
        group = eight.create(webs())
        assert [one.uuid for one in eight.groups.list('p')] == [group.uuid]
        assert eight.groups.list('q') == []
        with pytest.raises(errors.GroupNotFound):
            eight.groups.show(group.uuid, 'q')

    def test_the_source_is_kept(self, eight):
        assert eight.groups.show(eight.create(webs()).uuid).source == SOURCE

    def test_topology(self, eight):
        assert eight.groups.topology() == {
            'warnings': [],
            'domains': {'host': 8, 'rack': 4, 'room': 2, 'zone': 1},
        }

    def test_a_group_that_was_just_placed_contradicts_nothing(self, eight):
        """Room m0 spans two zones, so that its hosts can keep both policies."""
        zone = aggregate(1, ['h0', 'h1'], availability_zone='z')
        eight.scheduler.call(eight.scheduler.state_sync.set_aggregates, [zone])
        both = (
            GroupPolicy('room', AFFINITY, 'room', WEBS[:2]),
            GroupPolicy('zones', ANTI_AFFINITY, 'zone', WEBS[:2]),
        )
        found = definition(members(*WEBS[:2]), *both)
        assert len(eight.places(eight.create(found))) == 2
        assert contradiction(eight) is None

    def test_policies_that_collide_in_rooms_of_one_zone(self, eight):
        assert 'affinity at room' in contradiction(eight)

    def test_a_node_that_tells_no_rack(self):
        with cloud(0) as made:
            made.join(0, stats={})
            assert '1 node reports no rack: h0' in made.groups.topology()['warnings']
