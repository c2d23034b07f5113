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
"""CPUs, pages and devices that claims hold."""

import dataclasses

import pytest

from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.claims import Placement
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    A,
    B,
    C,
    facts,
    generation,
    kept,
    node,
    place,
    ready,
    remove,
    waiting,
)
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    mixed,
    pool,
    shared,
    wanted,
)
from nova_sched.tests.unit.hardware.builders import request as device

HAS = machine(
    cell(0, [0], range(1, 5), pages=[(4, 1000), (2048, 8)]),
    cell(1, [], range(5, 9)),
    pools=[pool(2, 1, physical_network='é', x=None)],
)
PAIR = HAS.fit(wanted(dedicated(2)))
REST = HAS.hold(PAIR).fit(wanted(dedicated(2)))
BOTH = HAS.fit(
    wanted(mixed(1, 2, memory_mb=4, pagesize_kb=2048), dedicated(1), requests=[device(2)])
)


def holding(consumer, parts=PAIR, host=HOST, **fields):
    return claim(consumer, node(host), parts=parts, **fields)


def pick(store, *claims, releases=(), **generations):
    """Commit one placement whose parts were picked at these generations (host_0=...), or at those
    of now."""
    picked = {node(one.replace('_', '-')): number for one, number in generations.items()}
    picked = picked or {
        one.node_uuid: store.heads()[one.node_uuid][0] for one in claims if one.parts
    }
    known = frozenset().union(*(waiting(store, one.consumer_uuid) for one in claims))
    return store.commit([Placement(claims, tuple(releases), picked, replaces=known)])[0]


class HardwareAllocation:
    """What claims hold is kept, and what was picked is good only while nothing happens to the
    node."""

    @each_afresh(
        'parts',
        {
            'CPUs': PAIR,
            'cells, pages and devices': BOTH,
            'devices alone': HAS.fit(wanted(requests=[device(1)])),
            'shared CPUs': HAS.fit(wanted(shared(1))),
        },
    )
    @pytest.mark.parametrize('counted', [False, True])
    def test_parts_are_kept_as_they_are(self, store, another, parts, counted):
        ready(store)
        made = holding(A, parts, counted=counted)
        assert pick(store, made).won
        assert another().claims() == [made]
        assert facts(another()).claims == (made,)
        assert store.release([made.key]).changed == [made]

    def test_a_claim_without_parts_has_none(self, store, another):
        ready(store)
        assert place(store, claim(A, node())).won
        assert another().claims()[0].parts is None

    def test_several_claims_at_once(self, store, another):
        ready(store, HOST, OTHER)
        made = [holding(A), holding(B, BOTH, OTHER), holding(C, None, OTHER)]
        assert pick(store, *made).won
        found = {one.consumer_uuid: one for one in another().claims()}
        assert found == {one.consumer_uuid: one for one in made}

    @each_afresh(
        'old, new',
        {'other ones': (PAIR, REST), 'none': (PAIR, None), 'where there were none': (None, REST)},
    )
    def test_a_resize_in_place_holds_the_old_and_the_new_ones(self, store, another, old, new):
        ready(store)
        first = holding(A, old, state=CONFIRMED, counted=old is not None)
        assert pick(store, first).won
        assert pick(store, holding(A, new, vcpus=2)).won
        (found,) = another().claims()
        assert (found.uuid, found.parts, found.counted) == (first.uuid, old, first.counted)
        assert found.resizing.parts == new
        assert found.uncounted == (() if new is None else (new,))
        store.finish(A, [node()])
        (found,) = another().claims()
        assert (found.parts, found.counted, found.resizing) == (new, False, None)

    # Generations.

    @each_afresh(
        'what_happens, won',
        {
            'nothing': (lambda store: None, True),
            'a report without news': (lambda store: ready(store, now_s=NOW + 1), True),
            'a report with other news': (lambda store: ready(store, vcpus_used=1), True),
            'a report with other devices': (lambda store: ready(store, pci_pools='[]'), False),
            'another claim': (lambda store: place(store, claim(B, node())), True),
            'another claim that holds something': (lambda store: place(store, holding(B)), False),
            'a claim ends': (lambda store: store.release([(C, node())]), True),
            'a claim is confirmed': (lambda store: store.confirm([C], [node()]), True),
            'a claim expires': (lambda store: store.expire(NOW), True),
            'to another node': (lambda store: place(store, claim(B, node(OTHER))), True),
            'the node leaves': (remove, False),
        },
    )
    def test_what_was_picked_is_lost_when_the_node_has_moved_on(self, store, what_happens, won):
        ready(store, HOST, OTHER)
        place(store, claim(C, node(), expires_s=NOW))
        seen = generation(store)
        what_happens(store)
        before, now = kept(store), store.heads().get(node())
        outcome = pick(store, holding(A), host_0=seen)
        assert outcome.won == won
        assert kept(store) == before | ({(A, node()): PENDING} if won else {})
        assert outcome.generations == ({node(): (now[0], now[0] + 1)} if won else {})

    def test_the_loser_is_told_the_true_use(self, store):
        ready(store)
        seen = generation(store)
        place(store, holding(B, vcpus=3))
        assert pick(store, holding(A), host_0=seen).used[node()]['VCPU'] == 3

    def test_one_of_two_nodes_has_moved_on(self, store):
        ready(store, HOST, OTHER)
        seen = generation(store), generation(store, OTHER)
        place(store, holding(C, host=OTHER))
        outcome = pick(store, holding(A), holding(B, BOTH, OTHER), host_0=seen[0], host_1=seen[1])
        assert not outcome.won
        assert kept(store) == {(C, node(OTHER)): PENDING}

    def test_amounts_are_judged_by_what_is_left_whatever_happened(self, store):
        ready(store)
        place(store, claim(B, node()))
        assert store.commit([Placement((claim(A, node()),))])[0].won

    def test_the_amounts_have_to_fit_as_well(self, store):
        ready(store, vcpus=4)
        assert not pick(store, holding(A, vcpus=5)).won
        assert kept(store) == {}

    def test_a_batch_of_one_scheduler_on_one_node(self, store):
        """Each was picked with regard to those before it; to write them together changes nothing
        for them."""
        ready(store)
        seen = {node(): generation(store)}
        batch = [Placement((one,), (), seen) for one in (holding(A), holding(B, REST))]
        assert [outcome.won for outcome in store.commit(batch)] == [True, True]
        assert generation(store) == seen[node()] + 1

    def test_one_that_is_lost_takes_nothing_from_those_after_it(self, store):
        ready(store, vcpus=4)
        seen = {node(): generation(store)}
        batch = [Placement((one,), (), seen) for one in (holding(A, vcpus=5), holding(B, REST))]
        assert [outcome.won for outcome in store.commit(batch)] == [False, True]

    @each_afresh(
        'host, releases',
        {
            'moves away': (OTHER, ()),
            'is released': (OTHER, ((A, node()),)),
            'is replaced': (HOST, ()),
        },
    )
    def test_what_a_lost_one_would_have_freed_is_not_given(self, store, host, releases):
        """The second was picked in the belief that the first had left its CPUs."""
        ready(store, HOST, OTHER)
        there = holding(A)
        pick(store, there)
        seen = {node(): generation(store)}
        too_large = claim(A, node(host), vcpus=99)
        first = Placement((too_large,), releases, replaces=frozenset([there.uuid]))
        batch = [first, Placement((holding(B),), (), seen)]
        assert [outcome.won for outcome in store.commit(batch)] == [False, False]
        assert kept(store) == {(A, node()): PENDING}

    def test_what_a_won_one_frees_is_given(self, store):
        ready(store, HOST, OTHER)
        there = holding(A)
        pick(store, there)
        seen = {node(): generation(store)}
        first = Placement((claim(A, node(OTHER)),), replaces=frozenset([there.uuid]))
        batch = [first, Placement((holding(B),), (), seen)]
        assert [outcome.won for outcome in store.commit(batch)] == [True, True]
        assert kept(store) == {(A, node(OTHER)): PENDING, (B, node()): PENDING}

    def test_the_same_placement_again_is_won(self, store, another):
        """The connection was lost before the answer came, and the call is made again as it is."""
        ready(store)
        made = holding(A)
        seen = generation(store)
        for use in (store, another(), store):
            outcome = pick(use, made, host_0=seen)
            assert outcome.won
        assert outcome.generations == {node(): (seen + 1, seen + 1)}
        assert store.claims() == [made]

    # Counted.

    @each_afresh(
        'state, words, then, counted',
        {
            'waiting, listed': (PENDING, {'instances': frozenset([A])}, CONFIRMED, True),
            'waiting, not listed': (PENDING, {'instances': frozenset()}, PENDING, False),
            'waiting, no list': (PENDING, {}, PENDING, False),
            'confirmed, listed': (CONFIRMED, {'instances': frozenset([A])}, CONFIRMED, True),
            'confirmed, no list': (CONFIRMED, {}, CONFIRMED, True),
        },
    )
    def test_a_report_that_has_the_instance_counts_its_parts(
        self, store, another, state, words, then, counted
    ):
        ready(store)
        pick(store, holding(A, state=state))
        before = generation(store)
        (found,) = ready(store, vcpus_used=2, **words)
        (one,) = found.claims
        assert (one.state, one.counted, one.parts) == (then, counted, PAIR)
        assert another().claims() == [one]
        assert facts(another()).claims == (one,)
        assert found.generation == before + 1

    def test_a_report_that_only_counts_is_news(self, store):
        words = {'instances': frozenset([A])}
        ready(store, **words)
        pick(store, holding(A, state=CONFIRMED))
        before = generation(store)
        assert ready(store, **words)[0].generation == before + 1
        assert ready(store, **words)[0].generation == before + 1, 'once'

    def test_to_confirm_is_not_to_count(self, store):
        """The instance is there; what it has in use is for the node's next report."""
        ready(store)
        pick(store, holding(A))
        store.confirm([A], [node()])
        assert [one.counted for one in store.claims()] == [False]

    def test_a_claim_without_parts_is_never_counted(self, store):
        ready(store)
        place(store, claim(A, node(), state=CONFIRMED))
        ready(store, instances=frozenset([A]))
        assert [one.counted for one in store.claims()] == [False]

    def test_others_hear_of_what_was_counted(self, store, another):
        ready(store)
        pick(store, holding(A, state=CONFIRMED))
        reader = another()
        known = {node(): reader.changes({}).nodes[0].generation}
        ready(store)
        (found,) = reader.changes(known).nodes
        assert [one.counted for one in found.claims] == [True]

    def test_what_a_replaced_claim_had_counted_is_not_counted(self, store):
        ready(store)
        first = holding(A, counted=True)
        pick(store, first)
        later = dataclasses.replace(holding(A, REST), uuid=uuid_of('later'))
        assert pick(store, later).won
        assert store.claims() == [later]
