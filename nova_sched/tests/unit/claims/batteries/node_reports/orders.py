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

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING, RESIZE, Claim
from nova_sched.claims import ClaimSelector, Placement
from nova_sched.state.report import MAX_AMOUNT, MAX_BOOT, MAX_BOOT_STEP, ReportOrder
from nova_sched.tests.builders import NOW, claim, report
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


def known_generation(store):
    """The highest generation of any node; 0 without one."""
    return max((head[0] for head in store.heads().values()), default=0)


def knows(seen):
    return ReportOrder(seen)


# Ends of a move from HOST to OTHER that no call asks for.
TARGET_IS_GONE = [
    pytest.param(
        lambda store: (
            ready(store, OTHER, instances=frozenset([A])),
            ready(store, OTHER, instances=frozenset()),
        ),
        id='the target no longer has it',
    ),
    pytest.param(
        lambda store: store.remove_node(node(OTHER), seen(store, OTHER).seen),
        id='the target was removed',
    ),
    pytest.param(
        lambda store: ready(store, OTHER, node_uuid=node('rebuilt'), order=NONE),
        id='the target was rebuilt',
    ),
]


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
            pytest.param(counted(2, 1, 1), counted(1, 9, 2), False, id='the count decides'),
            pytest.param(counted(1, 2, 1), counted(1, 3, 0), True, id='on both sides'),
            pytest.param(counted(1, 1), NONE, True, id='a sender that says nothing any more'),
            pytest.param(counted(1, 1), knows(0), False, id='one that knows an older node'),
            pytest.param(counted(1, 1), knows(1), True, id='one that knows the last report'),
            pytest.param(NONE, counted(1, 1), True, id='a sender that counts from now on'),
            pytest.param(NONE, counted(1, 1, 0), False, id='and knows an older node'),
            pytest.param(NONE, NONE, True, id='as they come'),
            pytest.param(knows(0), knows(2), True, id='it knows all'),
            pytest.param(knows(0), knows(1), True, id='it knows the last report'),
            pytest.param(knows(0), knows(0), False, id='it does not know the last report'),
            pytest.param(knows(0), knows(9), True, id='it knows another database'),
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
        (first,) = ready(store, vcpus=3)
        (second,) = ready(store, vcpus=4)
        (late,) = ready(store, vcpus=5, order=knows(first.generation), now_s=NOW + 50)
        assert (late.stale, late.generation) == (True, second.generation)
        assert not ready(store, vcpus=5, order=knows(late.generation), now_s=NOW + 60)[0].stale

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

    # What a report proves of a claim.

    @pytest.mark.parametrize(
        'change',
        [
            pytest.param(lambda store: None, id='placed'),
            pytest.param(lambda store: store.confirm([A], [node()]), id='confirmed'),
            pytest.param(lambda store: store.finish(A, [node()]), id='confirmed by its caller'),
        ],
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

    @pytest.mark.parametrize('numbers', [(), (1, 9)], ids=['', 'numbered'])
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

    @pytest.mark.parametrize(
        'numbered, events, stays',
        [
            pytest.param(True, [[A], []], False, id='it was listed'),
            pytest.param(True, ['confirm', [], []], True, id='it was never listed'),
            pytest.param(True, ['confirm', [A], []], False, id='it was confirmed, and listed'),
            pytest.param(True, [[A], None, []], True, id='a report without a list between'),
            pytest.param(True, [[A], 'resize', []], True, id='it was resized since'),
            pytest.param(True, [[A], 'resize', [A], []], False, id='it was resized, and listed'),
            pytest.param(False, [[A], [], []], True, id='nothing orders the reports'),
        ],
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

    @pytest.mark.parametrize('order', [counted(1, 2), NONE], ids=['numbered', ''])
    def test_without_what_was_seen_a_list_confirms_at_once(self, store, order):
        ready(store, order=counted(1, 1))
        place(store, claim(A, node()))
        store.report([report(instances=frozenset([A]), order=order)], NOW)
        assert kept(store) == {(A, node()): CONFIRMED}

    @pytest.mark.parametrize(
        'end',
        [
            pytest.param(lambda store: store.revert(A), id='reverted'),
            pytest.param(lambda store: store.release([(A, node(OTHER))]), id='aborted'),
            pytest.param(lambda store: store.expire(NOW + DAY), id='never confirmed'),
            pytest.param(lambda store: place(store, claim(A, node(THIRD))), id='moved elsewhere'),
            *TARGET_IS_GONE,
        ],
    )
    @pytest.mark.parametrize('is_back', [True, False], ids=['it comes back', 'it never does'])
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

    @pytest.mark.parametrize('end', TARGET_IS_GONE)
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

    @pytest.mark.parametrize(
        'last, comes, is_later',
        [
            pytest.param(NONE, NONE, True, id='as they come'),
            pytest.param(counted(2, 5), counted(3, 1), True, id='a later start'),
            pytest.param(counted(2, 5), counted(2, 6), False, id='the same start'),
            pytest.param(counted(2, 5), counted(1, 9), False, id='an earlier start'),
            pytest.param(counted(2, 5), NONE, True, id='it does not count'),
            pytest.param(NONE, counted(1, 1), True, id='the former one did not count'),
            pytest.param(NONE, knows(0), False, id='it knows no node'),
            pytest.param(NONE, knows(1), True, id='it knows the former one'),
            pytest.param(counted(2, 5), counted(1, 1, 1), False, id='and is of an earlier start'),
            pytest.param(counted(2, 5), counted(3, 1, 1), True, id='and is of a later start'),
            pytest.param(counted(2, 5), counted(3, 1, 0), False, id='a later start knows no node'),
        ],
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

    @pytest.mark.parametrize(
        'last', [None, NONE, counted(1, 5), counted(7, 1)], ids=['none', 'NONE', '1', '7']
    )
    @pytest.mark.parametrize('uuid', [node(), node('new')], ids=['the node', 'its successor'])
    def test_a_start_number_that_no_sender_reaches(self, store, last, uuid):
        """It would make each later report a late one, for good."""
        if last is not None:
            ready(store, order=last)
        known, before = (last and last.boot) or 0, store.changes({}).nodes
        for boot in (known + MAX_BOOT_STEP + 1, MAX_BOOT):
            far = counted(boot, MAX_AMOUNT, known_generation(store))
            with pytest.raises(errors.BadReport, match=f'boot: {boot} is more than'):
                store.report([report(node_uuid=uuid, order=far)], NOW)
        assert store.changes({}).nodes == before
        for boot in (known + MAX_BOOT_STEP, known + MAX_BOOT_STEP + 1):
            order = counted(boot, MAX_AMOUNT, known_generation(store))
            assert not store.report([report(node_uuid=uuid, order=order)], NOW)[0].stale

    def test_a_node_that_was_removed_begins_anew(self, store):
        ready(store, order=counted(MAX_BOOT_STEP, 1))
        ready(store, order=counted(2 * MAX_BOOT_STEP, 1))
        assert remove(store)
        with pytest.raises(errors.BadReport, match='boot'):
            ready(store, order=counted(2 * MAX_BOOT_STEP, 2))
        assert not ready(store, order=counted(1, 1))[0].stale

    @pytest.mark.parametrize('knew', [None, 2], ids=['', 'with what it had seen'])
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
