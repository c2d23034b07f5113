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
"""Pending claims that get more time."""

import dataclasses

import pytest

from nova_sched.claim import CONFIRMED, PLANNED
from nova_sched.claims import ClaimSelector
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    A,
    B,
    at,
    facts,
    generation,
    kept,
    move,
    node,
    place,
    ready,
    settled,
)
from nova_sched.tests.unit.claims.batteries.transactions.hardware import REST, holding, pick


def pending(store, **fields):
    """A claim that was made at NOW, and expires a minute later."""
    ready(store, HOST, OTHER)
    at(store, NOW)
    place(store, claim(A, node(), created_s=NOW, expires_s=NOW + 60, **fields))
    return store.claims(A)[0]


class Renewals:
    """A claim is renewed by the store's clock, as long as it is there."""

    def test_it_lives_on_from_now(self, store, another):
        made = pending(store)
        before = generation(store)
        at(store, NOW + 59)
        assert store.renew_claim(made, 60.0)
        renewed = dataclasses.replace(made, changed_s=NOW + 59, expires_s=NOW + 119)
        assert another().claims() == [renewed]
        assert generation(store) == before + 1
        at(store, NOW + 118)
        assert store.expire() == []
        at(store, NOW + 119)
        assert [one.key for one in store.expire()] == [made.key]

    def test_a_late_renewal_counts_from_when_it_arrives(self, store):
        """A process may hold the claim as it was made, while another process renews it."""
        made = pending(store)
        for after_s in (50, 100, 150):
            at(store, NOW + after_s)
            assert store.renew_claim(made, 60.0)
            assert store.claims(A)[0].expires_s == NOW + after_s + 60

    @pytest.mark.parametrize('after_s', [60, 3600])
    def test_its_time_is_over(self, store, after_s):
        """It can be renewed as long as no scheduler has ended it: the clock may have jumped."""
        made = pending(store)
        at(store, NOW + after_s)
        assert store.renew_claim(made, 60.0)
        assert store.expire() == []
        at(store, NOW + after_s + 60)
        assert [one.key for one in store.expire()] == [made.key]
        assert not store.renew_claim(made, 60.0)
        assert store.claims() == []

    @pytest.mark.parametrize('lifetime_s', [None, 60.0])
    def test_it_may_never_expire(self, store, lifetime_s):
        made = pending(store)
        assert store.renew_claim(made, None)
        at(store, NOW + 10**9)
        assert store.expire() == []
        assert store.renew_claim(made, lifetime_s)
        assert store.claims(A)[0].expires_s == (lifetime_s and NOW + 10**9 + lifetime_s)

    def test_another_claim_has_taken_its_place(self, store):
        made = pending(store)
        place(store, claim(A, node(), expires_s=30.0))
        (other,) = store.claims(A)
        assert other.uuid != made.uuid
        assert not store.renew_claim(made, 60.0)
        assert store.claims(A) == [other]

    def test_it_is_confirmed(self, store):
        made = pending(store)
        store.confirm([A], [node()])
        (there,) = store.claims(A)
        assert not store.renew_claim(made, 60.0)
        assert store.claims(A) == [there]
        assert (there.state, there.expires_s) == (CONFIRMED, None)

    def test_planned_claims_have_the_time_of_their_group(self, store):
        made = pending(store, state=PLANNED, top_group=uuid_of('group'), member='web')
        assert not store.renew_claim(made, 60.0)
        assert store.claims(A) == [made]

    def test_a_claim_that_was_never_made(self, store):
        ready(store)
        assert not store.renew_claim(claim(A, node()), 60.0)
        assert not store.renew_claim(claim(A, uuid_of('no node')), 60.0)
        assert store.claims() == []

    def test_the_source_of_a_move_stays_as_it_is(self, store):
        ready(store, HOST, OTHER)
        at(store, NOW)
        settled(store)
        (source,) = store.claims(A)
        coming = move(store)
        at(store, NOW + 10)
        assert store.renew_claim(coming, 60.0)
        there = {one.node_uuid: one for one in store.claims(A)}
        assert there[node()] == source
        assert there[node(OTHER)].expires_s == NOW + 70

    def test_a_message_from_before_still_means_it(self, store):
        """A renewed claim keeps its name: a deletion that was sent before ends it."""
        made = pending(store)
        at(store, NOW + 10)
        store.renew_claim(made, 60.0)
        assert store.release([made.key], selector=ClaimSelector(row=made)).changed == []
        ended = store.release([made.key], selector=ClaimSelector(made.uuid)).changed
        assert [one.key for one in ended] == [made.key]
        assert kept(store) == {}

    def test_a_resize_is_renewed_by_its_name(self, store):
        """Even after its time: its node has not taken it back yet."""
        ready(store)
        at(store, NOW)
        settled(store)
        place(store, claim(A, node(), vcpus=2, created_s=NOW, expires_s=NOW + 9))
        (there,) = store.claims()
        at(store, NOW + 10)
        assert not store.renew_claim(dataclasses.replace(there, resizing=None), 60.0)
        assert store.renew_claim(there, 60.0)
        assert store.claims()[0].expires_s == NOW + 70

    def test_its_hardware_stays_taken(self, store):
        """Another scheduler may have picked other hardware before: that pick stays valid."""
        ready(store)
        at(store, NOW)
        assert pick(store, holding(A)).won
        (made,) = store.claims(A)
        before = generation(store)
        assert store.renew_claim(made, 60.0)
        (now,) = facts(store).claims
        assert now == dataclasses.replace(made, expires_s=NOW + 60)
        assert pick(store, holding(B, REST), host_0=before).won
