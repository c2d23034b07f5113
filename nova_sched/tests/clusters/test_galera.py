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
"""Two writes that must not both happen, each on its own server of a Galera cluster, at the same
time.

A lock holds on its own server alone. What decides between servers is certification: of two
transactions that did not see each other, the second one is undone if both write one row. So
whatever two writes are judged by, both must write. Here the second server is held up, so that it
commits before it knows of the first write, and nothing but certification can tell.
"""

import contextlib
import dataclasses
import threading
import time

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING, RESIZE
from nova_sched.claims import ClosedDomain, Placement, ServiceFacts
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.db.jobs import CANCELLED, DONE, FAILED, SqlJobTable
from nova_sched.db.rebalances import HELD, SqlRebalances
from nova_sched.db.tables import NODES
from nova_sched.extensions.optimize.rebalance import Move
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.fixtures import mariadb
from nova_sched.tests.integration.messages import hear, just_before
from nova_sched.tests.unit.claims.batteries.group_records.exclusive_domains import (
    RACK,
    TOKEN,
    WEB_INSIDE,
    inside,
)
from nova_sched.tests.unit.claims.batteries.group_records.policies import GROUP, NEAR, join, member
from nova_sched.tests.unit.claims.batteries.group_records.records import (
    DB,
    LB,
    built,
    create,
    plan,
    planned,
    record,
)
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    THIRD,
    A,
    B,
    C,
    check_books,
    confirmed,
    kept,
    node,
    place,
    ready,
)
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.db import jobs
from nova_sched.tests.unit.db.jobs import entry, hold, limited

POLL_S, MOMENT_S = 0.02, 1.0
ALL = ClosedDomain(TOKEN, frozenset(map(node, (HOST, OTHER, THIRD))))
ANOTHER_JOB = entry('b', instance_uuid=uuid_of('i a'))


class Pair:
    """The same database on two servers; what the first one writes comes late to the second one."""

    def __init__(self, cluster, name):
        self._cluster, self._name = cluster, name
        self._first, self._second, _ = cluster.nodes
        self.engines = [
            db_engine.create(server.url(name)) for server in (self._first, self._second)
        ]
        schema.upgrade(self.engines[0])
        cluster.settle()
        hear(self.engines[1])
        with self._session(self._first) as cursor:
            cursor.execute('CREATE TABLE barrier (number INT PRIMARY KEY)')
            cursor.execute('INSERT INTO barrier VALUES (0)')

    def cleared(self):
        cleared(self.engines[0])
        self._cluster.settle()
        return self

    def ready(self, prepare):
        prepare(self.engines[0])
        self._cluster.settle()

    def at_once(self, first, second):
        """What the second write returns; the first one is done meanwhile, and its server does not
        know of it before it sends the second one."""
        self.engines[1].connect().close()  # a new connection sends a COMMIT of its own
        with (
            self._held_up() as ahead,
            just_before('COMMIT', lambda *_: ahead(first, until='wsrep_replicated')),
        ):
            return second(self.engines[1])

    def later(self, first, second):
        """What the second write returns; it begins after the first one, of which its server knows
        later."""
        with self._held_up() as ahead:
            ahead(first)
            return second(self.engines[1])

    def settle(self):
        self._cluster.settle()
        assert self._cluster.differences(self._name) == []

    @contextlib.contextmanager
    def _held_up(self):
        """A function that does the first write, which the second server gets when it has counted
        one more in a status variable; without one, a moment later."""
        over, waiting = threading.Event(), []

        def let_go(until, before):
            if until is None:
                over.wait(MOMENT_S)
            while until and self._second.status(until) == before and not over.wait(POLL_S):
                pass
            session.cursor().execute('UNLOCK TABLES')

        def ahead(first, until=None):
            # A server applies the writes of others in their order, and waits where a table is
            # locked.
            session.cursor().execute('FLUSH TABLES barrier WITH READ LOCK')
            with self._session(self._first) as cursor:
                cursor.execute('UPDATE barrier SET number = number + 1')
            first(self.engines[0])
            there, here = (
                int(one.status('wsrep_last_committed')) for one in (self._first, self._second)
            )
            assert here < there
            before = until and self._second.status(until)
            waiting.append(threading.Thread(target=let_go, args=(until, before)))
            waiting[0].start()

        with contextlib.closing(mariadb.connect(self._second.port)) as session:
            session.select_db(self._name)
            try:
                yield ahead
            finally:
                over.set()
                for thread in waiting:
                    thread.join()

    @contextlib.contextmanager
    def _session(self, server):
        with (
            contextlib.closing(mariadb.connect(server.port)) as session,
            session.cursor() as cursor,
        ):
            session.select_db(self._name)
            yield cursor
            session.commit()


@pytest.fixture(scope='module')
def servers(galera):
    made = Pair(galera, galera.fresh())
    yield made
    for engine in made.engines:
        engine.dispose()


@pytest.fixture
def pair(servers):
    return servers.cleared()


def on_store(work):
    return lambda engine: work(SqlClaimStore(engine))


def on_jobs(work):
    return lambda engine: work(SqlJobTable(engine))


def claims(*made, **words):
    """Hosts, and claims that both servers have seen."""

    def prepare(store):
        ready(store, HOST, OTHER, THIRD, vcpus=4, **words)
        for one in made:
            assert (
                store.commit([one])[0] if isinstance(one, Placement) else place(store, one)
            ).won

    return on_store(prepare)


def empty_group(store):
    ready(store, HOST, OTHER)
    assert store.commit([join(NEAR, member(C))])[0].won
    assert store.release([(C, node())]).changed


def loose_fence(engine):
    """A fence that no claim is behind any more, and that is still to be taken down."""
    ready(SqlClaimStore(engine), HOST, OTHER, THIRD)
    with engine.begin() as connection:
        on = NODES.c.uuid.in_(RACK.nodes)
        connection.execute(sa.update(NODES).where(on).values(fences=f'["{TOKEN}"]'))


def commits(*placements):
    return on_store(lambda store: store.commit(placements))


def finishes(consumer, host):
    return on_store(lambda store: store.finish(consumer, [node(host)]))


def builds(store):
    """A worker claims and builds."""
    place(store, claim(A, node()))
    store.finish(A, [node()])


MOVES = claims(confirmed(A), claim(A, node(OTHER), move=RESIZE))
PENDING_HERE = claim(A, node())
NEW_THERE = Placement((claim(A, node(OTHER)),), runs={})
NEWER_WEB = planned(fences=(TOKEN,), host=THIRD)

CLAIMS = [
    pytest.param(
        claims(),
        commits(Placement((claim(A, node(), vcpus=3),))),
        commits(Placement((claim(B, node(), vcpus=3),))),
        id='the last room of a node',
    ),
    pytest.param(
        claims(),
        commits(Placement((claim(A, node()),))),
        commits(Placement((claim(A, node(OTHER)),))),
        id='two nodes for one instance',
    ),
    pytest.param(
        claims(),
        on_store(builds),
        commits(NEW_THERE),
        id='it is built, and claimed for as a new one',
    ),
    pytest.param(
        claims(PENDING_HERE),
        finishes(A, HOST),
        commits(dataclasses.replace(NEW_THERE, replaces=frozenset([PENDING_HERE.uuid]))),
        id='its claim is confirmed, and it is claimed for as a new one',
    ),
    pytest.param(
        claims(claim(A, node())),
        on_store(lambda store: store.confirm([A], [node()])),
        on_store(lambda store: store.release([(A, node())])),
        id='a claim is confirmed and ended',
    ),
    pytest.param(
        claims(claim(A, node(), created_s=NOW, expires_s=NOW + 1)),
        on_store(lambda store: store.confirm([A], [node()])),
        on_store(lambda store: store.expire(time.time() + 60)),
        id='a claim is confirmed and expires',
    ),
    pytest.param(
        MOVES,
        finishes(A, OTHER),
        on_store(lambda store: store.revert(A)),
        id='a move is settled and taken back',
    ),
    pytest.param(
        claims(),
        on_store(lambda store: ready(store, HOST, vcpus=1)),
        commits(Placement((claim(A, node(), vcpus=3),))),
        id='a node shrinks, and is claimed',
    ),
    pytest.param(
        claims(),
        on_store(lambda store: store.remove_node(node())),
        commits(Placement((claim(A, node()),))),
        id='a node leaves, and is claimed',
    ),
    pytest.param(
        claims(),
        commits(join(NEAR, member(A))),
        commits(join(NEAR, member(B, OTHER))),
        id='the first two members of a new group',
    ),
    pytest.param(
        on_store(empty_group),
        commits(join(NEAR, member(A))),
        commits(join(NEAR, member(B, OTHER))),
        id='the first two members of a group that is there',
    ),
    pytest.param(
        on_store(empty_group),
        on_store(lambda store: store.forget_groups()),
        commits(join(NEAR, member(A))),
        id='a group is forgotten and joined',
    ),
    pytest.param(
        claims(),
        commits(plan(WEB_INSIDE, closed_domains=(RACK,))),
        commits(Placement((claim(B, node(OTHER)),))),
        id='a domain becomes exclusive, and an outsider comes',
    ),
    pytest.param(
        loose_fence,
        on_store(lambda store: store.end_domains()),
        commits(Placement((inside(host=OTHER),))),
        id='an exclusive domain without members is swept, and a member comes',
    ),
    pytest.param(
        claims(plan(WEB_INSIDE, closed_domains=(RACK,))),
        commits(plan(of=record(deleted=True), serial=1, releases=[WEB_INSIDE.key])),
        on_store(lambda store: store.spread_domain(TOKEN, [node(THIRD)])),
        id='a group goes, and a node joins its domain',
    ),
    pytest.param(
        loose_fence,
        on_store(lambda store: store.end_domains()),
        commits(plan(NEWER_WEB, closed_domains=(ALL,))),
        id='an exclusive domain without members is swept and closed again',
    ),
    pytest.param(
        claims(plan(planned())),
        commits(plan(of=record(deleted=True), serial=1, releases=[planned().key])),
        commits(create(built(), planned())),
        id='a group is deleted, and a member comes to its planned host',
    ),
    pytest.param(
        claims(plan(planned())),
        commits(plan(planned(DB, OTHER), serial=1)),
        commits(plan(planned(LB, THIRD), serial=1)),
        id='two changes of a group',
    ),
    pytest.param(
        claims(),
        on_store(lambda store: store.set_service(ServiceFacts('host-0', forced_down=True))),
        on_store(lambda store: store.set_service(ServiceFacts('host-0', disabled=True))),
        id="two words on a host's service",
    ),
]


@pytest.mark.parametrize('prepare, first, second', CLAIMS)
def test_one_of_two_is_undone_and_done_again(pair, prepare, first, second):
    pair.ready(prepare)
    with pytest.raises(errors.StoreBusy):
        pair.at_once(first, second)
    pair.settle()
    second(pair.engines[1])
    pair.settle()
    store = SqlClaimStore(pair.engines[0])
    states = [one.state for one in store.claims(A)]
    assert states.count(PENDING) <= 1
    assert len(states) <= 2
    assert len({one.node_uuid for one in store.claims() if one.group_uuid == GROUP}) <= 1
    check_books(store)


def test_a_new_consumer_that_was_built_stays_where_it_is(pair):
    """What the table above leaves out: who comes second is told that it has lost."""
    pair.ready(claims())
    with pytest.raises(errors.StoreBusy):
        pair.at_once(on_store(builds), commits(NEW_THERE))
    pair.settle()
    (outcome,) = commits(NEW_THERE)(pair.engines[1])
    assert not outcome.won
    assert kept(SqlClaimStore(pair.engines[1])) == {(A, node()): CONFIRMED}


def test_what_one_server_has_told_another_one_knows(pair):
    """A caller is told of a claim by one scheduler, and confirms it at another one."""
    pair.ready(claims())
    assert pair.later(
        commits(Placement((claim(A, node()),))),
        on_store(lambda store: store.confirm([A], [node()])),
    )
    pair.settle()
    assert kept(SqlClaimStore(pair.engines[1])) == {(A, node()): CONFIRMED}


@pytest.mark.parametrize('options, bits', [({}, 7), ({'mysql_wsrep_sync_wait': 1}, 1)])
def test_a_transaction_waits_for_what_other_servers_have_committed(galera, options, bits):
    made = db_engine.create(galera.nodes[1].url(galera.fresh()), **options)
    with made.connect() as connection:
        assert connection.exec_driver_sql('SELECT @@wsrep_sync_wait').scalar() == bits
    made.dispose()


def test_the_last_two_in_an_exclusive_domain_go_at_once(pair):
    """They write different nodes, and the domain stays until it is swept."""
    web, db = WEB_INSIDE, planned(DB, OTHER, fences=(TOKEN,))
    pair.ready(claims(plan(web, db, closed_domains=(RACK,))))
    pair.at_once(*(on_store(lambda store, key=one.key: store.release([key])) for one in (web, db)))
    pair.settle()
    store = SqlClaimStore(pair.engines[1])
    assert store.end_domains() == sorted(RACK.nodes)
    assert (store.claims(), store.domains()) == ([], {})
    check_books(store)


JOBS = [
    pytest.param(
        on_jobs(lambda job_table: job_table.open([entry()], [hold()])),
        on_jobs(lambda job_table: job_table.open([entry('b')], [hold('b')])),
        on_jobs(lambda job_table: job_table.open([entry('c')], [hold('c')], limited(servers=3))),
        {'servers': 3},
        id='the use of one project',
    ),
    pytest.param(
        on_jobs(lambda job_table: job_table.open([entry()], [hold()])),
        on_jobs(lambda job_table: job_table.end_hold(uuid_of('i a'), [uuid_of('a')])),
        on_jobs(lambda job_table: job_table.open([ANOTHER_JOB], [hold()])),
        {'servers': 1},
        id='a hold ends, and its instance comes back',
    ),
    pytest.param(
        on_jobs(lambda job_table: job_table.open([entry()], [hold()])),
        on_jobs(lambda job_table: job_table.open([ANOTHER_JOB], [hold()])),
        on_jobs(lambda job_table: job_table.end_hold(uuid_of('i a'), [uuid_of('a')])),
        {'servers': 1},
        id='an instance comes back, and its hold ends',
    ),
    pytest.param(
        on_jobs(lambda job_table: job_table.open([entry()], [hold()])),
        on_jobs(lambda job_table: job_table.settle(uuid_of('a'), FAILED, NOW, release=True)),
        on_jobs(lambda job_table: job_table.open([ANOTHER_JOB], [hold()])),
        {'servers': 1},
        id='a build fails, and its instance is asked for again',
    ),
    pytest.param(
        on_jobs(lambda job_table: job_table.open([entry()], [hold()])),
        on_jobs(lambda job_table: job_table.settle(uuid_of('a'), DONE, NOW)),
        on_jobs(lambda job_table: job_table.cancel(uuid_of('i a'), NOW)),
        {'servers': 1},
        id='a job is done and cancelled',
    ),
]


FIRST_JOBS = [
    *JOBS,
    pytest.param(
        on_jobs(lambda job_table: job_table.list()),
        on_jobs(lambda job_table: job_table.open([entry('b')], [hold('b')])),
        on_jobs(lambda job_table: job_table.open([entry('c')], [hold('c')])),
        {'servers': 2},
        id='the first two jobs of a project',
    ),
]


@pytest.mark.parametrize('prepare, first, second, used', FIRST_JOBS)
def test_quotas_and_jobs(pair, prepare, first, second, used):
    """The job table does again what another server was in the way of: no caller is told."""
    pair.ready(prepare)
    pair.at_once(first, second)
    pair.settle()
    second(pair.engines[1])
    pair.settle()
    job_table = SqlJobTable(pair.engines[0])
    assert job_table.usage('p') == used
    assert CANCELLED not in {job.state for job in job_table.list()}
    jobs.check_usage(pair.engines[0])


def on_moves(work):
    return lambda engine: work(SqlRebalances(engine))


FIRST, SECOND = (uuid_of(name) for name in ('first server', 'second server'))
FROM_A = [Move(FIRST, A, B)]
PERIODIC = on_moves(lambda moves: moves.create(FROM_A, interval_s=60.0))

MOVES_AT_ONCE = [
    pytest.param(lambda _: None, PERIODIC, PERIODIC, 1, 0, id='two periodic plans'),
    pytest.param(
        lambda _: None,
        on_moves(lambda moves: moves.create(FROM_A)),
        PERIODIC,
        1,
        0,
        id='a plan by hand and a periodic one',
    ),
    pytest.param(
        on_moves(lambda moves: moves.create([*FROM_A, Move(SECOND, A, B)])),
        *[on_moves(lambda moves: moves.take(1))] * 2,
        2,
        1,
        id='the last move that may start',
    ),
    pytest.param(
        on_moves(lambda moves: [moves.create(FROM_A), moves.create(FROM_A)]),
        *[on_moves(lambda moves: moves.take(2))] * 2,
        2,
        1,
        id='two moves of one server',
    ),
]


@pytest.mark.parametrize('prepare, first, second, stored, started', MOVES_AT_ONCE)
def test_moves_are_planned_and_started_once(pair, prepare, first, second, stored, started):
    pair.ready(prepare)
    assert pair.at_once(first, second) is None
    pair.settle()
    moves = SqlRebalances(pair.engines[0])
    found = [move for one in moves.list() for move in moves.moves(one.uuid)]
    assert len(found) == stored
    assert [one.state for one in found].count(HELD) == started
