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
"""Reports and lists that come late or twice."""

import dataclasses

import pytest

from nova_sched.claim import CONFIRMED, PENDING, RESIZE, Claim
from nova_sched.claims import ClaimSelector, Placement
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import NOW, claim, report
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    DAY,
    HOST,
    OTHER,
    THIRD,
    A,
    B,
    at,
    confirmed,
    facts,
    generation,
    kept,
    move,
    node,
    place,
    ready,
    remove,
    resize,
    seen,
    settled,
)

NONE = ReportOrder()
LIFETIME_S = 100.0  # of a claim that waits


def counted(boot, sequence, seen=None):
    return ReportOrder(seen, boot, sequence)


def knows(seen):
    return ReportOrder(seen)


# Ends of a move from HOST to OTHER that no call asks for.
TARGET_IS_GONE = {
    'the target no longer has it': lambda store: (
        ready(store, OTHER, instances=frozenset([A])),
        ready(store, OTHER, instances=frozenset()),
    ),
    'the target was removed': lambda store: store.remove_node(
        node(OTHER), seen(store, OTHER).seen
    ),
    'the target was rebuilt': lambda store: ready(
        store, OTHER, node_uuid=node('rebuilt'), order=NONE
    ),
}


class ReportOrders:
    """A report that is older than the last one changes nothing."""

    @each_afresh(
        'last, comes, newer',
        {
            'the next one': (counted(1, 1), counted(1, 2), True),
            'a later one': (counted(1, 1), counted(1, 9), True),
            'the one before': (counted(1, 2), counted(1, 1), False),
            'the same': (counted(1, 2), counted(1, 2), False),
            'after a restart': (counted(1, 9), counted(2, 1), True),
            'from before a restart': (counted(2, 1), counted(1, 9), False),
            'the count decides': (counted(2, 1, 1), counted(1, 9, 2), False),
            'on both sides': (counted(1, 2, 1), counted(1, 3, 0), True),
            'a sender that says nothing any more': (counted(1, 1), NONE, True),
            'one that knows an older node': (counted(1, 1), knows(0), False),
            'one that knows the last report': (counted(1, 1), knows(1), True),
            'a sender that counts from now on': (NONE, counted(1, 1), True),
            'and knows an older node': (NONE, counted(1, 1, 0), False),
            'as they come': (NONE, NONE, True),
            'it knows all': (knows(0), knows(2), True),
            'it knows the last report': (knows(0), knows(1), True),
            'it does not know the last report': (knows(0), knows(0), False),
            'it knows another database': (knows(0), knows(9), True),
        },
    )
    @each_afresh('alike', {'other facts': False, 'the same facts': True})
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

    @each_afresh('words', {'the same facts': {}, 'other facts': {'vcpus_used': 3}})
    def test_the_order_of_each_one_that_is_taken_is_kept(self, store, words):
        """Whether it tells something new or not."""
        ready(store, order=counted(1, 1))
        ready(store, order=counted(1, 5), **words)
        assert store.report([report(order=counted(1, 4), vcpus_used=9)], NOW)[0].stale
        assert store.report([report(order=counted(1, 5), vcpus_used=9)], NOW)[0].stale
        assert not store.report([report(order=counted(1, 6), vcpus_used=9)], NOW)[0].stale

    def test_the_order_of_one_that_is_not_taken_is_not_kept(self, store):
        (first,) = ready(store, vcpus=3)
        (second,) = ready(store, vcpus=4)
        (late,) = ready(store, vcpus=5, order=knows(first.generation), now_s=NOW + 50)
        assert (late.stale, late.generation) == (True, second.generation)
        assert not ready(store, vcpus=5, order=knows(late.generation), now_s=NOW + 60)[0].stale

    @pytest.mark.parametrize('turned', [False, True])
    @each_afresh('known', {'its first ones': False, 'after another': True})
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

    # What a report proves of a claim.

    @each_afresh(
        'change',
        {
            'placed': lambda store: None,
            'confirmed': lambda store: store.confirm([A], [node()]),
            'confirmed by its caller': lambda store: store.finish(A, [node()]),
        },
    )
    def test_of_a_sender_that_tells_what_it_has_seen(self, store, change):
        ready(store)
        before = seen(store).seen
        place(store, claim(A, node()))
        change(store)
        state = store.claims(A)[0].state
        for number, old in enumerate((0, before, before + 99)):  # the last is of another database
            for listed in ([], [A]):
                order = ReportOrder(old, 1, 2 * number + len(listed))
                store.report([report(instances=frozenset(listed), order=order)], NOW)
                assert kept(store) == {(A, node()): state}
                assert facts(store).foreign_instances == 0
        ready(store, instances=frozenset([A]))
        assert kept(store) == {(A, node()): CONFIRMED}
        ready(store, instances=frozenset())
        assert kept(store) == {}

    @each_afresh('numbers', {'not numbered': (), 'numbered': (1, 9)})
    def test_a_report_that_was_made_before_a_claim_was_confirmed(self, store, numbers):
        """It arrives after the confirmation, and ends nothing; the next one does."""
        ready(store)
        place(store, claim(A, node()))
        made_before = ReportOrder(seen(store).seen, *numbers)
        store.confirm([A], [node()])
        (found,) = store.report([report(instances=frozenset(), order=made_before)], NOW)
        assert not found.stale
        assert kept(store) == {(A, node()): CONFIRMED}
        ready(store, instances=frozenset())
        assert kept(store) == {}

    @each_afresh(
        'numbered, events, stays',
        {
            'it was listed': (True, [[A], []], False),
            'it was never listed': (True, ['confirm', [], []], True),
            'it was confirmed, and listed': (True, ['confirm', [A], []], False),
            'a report without a list between': (True, [[A], None, []], True),
            'it was resized since': (True, [[A], 'resize', []], True),
            'it was resized, and listed': (True, [[A], 'resize', [A], []], False),
            'nothing orders the reports': (False, [[A], [], []], True),
        },
    )
    def test_of_a_sender_that_does_not_tell_it(self, store, numbered, events, stays):
        """The node's own word counts: it has listed the instance, and does not any more."""
        ready(store, order=counted(1, 1))
        place(store, claim(A, node()))
        for number, event in enumerate(events, 2):
            if event == 'confirm':
                store.confirm([A], [node()])
            elif event == 'resize':
                resize(store, 2)
                store.finish(A, [node()])
            else:
                order = counted(1, number) if numbered else NONE
                listed = None if event is None else frozenset(event)
                store.report([report(instances=listed, order=order)], NOW)
        assert kept(store) == ({(A, node()): CONFIRMED} if stays else {})

    @each_afresh('order', {'numbered': counted(1, 2), 'not numbered': NONE})
    def test_without_what_was_seen_a_list_confirms_at_once(self, store, order):
        ready(store, order=counted(1, 1))
        place(store, claim(A, node()))
        store.report([report(instances=frozenset([A]), order=order)], NOW)
        assert kept(store) == {(A, node()): CONFIRMED}

    @each_afresh(
        'end',
        {
            'reverted': lambda store: store.revert(A),
            'aborted': lambda store: store.release([(A, node(OTHER))]),
            'never confirmed': lambda store: store.expire(NOW + DAY),
            'moved elsewhere': lambda store: place(store, claim(A, node(THIRD))),
            **TARGET_IS_GONE,
        },
    )
    @each_afresh('is_back', {'it comes back': True, 'it never does': False})
    def test_a_report_from_a_move_that_is_over(self, store, end, is_back):
        """During the move, its source did not have the instance."""
        store.lifetime_s = lambda: LIFETIME_S
        ready(store, HOST, OTHER, THIRD)
        settled(store)
        asked = claim(A, node(OTHER), move=RESIZE, created_s=NOW, expires_s=NOW + 60)
        at(store, NOW)
        assert store.commit([Placement((asked,))])[0].won
        ready(store, instances=frozenset())
        away = seen(store)
        end(store)
        ready(store, instances=frozenset(), order=away)
        assert kept(store)[A, node()] == CONFIRMED
        if is_back:
            ready(store, instances=frozenset([A]))
        else:
            assert store.expire(NOW + LIFETIME_S) == []
        ready(store, instances=frozenset())
        assert (A, node()) not in kept(store)

    @each_afresh('end', TARGET_IS_GONE)
    def test_an_instance_that_comes_back_later_than_its_move_ends(self, store, end):
        store.lifetime_s = lambda: LIFETIME_S
        at(store, NOW)
        ready(store, HOST, OTHER, THIRD)
        settled(store)
        move(store)
        ready(store, instances=frozenset())
        end(store)
        assert store.expire(NOW + LIFETIME_S - 1) == []
        for listed in ([], [], [A], [A]):
            ready(store, instances=frozenset(listed))
            assert kept(store)[A, node()] == CONFIRMED
        ready(store, instances=frozenset())
        assert (A, node()) not in kept(store)

    @pytest.mark.parametrize('set_back_s', [0.0, 3600.0])
    def test_the_claims_of_a_consumer_are_numbered_as_they_are_made(self, store, set_back_s):
        """A move that is finished late ends what was there before it, and nothing that came after
        it, whatever the clock says."""
        ready(store, HOST, OTHER, THIRD)
        settled(store)
        moves = []
        for number, host in enumerate([OTHER, THIRD], 1):
            at(store, NOW - number * set_back_s)
            moves.append(claim(A, node(host), move=RESIZE))
            assert store.commit([Placement((moves[-1],))])[0].won
            ready(store, host, instances=frozenset([A]))
        assert [one.number for one in sorted(store.claims(), key=Claim.order)] == [1, 2, 3]
        store.finish(A, [node(OTHER)], ClaimSelector(moves[0].uuid))
        assert kept(store) == {(A, node(OTHER)): CONFIRMED, (A, node(THIRD)): CONFIRMED}

    def test_a_claim_has_the_generation_that_its_change_gave_its_node(self, store, another):
        """A change of another claim does not count."""
        ready(store, HOST, OTHER)
        changes = [
            lambda: place(store, claim(A, node())),
            lambda: store.confirm([A], [node()]),
            lambda: resize(store, 2),
            lambda: store.finish(A, [node()]),
        ]
        for change in changes:
            change()
            assert another().claims(A)[0].changed_at == generation(store)
        last = generation(store)
        place(store, claim(B, node()))
        ready(store, instances=frozenset([A, B]))
        assert [store.claims(one)[0].changed_at for one in (A, B)] == [last, generation(store)]

    # Nodes that leave, and come back.

    @each_afresh(
        'last, comes, is_later',
        {
            'as they come': (NONE, NONE, True),
            'a later start': (counted(2, 5), counted(3, 1), True),
            'the same start': (counted(2, 5), counted(2, 6), False),
            'an earlier start': (counted(2, 5), counted(1, 9), False),
            'it does not count': (counted(2, 5), NONE, True),
            'the former one did not count': (NONE, counted(1, 1), True),
            'it knows no node': (NONE, knows(0), False),
            'it knows the former one': (NONE, knows(1), True),
            'and is of an earlier start': (counted(2, 5), counted(1, 1, 1), False),
            'and is of a later start': (counted(2, 5), counted(3, 1, 1), True),
            'a later start knows no node': (counted(2, 5), counted(3, 1, 0), False),
        },
    )
    def test_a_new_node_replaces_the_one_of_its_name(self, store, another, last, comes, is_later):
        """Only if its report is evidently of a later life. Else the answer tells of the known one,
        and a sender that lives reports again."""
        ready(store, order=last)
        place(store, confirmed(A))
        before = facts(store)
        new = report(node_uuid=node('new'), order=comes)
        (found,) = store.report([new], NOW)
        assert found.stale is not is_later
        if is_later:
            assert another().heads().keys() == {node('new')}
            assert found.generation > before.generation
            assert kept(store) == {}
            return
        assert found == dataclasses.replace(before, stale=True)
        assert found.report.order.boot == last.boot
        assert facts(another()) == before
        order = ReportOrder(found.generation, (last.boot or 0) + 1, 1)
        (again,) = store.report([dataclasses.replace(new, order=order)], NOW)
        assert not again.stale
        assert store.heads().keys() == {node('new')}

    @each_afresh('knew', {'without what it had seen': None, 'with what it had seen': 2})
    def test_the_late_last_report_of_a_former_node(self, store, knew):
        ready(store, order=counted(1, 1))
        ready(store, order=counted(1, 8), vcpus=3)
        ready(store, node_uuid=node('new'), order=counted(2, 1, generation(store)))
        place(store, claim(A, node('new'), state=CONFIRMED))
        before = facts(store)
        late = report(order=counted(1, 9, knew), instances=frozenset())
        (found,) = store.report([late], NOW)
        assert (found.stale, found.report.node_uuid) == (True, node('new'))
        assert facts(store) == before

    def test_a_former_node_and_others_in_one_batch(self, store):
        ready(store, order=counted(2, 1))
        batch = [
            report(OTHER, order=counted(1, 1)),
            report(node_uuid=node('former'), order=counted(1, 9)),
        ]
        found = store.report(batch, NOW)
        assert [(one.stale, one.report.node_uuid) for one in found] == [
            (False, node(OTHER)),
            (True, node()),
        ]
        assert store.heads().keys() == {node(), node(OTHER)}

    def test_a_removal_names_the_node_that_it_means(self, store, another):
        (first,) = ready(store)
        assert remove(store)
        (second,) = ready(store)
        place(store, confirmed(A))
        before = facts(store)
        for one in (first, second):  # then a claim was made there
            assert not store.remove_node(node(), one.generation)
        assert facts(another()) == before
        generation, _ = store.heads()[node()]
        assert store.remove_node(node(), generation)
        assert store.heads() == {}
        assert store.claims() == []
        assert not store.remove_node(node(), generation)

    @pytest.mark.parametrize(
        'state, is_removed', [(None, True), (PENDING, True), (CONFIRMED, False)]
    )
    def test_a_removal_that_names_no_generation(self, store, state, is_removed):
        ready(store)
        if state is not None:
            place(store, claim(A, node(), state=state))
        assert store.remove_node(node()) is is_removed
        assert (store.heads() == {}) is is_removed

    def test_a_node_that_reports_is_not_removed(self, store):
        (first,) = ready(store, vcpus=3)
        (second,) = ready(store, vcpus=4)
        assert not store.remove_node(node(), first.generation)
        assert store.remove_node(node(), second.generation)

    def test_a_pending_claim_that_is_renewed_keeps_its_node(self, store):
        ready(store)
        place(store, mine := claim(A, node(), expires_s=NOW + 10))
        (seen, _) = store.heads()[node()]
        assert store.renew_claim(mine, 60)
        assert not store.remove_node(node(), seen)

    def test_the_last_list_is_kept(self, store, another):
        """It is of a host's messages, which have no order; it ends nothing."""
        for instances in ([A], [B], []):
            store.set_instances(HOST, frozenset(instances))
            assert another().changes({}).instances == {HOST: frozenset(instances)}
