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
"""Tests of the wait for the outcomes of jobs: by their answers, or by their rows."""

import pytest

from nova_sched import errors
from nova_sched.db.jobs import DONE
from nova_sched.extensions.queues import jobs, messages
from nova_sched.extensions.queues.brokers.memory import MemoryBroker
from nova_sched.extensions.queues.conductor.waiting import Waiting
from nova_sched.tests.builders import NOW
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.queues.managed_queues import job, result

JOB = job()
LONG_S, SHORT_S = 30.0, 0.01


@pytest.fixture
def broker():
    made = MemoryBroker(30.0)
    yield made
    made.close()


@pytest.fixture
def waiting(broker):
    made = Waiting(broker, 'me', lambda uuid: None)
    made.start()
    yield made
    made.stop()


def done(of=JOB, host='a'):
    row = jobs.entry(of, NOW, host)
    return type(row)(**{name: getattr(row, name) for name in row.__slots__} | {'state': DONE})


def answer(broker, waiting, of=JOB, **fields):
    broker.publish(waiting.queue, messages.to_bytes(result(of, **fields)))


def outcomes(waiting, find=lambda uuid: None, unsent=(), timeout_s=LONG_S, query_s=LONG_S):
    waiting._find, unsent = find, list(unsent)
    with waiting.expecting([JOB.uuid]):
        found = list(waiting.each([JOB.uuid], unsent, timeout_s, query_s))
    return [(one.job_uuid, one.is_done, one.host) for one in found], unsent


def test_an_answer_that_comes_before_the_wait(broker, waiting):
    with waiting.expecting([JOB.uuid]):
        answer(broker, waiting, host='b')
        (found,) = waiting.each([JOB.uuid], [], LONG_S, LONG_S)
    assert (found.host, found.is_done) == ('b', True)


def test_an_answer_is_forgotten_when_its_last_caller_leaves(broker, waiting):
    with waiting.expecting([JOB.uuid]):
        with waiting.expecting([JOB.uuid]):
            answer(broker, waiting)
            assert len(list(waiting.each([JOB.uuid], [], LONG_S, LONG_S))) == 1
        assert len(list(waiting.each([JOB.uuid], [], LONG_S, LONG_S))) == 1
    assert waiting._received([JOB.uuid], 0) == {}


def test_an_answer_that_is_not_awaited_or_cannot_be_read_is_ignored(broker, waiting):
    answer(broker, waiting, of=job(name='other'))
    broker.publish(waiting.queue, b'no JSON')
    answer(broker, waiting)
    found, _ = outcomes(waiting, lambda uuid: done(), query_s=SHORT_S)
    assert found == [(JOB.uuid, True, 'a')]


def test_without_an_answer_the_row_has_the_outcome(waiting):
    found, _ = outcomes(waiting, lambda uuid: done(host='c'), query_s=SHORT_S)
    assert found == [(JOB.uuid, True, 'c')]


@each_afresh(
    'rows, expected',
    {
        'it is done': ([done(host='c')], [(JOB.uuid, True, 'c')]),
        'there is no row any more': ([None], [(JOB.uuid, False, 'a')]),
        'it goes on': ([jobs.entry(JOB, NOW), done(host='c')], [(JOB.uuid, True, 'c')]),
        'it cannot be read': (
            [errors.StoreUnavailable('away'), done(host='c')],
            [(JOB.uuid, True, 'c')],
        ),
    },
)
def test_only_the_row_denies_a_job(broker, waiting, rows, expected):
    rows = list(rows)

    def find(uuid):
        # The last row stays: a slow answer may find it read already.
        found = rows[0] if len(rows) == 1 else rows.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    answer(broker, waiting, outcome='failed', why='no')
    with waiting.expecting([JOB.uuid]):
        answer(broker, waiting, outcome='failed', why='no')
        found, _ = outcomes(waiting, find, query_s=SHORT_S)
    assert (found, len(rows)) == (expected, 1)


def test_what_was_not_sent_is_sent_again(broker, waiting):
    script = [errors.BrokerUnavailable('away'), None]

    def send():
        error = script.pop(0)
        if error is not None:
            raise error
        answer(broker, waiting)

    found, unsent = outcomes(waiting, unsent=[send], query_s=SHORT_S)
    assert (found, unsent, script) == ([(JOB.uuid, True, 'a')], [], [])


def test_a_caller_does_not_wait_for_ever(waiting):
    with pytest.raises(errors.NoAnswer, match='1 of them go on'):
        outcomes(waiting, timeout_s=SHORT_S)
