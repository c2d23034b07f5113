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
"""What the end of a job leads to, once however often it is told."""

import pytest

from nova_sched import errors
from nova_sched.objects.claim import PENDING
from nova_sched.queues.brokers import Delivery
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.queues.office import LARGE, TINY, Office, job, result, spec


@pytest.fixture
def office(tmp_path):
    made = Office(tmp_path, 'a', 'b')
    yield made
    made.engine.dispose()


TWICE = pytest.mark.parametrize('times', [1, 2], ids=['once', 'twice'])


@TWICE
def test_a_create_that_is_done(office, times):
    one = office.enter(job())
    for _ in range(times):
        office.tell(result(one, tries=1))
    entry = office.job_table.find(one.uuid)
    assert (entry.state, entry.host, entry.tries) == ('done', 'a', 1)
    assert office.answer() == ('done', 'a', None)
    assert office.used == TINY
    assert office.queues.all_jobs() == {}


@TWICE
def test_a_create_that_failed(office, times):
    one = office.enter(job())
    office.claims.put('a', PENDING)
    for _ in range(times):
        office.tell(result(one, outcome='failed', why='its spec cannot be read'))
    assert office.state(one) == 'failed'
    assert office.answer() == ('failed', 'a', 'its spec cannot be read')
    assert office.used == {}
    assert office.claims.hosts() == {}


def test_a_failure_that_is_told_late_ends_no_claim_of_the_next_try(office):
    first = office.enter(job())
    office.tell(result(first, outcome='failed', why='no'))
    office.enter(job(number=1))
    office.claims.put('b')
    office.tell(result(first, outcome='failed', why='no'))
    assert office.claims.hosts() == {'b': 'confirmed'}
    assert office.used == TINY


@TWICE
def test_a_create_that_was_cancelled_and_is_done_is_deleted_where_it_is(office, times):
    one = office.enter(job())
    office.job_table.cancel(one.instance_uuid, office.now_s)
    for _ in range(times):
        office.tell(result(one))
    assert set(office.queues.all_jobs()) == {'host.a'}
    assert office.used == TINY
    (delete, *again) = office.queues.jobs('host.a')
    assert {found.uuid for found in again} <= {delete.uuid}
    office.tell(result(delete))
    assert (office.state(one), office.state(delete), office.used) == ('cancelled', 'done', {})


def test_a_create_that_was_cancelled_and_failed(office):
    one = office.enter(job())
    office.job_table.cancel(one.instance_uuid, office.now_s)
    office.tell(result(one, outcome='failed', why='no'))
    assert (office.state(one), office.used) == ('cancelled', {})


def test_a_create_that_was_given_up_and_is_done_after_all(office):
    one = office.enter(job())
    office.endings.give_up(one, 'nobody takes it')
    office.tell(result(one))
    (delete,) = office.queues.jobs('host.a')
    assert delete.kind == 'delete'
    assert office.used == {}


def test_a_create_that_was_given_up_and_tried_again_is_not_deleted(office):
    """Whichever of the two has built it: there is one instance."""
    first = office.enter(job())
    office.endings.give_up(first, 'nobody takes it')
    office.now_s += 1
    second = office.enter(job(number=1))
    office.tell(result(second))
    office.tell(result(first))
    assert office.queues.all_jobs() == {}
    assert office.used == TINY


@TWICE
def test_a_create_that_was_deleted_and_is_built_again_is_deleted_again(office, times):
    """Its worker ended before it could acknowledge: another one got it, when all was over."""
    one = office.enter(job())
    office.tell(result(one))
    office.now_s += 1
    office.tell(result(office.enter(job('delete'), amounts=None)))
    for _ in range(times):
        office.tell(result(one, 'b'))
        office.tell(result(office.queues.jobs('host.b')[-1], 'b'))
    deletes = office.queues.jobs('host.b')
    assert [(delete.kind, delete.source) for delete in deletes] == [('delete', 'b')] * times
    assert (set(office.queues.all_jobs()), office.used) == ({'host.b'}, {})


def test_a_create_that_was_deleted_and_asked_for_again_stays(office):
    one = office.enter(job())
    office.tell(result(one))
    office.now_s += 1
    office.tell(result(office.enter(job('delete'), amounts=None)))
    office.now_s += 1
    office.tell(result(office.enter(job(number=1)), 'b'))
    office.tell(result(one, 'b'))
    assert office.queues.all_jobs() == {}
    assert office.used == TINY


@TWICE
def test_a_delete(office, times):
    office.tell(result(office.enter(job())))
    delete = office.enter(job('delete'), amounts=None)
    for _ in range(times):
        office.tell(result(delete))
    assert (office.state(delete), office.used) == ('done', {})


def test_a_delete_that_failed_holds_its_quota(office):
    office.tell(result(office.enter(job())))
    delete = office.enter(job('delete'), amounts=None)
    office.tell(result(delete, outcome='failed', why='the disk is busy'))
    assert (office.state(delete), office.used) == ('failed', TINY)
    assert office.answer() == ('failed', 'a', 'the disk is busy')


@TWICE
def test_a_move_leaves_nothing_behind(office, times):
    office.tell(result(office.enter(job())))
    move = office.enter(job('migrate', source='a'))
    for _ in range(times):
        office.tell(result(move, 'b'))
    delete = office.queues.jobs('host.a')[0]
    assert (delete.kind, delete.source) == ('delete', 'a')
    office.tell(result(delete))
    assert (office.state(move), office.state(delete), office.used) == ('done', 'done', TINY)
    assert set(office.queues.all_jobs()) == {'host.a'}


def test_a_server_that_was_deleted_while_it_moved_is_deleted_there_too(office):
    office.tell(result(office.enter(job())))
    move = office.enter(job('migrate', source='a'))
    delete = office.enter(job('delete'), amounts=None)
    office.tell(result(delete))
    office.tell(result(move, 'b'))
    assert [one.source for one in office.queues.jobs('host.b')] == [None]


@pytest.mark.parametrize(
    'host, behind', [('a', {}), ('b', {'host.a': ['delete']})], ids=['in place', 'away']
)
def test_a_resize(office, host, behind):
    office.tell(result(office.enter(job())))
    asked = office.enter(job('resize', asked=spec('large'), source='a'), LARGE)
    asked.kind = 'resize' if host == 'a' else 'migrate'
    office.tell(result(asked, host))
    assert office.used == LARGE
    assert office.queues.all_jobs() == behind


@pytest.mark.parametrize('remembers', [True, False], ids=['of its create', 'of its claim'])
def test_a_resize_that_failed_gives_back_what_it_had_not_before(office, remembers):
    office.tell(result(office.enter(job())))
    if not remembers:
        office.job_table.forget(office.now_s + 1)
    office.claims.put('a')
    office.claims.put('b', PENDING, move='resize', VCPU=8)
    asked = office.enter(job('resize', asked=spec('large'), source='a'), LARGE)
    assert office.used == LARGE
    office.tell(result(asked, outcome='failed', why='no'))
    assert (office.used, office.claims.hosts()) == (TINY, {'a': 'confirmed'})


def test_a_result_of_an_unknown_job(office):
    office.tell(result(job(name='stranger')))
    assert (office.used, office.queues.all_jobs()) == ({}, {})


def test_what_is_no_result(office):
    with pytest.raises(errors.Invalid):
        office.endings.take(Delivery('results', b'{}'))


def test_a_broker_that_is_away_in_the_midst_of_it(office):
    """All is done once it is told again."""
    one = office.enter(job())
    office.job_table.cancel(uuid_of('server'), office.now_s)
    office.queues.away = 1
    with pytest.raises(errors.BrokerUnavailable):
        office.tell(result(one))
    office.tell(result(one))
    (delete,) = office.queues.jobs('host.a')
    office.tell(result(delete))
    assert office.used == {}
