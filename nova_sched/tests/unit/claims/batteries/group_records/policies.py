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

from nova_sched.claim import CONFIRMED
from nova_sched.claims import Placement, ServerGroupPolicy
from nova_sched.state.request import AFFINITY, ANTI_AFFINITY
from nova_sched.tests.builders import claim, guarded, report, uuid_of
from nova_sched.tests.rows import each_afresh
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
    @each_afresh(
        'policy, there, comes, won',
        {
            'apart: the first': (APART, [], [member(A)], True),
            'apart: the same node': (APART, [member(A)], [member(B)], False),
            'apart: another node': (APART, [member(A)], [member(B, OTHER)], True),
            'apart: another group': (APART, [member(A, group=ELSE)], [member(B)], True),
            'apart: no member': (APART, [claim(A, node())], [member(B)], True),
            'apart: becomes a member': (APART, [member(A), claim(B, node())], [member(B)], False),
            'apart: two at once': (APART, [], [member(A), member(B)], False),
            'apart: two at once, apart': (APART, [], [member(A), member(B, OTHER)], True),
            'apart: the same once more': (APART, [member(A)], [member(A, vcpus=2)], True),
            'apart: decided again': (APART, [member(A)], [member(A, OTHER)], True),
            'apart: moves to another member': (
                APART,
                [member(A, state=CONFIRMED), member(B, OTHER)],
                [member(A, OTHER)],
                False,
            ),
            'apart: where one comes from': (
                APART,
                [member(A, state=CONFIRMED), member(A, OTHER)],
                [member(B)],
                False,
            ),
            'apart: where one goes to': (
                APART,
                [member(A, state=CONFIRMED), member(A, OTHER)],
                [member(B, OTHER)],
                False,
            ),
            'two on a node': (PAIRS, [member(A)], [member(B)], True),
            'not three': (PAIRS, [member(A), member(B)], [member(C)], False),
            'nor three at once': (PAIRS, [], [member(A), member(B), member(C)], False),
            'near: the first': (NEAR, [], [member(A)], True),
            'near: the same host': (NEAR, [member(A)], [member(B)], True),
            'near: another host': (NEAR, [member(A)], [member(B, OTHER)], False),
            'near: two at once, apart': (NEAR, [], [member(A), member(B, OTHER)], False),
            'near: alone, decided again': (NEAR, [member(A)], [member(A, OTHER)], True),
            'near: moves away': (
                NEAR,
                [member(A, state=CONFIRMED), member(B)],
                [member(A, OTHER)],
                False,
            ),
            'near: the only one moves': (
                NEAR,
                [member(A, state=CONFIRMED)],
                [member(A, OTHER)],
                True,
            ),
            'near: nobody knows where the other one will be': (
                NEAR,
                [member(A, state=CONFIRMED), member(A, OTHER)],
                [member(B)],
                False,
            ),
        },
    )
    def test_a_policy_is_kept(self, store, policy, there, comes, won):
        ready(store, HOST, OTHER)
        for one in there:
            assert store.commit([Placement((one,))])[0].won
        before = store.claims()
        outcome = store.commit([join(policy, *comes, replaces=waiting(store))])[0]
        assert outcome.won == won
        assert won or store.claims() == before

    def test_placements_are_judged_in_order(self, store):
        ready(store, HOST, OTHER)
        comes = [join(APART, member(A)), join(APART, member(B)), join(APART, member(C, OTHER))]
        assert [one.won for one in store.commit(comes)] == [True, False, True]

    def test_who_leaves_makes_room_for_the_next_one(self, store):
        ready(store, HOST, OTHER)
        store.commit([join(APART, member(A))])
        moves = join(APART, member(A, OTHER), releases=[(A, node())], replaces=waiting(store))
        assert [one.won for one in store.commit([moves, join(APART, member(B))])] == [True, True]

    @each_afresh(
        'end',
        {
            'released': lambda store: store.release([(A, node())]),
            'expired': lambda store: store.expire(2e9),
            'reverted': lambda store: store.revert(A),
        },
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
