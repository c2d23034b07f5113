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
"""Claims for consumers that are confirmed nowhere."""

import dataclasses

import pytest

from nova_sched.claim import CONFIRMED, PENDING, PLANNED, RESIZE
from nova_sched.claims import Placement
from nova_sched.tests.builders import claim, runs_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    THIRD,
    A,
    B,
    facts,
    kept,
    move,
    node,
    place,
    ready,
    remove,
    resize,
    settled,
    waiting,
)


def pending(store, host=HOST):
    place(store, claim(A, node(host)))


def planned(store):
    place(store, claim(A, node(), state=PLANNED))


def both(store):
    settled(store)
    place(store, claim(A, node(THIRD), move=RESIZE))


def running(store):
    return runs_of(store.claims(A))


def arrived(store):
    move(store)
    store.confirm([A], [node(OTHER)])


def left(store):
    both(store)
    store.finish(A, [node(THIRD)])


def gone(store):
    store.release([(A, node())])


class Runs:
    """The consumers must be confirmed where their scheduler knew: nowhere, or on these nodes."""

    @each_afresh(
        'since, won',
        {
            'nothing': (lambda store: None, True),
            'a resize is open': (lambda store: resize(store, 3), True),
            'it is on its way to another node': (lambda store: pending(store, THIRD), True),
            'it was taken over': (settled, False),
            'it has come there': (arrived, False),
            'it has left': (left, False),
            'it is gone': (gone, False),
        },
    )
    @each_afresh('host', {'a move': OTHER, 'a resize': HOST})
    def test_a_change_of_what_runs_is_lost_if_that_has_changed(self, store, since, won, host):
        ready(store, HOST, OTHER, THIRD)
        settled(store)
        known = running(store)
        since(store)
        now = running(store)
        before = store.claims()
        made = claim(A, node(host), vcpus=4, move=RESIZE)
        (outcome,) = store.commit([Placement((made,), replaces=waiting(store), runs=known)])
        assert outcome.won == won
        if not won:
            assert store.claims() == before
            told = {one.report.node_uuid for one in outcome.fresh}
            differ = dict(known.items() ^ now.items())
            assert told >= {node(host), *differ.values()}

    @each_afresh(
        'before, won',
        {
            'nothing': (lambda store: None, True),
            'pending elsewhere': (pending, True),
            'pending here': (lambda store: pending(store, OTHER), True),
            'planned elsewhere': (planned, True),
            'confirmed elsewhere': (settled, False),
            'confirmed here': (lambda store: settled(store, host=OTHER), False),
            'confirmed elsewhere, and moving': (both, False),
        },
    )
    @each_afresh('beside', {'alone': False, 'with a release': True})
    def test_it_is_won_unless_a_claim_is_confirmed(self, store, before, won, beside):
        """With a release, a store asks first what the consumers have."""
        ready(store, HOST, OTHER, THIRD)
        before(store)
        place(store, claim(B, node(THIRD)))
        there = store.claims(A)
        known = waiting(store) | waiting(store, B)
        releases = ((B, node(THIRD)),) if beside else ()
        made = claim(A, node(OTHER), vcpus=3)
        (outcome,) = store.commit([Placement((made,), releases, replaces=known, runs={})])
        assert outcome.won == won
        assert [one.uuid for one in store.claims(A)] == (
            [made.uuid] if won else [one.uuid for one in there]
        )
        assert won or store.claims(A) == there
        assert ((B, node(THIRD)) in kept(store)) == (not (won and beside))

    def test_the_loser_is_told_that_a_node_is_gone(self, store):
        ready(store, HOST, OTHER)
        settled(store)
        known = running(store)
        remove(store)
        moves = Placement((claim(A, node(OTHER), move=RESIZE),), runs=known)
        (outcome,) = store.commit([moves])
        assert (outcome.won, outcome.gone) == (False, (node(),))
        assert store.commit([dataclasses.replace(moves, runs={})])[0].won

    @each_afresh('has_heard', {'that it has ended': True, 'nothing': False})
    def test_a_confirmed_claim_that_is_kept_does_not_come_back(self, store, has_heard):
        ready(store)
        settled(store)
        kept_claims, known = tuple(store.claims()), running(store)
        gone(store)
        known = {} if has_heard else known
        assert not store.commit([Placement(kept_claims, runs=known)])[0].won
        assert store.claims() == []

    @each_afresh('confirms', {'pending': False, 'confirmed': True})
    def test_a_claim_that_another_request_gets_too(self, store, confirms):
        """While it is pending, it is of neither. Once it is confirmed, the later one loses: the
        server may have come and gone since its scheduler read."""
        ready(store, HOST, OTHER)
        made = claim(A, node(), request_id='req-1')
        place(store, made)
        if confirms:
            store.confirm([A], [node()])
        before = store.claims()
        both = made.asked_by('req-2')
        names = frozenset([made.uuid])
        assert store.commit([Placement((both,), replaces=names, runs={})])[0].won == (not confirms)
        (after,) = store.claims()
        assert after.request_id == ('req-1' if confirms else None)
        assert not confirms or store.claims() == before
        store.confirm([A], [node()])
        moves = Placement((claim(A, node(OTHER), move=RESIZE),), runs=running(store))
        assert store.commit([moves])[0].won

    @pytest.mark.parametrize('host', [HOST, OTHER])
    def test_the_loser_is_told_where_it_is(self, store, host):
        ready(store, HOST, OTHER)
        settled(store)
        there = tuple(store.claims())
        (outcome,) = store.commit([Placement((claim(A, node(host)),), runs={})])
        assert not outcome.won
        assert {one.report.host: one.claims for one in outcome.fresh}[HOST] == there

    @each_afresh('confirms', {'pending': False, 'confirmed': True})
    def test_the_same_claim_again(self, store, another, confirms):
        """The answer was lost. If another call has confirmed the claim meanwhile, the scheduler
        has to hear of that."""
        ready(store)
        placement = Placement((claim(A, node()),), runs={})
        assert store.commit([placement])[0].won
        if confirms:
            store.confirm([A], [node()])
        before = facts(store)
        (outcome,) = another().commit([placement])
        assert (outcome.won, outcome.claims) == (
            (False, ()) if confirms else (True, before.claims)
        )
        assert facts(store) == before

    def test_the_same_claim_again_once_it_is_confirmed_elsewhere(self, store):
        ready(store, HOST, OTHER)
        placement = Placement((claim(A, node()),), runs={})
        store.commit([placement])
        store.release([(A, node())])
        settled(store, host=OTHER)
        assert not store.commit([placement])[0].won
        assert kept(store) == {(A, node(OTHER)): CONFIRMED}

    def test_the_same_claim_again_leaves_a_move_alone(self, store):
        ready(store, HOST, OTHER)
        placement = Placement((claim(A, node()),), runs={})
        store.commit([placement])
        store.confirm([A], [node()])
        move(store)
        before = store.claims()
        assert not store.commit([placement])[0].won
        assert store.claims() == before

    @each_afresh('first', {'behind it': True, 'before it': False})
    def test_a_move_in_the_same_batch_is_won(self, store, first):
        """What one request must not do, another one of its batch may."""
        ready(store, HOST, OTHER, THIRD)
        settled(store)
        moves = Placement((claim(A, node(OTHER), move=RESIZE),))
        late = Placement((claim(A, node(THIRD)),), runs={})
        batch = [moves, late] if first else [late, moves]
        won = [outcome.won for outcome in store.commit(batch)]
        assert won == ([True, False] if first else [False, True])
        assert kept(store) == {(A, node()): CONFIRMED, (A, node(OTHER)): PENDING}
