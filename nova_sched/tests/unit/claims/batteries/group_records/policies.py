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
"""The policies of server groups."""

import dataclasses

import pytest

from nova_sched.claim import CONFIRMED
from nova_sched.claims import Placement, ServerGroupPolicy
from nova_sched.state.request import AFFINITY, ANTI_AFFINITY
from nova_sched.tests.builders import claim, guarded, report, uuid_of
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    A,
    B,
    C,
    generation,
    node,
    ready,
    waiting,
)

GROUP, ELSE = uuid_of('group'), uuid_of('another group')
APART = ServerGroupPolicy(GROUP, ANTI_AFFINITY)
PAIRS = ServerGroupPolicy(GROUP, ANTI_AFFINITY, 2)
NEAR = ServerGroupPolicy(GROUP, AFFINITY)


def member(consumer, host=HOST, group=GROUP, **words):
    return claim(consumer, node(host), group_uuid=group, **words)


def join(policy, *claims, releases=(), replaces=()):
    """A placement of members."""
    return guarded(claims, tuple(releases), policies=(policy,), replaces=frozenset(replaces))


class Policies:
    @pytest.mark.parametrize(
        'policy, there, comes, won',
        [
            pytest.param(APART, [], [member(A)], True, id='apart: the first'),
            pytest.param(APART, [member(A)], [member(B)], False, id='apart: the same node'),
            pytest.param(APART, [member(A)], [member(B, OTHER)], True, id='apart: another node'),
            pytest.param(
                APART, [member(A, group=ELSE)], [member(B)], True, id='apart: another group'
            ),
            pytest.param(APART, [claim(A, node())], [member(B)], True, id='apart: no member'),
            pytest.param(
                APART,
                [member(A), claim(B, node())],
                [member(B)],
                False,
                id='apart: becomes a member',
            ),
            pytest.param(APART, [], [member(A), member(B)], False, id='apart: two at once'),
            pytest.param(
                APART, [], [member(A), member(B, OTHER)], True, id='apart: two at once, apart'
            ),
            pytest.param(
                APART, [member(A)], [member(A, vcpus=2)], True, id='apart: the same once more'
            ),
            pytest.param(APART, [member(A)], [member(A, OTHER)], True, id='apart: decided again'),
            pytest.param(
                APART,
                [member(A, state=CONFIRMED), member(B, OTHER)],
                [member(A, OTHER)],
                False,
                id='apart: moves to another member',
            ),
            pytest.param(
                APART,
                [member(A, state=CONFIRMED), member(A, OTHER)],
                [member(B)],
                False,
                id='apart: where one comes from',
            ),
            pytest.param(
                APART,
                [member(A, state=CONFIRMED), member(A, OTHER)],
                [member(B, OTHER)],
                False,
                id='apart: where one goes to',
            ),
            pytest.param(PAIRS, [member(A)], [member(B)], True, id='two on a node'),
            pytest.param(PAIRS, [member(A), member(B)], [member(C)], False, id='not three'),
            pytest.param(
                PAIRS, [], [member(A), member(B), member(C)], False, id='nor three at once'
            ),
            pytest.param(NEAR, [], [member(A)], True, id='near: the first'),
            pytest.param(NEAR, [member(A)], [member(B)], True, id='near: the same host'),
            pytest.param(NEAR, [member(A)], [member(B, OTHER)], False, id='near: another host'),
            pytest.param(
                NEAR, [], [member(A), member(B, OTHER)], False, id='near: two at once, apart'
            ),
            pytest.param(
                NEAR, [member(A)], [member(A, OTHER)], True, id='near: alone, decided again'
            ),
            pytest.param(
                NEAR,
                [member(A, state=CONFIRMED), member(B)],
                [member(A, OTHER)],
                False,
                id='near: moves away',
            ),
            pytest.param(
                NEAR,
                [member(A, state=CONFIRMED)],
                [member(A, OTHER)],
                True,
                id='near: the only one moves',
            ),
            pytest.param(
                NEAR,
                [member(A, state=CONFIRMED), member(A, OTHER)],
                [member(B)],
                False,
                id='near: nobody knows where the other one will be',
            ),
        ],
    )
    def test_a_policy_is_kept(self, store, policy, there, comes, won):
        ready(store, HOST, OTHER)
        for one in there:
            assert store.commit([Placement((one,))])[0].won
        before = store.claims()
        outcome = store.commit([join(policy, *comes, replaces=waiting(store))])[0]
        assert outcome.won == won
        assert won or store.claims() == before

    def test_a_claim_on_a_node_that_a_member_has_left_does_not_count(self, store):
        ready(store, HOST, OTHER)
        source, there = member(A, state=CONFIRMED), member(A, OTHER)
        comes = join(dataclasses.replace(NEAR, left=frozenset([source.uuid])), member(B, OTHER))
        assert store.commit([Placement((source,))])[0].won
        assert not store.commit([comes])[0].won  # it is the only one
        assert store.commit([Placement((there,))])[0].won
        assert not store.commit([join(NEAR, member(B, OTHER))])[0].won
        assert store.commit([comes])[0].won

    def test_placements_are_judged_in_order(self, store):
        ready(store, HOST, OTHER)
        comes = [join(APART, member(A)), join(APART, member(B)), join(APART, member(C, OTHER))]
        assert [one.won for one in store.commit(comes)] == [True, False, True]

    def test_who_leaves_makes_room_for_the_next_one(self, store):
        ready(store, HOST, OTHER)
        store.commit([join(APART, member(A))])
        moves = join(APART, member(A, OTHER), releases=[(A, node())], replaces=waiting(store))
        assert [one.won for one in store.commit([moves, join(APART, member(B))])] == [True, True]

    @pytest.mark.parametrize(
        'end',
        [
            pytest.param(lambda store: store.release([(A, node())]), id='released'),
            pytest.param(lambda store: store.expire(2e9), id='expired'),
            pytest.param(lambda store: store.revert(A), id='reverted'),
        ],
    )
    def test_who_has_gone_is_in_nobodys_way(self, store, end):
        ready(store, HOST, OTHER)
        source = member(A, OTHER, state=CONFIRMED)
        assert store.commit([join(APART, source)])[0].won
        assert store.commit([join(APART, member(A, expires_s=1.0, move='resize'))])[0].won
        assert not store.commit([join(APART, member(B))])[0].won
        end(store)
        assert store.commit([join(APART, member(B))])[0].won

    def test_a_confirmed_member_that_the_node_does_not_list_has_gone(self, store):
        ready(store)
        store.commit([join(APART, member(A, state=CONFIRMED))])
        ready(store, now_s=0.0, instances=frozenset())
        assert store.commit([join(APART, member(B))])[0].won

    def test_nodes_of_one_host(self, store):
        """Members that shall be apart may be on two nodes of a host; those that shall be near
        too."""
        pair = [report('metal', nodename=name) for name in ('node-1', 'node-2')]
        store.report(pair, 0.0)
        first, second = (one.node_uuid for one in pair)
        for policy in (APART, NEAR):
            assert store.commit([join(policy, claim(A, first, group_uuid=GROUP))])[0].won
            assert store.commit([join(policy, claim(B, second, group_uuid=GROUP))])[0].won
            store.release([(A, first), (B, second)])

    def test_two_groups_in_a_batch(self, store):
        ready(store)
        other = ServerGroupPolicy(ELSE, ANTI_AFFINITY)
        comes = [
            join(APART, member(A)),
            join(other, member(B, group=ELSE)),
            join(other, member(C, group=ELSE)),
        ]
        assert [one.won for one in store.commit(comes)] == [True, True, False]

    def test_the_loser_is_told_of_the_members(self, store):
        """All about their nodes and its own, as it is after the batch."""
        ready(store, HOST, OTHER)
        there = member(A)
        store.commit([join(NEAR, there)])
        later = member(C)
        lost, won = store.commit([join(NEAR, member(B, OTHER)), join(NEAR, later)])
        assert (lost.won, won.won) == (False, True)
        fresh = {one.report.host: one for one in lost.fresh}
        assert fresh.keys() == {HOST, OTHER}
        assert {one.uuid for one in fresh[HOST].claims} == {there.uuid, later.uuid}
        assert fresh[HOST].generation == generation(store)
        assert won.fresh == ()
