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
"""Tests of what a node's report says about the claims on it."""

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.claim import (
    CONFIRMED,
    DISK_GB,
    MEMORY_MB,
    PCPU,
    PENDING,
    PLANNED,
    VCPU,
    Claim,
    Resizing,
)
from nova_sched.claims.reconcile import NEW_NODE, Before, absent, settle
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.state.report import Inventory, ReportOrder
from nova_sched.tests.builders import report, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each

A, B, C, D = 'abcd'
KNOWS_ALL = ReportOrder(seen=0)  # of a node whose generation is 0
AD = frozenset([A, D])


def claims(**states):
    return {
        consumer: Claim(consumer, 'node', {VCPU: 2}, state) for consumer, state in states.items()
    }


@pytest.mark.parametrize(
    'listed, before, confirmed, released',
    [
        pytest.param('a', {A: PENDING}, 'a', '', id='listed'),
        pytest.param('a', {A: PLANNED}, 'a', '', id='planned and listed'),
        pytest.param('a', {A: CONFIRMED}, '', '', id='still listed'),
        pytest.param('', {A: CONFIRMED}, '', 'a', id='no longer listed'),
        pytest.param('', {A: PENDING, B: PLANNED}, '', '', id='not listed yet'),
        pytest.param(
            'd', {A: CONFIRMED, B: PENDING, C: CONFIRMED}, '', 'ac', id='a stranger only'
        ),
        pytest.param('abd', {A: CONFIRMED, B: PENDING, C: CONFIRMED}, 'b', 'c', id='all at once'),
        pytest.param(None, {A: CONFIRMED, B: PENDING, C: PLANNED}, '', '', id='no list'),
    ],
)
def test_states(listed, before, confirmed, released):
    instances = None if listed is None else frozenset(listed)
    made = claims(**before)
    settled = settle(report(instances=instances, order=KNOWS_ALL), made)
    assert ''.join(one.consumer_uuid for one in settled.changed(made)) == confirmed
    assert all(one.is_confirmed for one in settled.changed(made))
    assert ''.join(one.consumer_uuid for one in settled.ended) == released
    assert settled.claims.keys() == before.keys() - set(released)


@pytest.mark.parametrize(
    'changed_at, order, last, ends',
    [
        pytest.param(7, (7,), {}, True, id='its sender knew of the last change'),
        pytest.param(7, (6,), {}, False, id='its sender did not'),
        pytest.param(7, (9,), {}, True, id='nor of a later change of another claim'),
        pytest.param(7, (11,), {}, False, id='it knew another database'),
        pytest.param(0, (0,), {}, True, id='from before the upgrade'),
        pytest.param(7, (6, 1, 2), {'listed': A}, False, id='its own word does not count then'),
        pytest.param(7, (None, 1, 2), {'listed': A}, True, id='the one before had listed it'),
        pytest.param(7, (None, 1, 2), {'listed': B}, False, id='the one before had not'),
        pytest.param(7, (None, 1, 2), {'listed': None}, False, id='the one before had no list'),
        pytest.param(9, (None, 1, 2), {'listed': A}, False, id='changed since the one before'),
        pytest.param(7, (None, 2, 1), {'listed': A}, True, id='after a restart'),
        pytest.param(7, (None, 1, 1), {'listed': A}, False, id='the same number'),
        pytest.param(7, (), {'listed': A}, False, id='it has no number'),
        pytest.param(
            7,
            (None, 1, 2),
            {'listed': A, 'order': ReportOrder()},
            False,
            id='nor had the last one',
        ),
    ],
)
def test_silence_ends_a_claim_only_if_it_is_evidently_newer(changed_at, order, last, ends):
    """The node is at generation 10, and its last report made it generation 8."""
    known = {'listed': None, 'order': ReportOrder(boot=1, sequence=1)} | last
    listed = known['listed'] and frozenset(known['listed'])
    before = Before(10, 8, known['order'], lambda: listed)
    held = {A: Claim(A, 'node', {VCPU: 2}, CONFIRMED, changed_at=changed_at)}
    told = report(instances=frozenset(), order=ReportOrder(*order))
    assert absent(told, held, before) == ([A] if ends else [])
    assert absent(report(order=ReportOrder(*order)), held, before) == []
    pending = {A: dataclasses.replace(held[A], state=PENDING)}
    assert absent(told, pending, before) == []
    listing = report(instances=frozenset(A), order=ReportOrder(*order))
    assert absent(listing, held, before) == []
    is_confirmed = settle(listing, pending, before=before).claims[A].is_confirmed
    assert is_confirmed == (order[:1] in ((), (None,)) or ends)


class OneNode:
    """A node, its store, and the reports between them: late, lost or in another order.

    A server is claimed, built, confirmed by its caller, and at last stopped, by chance. An agent
    with ``tells`` says what it has seen.
    """

    def __init__(self, seed, tells):
        self.chance, self.tells = random.Random(seed), tells
        self.before, self.held = NEW_NODE, {}
        self.runs, self.on_the_way = set(), []
        self.told, self.sequence, self.ended = 0, 0, 0

    def step(self):
        self.chance.choice(
            [self.claim, self.build, self.confirm, self.stop, self.look, self.arrive, self.arrive]
        )()

    def _write(self, claim):
        generation = self.before.generation + 1
        self.before = self.before._replace(generation=generation)
        self.held[claim.consumer_uuid] = dataclasses.replace(claim, changed_at=generation)

    def claim(self):
        consumer = self.chance.choice('abc')
        if consumer not in self.runs and consumer not in self.held:
            self._write(Claim(consumer, 'node', {VCPU: 1}))

    def build(self):
        self.runs |= {one for one, claim in self.held.items()
                      if not claim.is_confirmed and self.chance.random() < 0.5}  # fmt: skip

    def confirm(self):
        for consumer in self.runs & self.held.keys():
            if not self.held[consumer].is_confirmed:
                self._write(self.held[consumer].confirmed())

    def stop(self):
        self.runs -= {one for one in self.held if self.held[one].is_confirmed
                      and self.chance.random() < 0.5}  # fmt: skip

    def look(self):
        self.sequence += 1
        order = ReportOrder(self.told if self.tells else None, 1, self.sequence)
        self.on_the_way.append(report(instances=frozenset(self.runs), order=order))

    def arrive(self):
        if self.on_the_way:
            place = self.chance.randrange(len(self.on_the_way))
            self.take(self.on_the_way.pop(place), self.chance.random() < 0.7)

    def take(self, one, is_answered=True):
        if one.order.is_after(self.before.order, self.before.reported_at):
            settled = settle(one, self.held, before=self.before)
            self.ended += len(settled.ended)
            generation = self.before.generation
            generation += bool(settled.ended or settled.changed(self.held))
            self.held = dict(settled.claims)
            self.before = Before(generation, generation, one.order, lambda: one.instances)
        if is_answered:
            self.told = max(self.told, self.before.generation)

    def settle(self):
        """All is quiet, and two reports arrive."""
        self.confirm()
        for _ in range(2):
            self.look()
            self.take(self.on_the_way.pop())


@pytest.mark.parametrize('tells', [True, False], ids=['tells what it has seen', 'numbers alone'])
def test_whatever_happens_to_reports_a_server_that_runs_keeps_its_claim(tells):
    ended = 0
    for seed in range(cases(300)):
        world, had = OneNode(seed, tells), set()
        for _ in range(80):
            had |= {
                one for one in world.runs if one in world.held and world.held[one].is_confirmed
            }
            world.step()
            had &= world.runs
            assert had <= world.held.keys(), f'seed {seed}'
        world.settle()
        confirmed = {one for one in world.held if world.held[one].is_confirmed}
        if tells:
            assert confirmed == world.runs & world.held.keys(), f'seed {seed}'
        ended += world.ended
    assert ended > 50


@pytest.mark.parametrize(
    'listed, num_instances, before, strangers',
    [
        pytest.param('ad', 7, {A: CONFIRMED}, 1, id='listed without a claim'),
        pytest.param('ab', 7, {A: CONFIRMED, B: PENDING}, 0, id='all claimed'),
        pytest.param('', 7, {A: CONFIRMED}, 0, id='the list counts, not the number'),
        pytest.param(None, 3, {A: CONFIRMED, B: PENDING}, 2, id='more than confirmed'),
        pytest.param(None, 0, {A: CONFIRMED}, 0, id='never negative'),
    ],
)
def test_foreign_instances(listed, num_instances, before, strangers):
    instances = None if listed is None else frozenset(listed)
    words = report(instances=instances, num_instances=num_instances)
    assert settle(words, claims(**before)).foreign_instances == strangers


@pytest.mark.parametrize(
    'words, explained, foreign',
    [
        pytest.param({'vcpus_used': 3}, [], {VCPU: 3}, id='nothing explains it'),
        pytest.param({'vcpus_used': 3}, [{VCPU: 2}], {VCPU: 1}, id='in part'),
        pytest.param({'vcpus_used': 3}, [{VCPU: 2}, {VCPU: 1}], {}, id='fully'),
        pytest.param({'vcpus_used': 3}, [{VCPU: 9}], {}, id='never negative'),
        pytest.param(
            {'vcpus_used': 3, 'vcpus_reserved': 2}, [], {VCPU: 1}, id='reserved is not foreign'
        ),
        pytest.param(
            {'vcpus_used': 1, 'vcpus_reserved': 2}, [{VCPU: 1}], {}, id='nor is less than reserved'
        ),
        pytest.param({'vcpus_used': 3}, [{MEMORY_MB: 3}], {VCPU: 3}, id='class by class'),
        pytest.param(
            {'vcpus_used': 3}, [{PCPU: 2}], {VCPU: 1}, id='pinned CPUs are among the vCPUs'
        ),
        pytest.param(
            {'used': {VCPU: 3, PCPU: 2}},
            [{PCPU: 2}],
            {VCPU: 3},
            id='unless the node counts them apart',
        ),
        pytest.param(
            {'used': {'CUSTOM_X': 1}, 'inventories': {}},
            [],
            {'CUSTOM_X': 1},
            id='without inventory',
        ),
        pytest.param({'used': {}}, [{VCPU: 2}], {}, id='a node that reports no use'),
    ],
)
def test_foreign_use(words, explained, foreign):
    held = {str(number): Claim(str(number), 'node', resources, CONFIRMED)
            for number, resources in enumerate(explained)}  # fmt: skip
    assert settle(report(**words), held).foreign == foreign


OPEN = Resizing({VCPU: 2}, {VCPU: 4})
TWO, FOUR = {VCPU: 2}, {VCPU: 4}


@each(
    'words, held, claim, last, unclaimed',
    [
        # The amounts of each instance: D is none of a claim.
        pytest.param({'vcpus_used': 6}, {A: TWO, D: FOUR}, {}, {}, {D: FOUR}, id='by instance'),
        pytest.param({'vcpus_used': 4}, {D: FOUR}, {}, {}, {D: FOUR}, id='not there yet'),
        pytest.param({}, {A: TWO, D: FOUR}, {}, {}, {D: FOUR}, id='more than the total'),
        pytest.param({'vcpus_used': 7}, {A: TWO, D: FOUR}, {}, {}, {D: FOUR, '': {VCPU: 1}},
                     id='used by no instance'),
        pytest.param({'vcpus_used': 8}, {A: FOUR, D: FOUR}, {}, {}, {D: FOUR, '': TWO},
                     id='more than its claim'),
        pytest.param({'vcpus_used': 5}, {A: {VCPU: 1}, D: FOUR}, {}, {}, {D: FOUR},
                     id='less than its claim'),
        pytest.param({'vcpus_used': 6}, {A: TWO, D: FOUR}, {'resizing': OPEN}, {}, {D: FOUR},
                     id='not resized yet'),
        pytest.param({'vcpus_used': 8}, {A: FOUR, D: FOUR}, {'resizing': OPEN}, {}, {D: FOUR},
                     id='resized'),
        pytest.param({'vcpus_used': 6}, {A: TWO, D: FOUR}, {}, {'changed': True}, {D: FOUR},
                     id='just claimed'),
        pytest.param({'vcpus_used': 2}, {A: TWO, D: {}}, {}, {}, {D: {}}, id='an empty row'),
        pytest.param({'vcpus_used': 2}, {D: {PCPU: 2}}, {}, {}, {D: TWO}, id='pinned, no PCPU'),
        pytest.param({'vcpus_used': 3, 'vcpus_reserved': 1}, {D: TWO}, {}, {}, {D: TWO},
                     id='the reserve'),
        # A list and totals.
        pytest.param({'vcpus_used': 6}, AD, {}, {}, {D: {}, '': FOUR}, id='listed'),
        pytest.param({'vcpus_used': 6}, AD, {}, {'changed': True}, {D: {}, '': {VCPU: 6}},
                     id='listed, and the claim may be newer'),
        pytest.param({'vcpus_used': 6}, AD, {}, {'changed': True, 'unclaimed': {D: FOUR}},
                     {D: {}, '': FOUR}, id='as much as before'),
        pytest.param({'vcpus_used': 6}, AD, {}, {'changed': True, 'unclaimed': {B: FOUR}},
                     {D: {}, '': {VCPU: 6}}, id='by another instance before'),
        pytest.param({'vcpus_used': 6}, AD, {}, {'changed': True, 'unclaimed': {D: {VCPU: 3}}},
                     {D: {}, '': {VCPU: 6}}, id='more than before'),
        pytest.param({'vcpus_used': 6}, AD, {}, {'changed': True, 'unclaimed': {D: {VCPU: 7}}},
                     {D: {}, '': {VCPU: 6}}, id='less than before'),
        pytest.param({'vcpus_used': 6}, AD, {}, {'unclaimed': {D: {VCPU: 5}}},
                     {D: {}, '': FOUR}, id='less than before, without a doubt'),
        pytest.param({'vcpus_used': 6}, AD, {'resizing': OPEN}, {'unclaimed': {D: FOUR}},
                     {D: {}, '': FOUR}, id='not resized yet, listed'),
        pytest.param({'vcpus_used': 8}, AD, {'resizing': OPEN}, {'unclaimed': {D: FOUR}},
                     {D: {}, '': FOUR}, id='resized, listed'),
        pytest.param({'vcpus_used': 8}, AD, {'resizing': OPEN}, {}, {D: {}, '': {VCPU: 6}},
                     id='resized, or more by D'),
        # Totals.
        pytest.param({'vcpus_used': 6}, None, {}, {}, {'': FOUR}, id='totals'),
        pytest.param({'vcpus_used': 6}, None, {}, {'changed': True}, {'': {VCPU: 6}},
                     id='totals, and the claim may be newer'),
        pytest.param({'vcpus_used': 6}, None, {'resizing': OPEN}, {}, {'': FOUR},
                     id='totals, not resized yet'),
        pytest.param({'vcpus_used': 8}, None, {'resizing': OPEN}, {}, {'': {VCPU: 6}},
                     id='totals, resized or not'),
        pytest.param({'vcpus_used': 2}, None, {}, {}, {}, id='nothing unclaimed'),
    ],
)  # fmt: skip
def test_unclaimed_rows(words, held, claim, last, unclaimed):
    """A has a confirmed claim of two vCPUs."""
    resources = OPEN.together if 'resizing' in claim else TWO
    made = Claim(
        A, 'node', resources, CONFIRMED, changed_at=2 if 'changed' in last else 1, **claim
    )
    words['instances'] = held if held is None else frozenset(held)
    words['held'] = held if isinstance(held, dict) else None
    settled = settle(
        report(num_instances=2, **words),
        {A: made},
        before=Before(2, 1, unclaimed=last.get('unclaimed', {})),
        moving={(A, node_of('host-0'))},
    )
    assert settled.unclaimed == unclaimed
    strangers = 1 if held is None or D in held else 0
    assert settled.foreign_instances == strangers + (held is None and bool(last))


@given(
    used=st.integers(0, 20),
    reserved=st.integers(0, 8),
    listed=st.none() | st.frozensets(st.sampled_from('abcd')),
    states=st.dictionaries(st.sampled_from('abc'), st.sampled_from([PLANNED, PENDING, CONFIRMED])),
)
def test_nothing_is_counted_twice_and_nothing_is_forgotten(used, reserved, listed, states):
    words = report(
        inventories={VCPU: Inventory(16, reserved)},
        used={VCPU: used},
        instances=listed,
        order=KNOWS_ALL,
    )
    before = claims(**states)
    settled = settle(words, before)
    after = settled.claims
    here = {
        one for one in after if (one in listed if listed is not None else states[one] == CONFIRMED)
    }
    counted = (
        reserved + settled.foreign.get(VCPU, 0) + sum(after[one].resources[VCPU] for one in here)
    )
    assert counted == max(used, reserved + 2 * len(here))
    assert {one.consumer_uuid for one in settled.changed(before)} == (
        {one for one in here if states[one] != CONFIRMED} if listed is not None else set()
    )
    assert {one.consumer_uuid for one in settled.ended} == before.keys() - after.keys()


def node_of(host):
    return uuid_of(f'node {host}')


RESIZED = Resizing({VCPU: 2, DISK_GB: 10}, {VCPU: 3, DISK_GB: 20})


@pytest.mark.parametrize(
    'held, seen, expires_s, resizes',
    [
        pytest.param(RESIZED.old, 5, 11.0, True, id='in time'),
        pytest.param(RESIZED.old, 5, 10.0, True, id='overdue, which nobody has noted'),
        pytest.param(RESIZED.old, 5, 0.0, False, id='overdue'),
        pytest.param(RESIZED.old, 5, None, True, id='without a time'),
        pytest.param(RESIZED.old, 4, 0.0, True, id='overdue, in a report of before'),
        pytest.param(RESIZED.new, 5, 0.0, True, id='overdue, and it has grown'),
        pytest.param(None, 5, 0.0, True, id='overdue, in a report without amounts'),
    ],
)
def test_a_resize_that_is_not_settled_is_taken_back(held, seen, expires_s, resizes):
    """But for a clock alone, which may have jumped, it is not."""
    claim = Claim(
        A,
        'node',
        RESIZED.together,
        CONFIRMED,
        changed_at=5,
        expires_s=expires_s,
        resizing=RESIZED,
    )
    words = report(instances=frozenset([A]), held=held and {A: held}, order=ReportOrder(seen=seen))
    settled = settle(words, {A: claim}, now_s=10.0, before=Before(5, 5))
    assert bool(settled.claims[A].resizing) is resizes


@pytest.mark.parametrize(
    'moving, ends',
    [
        pytest.param(set(), True, id='no move'),
        pytest.param({(A, node_of('host-0'))}, False, id='on a move from here'),
        pytest.param({(A, node_of('host-1'))}, True, id='on a move from elsewhere'),
        pytest.param({(B, node_of('host-0'))}, True, id='another one moves'),
    ],
)
def test_the_source_of_a_move_stays(moving, ends):
    told = report(instances=frozenset(), order=KNOWS_ALL)
    settled = settle(told, claims(**{A: CONFIRMED}), moving)
    assert (A not in settled.claims) == ends


def test_an_instance_that_has_gone_confirms_nothing():
    told = report(instances=frozenset([A]), held={A: {}}, order=KNOWS_ALL)
    assert settle(told, claims(**{A: PENDING})).claims[A].state == PENDING


@pytest.mark.parametrize(
    'held, counted',
    [
        pytest.param({A: {VCPU: 2}}, True, id='with amounts'),
        pytest.param({A: {}}, False, id='without: it has gone'),
        pytest.param(None, True, id='of no instance are amounts told'),
    ],
)
@pytest.mark.parametrize('before', [False, True])
def test_hardware_counts_of_an_instance_with_amounts(before, held, counted):
    parts = HardwareAllocation(devices=('a device',))
    claim = Claim(A, 'node', {VCPU: 2}, CONFIRMED, parts=parts, counted=before)
    told = report(instances=frozenset([A]), held=held, order=KNOWS_ALL)
    settled = settle(told, {A: claim}, before=NEW_NODE)
    assert settled.claims[A].counted is counted


@pytest.mark.parametrize(
    'listed, counted',
    [
        pytest.param('a', True, id='listed'),
        pytest.param(None, True, id='no list'),
        pytest.param('', False, id='moved away: its hardware is claimed, and not in the report'),
    ],
)
def test_hardware_that_the_node_has_freed_is_not_counted(listed, counted):
    parts = HardwareAllocation(devices=('a device',))
    claim = Claim(A, 'node', {VCPU: 2}, CONFIRMED, parts=parts, counted=True)
    told = report(instances=listed if listed is None else frozenset(listed))
    settled = settle(told, {A: claim}, {(A, node_of('host-0'))})
    assert settled.claims[A].uncounted == (() if counted else (parts,))
    assert settled.changed({A: claim}) == ([] if counted else [settled.claims[A]])


@pytest.mark.parametrize(
    'seen, counts',
    [
        pytest.param(7, True, id='its sender has seen the pieces'),
        pytest.param(6, False, id='it is older than the pieces'),
        pytest.param(None, False, id='it does not say'),
    ],
)
def test_new_pieces_are_in_a_report_whose_sender_has_seen_them(seen, counts):
    parts = HardwareAllocation(devices=('a device',))
    claim = Claim(A, 'node', {VCPU: 2}, CONFIRMED, parts=parts, changed_at=7)
    told = report(instances=frozenset([A]), order=ReportOrder(seen=seen))
    settled = settle(told, {A: claim}, before=NEW_NODE._replace(generation=9))
    assert settled.claims[A].uncounted == (() if counts else (parts,))
