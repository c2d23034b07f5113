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
"""Every order of events in small worlds: no promise is broken, and a rule that is taken out is
missed.

A million worlds; the gate goes through a quarter of them, the nearest ones, and a thorough run
through ten times as many.
"""

import dataclasses
import functools
from unittest import mock

import pytest

from nova_sched.claim import Claim
from nova_sched.claims import ClaimSelector, guards, judge, reconcile
from nova_sched.engine import place
from nova_sched.engine.claim_service import ClaimService
from nova_sched.state.report import ReportOrder
from nova_sched.tests.cases import IS_BRIEF, IS_THOROUGH
from nova_sched.tests.explorer.books import (
    APART,
    BARE,
    DEVICE,
    MIRROR,
    NUMBERED,
    PINNED,
    UNNUMBERED,
    Books,
)
from nova_sched.tests.explorer.search import explore
from nova_sched.tests.explorer.world import Scope, World

MORE = 10 if IS_THOROUGH else 0.25 if IS_BRIEF else 1

ONE = Scope(consumers=1, time_passes=1)
QUIET = {'doubles': False, 'calls': 1}  # where reports are what a scope is about
ONE_DEVICE = Scope(consumers=2, schedulers=2, wants=(DEVICE, DEVICE), doubles=False)
CPUS = Scope(consumers=2, schedulers=2, wants=(PINNED, PINNED), doubles=False)
GROUP = Scope(
    consumers=2, nodes=2, schedulers=2, wants=(APART, APART), doubles=False, double_reports=False
)
ALTERNATES = Scope(consumers=1, nodes=2, alternates=True, aborts=False, double_reports=False)
RESIZES = Scope(consumers=2, resize=True, deletes=False, aborts=False)
MOVES = Scope(consumers=1, nodes=2, moves=('migration',), aborts=False)


def placed(move, **more):
    how = {'aborts': False, 'deletes': False, 'reports': 0, **more}
    return Scope(consumers=1, runs=True, nodes=2, schedulers=2, moves=(move,), selects=True, **how)


UNNAMED = placed('live-migration', unnamed=True, resize=True, reports=1, double_reports=False)
THREE = Scope(consumers=3, nodes=2, schedulers=2, wants=(DEVICE,))
TWO_NODES = dataclasses.replace(THREE, consumers=1)
REBUILD = Scope(consumers=1, rebuilds=1, reports=2, aborts=False, **QUIET)
SCOPES = {
    'one server': (ONE, 60_000),
    'one server that comes again': (
        Scope(
            consumers=1,
            nodes=2,
            schedulers=2,
            again=True,
            aborts=False,
            doubles=False,
            double_reports=False,
        ),
        120_000,
    ),
    'calls that name nothing': (Scope(consumers=1, names=False, resize=True), 80_000),
    'two servers': (Scope(), 100_000),
    'three servers, two nodes, two schedulers': (THREE, 100_000),
    'one device': (ONE_DEVICE, 80_000),
    'two CPUs': (CPUS, 50_000),
    'a server group': (GROUP, 50_000),
    'alternates': (ALTERNATES, 40_000),
    'resizes': (RESIZES, 100_000),
    'resizes beside what nobody claims': (
        Scope(consumers=1, capacity=4, stranger=1, resize=True, **QUIET),
        12_000,
    ),
    'a resize, and two schedulers': (Scope(consumers=1, schedulers=2, resize=True), 100_000),
    'migrations': (MOVES, 100_000),
    # Without reports it goes deeper.
    'calls of one migration after another': (
        Scope(consumers=1, nodes=2, moves=('migration',), aborts=False, deletes=False, reports=0),
        12_000,
    ),
    'live migrations': (
        Scope(consumers=1, nodes=2, moves=('live-migration',), aborts=False, **QUIET),
        60_000,
    ),
    'migrations where schedulers choose the node': (placed('migration'), 60_000),
    'live migrations where they do': (placed('live-migration'), 60_000),
    'resizes where they do': (placed('resize', resize=True), 100_000),
    'live migrations where they do, and nodes report': (
        placed('live-migration', reports=1, **QUIET),
        60_000,
    ),
    'moves that nobody names, and nodes report': (UNNAMED, 100_000),
    'confirmations that name nothing among them': (
        dataclasses.replace(UNNAMED, schedulers=1, resize=False, names=False, doubles=False),
        30_000,
    ),
    'a node is rebuilt': (REBUILD, 12_000),
    'a node is removed': (Scope(consumers=1, stops=1, removals=1, doubles=False), 80_000),
    'two schedulers read a node': (
        Scope(consumers=1, schedulers=2, sender=MIRROR, reports=2, aborts=False, **QUIET),
        12_000,
    ),
    'reports with a list alone': (
        Scope(consumers=2, sender=UNNUMBERED, aborts=False, **QUIET),
        10_000,
    ),
    # The same old totals twice look like two: see the manual.
    'reports with totals alone': (
        Scope(consumers=1, sender=BARE, capacity=3, stranger=1, double_reports=False, **QUIET),
        10_000,
    ),
    'agents of earlier releases': (Scope(consumers=2, sender=NUMBERED, **QUIET), 20_000),
}


BOOKS = functools.cache(Books)  # one for all scopes in which the same is there


def ways(found):
    """Each broken promise, and the way to it."""
    return '\n'.join(
        '\n'.join([f'{promise}:', *(f'  {step}. {text}' for step, text in enumerate(way, 1))])
        for promise, way in found.wrong
    )


@pytest.mark.parametrize('name', SCOPES)
def test_no_order_of_events_breaks_a_promise(name, record_property):
    scope, most = SCOPES[name]
    found = explore(World(scope, BOOKS), int(most * MORE))
    figures = (
        f'{found.states} worlds, {found.depth} events deep, {found.seconds:.1f} s of CPU time'
    )
    record_property('figures', figures)
    assert not found.wrong, f'{figures}\n{ways(found)}'


TAKE = judge.NodeUsage.take


def subtract_twice(usage, resources, sign=1):
    TAKE(usage, resources, sign if sign > 0 else 2 * sign)


PLANTED = [
    (judge, '_is_current', lambda *_: True, ONE_DEVICE),
    (judge, '_is_current', lambda *_: True, CPUS),
    (guards.ServerGroupMembers, 'admits', lambda self, consumer, node, host: True, GROUP),
    (ClaimService, '_made_before', lambda self, *known: None, ALTERNATES),
    (judge.NodeUsage, 'take', subtract_twice, dataclasses.replace(RESIZES, schedulers=2, **QUIET)),
    (reconcile.Before, 'has_seen', lambda self, report, claim: True, ONE),
    (ReportOrder, 'is_of_later_life', lambda self, boot, made_at: True, REBUILD),
    (judge, 'moved', lambda placement, held: set(), placed('live-migration', resize=True)),
    (place.Placer, '_check_moves', lambda self, *known: None, placed('live-migration')),
    (ClaimSelector, 'covers', lambda self, claim: True, ONE),
    (place, 'is_made_by', lambda request, request_id, claim, node: False, TWO_NODES),
    (Claim, 'keeps_source', False, dataclasses.replace(MOVES, **QUIET)),
    (Claim, 'is_on_its_way', property(lambda self: bool(self.move)), UNNAMED),
]


@pytest.mark.parametrize('of, name, wrong, scope', PLANTED, ids=[one[1] for one in PLANTED])
def test_a_rule_that_is_taken_out_is_missed(of, name, wrong, scope):
    with mock.patch.object(of, name, wrong):
        found = explore(World(scope), 150_000)
    assert found.wrong, f'{found.states} worlds, and nothing is wrong without {name}'
