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
"""A problem is logged once until it is over, and counters are taken once a minute."""

import logging

import pytest
from amqp import abstract_channel
from sqlalchemy.pool import QueuePool

from nova_sched.logs import (
    MINUTE_S,
    ChannelCloseFilter,
    MinuteCounts,
    PoolResetFilter,
    Problems,
    RetryFilter,
    first_line,
)
from nova_sched.tests.rows import each


@pytest.fixture
def problems(caplog):
    caplog.set_level(logging.INFO)
    return Problems(logging.getLogger(__name__))


def test_a_problem_is_logged_once_until_it_is_over(problems, caplog):
    for _ in range(2):
        problems.begin('disk', 'Disk %s is full', 'a')
    problems.end('disk', 'There is room again')
    problems.end('disk', 'There is room again')
    problems.begin('disk', 'Disk %s is full', 'a')
    assert caplog.messages == ['Disk a is full', 'There is room again', 'Disk a is full']


def test_each_reason_is_logged_and_its_kind_ends_as_a_whole(problems, caplog):
    for reason in ('full', 'slow', 'full'):
        problems.begin('disk', 'Disk: %s', reason, reason=reason)
    problems.end('network', 'The network is back')
    problems.end('disk', 'Disk again')
    assert caplog.messages == ['Disk: full', 'Disk: slow', 'Disk again']


def test_counts_are_those_of_the_last_minute():
    counts = {'done': 5}
    minute = MinuteCounts(lambda: counts, now_s=100.0)
    counts['done'] = 7
    assert minute.take(100.0 + MINUTE_S - 1) is None
    assert minute.take(100.0 + MINUTE_S) == {'done': 2}
    assert minute.take(100.0 + MINUTE_S + 1) is None
    assert minute.take(100.0 + 2 * MINUTE_S) == {'done': 0}


@pytest.fixture
def retries():
    """A logger whose retries are limited, and a list with its time in seconds."""
    now_s = [0.0]
    log = logging.getLogger('nova_sched.tests.retries')
    limit = RetryFilter(lambda: now_s[0])
    log.addFilter(limit)
    yield log, now_s
    log.removeFilter(limit)


def test_retries_are_logged_once_a_minute(retries, caplog):
    log, now_s = retries
    for now_s[0] in (0.0, 1.0, 59.0, 60.0, 61.0):
        log.error('It failed (retrying in %s seconds)', now_s[0])
    assert [record.args[0] for record in caplog.records] == [0.0, 60.0]


def test_a_new_failure_is_logged_at_once(retries, caplog):
    log, now_s = retries
    for now_s[0], text in enumerate(['Trying again in 1 s', 'It is back', 'Trying again in 2 s']):
        log.error(text)
    assert len(caplog.records) == 3


def test_a_first_line_has_no_traceback():
    assert first_line(ValueError('no disk\nTraceback: ...')) == 'no disk'


@each(
    'text, passes',
    [
        pytest.param(abstract_channel.IGNORED_METHOD_DURING_CHANNEL_CLOSE, False, id='at a stop'),
        pytest.param('Closed channel #1', True, id='another line'),
    ],
)
def test_messages_while_a_channel_closes_are_left_out(text, passes):
    record = logging.LogRecord('amqp', logging.WARNING, '', 0, text, ((60, 30), 1), None)
    assert ChannelCloseFilter().filter(record) is passes


class Broken:
    """A connection whose server is away."""

    def rollback(self):
        raise OSError('Lost connection')

    def close(self):
        pass


@pytest.mark.parametrize('passes', [False, True], ids=['with the filter', 'without'])
def test_a_connection_that_breaks_on_its_way_back(passes, caplog):
    pool, unwanted = QueuePool(Broken), PoolResetFilter()
    if not passes:
        pool.logger.addFilter(unwanted)
    try:
        pool.connect().close()
    finally:
        pool.logger.removeFilter(unwanted)
    assert ('Lost connection' in caplog.text) is passes
