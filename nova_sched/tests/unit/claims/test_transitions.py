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
"""The manual's table of states, events and transitions is what the stores do, and all of it is
tested."""

import csv
from pathlib import Path

import pytest

from nova_sched.claim import PLANNED
from nova_sched.tests.builders import still
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.claims.batteries.steps import A
from nova_sched.tests.unit.claims.batteries.transactions.lifecycle import (
    IN_PLACE,
    LATE_S,
    SMALL,
    TABLE,
    Lifecycle,
)

PAGE = Path(__file__).parents[4] / 'doc' / 'source' / 'claims.csv'
ROWS = [*TABLE.values(), *IN_PLACE.values()]


def state_of(claims):
    """The word that the table has for the claims of one consumer, the oldest first."""
    if not claims:
        return 'none'
    source, target = claims[0], claims[-1]
    if source is not target:
        return 'moved' if target.is_confirmed else 'moving'
    if source.resizing:
        return 'resizing'
    return source.state


class Recorder:
    """A store that notes what each event makes of the consumer: (state, event, state)."""

    def __init__(self):
        self.seen = set()
        self._store = MemoryClaimStore(still)

    @property
    def clock(self):
        return self._store.clock

    @clock.setter
    def clock(self, clock):
        self._store.clock = clock

    def __getattr__(self, name):
        method = getattr(self._store, name)
        event = getattr(self, f'on_{name}', None)
        return method if event is None else lambda *args: self._noted(method, event, args)

    def _noted(self, method, event, args):
        before = self._store.claims(A)
        what = event(before, *args)
        found = method(*args)
        if what is not None:
            self.seen.add((state_of(before), what, state_of(self._store.claims(A))))
        return found

    # The events, in the words of the table.

    def on_commit(self, claims, placements):
        (made,) = placements[0].claims
        if made.consumer_uuid != A:
            return 'a claim for the instance of the member'
        if made.state == PLANNED:
            return 'a plan'
        if placements[0].releases:
            return 'a claim in place of the failed one'
        return 'a claim' if not claims else f'a claim on {place(claims, made.node_uuid)}'

    def on_report(self, claims, reports, now_s):
        report, *_ = reports
        if not claims:
            return 'a node lists it' if report.instances else None
        facts = {one.report.node_uuid: one.report for one in self._store.changes({}).nodes}
        before = facts.get(report.node_uuid)
        if before is None:
            return 'a new node reports under the name of its node'
        if before.host != report.host:
            return 'its node reports under another name'
        where = place(claims, report.node_uuid)
        if report.instances is None:
            return f'{where} reports no list'
        if A in report.instances:
            size = ' with its old size' if report.held == {A: SMALL} else ''
            return f'{where} lists it{size}' + (' when the time is up' if now_s >= LATE_S else '')
        if claims[0].awaited:
            return f'{where} does not list it yet: it may be on its way back from a move'
        return f'{where} does not list it' + (kind(claims) if where == 'the source' else '')

    def on_confirm(self, claims, consumers, node_uuids):
        return f'a message: it is on {place(claims, node_uuids[0])}'

    def on_finish(self, claims, consumer, node_uuids):
        return f'confirm_claim of {place(claims, node_uuids[0])}'

    def on_revert(self, claims, consumer):
        return 'revert_claim'

    def on_release(self, claims, keys):
        if keys[0][0] != A:
            return None
        return f'abort_claim on {place(claims, keys[0][1])}'

    def on_expire(self, claims, now_s):
        if claims[0].expires_s is not None and claims[0].expires_s > now_s:
            return None
        return 'the time is up'

    def on_renew(self, claims, uuid, expires_s):
        return 'groups.renew'

    def on_remove_node(self, claims, uuid, generation):
        return f'{place(claims, uuid)} is removed'


def place(claims, node_uuid):
    """What a node is to the consumer."""
    nodes = [claim.node_uuid for claim in claims]
    if node_uuid not in nodes:
        return 'another node'
    if len(nodes) == 1:
        return 'its node'
    return 'the source' if node_uuid == nodes[0] else 'the destination'


def kind(claims):
    return ' (resize, migration)' if claims[-1].keeps_source else ' (other moves)'


@pytest.fixture(scope='module')
def told():
    """What the table tells: (state, event, state)."""
    with PAGE.open() as file:
        return [tuple(cell.replace('`', '') for cell in row) for row in csv.reader(file)]


@pytest.fixture(scope='module')
def seen():
    """What the rows of the battery have seen."""
    found = set()
    for steps, _ in ROWS:
        recorder = Recorder()
        Lifecycle().run(recorder, steps)
        found |= recorder.seen
    return found


def test_the_table_tells_what_happens(told, seen):
    assert seen - set(told) == set()


def test_every_transition_of_the_table_is_tested(told, seen):
    assert set(told) - seen == set()


def test_the_table_has_no_event_twice(told):
    assert len({row[:2] for row in told}) == len(told)
