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
from nova_sched.claim import PENDING
from nova_sched.extensions.queues import jobs
from nova_sched.extensions.queues.brokers import Delivery
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.queues.managed_queues import (
    LARGE,
    TINY,
    job,
    result,
    spec,
)

TWICE = pytest.mark.parametrize('times', [1, 2], ids=['once', 'twice'])


@TWICE
def test_a_create_that_is_done(managed, times):
    one = managed.add_job(job())
    for _ in range(times):
        managed.report_result(result(one, tries=1))
    entry = managed.job_table.find(one.uuid)
    assert (entry.state, entry.host, entry.tries) == ('done', 'a', 1)
    assert managed.answer() == ('done', 'a', None)
    assert managed.used == TINY
    assert managed.queues.all_jobs() == {}


@TWICE
def test_a_create_that_failed(managed, times):
    one = managed.add_job(job())
    managed.claims.put('a', PENDING)
    for _ in range(times):
        managed.report_result(result(one, outcome='failed', why='its spec cannot be read'))
    assert managed.state(one) == 'failed'
    assert managed.answer() == ('failed', 'a', 'its spec cannot be read')
    assert managed.used == {}


@pytest.mark.parametrize('outcome', ['done', 'failed'])
def test_what_drivers_said_is_kept(managed, outcome):
    one = managed.add_job(job())
    one.failures = '[]'
    managed.report_result(result(one, outcome=outcome))
    assert managed.job_table.find(one.uuid).failures == '[]'


def test_a_failure_that_is_told_late_ends_no_claim_of_the_next_try(managed):
    first = managed.add_job(job())
    managed.report_result(result(first, outcome='failed', why='no'))
    managed.add_job(job(number=1))
    managed.claims.put('b')
    managed.report_result(result(first, outcome='failed', why='no'))
    assert managed.claims.hosts() == {'b': 'confirmed'}
    assert managed.used == TINY


@TWICE
def test_a_create_that_was_cancelled_and_is_done_is_deleted_where_it_is(managed, times):
    one = managed.add_job(job())
    managed.job_table.cancel(one.instance_uuid, managed.now_s)
    for _ in range(times):
        managed.report_result(result(one))
    assert set(managed.queues.all_jobs()) == {'host.a'}
    assert managed.used == TINY
    (delete, *again) = managed.queues.jobs('host.a')
    assert {found.uuid for found in again} <= {delete.uuid}
    managed.report_result(result(delete))
    assert (managed.state(one), managed.state(delete), managed.used) == ('cancelled', 'done', {})


def test_a_create_that_was_given_up_and_tried_again_is_not_deleted(managed):
    """Whichever of the two has built it: there is one instance."""
    first = managed.add_job(job())
    managed.endings.give_up(first, 'nobody takes it')
    managed.now_s += 1
    second = managed.add_job(job(number=1))
    managed.report_result(result(second))
    managed.report_result(result(first))
    assert managed.queues.all_jobs() == {}
    assert managed.used == TINY


@TWICE
def test_a_create_that_was_deleted_and_is_built_again_is_deleted_again(managed, times):
    """Its worker ended before it could acknowledge: another one got it, when all was over."""
    one = managed.add_job(job())
    managed.report_result(result(one))
    managed.now_s += 1
    managed.report_result(result(managed.add_job(job('delete'), amounts=None)))
    for _ in range(times):
        managed.report_result(result(one, 'b'))
        managed.report_result(result(managed.queues.jobs('host.b')[-1], 'b'))
    deletes = managed.queues.jobs('host.b')
    assert [(delete.kind, delete.source) for delete in deletes] == [('delete', 'b')] * times
    assert (set(managed.queues.all_jobs()), managed.used) == ({'host.b'}, {})


def test_a_delete_that_failed_holds_its_quota(managed):
    managed.report_result(result(managed.add_job(job())))
    delete = managed.add_job(job('delete'), amounts=None)
    managed.report_result(result(delete, outcome='failed', why='the disk is busy'))
    assert (managed.state(delete), managed.used) == ('failed', TINY)
    assert managed.answer() == ('failed', 'a', 'the disk is busy')


@TWICE
def test_a_move_leaves_nothing_behind(managed, times):
    managed.report_result(result(managed.add_job(job())))
    move = managed.add_job(job('migrate', source='a'))
    for _ in range(times):
        managed.report_result(result(move, 'b'))
    delete = managed.queues.jobs('host.a')[0]
    assert (delete.kind, delete.source) == ('delete', 'a')
    managed.report_result(result(delete))
    assert (managed.state(move), managed.state(delete), managed.used) == ('done', 'done', TINY)
    assert set(managed.queues.all_jobs()) == {'host.a'}


def test_a_server_that_was_deleted_while_it_moved_is_deleted_there_too(managed):
    managed.report_result(result(managed.add_job(job())))
    move = managed.add_job(job('migrate', source='a'))
    delete = managed.add_job(job('delete'), amounts=None)
    managed.report_result(result(delete))
    managed.report_result(result(move, 'b'))
    assert [one.source for one in managed.queues.jobs('host.b')] == [None]


@each_afresh('host, behind', {'in place': ('a', {}), 'away': ('b', {'host.a': ['delete']})})
def test_a_resize(managed, host, behind):
    managed.report_result(result(managed.add_job(job())))
    asked = managed.add_job(job('resize', asked=spec('large'), source='a'), LARGE)
    asked.kind = 'resize' if host == 'a' else 'migrate'
    managed.report_result(result(asked, host))
    assert managed.used == LARGE
    assert managed.queues.all_jobs() == behind


@each_afresh('remembers', {'of its create': True, 'of its claim': False})
def test_a_resize_that_failed_gives_back_what_it_had_not_before(managed, remembers):
    managed.report_result(result(managed.add_job(job())))
    if not remembers:
        managed.job_table.forget(managed.now_s + 1)
    managed.claims.put('a')
    managed.claims.put('b', PENDING, move='resize', VCPU=8)
    asked = managed.add_job(job('resize', asked=spec('large'), source='a'), LARGE)
    assert managed.used == LARGE
    managed.report_result(result(asked, outcome='failed', why='no'))
    assert (managed.used, managed.claims.hosts()) == (TINY, {'a': 'confirmed'})


@pytest.mark.parametrize('told', ['failed', 'done'])
@pytest.mark.parametrize('state', ['done', 'failed', 'cancelled'])
def test_who_comes_late_is_told_what_the_row_has(managed, state, told):
    """Another manager has ended the job."""
    one = managed.add_job(job())
    if state == 'cancelled':
        managed.job_table.cancel(one.instance_uuid, managed.now_s)
    else:
        why = 'the first reason' if state == 'failed' else None
        managed.report_result(result(one, outcome=state, why=why))
    managed.claims.put('a')
    if told == 'failed':
        managed.endings.give_up(one, 'the second reason')
    else:
        managed.report_result(result(one))
    outcome, _, why = managed.answer()
    words = {'done': None, 'failed': 'the first reason', 'cancelled': jobs.DELETED}
    assert managed.state(one) == state
    if told != state or state != 'failed':
        assert (outcome, why) == ('done' if state == 'done' else 'failed', words[state])
    assert managed.claims.hosts() == {'a': 'confirmed'}
    wanted = {} if state == 'done' else {'host.a': ['delete']}
    assert managed.queues.all_jobs() == wanted


def test_a_claim_that_is_confirmed_while_its_job_is_given_up_stays(managed):
    """The row is written by then, so the server is deleted; until then it has its claim."""
    one = managed.add_job(job())
    managed.claims.put('a', PENDING)
    settle = managed.job_table.settle

    def confirmed(*args, **words):
        managed.claims.put('a')
        return settle(*args, **words)

    managed.job_table.settle = confirmed
    managed.endings.give_up(one, 'nobody takes it')
    assert (managed.state(one), managed.claims.hosts()) == ('failed', {'a': 'confirmed'})
    managed.report_result(result(one))
    assert managed.queues.all_jobs() == {'host.a': ['delete']}


@pytest.mark.parametrize('kind', ['create', 'resize', 'migrate'])
def test_a_job_that_its_claim_shows_as_done_is_not_given_up(managed, kind):
    if kind == 'create':
        one = managed.add_job(job())
        managed.claims.put('b')
    else:
        managed.report_result(result(managed.add_job(job())))
        asked = spec('large') if kind == 'resize' else None
        one = managed.add_job(job(kind, asked=asked, source='a'), LARGE if asked else TINY)
        managed.claims.put('b', **({'VCPU': 8} if asked else {}))
    managed.endings.give_up(one, 'nobody takes it')
    assert (managed.state(one), managed.answer()[:2]) == ('done', ('done', 'b'))


def test_the_deletes_that_follow_are_stored_with_the_row(managed):
    """The manager stops before it has sent them."""
    managed.report_result(result(managed.add_job(job())))
    move = managed.add_job(job('migrate', source='a'))
    managed.queues.away = 99
    with pytest.raises(errors.BrokerUnavailable):
        managed.report_result(result(move, 'b'))
    found = managed.job_table.find(jobs.follow_up(move.uuid, 'a'))
    assert (found.kind, found.host, found.state) == ('delete', 'a', 'queued')


def test_a_server_that_moved_while_its_delete_was_on_its_way_is_deleted_there_too(managed):
    managed.report_result(result(managed.add_job(job())))
    managed.report_result(result(managed.add_job(job('migrate', source='a')), 'b'))
    managed.claims.put('b')
    delete = managed.add_job(job('delete'), amounts=None, host='a')
    managed.report_result(result(delete, 'a'))
    assert managed.queues.all_jobs()['host.b'] == ['delete']


def test_a_delete_that_was_given_up_and_is_done_gives_the_quota_back(managed):
    managed.report_result(result(managed.add_job(job())))
    delete = managed.add_job(job('delete'), amounts=None, host='a')
    managed.endings.give_up(delete, 'the node cannot delete it')
    assert managed.used == TINY
    managed.report_result(result(delete, 'a'))
    assert (managed.state(delete), managed.used) == ('failed', {})


def test_a_late_delete_leaves_the_quota_of_the_next_server(managed):
    managed.report_result(result(managed.add_job(job())))
    managed.now_s += 1
    delete = managed.add_job(job('delete'), amounts=None, host='a')
    managed.now_s += 1
    settle = managed.job_table.settle

    def entered(*args, **words):
        managed.add_job(job(number=1))
        return settle(*args, **words)

    managed.job_table.settle = entered
    managed.report_result(result(delete, 'a'))
    assert (managed.state(delete), managed.used) == ('done', TINY)


@each_afresh(
    'field, value',
    {
        'instance': ('instance_uuid', uuid_of('other')),
        'project': ('project_id', 'q'),
        'no project': ('project_id', None),
        'kind': ('kind', 'delete'),
        'a move': ('kind', 'migrate'),
    },
)
@pytest.mark.parametrize('outcome', ['done', 'failed'])
def test_a_worker_tells_of_the_job_that_the_row_has(managed, field, value, outcome):
    """It may not be ours any more, and knows the UUIDs of jobs."""
    one = managed.add_job(job())
    managed.claims.put('b', name='other')
    setattr(one, field, value)
    with pytest.raises(errors.Invalid, match=f'QueueJob.{field}.*{one.uuid}'):
        managed.report_result(result(one, outcome=outcome, why='no'), is_true=False)
    with pytest.raises(errors.Invalid, match=f'QueueJob.{field}'):
        managed.fall_back(one)
    assert (managed.state(one), managed.used) == ('queued', TINY)
    assert managed.claims.hosts('other') == {'b': 'confirmed'}
    assert (managed.queues.results(), managed.queues.all_jobs()) == ([], {})


def test_what_a_worker_tells_beside_its_progress_is_not_believed(managed):
    """The size, and who is answered, are the row's."""
    managed.report_result(result(managed.add_job(job())))
    one = managed.add_job(job('resize', asked=spec('large'), source='a'), LARGE)
    one.spec, one.reply_to, one.source = spec('tiny'), 'reply.other', 'z'
    one.kind = 'migrate'
    managed.report_result(result(one, 'b'))
    assert (managed.used, managed.answer()[0]) == (LARGE, 'done')
    assert managed.queues.all_jobs() == {'host.a': ['delete']}
    assert managed.queues.results('reply.other') == []


@pytest.mark.parametrize(
    'claims',
    [
        pytest.param({}, id='nowhere'),
        pytest.param({'b': (PENDING, 'migration')}, id='it is to come'),
        pytest.param(
            {'a': ('confirmed', None), 'b': ('confirmed', 'migration')}, id='it may go back'
        ),
        pytest.param({'a': ('confirmed', None)}, id='elsewhere'),
    ],
)
@pytest.mark.parametrize('kind', ['create', 'resize', 'migrate'])
def test_what_is_done_by_a_worker_alone_is_not_done(managed, kind, claims):
    """Somebody else may have sent it: nothing is destroyed for that."""
    if kind != 'create':
        managed.report_result(result(managed.add_job(job())))
    one = managed.add_job(job(kind, source=None if kind == 'create' else 'a'))
    managed.claims.there.clear()
    for host, (state, move) in claims.items():
        managed.claims.put(host, state, move=move)
    answers = managed.queues.results()
    managed.report_result(result(one, 'b'), is_true=False)
    assert (managed.state(one), managed.used) == ('queued', TINY)
    assert (managed.queues.all_jobs(), len(managed.queues.results())) == ({}, len(answers))
    managed.report_result(result(one, 'b'))
    assert managed.state(one) == 'done'


def test_a_server_that_was_migrated_live_since_is_where_it_runs(managed):
    """Its reports have settled that, and its claim tells how it came."""
    one = managed.add_job(job())
    managed.claims.put('b', move='live-migration')
    managed.report_result(result(one, 'b'), is_true=False)
    assert managed.answer() == ('done', 'b', None)


def test_the_claim_of_an_answer_is_the_one_that_is_stored(managed):
    one = managed.add_job(job())
    stored, told = managed.claims.put('a'), managed.claims.put('z', name='other')
    managed.report_result(result(one, nodename='z', claim=told), is_true=False)
    (answer,) = managed.queues.results()
    assert (answer.nodename, answer.claim.uuid) == ('a', stored.uuid)


@pytest.mark.parametrize('kind', ['create', 'migrate'])
def test_a_delete_tells_what_a_move_has_left_from_what_nobody_wants(managed, kind):
    if kind == 'create':
        one = managed.add_job(job())
        managed.endings.give_up(one, 'nobody takes it')
        managed.report_result(result(one))
    else:
        managed.report_result(result(managed.add_job(job())))
        managed.report_result(result(managed.add_job(job('migrate', source='a')), 'b'))
    (delete,) = managed.queues.jobs('host.a')
    assert (delete.source, delete.claimed) == ('a', kind == 'create')


def test_a_result_without_a_host(managed):
    one = managed.add_job(job())
    with pytest.raises(errors.Invalid, match=r'QueueResult\.host'):
        managed.report_result(result(one, host=None))
    assert managed.state(one) == 'queued'


def test_a_result_of_an_unknown_job(managed):
    managed.report_result(result(job(name='stranger')))
    assert (managed.used, managed.queues.all_jobs()) == ({}, {})


def test_what_is_no_result(managed):
    with pytest.raises(errors.Invalid):
        managed.endings.take(Delivery('results', b'{}'))


def test_a_broker_that_is_away_in_the_midst_of_it(managed):
    """All is done once it is told again."""
    one = managed.add_job(job())
    managed.job_table.cancel(uuid_of('server'), managed.now_s)
    managed.queues.away = 1
    with pytest.raises(errors.BrokerUnavailable):
        managed.report_result(result(one))
    managed.report_result(result(one))
    (delete,) = managed.queues.jobs('host.a')
    managed.report_result(result(delete))
    assert managed.used == {}
