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
from nova_sched.db.tables import JOBS
from nova_sched.objects.claim import PENDING
from nova_sched.queues import messages
from nova_sched.tests.unit.queues.office import LARGE, TINY, Office, job, result, spec

LATER_S, MUCH_LATER_S = 121, 3601


@pytest.fixture
def office(tmp_path):
    made = Office(tmp_path, 'a', 'b')
    yield made
    made.engine.dispose()


def look(office, after_s):
    office.now_s += after_s
    office.upkeep.look()


@pytest.mark.parametrize(
    'after_s, claim, waits, found',
    [
        pytest.param(LATER_S, None, None, {'fallback': ['create']}, id='lost'),
        pytest.param(100, None, None, {}, id='not overdue'),
        pytest.param(LATER_S, PENDING, None, {}, id='being built'),
        pytest.param(LATER_S, None, 'fallback', None, id='the manager is behind'),
        pytest.param(LATER_S, None, 'results', None, id='its result may wait'),
    ],
)
def test_a_create(office, after_s, claim, waits, found):
    one = office.enter(job())
    if claim:
        office.claims.put('a', claim)
    if waits:
        office.queues.publish(waits, messages.to_bytes(job(name='other')))
    look(office, after_s)
    if found is not None:
        assert office.queues.all_jobs() == found
    else:
        assert [
            sent.uuid for sent in office.queues.jobs('fallback') if sent.uuid == one.uuid
        ] == []
    assert office.state(one) == 'queued'


def test_what_was_seen_to_is_not_overdue(office):
    office.enter(job())
    look(office, LATER_S)
    office.queues.there['fallback'].clear()
    look(office, 100)
    assert office.queues.all_jobs() == {}
    look(office, LATER_S)
    assert office.queues.all_jobs() == {'fallback': ['create']}


def test_a_create_whose_result_was_lost_is_done(office):
    one = office.enter(job())
    office.claims.put('a')
    look(office, LATER_S)
    assert (office.state(one), office.answer()) == ('done', ('done', 'a', None))


@pytest.mark.parametrize('waits', [False, True])
def test_a_delete_is_sent_again_unless_it_waits_for_its_node(office, waits):
    delete = office.enter(job('delete'), amounts=None, host='a')
    if waits:
        office.queues.publish('host.a', messages.to_bytes(delete))
    look(office, LATER_S)
    assert office.queues.all_jobs() == {'host.a': ['delete']}
    assert office.state(delete) == 'queued'


@pytest.mark.parametrize(
    'after_s, vcpus, state, held',
    [
        pytest.param(LATER_S, 1, 'queued', LARGE, id='it may take long'),
        pytest.param(MUCH_LATER_S, 1, 'failed', TINY, id='but not so long'),
        pytest.param(MUCH_LATER_S, 8, 'done', LARGE, id='it was done'),
    ],
)
def test_a_resize(office, after_s, vcpus, state, held):
    office.tell(result(office.enter(job())))
    amounts = {1: TINY, 8: LARGE}[vcpus]
    resources = {
        name.removeprefix('class:'): units for name, units in amounts.items() if name != 'servers'
    }
    office.claims.put('a', **resources)
    asked = office.enter(job('resize', asked=spec('large'), source='a'), LARGE, host='a')
    look(office, after_s)
    assert (office.state(asked), office.used) == (state, held)


def test_a_create_that_was_cancelled_and_came_nowhere(office):
    one = office.enter(job())
    office.job_table.cancel(one.instance_uuid, office.now_s)
    look(office, 100)
    assert office.used == TINY
    look(office, 100)
    assert office.used == {}


def test_a_create_that_was_cancelled_and_built_is_deleted(office):
    one = office.enter(job())
    office.job_table.cancel(one.instance_uuid, office.now_s)
    office.claims.put('a')
    for _ in range(3):
        look(office, LATER_S)
    assert office.queues.all_jobs() == {'host.a': ['delete']}
    assert office.used == TINY


@pytest.mark.parametrize('cancelled', [False, True], ids=['queued', 'cancelled'])
def test_one_that_cannot_be_read_keeps_no_other_waiting(office, caplog, cancelled):
    spoilt = office.enter(job(name='u'))
    office.now_s += 1
    other = office.enter(job(name='v'))
    with office.engine.begin() as connection:
        connection.execute(sa.update(JOBS).where(JOBS.c.uuid == spoilt.uuid).values(message='{}'))
    if cancelled:
        for one in (spoilt, other):
            office.job_table.cancel(one.instance_uuid, office.now_s)
    look(office, LATER_S)
    if cancelled:
        assert office.used == TINY  # that of the one that cannot be read
    else:
        assert [sent.uuid for sent in office.queues.jobs('fallback')] == [other.uuid]
    assert f'Job {spoilt.uuid} cannot be read' in caplog.text


def test_cancelled_creates_are_looked_at_once(office):
    for name in 'uvw':
        one = office.enter(job(name=name))
        office.job_table.cancel(one.instance_uuid, office.now_s)
    for after_s in (LATER_S, LATER_S, MUCH_LATER_S, LATER_S):
        look(office, after_s)
    assert len(office.claims.shown) == 3
    assert office.used == {}


def test_ended_jobs_are_forgotten_in_the_end(office):
    one = office.enter(job())
    office.tell(result(one))
    look(office, 86_399)
    assert office.state(one) == 'done'
    look(office, 2)
    assert office.job_table.find(one.uuid) is None


def test_a_database_or_broker_that_is_away_leaves_the_rest_for_the_next_time(office):
    office.enter(job())
    office.queues.away = 1
    with pytest.raises(errors.BrokerUnavailable):
        look(office, LATER_S)
    look(office, 0)
    assert office.queues.all_jobs() == {'fallback': ['create']}
