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
"""What the loop measures: metrics, traces, times of rules, counts, and the room on the hosts."""

import json
from concurrent.futures import Future

import pytest

from nova_sched import errors
from nova_sched.engine import measuring, time_slice
from nova_sched.engine.cycle import Order
from nova_sched.engine.figures import COUNTS, Figures, MinuteLog
from nova_sched.engine.measuring import MeasuredRule, RuleTimes
from nova_sched.engine.room_figures import EVERY_S, RoomFigures, room, states
from nova_sched.measures.catalogue import (
    BATCH_ORDERS,
    CALL_SECONDS,
    CAPACITY,
    DECISIONS,
    FILTER_LEFT,
    FILTER_SEEN,
    HOSTS,
    INSTANCES_PLACED,
    LOOP_HOLD,
    MEASURES,
    RULE_SAMPLES,
    RULE_SECONDS,
    USAGE,
)
from nova_sched.tests.builders import NOW, aggregate, cluster, report
from nova_sched.tests.rows import table
from nova_sched.tests.unit.engine.world import Score, World, asks, rules
from nova_sched.tracing import TRACER, Parent

OF_CALLS = BATCH_ORDERS, CALL_SECONDS, DECISIONS, FILTER_LEFT, FILTER_SEEN, INSTANCES_PLACED


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.setattr(MEASURES, 'is_on', True)
    measuring._steps.clear()
    for measure in (*OF_CALLS, LOOP_HOLD, RULE_SAMPLES, RULE_SECONDS):
        measure.clear()


def world(*weighers):
    made = World(chain=rules([], weighers))
    made.report(*(report(f'host-{row}', vcpus=4) for row in range(3)))
    return made


def decided(vcpus, parent=None):
    """The future of a call, which has ended; ``parent`` is what its trace belongs to."""
    made = world()
    with TRACER.following(parent):
        future = made.scheduler.begin_place([asks(vcpus=vcpus)]).future
    made.turn_until(future)
    return future


@pytest.mark.usefixtures('shown')
class TestMetrics:
    """Nothing is measured while no metrics are shown."""

    def steps(self):
        measuring.count_steps()
        return FILTER_SEEN.values['ResourceCapacity',], FILTER_LEFT.values['ResourceCapacity',]

    def stages(self):
        return {labels[0]: sum(value[:-1]) for labels, value in CALL_SECONDS.values.items()}

    def test_a_placed_request(self):
        decided(1).result()
        assert DECISIONS.values == {('placed',): 1}
        assert INSTANCES_PLACED.values == {(): 1}
        assert self.stages() == dict.fromkeys(['wait', 'decide', 'commit', 'answer', 'whole'], 1)
        assert BATCH_ORDERS.values[()][0] == 1
        assert self.steps() == (3, 3)

    def test_requests_that_wait_for_another_one_of_their_instance(self):
        """Each is decided in a batch of its own, and waits once."""
        made = world()
        order = Order([asks(vcpus=1)])
        made.turn_until(*[made.loop.send('place', order) for _ in range(3)])
        assert self.stages()['wait'] == self.stages()['whole'] == 3
        assert BATCH_ORDERS.values[()][0] == 3

    def test_a_refused_request(self):
        with pytest.raises(errors.NoValidHost):
            decided(9).result()
        assert DECISIONS.values == {('refused',): 1}
        assert INSTANCES_PLACED.values == {}
        assert self.steps() == (3, 0)

    def test_nothing_while_no_metrics_are_shown(self, monkeypatch):
        monkeypatch.setattr(MEASURES, 'is_on', False)
        decided(1).result()
        measuring.count_steps()
        assert not any(measure.values for measure in OF_CALLS)

    def test_steps_that_are_shared_count_each_time(self):
        steps = (('A', 5, 3), ('B', 3, 1))
        for _ in range(4):
            measuring.answered('placed', steps, 0.1)
        measuring.answered('placed', (('A', 7, 7),), 0.1)
        measuring.count_steps()
        assert FILTER_SEEN.values == {('A',): 27, ('B',): 12}
        assert FILTER_LEFT.values == {('A',): 19, ('B',): 4}

    def test_the_longest_hold_of_each_kind(self):
        made = world()
        made.place(asks())
        made.call(made.scheduler.questions.health)
        assert LOOP_HOLD.values.keys() >= {('place',), ('report',), ('health',)}
        before = dict(LOOP_HOLD.values)
        measuring.record_hold('place', 1e-9)
        assert LOOP_HOLD.values == before
        measuring.record_hold('place', 99.0)
        assert LOOP_HOLD.values['place',] == 99.0

    @pytest.mark.parametrize('is_on', [False, True])
    def test_a_measured_decision_counts_its_rules(self, monkeypatch, is_on):
        monkeypatch.setattr(MEASURES, 'is_on', is_on)
        made = world(Score(1, 3, 2))
        placer = made.scheduler.placer
        placer._times = RuleTimes(every=1)
        placer.follow(placer.rules)
        decision = placer.decide([asks(vcpus=1)], made.scheduler._settings())
        assert placer.cluster.hosts.nodes[decision.rows[0]].host == 'host-1'
        capacity = 'filter', 'ResourceCapacity'
        counts = [RULE_SAMPLES.values.get(rule) for rule in (('weigher', 'Score'), capacity)]
        assert counts == ([1, 1] if is_on else [None, None])
        assert RULE_SECONDS.values.get(capacity, 0) >= 0


def test_one_decision_of_many_is_measured():
    made = RuleTimes(every=3)
    assert [made.is_due() for _ in range(6)] == [False, False, True] * 2


def test_answers_that_are_kept_for_a_rule_serve_the_measured_one():
    rule = Score(1)
    measured = MeasuredRule(rule, 'weigher')
    assert {(rule, 1): 'kept'}[measured, 1] == 'kept'
    assert {(measured, 1): 'kept'}[rule, 1] == 'kept'
    assert measured != Score(1)


def test_a_hold_ends_where_others_would_come_in(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time_slice, 'hold_clock', lambda: now[0])
    made = time_slice.TimeSlice(lambda: False, lambda: now[0], lambda _: None)
    made.hold()
    for seconds in (0.5, 2.0, 1.0):  # each is longer than a slice
        assert not made.is_over()
        now[0] += seconds
        assert not made.is_over()
    now[0] += 0.25
    assert made.held_s() == 2.0


class TestTraces:
    """The trace of a request through the loop, from its wait to its answer."""

    @pytest.fixture
    def ended(self, monkeypatch):
        traces = []
        monkeypatch.setattr(TRACER, 'sink', traces.append)
        return traces

    def test_a_placed_request(self, ended):
        decided(1, Parent(7, 9)).result()
        (trace,) = ended
        assert (trace.trace_id, trace.parent.span_id, trace.failure) == (7, 9, '')
        assert trace.attributes == {'instances': 1, 'request_id': ''}
        assert [span.name for span in trace.spans] == ['wait', 'decide', 'commit', 'answer']
        wait, decide, commit, answer = trace.spans
        assert trace.begin_s == wait.begin_s <= wait.end_s == decide.begin_s <= decide.end_s
        assert decide.end_s <= commit.begin_s <= commit.end_s <= answer.begin_s <= trace.end_s
        assert ('ResourceCapacity', 3, 3) in decide.events
        assert commit.attributes == {'requests': 1, 'won': True}

    def test_a_refused_request(self, ended):
        with pytest.raises(errors.NoValidHost):
            decided(9, Parent(7, 9)).result()
        (trace,) = ended
        assert 'ResourceCapacity' in trace.failure
        assert {span.name for span in trace.spans} == {'wait', 'decide'}
        assert ('ResourceCapacity', 3, 0) in trace.spans[1].events

    def test_a_request_that_is_not_traced(self, ended):
        decided(1, Parent(7, 9, is_sampled=False)).result()
        assert ended == []


class TestFigures:
    def test_plain_values(self):
        plain = Figures(placed=3, conflicts=2, stale_nodes=5).plain()
        assert json.loads(json.dumps(plain)) == plain
        assert set(plain) == {*COUNTS, 'stale_nodes', 'look_lag_s'}
        assert (plain['placed'], plain['conflicts'], plain['stale_nodes']) == (3, 2, 5)
        assert 0 <= plain['look_lag_s'] < 60

    def test_a_line_a_minute_if_anything_happened(self, caplog):
        caplog.set_level('INFO')
        figures, start_s = Figures(placed=100), 1000.0
        minute = MinuteLog(figures, start_s)
        figures.placed, figures.retries = 107, 2
        minute.tell((1, 3), start_s + 59)
        assert caplog.messages == []
        minute.tell((1, 3), start_s + 61)
        (line,) = caplog.messages
        assert line.startswith(
            'Scheduler 2 of 3, in the last minute: 7 instances placed, 0 requests refused; '
        )
        assert '0 conflicts, 2 retries; ' in line
        assert line.endswith('0 nodes stale')
        minute.tell((1, 3), start_s + 200)
        assert len(caplog.messages) == 1
        figures.refused += 1
        minute.tell((0, 1), start_s + 230)
        minute.tell((0, 1), start_s + 261)
        start = 'Scheduler 1 of 1, in the last minute: 0 instances placed, 1 requests'
        assert start in caplog.messages[1]


class TestRoom:
    """Sums of capacity, usage and stranded units; and when they are made."""

    def test_sums_by_zone_and_by_aggregate(self):
        groups = [
            aggregate(1, ['host-0', 'host-1'], availability_zone='east'),
            aggregate(2, ['host-1', 'host-2']),
        ]
        made = cluster(3, groups, vcpus=4, vcpus_used=[0, 1, 4])
        by_zone, by_aggregate = room(made.hosts, 'nova')
        assert by_zone['VCPU', 'east'][:2].tolist() == [8, 1]
        assert by_zone['VCPU', 'nova'][:2].tolist() == [4, 4]
        assert by_aggregate['VCPU', 'aggregate 1'][:2].tolist() == [8, 1]
        assert by_aggregate['VCPU', 'aggregate 2'][:2].tolist() == [8, 5]

    def test_units_that_the_scarcest_class_cannot_match_are_stranded(self):
        made = cluster(
            2, vcpus=4, vcpus_used=[4, 2], memory_mb=1024, memory_mb_used=[0, 512], disk_gb=0
        )
        by_zone, _ = room(made.hosts, 'nova')
        # The first host has memory but no CPU, the second has half of both.
        assert by_zone['MEMORY_MB', 'nova'].tolist() == [2048, 512, 1024]
        assert by_zone['VCPU', 'nova'].tolist() == [8, 6, 0]

    @table(
        'column, value, state',
        {
            'disabled': ('disabled', True, 'disabled'),
            'forced down': ('forced_down', True, 'forced down'),
            'without a heartbeat': ('seen_s', NOW - 61, 'silent'),
        },
    )
    def test_states(self, column, value, state):
        hosts = cluster(3).hosts
        getattr(hosts, column)[1] = value
        found = states(hosts, NOW, 60)
        assert (found['up'], found[state], sum(found.values())) == (2, 1, 3)

    @pytest.fixture
    def futures(self):
        """Futures of the sums that ``self.figures`` has sent, with their work."""
        made, self.now_s = [], 0.0

        def send(work):
            made.append((Future(), work))
            return made[-1][0]

        context = world().scheduler.context
        self.figures = RoomFigures(context, send, clock=lambda: self.now_s)
        return made

    def test_gauges_of_the_host_state(self, futures):
        self.figures.refresh()
        ((future, work),) = futures
        future.set_result(work())
        assert HOSTS.values['up',] == 3
        assert CAPACITY.values['VCPU', 'nova'] > 0
        assert USAGE.values['VCPU', 'nova'] == 0

    def test_a_loop_that_fails_leaves_them(self, futures):
        HOSTS.replace({('up',): 5})
        self.figures.refresh()
        futures[0][0].set_exception(RuntimeError('stopped'))
        assert HOSTS.values == {('up',): 5}

    def test_not_more_often_than_needed(self, futures):
        for self.now_s in (0.0, 1.0, EVERY_S - 1, EVERY_S):
            self.figures.refresh()
        assert len(futures) == 2
