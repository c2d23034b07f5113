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
"""Claims for consumers that run nowhere yet."""

import pytest

from nova_sched.claim import CONFIRMED, PENDING, VCPU
from nova_sched.claims import Placement
from nova_sched.tests.builders import NOW, claim, report, uuid_of
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    THIRD,
    A,
    B,
    C,
    facts,
    kept,
    node,
    place,
    ready,
    remove,
)


def new(*claims, **words):
    return Placement(claims, new=True, **words)


def settled(store, host=HOST, consumer=A, **words):
    """The consumer's claim on a host where it has come to stay."""
    place(store, claim(consumer, node(host), **words))
    store.finish(consumer, [node(host)])
    (made,) = [one for one in store.claims(consumer) if one.node_uuid == node(host)]
    return made


def pending(store, host=HOST):
    place(store, claim(A, node(host)))


def planned_move(store):
    """It is on its way from HOST to another node."""
    settled(store)
    place(store, claim(A, node(THIRD), move='resize'))


def moved(store):
    planned_move(store)
    store.confirm([A], [node(THIRD)])


def reported(store):
    pending(store)
    store.report([report(HOST, instances=frozenset([A]))], NOW)


def gone(store):
    settled(store)
    store.release([(A, node())])


def node_gone(store):
    settled(store)
    remove(store)


class New:
    @pytest.mark.parametrize(
        'before, won, after',
        [
            pytest.param(lambda store: None, True, {OTHER: PENDING}, id='nothing'),
            pytest.param(pending, True, {OTHER: PENDING}, id='on its way to another node'),
            pytest.param(
                lambda store: pending(store, OTHER), True, {OTHER: PENDING}, id='on its way here'
            ),
            pytest.param(settled, False, {HOST: CONFIRMED}, id='confirmed elsewhere'),
            pytest.param(reported, False, {HOST: CONFIRMED}, id='reported elsewhere'),
            pytest.param(
                planned_move, False, {HOST: CONFIRMED, THIRD: PENDING}, id='moving elsewhere'
            ),
            pytest.param(moved, False, {HOST: CONFIRMED, THIRD: CONFIRMED}, id='moved elsewhere'),
            pytest.param(
                lambda store: settled(store, OTHER), True, {OTHER: CONFIRMED}, id='confirmed here'
            ),
            pytest.param(gone, True, {OTHER: PENDING}, id='it was elsewhere'),
            pytest.param(node_gone, True, {OTHER: PENDING}, id='on a node that is gone'),
        ],
    )
    def test_it_is_won_unless_it_is_confirmed_elsewhere(self, store, before, won, after):
        ready(store, HOST, OTHER, THIRD)
        before(store)
        known = frozenset(one.uuid for one in store.claims(A))
        (outcome,) = store.commit([new(claim(A, node(OTHER), vcpus=3), replaces=known)])
        assert outcome.won == won
        assert kept(store) == {(A, node(host)): state for host, state in after.items()}

    def test_without_the_word_it_is_a_move(self, store):
        ready(store, HOST, OTHER)
        settled(store)
        assert place(store, claim(A, node(OTHER))).won
        assert kept(store) == {(A, node()): CONFIRMED, (A, node(OTHER)): PENDING}

    def test_the_loser_is_told_where_it_is(self, store):
        ready(store, HOST, OTHER)
        there = settled(store)
        (outcome,) = store.commit([new(claim(A, node(OTHER)))])
        assert {one.report.host: one.claims for one in outcome.fresh} == {
            HOST: (there,),
            OTHER: (),
        }

    @pytest.mark.parametrize(
        'words',
        [
            pytest.param({}, id='the same size'),
            pytest.param({'vcpus': 4}, id='another size'),
            pytest.param({'vcpus': 10**6}, id='more than there is'),
        ],
    )
    def test_where_it_is_confirmed_it_stays_as_it_is(self, store, words):
        ready(store)
        there = settled(store)
        before = facts(store)
        (outcome,) = store.commit([new(claim(A, node(), **words))])
        assert outcome.won
        assert outcome.generations == {node(): (before.generation,) * 2}
        assert facts(store) == before
        assert store.claims() == [there]

    def test_where_it_is_confirmed_its_move_goes_on(self, store):
        """A message that is delivered again, long after its job was done."""
        ready(store, HOST, THIRD)
        planned_move(store)
        before = store.claims()
        assert store.commit([new(claim(A, node()))])[0].won
        assert store.claims() == before

    def test_the_same_claim_again_is_won_as_long_as_it_stands(self, store):
        ready(store, HOST, OTHER)
        made = claim(A, node(OTHER))
        for _ in range(2):
            assert store.commit([new(made)])[0].won
        assert store.claims() == [made]
        assert store.commit([new(claim(A, node()), replaces=frozenset([made.uuid]))])[0].won
        store.finish(A, [node()])
        assert not store.commit([new(made)])[0].won
        assert kept(store) == {(A, node()): CONFIRMED}

    def test_the_first_of_two_that_is_confirmed_stays(self, store):
        """Two workers have the same job; what the later one takes over, the earlier one cannot
        confirm."""
        ready(store, HOST, OTHER)
        first = claim(A, node())
        assert store.commit([new(first)])[0].won
        assert store.commit([new(claim(A, node(OTHER)), replaces=frozenset([first.uuid]))])[0].won
        assert store.finish(A, [node()]).changed == []
        assert kept(store) == {(A, node(OTHER)): PENDING}
        assert len(store.finish(A, [node(OTHER)]).changed) == 1
        assert not store.commit([new(claim(A, node()))])[0].won
        assert kept(store) == {(A, node(OTHER)): CONFIRMED}

    def test_in_a_batch_each_is_judged_for_itself(self, store):
        ready(store, HOST, OTHER, vcpus=4)
        settled(store)
        first = claim(C, node(), vcpus=1)
        batch = [
            new(claim(A, node(OTHER), vcpus=4)),
            new(claim(B, node(OTHER), vcpus=4)),
            Placement((first,)),
            new(claim(C, node(OTHER), vcpus=1), replaces=frozenset([first.uuid])),
        ]
        assert [outcome.won for outcome in store.commit(batch)] == [False, True, True, False]
        assert kept(store) == {
            (A, node()): CONFIRMED,
            (B, node(OTHER)): PENDING,
            (C, node()): PENDING,
        }

    def test_one_of_several_consumers_is_elsewhere(self, store):
        ready(store, HOST, OTHER)
        settled(store)
        assert not store.commit([new(claim(B, node(OTHER)), claim(A, node(OTHER)))])[0].won
        assert kept(store) == {(A, node()): CONFIRMED}

    def test_one_of_several_consumers_is_here(self, store):
        ready(store, HOST, OTHER)
        there = settled(store)
        assert store.commit([new(claim(A, node(), vcpus=9), claim(B, node(OTHER)))])[0].won
        assert kept(store) == {(A, node()): CONFIRMED, (B, node(OTHER)): PENDING}
        assert there in store.claims()

    def test_with_a_release(self, store):
        """A store may ask first what the consumers have, then."""
        ready(store, HOST, OTHER)
        settled(store)
        beside = uuid_of('beside')
        place(store, claim(beside, node()))
        assert not store.commit([new(claim(A, node(OTHER)), releases=((beside, node()),))])[0].won
        assert kept(store) == {(A, node()): CONFIRMED, (beside, node()): PENDING}

    def test_it_is_judged_by_capacity_all_the_same(self, store):
        ready(store, vcpus=4)
        place(store, claim(B, node(), vcpus=2))
        assert not store.commit([new(claim(A, node(), vcpus=3))])[0].won
        assert store.commit([new(claim(A, node(), vcpus=2))])[0].won
        assert {one.consumer_uuid: one.resources[VCPU] for one in store.claims()} == {A: 2, B: 2}
