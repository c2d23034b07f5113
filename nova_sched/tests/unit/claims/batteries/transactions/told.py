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
"""What a store tells of each transaction that changed claims."""

import pytest

from nova_sched.claim import CONFIRMED, PLANNED, VCPU
from nova_sched.claims import ClaimSelector
from nova_sched.tests.builders import NOW, claim
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    DAY,
    HOST,
    OTHER,
    A,
    B,
    C,
    at,
    move,
    node,
    place,
    ready,
    remove,
    resize,
    settled,
)


class Told:
    """``on_changes``: each change of a claim by its cause and kind, with its host."""

    @pytest.fixture
    def told(self, store):
        at(store, NOW)
        ready(store, HOST, OTHER)
        found = []

        def take(changes):
            for kind, claims in changes.by_kind().items():
                found.extend(
                    (changes.cause, kind, one.consumer_uuid, changes.hosts.get(one.node_uuid))
                    for one in claims
                )

        store.on_changes = take
        yield found
        store.on_changes = None

    def test_made_and_confirmed(self, store, told):
        place(store, claim(A, node()), claim(B, node(OTHER)))
        assert sorted(told) == sorted(
            [('request', 'made', A, HOST), ('request', 'made', B, OTHER)]
        )
        told.clear()
        store.confirm([A], [node()])
        store.confirm([A], [node()])
        assert told == [('confirm', 'confirmed', A, HOST)]

    def test_its_time_and_the_claims_as_they_are(self, store, told):
        kept = []
        store.on_changes = kept.append
        place(store, claim(A, node(), vcpus=2))
        (changes,) = kept
        assert (changes.now_s, changes.size) == (NOW, 1)
        (made,) = changes.by_kind()['made']
        assert made == store.claims(A)[0]

    def test_a_placement_that_loses_tells_nothing(self, store, told):
        assert not place(store, claim(A, node(), vcpus=10**6)).won
        assert told == []

    def test_the_same_placement_again_tells_nothing(self, store, told):
        mine = claim(A, node())
        place(store, mine)
        told.clear()
        place(store, mine)
        assert told == []

    def test_a_newer_claim_replaces_the_old_one(self, store, told):
        place(store, claim(A, node()))
        told.clear()
        place(store, claim(A, node(OTHER)), releases=[(A, node())])
        assert told == [('request', 'ended', A, HOST), ('request', 'made', A, OTHER)]

    def test_allocated(self, store, told):
        mine = claim(A, node())
        place(store, mine)
        told.clear()
        store.allocated([mine])
        assert told == [('allocation', 'confirmed', A, HOST)]

    def test_a_report_confirms_and_ends(self, store, told):
        place(store, claim(A, node()))
        told.clear()
        ready(store, instances=frozenset([A]))
        assert told == [('report', 'confirmed', A, HOST)]
        told.clear()
        ready(store, instances=frozenset([A]))
        assert told == []
        ready(store, instances=frozenset())
        assert told == [('report', 'ended', A, HOST)]

    def test_released(self, store, told):
        place(store, claim(A, node()))
        told.clear()
        store.release([(A, node()), (C, node())])
        assert told == [('release', 'ended', A, HOST)]

    def test_expired(self, store, told):
        place(store, claim(A, node(), created_s=NOW, expires_s=NOW + 1))
        told.clear()
        store.expire(NOW + 2)
        assert told == [('timeout', 'expired', A, HOST)]

    def test_a_move_is_settled(self, store, told):
        settled(store)
        told.clear()
        move(store)
        assert told == [('request', 'made', A, OTHER)]
        told.clear()
        store.finish(A, [node(OTHER)])
        assert told == [('finish', 'ended', A, HOST), ('finish', 'settled', A, OTHER)]

    def test_a_move_is_reverted(self, store, told):
        settled(store)
        move(store)
        told.clear()
        store.revert(A)
        assert told == [('revert', 'reverted', A, OTHER)]

    def test_a_late_message_tells_nothing(self, store, told):
        settled(store)
        move(store)
        told.clear()
        store.revert(A, ClaimSelector(B))
        assert told == []

    @each_afresh(
        'settle, kind',
        {
            'finish': (lambda store: store.finish(A, [node()]), 'settled'),
            'revert': (lambda store: store.revert(A), 'reverted'),
        },
    )
    def test_a_resize_in_place(self, store, told, settle, kind):
        settled(store)
        told.clear()
        resize(store, 2)
        assert told == [('request', 'resizing', A, HOST)]
        told.clear()
        resize(store, 3)
        assert told == [('request', 'resizing', A, HOST)]
        told.clear()
        settle(store)
        assert [one[1:] for one in told] == [(kind, A, HOST)]
        assert store.claims(A)[0].resources[VCPU] == (3 if kind == 'settled' else 1)

    def test_a_resize_that_was_not_settled_in_time(self, store, told):
        settled(store)
        place(store, claim(A, node(), vcpus=2, created_s=NOW, expires_s=NOW + 9))
        assert store.expire(NOW + 10) == []
        told.clear()
        ready(store, now_s=NOW + 10, instances=frozenset([A]), held={A: {VCPU: 1}})
        assert told == [('report', 'reverted', A, HOST)]

    def test_a_node_is_removed(self, store, told):
        place(store, claim(A, node()))
        told.clear()
        assert remove(store)
        assert told == [('removal', 'ended', A, HOST)]

    def test_a_node_is_built_again(self, store, told):
        place(store, claim(A, node()))
        told.clear()
        ready(store, node_uuid=node('rebuilt'))
        assert told == [('removal', 'ended', A, HOST)]

    def test_the_time_of_a_plan_is_no_change(self, store, told):
        place(store, claim(A, node(), state=PLANNED, top_group=B, member='web', expires_s=NOW + 9))
        told.clear()
        store.renew(B, NOW + DAY)
        assert told == []

    def test_a_confirmed_claim_is_made(self, store, told):
        place(store, claim(A, node(), state=CONFIRMED))
        assert told == [('request', 'made', A, HOST)]
