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
"""Placements: all claims of one are won, or none."""

import pytest

from nova_sched.claim import CONFIRMED, DISK_GB, MEMORY_MB, PENDING, PLANNED, VCPU, Claim
from nova_sched.claims import Placement
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    A,
    B,
    C,
    confirmed,
    facts,
    generation,
    judged_by,
    kept,
    node,
    nonzero,
    place,
    ready,
    resize,
    settled,
    waiting,
)


class Commit:
    @each_afresh(
        'words, asked, won',
        {
            'exact fit': ({'vcpus': 4}, {VCPU: 4}, True),
            'one too many': ({'vcpus': 4}, {VCPU: 5}, False),
            'unclaimed usage counts': ({'vcpus': 4, 'vcpus_used': 1}, {VCPU: 4}, False),
            'ratio counts': ({'vcpus': 4, 'vcpus_ratio': 2.0, 'vcpus_used': 4}, {VCPU: 4}, True),
            'beside the reserve': (
                {'memory_mb': 9, 'memory_mb_reserved': 2},
                {MEMORY_MB: 7},
                True,
            ),
            'reserve is kept': ({'memory_mb': 9, 'memory_mb_reserved': 2}, {MEMORY_MB: 8}, False),
            'unknown resource class': ({}, {VCPU: 1, 'CUSTOM_GOLD': 1}, False),
            'what is not asked for may be missing': ({'disk_gb': None}, {VCPU: 1}, True),
            'one class of several is short': ({'disk_gb': 0}, {VCPU: 1, DISK_GB: 1}, False),
            'another class is oversubscribed': (
                {'vcpus': 4, 'vcpus_used': 9},
                {MEMORY_MB: 1},
                True,
            ),
            'max_unit': (
                {'inventories': {VCPU: Inventory(8, max_unit=4)}, 'used': {}},
                {VCPU: 5},
                False,
            ),
        },
    )
    def test_a_claim_is_won_if_it_fits(self, store, words, asked, won):
        ready(store, **words)
        made = Claim(A, node(), asked)
        assert place(store, made).won == won
        assert store.claims() == ([made] if won else [])

    def test_a_claim_is_kept_as_it_is(self, store, another):
        ready(store, memory_mb=2**50)
        made = Claim(
            consumer_uuid=A,
            node_uuid=node(),
            resources={VCPU: 2, MEMORY_MB: 2**40, DISK_GB: 1},
            state=PLANNED,
            project_id='projet-é',
            user_id='user',
            group_uuid=uuid_of('group'),
            request_id='req-1',
            ends_s=1_800_000_060.5,
            created_s=NOW + 0.123456,
            changed_s=NOW + 0.123456,
            expires_s=NOW + 3600.5,
        )
        store.clock = lambda: made.created_s
        assert place(store, made).won
        assert another().claims() == [made]
        assert facts(another()).claims == (made,)

    def test_the_winner_is_told_the_generation_that_it_made(self, store):
        before = ready(store)[0].generation
        outcome = place(store, claim(A, node()))
        assert outcome.generations == {node(): (before, before + 1)}
        assert generation(store) == before + 1

    def test_the_loser_is_told_the_true_use(self, store):
        ready(store, HOST, OTHER, vcpus=4, memory_mb_used=100)
        place(store, claim(B, node(), vcpus=3))
        outcome = place(store, claim(A, node(OTHER)), claim(C, node(), vcpus=2))
        assert not outcome.won
        assert outcome.generations == {}
        assert {uuid: nonzero(use) for uuid, use in outcome.used.items()} == {
            node(): {VCPU: 3, MEMORY_MB: 612},
            node(OTHER): {MEMORY_MB: 100},
        }
        assert outcome.fresh == ()

    @each_afresh(
        'changes, released',
        {
            'a member of a server group': ({'group_uuid': uuid_of('group')}, False),
            'a tenant of an exclusive domain': ({'fences': ('x',)}, False),
            'a release': ({}, True),
        },
    )
    def test_a_loser_that_may_lack_more_is_told_all(self, store, changes, released):
        ready(store, vcpus=4)
        place(store, claim(B, node(), vcpus=3))
        made = claim(C, node(), **{'vcpus': 2, **changes})
        releases = ((A, node()),) if released else ()
        (outcome,) = store.commit([Placement((made,), releases)])
        assert not outcome.won
        assert [one.report.host for one in outcome.fresh] == [HOST]
        assert [held.consumer_uuid for held in outcome.fresh[0].claims] == [B]

    def test_all_claims_of_a_placement_or_none(self, store):
        ready(store, HOST, OTHER, vcpus=4)
        before = generation(store)
        assert not place(store, claim(A, node()), claim(B, node(OTHER), vcpus=5)).won
        assert kept(store) == {}
        assert generation(store) == before
        assert place(store, claim(A, node()), claim(B, node(OTHER), vcpus=4)).won
        assert kept(store) == {(A, node()): PENDING, (B, node(OTHER)): PENDING}

    def test_placements_are_judged_in_order(self, store):
        before = ready(store, vcpus=10)[0].generation
        batch = [
            Placement((claim(uuid_of(name), node(), vcpus=size),))
            for name, size in (('first', 6), ('second', 5), ('third', 4), ('fourth', 1))
        ]
        outcomes = store.commit(batch)
        assert [outcome.won for outcome in outcomes] == [True, False, True, False]
        assert outcomes[1].used[node()][VCPU] == outcomes[3].used[node()][VCPU] == 10
        assert outcomes[0].generations == outcomes[2].generations == {node(): (before, before + 1)}
        assert generation(store) == before + 1

    @each_afresh(
        'beside, state, ends',
        {
            'confirmed': (None, CONFIRMED, True),
            'on its way again': (None, PENDING, False),
            'the source of a resize': ({'move': 'resize'}, CONFIRMED, False),
            'the source of a live migration': ({'move': 'live-migration'}, CONFIRMED, True),
            'the source of a move that nobody named': ({}, CONFIRMED, True),
        },
    )
    def test_what_a_node_does_not_list_ends_by_what_the_store_knows(
        self, store, beside, state, ends
    ):
        """The node may not have heard of a move, or of a new claim."""
        ready(store, HOST, OTHER)
        there = claim(A, node(), state=state)
        place(store, there)
        if beside is not None:
            place(store, claim(A, node(OTHER), **beside))
        (found,) = ready(store, instances=frozenset())
        assert [one.uuid for one in found.ended] == ([there.uuid] if ends else [])
        assert (there.uuid in {one.uuid for one in store.claims()}) != ends

    @each_afresh(
        'old, new, known, won',
        {
            'the same request': ({'request_id': 'r'}, {'request_id': 'r'}, False, False),
            'the same, knowingly': ({'request_id': 'r'}, {'request_id': 'r'}, True, True),
            'another request': ({'request_id': 'r'}, {'request_id': 's'}, False, False),
            'another, knowingly': ({'request_id': 'r'}, {'request_id': 's'}, True, True),
            'a later one': ({'created_s': NOW + 9}, {}, False, False),
            'a later one, knowingly': ({'created_s': NOW + 9}, {}, True, True),
            'an earlier one': ({'created_s': NOW - 9}, {}, False, False),
            'a planned one': ({'state': PLANNED}, {}, False, True),
            'a move': ({'request_id': 'r', 'state': CONFIRMED}, {'request_id': 'r'}, False, True),
        },
    )
    @pytest.mark.parametrize('host', [HOST, OTHER])
    def test_a_pending_claim_that_its_scheduler_does_not_know_of(
        self, store, host, old, new, known, won
    ):
        """The message came twice, or was held up until its caller had asked again."""
        ready(store, HOST, OTHER)
        before = claim(A, node(), **{'created_s': NOW, **old})
        store.clock = lambda: before.created_s
        place(store, before)
        before, store.clock = store.claims()[0], lambda: NOW
        later = claim(A, node(host), **{'created_s': NOW, **new})
        (outcome,) = store.commit(
            [Placement((later,), replaces=frozenset([before.uuid] if known else []))]
        )
        assert outcome.won == won
        assert won or store.claims() == [before]
        assert won or HOST in [one.report.host for one in outcome.fresh]

    @pytest.mark.parametrize('known', [False, True])
    def test_a_pending_claim_that_the_placement_releases_is_named(self, store, known):
        """The one that its scheduler knew there may have given way to another one."""
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        names = waiting(store) if known else frozenset()
        wanted = Placement((claim(A, node(OTHER)),), ((A, node()),), replaces=names)
        assert store.commit([wanted])[0].won == known
        assert kept(store) == {(A, node(OTHER if known else HOST)): PENDING}

    @pytest.mark.parametrize('host', [HOST, OTHER])
    @pytest.mark.parametrize('state, won', [(PENDING, True), (CONFIRMED, False)])
    def test_a_pending_claim_that_is_confirmed_by_now(self, store, host, state, won):
        """Its scheduler has not heard of that: the instance may be there, and is left alone."""
        ready(store, HOST, OTHER)
        made = claim(A, node())
        place(store, made)
        if state == CONFIRMED:
            store.confirm([A], [node()])
        before = store.claims()
        names = frozenset([made.uuid])
        wanted = Placement((claim(A, node(host), vcpus=2),), replaces=names, runs={})
        (outcome,) = store.commit([wanted])
        assert outcome.won == won
        assert won or store.claims() == before
        assert won or tuple(before) in [one.claims for one in outcome.fresh]

    @pytest.mark.parametrize('known', [False, True])
    @each_afresh('host', {'replaced': HOST, 'released': OTHER})
    def test_an_open_resize_is_named(self, store, known, host):
        ready(store, HOST, OTHER)
        settled(store)
        resize(store, 4)
        before = store.claims()
        names = waiting(store) if known else frozenset()
        releases = ((A, node()),) if host == OTHER else ()
        wanted = Placement((claim(A, node(host), vcpus=2),), releases, replaces=names)
        assert store.commit([wanted])[0].won == known
        assert (store.claims() != before) == known

    def test_the_size_that_it_has_is_no_resize(self, store):
        """Nor is the one that it is about to get: a call that is repeated changes nothing."""
        ready(store)
        settled(store)
        before = store.claims()
        assert place(store, claim(A, node())).claims == tuple(before)
        one = resize(store, 4)
        before = store.claims()
        (outcome,) = store.commit([Placement((claim(A, node(), vcpus=4),))])
        assert (outcome.won, outcome.claims) == (True, tuple(before))
        assert before[0].name == one.uuid

    def test_the_same_claim_twice_is_one_claim(self, store):
        ready(store, vcpus=4)
        made = claim(A, node(), vcpus=4)
        place(store, made)
        before = generation(store)
        again = place(store, made)
        assert again.won
        assert again.generations == {node(): (before, before)}
        assert store.claims() == [made]
        assert generation(store) == before

    def test_a_claim_that_was_confirmed_meanwhile_is_won_again_and_stays_confirmed(self, store):
        ready(store)
        made = claim(A, node())
        place(store, made)
        store.confirm([A], [node()])
        assert place(store, made).won
        assert kept(store) == {(A, node()): CONFIRMED}

    def test_a_claim_elsewhere_ends_the_one_that_waits(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        before = generation(store)
        assert place(store, claim(A, node(OTHER))).won
        assert kept(store) == {(A, node(OTHER)): PENDING}
        assert judged_by(store) == {}
        assert generation(store) == before + 1

    @each_afresh(
        'old, new, amounts, won',
        {
            'the larger of each': ((2, 512), (1, 1024), (2, 1024), True),
            'grows': ((1, 512), (4, 512), (4, 512), True),
            'does not shrink': ((2, 1024), (1, 512), (2, 1024), True),
            'too large': ((1, 512), (5, 512), (1, 512), False),
        },
    )
    def test_a_confirmed_claim_on_the_same_node_keeps_the_larger_amounts(
        self, store, old, new, amounts, won
    ):
        ready(store, vcpus=4)
        first = confirmed(A, vcpus=old[0], memory_mb=old[1])
        place(store, first)
        assert place(store, claim(A, node(), vcpus=new[0], memory_mb=new[1])).won == won
        (found,) = store.claims()
        assert (found.uuid, found.resources) == (
            first.uuid,
            {VCPU: amounts[0], MEMORY_MB: amounts[1]},
        )
        assert (found.resizing is not None) == won

    def test_a_claim_on_an_unknown_node_is_lost(self, store):
        ready(store)
        outcome = place(store, claim(A, node()), claim(B, node('nowhere')))
        assert not outcome.won
        assert {uuid: nonzero(use) for uuid, use in outcome.used.items()} == {node(): {}}
        assert kept(store) == {}

    def test_a_batch_of_any_size(self, store):
        """More consumers and nodes than one statement can name."""
        hosts = [f'many-{number}' for number in range(700)]
        ready(store, *hosts, vcpus=2)
        batch = [
            Placement((claim(uuid_of(f'{host} {number}'), node(host)),))
            for number in range(3)
            for host in hosts
        ]
        outcomes = store.commit(batch)
        assert [outcome.won for outcome in outcomes] == [True] * 1400 + [False] * 700
        assert len(store.claims()) == 1400
        assert len(store.release([one.key for one in store.claims()]).changed) == 1400
        assert store.claims() == []
