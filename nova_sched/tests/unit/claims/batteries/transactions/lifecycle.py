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

import pytest

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
TABLE = [
    # A build.
    pytest.param([claims()], {HOST: PENDING}, id='claimed'),
    pytest.param([claims(state=PLANNED)], {HOST: PLANNED}, id='planned'),
    pytest.param([claims(state=PLANNED), claims()], {HOST: PENDING}, id='planned, and created'),
    pytest.param([claims(state=PLANNED), is_created], {}, id='planned, and its instance created'),
    pytest.param([claims(state=PLANNED), time_passes], {}, id='planned, and never created'),
    pytest.param(
        [claims(state=PLANNED), is_renewed, time_passes], {HOST: PLANNED}, id='planned for longer'
    ),
    pytest.param(
        [claims(state=PLANNED), claims(OTHER)],
        {OTHER: PENDING},
        id='planned, and created elsewhere',
    ),
    pytest.param(
        [claims(state=PLANNED), lists(HOST, A)], {HOST: CONFIRMED}, id='planned, and there'
    ),
    pytest.param(
        [claims(state=PLANNED), lists(HOST)], {HOST: PLANNED}, id='planned, not there yet'
    ),
    pytest.param([claims(state=PLANNED), ends()], {}, id='planned, and given up'),
    pytest.param([claims(state=PLANNED), leaves()], {}, id='planned, node removed'),
    pytest.param([claims(), claims()], {HOST: PENDING}, id='claimed again'),
    pytest.param([claims(), lists(HOST, A)], {HOST: CONFIRMED}, id='listed'),
    pytest.param([claims(), has()], {HOST: CONFIRMED}, id='told by a message'),
    pytest.param([claims(), stays()], {HOST: CONFIRMED}, id='confirmed by its caller'),
    pytest.param([claims(), stays(), lists(HOST)], {}, id='confirmed, and gone'),
    pytest.param([claims(), has(), lists(HOST)], {}, id='told by a message, and gone'),
    pytest.param([claims(), lists(HOST)], {HOST: PENDING}, id='not listed yet'),
    pytest.param([claims(), says_nothing()], {HOST: PENDING}, id='a report without a list'),
    pytest.param([claims(), lists(OTHER, A)], {HOST: PENDING}, id='listed elsewhere'),
    pytest.param([claims(), leaves()], {}, id='node removed before it came'),
    pytest.param([claims(), time_passes], {}, id='never confirmed'),
    pytest.param([claims(), ends()], {}, id='aborted'),
    pytest.param([claims(), claims(OTHER)], {OTHER: PENDING}, id='decided again'),
    pytest.param([claims(), claims(OTHER, leaving=HOST)], {OTHER: PENDING}, id='alternate'),
    pytest.param([claims(), goes_back], {HOST: PENDING}, id='nothing to take back'),
    # A server that runs.
    pytest.param([*BUILT, lists(HOST, A)], {HOST: CONFIRMED}, id='still listed'),
    pytest.param([*BUILT, has()], {HOST: CONFIRMED}, id='told of again'),
    pytest.param([*BUILT, stays()], {HOST: CONFIRMED}, id='confirmed again'),
    pytest.param(
        [*BUILT, says_nothing()], {HOST: CONFIRMED}, id='still there, as far as anybody says'
    ),
    pytest.param([*BUILT, lists(OTHER, A)], {HOST: CONFIRMED}, id='also listed elsewhere'),
    pytest.param([*BUILT, time_passes], {HOST: CONFIRMED}, id='runs on'),
    pytest.param([*BUILT, lists(HOST)], {}, id='deleted, or shelved'),
    pytest.param([*BUILT, lists(HOST), claims(OTHER)], {OTHER: PENDING}, id='unshelved'),
    pytest.param([*BUILT, ends()], {}, id='ended'),
    pytest.param([*BUILT, goes_back], {HOST: CONFIRMED}, id='no move to take back'),
    pytest.param([*BUILT, leaves()], {}, id='node removed'),
    pytest.param([*BUILT, leaves(), lists(HOST, A)], {}, id='node removed and back: foreign'),
    pytest.param([*BUILT, is_renamed], {HOST: CONFIRMED}, id='node under another name'),
    pytest.param([*BUILT, is_rebuilt], {}, id='another node under its name: foreign'),
    # A resize or migration to another node.
    pytest.param(RESIZED, {HOST: CONFIRMED, OTHER: PENDING}, id='resize: both are claimed'),
    pytest.param(
        [*RESIZED, lists(HOST)], {HOST: CONFIRMED, OTHER: PENDING}, id='resize: source is kept'
    ),
    pytest.param(THERE, {HOST: CONFIRMED, OTHER: CONFIRMED}, id='resize: arrived'),
    pytest.param(
        [*THERE, lists(HOST)], {HOST: CONFIRMED, OTHER: CONFIRMED}, id='resize: still kept'
    ),
    pytest.param(
        [*THERE, time_passes], {HOST: CONFIRMED, OTHER: CONFIRMED}, id='resize: kept for long'
    ),
    pytest.param([*THERE, stays(OTHER)], {OTHER: CONFIRMED}, id='resize: confirmed'),
    pytest.param(
        [*RESIZED, stays(OTHER)], {OTHER: CONFIRMED}, id='resize: confirmed before a report'
    ),
    pytest.param(
        [*THERE, stays(OTHER), goes_back], {OTHER: CONFIRMED}, id='resize: too late to go back'
    ),
    pytest.param([*THERE, goes_back], {HOST: CONFIRMED}, id='resize: reverted'),
    pytest.param([*RESIZED, goes_back], {HOST: CONFIRMED}, id='resize: reverted at once'),
    pytest.param([*THERE, goes_back, lists(HOST)], {}, id='resize: reverted, then deleted'),
    pytest.param(
        [*THERE, goes_back, lists(HOST, A), lists(HOST)],
        {},
        id='resize: reverted, listed, deleted',
    ),
    pytest.param([*RESIZED, time_passes], {HOST: CONFIRMED}, id='resize: never came'),
    pytest.param([*RESIZED, time_passes, lists(HOST)], {}, id='resize: never came, then deleted'),
    pytest.param([*RESIZED, ends(OTHER)], {HOST: CONFIRMED}, id='resize: failed'),
    pytest.param([*RESIZED, ends()], {OTHER: PENDING}, id='resize: source given up'),
    pytest.param(
        [*RESIZED, lists(OTHER)], {HOST: CONFIRMED, OTHER: PENDING}, id='resize: not there yet'
    ),
    pytest.param([*RESIZED, leaves()], {OTHER: PENDING}, id='resize: source node removed before'),
    pytest.param(
        [*RESIZED, leaves(OTHER)], {HOST: CONFIRMED}, id='resize: destination node removed before'
    ),
    pytest.param(
        [*RESIZED, claims(OTHER, RESIZE)],
        {HOST: CONFIRMED, OTHER: PENDING},
        id='resize: claimed again',
    ),
    pytest.param(
        [*RESIZED, claims(THIRD, RESIZE)],
        {HOST: CONFIRMED, THIRD: PENDING},
        id='resize: decided again',
    ),
    pytest.param(
        [*RESIZED, has(OTHER)], {HOST: CONFIRMED, OTHER: CONFIRMED}, id='resize: told of there'
    ),
    pytest.param(
        [*THERE, lists(HOST, A)], {HOST: CONFIRMED, OTHER: CONFIRMED}, id='resize: on both'
    ),
    pytest.param(
        [*THERE, lists(OTHER, A)], {HOST: CONFIRMED, OTHER: CONFIRMED}, id='resize: still there'
    ),
    pytest.param(
        [*THERE, stays()], {HOST: CONFIRMED, OTHER: CONFIRMED}, id='resize: source confirmed again'
    ),
    pytest.param([*THERE, ends(OTHER)], {HOST: CONFIRMED}, id='resize: ended there'),
    pytest.param([*THERE, ends()], {OTHER: CONFIRMED}, id='resize: source ended'),
    pytest.param(
        [*RESIZED, claims(THIRD, RESIZE, leaving=OTHER)],
        {HOST: CONFIRMED, THIRD: PENDING},
        id='resize: alternate',
    ),
    pytest.param(
        [*THERE, lists(HOST), lists(OTHER)], {HOST: CONFIRMED}, id='resize: deleted there'
    ),
    pytest.param(
        [*THERE, lists(OTHER), lists(HOST)], {HOST: CONFIRMED}, id='resize: on its way back'
    ),
    pytest.param(
        [*THERE, lists(OTHER), time_passes, lists(HOST, now_s=LATE_S)],
        {},
        id='resize: deleted on both',
    ),
    pytest.param([*THERE, leaves()], {OTHER: CONFIRMED}, id='resize: source node removed'),
    pytest.param(
        [*THERE, leaves(OTHER)], {HOST: CONFIRMED}, id='resize: destination node removed'
    ),
    pytest.param(
        [*BUILT, claims(OTHER, MIGRATION), lists(OTHER, A), lists(HOST)],
        {HOST: CONFIRMED, OTHER: CONFIRMED},
        id='migration: as a resize',
    ),
    pytest.param(
        [
            *BUILT,
            claims(OTHER, LIVE_MIGRATION),
            lists(OTHER, A),
            lists(HOST),
            claims(THIRD, RESIZE),
            stays(OTHER),
        ],
        {OTHER: CONFIRMED, THIRD: PENDING},
        id='resize: the move before it is confirmed late',
    ),
    # Other moves.
    pytest.param(
        [*BUILT, claims(OTHER, LIVE_MIGRATION), lists(HOST, A)],
        {HOST: CONFIRMED, OTHER: PENDING},
        id='live migration: both are claimed',
    ),
    pytest.param(
        [*BUILT, claims(OTHER, LIVE_MIGRATION), lists(OTHER, A), lists(HOST)],
        {OTHER: CONFIRMED},
        id='live migration: settled by reports',
    ),
    pytest.param(
        [*BUILT, claims(OTHER, LIVE_MIGRATION), lists(OTHER, A), lists(HOST), goes_back],
        {OTHER: CONFIRMED},
        id='live migration: nowhere to go back to',
    ),
    pytest.param(
        [*BUILT, claims(OTHER, LIVE_MIGRATION), goes_back],
        {HOST: CONFIRMED},
        id='live migration: reverted',
    ),
    pytest.param(
        [*BUILT, claims(OTHER, LIVE_MIGRATION), lists(HOST)],
        {OTHER: PENDING},
        id='live migration: deleted before it came',
    ),
    pytest.param(
        [*BUILT, claims(OTHER, EVACUATION), lists(OTHER, A)],
        {HOST: CONFIRMED, OTHER: CONFIRMED},
        id='evacuation: source is silent',
    ),
    pytest.param(
        [*BUILT, claims(OTHER, EVACUATION), lists(OTHER, A), lists(HOST)],
        {OTHER: CONFIRMED},
        id='evacuation: source is back',
    ),
    pytest.param(
        [*BUILT, claims(OTHER, EVACUATION), stays(OTHER)],
        {OTHER: CONFIRMED},
        id='evacuation: confirmed',
    ),
    pytest.param(
        [*BUILT, claims(OTHER), lists(OTHER, A), lists(HOST)],
        {OTHER: CONFIRMED},
        id='a move that nobody named is settled by reports',
    ),
]
# What the consumer has on its node, which it does not leave.
IN_PLACE = [
    pytest.param([*GROWING], TOGETHER, id='both sizes are held'),
    pytest.param(
        [*GROWING, claims(size={VCPU: 3})], TOGETHER, id='while another size is asked for'
    ),
    pytest.param([*GROWING, lists(HOST, A)], TOGETHER, id='until somebody settles it'),
    pytest.param([*GROWING, has()], TOGETHER, id='a message settles nothing'),
    pytest.param([*GROWING, says_nothing()], TOGETHER, id='nor does a report without a list'),
    pytest.param([*GROWING, leaves()], None, id='node removed meanwhile'),
    pytest.param([*GROWING, stays()], LARGE, id='confirmed'),
    pytest.param([*GROWING, goes_back], SMALL, id='reverted'),
    pytest.param([*GROWING, stays(), goes_back], LARGE, id='too late to go back'),
    pytest.param(
        [*GROWING, time_passes], TOGETHER, id='its time is up, the node has not reported'
    ),
    pytest.param([*GROWING, lists(HOST, A, now_s=LATE_S)], TOGETHER, id='its time is up'),
    pytest.param(
        [*GROWING, lists(HOST, A, now_s=LATE_S, held={A: LARGE})], TOGETHER, id='and it has grown'
    ),
    pytest.param(
        [*GROWING, time_passes, lists(HOST, A, now_s=LATE_S, held={A: SMALL})],
        SMALL,
        id='and it has not grown',
    ),
    pytest.param([*GROWING, lists(HOST)], None, id='deleted'),
    pytest.param([*GROWING, ends()], None, id='ended'),
    pytest.param([*GROWING, claims(OTHER, leaving=HOST)], SMALL, id='failed, and goes elsewhere'),
    pytest.param([*GROWING, claims(OTHER)], TOGETHER, id='goes elsewhere beside'),
]


class Lifecycle:
    def run(self, store, steps):
        ready(store, HOST, OTHER, THIRD)
        for number, step in enumerate(steps):
            store.clock = lambda at_s=NOW + number: at_s
            step(store)
        return store.claims()

    @pytest.mark.parametrize('steps, states', TABLE)
    def test_every_event(self, store, steps, states):
        found = self.run(store, steps)
        assert {one.node_uuid: one.state for one in found} == {
            node(host): of for host, of in states.items()
        }
        assert {one.consumer_uuid for one in found} <= {A}

    @pytest.mark.parametrize('steps, amounts', IN_PLACE)
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
