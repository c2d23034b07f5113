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
"""Decision records: what is kept, who writes it, and what is lost rather than waited for."""

import threading
import time
import types

import pytest

from nova_sched import errors
from nova_sched.engine.cycle import Order
from nova_sched.engine.explain.decision_log import (
    PLACED,
    REFUSED,
    DecisionLog,
    MemoryDecisionLog,
    Outbox,
    pass_on,
    record,
)
from nova_sched.measures.catalogue import MEASURES, RECORDS_SKIPPED
from nova_sched.tests.builders import NOW, report, request, uuid_of
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.engine.stores import Miser
from nova_sched.tests.unit.engine.world import A, Score, World, rules


def entry(request_id='req-1', time=NOW, **facts):
    return {'request_id': request_id, 'time': time, **facts}


def keep(log, **facts):
    log.put(lambda: entry(**facts))


class Away(MemoryDecisionLog):
    """A store that is away, or breaks, while ``error`` is set; ``batches`` are those that it
    took."""

    def __init__(self, error=None):
        super().__init__()
        self.error = error
        self.batches = []

    def write(self, found):
        if self.error:
            raise self.error
        self.batches.append(list(found))
        super().write(found)


class TestMemory:
    def test_the_oldest_go_first(self):
        made = MemoryDecisionLog(size=2)
        made.write([entry(n=1), entry(n=2), entry(n=3)])
        assert [kept['n'] for kept in made.read('req-1')] == [2, 3]

    def test_by_age(self):
        made = MemoryDecisionLog()
        made.write([entry(time=NOW - 2, n=1), entry(time=NOW, n=2)])
        made.forget(NOW)
        assert [kept['n'] for kept in made.read('req-1')] == [2]


class TestDecisionLog:
    def test_what_waits_is_written_in_batches(self):
        store = Away()
        made = DecisionLog(store, batch=2)
        for n in range(5):
            keep(made, n=n)
        assert store.batches == []
        made.flush()
        assert [[kept['n'] for kept in batch] for batch in store.batches] == [
            [0, 1],
            [2, 3],
            [4],
        ]
        assert [kept['n'] for kept in made.show('req-1')] == [0, 1, 2, 3, 4]

    def test_too_many_are_lost_and_said_to_be_once(self, caplog):
        made = DecisionLog(waiting=3)
        for n in range(5):
            keep(made, n=n)
        made.flush()
        made.flush()
        assert [kept['n'] for kept in made.show('req-1')] == [0, 1, 2]
        assert made.lost == 2
        assert caplog.messages == ['2 decision records were lost']

    def test_a_store_that_is_away_loses_them_and_is_said_to_be_once(self, caplog):
        store = Away(errors.StoreUnavailable('gone'))
        made = DecisionLog(store)
        for _ in range(3):
            keep(made)
            made.flush()
        assert made.lost == 3
        assert caplog.messages == [
            'The database does not answer: gone; decision records are lost until it does'
        ]
        store.error = None
        keep(made)
        made.flush()
        assert len(made.show('req-1')) == 1
        assert caplog.messages[1:] == ['3 decision records were lost']

    def test_a_store_that_breaks_ends_nothing(self, caplog):
        store = Away(ZeroDivisionError())
        made = DecisionLog(store)
        keep(made)
        made.flush()
        store.error = None
        keep(made)
        made.flush()
        assert (made.lost, len(made.show('req-1'))) == (1, 1)
        assert '1 decision records cannot be kept' in caplog.text

    @table(
        'share, chance, sampled',
        {
            'none': (0.0, 0.0, False),
            'below': (0.5, 0.4, True),
            'at the share': (0.5, 0.5, False),
            'all': (1.0, 0.999, True),
        },
    )
    def test_sampled(self, share, chance, sampled):
        assert DecisionLog(chance=lambda: chance).sampled(share) == sampled

    def test_no_more_than_so_many_a_second(self):
        now_s = 50.0
        made = DecisionLog(monotonic=lambda: now_s)

        def taken(asked=1000):
            return sum(made.sampled(1.0, 2.0) for _ in range(asked))

        assert taken() == 20  # ten seconds
        now_s += 3.0
        assert taken() == 6
        now_s += 3600.0
        assert (taken(5), taken()) == (5, 15)

    def test_what_is_not_in_the_sample_takes_nothing_away(self):
        chance = 0.9
        made = DecisionLog(chance=lambda: chance, monotonic=lambda: 50.0)
        assert not any(made.sampled(0.5, 0.1) for _ in range(5))
        chance = 0.1
        assert made.sampled(0.5, 0.1)

    def test_a_thread_writes_and_the_last_ones_too(self):
        store = Away()
        made = DecisionLog(store)
        made.start()
        keep(made, n=1)
        eventually(lambda: store.batches)
        keep(made, n=2)
        made.stop()
        assert [kept['n'] for kept in made.show('req-1')] == [1, 2]
        assert 'nova-sched-decision-log' not in [thread.name for thread in threading.enumerate()]


@pytest.fixture
def measured():
    MEASURES.is_on = True
    RECORDS_SKIPPED.clear()
    yield
    MEASURES.is_on = False
    RECORDS_SKIPPED.clear()


class TestScheduler:
    """What the engine keeps of its decisions."""

    def world(self, sample=0.0, **settings):
        made = World(chain=rules([], [Score(1, 3, 2)]), explain_sample=sample, **settings)
        made.report(*(report(f'host-{row}', vcpus=4) for row in range(3)))
        return made

    def decide(self, made, *requests, request_id='req-1'):
        made.turn_until(made.send_place(*requests, alternates=True, request_id=request_id))
        made.scheduler.decision_log.flush()
        return made.scheduler.decision_log.show('req-1')

    def test_a_refusal(self):
        made = self.world()
        asked = request(instance_uuid=A, vcpus=9, flavor_name='large', availability_zone=None)
        (kept,) = self.decide(made, asked)
        assert (kept['request_id'], kept['time'], kept['outcome']) == ('req-1', NOW, 'refused')
        assert kept['asked'] == {
            'instances': [A],
            'flavor': 'large',
            'resources': {'VCPU': 9, 'MEMORY_MB': 512},
            'extra_specs': {},
            'image': uuid_of('image'),
            'zone': None,
            'policy': None,
            'project_id': 'project',
            'user_id': 'user',
        }
        assert (kept['hosts'], kept['instances'], kept['found'], kept['placed']) == (3, 1, 0, [])
        assert kept['filters'][-1]['why'] == '9 vCPUs asked, the largest host has 4 in all'
        assert 'ResourceCapacity removed the last 3' in kept['reason']

    @each('vcpus', [1, 9])
    def test_one_without_a_request_id_cannot_be_queried(self, vcpus):
        made = self.world(sample=1.0)
        self.decide(made, request(vcpus=vcpus), request_id=None)
        assert made.scheduler.decision_log.show(None) == []

    def test_a_success_that_is_not_sampled(self, measured):
        assert self.decide(self.world(), request(instance_uuid=A)) == []
        assert RECORDS_SKIPPED.values == {(): 1}

    def test_all_successes_by_default(self, measured):
        made = World()
        made.report(report(vcpus=4))
        assert [one['outcome'] for one in self.decide(made, request(instance_uuid=A))] == [
            'placed'
        ]
        assert RECORDS_SKIPPED.values == {}

    def test_a_success_with_the_weights_of_the_winners(self):
        (kept,) = self.decide(self.world(sample=1.0), request(instance_uuid=A))
        assert (kept['outcome'], kept['reason'], kept['hosts'], kept['found']) == (
            'placed',
            None,
            3,
            1,
        )
        steps = [(one['filter'], one['seen'], one['left']) for one in kept['filters']]
        assert ('ResourceCapacity', 3, 3) in steps
        (placed,) = kept['placed']
        assert (placed['instance_uuid'], placed['host'], placed['weight']) == (A, 'host-1', 1.0)
        assert placed['weights'] == [
            {'weigher': 'Score', 'raw': 3.0, 'normalised': 1.0, 'multiplier': 1.0, 'weight': 1.0}
        ]
        assert [(one['host'], one['weights'][0]['raw']) for one in placed['alternates']] == [
            ('host-2', 2.0),
            ('host-0', 1.0),
        ]

    @each('sample', [0.0, 1.0])
    def test_retention_of_nothing_keeps_nothing(self, sample):
        made = self.world(sample, explain_retention_s=0.0)
        assert self.decide(made, request(vcpus=9)) == self.decide(made, request()) == []

    def test_old_ones_go_with_the_watch(self):
        made = self.world(explain_retention_s=100.0)
        self.decide(made, request(vcpus=9))
        made.now_s += 101
        made.scheduler._forget()  # the watch's own tests show that it does
        assert made.scheduler.decision_log.show('req-1') == []

    def test_many_instances_name_the_first(self):
        order = Order([request(instance_uuid=uuid_of(str(n))) for n in range(50)])
        assert record(order, 'placed', NOW, {})['asked']['instances'] == [
            uuid_of(str(n)) for n in range(10)
        ]


def test_a_refusal_after_lost_races_is_kept():
    made = World(Miser(), explain_sample=0.0, max_claim_attempts=2)
    made.report(report())
    future = made.send_place(request(), request_id='req-1')
    made.turn_until(future)
    made.scheduler.decision_log.flush()
    (kept,) = made.scheduler.decision_log.show('req-1')
    assert (kept['outcome'], kept['hosts'], kept['found']) == ('refused', 1, 0)
    assert kept['reason'] == future.exception(0).reason


DETAILS = {'reason': 'full'}


class Told:
    """Keeps what it is told."""

    def __init__(self):
        self.found = []

    def refused(self, context, make):
        self.found.append((context.request_id, make()))


@table(
    'outcome, request_id, retention_s, kept, told',
    {
        'a refusal': (REFUSED, 'req-1', 60.0, 1, 1),
        'a placement': (PLACED, 'req-1', 60.0, 1, 0),
        'a refusal without an id': (REFUSED, None, 60.0, 0, 1),
        'without a decision log': (REFUSED, 'req-1', 0.0, 0, 1),
    },
)
def test_pass_on(outcome, request_id, retention_s, kept, told):
    context = World(explain_retention_s=retention_s).context
    context.events = Told()
    order = Order([request()], context=types.SimpleNamespace(request_id=request_id))
    pass_on(context, context.settings(), order, outcome, lambda: DETAILS)
    context.decision_log.flush()
    records = context.decision_log.show(request_id)
    assert (len(records), len(context.events.found)) == (kept, told)
    for kept_record in (*records, *(made for _, made in context.events.found)):
        assert (kept_record['outcome'], kept_record['reason']) == (outcome, 'full')


class Batches(Outbox):
    """``batches`` are those that were passed on."""

    def __init__(self, gather_s=0.0, waiting=10, most=2):
        super().__init__('batches', gather_s, waiting, most)
        self.batches, self.passed = [], threading.Event()

    def _pass_on(self, batch):
        self.batches.append(batch)
        self.passed.set()


@table(
    'items, batches',
    {
        'nothing': ([], []),
        'exactly as many as one batch takes': ([1, 2], [[1, 2]]),
        'too many for one batch': ([1, 2, 3], [[1, 2], [3]]),
    },
)
def test_batches(items, batches):
    made = Batches()
    assert all(map(made.put, items))
    made.flush()
    assert made.batches == batches


def test_a_full_queue_takes_no_more():
    made = Batches(waiting=2)
    assert [made.put(item) for item in (1, 1, 1)] == [True, True, False]
    made.flush()
    assert made.batches == [[1, 1]]
    assert made.put(1)


def test_the_thread_gathers_and_passes_on():
    made = Batches(gather_s=0.2, most=1000)
    made.start()
    while not made.passed.is_set():
        made.put(1)
        time.sleep(0.02)
    assert len(made.batches[0]) > 1
    made.stop()


def test_the_end_waits_for_no_gathering_and_loses_nothing():
    made = Batches(gather_s=60.0)
    made.start()
    made.put(1)
    time.sleep(0.02)
    made.put(2)
    made.stop(timeout_s=20)
    assert [item for batch in made.batches for item in batch] == [1, 2]
    assert 'batches' not in [thread.name for thread in threading.enumerate()]
