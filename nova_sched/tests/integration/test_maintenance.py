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
"""Audit, repairs and purge on database servers, while schedulers work on the same database."""

import contextlib
import itertools
import random
import threading
import time
import uuid
from concurrent import futures

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.claims import Placement, ServerGroupPolicy, ServiceFacts
from nova_sched.claims.audit import audit
from nova_sched.claims.findings import DRIFT, EMPTY_GROUP, MARK, ORPHAN, AuditFinding
from nova_sched.claims.maintenance import (
    ClaimMaintenance,
    HasClaims,
    HasReported,
    StillThere,
)
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.claims.sql_groups import forget_groups
from nova_sched.db.transactions import Sessions
from nova_sched.state.request import AFFINITY, ANTI_AFFINITY
from nova_sched.tests.builders import NOW, claim, guarded, report, still, uuid_of
from nova_sched.tests.stores import assert_clean, faults
from nova_sched.tests.unit.claims.databases import cleared

HOSTS = [f'host-{number}' for number in range(3)]
NODES = [uuid_of(f'node {host}') for host in HOSTS]
GROUPS = [
    ServerGroupPolicy(uuid_of('together'), AFFINITY),
    ServerGroupPolicy(uuid_of('apart'), ANTI_AFFINITY, 2),
]
A, B = uuid_of('a'), uuid_of('b')


@pytest.fixture
def database(upgraded):
    """Three hosts, and nothing claimed on them."""
    made = cleared(upgraded)
    SqlClaimStore(made, still).report([report(host, instances=frozenset()) for host in HOSTS], NOW)
    return made


def run(database, statement):
    with database.begin() as connection:
        connection.execute(sa.text(statement))


COPY = (
    'INSERT INTO claims (uuid, consumer_uuid, node_uuid, state, unconfirmed, resources, created_s)'
    " SELECT 'lost', 'nobody', 'nowhere', state, 'nobody', resources, created_s FROM claims"
    f" WHERE consumer_uuid = '{A}'"
)


@pytest.mark.parametrize(
    'statement, kind',
    [
        pytest.param(
            f"UPDATE nodes SET used = '{{\"VCPU\": 5}}' WHERE uuid = '{NODES[0]}'",
            'drift',
            id='drift',
        ),
        pytest.param(COPY, 'orphan', id='orphan'),
        pytest.param(
            f"UPDATE claims SET unconfirmed = NULL WHERE consumer_uuid = '{A}'", 'mark', id='mark'
        ),
        pytest.param(
            f"UPDATE claims SET unconfirmed = '{B}' WHERE consumer_uuid = '{B}'",
            'mark',
            id='unmark',
        ),
        pytest.param(f'UPDATE claims SET expires_s = {NOW - 999}', 'overdue', id='overdue'),
        pytest.param(
            f"INSERT INTO server_groups VALUES ('{A}', 'affinity', 1, 1)",
            'empty-group',
            id='group',
        ),
        pytest.param(
            f"UPDATE claims SET state = 'planned' WHERE consumer_uuid = '{A}'", 'stray', id='stray'
        ),
        pytest.param(
            f"UPDATE nodes SET fences = '[\"t\"]' WHERE uuid = '{NODES[0]}'", 'fence', id='fence'
        ),
    ],
)
def test_repairs(database, statement, kind):
    store = SqlClaimStore(database, lambda: NOW + 1)
    for one in (claim(A, NODES[0]), claim(B, NODES[1], state=CONFIRMED)):
        assert store.commit([Placement((one,))])[0].won
    assert audit(ClaimMaintenance(database).snapshot(), NOW) == []
    run(database, statement)
    found = audit(ClaimMaintenance(database).snapshot(), NOW)
    assert [one.kind for one in found] == [kind]
    ClaimMaintenance(database).repair(found, NOW)
    assert audit(ClaimMaintenance(database).snapshot(), NOW) == []


def test_release(database):
    store, upkeep = SqlClaimStore(database, still), ClaimMaintenance(database)
    for consumer, state in ((A, 'pending'), (B, CONFIRMED)):
        assert store.commit([Placement((claim(consumer, NODES[0], state=state),))])[0].won
    (first,) = upkeep.named(A)
    assert upkeep.named(first.uuid) == [first]
    assert upkeep.release(A, NODES[1:]) == []
    assert upkeep.release(A, NODES[:1]) == [first]
    with pytest.raises(StillThere):
        upkeep.release(B)
    assert [one.consumer_uuid for one in upkeep.release(B, force=True)] == [B]
    assert store.claims() == []
    assert_clean(database, NOW)


def test_a_host_is_removed_with_all_that_is_stored_of_it(database):
    store, upkeep = SqlClaimStore(database, still), ClaimMaintenance(database)
    store.set_service(ServiceFacts(HOSTS[0], True, 'broken', False, NOW))
    store.set_instances(HOSTS[0], frozenset({A}))
    assert store.commit([Placement((claim(A, NODES[0]),))])[0].won
    with pytest.raises(HasClaims, match='Host host-0 has claims \\(1\\)'):
        upkeep.remove_host(HOSTS[0], NODES[:1], NOW)
    assert len(store.claims()) == 1
    with pytest.raises(HasReported, match='host-0 has reported'):
        upkeep.remove_host(HOSTS[0], NODES[:1], NOW - 1, force=True)
    assert len(store.claims()) == 1
    assert upkeep.remove_host(HOSTS[0], NODES[:1], NOW, force=True) == 1
    assert store.claims() == []
    seen = SqlClaimStore(database, still).changes({})
    assert {one.report.host for one in seen.nodes} == set(HOSTS[1:])
    assert (seen.services, seen.instances) == ((), {})
    assert_clean(database, NOW)


def test_no_claim_is_made_on_a_host_while_it_is_removed(database):
    upkeep = ClaimMaintenance(database)
    with crowd(database, busy) as has_worked:
        for _ in for_s(2, has_worked):
            with contextlib.suppress(errors.StoreBusy):
                upkeep.remove_host(HOSTS[0], NODES[:1], NOW, force=True)
    assert_clean(database, NOW)


ENOUGH, PATIENCE_S = 10, 120.0  # turns of each thread, and how long they may take


@contextlib.contextmanager
def crowd(database, work, threads=3):
    """Threads that do ``work(store, chance)`` again and again, each as a scheduler of its own.

    Yields what tells whether all have done enough, or one has failed.
    """
    ended, done = threading.Event(), [0] * threads

    def scheduler(seed):
        store, chance = SqlClaimStore(database, still), random.Random(seed)
        while not ended.is_set():
            try:
                work(store, chance)
                done[seed] += 1
            except errors.StoreBusy:
                continue  # as the engine, which asks again

    with futures.ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(scheduler, seed) for seed in range(threads)]
        try:
            yield lambda: min(done) > ENOUGH or any(one.done() for one in running)
        finally:
            ended.set()
    for one in running:
        one.result()
    assert min(done) > ENOUGH


def busy(store, chance):
    """Claims come and go, and nodes report."""
    wish = chance.randrange(4)
    if wish < 2:
        made = [claim(str(uuid.uuid4()), node, created_s=NOW) for node in chance.sample(NODES, 2)]
        store.commit([Placement(tuple(made))])
    elif wish == 2:
        store.report(
            [report(chance.choice(HOSTS), vcpus_used=chance.randrange(3), instances=frozenset())],
            NOW,
        )
    else:
        some = store.claims()[:5]
        store.release([one.key for one in some])


def for_s(seconds, has_worked):
    """Turns of a loop, for so long and until there are enough of them and ``has_worked()``: a
    busy machine may take its time."""
    begin_s = time.monotonic()

    def goes_on(turn):
        took_s = time.monotonic() - begin_s
        is_enough = turn > ENOUGH + 1 and has_worked()
        return took_s < seconds or (took_s < PATIENCE_S and not is_enough)

    return itertools.takewhile(goes_on, itertools.count())


def test_an_audit_reads_one_moment(database):
    """No claim without its usage on the node."""
    upkeep, looks, claims = ClaimMaintenance(database), 0, 0
    with crowd(database, busy) as has_worked:
        for looks in for_s(2, has_worked):  # noqa: B007
            snapshot = upkeep.snapshot()
            claims = max(claims, len(snapshot.claims))
            assert [one.words for one in audit(snapshot, NOW) if one.kind == DRIFT] == []
    assert looks > ENOUGH
    assert claims > 0


def test_a_repair_waits_for_the_lock_of_the_node(database):
    """And then adds up what there is by then."""
    assert (
        SqlClaimStore(database, still)
        .commit([Placement((claim(A, NODES[0], created_s=NOW),))])[0]
        .won
    )
    run(database, f"UPDATE nodes SET used = '{{\"VCPU\": 5}}' WHERE uuid = '{NODES[0]}'")
    found = audit(ClaimMaintenance(database).snapshot(), NOW)
    with futures.ThreadPoolExecutor(1) as pool:
        with database.begin() as scheduler:
            scheduler.execute(sa.text(f"UPDATE nodes SET used = '{{}}' WHERE uuid = '{NODES[0]}'"))
            scheduler.execute(sa.text(COPY.replace('nowhere', NODES[0])))
            repair = pool.submit(ClaimMaintenance(database).repair, found, NOW)
            assert futures.wait([repair], timeout=0.5).not_done
        repair.result()
    assert audit(ClaimMaintenance(database).snapshot(), NOW) == []


def test_repairs_during_claims_change_nothing_that_is_right(database):
    """As if everything that was read had been wrong a moment ago."""
    upkeep = ClaimMaintenance(database)
    with crowd(database, busy) as has_worked:
        for _ in for_s(2, has_worked):
            claims = upkeep.snapshot().claims[:3]
            stale = [AuditFinding(DRIFT, '', node_uuid=node) for node in NODES]
            stale += [AuditFinding(kind, '', claim_uuid=one.uuid, consumer_uuid=one.consumer_uuid)
                      for one in claims for kind in (ORPHAN, MARK)]  # fmt: skip
            try:
                upkeep.repair([*stale, AuditFinding(EMPTY_GROUP, '')], NOW)
            except errors.StoreBusy:
                continue
    assert faults(database, NOW, but=('capacity',)) == []


def test_groups_are_forgotten_during_claims(database):
    """A claim of a member finds the group's row or makes it, whenever the row is forgotten."""

    def work(store, chance):
        policy = chance.choice(GROUPS)
        consumer = uuid_of(f'{chance.randrange(2)} of {policy.kind}')
        store.release([one.key for one in store.claims(consumer)])
        if chance.random() < 0.5:
            made = claim(
                consumer, chance.choice(NODES), group_uuid=policy.group_uuid, created_s=NOW
            )
            store.commit([guarded((made,), policies=(policy,))])

    forgotten, sessions, upkeep = 0, Sessions(database), ClaimMaintenance(database)
    with crowd(database, work) as has_worked:
        for turn in for_s(60, has_worked):
            if turn > 50 and forgotten > 3 and has_worked():
                break
            try:
                forgotten += forget_groups(sessions)
            except errors.StoreBusy:
                continue
            snapshot = upkeep.snapshot()
            assert {one.group_uuid for one in snapshot.claims} <= {
                one.group_uuid for one in snapshot.policies
            }
            assert [one.words for one in audit(snapshot, NOW) if one.is_error] == []
    assert forgotten > 3
    store = SqlClaimStore(database, still)
    store.release([one.key for one in store.claims()])
    forget_groups(sessions)
    assert audit(upkeep.snapshot(), NOW) == []
