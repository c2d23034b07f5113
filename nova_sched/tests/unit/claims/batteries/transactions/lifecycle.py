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
"""The life of a claim: every state, every event, and what it makes of it."""

import dataclasses

from nova_sched.claim import (
    CONFIRMED,
    DISK_GB,
    EVACUATION,
    LIVE_MIGRATION,
    MIGRATION,
    PENDING,
    PLANNED,
    RESIZE,
    VCPU,
    Claim,
)
from nova_sched.claims import Placement
from nova_sched.tests.builders import NOW, guarded, report, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    A,
    C,
    node,
    ready,
    remove,
    waiting,
)

THIRD, LATE_S, GROUP = 'host-2', NOW + 3600, uuid_of('top group')
SMALL, LARGE = {VCPU: 2, DISK_GB: 10}, {VCPU: 4, DISK_GB: 20}
TOGETHER = {VCPU: 4, DISK_GB: 30}


def claims(host=HOST, move=None, state=PENDING, size=SMALL, leaving=None):
    """The consumer is claimed for; its claim on the host ``leaving`` ends with it."""

    def step(store):
        made = Claim(
            A, node(host), size, state, created_s=store.clock(), expires_s=LATE_S, move=move
        )
        if state == PLANNED:
            made = dataclasses.replace(made, top_group=GROUP, member='web')
        releases = ((A, node(leaving)),) if leaving else ()
        assert store.commit([Placement((made,), releases, replaces=waiting(store))])[0].won

    return step


def is_created(store):
    """The instance of the member that the consumer stands for is claimed for, and goes its own
    ways."""
    old = (A, node())
    made = Claim(C, node(), SMALL, created_s=store.clock(), top_group=GROUP, member='web')
    assert store.commit([guarded((made,), (old,), planned_releases=(old,))])[0].won
    store.release([made.key])


def is_renewed(store):
    store.renew(GROUP, LATE_S + 1)


def lists(host=HOST, *consumers, now_s=NOW, held=None):
    """The host reports, and lists these instances, and what each of them holds."""
    words = {'instances': frozenset(consumers), 'held': held}
    return lambda store: ready(store, host, now_s=now_s, **words)


def says_nothing(host=HOST):
    """The host reports, and does not say which instances it has."""
    return lambda store: ready(store, host)


def has(host=HOST):
    """The host's messages say that it has the consumer."""
    return lambda store: store.confirm([A], [node(host)])


def stays(host=HOST):
    return lambda store: store.finish(A, [node(host)])


def goes_back(store):
    store.revert(A)


def ends(host=HOST):
    return lambda store: store.release([(A, node(host))])


def time_passes(store):
    store.expire(LATE_S)


def leaves(host=HOST):
    return lambda store: remove(store, host)


def is_renamed(store):
    """The node reports under another name."""
    new_name = dataclasses.replace(report(), host='new', nodename='new', instances=frozenset([A]))
    store.report([new_name], NOW)


def is_rebuilt(store):
    """A node that is new reports under the name of the old one."""
    store.report([report(node_uuid=uuid_of('new node'), instances=frozenset([A]))], NOW)


BUILT = claims(), lists(HOST, A)
RESIZED = *BUILT, claims(OTHER, RESIZE, size=LARGE)
THERE = *RESIZED, lists(OTHER, A)
GROWING = *BUILT, claims(size=LARGE)
TABLE = {
    # A build.
    'claimed': ([claims()], {HOST: PENDING}),
    'planned': ([claims(state=PLANNED)], {HOST: PLANNED}),
    'planned, and created': ([claims(state=PLANNED), claims()], {HOST: PENDING}),
    'planned, and its instance created': ([claims(state=PLANNED), is_created], {}),
    'planned, and never created': ([claims(state=PLANNED), time_passes], {}),
    'planned for longer': ([claims(state=PLANNED), is_renewed, time_passes], {HOST: PLANNED}),
    'planned, and created elsewhere': ([claims(state=PLANNED), claims(OTHER)], {OTHER: PENDING}),
    'planned, and there': ([claims(state=PLANNED), lists(HOST, A)], {HOST: CONFIRMED}),
    'planned, not there yet': ([claims(state=PLANNED), lists(HOST)], {HOST: PLANNED}),
    'planned, and given up': ([claims(state=PLANNED), ends()], {}),
    'planned, node removed': ([claims(state=PLANNED), leaves()], {}),
    'claimed again': ([claims(), claims()], {HOST: PENDING}),
    'listed': ([claims(), lists(HOST, A)], {HOST: CONFIRMED}),
    'told by a message': ([claims(), has()], {HOST: CONFIRMED}),
    'confirmed by its caller': ([claims(), stays()], {HOST: CONFIRMED}),
    'confirmed, and gone': ([claims(), stays(), lists(HOST)], {}),
    'told by a message, and gone': ([claims(), has(), lists(HOST)], {}),
    'not listed yet': ([claims(), lists(HOST)], {HOST: PENDING}),
    'a report without a list': ([claims(), says_nothing()], {HOST: PENDING}),
    'listed elsewhere': ([claims(), lists(OTHER, A)], {HOST: PENDING}),
    'node removed before it came': ([claims(), leaves()], {}),
    'never confirmed': ([claims(), time_passes], {}),
    'aborted': ([claims(), ends()], {}),
    'decided again': ([claims(), claims(OTHER)], {OTHER: PENDING}),
    'alternate': ([claims(), claims(OTHER, leaving=HOST)], {OTHER: PENDING}),
    'nothing to take back': ([claims(), goes_back], {HOST: PENDING}),
    # A server that runs.
    'still listed': ([*BUILT, lists(HOST, A)], {HOST: CONFIRMED}),
    'told of again': ([*BUILT, has()], {HOST: CONFIRMED}),
    'confirmed again': ([*BUILT, stays()], {HOST: CONFIRMED}),
    'still there, as far as anybody says': ([*BUILT, says_nothing()], {HOST: CONFIRMED}),
    'also listed elsewhere': ([*BUILT, lists(OTHER, A)], {HOST: CONFIRMED}),
    'runs on': ([*BUILT, time_passes], {HOST: CONFIRMED}),
    'deleted, or shelved': ([*BUILT, lists(HOST)], {}),
    'unshelved': ([*BUILT, lists(HOST), claims(OTHER)], {OTHER: PENDING}),
    'ended': ([*BUILT, ends()], {}),
    'no move to take back': ([*BUILT, goes_back], {HOST: CONFIRMED}),
    'node removed': ([*BUILT, leaves()], {}),
    'node removed and back: foreign': ([*BUILT, leaves(), lists(HOST, A)], {}),
    'node under another name': ([*BUILT, is_renamed], {HOST: CONFIRMED}),
    'another node under its name: foreign': ([*BUILT, is_rebuilt], {}),
    # A resize or migration to another node.
    'resize: both are claimed': (RESIZED, {HOST: CONFIRMED, OTHER: PENDING}),
    'resize: source is kept': ([*RESIZED, lists(HOST)], {HOST: CONFIRMED, OTHER: PENDING}),
    'resize: arrived': (THERE, {HOST: CONFIRMED, OTHER: CONFIRMED}),
    'resize: still kept': ([*THERE, lists(HOST)], {HOST: CONFIRMED, OTHER: CONFIRMED}),
    'resize: kept for long': ([*THERE, time_passes], {HOST: CONFIRMED, OTHER: CONFIRMED}),
    'resize: confirmed': ([*THERE, stays(OTHER)], {OTHER: CONFIRMED}),
    'resize: confirmed before a report': ([*RESIZED, stays(OTHER)], {OTHER: CONFIRMED}),
    'resize: too late to go back': ([*THERE, stays(OTHER), goes_back], {OTHER: CONFIRMED}),
    'resize: reverted': ([*THERE, goes_back], {HOST: CONFIRMED}),
    'resize: reverted at once': ([*RESIZED, goes_back], {HOST: CONFIRMED}),
    'resize: reverted, then deleted': ([*THERE, goes_back, lists(HOST)], {}),
    'resize: reverted, listed, deleted': ([*THERE, goes_back, lists(HOST, A), lists(HOST)], {}),
    'resize: never came': ([*RESIZED, time_passes], {HOST: CONFIRMED}),
    'resize: never came, then deleted': ([*RESIZED, time_passes, lists(HOST)], {}),
    'resize: failed': ([*RESIZED, ends(OTHER)], {HOST: CONFIRMED}),
    'resize: source given up': ([*RESIZED, ends()], {OTHER: PENDING}),
    'resize: not there yet': ([*RESIZED, lists(OTHER)], {HOST: CONFIRMED, OTHER: PENDING}),
    'resize: source node removed before': ([*RESIZED, leaves()], {OTHER: PENDING}),
    'resize: destination node removed before': ([*RESIZED, leaves(OTHER)], {HOST: CONFIRMED}),
    'resize: claimed again': (
        [*RESIZED, claims(OTHER, RESIZE)],
        {HOST: CONFIRMED, OTHER: PENDING},
    ),
    'resize: decided again': (
        [*RESIZED, claims(THIRD, RESIZE)],
        {HOST: CONFIRMED, THIRD: PENDING},
    ),
    'resize: told of there': ([*RESIZED, has(OTHER)], {HOST: CONFIRMED, OTHER: CONFIRMED}),
    'resize: on both': ([*THERE, lists(HOST, A)], {HOST: CONFIRMED, OTHER: CONFIRMED}),
    'resize: still there': ([*THERE, lists(OTHER, A)], {HOST: CONFIRMED, OTHER: CONFIRMED}),
    'resize: source confirmed again': ([*THERE, stays()], {HOST: CONFIRMED, OTHER: CONFIRMED}),
    'resize: ended there': ([*THERE, ends(OTHER)], {HOST: CONFIRMED}),
    'resize: source ended': ([*THERE, ends()], {OTHER: CONFIRMED}),
    'resize: alternate': (
        [*RESIZED, claims(THIRD, RESIZE, leaving=OTHER)],
        {HOST: CONFIRMED, THIRD: PENDING},
    ),
    'resize: deleted there': ([*THERE, lists(HOST), lists(OTHER)], {HOST: CONFIRMED}),
    'resize: on its way back': ([*THERE, lists(OTHER), lists(HOST)], {HOST: CONFIRMED}),
    'resize: deleted on both': (
        [*THERE, lists(OTHER), time_passes, lists(HOST, now_s=LATE_S)],
        {},
    ),
    'resize: source node removed': ([*THERE, leaves()], {OTHER: CONFIRMED}),
    'resize: destination node removed': ([*THERE, leaves(OTHER)], {HOST: CONFIRMED}),
    'migration: as a resize': (
        [*BUILT, claims(OTHER, MIGRATION), lists(OTHER, A), lists(HOST)],
        {HOST: CONFIRMED, OTHER: CONFIRMED},
    ),
    'resize: the move before it is confirmed late': (
        [
            *BUILT,
            claims(OTHER, LIVE_MIGRATION),
            lists(OTHER, A),
            lists(HOST),
            claims(THIRD, RESIZE),
            stays(OTHER),
        ],
        {OTHER: CONFIRMED, THIRD: PENDING},
    ),
    # Other moves.
    'live migration: both are claimed': (
        [*BUILT, claims(OTHER, LIVE_MIGRATION), lists(HOST, A)],
        {HOST: CONFIRMED, OTHER: PENDING},
    ),
    'live migration: settled by reports': (
        [*BUILT, claims(OTHER, LIVE_MIGRATION), lists(OTHER, A), lists(HOST)],
        {OTHER: CONFIRMED},
    ),
    'live migration: nowhere to go back to': (
        [*BUILT, claims(OTHER, LIVE_MIGRATION), lists(OTHER, A), lists(HOST), goes_back],
        {OTHER: CONFIRMED},
    ),
    'live migration: reverted': (
        [*BUILT, claims(OTHER, LIVE_MIGRATION), goes_back],
        {HOST: CONFIRMED},
    ),
    'live migration: deleted before it came': (
        [*BUILT, claims(OTHER, LIVE_MIGRATION), lists(HOST)],
        {OTHER: PENDING},
    ),
    'evacuation: source is silent': (
        [*BUILT, claims(OTHER, EVACUATION), lists(OTHER, A)],
        {HOST: CONFIRMED, OTHER: CONFIRMED},
    ),
    'evacuation: source is back': (
        [*BUILT, claims(OTHER, EVACUATION), lists(OTHER, A), lists(HOST)],
        {OTHER: CONFIRMED},
    ),
    'evacuation: confirmed': (
        [*BUILT, claims(OTHER, EVACUATION), stays(OTHER)],
        {OTHER: CONFIRMED},
    ),
    'a move that nobody named is settled by reports': (
        [*BUILT, claims(OTHER), lists(OTHER, A), lists(HOST)],
        {OTHER: CONFIRMED},
    ),
}
# What the consumer has on its node, which it does not leave.
IN_PLACE = {
    'both sizes are held': ([*GROWING], TOGETHER),
    'while another size is asked for': ([*GROWING, claims(size={VCPU: 3})], TOGETHER),
    'until somebody settles it': ([*GROWING, lists(HOST, A)], TOGETHER),
    'a message settles nothing': ([*GROWING, has()], TOGETHER),
    'nor does a report without a list': ([*GROWING, says_nothing()], TOGETHER),
    'node removed meanwhile': ([*GROWING, leaves()], None),
    'confirmed': ([*GROWING, stays()], LARGE),
    'reverted': ([*GROWING, goes_back], SMALL),
    'too late to go back': ([*GROWING, stays(), goes_back], LARGE),
    'its time is up, the node has not reported': ([*GROWING, time_passes], TOGETHER),
    'its time is up': ([*GROWING, lists(HOST, A, now_s=LATE_S)], TOGETHER),
    'and it has grown': ([*GROWING, lists(HOST, A, now_s=LATE_S, held={A: LARGE})], TOGETHER),
    'and it has not grown': (
        [*GROWING, time_passes, lists(HOST, A, now_s=LATE_S, held={A: SMALL})],
        SMALL,
    ),
    'deleted': ([*GROWING, lists(HOST)], None),
    'ended': ([*GROWING, ends()], None),
    'failed, and goes elsewhere': ([*GROWING, claims(OTHER, leaving=HOST)], SMALL),
    'goes elsewhere beside': ([*GROWING, claims(OTHER)], TOGETHER),
}


class Lifecycle:
    def run(self, store, steps):
        ready(store, HOST, OTHER, THIRD)
        for number, step in enumerate(steps):
            store.clock = lambda at_s=NOW + number: at_s
            step(store)
        return store.claims()

    @each_afresh('steps, states', TABLE)
    def test_every_event(self, store, steps, states):
        found = self.run(store, steps)
        assert {one.node_uuid: one.state for one in found} == {
            node(host): of for host, of in states.items()
        }
        assert {one.consumer_uuid for one in found} <= {A}

    @each_afresh('steps, amounts', IN_PLACE)
    def test_every_event_of_a_resize_in_place(self, store, steps, amounts):
        found = {one.node_uuid: one for one in self.run(store, steps)}
        here = found.get(node())
        assert (here and here.resources) == amounts
        assert here is None or here.is_confirmed

    def test_a_move_is_kept_with_the_claim(self, store, another):
        self.run(store, RESIZED)
        assert {one.node_uuid: one.move for one in another().claims()} == {
            node(): None,
            node(OTHER): RESIZE,
        }
        store.finish(A, [node(OTHER)])
        assert [one.move for one in another().claims()] == [None]

    def test_what_was_changed_is_told_as_it_was(self, store):
        source, target = self.run(store, RESIZED)
        assert store.revert(A).changed == [target]
        assert store.revert(A).changed == []
        assert store.claims() == [dataclasses.replace(source, changed_s=store.now_s())]

    def test_finish_tells_both(self, store):
        before = self.run(store, THERE)
        assert sorted(store.finish(A, [node(OTHER)]).changed, key=str) == sorted(before, key=str)
        assert store.finish(A, [node(OTHER)]).changed == []

    def test_others_stay_as_they_are(self, store):
        beside = Claim(C, node(OTHER), SMALL, CONFIRMED)
        self.run(store, THERE)
        store.commit([Placement((beside,))])
        before = store.claims(C)
        store.clock = lambda: LATE_S
        store.finish(A, [node(OTHER)])
        store.revert(A)
        assert store.claims(C) == before

    def test_what_both_sizes_need_must_fit(self, store):
        """And nothing changes if it does not."""
        ready(store, vcpus=4, disk_gb=25)
        before = Claim(A, node(), SMALL, CONFIRMED)
        store.commit([Placement((before,))])
        assert not store.commit([Placement((Claim(A, node(), LARGE),))])[0].won
        assert store.claims() == [before]
