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
"""How claims are confirmed and end; a late message ends only what it means."""

import pytest

from nova_sched.claim import CONFIRMED, PENDING, PLANNED, VCPU
from nova_sched.claims import ClaimSelector
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    A,
    B,
    C,
    at,
    confirmed,
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


class Ends:
    """Confirm, release, expire, remove."""

    def test_confirm(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node(), expires_s=NOW + 1), claim(B, node()), claim(C, node(OTHER)))
        before = generation(store)
        found = store.confirm([A, C], [node()])
        assert [one.key for one in found] == [(A, node())]
        assert kept(store) == {
            (A, node()): CONFIRMED,
            (B, node()): PENDING,
            (C, node(OTHER)): PENDING,
        }
        assert generation(store) == before + 1

    def test_confirm_again(self, store):
        ready(store)
        place(store, claim(A, node()))
        store.confirm([A], [node()])
        before = generation(store)
        assert store.confirm([A, A], [node(), node('nowhere')]) == []
        assert generation(store) == before

    def test_allocated(self, store):
        ready(store, HOST, OTHER)
        mine = claim(A, node(), expires_s=NOW + 1)
        place(store, mine, claim(B, node(OTHER)))
        before = generation(store)
        replaced = claim(B, node(OTHER))
        found = store.allocated([mine, replaced])
        assert [one.key for one in found] == [(A, node())]
        assert kept(store) == {(A, node()): CONFIRMED, (B, node(OTHER)): PENDING}
        (after,) = store.claims(A)
        assert after.expires_s is None
        assert generation(store) == before + 1
        # Who has read the node in between has not seen what was written last.
        assert store.allocated([mine]) == [after]
        assert (store.claims(A), generation(store)) == ([after], before + 2)

    def test_the_next_report_without_an_allocated_instance_ends_its_claim(self, store):
        ready(store)
        mine = claim(A, node())
        place(store, mine)
        before = seen(store)
        store.allocated([mine])
        ready(store, instances=frozenset(), order=before)
        assert kept(store) == {(A, node()): CONFIRMED}
        ready(store, instances=frozenset())
        assert kept(store) == {}

    def test_release(self, store):
        ready(store, vcpus=4)
        made = confirmed(A, vcpus=4)
        place(store, made)
        before = generation(store)
        assert store.release(
            [(A, node()), (B, node()), (A, node(OTHER)), (A, node())]
        ).changed == [made]
        assert generation(store) == before + 1
        assert store.release([(A, node())]).changed == []
        assert generation(store) == before + 1
        assert place(store, claim(B, node(), vcpus=4)).won

    @each_afresh(
        'state, expires_s, ends',
        {
            'overdue': (PENDING, NOW - 1, True),
            'now': (PENDING, NOW, True),
            'later': (PENDING, NOW + 1, False),
            'never': (PENDING, None, False),
            'long ago': (PENDING, 0.0, True),
            'planned': (PLANNED, NOW - 1, True),
            'confirmed': (CONFIRMED, None, False),
        },
    )
    def test_expire(self, store, state, expires_s, ends):
        ready(store, vcpus=4)
        made = claim(A, node(), vcpus=4, state=state, expires_s=expires_s)
        place(store, made)
        before = generation(store)
        assert store.expire(NOW) == ([made] if ends else [])
        assert store.claims() == ([] if ends else [made])
        assert generation(store) == before + ends
        assert place(store, claim(B, node(), vcpus=4)).won == ends

    def test_claims_are_listed_oldest_first(self, store):
        ready(store, HOST, OTHER)
        times = [(A, HOST, 3.0), (B, OTHER, 1.0), (C, HOST, 2.0)]
        for consumer, host, created_s in times:
            store.clock = lambda at_s=created_s: at_s
            place(store, confirmed(consumer, host))
        store.clock = lambda: 4.0
        place(store, claim(A, node(OTHER)))
        assert [one.created_s for one in store.claims()] == [1.0, 2.0, 3.0, 4.0]
        assert [one.created_s for one in store.claims(A)] == [3.0, 4.0]
        assert store.claims(uuid_of('nobody')) == []

    def test_remove_node(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()), claim(B, node(OTHER)))
        remove(store)
        store.remove_node(uuid_of('never seen'))
        assert kept(store) == {(B, node(OTHER)): PENDING}
        assert store.changes({node(): 2, node(OTHER): generation(store, OTHER)}).gone == (node(),)
        assert not place(store, claim(C, node())).won
        assert ready(store)[0].claims == ()

    def test_a_consumer_of_a_removed_node_claims_elsewhere(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        remove(store)
        assert place(store, claim(A, node(OTHER))).won


ENDS = {
    'finish': lambda store, host, meant: store.finish(A, [node(host)], meant),
    'revert': lambda store, host, meant: store.revert(A, meant),
    'release': lambda store, host, meant: store.release([(A, node(host))], selector=meant),
}
END = pytest.mark.parametrize('end', ENDS.values(), ids=ENDS)
SETTLE = pytest.mark.parametrize('end', [ENDS['finish'], ENDS['revert']], ids=['finish', 'revert'])


class LateMessages:
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
        there = end(store, OTHER, ClaimSelector(uuid_of('another claim')))
        assert (there.changed, there.claims) == ([], before)
        assert store.claims() == before
        there = end(store, OTHER, ClaimSelector(moving.uuid))
        assert there.changed != []
        assert there.claims == store.claims() != before

    @END
    @pytest.mark.parametrize('is_same', [False, True])
    def test_as_it_was_read(self, store, moving, end, is_same):
        (row,) = (one for one in store.claims() if one.uuid == moving.uuid)
        if not is_same:
            store.renew_claim(row, 60.0)
        assert (end(store, OTHER, ClaimSelector(row=row)).changed != []) == is_same

    @pytest.mark.parametrize('how', ['revert', 'release'])
    def test_one_that_must_not_be_confirmed(self, store, moving, how):
        store.confirm([A], [node(OTHER)])
        before = store.claims()
        there = ENDS[how](store, OTHER, ClaimSelector(moving.uuid, unconfirmed=True))
        assert (there.changed, there.claims) == ([], before)
        assert ENDS[how](store, OTHER, ClaimSelector(moving.uuid)).changed != []
        assert (A, node(OTHER)) not in kept(store)

    def test_a_move_that_arrived_is_finished_by_its_name(self, store, moving):
        store.confirm([A], [node(OTHER)])
        for changes in (True, False):
            there = store.finish(A, [node(OTHER)], ClaimSelector(moving.uuid))
            assert (there.changed != []) == changes
            assert there.claims == store.claims()
        assert kept(store) == {(A, node(OTHER)): CONFIRMED}

    def test_a_word_that_confirms_a_pending_claim_of_another_name(self, store):
        ready(store)
        place(store, claim(A, node()))
        assert store.finish(A, [node()], ClaimSelector(uuid_of('another claim'))).changed == []
        assert kept(store) == {(A, node()): PENDING}

    def test_only_the_one_of_several_that_is_meant_ends(self, store, another):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        place(store, claim(B, node()), claim(C, node(OTHER)))
        keys = [(A, node()), (B, node()), (C, node(OTHER))]
        (first,) = store.claims(A)
        ended = store.release(keys, selector=ClaimSelector(first.uuid)).changed
        assert [one.key for one in ended] == keys[:1]
        assert set(kept(another())) == set(keys[1:])

    @pytest.mark.parametrize('first', ['finish', 'revert'])
    @SETTLE
    def test_a_repeated_word_on_the_first_resize_does_not_end_the_second(self, store, first, end):
        ready(store)
        settled(store)
        one = resize(store, 2)
        assert ENDS[first](store, HOST, ClaimSelector(one.uuid)).changed != []
        two = resize(store, 4)
        before = store.claims()
        assert end(store, HOST, ClaimSelector(one.uuid)).changed == []
        assert store.claims() == before
        assert end(store, HOST, ClaimSelector(two.uuid)).changed != []
        (after,) = store.claims()
        assert after.resizing is None

    def test_a_settled_resize_gives_its_name_to_the_claim(self, store):
        """The call that has settled it may be repeated, and a late one to revert it is known."""
        ready(store)
        at(store, NOW)
        settled(store)
        at(store, NOW + 10)
        one = resize(store, 2)
        store.finish(A, [node()], ClaimSelector(one.uuid))
        (after,) = store.claims()
        assert (after.uuid, after.created_s, after.resources[VCPU]) == (one.uuid, NOW, 2)
        assert store.finish(A, [node()], ClaimSelector(one.uuid)).claims == [after]
        assert store.revert(A, ClaimSelector(one.uuid)) == ([], [after])
        assert store.claims() == [after]

    def test_the_name_of_the_claim_does_not_settle_a_later_resize(self, store):
        ready(store)
        settled(store)
        (held,) = store.claims()
        resize(store, 2)
        before = store.claims()
        assert store.finish(A, [node()], ClaimSelector(held.uuid)).changed == []
        assert store.claims() == before

    def test_a_resize_that_changes_its_size_has_a_new_name(self, store):
        ready(store)
        settled(store)
        one, two = resize(store, 2), resize(store, 4)
        assert store.revert(A, ClaimSelector(one.uuid)).changed == []
        assert store.revert(A, ClaimSelector(two.uuid)).changed != []
