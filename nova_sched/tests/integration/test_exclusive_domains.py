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
"""Nodes come to exclusive domains and leave them, at the same moment as these are closed and
opened."""

import subprocess
import time
from concurrent import futures

import pytest
import sqlalchemy as sa

from nova_sched.claim import CONFIRMED
from nova_sched.claims import ClosedDomain, Placement
from nova_sched.claims import statements as sql
from nova_sched.claims.maintenance import ALL_CLAIMS, ONE_MOMENT
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.claims.sql_domains import ALL_DOMAINS, PLACES
from nova_sched.db.tables import REVISIONS
from nova_sched.tests.builders import NOW, aggregate, report
from nova_sched.tests.fixtures import warm
from nova_sched.tests.integration.exclusive_race import HOSTS, ROLES
from nova_sched.tests.integration.messages import counted, just_before
from nova_sched.tests.integration.test_claim_store import held_up as nodes_held_up
from nova_sched.tests.integration.test_claim_store import waiting
from nova_sched.tests.unit.claims.batteries.group_records.domain_nodes import (
    R1,
    Racks,
    located,
    racks,
    refuses,
)
from nova_sched.tests.unit.claims.batteries.group_records.exclusive_domains import (
    TOKEN,
    WEB_INSIDE,
    behind,
    inside,
    until_done,
)
from nova_sched.tests.unit.claims.batteries.group_records.records import commit, plan
from nova_sched.tests.unit.claims.batteries.steps import HOST, OTHER, THIRD, check_books, node

HOLDS = "= 'domains'"  # in the message by which a transaction takes the fences for itself


@pytest.fixture
def another(database):
    return lambda: located(SqlClaimStore(database))


@pytest.fixture
def store(another):
    """HOST is in rack r1, THIRD in r2."""
    made = another()
    racks(made, host_0='r1', host_2='r2')
    yield made
    check_books(made)


def closes(store):
    """By whom its planner knows to be in r1, which is HOST alone."""
    assert commit(
        store, plan(WEB_INSIDE, closed_domains=(ClosedDomain(TOKEN, frozenset([node()]), R1),))
    ).won


def opens(store):
    assert store.release([WEB_INSIDE.key]).changed
    assert store.end_domains()


def is_new(store):
    racks(store, host_1='r1')


def moves_in(store):
    racks(store, host_2='r1')


def is_put_in(store):
    store.set_aggregate(1, aggregate(1, [OTHER, THIRD], rack='r1'))


def reports_elsewhere(store):
    racks(store, host_1='r3')


COMES = [
    pytest.param(is_new, {OTHER}, id='a new node'),
    pytest.param(moves_in, {THIRD}, id='a node moves'),
    pytest.param(is_put_in, {THIRD}, id='an aggregate'),
]


@pytest.mark.parametrize('comes, hosts', COMES)
class TestBetween:
    """One does all of its work when the other has decided to, and has not taken the fences for
    itself."""

    def test_a_node_comes_while_its_domain_is_closed(self, store, another, comes, hosts):
        with just_before(HOLDS, lambda *_: comes(another())):
            closes(store)
        assert behind(store) == {host: {TOKEN} for host in {HOST, *hosts}}
        assert all(refuses(store, host) for host in hosts)

    def test_a_domain_is_closed_while_a_node_comes(self, store, another, comes, hosts):
        with just_before(HOLDS, lambda *_: closes(another())):
            comes(store)
        assert behind(store) == {host: {TOKEN} for host in {HOST, *hosts}}
        assert all(refuses(store, host) for host in hosts)

    def test_a_node_comes_while_its_domain_is_opened(self, store, another, comes, hosts):
        closes(store)
        with just_before(HOLDS, lambda *_: comes(another())):
            opens(store)
        assert (behind(store), store.domains()) == ({}, {})

    def test_a_domain_is_opened_while_a_node_comes(self, store, another, comes, hosts):
        closes(store)
        with just_before(HOLDS, lambda *_: opens(another())):
            comes(store)
        assert (behind(store), store.domains()) == ({}, {})

    @pytest.mark.parametrize('order', [(0, 1), (1, 0)], ids=['the plan first', 'the node first'])
    def test_both_wait_for_the_fences(self, store, another, database, comes, hosts, order):
        works = closes, comes
        held_up(database, *(lambda one=works[one]: one(another()) for one in order))
        assert behind(store) == {host: {TOKEN} for host in {HOST, *hosts}}


@pytest.mark.parametrize(
    'order', [(0, 1), (1, 0)], ids=['the aggregate first', 'the report first']
)
def test_an_aggregate_takes_a_host_that_reports_for_the_first_time(store, another, order):
    closes(store)
    works = [is_put_in, reports_elsewhere]
    first, second = (works[one] for one in order)
    with just_before(HOLDS, lambda *_: first(another())):
        second(store)
    assert behind(store) == {host: {TOKEN} for host in (HOST, OTHER, THIRD)}


@pytest.mark.parametrize('sweeps', [0, 1], ids=['the sweep first', 'the member first'])
def test_a_member_enters_while_its_domain_is_swept(store, another, database, sweeps):
    """Both wait for the node."""
    closes(store)
    store.release([WEB_INSIDE.key])
    works = [lambda: another().commit([Placement((inside(),))])]
    works.insert(sweeps, lambda: another().end_domains())
    found = nodes_held_up(database, *works)
    (outcome,), ended = found[1 - sweeps], found[sweeps]
    assert outcome.won == bool(sweeps)
    assert ended == ([] if outcome.won else [node()])
    assert behind(store) == ({HOST: {TOKEN}} if outcome.won else {})


def test_a_member_enters_after_the_sweep_has_found_none(store, another):
    closes(store)
    store.release([WEB_INSIDE.key])
    with just_before('FOR UPDATE', lambda *_: another().commit([Placement((inside(),))])):
        assert store.end_domains() == []
    assert behind(store) == {HOST: {TOKEN}}


def held_up(database, first, second):
    """Let two works wait for the fences, one after the other; then both go on."""
    fences = sa.update(REVISIONS).where(REVISIONS.c.name == 'domains').values(value=0)
    with futures.ThreadPoolExecutor(2) as pool:
        with database.begin() as connection:
            connection.execute(fences)
            running = []
            for work in (first, second):
                running.append(pool.submit(work))
                waiting(database, len(running))
        for one in running:
            one.result(30)


def test_reports_that_move_no_node_ask_nothing_of_domains(store):
    """Be there any or not, and whatever else they change."""
    for closed in (False, True):
        if closed:
            commit(
                store,
                plan(
                    inside(state=CONFIRMED), closed_domains=(ClosedDomain(TOKEN, frozenset(), R1),)
                ),
            )
        for words in ({}, {'num_instances': 1}):
            with counted() as messages:
                store.report([report(HOST, stats={'rack': 'r1'}, **words)], NOW)
            assert [one for one in messages if 'domains' in one or 'aggregates' in one] == []


ROUNDS = 40


def test_several_processes_at_once(url, store):
    """Whatever is committed when: who is in a closed rack carries its token, and no member is on a
    node without it. Once swept, no rack without members is closed."""
    racks(store, **{host.replace('-', '_'): 'r0' for host in HOSTS})
    module = 'nova_sched.tests.integration.exclusive_race'
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
    made = {role: warm.start(module, [url, role, ROUNDS], **pipes) for role in ROLES}
    looks = swept = 0
    try:
        for one in made.values():
            assert one.stdout.readline() == 'ready\n'
        for one in made.values():
            one.stdin.write('go\n')
            one.stdin.flush()
        while any(one.poll() is None for one in made.values()):
            assert amiss(store) == []
            looks += 1
            swept += len(until_done(store.end_domains))
            time.sleep(0.02)
        came = {role: int(one.stdout.read()) for role, one in made.items()}
    finally:
        for one in made.values():
            one.kill()
            one.wait()
            one.stdin.close()
            one.stdout.close()
    assert amiss(store) == []
    assert {one.returncode for one in made.values()} == {0}
    assert min(count for role, count in came.items() if role != 'enter') > 3
    assert min(looks, swept) > 3
    store.end_domains()
    assert (behind(store), store.domains()) == ({}, {})


def amiss(store):
    """What is wrong with the fences, at one moment."""
    with store._sessions.transaction(reads=True) as connection:
        connection.execute(ONE_MOMENT)
        places = connection.execute(PLACES).all()
        known = {row.token: row for row in connection.execute(ALL_DOMAINS)}
        aggregates = sql.read_aggregates(connection)
        claims = [sql.claim(row) for row in connection.execute(ALL_CLAIMS)]
    carried = {row.uuid: sql.tokens(row.fences) for row in places}
    found = [
        f'{one.consumer_uuid} has {token}, and its node does not'
        for one in claims
        for token in set(one.fences) - carried[one.node_uuid]
    ]
    for row in places:
        told = {} if row.told is None else sql.json.loads(row.told)
        its = [one for one in aggregates if row.host in one.hosts]
        where = Racks().domains(row.host, row.nodename, told, its)
        there = {token for token, one in known.items() if one.name == where['rack']}
        found += [
            f'{row.host} in {where["rack"]} lacks {token}' for token in there - carried[row.uuid]
        ]
    return found
