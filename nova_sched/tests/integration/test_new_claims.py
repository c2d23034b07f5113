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
"""A consumer is confirmed on one node, and claimed for as a new one on another, at once: never
both."""

import time
from concurrent import futures

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.claims import Placement
from nova_sched.claims import statements as sql
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.tests.builders import claim, still, uuid_of
from nova_sched.tests.integration.messages import counted, just_before
from nova_sched.tests.integration.test_claim_store import lock, waiting
from nova_sched.tests.unit.claims.batteries.steps import A, check_books, node, place, ready

HERE, THERE = 'host-0', 'host-1'
ROUNDS, TIMEOUT_S = 60, 60


@pytest.fixture
def another(database):
    return lambda: SqlClaimStore(database, still)


@pytest.fixture
def store(another):
    made = another()
    ready(made, HERE, THERE, vcpus=1000)
    yield made
    check_books(made)


def built(store, consumer=A, host=HERE):
    """A worker's part: its claim, and when the build is done, the word that it is. Whether it
    stays."""
    place(store, claim(consumer, node(host)))
    return bool(again(store.finish, consumer, [node(host)]).changed)


def wanted(consumer=A, host=THERE, releases=(), replaces=()):
    made = claim(consumer, node(host))
    return Placement((made,), tuple(releases), replaces=frozenset(replaces), runs={})


def again(work, *args):
    """What it returns; what others were in the way of is done again, as the engine does it."""
    while True:
        try:
            return work(*args)
        except errors.StoreBusy:
            time.sleep(0.001)


def asked(store, placement):
    """Whether it is won."""
    return again(store.commit, [placement])[0].won


def where(store, consumer=A):
    return {one.node_uuid: one.state for one in store.claims(consumer)}


@pytest.mark.parametrize(
    'releases',
    [
        pytest.param((), id='asked for nothing before'),
        pytest.param([(uuid_of('another'), node(HERE))], id='asked for its claims before'),
    ],
)
def test_it_is_built_while_it_is_claimed_for(store, another, releases):
    """Between the last question and the new claim: no lock is held that both would need."""
    with just_before('INSERT INTO claims', lambda *_: built(store)):
        assert not asked(another(), wanted(releases=releases))
    assert where(store) == {node(HERE): CONFIRMED}


@pytest.mark.parametrize('ends', ['commit', 'rollback'])
def test_it_is_being_confirmed_while_it_is_claimed_for(store, another, database, ends):
    """The new claim waits for the lock of the node until that is done, or is not."""
    waits = claim(A, node(HERE))
    place(store, waits)
    with futures.ThreadPoolExecutor(1) as pool, database.connect() as connection:
        begun = connection.begin()
        lock(connection, node(HERE))
        sql.END_CLAIMS.run(connection, [waits.uuid])
        sql.PUT_CLAIMS.run(connection, [sql.claim_row(waits.finished())])
        running = pool.submit(asked, another(), wanted(replaces=[waits.uuid]))
        waiting(database, 1)
        assert not running.done()
        getattr(begun, ends)()
        won = running.result(TIMEOUT_S)
    assert won == (ends == 'rollback')
    assert where(store) == ({node(THERE): PENDING} if won else {node(HERE): CONFIRMED})


def test_the_word_that_it_is_built_comes_at_the_same_time(store, another):
    """The other worker's claim has been there for long: it is confirmed or replaced, one of
    both."""

    def one_round(consumer, pool):
        waits = claim(consumer, node(HERE))
        place(store, waits)
        done = (
            pool.submit(again, mine.finish, consumer, [node(HERE)]),
            pool.submit(asked, yours, wanted(consumer, replaces=[waits.uuid])),
        )
        confirmed, won = (one.result(TIMEOUT_S) for one in done)
        assert bool(confirmed.changed) != won
        return where(store, consumer) == (
            {node(THERE): PENDING} if won else {node(HERE): CONFIRMED}
        )

    mine, yours = another(), another()
    with futures.ThreadPoolExecutor(2) as pool:
        assert all(one_round(uuid_of(f'round {number}'), pool) for number in range(ROUNDS))


def test_two_workers_have_one_job(store, another):
    """Each claims for it as a new one and confirms it, until it is confirmed: by one of them in
    the end."""

    def work(store, consumer, host):
        while CONFIRMED not in where(store, consumer).values():
            known = [one.uuid for one in store.claims(consumer)]
            won = asked(store, wanted(consumer, host, replaces=known))
            if won and again(store.finish, consumer, [node(host)]).changed:
                return True
        return False

    stores = {HERE: another(), THERE: another()}
    with futures.ThreadPoolExecutor(2) as pool:
        for number in range(ROUNDS):
            consumer = uuid_of(f'job {number}')
            running = {
                host: pool.submit(work, one, consumer, host) for host, one in stores.items()
            }
            stays = [host for host, one in running.items() if one.result(TIMEOUT_S)]
            assert where(store, consumer) == {node(host): CONFIRMED for host in stays}
            assert len(stays) == 1


@pytest.mark.parametrize('count', [1, 20])
def test_how_many_messages_claims_for_new_consumers_take(store, database, count):
    """No more than others take, however many there are; on MariaDB, one for the statement behind
    them."""
    placements = [wanted(uuid_of(f'instance {number}')) for number in range(count)]
    with counted() as messages:
        assert all(outcome.won for outcome in store.commit(placements))
    assert len(messages) == {'postgresql': 2, 'mysql': 5}[database.dialect.name]
