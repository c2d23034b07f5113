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

from nova_sched.claim import CONFIRMED
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import NOW, claim, report
from nova_sched.tests.unit.claims.batteries.steps import (
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
    node,
    place,
    ready,
    since,
)

EVER = ReportOrder()


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

    def test_the_last_list_is_kept(self, store, another):
        """It is of a host's messages, which have no order; it ends nothing."""
        for instances in ([A], [B], []):
            store.set_instances(HOST, frozenset(instances))
            assert another().changes({}).instances == {HOST: frozenset(instances)}
