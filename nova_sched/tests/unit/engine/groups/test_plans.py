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
"""Updates of placement groups whose members are built: who stays, who moves, and what room that
takes."""

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING, PLANNED
from nova_sched.claims import ClaimSelector
from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    APART,
    EXCLUSIVE,
    GroupPolicy,
    MemberFlavor,
)
from nova_sched.groups.exact import worker
from nova_sched.state.node import Node
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.groups.group_cloud import BIG, SOURCE, cloud, definition, members
from nova_sched.tests.unit.engine.world import end_claims, fresh, picture
from nova_sched.tests.unit.hardware.builders import cell, told
from nova_sched.tests.unit.hardware.builders import machine as machine_of

TOGETHER = GroupPolicy('together', AFFINITY, 'host', ('a', 'b'))
APART_HOSTS = GroupPolicy('apart', APART, 'host', ('a',), ('b',))


@pytest.fixture
def eight():
    with cloud(8) as made:
        yield made
        assert picture(made.cluster) == picture(fresh(made.store))


def built(made, found, *paths):
    """A group of which these members, or all, are built."""
    group = made.create(found)
    for path in paths or found.members:
        host = made.build(group, path, found=found.members[path])[0]
        made.confirm(host, path)
    return group


def update(made, group, found, **words):
    return made.groups.update(group.uuid, found, SOURCE, **words)


def held(made, group):
    """Member, state and host of each claim."""
    return sorted(
        (claim.member, claim.state, made.cluster.node(claim.node_uuid).host)
        for claim in made.store.group_claims(group.uuid)
    )


def migrate(made, group, move):
    """The client starts a move as it was told to."""
    assert made.build(group, move.path, ignore_hosts=[move.source])[0] == move.target


def give_up(made, move):
    """The client takes the move back."""
    made.scheduler.call(end_claims, made.scheduler.claim_service, uuid_of(move.path), move.target)


class TestTakenBack:
    PAIR = definition(members('a', 'b'), TOGETHER)
    SPLIT = definition(members('a', 'b'), APART_HOSTS)

    def test_a_move_that_is_not_made_yet_is_no_home(self, eight):
        group = built(eight, self.PAIR)
        before = held(eight, group)
        assert len(update(eight, group, self.SPLIT).moves) == 1
        assert len(held(eight, group)) == 3
        assert update(eight, group, self.PAIR).moves == ()
        assert held(eight, group) == before
        assert eight.groups.show(group.uuid).moves == ()

    def test_for_trial(self, eight):
        group = built(eight, self.PAIR)
        (move,) = update(eight, group, self.SPLIT, dry_run=True).moves
        update(eight, group, self.SPLIT)
        back = update(eight, group, self.PAIR, dry_run=True)
        assert back.moves == ()
        assert {one.host for one in back.members} == {move.source}

    def test_a_move_that_is_needed_still_goes_where_it_went(self, eight):
        group = built(eight, self.PAIR)
        (move,) = update(eight, group, self.SPLIT).moves
        more = definition(members('a', 'b', 'c'), APART_HOSTS)
        assert update(eight, group, more).moves == (move,)

    def test_of_two_moves_the_one_that_is_not_needed_any_more(self, eight):
        four = members('a', 'b', 'c', 'd')
        both = TOGETHER, GroupPolicy('too', AFFINITY, 'host', ('c', 'd'))
        group = built(eight, definition(four, *both))
        split = APART_HOSTS, GroupPolicy('apart too', APART, 'host', ('c',), ('d',))
        moves = {
            move.path[:1]: move for move in update(eight, group, definition(four, *split)).moves
        }
        assert len(moves) == 2
        left = update(eight, group, definition(four, APART_HOSTS, both[1])).moves
        assert [move.path in 'ab' for move in left] == [True]
        assert left[0] == moves[left[0].path]

    def test_while_the_move_is_made(self, eight):
        group = built(eight, self.PAIR)
        (move,) = update(eight, group, self.SPLIT).moves
        migrate(eight, group, move)
        back = update(eight, group, self.PAIR)
        assert back.moves == ()
        wanted = 'is moving to another host than its planned one: revert its move'
        assert back.warnings[-1] == f'Member {move.path} {wanted}'
        give_up(eight, move)
        assert {(state, host) for _, state, host in held(eight, group)} == {
            (CONFIRMED, move.source)
        }

    def test_a_move_under_way_goes_on(self, eight):
        group = built(eight, self.PAIR)
        (move,) = update(eight, group, self.SPLIT).moves
        migrate(eight, group, move)
        more = update(eight, group, definition(members('a', 'b', 'c'), APART_HOSTS))
        assert (more.moves, more.warnings) == ((), ())
        assert (move.path, PENDING, move.target) in held(eight, group)

    def test_a_new_plan_keeps_the_moves(self, eight):
        group = built(eight, self.PAIR)
        (move,) = update(eight, group, self.SPLIT).moves
        assert eight.groups.plan(group.uuid, replan=True).moves[0].target == move.target


class TestGone:
    """What becomes of moves that were planned when the member, or the group, goes."""

    @pytest.fixture
    def move(self, eight):
        group = built(eight, TestTakenBack.PAIR)
        (move,) = update(eight, group, TestTakenBack.SPLIT).moves
        return group, move

    def test_of_a_member_that_is_gone_only_the_server_holds_room(self, eight, move):
        group, move = move
        (stays,) = {'a', 'b'} - {move.path}
        update(eight, group, definition(members(stays)))
        assert held(eight, group) == [(path, CONFIRMED, move.source) for path in 'ab']

    def test_a_group_that_is_deleted(self, eight, move):
        group, move = move
        assert eight.groups.delete(group.uuid).moves == ()
        assert held(eight, group) == [(path, CONFIRMED, move.source) for path in 'ab']

    def test_room_for_a_move_expires_and_is_renewed_like_any_plan(self, eight, move):
        group, move = move
        eight.groups.renew(group.uuid, 10_000)
        eight.world.now_s += 9_000
        eight.scheduler.call(eight.scheduler.state_sync.expire)
        assert eight.groups.show(group.uuid).moves[0].target == move.target
        for _ in range(2_000 // 50):  # time that no scheduler watches does not count
            eight.world.now_s += 50
            eight.scheduler.call(eight.scheduler.state_sync.expire)
        assert eight.groups.show(group.uuid).moves == ()
        assert len(held(eight, group)) == 2


def test_a_host_that_is_filled_from_outside(eight):
    """A request for a planned member plans all that are planned again, next to the built ones."""
    group = built(
        eight,
        definition(
            members('a', 'b', 'c'), GroupPolicy('all', ANTI_AFFINITY, 'rack', tuple('abc'))
        ),
        'a',
    )
    before = eight.places(group)
    eight.join(int(before['b'][1:]), vcpus_used=8)
    found = eight.build(group, 'b')[0]
    after = eight.places(group)
    assert found == after['b'] != before['b']
    assert (after['a'], len({eight.rack(host) for host in after.values()})) == (before['a'], 3)


class TestRoomOfMoves:
    """Both ends of a move count until it is made."""

    def test_no_member_is_planned_where_only_a_move_makes_room(self):
        pair = members('a', 'b', flavor=MemberFlavor(4, 1024, 10))
        with cloud(4) as made:
            group = built(made, definition(pair, TOGETHER))
            full = made.places(group)['a']
            told = update(made, group, definition(pair | members('c', flavor=BIG), APART_HOSTS))
            (move,) = told.moves
            places = {one.path: one.host for one in told.members}
            assert places['c'] not in (full, move.target)

    @each('has_solver', [True, False])
    def test_what_has_no_room_before_a_move_is_refused_with_the_reason(self, has_solver):
        pair = members('a', 'b', flavor=MemberFlavor(4, 1024, 10))
        with cloud(2, solver=worker.Solver() if has_solver else None) as made:
            group = built(made, definition(pair, TOGETHER))
            before = held(made, group)
            with pytest.raises(errors.GroupRefused) as refused:
                update(made, group, definition(pair | members('c', flavor=BIG), APART_HOSTS))
            if has_solver:
                assert (refused.value.details['proven'], refused.value.details['core']) == (
                    True,
                    ['apart'],
                )
            assert 'claimed the planned hosts first' not in refused.value.reason
            assert held(made, group) == before

    def test_a_new_member_of_the_flavor_that_moves(self):
        """On two hosts, of which one is full: the new member goes where the other one moves to."""
        half = MemberFlavor(4, 1024, 10)
        with cloud(2) as made:
            group = built(made, definition(members('a', 'b', flavor=half), TOGETHER))
            told = update(
                made, group, definition(members('a', 'b', 'c', flavor=half), APART_HOSTS)
            )
            (move,) = told.moves
            assert {one.path: one.host for one in told.members}['c'] == move.target

    def test_two_servers_do_not_change_places_on_full_hosts(self):
        four = members(*'abcd', flavor=MemberFlavor(4, 1024, 10))
        pairs = TOGETHER, GroupPolicy('too', AFFINITY, 'host', ('c', 'd'))
        crossed = (
            GroupPolicy('ac', AFFINITY, 'host', ('a', 'c')),
            GroupPolicy('bd', AFFINITY, 'host', ('b', 'd')),
        )
        with cloud(2) as made:
            group = built(made, definition(four, *pairs))
            with pytest.raises(errors.GroupRefused) as refused:
                update(made, group, definition(four, *crossed, APART_HOSTS))
            assert 'claimed the planned hosts first' not in refused.value.reason

    def test_a_server_stays_on_a_host_that_is_switched_off(self, eight):
        """Only policies force moves."""
        group = built(eight, definition(members('a', 'b', 'x'), TOGETHER))
        eight.disable(eight.places(group)['x'])
        told = update(eight, group, definition(members('a', 'b', 'x'), APART_HOSTS))
        assert [move.path in 'ab' for move in told.moves] == [True]


class TestWhoMoves:
    def test_a_preference_moves_no_server(self, eight):
        """One server has to move; another one would only please a preferred policy."""
        four = members('a', 'b', 'x', 'y')
        group = built(
            eight, definition(four, TOGETHER, GroupPolicy('xy', AFFINITY, 'host', ('x', 'y')))
        )
        wish = GroupPolicy('wish', ANTI_AFFINITY, 'rack', ('x', 'y'), weight=5.0)
        told = update(eight, group, definition(four, APART_HOSTS, wish))
        assert [move.path in 'ab' for move in told.moves] == [True]

    def test_what_is_planned_moves_and_not_what_is_built(self, eight):
        """A server has to leave another one; a third one obstructs only a planned
        member."""
        found = members('a', 'b', 'x', 'new')
        stay = GroupPolicy('x new', AFFINITY, 'host', ('x', 'new'))
        group = built(eight, definition(found, TOGETHER, stay), 'a', 'b', 'x')
        before = eight.places(group)
        wish = GroupPolicy('wish', ANTI_AFFINITY, 'rack', ('x', 'a', 'b'), weight=5.0)
        leave = GroupPolicy('x new', APART, 'host', ('x',), ('new',))
        told = update(eight, group, definition(found, APART_HOSTS, leave, wish))
        assert [move.path in 'ab' for move in told.moves] == [True]
        after = {one.path: one.host for one in told.members}
        assert (after['x'], after['new'] != before['new']) == (before['x'], True)

    def test_many_servers_of_which_few_have_to_move(self):
        paths = tuple(f'm/{number}' for number in range(12))
        with cloud(24) as made:
            loose = definition(
                members(*paths), GroupPolicy('four', ANTI_AFFINITY, 'host', paths, most=4)
            )
            close = GroupPolicy('close', AFFINITY, 'host', paths[:2])
            group = built(made, definition(loose.members, *loose.policies, close))
            strict = definition(members(*paths), GroupPolicy('one', ANTI_AFFINITY, 'host', paths))
            told = update(made, group, strict)
            hosts = list(made.places(group).values())
            assert len(told.moves) == len(hosts) - len(set(hosts))


class TestExclusive:
    ALONE = GroupPolicy('alone', EXCLUSIVE, 'rack', ('a',))
    RACK = GroupPolicy('rack', AFFINITY, 'rack', ('a', 'b'))

    def test_a_built_member_moves_away_from_the_others(self, eight):
        """The other one cannot leave before the domain is closed: the member that has it moves."""
        found = members('a', 'b')
        group = built(eight, definition(found, self.RACK))
        (move,) = update(eight, group, definition(found, self.ALONE)).moves
        assert move.path == 'a'
        migrate(eight, group, move)
        (claim,) = [claim for claim in eight.store.claims(uuid_of('a')) if not claim.is_confirmed]
        eight.scheduler.call(
            eight.scheduler.claim_service.confirm_claim, claim.consumer_uuid, move.target,
            ClaimSelector(claim.name),
        )  # fmt: skip
        eight.refuse_outsider(move.target)

    def test_where_no_domain_is_free_that_is_the_reason(self):
        with cloud(2) as made:
            found = members('a', 'b')
            group = built(made, definition(found))
            with pytest.raises(errors.GroupRefused, match='alone') as refused:
                update(made, group, definition(found, self.ALONE))
            assert 'claimed the planned hosts first' not in refused.value.reason

    def test_an_outsider_on_the_host_of_a_built_member(self, eight):
        found = members('a')
        group = built(eight, definition(found))
        here = eight.places(group)['a']
        eight.place('outsider', force_hosts=[here])
        (move,) = update(eight, group, definition(found, self.ALONE)).moves
        assert eight.rack(move.target) != eight.rack(here)

    def test_a_member_that_leaves_keeps_the_domain_closed_until_it_is_gone(self, eight):
        """Two share a domain of their own, and one has to go to another domain."""
        found, both = members('a', 'b'), GroupPolicy('alone', EXCLUSIVE, 'rack', ('a', 'b'))
        group = built(eight, definition(found, both, TOGETHER))
        here = eight.places(group)['a']
        split = GroupPolicy('split', ANTI_AFFINITY, 'rack', ('a', 'b'))
        (move,) = update(eight, group, definition(found, both, split)).moves
        for host in (here, move.target):
            eight.refuse_outsider(host)

    def test_who_is_to_be_alone_with_one_that_leaves(self, eight):
        """A new policy closes the domain for those that stay, and takes in the one that is about
        to go."""
        found, both = members('a', 'b'), GroupPolicy('alone', EXCLUSIVE, 'rack', ('a', 'b'))
        group = built(eight, definition(found, TOGETHER))
        split = GroupPolicy('split', ANTI_AFFINITY, 'rack', ('a', 'b'))
        (move,) = update(eight, group, definition(found, both, split)).moves
        for host in (move.source, move.target):
            eight.refuse_outsider(host)

    def test_new_members_keep_out_of_a_domain_until_it_is_left(self, eight):
        found = members('a', 'b')
        group = built(eight, definition(found, self.ALONE))
        away = GroupPolicy('away', APART, 'room', ('a',), ('b',))
        here = {path: eight.rack(host) for path, host in eight.places(group).items()}
        if here['a'] // 2 != here['b'] // 2:
            away = GroupPolicy('away', AFFINITY, 'room', ('a', 'b'))
        paths = tuple(f'c/{number}' for number in range(20))
        told = update(eight, group, definition(found | members(*paths), self.ALONE, away))
        left = {eight.rack(host) for path, _, host in held(eight, group) if path == 'a'}
        assert left.isdisjoint(eight.rack(one.host) for one in told.members if one.path in paths)

    def test_taken_back_while_the_move_is_made(self, eight):
        found = members('a', 'b')
        group = built(eight, definition(found, self.RACK))
        (move,) = update(eight, group, definition(found, self.ALONE)).moves
        migrate(eight, group, move)
        update(eight, group, definition(found, self.RACK))
        assert ('a', PENDING, move.target) in held(eight, group)
        give_up(eight, move)
        assert {state for _, state, _ in held(eight, group)} == {CONFIRMED}
        eight.scheduler.call(eight.scheduler.state_sync.refresh)
        assert eight.place('outsider', force_hosts=[move.target]) == move.target

    def test_the_room_of_a_plan_that_is_taken_back_is_open_again(self, eight):
        found = members('a', 'b')
        group = built(eight, definition(found, self.RACK))
        (move,) = update(eight, group, definition(found, self.ALONE)).moves
        update(eight, group, definition(found, self.RACK))
        assert {state for _, state, _ in held(eight, group)} == {CONFIRMED}
        assert eight.place('outsider', force_hosts=[move.target]) == move.target


def test_only_planned_members_of_a_kind_that_no_host_takes_are_named(eight):
    group = built(eight, definition(members('a/0')))
    for number in range(8):
        eight.disable(f'h{number}')
    with pytest.raises(errors.GroupRefused, match='Member a/1: ') as refused:
        update(eight, group, definition(members('a/0', 'a/1')))
    assert list(refused.value.details['closed']) == ['a/1']
    assert [state for _, state, _ in held(eight, group)] == [CONFIRMED] != [PLANNED]


def test_a_host_is_counted_as_often_for_many_members_as_for_few(monkeypatch):
    """Its claims are lifted for a plan: one by one they took the loop the square of their
    number."""
    counts, recount = [], Node.recount
    monkeypatch.setattr(Node, 'recount', lambda node: counts.append(node) or recount(node))
    found = {}
    with cloud(0, plan_life_max_s=86400) as made:
        made.join(0, vcpus=100, **told(machine_of(cell(0, range(100), memory_mb=2**16))))
        for number in (2, 20):
            flavor = MemberFlavor(1, 64, extra_specs={'hw:numa_nodes': '1'})
            paths = [f'm{place}' for place in range(number)]
            group = made.create(definition(members(*paths, flavor=flavor)))
            for name, work in {
                'replan': lambda group: made.groups.plan(group.uuid, replan=True),
                'renew': lambda group: made.groups.renew(group.uuid, 60),
                'delete': lambda group: made.groups.delete(group.uuid),
            }.items():
                counts.clear()
                work(group)
                found.setdefault(name, []).append(len(counts))
    # One by one, it would be once for each of twenty at least. A poll of the store counts, too.
    assert [name for name, (few, many) in found.items() if not (few and 0 < many < 20)] == []
