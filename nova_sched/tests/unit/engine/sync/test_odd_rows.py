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
"""Tests of rows in the claim store that this release cannot read: each costs its node alone."""

import json

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import PENDING
from nova_sched.claims import ClaimSelector, Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db.tables import CLAIMS, NODES, REPORTS
from nova_sched.tests.builders import NOW, claim, report, request, uuid_of
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.engine.world import World, spreading

HOSTS = 'host-0', 'host-1', 'host-2'
ODD = uuid_of('node host-1')
A, B, C, OLD = (uuid_of(f'server {one}') for one in ('A', 'B', 'C', 'old'))


def _report(change):
    def spoil(session):
        of_node = REPORTS.c.node_uuid == ODD
        text = session.execute(sa.select(REPORTS.c.report).where(of_node)).scalar_one()
        session.execute(sa.update(REPORTS).where(of_node).values(report=change(text)))

    return spoil


def _column(table, key, **values):
    return lambda session: session.execute(sa.update(table).where(key == ODD).values(**values))


def _without(name):
    def change(text):
        plain = json.loads(text)
        del plain[name]
        return json.dumps(plain)

    return change


# What is wrong with the rows of a node, and whether the node can be used nevertheless.
SPOILED = {
    'one fact more': (_report(lambda text: json.dumps({**json.loads(text), 'sockets': 2})), True),
    'a fact less': (_report(_without('inventories')), False),
    'no JSON': (_report(lambda text: text[:20]), False),
    'another type': (_report(lambda text: '[1, 2]'), False),
    'inventories of another form': (
        _report(lambda text: json.dumps({**json.loads(text), 'inventories': {'VCPU': [1] * 9}})),
        False,
    ),
    'no unclaimed usage': (_column(NODES, NODES.c.uuid, unclaimed='{'), False),
    'a claim of unknown amounts': (_column(CLAIMS, CLAIMS.c.node_uuid, resources='2'), False),
    'a claim of unknown parts': (_column(CLAIMS, CLAIMS.c.node_uuid, parts='{"x": 1}'), False),
    'a claim of unknown size': (_column(CLAIMS, CLAIMS.c.node_uuid, resizing='{}'), False),
}


@pytest.fixture
def spoiled(upgraded, request):
    """A store with three nodes of 4 vCPUs. The server OLD has a claim on the second one, and one
    of its rows is odd. Returns the store, and whether the node can be used."""
    engine = cleared(upgraded)
    store = SqlClaimStore(engine, lambda: NOW)
    store.report([report(host, vcpus=4) for host in HOSTS])
    assert store.commit([Placement((claim(OLD, ODD, 1, created_s=NOW, expires_s=NOW + 5),))])[
        0
    ].won
    running = World(SqlClaimStore(engine, lambda: NOW), spreading())
    spoil, is_usable = SPOILED[request.param]
    with engine.begin() as session:
        spoil(session)
        raised = sa.update(NODES).where(NODES.c.uuid == ODD)
        session.execute(raised.values(generation=NODES.c.generation + 1))
    return engine, running, is_usable


def asks(server, vcpus=4):
    return request(instance_uuid=server, vcpus=vcpus)


def host(world, one):
    ((chosen, *_),) = world.place(one)
    return chosen


@pytest.mark.parametrize('spoiled', SPOILED, indirect=True)
def test_a_new_scheduler_starts_and_uses_the_other_nodes(spoiled):
    engine, _, is_usable = spoiled
    new = World(SqlClaimStore(engine, lambda: NOW), spreading())
    new.state_sync.refresh()
    assert {one.host for one in new.cluster} == ({*HOSTS} if is_usable else {'host-0', 'host-2'})
    assert {host(new, asks(A)), host(new, asks(B))} == {'host-0', 'host-2'}


@pytest.mark.parametrize('spoiled', SPOILED, indirect=True)
def test_a_running_scheduler_goes_on_with_what_it_knows(spoiled):
    _, running, _ = spoiled
    running.store.report([report('host-0', vcpus=8)])
    running.state_sync.refresh()
    assert {one.host for one in running.cluster} == {*HOSTS}
    assert host(running, asks(A, 8)) == 'host-0'
    assert host(running, asks(B)) == 'host-2'
    with pytest.raises(errors.NoValidHost):
        host(running, asks(C))


@pytest.mark.parametrize('spoiled', SPOILED, indirect=True)
def test_other_claims_end_and_reports_mend_the_node(spoiled):
    _, running, _ = spoiled
    store = running.store
    other = claim(A, uuid_of('node host-0'), 1, created_s=NOW, expires_s=NOW + 5)
    assert store.commit([Placement((other,))])[0].won
    store.expire(NOW + 6)
    (facts,) = store.read_nodes([other.node_uuid]).nodes
    assert other.uuid not in {claim.uuid for claim in facts.claims}


def test_what_cannot_be_applied_is_not_half_applied(upgraded):
    """A row that can be read, and breaks the host state: nothing of it stays."""
    store = SqlClaimStore(cleared(upgraded), lambda: NOW)
    store.report([report(host, vcpus=4) for host in HOSTS])
    world = World(store, spreading())
    (facts,) = store.read_nodes([ODD]).nodes
    put = world.cluster._set_use

    def fails(node, claims, *rest):
        put(node, (), *rest)
        if node.uuid == ODD:
            raise KeyError('of a later release')

    world.cluster._set_use = fails
    store.report([report(host, vcpus=2) for host in HOSTS])
    world.state_sync.refresh()
    assert {one.host for one in world.cluster} == {'host-0', 'host-2'}
    world.cluster._set_use = put
    world.state_sync.refresh()
    assert {one.host for one in world.cluster} == {*HOSTS}
    assert world.cluster.node(facts.report.node_uuid).report.inventories['VCPU'].total == 2


@pytest.mark.parametrize(
    'error', [errors.StoreUnavailable('away'), errors.StoreBusy('locked'), KeyError('x')]
)
def test_what_the_store_has_done_is_told_although_it_cannot_be_read(upgraded, error):
    """The read after a change fails: its caller is answered, and the node is read later."""
    engine = cleared(upgraded)
    store = SqlClaimStore(engine, lambda: NOW)
    store.report([report('host-0', vcpus=4)])
    world = World(store, spreading())
    read_nodes = store.read_nodes

    def fails(nodes):
        raise error

    store.read_nodes = fails
    made = world.call(world.claim_service.claim, asks(A, 2), 'host-0', 'host-0')
    (ended,) = world.call(world.claim_service.abort_claim, A, None, ClaimSelector(made.name))
    assert ended.uuid == made.uuid
    store.read_nodes = read_nodes
    world.state_sync.heal()
    assert world.cluster.node(uuid_of('node host-0')).claims == {}
    assert made.state == PENDING
