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
"""The times that a store keeps of its claims."""

import dataclasses
import itertools
import time

import pytest

from nova_sched.claim import VCPU
from nova_sched.claims import Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.tests.builders import NOW, claim, report, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    DAY,
    HOST,
    OTHER,
    A,
    B,
    C,
    at,
    node,
    place,
    ready,
    resize,
    settled,
)


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

    @each_afresh(
        'change',
        {
            'confirm': lambda store: store.confirm([A], [node()]),
            'finish': lambda store: store.finish(A, [node()]),
            'a report': lambda store: store.report([report(instances=frozenset([A]))]),
        },
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

    @each_afresh(
        'end',
        {
            'finish': lambda store: store.finish(A, [node()]),
            'revert': lambda store: store.revert(A),
        },
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
        assert store.expire() == []
        ready(store, now_s=NOW + 60, instances=frozenset([A]), held={A: {VCPU: 1}})
        assert times(store) == [(NOW, NOW + 60)]
        assert store.claims()[0].resizing is None

    @each_afresh(
        'watched, is_open',
        {
            'nobody ever looked for such claims': ([], True),
            'nobody has looked since: the clock may have jumped': ([0], True),
            'one has looked when it was up': ([0, 50, 100], False),
            'that one has added the time that nobody looked': ([0, 100], True),
        },
    )
    def test_a_report_after_a_jump_of_the_clock_takes_no_resize_back(
        self, store, watched, is_open
    ):
        ready(store)
        at(store, NOW)
        settled(store)
        asked = claim(A, node(), vcpus=3, created_s=NOW, expires_s=NOW + 90)
        store.commit([Placement((asked,))])
        for look_s in watched:
            at(store, NOW + look_s)
            store.expire(unwatched_s=60)
        ready(store, now_s=NOW + 100, instances=frozenset([A]), held={A: {VCPU: 1}})
        assert bool(store.claims()[0].resizing) is is_open

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

    @each_afresh(
        'looks, left_s, is_spared',
        {
            'watched all the time': ([20, 40, 60], 40, False),
            'the clock jumps by an hour, or nobody runs': ([3600, 3620], 80, True),
            'the clock is set back': ([20, -3600, -3580], 80, True),
            'and forth again': ([-3600, 20], 100, True),
        },
    )
    def test_time_that_nobody_watched_does_not_count(
        self, store, another, looks, left_s, is_spared
    ):
        ready(store)
        at(store, NOW)
        place(store, claim(A, node(), created_s=NOW, expires_s=NOW + 100))
        assert store.expire(unwatched_s=60) == []
        spared = 0
        for place_of, look_s in enumerate(looks):
            one = another() if place_of % 2 else store
            at(one, NOW + look_s)
            before = one.claims()
            assert one.expire(unwatched_s=60) == []
            spared += one.claims() != before
            assert one.expire(unwatched_s=60) == []
        (kept,) = store.claims()
        assert kept.expires_s - (NOW + looks[-1]) == left_s
        assert bool(spared) == is_spared

    @each_afresh(
        'made_s', {'before the jump': 5, 'after it': 3600, 'while the clock was set back': -900}
    )
    def test_what_is_made_since_the_last_look_lives_as_long_as_any(self, store, made_s):
        ready(store)
        at(store, NOW)
        store.expire(unwatched_s=60)
        at(store, NOW + made_s)
        place(store, claim(A, node(), created_s=NOW + made_s, expires_s=NOW + made_s + 100))
        at(store, NOW + 3600)
        assert store.expire(unwatched_s=60) == []
        assert store.claims()[0].expires_s == NOW + 3700

    def test_a_clock_that_is_set_back_and_forth_again_between_two_looks(self, store):
        ready(store)
        at(store, NOW)
        store.expire(unwatched_s=60)
        at(store, NOW - 3600)
        place(store, claim(A, node(), created_s=NOW - 3600, expires_s=NOW - 3500))
        at(store, NOW - 1000)
        assert store.expire(unwatched_s=60) == []
        assert store.claims()[0].expires_s == NOW - 900

    @pytest.mark.parametrize('behind_s', [0.5, 2, 59])
    def test_servers_of_a_database_whose_clocks_differ(self, store, another, behind_s):
        ready(store)
        at(store, NOW)
        place(store, claim(A, node(), created_s=NOW, expires_s=NOW + 100))
        stores, ended = itertools.cycle([store, another()]), []
        for look_s in range(0, 200, 10):
            one = next(stores)
            at(one, NOW + look_s - (0 if one is store else behind_s))
            ended += [(look_s, claim.consumer_uuid) for claim in one.expire(unwatched_s=60)]
        assert ended == [(100, A)]

    def test_two_outages_one_after_the_other(self, store):
        ready(store)
        at(store, NOW)
        place(store, claim(A, node(), created_s=NOW, expires_s=NOW + 100))
        ended = []
        for look_s in (0, 30, 930, 960, 1960, 1990, 2020, 2050, 2059, 2060):
            at(store, NOW + look_s)
            ended += [(look_s, claim.consumer_uuid) for claim in store.expire(unwatched_s=60)]
        assert ended == [(2060, A)]

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
            one.set_instances(HOST, frozenset([A]))
        assert stores[0].confirm([B], [node(OTHER)]) == [second]
        assert second.changed_s <= stores[0].claims(B)[0].changed_s < ends_s
        early = store.claims(A)[0].expires_s
        assert all(one.renew_claim(first, 2 * DAY) for one in stores)
        assert early < stores[0].claims(A)[0].expires_s < ends_s + 2 * DAY
        over = claim(C, node(), created_s=clocks[1], expires_s=clocks[1])
        assert stores[0].commit([Placement((over,))])[0].won
        assert [one.consumer_uuid for one in stores[1].expire()] == [C]
