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
"""What was lost is found: jobs by their claims, quota by what was cancelled."""

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import PENDING
from nova_sched.db.tables import JOBS
from nova_sched.extensions.queues import messages
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.queues.managed_queues import (
    LARGE,
    TINY,
    job,
    result,
    spec,
)

LATER_S, MUCH_LATER_S = 121, 3601


def check(managed, after_s):
    managed.now_s += after_s
    managed.upkeep.check()


@each_afresh(
    'after_s, claim, waits, found',
    {
        'lost': (LATER_S, None, None, {'fallback': ['create']}),
        'not overdue': (100, None, None, {}),
        'being built': (LATER_S, PENDING, None, {}),
        'the manager is behind': (LATER_S, None, 'fallback', None),
        'its result may wait': (LATER_S, None, 'results', None),
    },
)
def test_a_create(managed, after_s, claim, waits, found):
    one = managed.add_job(job())
    if claim:
        managed.claims.put('a', claim)
    if waits:
        managed.queues.publish(waits, messages.to_bytes(job(name='other')))
    check(managed, after_s)
    if found is not None:
        assert managed.queues.all_jobs() == found
    else:
        assert [
            sent.uuid for sent in managed.queues.jobs('fallback') if sent.uuid == one.uuid
        ] == []
    assert managed.state(one) == 'queued'


def test_what_was_seen_to_is_not_overdue(managed):
    managed.add_job(job())
    check(managed, LATER_S)
    managed.queues.there['fallback'].clear()
    check(managed, 100)
    assert managed.queues.all_jobs() == {}
    check(managed, LATER_S)
    assert managed.queues.all_jobs() == {'fallback': ['create']}


def test_a_create_whose_result_was_lost_is_done(managed):
    one = managed.add_job(job())
    managed.claims.put('a')
    check(managed, LATER_S)
    assert (managed.state(one), managed.answer()) == ('done', ('done', 'a', None))


@pytest.mark.parametrize('waits', [False, True])
def test_a_delete_is_sent_again_unless_it_waits_for_its_node(managed, waits):
    delete = managed.add_job(job('delete'), amounts=None, host='a')
    if waits:
        managed.queues.publish('host.a', messages.to_bytes(delete))
    check(managed, LATER_S)
    assert managed.queues.all_jobs() == {'host.a': ['delete']}
    assert managed.state(delete) == 'queued'


@each_afresh(
    'after_s, vcpus, state, held',
    {
        'it may take long': (LATER_S, 1, 'queued', LARGE),
        'but not so long': (MUCH_LATER_S, 1, 'failed', TINY),
        'it was done': (MUCH_LATER_S, 8, 'done', LARGE),
    },
)
def test_a_resize(managed, after_s, vcpus, state, held):
    managed.report_result(result(managed.add_job(job())))
    amounts = {1: TINY, 8: LARGE}[vcpus]
    resources = {
        name.removeprefix('class:'): units for name, units in amounts.items() if name != 'servers'
    }
    managed.claims.put('a', **resources)
    asked = managed.add_job(job('resize', asked=spec('large'), source='a'), LARGE, host='a')
    check(managed, after_s)
    assert (managed.state(asked), managed.used) == (state, held)


def test_a_create_that_was_cancelled_and_came_nowhere(managed):
    one = managed.add_job(job())
    managed.job_table.cancel(one.instance_uuid, managed.now_s)
    check(managed, 100)
    assert managed.used == TINY
    check(managed, 100)
    assert managed.used == {}


def test_a_create_that_was_cancelled_and_built_is_deleted(managed):
    one = managed.add_job(job())
    managed.job_table.cancel(one.instance_uuid, managed.now_s)
    managed.claims.put('a')
    for _ in range(3):
        check(managed, LATER_S)
    assert managed.queues.all_jobs() == {'host.a': ['delete']}
    assert managed.used == TINY


@each_afresh('cancelled', {'queued': False, 'cancelled': True})
def test_one_that_cannot_be_read_keeps_no_other_waiting(managed, caplog, cancelled):
    spoilt = managed.add_job(job(name='u'))
    managed.now_s += 1
    other = managed.add_job(job(name='v'))
    with managed.engine.begin() as connection:
        connection.execute(sa.update(JOBS).where(JOBS.c.uuid == spoilt.uuid).values(message='{}'))
    if cancelled:
        for one in (spoilt, other):
            managed.job_table.cancel(one.instance_uuid, managed.now_s)
    check(managed, LATER_S)
    if cancelled:
        assert managed.used == TINY  # that of the one that cannot be read
    else:
        assert [sent.uuid for sent in managed.queues.jobs('fallback')] == [other.uuid]
    assert f'Job {spoilt.uuid} cannot be read' in caplog.text


def test_cancelled_creates_are_checked_once(managed):
    for name in 'uvw':
        one = managed.add_job(job(name=name))
        managed.job_table.cancel(one.instance_uuid, managed.now_s)
    for after_s in (LATER_S, LATER_S, MUCH_LATER_S, LATER_S):
        check(managed, after_s)
    assert len(managed.claims.shown) == 3
    assert managed.used == {}


def test_a_create_that_is_cancelled_late_is_checked(managed):
    """Others that were made after it were cancelled long ago."""
    old = managed.add_job(job(name='old'))
    managed.now_s += 1
    other = managed.add_job(job(name='other'))
    managed.job_table.cancel(other.instance_uuid, managed.now_s)
    for _ in range(3):
        check(managed, MUCH_LATER_S)
        managed.queues.there['fallback'].clear()
    managed.job_table.cancel(old.instance_uuid, managed.now_s)
    check(managed, LATER_S)
    assert managed.used == {}


def test_a_cancelled_create_is_not_forgotten_while_its_quota_is_held(managed):
    one = managed.add_job(job())
    managed.claims.put('a')
    managed.job_table.cancel(one.instance_uuid, managed.now_s)
    check(managed, LATER_S)
    (delete,) = managed.queues.jobs('host.a')
    managed.report_result(result(delete, outcome='failed', why='it is stuck'))
    for _ in range(3):
        check(managed, 86_401)
    assert (managed.state(one), managed.used) == ('cancelled', TINY)


def test_ended_jobs_are_forgotten_in_the_end(managed):
    one = managed.add_job(job())
    managed.report_result(result(one))
    check(managed, 86_399)
    assert managed.state(one) == 'done'
    check(managed, 2)
    assert managed.job_table.find(one.uuid) is None


def test_a_database_or_broker_that_is_away_leaves_the_rest_for_the_next_time(managed):
    managed.add_job(job())
    managed.queues.away = 1
    with pytest.raises(errors.BrokerUnavailable):
        check(managed, LATER_S)
    check(managed, 0)
    assert managed.queues.all_jobs() == {'fallback': ['create']}
