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
"""Tests of what schedulers learn of each other: what follows is applied, the rest is read, in
bounds."""

import collections
import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claims.memory import MemoryClaimStore
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.engine.sync.changes import ChangeEvent, ChangePublisher, Commit
from nova_sched.engine.sync.replica_sync import SOME, WAITING, ReplicaSync
from nova_sched.engine.sync.store_poller import StorePoller
from nova_sched.objects.claim import CONFIRMED
from nova_sched.rpc.change_events import from_plain, to_plain
from nova_sched.state.aggregates import HostAggregate
from nova_sched.tests.builders import NOW, aggregate, claim, report, request, uuid_of
from nova_sched.tests.unit.engine.stores import Unsteady
from nova_sched.tests.unit.engine.test_machine import database
from nova_sched.tests.unit.engine.world import World, fresh, picture, rules
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, told, wanted
from nova_sched.tests.unit.hardware.builders import request as device

__all__ = ['database']

A, B, C = (uuid_of(f'instance {name}') for name in 'ABC')
HOST_0, HOST_1 = (uuid_of(f'node host-{number}') for number in range(2))


class Counting(Unsteady):
    """Notes which nodes are looked at."""

    def __init__(self):
        super().__init__()
        self.looked = []

    def look(self, nodes):
        self.looked.append(sorted(nodes))
        return super().look(nodes)


class Pair:
    """Two schedulers on one store; ``news`` are on their way from the first to the second."""

    def __init__(self, hosts=2, **words):
        self.store = Counting()
        self.news = []
        self.one = World(
            self.store, rules(), news=ChangePublisher(self.news.append, clock=lambda: NOW)
        )
        self.two = World(self.store, rules())
        self.one.report(*(report(f'host-{number}', vcpus=8, **words) for number in range(hosts)))
        self.two.state_sync.refresh()
        self.told()
        self.forget()

    def forget(self):
        del self.news[:], self.store.looked[:]

    def told(self):
        """What the first has told until now."""
        self.one.scheduler.replica_sync.publisher.flush()
        return list(self.news)

    def arrive(self, *news):
        """These news, or all, reach the second over the wire."""
        for one in news or self.told():
            self.two.scheduler.receive(from_plain(**to_plain(one)))
        self.two.loop.turn()

    def heal(self, world=None):
        """What was read of the store by this."""
        del self.store.looked[:]
        world = world or self.two
        world.call(world.state_sync.heal)
        return self.store.looked

    def is_fresh(self, world=None):
        world = world or self.two
        return picture(world.cluster) == picture(fresh(self.store)) and {
            (node.uuid, node.generation) for node in world.cluster
        } == {(uuid, generation) for uuid, (generation, _) in self.store.heads().items()}


@pytest.fixture
def pair():
    return Pair()


# What follows.


def place(pair, *requests):
    pair.one.place(*requests)


def claim_on(pair, consumer, host, leaving=None, **words):
    one = request(instance_uuid=consumer, **words)
    pair.one.call(pair.one.claim_service.claim, one, host, host, None, leaving)


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda pair: place(pair, request(instance_uuid=A)), id='one instance'),
        pytest.param(
            lambda pair: place(pair, *(request(instance_uuid=one, vcpus=5) for one in (A, B))),
            id='two at once',
        ),
        pytest.param(
            lambda pair: claim_on(pair, A, 'host-1'), id='a claim on a host that is named'
        ),
    ],
)
def test_claims_follow_without_a_look(pair, work):
    work(pair)
    pair.arrive()
    assert not pair.two.scheduler.replica_sync.wake.is_set()
    assert pair.store.looked == []
    assert pair.is_fresh()
    assert pair.is_fresh(pair.one)


def test_a_batch_is_one_commit(pair):
    futures = [pair.one.send_place(request(instance_uuid=one)) for one in (A, B, C)]
    pair.one.turn_until(*futures)
    (news,) = pair.told()
    assert sorted(news.commits[0].consumers) == sorted((A, B, C))
    pair.arrive()
    assert pair.is_fresh()


def test_commits_one_after_the_other(pair):
    for one in (A, B, C):
        place(pair, request(instance_uuid=one))
    (news,) = pair.told()
    assert len(news.commits) == 3
    pair.arrive()
    assert pair.store.looked == []
    assert pair.is_fresh()


def test_a_claim_that_takes_the_place_of_an_older_one(pair):
    claim_on(pair, A, 'host-0', vcpus=2)
    claim_on(pair, A, 'host-0', vcpus=3)
    pair.arrive()
    assert pair.store.looked == []
    assert pair.is_fresh()


def test_an_alternate_in_place_of_a_failed_host(pair):
    claim_on(pair, A, 'host-0')
    claim_on(pair, A, 'host-1', leaving='host-0')
    pair.arrive()
    assert pair.store.looked == []
    assert pair.is_fresh()


def test_an_older_claim_that_ended_elsewhere_is_read(pair):
    """The store does not say to which generation that other node rose."""
    claim_on(pair, A, 'host-0')
    claim_on(pair, A, 'host-1')
    pair.arrive()
    assert pair.heal() == [[HOST_0]]
    assert pair.is_fresh()
    assert pair.heal(pair.one) == [[HOST_0]]
    assert pair.is_fresh(pair.one)


def test_a_resize_in_place(pair):
    claim_on(pair, A, 'host-0', vcpus=2)
    pair.one.report(report('host-0', vcpus=8, vcpus_used=2, instances=frozenset([A])))
    pair.arrive()
    pair.heal()
    claim_on(pair, A, 'host-0', vcpus=3)
    pair.arrive()
    assert pair.heal() == []
    assert pair.is_fresh()


def test_cpus_and_devices():
    has = machine(cell(0, [0], range(1, 4)), pools=[pool(1)])
    pair = Pair(**told(has))
    place(pair, request(instance_uuid=A, pieces=wanted(dedicated(2), requests=[device(1)])))
    place(pair, request(instance_uuid=B, pieces=wanted(dedicated(1))))
    pair.arrive()
    assert pair.store.looked == []
    assert pair.is_fresh()


def test_a_refusal_and_a_question_are_no_news(pair):
    with pytest.raises(errors.NoValidHost):
        place(pair, request(instance_uuid=A, vcpus=9))
    pair.one.place(request(instance_uuid=A), claim=False)
    assert pair.told() == []


# What does not follow.


def two_commits(pair):
    """News of two commits on one node, each by itself."""
    found = []
    for one in (A, B):
        claim_on(pair, one, 'host-0')
        found += pair.told()
        del pair.news[:]
    return found


def test_news_that_overtook_others_are_read(pair):
    first, second = two_commits(pair)
    pair.arrive(second)
    assert pair.two.scheduler.replica_sync.wake.is_set()
    assert A not in pair.two.cluster.node(HOST_0).claims
    assert pair.heal() == [[HOST_0]]
    assert not pair.two.scheduler.replica_sync.wake.is_set()
    assert pair.is_fresh()
    pair.arrive(first)
    assert pair.heal() == []
    assert pair.is_fresh()


def test_news_that_came_in_before_the_look_make_it_shorter(pair):
    first, second = two_commits(pair)
    for news in (second, first, second):
        pair.arrive(news)
    assert pair.heal() == []
    assert pair.is_fresh()


def test_news_that_come_again_are_old(pair):
    first, second = two_commits(pair)
    for news in (first, second, first, second, first):
        pair.arrive(news)
    assert pair.heal() == []
    assert pair.is_fresh()


def test_own_work_that_others_know_nothing_of_is_no_obstacle(pair):
    """Both claim on one node at the same time: each has the other's claim from its news, or reads
    it."""
    claim_on(pair, A, 'host-0')
    pair.two.call(pair.two.claim_service.claim, request(instance_uuid=B), 'host-0', 'host-0')
    pair.arrive()
    assert pair.heal() == [[HOST_0]]
    assert pair.is_fresh()


def test_a_node_that_is_not_known_here(pair):
    pair.two.cluster.remove(HOST_0)
    claim_on(pair, A, 'host-0')
    pair.arrive()
    assert pair.heal() == [[HOST_0]]
    assert pair.is_fresh()


def test_news_of_a_node_that_left_meanwhile(pair):
    claim_on(pair, A, 'host-0')
    late = pair.told()
    pair.one.call(pair.one.state_sync.remove_node, 'host-0', 'host-0')
    pair.two.state_sync.refresh()
    pair.arrive(*late)
    assert pair.heal() == [[HOST_0]]
    assert pair.is_fresh()


def test_who_lost_does_not_count_the_winner_twice(pair):
    """The loser has the true use of the node, with the winner's claim in it; the winner's news
    come then, and make it read the claim."""
    claim_on(pair, A, 'host-0', vcpus=5)
    with pytest.raises(errors.ComputeResourcesUnavailable):
        pair.two.call(
            pair.two.claim_service.claim, request(instance_uuid=B, vcpus=5), 'host-0', 'host-0'
        )
    assert pair.two.cluster.node(HOST_0).usage('VCPU').used == 5
    pair.arrive()
    assert pair.two.cluster.node(HOST_0).usage('VCPU').used == 5
    assert pair.heal() == [[HOST_0]]
    assert pair.two.cluster.node(HOST_0).usage('VCPU').used == 5
    assert pair.is_fresh()


def test_a_commit_that_breaks_is_read(pair, caplog):
    """As what a later release might send."""
    claim_on(pair, A, 'host-0')
    pair.arrive()
    generation = pair.two.cluster.node(HOST_0).generation
    bad = dataclasses.replace(claim(A, HOST_0), resources={'VCPU': 'many'})
    news = ChangeEvent(NOW, (Commit({HOST_0: (generation, generation + 1)}, (A,), (bad,)),))
    pair.two.scheduler.receive(news)
    pair.two.loop.turn()
    assert 'cannot be applied' in caplog.text
    assert pair.heal() == [[HOST_0]]
    assert pair.is_fresh()


# Changes of other kinds.


def confirm(pair):
    pair.one.call(pair.one.state_sync.instances_added, 'host-0', [A])


def expire(pair):
    pair.one.now_s += 7200
    pair.one.call(pair.one.state_sync.expire)


@pytest.mark.parametrize(
    'work, nodes',
    [
        pytest.param(
            lambda pair: pair.one.report(report('host-0', vcpus=9)), [HOST_0], id='report'
        ),
        pytest.param(
            lambda pair: pair.one.report(
                report('host-0', vcpus=8, vcpus_used=1, instances=frozenset([A]))
            ),
            [HOST_0],
            id='report that confirms',
        ),
        pytest.param(
            lambda pair: pair.one.report(report('host-9')), [uuid_of('node host-9')], id='new node'
        ),
        pytest.param(
            lambda pair: pair.one.report(report('host-0', node_uuid=A)),
            [A],
            id='node that was rebuilt',
        ),
        pytest.param(confirm, [HOST_0], id='confirmed by its host'),
        pytest.param(
            lambda pair: pair.one.call(pair.one.claim_service.confirm_claim, A, 'host-0'),
            [HOST_0],
            id='confirmed',
        ),
        pytest.param(
            lambda pair: pair.one.call(pair.one.claim_service.abort_claim, A),
            [HOST_0],
            id='aborted',
        ),
        pytest.param(expire, [HOST_0], id='expired'),
        pytest.param(
            lambda pair: pair.one.call(pair.one.state_sync.remove_node, 'host-0', 'host-0'),
            [HOST_0],
            id='removed',
        ),
    ],
)
def test_changed_nodes_are_read(pair, work, nodes):
    claim_on(pair, A, 'host-0')
    pair.arrive()
    pair.forget()
    work(pair)
    assert [news.commits for news in pair.told()] == [()]
    pair.arrive()
    assert pair.heal() == [nodes]
    assert pair.is_fresh()
    pair.heal(pair.one)
    assert pair.is_fresh(pair.one)


def test_a_report_of_nothing_new_is_no_news(pair):
    pair.one.report(report('host-0', vcpus=8), report('host-1', vcpus=8))
    assert pair.told() == []


@pytest.mark.parametrize(
    'work, seen',
    [
        pytest.param(
            lambda state_sync: state_sync.set_service('host-1', True, 'broken', None, NOW),
            lambda cluster: cluster.hosts.disabled.tolist() == [False, True],
            id='service',
        ),
        pytest.param(
            lambda state_sync: state_sync.set_aggregates([aggregate(3, ['host-1'])]),
            lambda cluster: cluster.hosts.aggregates.get(3) == aggregate(3, ['host-1']),
            id='aggregate',
        ),
        pytest.param(
            lambda state_sync: state_sync.delete_aggregate(7),
            lambda cluster: cluster.hosts.aggregates.get(7) is None,
            id='aggregate that went',
        ),
        pytest.param(
            lambda state_sync: state_sync.instances_are('host-1', [C]),
            lambda cluster: cluster.told('host-1') == {C},
            id='instance list',
        ),
    ],
)
def test_small_tables(pair, work, seen):
    pair.one.call(pair.one.state_sync.set_aggregates, [aggregate(7, ['host-0'])])
    pair.arrive()
    pair.heal()
    pair.forget()
    assert not seen(pair.two.cluster)
    pair.one.call(work, pair.one.state_sync)
    assert [(news.tables, news.looks) for news in pair.told()] == [(True, {})]
    pair.arrive()
    assert pair.heal() == [[]]
    assert seen(pair.two.cluster)


# In bounds.


def test_what_is_too_much_is_dropped_and_counted():
    heard = ReplicaSync(World().context)
    for _ in range(WAITING + 5):
        heard.receive(ChangeEvent(NOW))
    assert heard.figures.news_dropped == 5
    heard.take([])
    assert heard.figures.news_heard >= 1


def test_requests_have_their_turn_between_news():
    turns = []
    heard = ReplicaSync(World().context, turn=lambda: turns.append('news'), at_once_s=0.0)
    for _ in range(3):
        heard.receive(ChangeEvent(NOW))
    assert turns == ['news'], 'one message to the loop stands for all'
    for left in (2, 1, 0):
        heard.take([])
        assert len(turns) == 1 + 3 - max(left, 1)
    assert heard.figures.news_heard == 3
    heard.receive(ChangeEvent(NOW))
    assert len(turns) == 4


def test_a_look_reads_some_nodes():
    pair = Pair(hosts=2 * SOME + 50)
    pair.arrive(ChangeEvent(NOW, looks={node.uuid: 99 for node in pair.two.cluster}))
    looks = []
    while pair.two.scheduler.replica_sync.wake.is_set():
        looks += [len(nodes) for nodes in pair.heal()]
    assert looks == [SOME, SOME, 50]


def test_a_look_at_a_database_that_is_away_is_made_again(pair):
    pair.one.report(report('host-0', vcpus=9))
    pair.arrive()
    pair.store.away.set()
    pair.two.loop.hurry()
    with pytest.raises(errors.StoreUnavailable):
        pair.heal()
    pair.store.away.clear()
    assert pair.heal() == [[HOST_0]]
    assert pair.is_fresh()


def test_figures(pair):
    claim_on(pair, A, 'host-0')
    pair.two.now_s = NOW + 0.25
    pair.arrive()
    pair.two.now_s = NOW - 9
    pair.arrive(ChangeEvent(NOW))
    figures = pair.two.scheduler.figures
    assert pair.one.scheduler.figures.news_told == 2, 'the reports, and the claim'
    assert (figures.news_heard, figures.news_lag_s) == (2, 0.0), 'clocks may differ'


# Cut off.


def everything(world, later_s):
    """Much of what may happen in an hour, on hosts 0 to 9."""
    state_sync, claim_service = world.state_sync, world.claim_service
    world.now_s += later_s / 2
    world.call(claim_service.abort_claim, A)
    world.call(claim_service.confirm_claim, B, 'host-1')
    for number in range(6):
        world.call(
            claim_service.claim,
            request(instance_uuid=uuid_of(f'later {number}')),
            f'host-{number}',
            f'host-{number}',
        )
    world.call(claim_service.claim, request(instance_uuid=C), 'host-6', 'host-6', None, 'host-2')
    world.call(state_sync.remove_node, 'host-3', 'host-3')
    world.call(state_sync.remove_node, 'host-4', 'host-4')
    world.now_s += later_s / 2
    world.report(report('host-4', vcpus=3), report('host-10'))
    world.report(report('host-5', vcpus=99), report('host-7', node_uuid=uuid_of('rebuilt')))
    world.report(report('host-8', instances=frozenset([uuid_of('stranger')]), vcpus_used=1))
    world.call(state_sync.set_service, 'host-6', True, 'broken', False, world.now_s)
    world.call(state_sync.set_service, 'host-8', False, None, True, world.now_s)
    world.call(
        state_sync.set_aggregates,
        [aggregate(1, ['host-9']), aggregate(3, ['host-0', 'host-10'], zone='x')],
    )
    world.call(state_sync.delete_aggregate, 2)
    world.call(state_sync.instances_are, 'host-9', [uuid_of('told')])


def all_of(cluster):
    """The picture, and what is not in it."""
    hosts, ids = cluster.hosts, range(5)
    nodes = {
        node.uuid: (
            node.generation,
            node.report,
            dataclasses.astuple(Plain.of(node.service)),
            bool(hosts.disabled[node.row]),
            bool(hosts.forced_down[node.row]),
            float(hosts.seen_s[node.row]),
            sorted(one.id for one in hosts.aggregates if node.host in one.hosts),
        )
        for node in cluster
    }
    aggregates: dict[int, HostAggregate | None] = {
        number: hosts.aggregates.get(number) for number in ids
    }
    return picture(cluster), nodes, aggregates


@dataclasses.dataclass
class Plain:
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    seen_s: float

    @classmethod
    def of(cls, service):
        return cls(*(getattr(service, field.name) for field in dataclasses.fields(cls)))


@pytest.fixture(params=['memory', 'sqlite'])
def opened(request):
    """A function that opens one store again and again."""
    if request.param == 'memory':
        store = MemoryClaimStore()
        return lambda: store
    made = request.getfixturevalue('database')
    return lambda: SqlClaimStore(made)


def test_one_that_was_cut_off_for_an_hour_knows_all_after_one_look(opened):
    others, alone = (World(opened(), rules(), pending_ttl_s=None) for _ in range(2))
    others.report(*(report(f'host-{number}', vcpus=8) for number in range(10)))
    for number, one in enumerate((A, B, C)):
        others.call(
            others.claim_service.claim,
            request(instance_uuid=one),
            f'host-{number}',
            f'host-{number}',
        )
    others.call(
        others.state_sync.set_aggregates, [aggregate(1, ['host-0']), aggregate(2, ['host-1'])]
    )
    alone.state_sync.refresh()
    watch = StorePoller(
        alone.context,
        lambda method, *args: alone.call(getattr(alone.state_sync, method), *args),
    )
    watch.look()
    before = all_of(alone.cluster)
    assert before == all_of(fresh(opened()))
    everything(others, 3600.0)
    # It goes on deciding meanwhile, by what it knows; the store alone judges.
    alone.now_s += 3000.0
    alone.call(
        alone.claim_service.claim, request(instance_uuid=uuid_of('mine')), 'host-1', 'host-1'
    )
    assert all_of(alone.cluster) != all_of(fresh(opened()))
    watch._next_full = watch._next_expiry = 0.0  # an hour has passed
    alone.now_s = others.now_s
    watch.look()
    assert all_of(alone.cluster) == all_of(fresh(opened()))
    assert alone.scheduler.figures.stale_nodes > 5
    states = collections.Counter(one.state for one in opened().claims())
    assert states[CONFIRMED] == 1
