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
"""Time and order: what a store keeps of both, and what a message changes that comes late or
twice."""

import dataclasses
import itertools
import time

import pytest

from nova_sched.claims import ClaimSelector, Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.objects.claim import CONFIRMED, PENDING, PLANNED, RESIZE, VCPU
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import NOW, claim, report, uuid_of
from nova_sched.tests.unit.claims.battery import (
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
)

DAY = 86400.0


def at(store, now_s):
    """Let it be this time by the store's clock."""
    store.clock = lambda: now_s


def settled(store, consumer=A, host=HOST):
    """The consumer is confirmed on the host, and a report has shown it there."""
    place(store, claim(consumer, node(host)))
    store.report([report(host, instances=frozenset([consumer]))])


def resize(store, vcpus, host=HOST):
    """Claim for A, where it is already; the claim that asks for it."""
    asked = claim(A, node(host), vcpus=vcpus)
    assert store.commit([Placement((asked,))])[0].won
    return asked


def move(store):
    """Claim for A on OTHER in addition to HOST; the claim."""
    made = claim(A, node(OTHER), move=RESIZE)
    assert store.commit([Placement((made,))])[0].won
    return made


def times(store, consumer=A):
    return [(one.created_s, one.changed_s) for one in store.claims(consumer)]


class Times:
    """All times are the store's."""

    @pytest.mark.parametrize('left_s', [None, 0.0, 600.0])
    def test_a_claim_that_is_made_has_the_stores_times(self, store, another, left_s):
        ready(store)
        at(store, NOW + 5.25)
        made = claim(
            A, node(), created_s=NOW - 100, changed_s=1.0, expires_s=left_s and NOW - 100 + left_s
        )
        if left_s == 0.0:
            made = dataclasses.replace(made, expires_s=made.created_s)
        (outcome,) = store.commit([Placement((made,))])
        until_s = None if left_s is None else NOW + 5.25 + left_s
        expected = dataclasses.replace(
            made, created_s=NOW + 5.25, changed_s=NOW + 5.25, expires_s=until_s
        )
        assert another().claims() == [expected]
        assert outcome.claims == (expected,)

    def test_claims_of_one_batch_have_one_time(self, store):
        ready(store, HOST, OTHER)
        store.clock = itertools.count(int(NOW)).__next__
        store.commit(
            [Placement((claim(A, node()), claim(B, node(OTHER)))), Placement((claim(C, node()),))]
        )
        before = {one.created_s for one in store.claims()} | {
            one.changed_s for one in store.claims()
        }
        assert len(before) == 1
        place(store, claim(uuid_of('later'), node()))
        assert times(store, uuid_of('later'))[0][0] > max(before)

    @pytest.mark.parametrize(
        'change',
        [
            pytest.param(lambda store: store.confirm([A], [node()]), id='confirm'),
            pytest.param(lambda store: store.finish(A, [node()]), id='finish'),
            pytest.param(
                lambda store: store.report([report(instances=frozenset([A]))]), id='a report'
            ),
        ],
    )
    def test_a_claim_that_is_confirmed_changes(self, store, another, change):
        ready(store)
        at(store, NOW)
        place(store, claim(A, node()))
        at(store, NOW + 10)
        change(store)
        assert times(another()) == [(NOW, NOW + 10)]
        at(store, NOW + 20)
        change(store)
        assert times(another()) == [(NOW, NOW + 10)], 'once'

    @pytest.mark.parametrize(
        'end',
        [
            pytest.param(lambda store: store.finish(A, [node()]), id='finish'),
            pytest.param(lambda store: store.revert(A), id='revert'),
        ],
    )
    def test_a_resize_in_place_changes_its_claim_twice(self, store, end):
        ready(store)
        at(store, NOW)
        settled(store)
        at(store, NOW + 10)
        resize(store, 3)
        assert times(store) == [(NOW, NOW + 10)]
        at(store, NOW + 20)
        end(store)
        assert times(store) == [(NOW, NOW + 20)]

    def test_a_resize_in_place_whose_time_is_up(self, store):
        ready(store)
        at(store, NOW)
        settled(store)
        asked = claim(A, node(), vcpus=3, created_s=NOW, expires_s=NOW + 60)
        store.commit([Placement((asked,))])
        at(store, NOW + 60)
        store.report([report(instances=frozenset([A]))])
        assert times(store) == [(NOW, NOW + 60)]
        assert store.claims()[0].resizing is None

    def test_a_claim_in_place_of_a_pending_one_is_a_new_one(self, store):
        ready(store)
        at(store, NOW)
        place(store, claim(A, node()))
        at(store, NOW + 10)
        place(store, claim(A, node(), expires_s=30.0))
        assert times(store) == [(NOW + 10, NOW + 10)]
        assert store.claims()[0].expires_s == NOW + 40

    def test_the_same_claim_again_keeps_its_times(self, store):
        ready(store)
        made = claim(A, node(), created_s=NOW, expires_s=NOW + 60)
        at(store, NOW)
        store.commit([Placement((made,))])
        at(store, NOW + 10)
        (outcome,) = store.commit([Placement((made,))])
        assert outcome.claims == tuple(store.claims())
        assert times(store) == [(NOW, NOW)]
        assert store.claims()[0].expires_s == NOW + 60

    def test_claims_expire_by_the_stores_clock(self, store):
        ready(store)
        at(store, NOW)
        place(store, claim(A, node(), created_s=NOW + DAY, expires_s=NOW + DAY + 60))
        at(store, NOW + 59)
        assert store.expire() == []
        at(store, NOW + 60)
        assert [one.consumer_uuid for one in store.expire()] == [A]

    def test_a_report_is_taken_at_the_stores_time(self, store, another):
        at(store, NOW + 7)
        assert store.report([report()])[0].seen_s == store.now_s() == NOW + 7
        assert another().heads()[node()][1] == NOW + 7

    # What a winner is told.

    def test_the_winner_is_told_its_claims_as_they_are_kept(self, store):
        ready(store, HOST, OTHER)
        at(store, NOW)
        settled(store)
        placements = [
            Placement((claim(A, node(), vcpus=3), claim(B, node(OTHER)))),
            Placement((claim(C, node(), vcpus=99),)),
            Placement((claim(C, node(), vcpus=2),)),
        ]
        outcomes = store.commit(placements)
        there = {one.consumer_uuid: one for one in store.claims()}
        assert [one.claims for one in outcomes] == [(there[A], there[B]), (), (there[C],)]
        assert there[A].resizing.new[VCPU] == 3

    def test_the_winner_is_told_of_the_confirmed_claim_that_stays(self, store):
        ready(store)
        settled(store)
        (outcome,) = store.commit([Placement((claim(A, node(), vcpus=3),), new=True)])
        assert outcome.claims == tuple(store.claims())
        assert outcome.claims[0].is_confirmed


def pending(store, host=HOST):
    place(store, claim(A, node(host)))


def planned(store):
    place(store, claim(A, node(), state=PLANNED))


def both(store):
    settled(store)
    place(store, claim(A, node(THIRD), move=RESIZE))


class Unplaced:
    """Consumers that are nowhere: a confirmed claim of theirs is in the way, wherever it is."""

    @pytest.mark.parametrize(
        'before, won',
        [
            pytest.param(lambda store: None, True, id='nothing'),
            pytest.param(pending, True, id='pending elsewhere'),
            pytest.param(lambda store: pending(store, OTHER), True, id='pending here'),
            pytest.param(planned, True, id='planned elsewhere'),
            pytest.param(settled, False, id='confirmed elsewhere'),
            pytest.param(lambda store: settled(store, host=OTHER), False, id='confirmed here'),
            pytest.param(both, False, id='confirmed elsewhere, and moving'),
        ],
    )
    @pytest.mark.parametrize('beside', [False, True], ids=['alone', 'with a release'])
    def test_it_is_won_unless_a_claim_is_confirmed(self, store, before, won, beside):
        """With a release, a store asks first what the consumers have."""
        ready(store, HOST, OTHER, THIRD)
        before(store)
        place(store, claim(B, node(THIRD)))
        there = store.claims(A)
        known = frozenset(one.uuid for one in there)
        releases = ((B, node(THIRD)),) if beside else ()
        made = claim(A, node(OTHER), vcpus=3)
        (outcome,) = store.commit([Placement((made,), releases, replaces=known, unplaced=True)])
        assert outcome.won == won
        assert [one.uuid for one in store.claims(A)] == (
            [made.uuid] if won else [one.uuid for one in there]
        )
        assert won or store.claims(A) == there
        assert ((B, node(THIRD)) in kept(store)) == (not (won and beside))

    @pytest.mark.parametrize('host', [HOST, OTHER])
    def test_the_loser_is_told_where_it_is(self, store, host):
        ready(store, HOST, OTHER)
        settled(store)
        there = tuple(store.claims())
        (outcome,) = store.commit([Placement((claim(A, node(host)),), unplaced=True)])
        assert not outcome.won
        assert {one.report.host: one.claims for one in outcome.fresh}[HOST] == there

    @pytest.mark.parametrize('confirms', [False, True], ids=['pending', 'confirmed'])
    def test_the_same_claim_again_is_won(self, store, another, confirms):
        """The answer was lost, and meanwhile the claim may have been confirmed."""
        ready(store)
        placement = Placement((claim(A, node()),), unplaced=True)
        assert store.commit([placement])[0].won
        if confirms:
            store.confirm([A], [node()])
        before = facts(store)
        (outcome,) = another().commit([placement])
        assert (outcome.won, outcome.claims) == (True, before.claims)
        assert facts(store) == before

    def test_the_same_claim_again_once_it_is_confirmed_elsewhere(self, store):
        ready(store, HOST, OTHER)
        placement = Placement((claim(A, node()),), unplaced=True)
        store.commit([placement])
        store.release([(A, node())])
        settled(store, host=OTHER)
        assert not store.commit([placement])[0].won
        assert kept(store) == {(A, node(OTHER)): CONFIRMED}

    def test_the_same_claim_again_leaves_a_move_alone(self, store):
        ready(store, HOST, OTHER)
        placement = Placement((claim(A, node()),), unplaced=True)
        store.commit([placement])
        store.confirm([A], [node()])
        move(store)
        before = store.claims()
        assert not store.commit([placement])[0].won
        assert store.claims() == before

    def test_a_pending_claim_that_is_not_named_is_in_the_way(self, store):
        ready(store, HOST, OTHER)
        pending(store)
        before = store.claims()
        for host in (HOST, OTHER):
            assert not store.commit([Placement((claim(A, node(host)),), unplaced=True)])[0].won
        assert store.claims() == before

    def test_one_of_several_consumers_is_confirmed(self, store):
        ready(store, HOST, OTHER)
        settled(store)
        placement = Placement((claim(B, node(OTHER)), claim(A, node())), unplaced=True)
        assert not store.commit([placement])[0].won
        assert kept(store) == {(A, node()): CONFIRMED}

    @pytest.mark.parametrize('word', ['new', 'unplaced'])
    @pytest.mark.parametrize('first', [True, False], ids=['behind it', 'before it'])
    def test_a_move_in_the_same_batch_is_won(self, store, word, first):
        """What one request must not do, another one of its batch may."""
        ready(store, HOST, OTHER, THIRD)
        settled(store)
        moves = Placement((claim(A, node(OTHER), move=RESIZE),))
        late = Placement((claim(A, node(THIRD)),), **{word: True})
        batch = [moves, late] if first else [late, moves]
        won = [outcome.won for outcome in store.commit(batch)]
        assert won == ([True, False] if first else [False, True])
        assert kept(store) == {(A, node()): CONFIRMED, (A, node(OTHER)): PENDING}


ENDS = {
    'finish': lambda store, host, selector: store.finish(A, [node(host)], selector),
    'revert': lambda store, host, selector: store.revert(A, selector),
    'release': lambda store, host, selector: store.release([(A, node(host))], selector=selector),
}
END = pytest.mark.parametrize('end', ENDS.values(), ids=ENDS)
SETTLE = pytest.mark.parametrize('end', [ENDS['finish'], ENDS['revert']], ids=['finish', 'revert'])


class Words:
    """A word that ends something ends nothing that it is not about."""

    @pytest.fixture
    def moving(self, store):
        """A is confirmed on HOST since NOW, and on its way to OTHER since ten seconds later: that
        claim."""
        ready(store, HOST, OTHER)
        at(store, NOW)
        settled(store)
        at(store, NOW + 10)
        made = move(store)
        at(store, NOW + 20)
        return made

    @END
    def test_by_its_name(self, store, moving, end):
        before = store.claims()
        assert end(store, OTHER, ClaimSelector(uuid_of('another claim'))) == []
        assert store.claims() == before
        assert end(store, OTHER, ClaimSelector(moving.uuid)) != []
        assert store.claims() != before

    @END
    def test_by_the_time_of_the_word(self, store, moving, end):
        before = store.claims()
        assert end(store, OTHER, ClaimSelector(since_s=NOW + 9.5)) == []
        assert store.claims() == before
        assert end(store, OTHER, ClaimSelector(since_s=NOW + 10)) != []
        assert store.claims() != before

    @END
    def test_by_its_name_while_it_is_pending_the_time_says_nothing(self, store, moving, end):
        assert end(store, OTHER, ClaimSelector(moving.uuid, NOW - DAY)) != []

    @pytest.mark.parametrize('name', [False, True], ids=['by time', 'by name'])
    @pytest.mark.parametrize('how', ['revert', 'release'])
    def test_a_confirmed_claim_outlives_a_word_from_before(self, store, moving, how, name):
        store.confirm([A], [node(OTHER)])
        before = store.claims()
        name = moving.uuid if name else None
        assert ENDS[how](store, OTHER, ClaimSelector(name, NOW + 19)) == []
        assert store.claims() == before
        assert ENDS[how](store, OTHER, ClaimSelector(name, NOW + 20)) != []
        assert (A, node(OTHER)) not in kept(store)

    def test_a_move_that_arrived_is_finished_by_its_name(self, store, moving):
        store.confirm([A], [node(OTHER)])
        assert store.finish(A, [node(OTHER)], ClaimSelector(moving.uuid, NOW - DAY)) != []
        assert kept(store) == {(A, node(OTHER)): CONFIRMED}

    def test_a_word_that_confirms_a_pending_claim_of_another_name(self, store):
        ready(store)
        place(store, claim(A, node()))
        assert store.finish(A, [node()], ClaimSelector(uuid_of('another claim'))) == []
        assert kept(store) == {(A, node()): PENDING}

    def test_only_those_of_several_that_are_meant_end(self, store, another):
        ready(store, HOST, OTHER)
        at(store, NOW)
        place(store, claim(A, node()))
        at(store, NOW + 10)
        place(store, claim(B, node()), claim(C, node(OTHER)))
        keys = [(A, node()), (B, node()), (C, node(OTHER))]
        assert [
            one.key for one in store.release(keys, selector=ClaimSelector(since_s=NOW + 5))
        ] == keys[:1]
        assert set(kept(another())) == set(keys[1:])

    @pytest.mark.parametrize('first', ['finish', 'revert'])
    @SETTLE
    def test_a_repeated_word_on_the_first_resize_does_not_end_the_second(self, store, first, end):
        ready(store)
        at(store, NOW)
        settled(store)
        one = resize(store, 2)
        at(store, NOW + 10)
        assert ENDS[first](store, HOST, ClaimSelector(one.uuid)) != []
        at(store, NOW + 20)
        two = resize(store, 4)
        before = store.claims()
        for selector in (
            ClaimSelector(one.uuid),
            ClaimSelector(one.uuid, NOW + 30),
            ClaimSelector(since_s=NOW + 19),
        ):
            assert end(store, HOST, selector) == []
        assert store.claims() == before
        assert end(store, HOST, ClaimSelector(two.uuid)) != []
        (after,) = store.claims()
        assert after.resizing is None

    @SETTLE
    def test_a_resize_by_the_time_of_the_word(self, store, end):
        ready(store)
        at(store, NOW)
        settled(store)
        at(store, NOW + 10)
        resize(store, 3)
        assert end(store, HOST, ClaimSelector(since_s=NOW + 9)) == []
        assert end(store, HOST, ClaimSelector(since_s=NOW + 10)) != []

    def test_a_resize_that_changes_its_size_has_a_new_name(self, store):
        ready(store)
        settled(store)
        one, two = resize(store, 2), resize(store, 4)
        assert store.revert(A, ClaimSelector(one.uuid)) == []
        assert store.revert(A, ClaimSelector(two.uuid)) != []
        assert store.claims()[0].resources[VCPU] == 1


EVER = ReportOrder()


def since(since_s, told_s=None, boot=None, sequence=None):
    return ReportOrder(since_s, boot, sequence, told_s)


def counted(boot, sequence, since_s=NOW - 1):
    return ReportOrder(since_s, boot, sequence)


class ReportOrders:
    """A report that is older than the last one changes nothing."""

    @pytest.mark.parametrize(
        'last, comes, newer',
        [
            pytest.param(counted(1, 1), counted(1, 2), True, id='the next one'),
            pytest.param(counted(1, 1), counted(1, 9), True, id='a later one'),
            pytest.param(counted(1, 2), counted(1, 1), False, id='the one before'),
            pytest.param(counted(1, 2), counted(1, 2), False, id='the same'),
            pytest.param(counted(1, 9), counted(2, 1), True, id='after a restart'),
            pytest.param(counted(2, 1), counted(1, 9), False, id='from before a restart'),
            pytest.param(counted(2, 1), counted(1, 9, NOW), False, id='the count decides'),
            pytest.param(counted(1, 1), EVER, True, id='a sender that does not count any more'),
            pytest.param(counted(1, 1), since(NOW - 1), False, id='which may be older'),
            pytest.param(EVER, counted(1, 1, NOW), True, id='a sender that counts from now on'),
            pytest.param(EVER, EVER, True, id='of now'),
            pytest.param(EVER, since(NOW), True, id='sent after the last one was taken'),
            pytest.param(EVER, since(NOW - 0.5), False, id='perhaps sent before'),
            pytest.param(since(NOW, 5.0), since(NOW - 1, 6.0), True, id='made later'),
            pytest.param(since(NOW, 6.0), since(NOW - 1, 5.0), False, id='made earlier'),
            pytest.param(since(NOW, 5.0), since(NOW - 1, 5.0), False, id='made at the same time'),
            pytest.param(
                since(NOW, 6.0), since(NOW, 5.0), True, id='the clock of a sender went back'
            ),
            pytest.param(
                since(NOW, 6.0), since(NOW - 1), False, id='it does not say when it was made'
            ),
            pytest.param(since(NOW), since(NOW - 1, 6.0), False, id='nor did the last one'),
        ],
    )
    @pytest.mark.parametrize('alike', [False, True], ids=['other facts', 'the same facts'])
    def test_a_newer_one_is_taken(self, store, another, last, comes, newer, alike):
        place_on = claim(A, node())
        (first,) = ready(store, order=last)
        place(store, place_on)
        before = facts(store)
        words = {} if alike else {'vcpus': 9, 'vcpus_used': 3, 'instances': frozenset([A])}
        (found,) = another().report([report(order=comes, **words)], NOW + 10)
        assert (first.stale, found.stale) == (False, not newer)
        assert dataclasses.replace(found, stale=False) == facts(store)
        if newer:
            assert facts(store).seen_s == NOW + 10
            assert facts(store).report == report(**words)
        else:
            assert facts(store) == before
            assert store.heads() == another().heads() == {node(): (before.generation, NOW)}

    @pytest.mark.parametrize(
        'words', [{}, {'vcpus_used': 3}], ids=['the same facts', 'other facts']
    )
    def test_the_order_of_each_one_that_is_taken_is_kept(self, store, words):
        """Whether it tells something new or not."""
        ready(store, order=counted(1, 1))
        ready(store, order=counted(1, 5), **words)
        assert store.report([report(order=counted(1, 4), vcpus_used=9)], NOW)[0].stale
        assert store.report([report(order=counted(1, 5), vcpus_used=9)], NOW)[0].stale
        assert not store.report([report(order=counted(1, 6), vcpus_used=9)], NOW)[0].stale

    def test_the_order_of_one_that_is_not_taken_is_not_kept(self, store):
        ready(store, order=since(NOW, 5.0))
        assert ready(store, order=since(NOW - 1, None), now_s=NOW + 50)[0].stale
        assert not ready(store, order=since(NOW, None), now_s=NOW + 60)[0].stale

    @pytest.mark.parametrize('turned', [False, True])
    @pytest.mark.parametrize('known', [False, True], ids=['its first ones', 'after another'])
    def test_of_two_in_one_batch_the_newer_one_counts(self, store, turned, known):
        if known:
            ready(store, order=counted(1, 1))
        batch = [report(order=counted(1, n), vcpus_used=n) for n in (2, 3)]
        store.report(batch[::-1] if turned else batch, NOW)
        assert facts(store).report == batch[1]
        assert store.report([report(order=counted(1, 3))], NOW)[0].stale

    def test_of_two_that_say_nothing_the_later_one_counts(self, store):
        store.report([report(vcpus_used=1), report(vcpus_used=2)], NOW)
        assert facts(store).report == report(vcpus_used=2)

    def test_with_others_in_one_batch(self, store):
        ready(store, HOST, OTHER, order=counted(1, 5))
        before = facts(store)
        batch = [
            report(order=counted(1, 4), vcpus_used=3),
            report(OTHER, order=counted(1, 6), vcpus_used=3),
            report(THIRD, order=counted(1, 1)),
        ]
        found = store.report(batch, NOW + 10)
        assert [one.stale for one in found] == [True, False, False]
        assert found == [
            dataclasses.replace(before, stale=True),
            facts(store, OTHER),
            facts(store, THIRD),
        ]
        assert facts(store) == before
        assert [facts(store, host).report for host in (OTHER, THIRD)] == batch[1:]

    def test_an_older_one_does_not_give_the_old_name_back(self, store):
        ready(store, order=counted(1, 5))
        renamed = dataclasses.replace(report(order=counted(1, 6)), host='new', nodename='new')
        store.report([renamed], NOW)
        before = generation(store, 'new')
        assert ready(store, order=counted(1, 5))[0].stale
        assert generation(store, 'new') == before
        assert [one.report.host for one in store.changes({}).nodes] == ['new']

    @pytest.mark.parametrize(
        'order, stays',
        [
            pytest.param(since(NOW + 5, 2.0), True, id='sent before, perhaps'),
            pytest.param(since(NOW + 10, 2.0), False, id='sent after'),
            pytest.param(counted(1, 2), True, id='counted, sent before, perhaps'),
            pytest.param(counted(1, 2, NOW + 10), False, id='counted, sent after'),
            pytest.param(EVER, False, id='of now'),
        ],
    )
    def test_a_list_from_before_the_claim_changed_does_not_end_it(self, store, order, stays):
        first = counted(1, 1) if order.sequence else since(NOW, 1.0)
        ready(store, instances=frozenset(), order=first)
        at(store, NOW + 10)
        place(store, confirmed(A))
        (found,) = store.report([report(instances=frozenset(), order=order)], NOW + 20)
        assert not found.stale
        assert kept(store) == ({(A, node()): CONFIRMED} if stays else {})

    # Nodes that leave, and lists of instances.

    def test_a_node_that_was_made_later_stays(self, store, another):
        at(store, NOW)
        store.report([report()])
        place(store, claim(A, node()))
        before = facts(store)
        assert store.remove_node(node(), NOW - 1) is False
        assert facts(another()) == before
        assert store.remove_node(node(), NOW) is True
        assert store.heads() == {}
        assert store.claims() == []
        assert store.remove_node(node(), NOW) is False

    def test_a_node_is_as_old_as_its_first_report(self, store):
        ready(store, vcpus=3)
        for now_s, vcpus in ((NOW + 10, 3), (NOW + 20, 4)):
            ready(store, now_s=now_s, vcpus=vcpus)
        assert store.remove_node(node(), NOW + 5)

    def test_a_node_that_came_back_is_a_new_one(self, store):
        ready(store)
        assert store.remove_node(node())
        ready(store, now_s=NOW + 10)
        assert not store.remove_node(node(), NOW + 5)
        assert store.remove_node(node(), NOW + 10)

    @pytest.mark.parametrize(
        'since_s, instances, is_kept',
        [
            pytest.param(NOW - 1, [B], False, id='perhaps from before'),
            pytest.param(NOW, [B], True, id='from after'),
            pytest.param(NOW - 1, [A], True, id='perhaps from before, and the same'),
            pytest.param(NOW - 1, [], False, id='an empty one'),
        ],
    )
    def test_an_older_list_is_not_kept(self, store, another, since_s, instances, is_kept):
        at(store, NOW)
        assert store.set_instances(HOST, frozenset([A]), NOW - DAY), 'the first one'
        at(store, NOW + 10)
        assert another().set_instances(HOST, frozenset(instances), since_s) is is_kept
        assert another().changes({}).instances == {HOST: frozenset(instances if is_kept else [A])}

    def test_lists_of_other_hosts_have_their_own_times(self, store):
        at(store, NOW)
        store.set_instances(HOST, frozenset([A]))
        assert store.set_instances(OTHER, frozenset([B]), NOW - DAY)


class OwnClock:
    """Without another clock, a store in a database goes by the clock of that."""

    def test_the_clocks_of_processes_are_of_no_account(self, database, monkeypatch):
        began_s = time.time()
        ends_s = began_s + DAY / 2  # more than any test takes

        def is_now(moment_s):
            return began_s - 60 < moment_s < ends_s

        # Processes that are behind, and ahead, by far.
        stores = [SqlClaimStore(database), SqlClaimStore(database)]
        clocks = [began_s - 30 * DAY, began_s + 30 * DAY]
        consumers = [A, B]
        for store, clock_s, consumer, host in zip(
            stores, clocks, consumers, (HOST, OTHER), strict=True
        ):
            monkeypatch.setattr(time, 'time', lambda clock_s=clock_s: clock_s)
            assert is_now(store.now_s())
            (found,) = store.report([report(host)])
            assert is_now(found.seen_s)
            made = claim(consumer, node(host), created_s=clock_s, expires_s=clock_s + 2 * DAY)
            (outcome,) = store.commit([Placement((made,))])
            (one,) = outcome.claims
            assert is_now(one.created_s)
            assert one.changed_s == one.created_s
            assert one.expires_s == pytest.approx(one.created_s + 2 * DAY, abs=0.01)
            assert store.claims(consumer) == [one]
        first, second = store.claims()
        assert [first.consumer_uuid, second.consumer_uuid] == consumers
        assert first.created_s <= second.created_s
        for one in stores:
            assert one.expire() == []
            assert not one.remove_node(node(), began_s - DAY)
            assert one.set_instances(HOST, frozenset([A]), began_s - DAY)
            assert not one.set_instances(HOST, frozenset([B]), began_s - DAY)
        assert stores[0].confirm([B], [node(OTHER)]) == [second]
        assert second.changed_s <= stores[0].claims(B)[0].changed_s < ends_s
        (stale,) = stores[1].report([report(order=since(began_s - DAY), vcpus_used=3)])
        assert stale.stale
        (good,) = stores[1].report([report(order=since(stores[0].now_s()), vcpus_used=3)])
        assert not good.stale
        over = claim(C, node(), created_s=clocks[1], expires_s=clocks[1])
        assert stores[0].commit([Placement((over,))])[0].won
        assert [one.consumer_uuid for one in stores[1].expire()] == [C]
        assert stores[1].remove_node(node(), ends_s)
