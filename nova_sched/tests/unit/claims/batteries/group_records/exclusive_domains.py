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
"""Exclusive domains of placement groups.

Member web of a group is on HOST, in the domain of HOST and OTHER; THIRD is elsewhere.
"""

import dataclasses
import threading
import time
from concurrent import futures

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, RESIZE
from nova_sched.claims import ClosedDomain, Placement
from nova_sched.tests.builders import NOW, claim, guarded, report, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.group_records.records import (
    DB,
    ELSE,
    built,
    commit,
    create,
    plan,
    planned,
    record,
)
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    THIRD,
    A,
    B,
    C,
    confirmed,
    facts,
    generation,
    kept,
    node,
    place,
    ready,
    remove,
)

TOKEN, SECOND = uuid_of('fence'), uuid_of('another fence')
RACK = ClosedDomain(TOKEN, frozenset([node(), node(OTHER)]))
ROOM = ClosedDomain(SECOND, frozenset([node(), node(OTHER), node(THIRD)]))
WEB_INSIDE = planned(fences=(TOKEN,), expires_s=NOW + 60)


def inside(consumer=A, host=HOST, **words):
    return built(consumer, host, fences=(TOKEN,), **words)


def fenced(store, *claims, **words):
    """A store with the plan of a group that has its rack for itself."""
    ready(store, HOST, OTHER, THIRD, **words)
    assert commit(store, plan(*(claims or (WEB_INSIDE,)), closed_domains=(RACK,))).won
    return store


def behind(store):
    """The fences of each host that has some."""
    return {one.report.host: set(one.fences) for one in store.changes({}).nodes if one.fences}


def until_done(work, *given):
    """What a scheduler does: it asks again while others are in the way."""
    while True:
        try:
            return work(*given)
        except errors.StoreBusy:
            continue


BOTH = {HOST: {TOKEN}, OTHER: {TOKEN}}


class ExclusiveDomains:
    def test_all_nodes_of_the_domain_carry_it(self, store, another):
        ready(store, HOST, OTHER, THIRD)
        before = store.heads()
        outcome = commit(store, plan(WEB_INSIDE, closed_domains=(RACK,)))
        assert outcome.won
        assert behind(another()) == BOTH
        assert outcome.tokens == {node(): {TOKEN}, node(OTHER): {TOKEN}}
        assert outcome.generations == {}  # who made it has to look
        raised = {uuid: pair[0] - before[uuid][0] for uuid, pair in another().heads().items()}
        assert raised == {node(): 1, node(OTHER): 1, node(THIRD): 0}
        assert another().claims() == [WEB_INSIDE]

    def test_a_second_fence_with_the_same_token(self, store):
        """It raises no generation where it is already."""
        fenced(store)
        before = store.heads()
        more = planned(DB, fences=(TOKEN,))
        outcome = commit(store, guarded((more,), serial=1, closed_domains=(RACK,)))
        assert (outcome.won, outcome.tokens) == (True, {})
        assert set(outcome.generations) == {node()}
        assert generation(store, OTHER) == before[node(OTHER)][0]

    def test_a_wider_fence_with_the_same_token(self, store):
        """It raises no generation where it is already."""
        fenced(store)
        before = store.heads()
        more, wider = (
            planned(DB, THIRD, fences=(TOKEN,)),
            ClosedDomain(TOKEN, RACK.nodes | {node(THIRD)}),
        )
        assert commit(store, guarded((more,), serial=1, closed_domains=(wider,))).won
        assert behind(store) == {**BOTH, THIRD: {TOKEN}}
        after = store.heads()
        assert [after[one] for one in RACK.nodes] == [before[one] for one in RACK.nodes]

    @each_afresh(
        'made',
        {
            'a boot, where a member is': Placement((claim(B, node()),)),
            'a boot, where nobody is': Placement((claim(B, node(OTHER)),)),
            'an instance that is there': Placement((confirmed(B),)),
            'one of several': Placement((claim(B, node(THIRD)), claim(C, node()))),
            'a move': Placement((claim(C, node(), move=RESIZE),)),
            'an alternate': Placement((claim(C, node()),), ((C, node(THIRD)),)),
            'a member of its group, with no part in it': Placement((built(B, OTHER),)),
            'another group': plan(
                planned(DB, OTHER, ELSE, fences=(SECOND,)), of=record(ELSE), closed_domains=(ROOM,)
            ),
            'another group without a fence': plan(planned(DB, group=ELSE), of=record(ELSE)),
        },
    )
    def test_it_keeps_outsiders_out(self, store, made):
        fenced(store)
        place(store, confirmed(C, THIRD))
        before = kept(store), behind(store)
        outcome = commit(store, made)
        assert not outcome.won
        assert {TOKEN} in [one.fences for one in outcome.fresh]
        assert (kept(store), behind(store)) == before

    @each_afresh(
        'made',
        {
            'an outsider elsewhere': Placement((claim(B, node(THIRD)),)),
            'a member': Placement((inside(B, OTHER),)),
            'the instance of a member': create(inside(), WEB_INSIDE),
            'or on another node of the domain': create(inside(A, OTHER), WEB_INSIDE),
        },
    )
    def test_it_keeps_no_other_claim_out(self, store, made):
        fenced(store)
        outcome = commit(store, made)
        assert (outcome.won, outcome.tokens) == (True, {})
        assert behind(store) == BOTH

    @each_afresh(
        'there',
        {
            'where the member goes': lambda store: place(store, claim(B, node())),
            'beside': lambda store: place(store, claim(B, node(OTHER))),
            'of its group': lambda store: place(store, built(B, OTHER)),
            'nobody claimed it': lambda store: ready(store, OTHER, instances=frozenset([B])),
            'nobody knows whose': lambda store: ready(store, OTHER, num_instances=1),
        },
    )
    def test_an_outsider_is_there_first(self, store, there):
        ready(store, HOST, OTHER, THIRD)
        there(store)
        before = kept(store)
        outcome = commit(store, plan(WEB_INSIDE, closed_domains=(RACK,)))
        assert not outcome.won
        assert {one.report.host for one in outcome.fresh} == {HOST, OTHER}
        assert (kept(store), behind(store), store.top_group(record().uuid)) == (before, {}, None)

    def test_outsiders_who_leave_with_the_plan(self, store):
        """And members of before come behind it with it."""
        ready(store, HOST, OTHER, THIRD)
        leaves, stays = planned(DB, OTHER), built(A, OTHER, state=CONFIRMED)
        commit(store, plan(leaves, stays))
        later = dataclasses.replace(stays, fences=(TOKEN,))
        update = plan(WEB_INSIDE, later, serial=1, releases=[leaves.key], closed_domains=(RACK,))
        assert commit(store, update).won
        assert behind(store) == BOTH
        assert store.claims(A) == [later]

    def test_in_a_batch(self, store):
        """Each is judged after those before it."""
        ready(store, HOST, OTHER, THIRD)
        first, last = Placement((claim(B, node(OTHER)),)), Placement((claim(C, node()),))
        names = frozenset([first.claims[0].uuid])
        leaves = Placement((), ((B, node(OTHER)),), replaces=names)
        mine = plan(WEB_INSIDE, closed_domains=(RACK,))
        assert [one.won for one in store.commit([first, mine, leaves, mine, last])] == [
            True,
            False,
            True,
            True,
            False,
        ]
        ends = plan(of=record(deleted=True), serial=1, releases=[WEB_INSIDE.key])
        assert [one.won for one in store.commit([last, ends, last])] == [False, True, True]
        assert behind(store) == {}

    def test_a_claim_that_is_to_be_behind_a_fence_that_is_not_there(self, store):
        ready(store)
        assert not place(store, inside()).won
        fenced(store)
        assert not place(store, inside(B, THIRD)).won
        assert not place(store, built(B, fences=(TOKEN, SECOND))).won

    def test_one_domain_in_another(self, store):
        """Web has the rack for itself, and the room together with db."""
        ready(store, HOST, OTHER, THIRD)
        web, db = planned(fences=(TOKEN, SECOND)), planned(DB, THIRD, fences=(SECOND,))
        assert commit(store, plan(web, db, closed_domains=(RACK, ROOM))).won
        assert behind(store) == {HOST: {TOKEN, SECOND}, OTHER: {TOKEN, SECOND}, THIRD: {SECOND}}
        assert not commit(store, create(built(B, OTHER, 'db', fences=(SECOND,)), db)).won
        store.release([web.key])
        assert store.end_domains() == sorted([node(), node(OTHER)])
        assert behind(store) == {host: {SECOND} for host in (HOST, OTHER, THIRD)}
        assert commit(store, create(built(B, OTHER, 'db', fences=(SECOND,)), db)).won

    def test_a_fence_without_members_is_none(self, store):
        ready(store, HOST, OTHER, THIRD)
        assert commit(store, plan(planned(), closed_domains=(RACK,))).won
        assert behind(store) == {}

    def test_nodes_of_the_domain_that_are_gone(self, store):
        ready(store)
        assert commit(store, plan(WEB_INSIDE, closed_domains=(RACK,))).won
        assert behind(store) == {HOST: {TOKEN}}

    def test_reports_leave_it_alone(self, store):
        fenced(store)
        before = generation(store, OTHER)
        for words in ({}, {'instances': frozenset([B])}):
            (found,) = ready(store, OTHER, **words)
            assert found.fences == {TOKEN}
        assert found.generation == before + 1
        assert found == facts(store, OTHER)
        assert behind(store) == BOTH

    # Its end.

    @each_afresh(
        'end',
        {
            'released': lambda store: store.release([WEB_INSIDE.key]),
            'expired': lambda store: store.expire(NOW + 60),
            'in a placement': lambda store: place(store, releases=[WEB_INSIDE.key]),
            'planned elsewhere': lambda store: place(store, planned(host=THIRD)),
            'built, and deleted': lambda store: (
                commit(store, create(inside(state=CONFIRMED), WEB_INSIDE)),
                ready(store, instances=frozenset()),
            ),
            'its node is removed': remove,
            'its node is rebuilt': lambda store: store.report(
                [report(HOST, node_uuid=uuid_of('new'))], NOW
            ),
            'built, and moved away': lambda store: (
                commit(store, create(inside(state=CONFIRMED), WEB_INSIDE)),
                place(store, built(A, THIRD, move=RESIZE)),
                store.finish(A, [node(THIRD)]),
            ),
            'came, and went back': lambda store: (
                place(store, built(A, THIRD, state=CONFIRMED)),
                commit(store, create(inside(move=RESIZE), WEB_INSIDE)),
                store.revert(A),
            ),
        },
    )
    @pytest.mark.parametrize('alone', [True, False])
    def test_it_ends_without_claims_when_it_is_swept(self, store, another, end, alone):
        """And no sooner."""
        fenced(store)
        assert alone or place(store, inside(B, OTHER, state=CONFIRMED)).won
        end(store)
        assert (B in {one.consumer_uuid for one in store.claims()}) != alone
        stands = {host: tokens for host, tokens in BOTH.items() if node(host) in store.heads()}
        assert behind(another()) == stands
        assert not place(store, claim(C, node(OTHER))).won
        reader, before = another(), {uuid: one[0] for uuid, one in store.heads().items()}
        assert store.end_domains() == (sorted(map(node, stands)) if alone else [])
        assert behind(another()) == ({} if alone else stands)
        changed = {one.report.node_uuid for one in reader.changes(before).nodes}
        assert changed == (set(map(node, stands)) if alone else set())
        assert place(store, claim(C, node(OTHER))).won == alone
        assert store.end_domains() == []

    @each_afresh(
        'end',
        {
            'it is deleted': plan(of=record(deleted=True), serial=1, releases=[WEB_INSIDE.key]),
            'planned elsewhere': plan(planned(host=THIRD), serial=1, releases=[WEB_INSIDE.key]),
            'created elsewhere': create(built(A, THIRD), WEB_INSIDE),
            'the policy goes': plan(dataclasses.replace(WEB_INSIDE, fences=()), serial=1),
        },
    )
    @pytest.mark.parametrize('alone', [True, False])
    def test_it_ends_with_a_placement_of_its_group(self, store, another, end, alone):
        """Unless another claim is in it. A claim that stays is no outsider then."""
        fenced(store)
        assert alone or place(store, inside(B, OTHER, state=CONFIRMED)).won
        outcome = commit(store, end)
        stays = not alone and not end.releases
        assert outcome.won != stays
        assert outcome.tokens == (dict.fromkeys(map(node, BOTH), frozenset()) if alone else {})
        assert behind(another()) == ({} if alone else BOTH)
        assert place(store, claim(C, node(OTHER))).won == alone

    def test_members_enter_a_domain_that_is_not_swept(self, store):
        """Its last claim has ended, and the group plans again."""
        fenced(store)
        store.release([WEB_INSIDE.key])
        later = planned(DB, OTHER, fences=(TOKEN,))
        assert not commit(store, plan(planned(DB, OTHER), serial=1)).won
        assert commit(store, plan(later, serial=1, closed_domains=(RACK,))).won
        assert store.end_domains() == []
        assert behind(store) == BOTH

    def test_members_enter_while_it_is_swept(self, store, another):
        """A domain stays with a member in it, and no member is in a domain that has ended."""
        ready(store, HOST, OTHER, THIRD)
        stop, swept = threading.Event(), []

        def sweep():
            mine = another()
            while not stop.is_set():
                swept.extend(until_done(mine.end_domains))

        with futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(sweep)
            for serial in range(25):
                make = plan(WEB_INSIDE, serial=serial, closed_domains=(RACK,))
                assert until_done(commit, store, make).won
                assert until_done(commit, store, create(inside(), WEB_INSIDE)).won
                until_done(store.release, [(A, node())])
                # It may have ended by now, or end at this moment.
                enters = Placement((inside(B, OTHER),))
                if until_done(commit, store, enters).won:
                    assert facts(store, OTHER).fences == {TOKEN}
                    assert not place(store, claim(C, node())).won
                until_done(store.release, [(B, node(OTHER))])
            while not swept:
                time.sleep(0.01)
            stop.set()
            running.result(30)

    def test_a_move_within_the_domain(self, store):
        """The plan's claim ends and another one begins; the fence stands all the time."""
        fenced(store)
        later = planned(host=OTHER, fences=(TOKEN,))
        assert commit(store, guarded((later,), serial=1)).won
        assert behind(store) == BOTH
        assert store.claims() == [later]

    def test_a_move_to_another_domain(self, store):
        fenced(store)
        later = planned(host=THIRD, fences=(SECOND,))
        there = ClosedDomain(SECOND, frozenset([node(THIRD)]))
        assert commit(store, guarded((later,), serial=1, closed_domains=(there,))).won
        assert behind(store) == {THIRD: {SECOND}}

    def test_what_is_behind_it_stays_through_the_life_of_a_claim(self, store):
        fenced(store)
        for step in (
            lambda: commit(store, create(inside(), WEB_INSIDE)),
            lambda: place(store, claim(A, node(), vcpus=2)),
            lambda: store.confirm([A], [node()]),
            lambda: place(store, claim(A, node(), vcpus=3)),
            lambda: store.finish(A, [node()]),
            lambda: ready(store, instances=frozenset([A])),
            lambda: place(store, claim(A, node(), vcpus=1), releases=[(A, node())]),
        ):
            step()
            assert [one.fences for one in store.claims()] == [(TOKEN,)]
            assert behind(store) == BOTH

    # Nodes that come to the domain.

    def test_a_node_that_comes_to_the_domain(self, store, another):
        fenced(store)
        place(store, confirmed(B, THIRD))
        before = generation(store, THIRD)
        assert store.spread_domain(TOKEN, [node(THIRD), node(), node('nowhere')]) == [node(THIRD)]
        assert behind(another()) == {**BOTH, THIRD: {TOKEN}}
        assert generation(store, THIRD) == before + 1
        assert store.spread_domain(TOKEN, [node(THIRD)]) == []
        assert generation(store, THIRD) == before + 1
        assert not place(store, claim(C, node(THIRD))).won
        assert place(
            store, claim(B, node(THIRD), vcpus=2)
        ).won  # who was there may change its size
        store.release([WEB_INSIDE.key])
        store.end_domains()
        assert behind(store) == {}

    def test_no_fence_without_a_claim(self, store):
        ready(store)
        place(store, claim(A, node()))
        assert store.spread_domain(TOKEN, [node()]) == []
        assert behind(store) == {}

    def test_a_node_that_comes_back_carries_nothing(self, store):
        fenced(store)
        remove(store, OTHER)
        (found,) = ready(store, OTHER)
        assert found.fences == frozenset()
        assert behind(store) == {HOST: {TOKEN}}
