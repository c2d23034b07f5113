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
"""Learning how long servers last, and the expected ends of hosts by it."""

import dataclasses
import math
import threading

import pytest

from nova_sched.claim import LIVE_MIGRATION
from nova_sched.db.lifetimes import SqlLifetimes
from nova_sched.engine import end_learner
from nova_sched.engine.end_learner import EndLearner
from nova_sched.lifetimes.ages import HOUR_S
from nova_sched.lifetimes.life import Kind, Life
from nova_sched.tests.builders import NOW, aggregate, cluster, report, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.world import World, end_claims, rules, settle_claim
from nova_sched.weighers.exit_time import ExitTimeWeigher
from nova_sched.weighers.ram import RAMWeigher

MULTIPLIER = 'filter_scheduler.exit_time_weight_multiplier'
LEARNED = {MULTIPLIER: 1.0, 'filter_scheduler.learned_ends': True}
CI = {'flavor_name': 'ci', 'project_id': 'tests', 'vcpus': 1, 'memory_mb': 16}
WEB = {'flavor_name': 'web', 'project_id': 'shop', 'vcpus': 1, 'memory_mb': 16}


@pytest.fixture(autouse=True)
def learns():
    with settings(LEARNED):
        yield


def world(**words):
    made = World(chain=rules((), [ExitTimeWeigher()]), **words)
    made.scheduler.ends._call = lambda work, *args: work(*args)
    made.scheduler.ends.turn()
    return made


def with_hosts(count=3, **words):
    made = world(**words)
    made.report(*(report(f'host-{number}', vcpus=512) for number in range(count)))
    return made


def run(made, name, lasts_s=None, **words):
    """Places and builds a server; it is deleted after some time. Returns its host."""
    wanted = request(instance_uuid=uuid_of(name), **words)
    ((host,),) = made.place(wanted)
    made.call(made.claim_service.confirm_claim, wanted.instance_uuid, host)
    if lasts_s is not None:
        made.now_s += lasts_s
        made.call(end_claims, made.claim_service, wanted.instance_uuid)
    return host


def counted(made):
    """What is known of ends, by kind."""
    made.scheduler.ends._exchange()
    return {
        kind: round(float(counts[0].sum()), 2)
        for kind, counts in made.scheduler.ends._shared.now.counts.items()
    }


def test_the_end_of_a_server_is_counted():
    made = with_hosts()
    run(made, 'a', 600.0, **CI)
    run(made, 'b', 600.0, **CI, together=4)
    assert counted(made) == {Kind('tests', 'ci', 1): 1.0, Kind('tests', 'ci', 4): 0.5}


def test_a_server_that_is_not_reported_any_more_has_ended():
    made = with_hosts(1)
    run(made, 'a', **CI)
    told = report('host-0', vcpus=512)
    for lasts_s, names in (0.0, ['a']), (600.0, []), (60.0, []):
        made.now_s += lasts_s
        made.report(dataclasses.replace(told, instances=frozenset(map(uuid_of, names))))
    assert counted(made) == {Kind('tests', 'ci', 1): 1.0}


def test_a_server_that_was_never_built_has_not_lived():
    made = with_hosts()
    made.place(request(instance_uuid=uuid_of('a'), **CI))
    made.call(end_claims, made.claim_service, uuid_of('a'))
    made.place(request(instance_uuid=uuid_of('b'), **CI))
    made.now_s += 1e6
    made.call(made.state_sync.expire)
    assert counted(made) == {}


def test_a_server_that_moves_has_not_ended():
    """It ends once, and is as old as since its first claim."""
    made = with_hosts(2)
    source = run(made, 'a', **CI)
    made.now_s += 2 * HOUR_S
    target = ({'host-0', 'host-1'} - {source}).pop()
    wanted = request(instance_uuid=uuid_of('a'), vcpus=1, memory_mb=16, project_id='tests')
    made.call(made.claim_service.claim, wanted, target, target, None, None, LIVE_MIGRATION)
    made.call(settle_claim, made.claim_service, uuid_of('a'), target)
    assert counted(made) == {}
    made.now_s += HOUR_S
    made.call(end_claims, made.claim_service, uuid_of('a'))
    assert counted(made) == {Kind('tests', 'ci', 1): 1.0}
    ends = made.scheduler.ends._shared.now.counts[Kind('tests', 'ci', 1)][0]
    assert ends.nonzero()[0].tolist() == [14]  # three hours


def test_one_of_two_claims_that_ends_is_no_end():
    made = with_hosts(2)
    source = run(made, 'a', **CI)
    target = ({'host-0', 'host-1'} - {source}).pop()
    wanted = request(instance_uuid=uuid_of('a'), **CI)
    made.call(made.claim_service.claim, wanted, target, target, None, None, LIVE_MIGRATION)
    made.call(end_claims, made.claim_service, uuid_of('a'), source)
    assert counted(made) == {}


def test_a_claim_on_a_named_host_begins_now():
    """No decision has told the time before."""
    made = with_hosts(1)
    made.now_s += 2 * HOUR_S
    wanted = request(instance_uuid=uuid_of('a'), **CI, hints={'ttl': [60]})
    made.call(made.claim_service.claim, wanted, 'host-0', 'host-0')
    (found,) = made.store.claims()
    assert (found.life.began_s, found.ends_s) == (made.now_s, made.now_s + 60)


def test_servers_of_before_count_with_all():
    """Their claims do not tell their flavor."""
    with settings({'filter_scheduler.learned_ends': False}):
        made = with_hosts()
        run(made, 'a', **CI)
        assert [one.life for one in made.store.claims()] == [None]
    with settings(LEARNED):
        made.scheduler.ends.turn()
        made.now_s += 600.0
        made.call(end_claims, made.claim_service, uuid_of('a'))
        assert counted(made) == {Kind(): 1.0}


def test_claims_keep_what_is_learned_from():
    made = with_hosts()
    run(made, 'a', **CI, together=3)
    assert [one.life for one in made.store.claims()] == [Life('ci', 3, NOW)]


@pytest.mark.parametrize('of_web', [0, 1, 2])
def test_servers_go_where_others_are_expected_to_last_as_long(of_web):
    """No end is told: that CI servers end in minutes, and others last, is learned."""
    made = with_hosts(3)
    for number in range(40):
        run(made, f'ci-{number}', 600.0, **CI)
    nodes = made.cluster.hosts.nodes
    for row, node in enumerate(nodes):
        words = WEB if row == of_web else CI
        wanted = request(instance_uuid=uuid_of(f'{row}'), **words)
        made.call(made.claim_service.claim, wanted, node.host, node.nodename)
        made.call(made.claim_service.confirm_claim, wanted.instance_uuid, node.host)
    made.now_s += 20 * HOUR_S
    for row, node in enumerate(nodes):
        if row != of_web:
            made.call(end_claims, made.claim_service, uuid_of(f'{row}'))
            wanted = request(instance_uuid=uuid_of(f'again {row}'), **CI)
            made.call(made.claim_service.claim, wanted, node.host, node.nodename)
    made.scheduler.ends.turn()
    assert run(made, 'web', **WEB) == nodes[of_web].host


def test_an_end_that_has_passed_is_expected_again():
    made = with_hosts(1)
    for number in range(40):
        run(made, f'ci-{number}', 600.0, **CI)
    run(made, 'late', **CI)
    hosts = made.cluster.hosts
    made.now_s += HOUR_S
    made.scheduler.ends.turn()
    first = hosts.exit_s[0]
    assert first > made.now_s
    made.now_s = first + 1.0
    assert hosts.exit_s[0] < made.now_s
    made.scheduler.ends.turn()
    assert hosts.exit_s[0] > made.now_s


def test_ends_that_are_known_stay():
    made = with_hosts(1)
    run(made, 'a', **CI, hints={'ttl': [60]})
    for _ in range(3):
        assert made.cluster.hosts.exit_s.tolist() == [NOW + 60]
        made.now_s += HOUR_S
        made.scheduler.ends.turn()


def test_when_things_are_done(monkeypatch):
    """A clock that is set back is no reason to wait."""
    made, done = world(), []
    learner = made.scheduler.ends
    monkeypatch.setattr(learner, '_exchange', lambda: done.append('exchange'))
    monkeypatch.setattr(learner, '_estimate', lambda: done.append('estimate'))
    monkeypatch.setattr(learner, '_show', lambda survival, pause: done.append('show'))
    for step_s, expected in [
        (10.0, []),
        (end_learner.SHOW_S, ['exchange', 'show']),
        (10.0, []),
        (end_learner.EVERY_S, ['exchange', 'estimate', 'show']),
        (10.0, []),
        (-HOUR_S, ['exchange', 'estimate', 'show']),
        (10.0, []),
    ]:
        done.clear()
        made.now_s += step_s
        learner.turn()
        assert done == expected


@pytest.mark.parametrize(
    'options, weighers',
    [
        pytest.param(
            {'filter_scheduler.learned_ends': False}, [ExitTimeWeigher()], id='no option'
        ),
        pytest.param({MULTIPLIER: 0.0}, [ExitTimeWeigher()], id='multiplier 0'),
        pytest.param({}, [RAMWeigher()], id='without the weigher'),
    ],
)
def test_nothing_is_learned(options, weighers):
    """Nothing is kept of servers then, and their ends are not known."""
    made = with_hosts(1)
    assert made.cluster.hosts.survival is not None
    with settings(options):
        made.scheduler.ends.follow(rules((), weighers))
        made.scheduler.ends.turn()
        assert made.cluster.hosts.survival is None
        run(made, 'a', **CI)
        assert made.cluster.hosts.exit_s.tolist() == [math.inf]
        made.now_s += 60.0
        made.call(end_claims, made.claim_service, uuid_of('a'))
        assert counted(made) == {}
    with settings(LEARNED):
        made.scheduler.ends.follow(rules((), [ExitTimeWeigher()]))
        made.scheduler.ends.turn()
        assert made.cluster.hosts.survival is not None


def test_an_aggregate_with_a_multiplier_is_enough():
    made = cluster(1)
    made.set_aggregate(1, aggregate(1, ['host-0'], **{ExitTimeWeigher.option: '1'}))
    with settings({MULTIPLIER: 0.0}):
        learner = EndLearner(made, lambda work, *args: work(*args), lambda: NOW)
        assert not learner.is_used
        learner.follow(rules((), [ExitTimeWeigher()]))
        assert learner.is_used


def test_all_hosts_are_looked_at():
    made = with_hosts(3 * end_learner.AT_ONCE + 1)
    hosts = made.cluster.hosts
    wanted = request(instance_uuid=uuid_of('a'), **CI)
    for node in made.cluster:
        made.cluster.consume(node, wanted)
    hosts.exit_s[:] = 0.0
    calls = []

    def call(work, *args):
        calls.append(args)
        return work(*args)

    made.scheduler.ends._call = call
    made.now_s += end_learner.SHOW_S
    made.scheduler.ends.turn()
    assert (hosts.exit_s > made.now_s).all()
    assert len(calls) == 1 + 4


@pytest.fixture
def lifetimes(database):
    return SqlLifetimes(database)


def test_what_was_learned_outlives_the_scheduler(lifetimes):
    """One that starts later, and one that runs beside it, expect the same ends."""
    first = with_hosts(1)
    first.scheduler.ends = EndLearner(
        first.cluster,
        lambda work, *args: work(*args),
        lambda: first.now_s,
        uuid_of('1'),
        lifetimes,
    )
    first.scheduler.ends.follow(rules((), [ExitTimeWeigher()]))
    first.state_sync.tell_ended = first.scheduler.ends.learn
    for number in range(40):
        run(first, f'ci-{number}', 600.0, **CI)
    first.scheduler.ends._exchange()
    known = first.scheduler.ends._estimate().rest_s(Kind('tests', 'ci', 1), 0.0)
    other = cluster(1)
    second = EndLearner(
        other, first.scheduler.ends._call, first.context.clock, uuid_of('2'), lifetimes
    )
    second.follow(rules((), [ExitTimeWeigher()]))
    second.turn()
    found = other.hosts.survival.rest_s(Kind('tests', 'ci', 1), 0.0)
    assert found == pytest.approx(known, rel=1e-2)
    assert found == pytest.approx(1000.0, rel=0.7)


def test_a_scheduler_that_starts_reads_the_lives_of_its_servers():
    store = MemoryClaimStore()
    first = with_hosts(1, store=store)
    run(first, 'a', **CI)
    second = World(store, chain=rules((), [ExitTimeWeigher()]))
    assert [one.life for one in second.cluster.claims_of(uuid_of('a'))] == [Life('ci', 1, NOW)]


def test_the_thread_learns_and_stores_what_is_left(lifetimes):
    shown, made = threading.Event(), cluster(2)

    def call(work, *args):
        found = work(*args)
        shown.set()
        return found

    learner = EndLearner(made, call, lambda: NOW, uuid_of('me'), lifetimes)
    learner.follow(rules((), [ExitTimeWeigher()]))
    learner.start()
    assert shown.wait(60)
    learner._ended.append((Kind('tests', 'ci', 1), 60.0, NOW))
    learner.stop()
    assert list(lifetimes.total().counts) == [Kind('tests', 'ci', 1)]


def test_a_thread_that_learns_nothing_asks_no_store():
    class Store:
        def __getattr__(self, name):
            raise AssertionError(name)

    learner = EndLearner(cluster(1), None, lambda: NOW, 'me', Store())
    learner.start()
    learner.stop()
    assert not learner._thread.is_alive()


def test_a_failure_is_logged(caplog):
    failed = threading.Event()

    def call(work, *args):
        failed.set()
        raise RuntimeError('no')

    learner = EndLearner(cluster(1), call, lambda: NOW)
    learner.follow(rules((), [ExitTimeWeigher()]))
    learner.start()
    assert failed.wait(60)
    for _ in range(600):
        if 'stay as they were' in caplog.text:
            break
        threading.Event().wait(0.1)
    learner.stop()
    assert 'The expected ends of servers stay as they were' in caplog.text


def test_ends_that_wait_are_bounded():
    made = with_hosts(1)
    learner = made.scheduler.ends
    learner._ended.extend([(Kind(), 60.0, NOW)] * (end_learner.WAITING + 5))
    learner._exchange()
    assert learner._shared.total.total == pytest.approx(end_learner.WAITING, rel=1e-3)
