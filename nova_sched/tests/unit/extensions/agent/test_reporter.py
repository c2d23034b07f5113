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
"""Tests of the reporter: when it reports, and what it says of trouble."""

import logging
import threading
import time
import types

import pytest

from nova_sched import errors
from nova_sched.extensions.agent.difference import SETTLE_S
from nova_sched.extensions.agent.reporter import READ_S, RETRY_S, ReportCount, Reporter
from nova_sched.extensions.agent.service import Facts
from nova_sched.state.report import MAX_BOOT
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.agent.builders import NODE, SERVER, Clock, guest, node

INTERVAL_S = 10
TREE = {NODE: {'inventories': {}, 'traits': []}}
REFUSED = errors.BadReport('cmp1', 'memory_mb', 'it is negative')
OWNED = errors.NodeOwned('cmp1', 'host', 'it belongs to host cmp2, which is up')


class FakeAgent:
    """Says what it is given to say: Facts, or an error. A read takes ``read_s`` of the clock's
    seconds."""

    def __init__(self, clock, read_s=0.0):
        self.news = threading.Event()
        self.says = facts()
        self.accepted = []
        self._clock = clock
        self._read_s = read_s

    def read(self):
        self._clock.now_s += self._read_s
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def told(self, there):
        self.accepted.append(self.says)
        self.there = there


class FakeClient:
    """Answers each report, or raises ``trouble``. ``answers`` come first, one after the other.

    ``orders`` are the arguments of each report that order it.
    """

    def __init__(self):
        self.trouble = self.answer = None
        self.answers = []
        self.reports, self.orders = [], []

    def update_resource_stats(self, *report, **order):
        self.reports.append(report)
        self.orders.append(order)
        if self.trouble:
            raise self.trouble
        return self.answers.pop(0) if self.answers else self.answer


def facts(**words):
    held = {one: {} for one in words.pop('instances', ())}
    return Facts(**{'node': node(), 'inventories': TREE, 'held': held} | words)


class Stage:
    """A reporter between a fake agent and a fake client, with a clock; the host's server
    listens."""

    def __init__(self, read_s=0.0, interval_s=INTERVAL_S):
        self.clock = Clock()
        self.agent = FakeAgent(self.clock, read_s)
        self.client = FakeClient()
        self.interval_s = interval_s
        self.reporter = self.made('cell')
        self.reporter.listens()

    def made(self, *options, **words):
        """A reporter that may not report yet."""
        return Reporter(
            self.agent,
            self.client,
            lambda: self.interval_s,
            *options,
            **{'clock': self.clock, **words},
        )

    def run(self, seconds):
        """Step as the thread does, for so long. Return the times of the reports, in seconds from
        now."""
        begin, times = self.clock.now_s, []
        while self.clock.now_s < begin + seconds:
            now_s, before = self.clock.now_s - begin, len(self.client.reports)
            pause = self.reporter.step()
            times += [now_s] * (len(self.client.reports) - before)
            self.clock.now_s += pause
        return times


@pytest.fixture
def said(caplog):
    """A function that gives the lines that were logged since the last time, below debug."""
    caplog.set_level(logging.INFO)

    def lines():
        found = [(record.levelname, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return found

    return lines


class TestHeartbeats:
    def test_there_are_none_before_the_server_listens(self):
        stage = Stage()
        assert stage.made().alive_s() == 0
        assert stage.reporter.alive_s() == stage.clock.now_s

    def test_a_machine_that_cannot_be_read_ends_them(self):
        stage, seen = Stage(read_s=5.0), []
        read = stage.agent.read

        def hangs():
            found = read()
            seen.append(stage.clock.now_s - stage.reporter.alive_s())
            return found

        stage.agent.read = hangs
        stage.reporter.step()
        assert seen == [5.0]

    def test_a_report_may_wait_for_the_bus(self):
        stage, seen = Stage(), []

        def waits(*_, **__):
            stage.clock.now_s += 1000
            seen.append(stage.clock.now_s - stage.reporter.alive_s())
            return {}

        stage.client.update_resource_stats = waits
        stage.reporter.step()
        assert seen == [0.0]
        assert stage.reporter.alive_s() == stage.clock.now_s


def test_what_is_sent():
    stage = Stage()
    stage.agent.says = facts(instances=frozenset({'b', 'a'}))
    stage.reporter.step()
    ((host, sent, instances, inventories, cell),) = stage.client.reports
    assert (host, instances, inventories, cell) == ('cmp1', {'a': {}, 'b': {}}, TREE, 'cell')
    assert sent is stage.agent.says.node
    assert stage.agent.accepted == [stage.agent.says]


@each(
    'words, times',
    [
        pytest.param({}, [0, 10, 20], id='each interval'),
        pytest.param({'interval_s': 1}, list(range(25)), id='a short interval'),
        pytest.param(
            {'interval_s': 2.5}, [0, 2.5, 5, 7.5, 10, 12.5, 15, 17.5, 20, 22.5], id='between reads'
        ),
        pytest.param({'read_s': 0.5}, [0, 10.5, 21], id='reading takes its time'),
    ],
)
def test_when_nothing_happens(words, times):
    assert Stage(**words).run(25) == times


@each(
    'news, times',
    [
        pytest.param({}, [7], id='nothing new'),
        pytest.param({'node': node(guests=[guest()])}, [0, 10], id='the node'),
        pytest.param({'instances': frozenset({SERVER})}, [0, 10], id='the instances'),
        pytest.param(
            {'inventories': {NODE: {'traits': ['CUSTOM_X']}}}, [0, 10], id='the inventories'
        ),
    ],
)
def test_news_is_told_at_once_and_once(news, times):
    stage = Stage()
    stage.run(3)
    stage.agent.says = facts(**news)
    assert stage.run(11) == times


@each(
    'answer, takes',
    [
        pytest.param(None, False, id='none'),
        pytest.param({'node': NODE}, False, id='of an older scheduler'),
        pytest.param({'version': '1.1'}, False, id='1.1'),
        pytest.param({'version': '1.2'}, True, id='1.2'),
        pytest.param({'version': '1.10'}, True, id='1.10'),
        pytest.param({'version': '2.0'}, True, id='2.0'),
    ],
)
def test_amounts_are_for_a_scheduler_that_takes_them(answer, takes):
    """A scheduler is taken for a new one until it tells that it is not."""
    stage = Stage()
    stage.agent.says = facts(held={SERVER: {'VCPU': 2}})
    stage.client.answer = answer
    for trouble in (None, None, OSError('gone'), None):
        stage.client.trouble = trouble
        stage.reporter.step()
        stage.clock.now_s += INTERVAL_S
    sent = [instances for _, _, instances, *_ in stage.client.reports]
    new = {SERVER: {'VCPU': 2}}
    assert sent == [new, *[new if takes else [SERVER]] * 3]


def test_a_scheduler_that_refuses_amounts_gets_a_list():
    stage = Stage()
    stage.agent.says = facts(held={SERVER: {'VCPU': 2}})
    stage.client.trouble = RuntimeError('the version is not known')
    stage.reporter.step()
    stage.client.trouble, stage.client.answer = None, told(4)
    for _ in range(2):
        stage.clock.now_s += INTERVAL_S
        stage.reporter.step()
    sent = [instances for _, _, instances, *_ in stage.client.reports]
    assert sent == [{SERVER: {'VCPU': 2}}, [SERVER], {SERVER: {'VCPU': 2}}]


def test_the_interval_is_read_each_time(said):
    stage = Stage()
    stage.run(10)
    stage.interval_s = 5
    assert stage.run(21) == [0, 5, 10, 15, 20]
    each = 'Reporting node cmp1 each {} s, and each change at once'
    assert said() == [('INFO', each.format(10)), ('INFO', each.format(5))]


@each(
    'read_s, pause_s',
    [
        pytest.param(0.0, READ_S, id='no time'),
        pytest.param(0.04, READ_S, id='little time'),
        pytest.param(0.25, 5.0, id='a large machine'),
        pytest.param(3.0, INTERVAL_S, id='no longer than the interval'),
    ],
)
def test_the_pause_between_reads(read_s, pause_s):
    assert Stage(read_s).reporter.step() == pytest.approx(pause_s)


AWAY = 'Node cmp1 cannot be reported; trying until it can. No reply on topic scheduler'


def test_a_scheduler_that_is_away(said):
    stage = Stage()
    stage.run(1)
    assert said() == [('INFO', 'Reporting node cmp1 each 10 s, and each change at once')]
    stage.agent.says = facts(instances=frozenset({SERVER}))
    stage.client.trouble = TimeoutError('No reply on topic scheduler')
    assert stage.run(9) == [0, RETRY_S, 2 * RETRY_S, 3 * RETRY_S, 4 * RETRY_S]
    assert said() == [('ERROR', AWAY)]
    assert stage.agent.says not in stage.agent.accepted
    stage.client.trouble = None
    assert stage.run(2) == [1]
    assert said() == [('INFO', 'The scheduler answers again')]
    assert stage.agent.says in stage.agent.accepted
    assert stage.run(25) == [9, 19]
    stage.client.trouble = TimeoutError('No reply on topic scheduler')
    stage.run(11)
    assert said() == [('ERROR', AWAY)]


def test_a_short_interval_is_kept_while_the_scheduler_is_away():
    stage = Stage(interval_s=1)
    stage.client.trouble = OSError('gone')
    assert stage.run(3) == [0, 1, 2]


@pytest.mark.parametrize(
    'refusal, line',
    [
        pytest.param(
            REFUSED, 'Report of node cmp1 refused, memory_mb: it is negative', id='BadReport'
        ),
        pytest.param(
            OWNED,
            'Report of node cmp1 refused, host: it belongs to host cmp2, which is up',
            id='NodeOwned',
        ),
        pytest.param(
            errors.Invalid('first line\nTraceback (most recent call last):\n  File'),
            'scheduler error',
            id='without facts',
        ),
    ],
)
def test_a_refusal_is_told_once_and_made_again_in_its_time(said, refusal, line):
    stage = Stage()
    stage.client.trouble = refusal
    assert stage.run(25) == [0, 10, 20]
    assert said()[1:] == [('ERROR', f'The scheduler refuses: {line}')]
    assert stage.agent.accepted == []


def test_each_distinct_refusal_is_told_until_a_report_is_accepted(said):
    stage = Stage()
    for refusal in (REFUSED, OWNED, REFUSED, OWNED):
        stage.client.trouble = refusal
        stage.run(10)
    assert [line for _, line in said()[1:]] == [
        f'The scheduler refuses: {one}' for one in (REFUSED, OWNED)
    ]
    stage.client.trouble = None
    stage.run(10)
    assert said() == [('INFO', 'The scheduler accepts the reports again')]
    stage.client.trouble = REFUSED
    stage.run(10)
    assert said() == [('ERROR', f'The scheduler refuses: {REFUSED}')]


def test_a_refusal_is_a_heartbeat(said):
    stage = Stage()
    stage.client.trouble = OSError('gone')
    stage.run(1)
    stage.client.trouble = REFUSED
    stage.run(2)
    assert [line for _, line in said()[2:]] == [
        'The scheduler answers again',
        f'The scheduler refuses: {REFUSED}',
    ]


def test_the_traceback_that_a_remote_error_brings_is_left_out(said):
    class Remote(errors.BadReport):
        def __str__(self):
            return f'{super().__str__()}\nTraceback (most recent call last):\n'

    stage = Stage()
    stage.client.trouble = Remote(*REFUSED.args)
    stage.run(1)
    assert said()[1:] == [('ERROR', f'The scheduler refuses: {REFUSED}')]


@pytest.mark.parametrize(
    'trouble',
    [
        pytest.param(errors.BadMachineFacts('a file', 'gone'), id='told'),
        pytest.param(RuntimeError('Cannot read a file of this machine: gone'), id='unheard of'),
    ],
)
def test_a_machine_that_cannot_be_read_is_not_reported(said, trouble):
    stage = Stage()
    stage.run(1)
    before, stage.agent.says = stage.agent.says, trouble
    assert stage.run(12) == []
    assert said()[1:] == [('ERROR', 'No report is made: Cannot read a file of this machine: gone')]
    stage.agent.says = before
    assert stage.run(1) == [0]
    assert said() == [('INFO', 'This machine can be read again')]


@pytest.fixture
def threaded():
    """A stage whose reporter runs in its thread, by the real clock."""
    stage = Stage()
    stage.sent = threading.Event()
    stage.client.update_resource_stats = lambda *report, **order: stage.sent.set()
    stage.interval_s = 60
    stage.reporter = stage.made(clock=time.monotonic)
    stage.reporter.start()
    yield stage
    stage.reporter.stop()


def test_the_thread_reports_when_the_server_listens_and_news_when_it_comes(threaded):
    assert not threaded.sent.wait(0.1)
    threaded.reporter.listens()
    assert threaded.sent.wait(READ_S / 2)
    threaded.sent.clear()
    threaded.agent.says = facts(instances=frozenset({SERVER}))
    threaded.agent.news.set()
    assert threaded.sent.wait(READ_S / 2)
    assert threaded.reporter.stop()


def test_a_report_without_an_answer_does_not_hold_up_the_end():
    stage, answer, asked = Stage(), threading.Event(), threading.Event()

    def wait_for_answer(*report, **order):
        asked.set()
        answer.wait(60)

    stage.client.update_resource_stats = wait_for_answer
    stage.reporter.start()
    assert asked.wait(60)
    assert not stage.reporter.stop(timeout_s=0.01)
    answer.set()
    assert stage.reporter.stop(timeout_s=60)


def test_a_report_that_waits_too_long_is_told_while_it_waits(said):
    stage, told = Stage(), []

    def wait_for_complaint(*report, **order):
        end = time.monotonic() + 60
        while not any(level == 'ERROR' for level, _ in told) and time.monotonic() < end:
            told.extend(said())
            time.sleep(0.005)

    stage.client.update_resource_stats = wait_for_complaint
    stage.reporter = stage.made(timeout_s=0.02)
    stage.reporter.listens()
    stage.reporter.step()
    assert told[1:] == [('ERROR', f'{AWAY.partition(". ")[0]}. No answer for 0.02 s')]
    assert said() == [('INFO', 'The scheduler answers again')]


def test_a_reporter_that_never_started_can_be_stopped():
    assert Stage().reporter.stop()


# Before the host's own server listens.


def test_nothing_is_reported_before_the_server_listens(said):
    stage = Stage()
    stage.reporter = stage.made(timeout_s=60)
    assert stage.run(59) == []
    assert said() == []
    stage.reporter.listens()
    assert stage.run(11) == [0, 10]
    assert said() == [('INFO', 'Reporting node cmp1 each 10 s, and each change at once')]


def test_a_bus_that_is_away_from_the_start_is_told_once_until_a_report_is_answered(said):
    stage = Stage()
    stage.reporter = stage.made(timeout_s=5)
    stage.run(20)
    away = f'{AWAY.partition(". ")[0]}. The bus has not answered for 5 s'
    assert said() == [('ERROR', away)]
    stage.reporter.listens()
    stage.client.trouble = OSError('gone')
    stage.run(1)
    stage.client.trouble = None
    stage.run(2)
    assert [line for _, line in said()][1:] == ['The scheduler answers again']


def test_a_machine_is_read_no_more_often_while_the_server_does_not_listen():
    stage = Stage(read_s=0.25)
    stage.reporter = stage.made()
    assert stage.reporter.step() == pytest.approx(5.0)


# What the scheduler counts otherwise.

SAME = {'capacity': {}, 'used': {}, 'sizes': []}
OTHER = {**SAME, 'capacity': {'VCPU': 8}}
DIFFERS = (
    'Node cmp1 and the scheduler count differently. capacity of VCPU: 0 here, 8 by the scheduler'
)


def answer(counted):
    return {'claims': {}, 'counted': counted}


def test_a_difference_is_read_again_soon_and_told_once(said):
    stage = Stage()
    stage.client.answer = answer(OTHER)
    assert stage.run(25) == [0, SETTLE_S, SETTLE_S + 10, SETTLE_S + 20]
    assert said()[1:] == [('WARNING', DIFFERS)]
    stage.client.answer = answer(SAME)
    assert stage.run(20) == [7, 17]
    assert said() == [('INFO', 'Node cmp1 and the scheduler count the same again')]


def test_a_difference_that_ends_by_itself_is_not_told(said):
    stage = Stage()
    stage.client.answer = answer(OTHER)
    stage.run(1)
    stage.client.answer = answer(SAME)
    assert stage.run(20) == [1, 11]
    assert len(said()) == 1


def test_the_agent_hears_what_the_scheduler_counts():
    stage = Stage()
    stage.client.answer = answer(OTHER)
    stage.run(1)
    assert stage.agent.there.capacity == {'VCPU': 8}


def test_a_scheduler_that_does_not_tell_what_it_counts(said):
    stage = Stage()
    stage.client.answer = {'claims': {}}
    assert stage.run(15) == [0, 10]
    assert (len(said()), stage.agent.there) == (1, None)


# What orders the reports.


def told(generation, claims=types.MappingProxyType({}), **words):
    return {'generation': generation, 'claims': dict(claims), 'version': '1.2', **words}


@each(
    'answers, seen, times',
    [
        pytest.param([None, None], [0, None, None], [0, 10, 20], id='nothing is told'),
        pytest.param([told(4), told(6)], [0, 4, 6], [0, 10, 20], id='of the last answer'),
        pytest.param(
            [told(4), told(4, version='1.1'), told(6)],
            [0, 4, None, 6],
            [0, 10, 20, 30],
            id='an older scheduler',
        ),
        pytest.param(
            [told(4, {SERVER: 'pending'})],
            [0, 4, 6],
            [0, 0, 10],
            id='listed, and not confirmed',
        ),
        pytest.param(
            [told(4, {'gone': 'confirmed'})],
            [0, 4, 6],
            [0, 0, 10],
            id='not listed, and not ended',
        ),
        pytest.param(
            [told(4), told(4, {'kept': 'confirmed', SERVER: 'pending'})],
            [0, 4, 4],
            [0, 10, 20],
            id='it knew all of that',
        ),
        pytest.param(
            [told(4, {'building': 'pending', SERVER: 'confirmed'})],
            [0, 4, 6],
            [0, 10, 20],
            id='nothing to settle',
        ),
        pytest.param(
            [told(at, {'moving': 'confirmed'}) for at in range(4, 8)],
            [0, 4, 5, 6],
            [0, 0, 10, 10],
            id='not settled, and each report changes the node',
        ),
        pytest.param([told(4, stale=True, boot=7)], [0, 4, 6], [0, 0, 10], id='late'),
        pytest.param(
            [told(4, stale=True), told(5, stale=True)],
            [0, 4, 5, 6],
            [0, 0, RETRY_S, RETRY_S + 10],
            id='late again',
        ),
    ],
)
def test_each_report_tells_what_was_seen_before_it(answers, seen, times):
    stage = Stage()
    stage.agent.says = facts(instances=frozenset({SERVER}))
    stage.client.answers, stage.client.answer = list(answers), answers and told(6)
    if answers == [None, None]:
        stage.client.answer = None
    assert stage.run(times[-1] + 1) == times
    assert [one['seen'] for one in stage.client.orders] == seen


def test_what_is_seen_while_the_machine_is_read_does_not_count():
    """Only an answer from before says that the machine was read after what it tells."""
    stage = Stage()
    read = stage.agent.read

    def slow_read():
        stage.reporter._seen = 9
        return read()

    stage.client.answer = told(4)
    stage.reporter.step()
    stage.agent.read = slow_read
    stage.clock.now_s += INTERVAL_S
    stage.reporter.step()
    assert stage.client.orders == [{'seen': 0}, {'seen': 4}]


def test_a_late_report_is_no_trouble_once(said, tmp_path):
    stage = Stage()
    stage.reporter = stage.made(count=ReportCount(tmp_path / 'boot'))
    stage.reporter.listens()
    stage.client.answers = [told(4, stale=True, boot=7), told(5)]
    stage.run(1)
    assert [line for level, line in said() if level != 'INFO'] == []
    assert stage.client.orders == [
        {'boot': 1, 'sequence': 1, 'seen': 0},
        {'boot': 8, 'sequence': 1, 'seen': 4},
    ]
    assert len(stage.agent.accepted) == 1
    stage.client.answers = [told(6, stale=True), told(7, stale=True), told(8)]
    stage.run(20)
    assert [level for level, _ in said()] == ['ERROR', 'INFO']


def test_a_start_number_that_follows_nothing_begins_anew(tmp_path):
    """As of a node that was removed after somebody else had reported it."""
    path = tmp_path / 'boot'
    path.write_text(f'{2**40}\n')
    stage = Stage()
    stage.reporter = stage.made(count=ReportCount(path))
    stage.reporter.listens()
    stage.client.trouble = errors.BadReport('cmp1', 'boot', f'{2**40 + 1} is more than {2**32}')
    stage.reporter.step()
    stage.client.trouble = None
    stage.client.answers = [told(3, stale=True, boot=9), told(4)]
    stage.run(RETRY_S + 1)
    assert [one['boot'] for one in stage.client.orders] == [2**40 + 1, 1, 10]
    assert path.read_text() == '10\n'


def test_a_start_number_that_none_can_follow(tmp_path):
    count = ReportCount(tmp_path / 'boot')
    count.pass_by(MAX_BOOT)
    assert count.boot == 1
    count.pass_by(MAX_BOOT - 1)
    assert count.boot == MAX_BOOT
    with pytest.raises(errors.BadMachineFacts, match='remove the file'):
        ReportCount(tmp_path / 'boot')
