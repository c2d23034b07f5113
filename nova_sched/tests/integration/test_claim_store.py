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
"""The contract of a claim store on database servers, and what only several schedulers at once can
show."""

import contextlib
import dataclasses
import random
import time
from concurrent import futures

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PLANNED
from nova_sched.claims import ClosedDomain, GroupRecord, Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db.tables import NODES
from nova_sched.tests.builders import NOW, claim, guarded, report, still, uuid_of
from nova_sched.tests.integration.messages import counted, just_before
from nova_sched.tests.stores import assert_clean
from nova_sched.tests.unit.claims import contracts
from nova_sched.tests.unit.claims.batteries.steps import A, B, node, place, ready
from nova_sched.tests.unit.claims.batteries.transactions.hardware import PAIR, holding
from nova_sched.tests.unit.claims.batteries.transactions.times import OwnClock
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.claims.test_sql import CALLS, READS
from nova_sched.tests.unit.engine.test_machine import TwoEngines, search


@pytest.fixture
def another(database):
    return lambda: SqlClaimStore(database, still)


globals().update(contracts.tests(__name__))


class TestOwnClock(OwnClock):
    pass


def waiting(database, count):
    """Come back when so many sessions wait for a lock."""
    query = {
        'postgresql': 'SELECT count(*) FROM pg_locks WHERE NOT granted',
        'mysql': 'SELECT count(*) FROM information_schema.innodb_trx WHERE '
        "trx_state = 'LOCK WAIT'",
    }[database.dialect.name]
    with database.connect() as connection:
        for _ in range(400):
            time.sleep(0.15)  # MariaDB returns the same picture to queries within 0.1 s
            if connection.scalar(sa.text(query)) >= count:
                return
            connection.rollback()
    raise AssertionError('no transaction waits')


def held_up(database, first, second):
    """Let two works run into the lock of a node, one after the other, before either goes on;
    results."""
    with futures.ThreadPoolExecutor(2) as pool:
        with database.begin() as connection:
            lock(connection, node())
            running = []
            for work in (first, second):
                running.append(pool.submit(work))
                waiting(database, len(running))
        return [one.result(30) for one in running]


def lock(connection, uuid):
    connection.execute(
        sa.update(NODES).where(NODES.c.uuid == uuid).values(seen_s=NODES.c.seen_s + 1)
    )


def test_two_schedulers_cannot_both_take_the_last_slot(store, another, database):
    ready(store, vcpus=4)
    wants = [claim(consumer, node(), vcpus=3) for consumer in (A, B)]
    outcomes = held_up(database, *(lambda one=one: place(another(), one) for one in wants))
    assert sorted(outcome.won for outcome in outcomes) == [False, True]
    assert len(store.claims()) == 1


def test_two_schedulers_cannot_both_take_the_last_cell(store, another, database):
    """There is room for both by the amounts; but each has picked the same CPUs."""
    ready(store)
    seen = {node(): store.heads()[node()][0]}
    wants = [Placement((holding(consumer),), (), seen) for consumer in (A, B)]
    outcomes = held_up(database, *(lambda one=one: another().commit([one])[0] for one in wants))
    assert sorted(outcome.won for outcome in outcomes) == [False, True]
    assert [one.parts for one in store.claims()] == [PAIR]


def test_a_claim_made_meanwhile_on_another_node_keeps_its_usage(store, another, database):
    """It is there when the scheduler has its own node, and the lock does not cover its node: the
    placement is judged once more, and loses."""
    ready(store, 'host-0', 'host-1')
    theirs, ours = claim(A, node('host-1')), claim(A, node())
    meanwhile = just_before('FOR UPDATE', lambda *_: place(store, theirs))
    with meanwhile:
        (outcome,) = another().commit([Placement((ours,), ((B, node()),))])
    assert not outcome.won
    assert store.claims() == [theirs]
    assert_clean(database, NOW)
    assert place(another(), ours).won
    assert store.claims() == [ours]
    assert_clean(database, NOW)


def test_two_schedulers_claim_for_one_consumer(store, another, database):
    """Neither knows of the other: the later one is told, and may replace the claim then."""
    ready(store, vcpus=4)
    wants = [claim(A, node(), vcpus=3) for _ in range(2)]
    outcomes = held_up(database, *(lambda one=one: place(another(), one) for one in wants))
    assert sorted(outcome.won for outcome in outcomes) == [False, True]
    (winner,) = (one for one, outcome in zip(wants, outcomes, strict=True) if outcome.won)
    (loser,) = (one for one, outcome in zip(wants, outcomes, strict=True) if not outcome.won)
    assert store.claims() == [winner]
    assert [one.fresh[0].claims for one in outcomes if not one.won] == [(winner,)]
    assert place(store, loser).won
    assert store.claims() == [loser]


@pytest.mark.parametrize('first', ['renew', 'expire'])
def test_a_renewal_and_an_expiry_at_once(store, another, database, first):
    """Each looks at the claim again when it has the lock of the node; the first one decides."""
    ready(store)
    place(store, claim(A, node(), expires_s=NOW))
    (made,) = store.claims(A)
    renewing = another()
    renewing.clock = lambda: NOW - 1
    works = {
        'renew': lambda: renewing.renew_claim(made, 60.0),
        'expire': lambda: another().expire(NOW),
    }
    names = sorted(works, key=lambda name: name != first)
    found = dict(zip(names, held_up(database, *(works[name] for name in names)), strict=True))
    assert (
        found
        == {
            'renew': {'renew': True, 'expire': []},
            'expire': {'renew': False, 'expire': [made]},
        }[first]
    )
    renewed = dataclasses.replace(made, changed_s=NOW - 1, expires_s=NOW + 59)
    left = [renewed] if first == 'renew' else []
    assert store.claims() == left


@pytest.mark.parametrize(
    'end',
    [
        pytest.param(lambda store: store.expire(NOW), id='expire'),
        pytest.param(lambda store: store.release([(A, node())]).changed, id='release'),
        pytest.param(lambda store: store.confirm([A], [node()]), id='confirm'),
    ],
)
def test_two_schedulers_end_one_claim_once(store, another, database, end):
    ready(store)
    place(store, claim(A, node(), expires_s=NOW))
    found = held_up(database, lambda: end(another()), lambda: end(another()))
    assert sorted(map(len, found)) == [0, 1]


RACKS = [
    ClosedDomain(
        uuid_of(f'rack {number}'), frozenset(node(f'host-{one}') for one in (number, number + 1))
    )
    for number in range(3)
]


def member(name, number=0, fence=None, **words):
    """The planned claim of a member on host-(number)."""
    fences = (fence.token,) if fence else ()
    words = {
        'state': PLANNED,
        'top_group': uuid_of('group'),
        'member': name,
        'fences': fences,
        **words,
    }
    return claim(uuid_of(name), node(f'host-{number}'), **words)


def plan(*claims, serial=0, **words):
    of = {claim.top_group for claim in claims} or {uuid_of('group')}
    return guarded(claims, record=GroupRecord(*of, generation=serial), serial=serial, **words)


def marks(store):
    return {token for one in store.changes({}).nodes for token in one.fences}


def test_two_plans_for_the_same_last_slots(store, another, database):
    ready(store, 'host-0', 'host-1', vcpus=2)
    plans = [
        plan(
            *(
                member(f'{name} {number}', number, vcpus=2, top_group=uuid_of(name))
                for number in order
            )
        )
        for name, order in (('a', (0, 1)), ('b', (1, 0)))
    ]
    outcomes = held_up(database, *(lambda one=one: another().commit([one])[0] for one in plans))
    assert sorted(outcome.won for outcome in outcomes) == [False, True]
    assert len({one.top_group for one in store.claims()}) == 1
    assert len(store.claims()) == 2
    assert len(store.top_groups()) == 1


def test_two_changes_of_one_group(store, another, database):
    """Both have seen the same serial: the second one to come is told of the first."""
    ready(store, 'host-0', 'host-1')
    store.commit([plan(member('a'))])
    wants = [plan(member(name), serial=1) for name in ('b', 'c')]
    outcomes = held_up(database, *(lambda one=one: another().commit([one])[0] for one in wants))
    assert sorted(outcome.won for outcome in outcomes) == [False, True]
    (lost,) = (outcome for outcome in outcomes if not outcome.won)
    assert lost.record == store.top_group(uuid_of('group'))
    assert len(store.claims()) == 2


@pytest.mark.parametrize('order', [(0, 1), (1, 0)], ids=['the fence first', 'the outsider first'])
def test_an_outsider_comes_while_a_fence_goes_up(store, another, database, order):
    ready(store, 'host-0', 'host-1')
    wants = [
        plan(member('a', 1, RACKS[0]), closed_domains=(RACKS[0],)),
        Placement((claim(A, node()),)),
    ]
    outcomes = held_up(
        database, *(lambda one=wants[one]: another().commit([one])[0] for one in order)
    )
    assert [outcome.won for outcome in outcomes] == [True, False]
    assert len(store.claims()) == 1
    assert marks(store) == ({RACKS[0].token} if order[0] == 0 else set())


def test_a_node_comes_to_a_domain_while_its_fence_ends(store, another, database):
    """It does not keep a fence that no release would end any more."""
    ready(store, 'host-0', 'host-1', 'host-2')
    made = member('a', 1, RACKS[0])
    assert store.commit([plan(made, closed_domains=(RACKS[0],))])[0].won
    beside = lambda *_: another().spread_domain(RACKS[0].token, [node('host-2')])  # noqa: E731
    assert store.release([made.key]).changed == [made]
    with just_before('FOR UPDATE', beside):
        assert len(store.end_domains()) == 2
    assert marks(store) == set()
    assert store.spread_domain(RACKS[0].token, [node('host-2')]) == []


def test_whole_groups_come_and_go_and_no_transaction_waits_for_ever(store, another):
    """Plans with fences in overlapping racks, updates, ends, outsiders: no deadlock, no half
    plan."""
    ready(store, *(f'host-{number}' for number in range(4)), vcpus=8)

    def scheduler(name):
        mine, chance, won = another(), random.Random(name), 0
        for number in range(12):
            group, fence, away = uuid_of(f'{name} {number}'), chance.choice([*RACKS, None]), []
            hosts = (
                chance.choices(range(4), k=3)
                if fence is None
                else chance.choices(inside(fence), k=3)
            )
            claims = [member(f'{name} {number} {place}', host, fence, top_group=group)
                      for place, host in enumerate(hosts)]  # fmt: skip
            fences = (fence,) if fence else ()
            if not mine.commit([plan(*claims, closed_domains=fences)])[0].won:
                assert mine.top_group(group) is None
                assert mine.group_claims(group) == []
                continue
            won += 1
            assert len(mine.group_claims(group)) == 3
            for one in chance.sample(claims, 2):
                made = dataclasses.replace(
                    one, consumer_uuid=uuid_of(f'i {one.member}'), state=CONFIRMED
                )
                made = dataclasses.replace(made, uuid=uuid_of(f'claim {one.member}'))
                assert mine.commit([guarded((made,), (one.key,), planned_releases=(one.key,))])[
                    0
                ].won
                away.append(made.key)
            ends = guarded(
                (),
                tuple(one.key for one in claims),
                record=GroupRecord(group, deleted=True),
                serial=1,
            )
            assert mine.commit([ends])[0].won
            mine.release(away)
        return won

    with futures.ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(scheduler, 'abcd')) > 4
    assert store.claims() == []
    store.end_domains()
    assert marks(store) == set()
    assert store.top_groups() == []
    assert store.forget_groups() > 4


def inside(fence):
    return [number for number in range(4) if node(f'host-{number}') in fence.nodes]


@pytest.mark.parametrize('count', [2, 40])
@pytest.mark.parametrize(
    'rack, takes',
    [
        pytest.param(None, {'postgresql': 3, 'mysql': 6}, id='ordinary'),
        pytest.param(RACKS[0], {'postgresql': 9, 'mysql': 9}, id='exclusive'),
    ],
)
def test_how_many_messages_a_plan_takes(store, database, count, rack, takes):
    """However many members it has."""
    ready(store, 'host-0', 'host-1', vcpus=40)
    members = [member(str(number), number % 2, rack) for number in range(count)]
    with counted() as messages:
        assert store.commit([plan(*members, closed_domains=(rack,) if rack else ())])[0].won
    assert len(messages) == takes[database.dialect.name]


def test_an_instance_takes_the_place_of_its_plan_while_others_are_at_work(
    store, another, database
):
    """It locks only its own node, though the whole rack is for its group alone."""
    ready(store, 'host-0', 'host-1')
    old = member('a', 0, RACKS[0])
    store.commit([plan(old, closed_domains=(RACKS[0],))])
    made = dataclasses.replace(old, consumer_uuid=A, state='pending', uuid=uuid_of('claim'))
    with futures.ThreadPoolExecutor(1) as pool, database.begin() as connection:
        lock(connection, node('host-1'))
        running = pool.submit(
            another().commit, [guarded((made,), (old.key,), planned_releases=(old.key,))]
        )
        assert running.result(30)[0].won


def test_a_node_leaves_during_a_claim_on_it(store, another, database):
    ready(store)
    held_up(
        database, lambda: another().remove_node(node()), lambda: place(another(), claim(A, node()))
    )
    assert store.changes({}).nodes == ()
    assert store.claims() == []


def test_many_schedulers_never_exceed_the_capacity(store, another):
    ready(store, 'host-0', 'host-1', vcpus=10)

    def take(name):
        mine, won = another(), 0
        for number in range(10):
            both = [
                claim(uuid_of(f'{name} {number} {host}'), node(host))
                for host in ('host-0', 'host-1')
            ]
            won += until_it_answers(
                mine.commit, [Placement(tuple(both[:: 1 - 2 * (number % 2)]))]
            )[0].won
        return won

    with futures.ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(take, 'abcd')) == 10
    assert len(store.claims()) == 20


def until_it_answers(work, *args):
    """As the engine does it: what a deadlock stopped is done again."""
    while True:
        with contextlib.suppress(errors.StoreUnavailable):
            return work(*args)


def test_the_first_report_of_a_node_to_two_schedulers_at_once(store, another, database):
    """The later one finds the node where there was none, and is told to do it again."""
    first = [report()]
    early = just_before('INSERT INTO nodes', lambda *_: store.report(first, NOW))
    with early, pytest.raises(errors.StoreUnavailable):
        another().report([report(vcpus=9)], NOW)
    (found,) = another().report([report(vcpus=9)], NOW)
    assert found == store.changes({}).nodes[0]
    assert found.report == report(vcpus=9)


def test_a_look_never_takes_old_claims_for_new(store, another, database):
    """A claim is committed between the statements of a poll: the next poll, at the latest, sees
    it."""
    ready(store)
    reader, made = another(), claim(A, node())
    with just_before('FROM claims', lambda *_: place(store, made)):
        (seen,) = reader.changes({}).nodes
    news = reader.changes({node(): seen.generation}).nodes
    assert (seen, *news)[-1].claims == (made,)


def test_a_node_that_comes_and_goes_during_its_first_report(store, another, database):
    """Another scheduler has it for a moment. The node that this report makes has its text."""
    if database.dialect.name == 'mysql':
        pytest.skip('MariaDB locks the place of the node instead')
    other = another()
    with contextlib.ExitStack() as stack:

        def come(*_):
            other.report([report(vcpus=9)], NOW)
            stack.enter_context(
                just_before('INSERT INTO nodes', lambda *_: other.remove_node(node()))
            )

        with just_before('WHERE node_uuid IN', come):
            store.report([report()], NOW)
    store.report([report(vcpus=4)], NOW + 1)
    assert [one.report.inventories['VCPU'].total for one in store.changes({}).nodes] == [4]
    assert_clean(database, NOW)


@pytest.mark.parametrize('known', [True, False])
def test_what_a_claim_is_judged_by_is_read_under_the_lock(store, another, database, known):
    """Another scheduler claims for the consumer between the look at its claims and the lock."""
    ready(store, vcpus=4)
    ours = claim(A, node(), vcpus=3)
    theirs = claim(A, node(), vcpus=2)
    beside = claim(B, node(), vcpus=1)
    first = Placement((ours,), replaces=frozenset([theirs.uuid] if known else []))
    with just_before('FOR UPDATE', lambda *_: place(store, theirs)):
        outcomes = another().commit([first, Placement((beside,))])
    assert [outcome.won for outcome in outcomes] == [known, True]
    stays = ours if known else theirs
    assert {one.uuid for one in store.claims()} == {stays.uuid, beside.uuid}


@pytest.mark.parametrize('count', [1, 20])
def test_how_many_messages_claims_of_new_instances_take(store, database, count):
    """However many there are; MariaDB's driver says COMMIT, and takes one statement in a
    message."""
    ready(store, 'host-0', 'host-1')
    wanted = [
        claim(uuid_of(f'instance {number}'), node(f'host-{number % 2}')) for number in range(count)
    ]
    with counted() as messages:
        outcomes = store.commit([Placement((one,), runs={}) for one in wanted])
    assert all(outcome.won for outcome in outcomes)
    assert len(messages) == {'postgresql': 2, 'mysql': 5}[database.dialect.name]


def test_who_loses_a_deadlock_may_try_again(store, another, database):
    ready(store, 'host-0', 'host-1')
    first, second = sorted([node('host-0'), node('host-1')])
    with futures.ThreadPoolExecutor(1) as pool:
        with database.begin() as connection:
            lock(connection, second)
            running = pool.submit(place, another(), claim(A, first), claim(B, second))
            waiting(database, 1)
            lock(connection, first)
        with pytest.raises(errors.StoreUnavailable):
            running.result(30)
    assert place(store, claim(A, first), claim(B, second)).won


def test_while_the_server_is_away_every_call_says_so_and_then_goes_on(store, server):
    ready(store)
    place(store, claim(A, node(), created_s=NOW))
    before = store.claims()
    server.kill()
    said = []
    for call in (*CALLS.values(), *READS.values()):
        with pytest.raises(errors.StoreUnavailable) as away:
            call(store)
        said.append(str(away.value))
    server.start()
    assert len(said) == len(CALLS) + len(READS)
    assert store.claims() == before
    for call in (*CALLS.values(), *READS.values()):
        call(store)


def test_each_consumer_is_counted_once_and_no_capacity_is_exceeded(upgraded):
    """Random lives of instances on several schedulers before one server, see the machine."""

    class OnServer(TwoEngines):
        def stores(self):
            clean = cleared(upgraded)
            return lambda: SqlClaimStore(clean, still)

    search(OnServer, 8)
