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
"""What becomes of jobs that no worker has taken, and of moves: where the scheduler wants them, or
an end."""

import json

import pytest
from oslo_context import context

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.extensions.queues.brokers import DROPPED, EXPIRED
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.queues.managed_queues import (
    LARGE,
    TINY,
    job,
    result,
    spec,
)


def refusal(reason='There are not enough hosts available.'):
    return errors.NoValidHost(reason)


# Creates.


def test_a_create_goes_where_the_scheduler_wants_it(make_managed):
    managed = make_managed('a', 'b', script=[('a', 'b')])
    managed.fall_back(managed.add_job(job()), reason=EXPIRED)
    (sent,) = managed.queues.jobs('host.a')
    assert (sent.claimed, json.loads(sent.alternates), sent.tried) == (True, [['b', 'b']], [])
    assert managed.claims.hosts() == {'a': PENDING}
    assert (managed.state(sent), managed.used) == ('queued', TINY)


@each_afresh(
    'fields, tried, why',
    {
        'expired': ({'reason': EXPIRED}, [], 'no node has taken it from its queue within 30 s; '),
        'dropped': ({'reason': DROPPED}, [], 'its flavor is not offered any more; '),
        'given back': ({'tries': 3}, [], '3 nodes have given it back; '),
        'failed': ({}, ['a', 'b'], 'it failed on a, b; '),
        'no reason': ({}, [], ''),
    },
)
def test_a_refusal_says_why_and_ends_it(make_managed, fields, tried, why):
    managed = make_managed(script=[refusal('Filter X removed the last 3 hosts.')])
    one = managed.add_job(job(tried=tried))
    managed.fall_back(one, **fields)
    assert managed.answer() == ('failed', None, f'{why}Filter X removed the last 3 hosts.')
    assert (managed.state(one), managed.used) == ('failed', {})


def test_what_is_logged_of_a_job_is_under_the_id_of_its_request(make_managed):
    managed = make_managed('a', 'b', script=[('a',), ('b',)])
    for name in ('first', 'second'):
        asked = job(name=name)
        asked.request_id = f'req-{name}'
        managed.fall_back(managed.add_job(asked), reason=EXPIRED)
        assert context.get_current().request_id == asked.request_id


def test_hosts_where_it_failed_are_not_asked_again(make_managed):
    managed = make_managed('c', script=[('c',)])
    managed.fall_back(managed.add_job(job(asked=spec(ignore_hosts=['x']), tried=['a', 'b'])))
    assert managed.scheduler.asked[0].ignore_hosts == ['x', 'a', 'b']
    (sent,) = managed.queues.jobs('host.c')
    assert sent.spec.ignore_hosts == ['x']


def test_so_many_hosts_are_tried(make_managed):
    managed = make_managed()
    one = managed.add_job(job(tried=['a', 'b', 'c']))
    managed.fall_back(one)
    assert managed.answer() == ('failed', None, 'Exhausted all hosts available: tried a, b, c')
    assert (managed.state(one), managed.used, managed.scheduler.asked) == ('failed', {}, [])


def test_a_node_that_did_not_take_what_it_was_chosen_for_was_tried(make_managed):
    managed = make_managed('a', 'b', script=[('b',)])
    managed.claims.put('a', PENDING)
    managed.fall_back(managed.add_job(job(claimed=True, alternates='[]')), reason=EXPIRED)
    assert managed.scheduler.asked[0].ignore_hosts == ['a']
    assert managed.claims.hosts() == {'b': PENDING}


def test_a_node_that_built_it_just_before_the_scheduler_chose_another_keeps_it(make_managed):
    """The request ignores the host that was tried, so the scheduler takes it for a move."""
    managed = make_managed('a', 'b', script=[('b',)])
    managed.claims.put('a', PENDING)
    choose = managed.scheduler.select_destinations

    def choose_late(*args, **words):
        managed.claims.put('a')
        return choose(*args, **words)

    managed.scheduler.select_destinations = choose_late
    one = managed.add_job(job(claimed=True, alternates='[]'))
    managed.fall_back(one, reason=EXPIRED)
    assert managed.claims.hosts() == {'a': CONFIRMED}
    assert (managed.answer(), managed.queues.all_jobs()) == (('done', 'a', None), {})
    assert (managed.state(one), managed.used) == ('done', TINY)


@each_afresh('move', {'a create': None, 'a move': 'resize'})
def test_a_node_that_is_only_busy_keeps_what_it_was_chosen_for(make_managed, move):
    managed = make_managed('a')
    one = job(claimed=True) if move is None else job('migrate', claimed=True, source='z')
    managed.claims.put('a', PENDING, move=move)
    managed.queues.busy.add('host.a')
    managed.fall_back(managed.add_job(one), reason=EXPIRED)
    assert (managed.scheduler.asked, managed.claims.hosts()) == ([], {'a': PENDING})
    (sent,) = managed.queues.jobs('host.a')
    assert (sent.claimed, sent.tried) == (True, [])


@each_afresh(
    'full, at, tried',
    {
        'its claim goes along': ((), 'b', ['a']),
        'past one that is full by now': (('b',), 'c', ['a']),
    },
)
def test_a_chosen_host_without_a_worker_is_passed_over(make_managed, full, at, tried):
    managed = make_managed('b', 'c', script=[('a', 'b', 'c')])
    managed.claims.full.update(full)
    managed.fall_back(managed.add_job(job()))
    (sent,) = managed.queues.jobs(f'host.{at}')
    assert (sent.tried, managed.claims.hosts()) == (tried, {at: PENDING})


def test_where_no_chosen_host_has_a_worker_others_are_chosen(make_managed):
    managed = make_managed('d', script=[('a', 'b'), ('d',)])
    managed.fall_back(managed.add_job(job()))
    assert [one.ignore_hosts for one in managed.scheduler.asked] == [[], ['a', 'b']]
    assert managed.queues.all_jobs() == {'host.d': ['create']}


def test_one_that_was_built_meanwhile_is_done(make_managed):
    managed = make_managed()
    one = managed.add_job(job())
    managed.claims.put('a')
    managed.fall_back(one, reason=EXPIRED)
    assert managed.answer() == ('done', 'a', None)
    assert (managed.state(one), managed.used) == ('done', TINY)


@pytest.mark.parametrize('state', ['done', 'failed'])
def test_one_that_has_ended_is_left_alone(make_managed, state):
    managed = make_managed()
    one = managed.add_job(job())
    managed.report_result(result(one, outcome=state, why='no'))
    managed.fall_back(one)
    assert (managed.scheduler.asked, managed.queues.all_jobs(), managed.state(one)) == (
        [],
        {},
        state,
    )


def test_one_that_was_cancelled_gives_its_quota_back(make_managed):
    managed = make_managed()
    one = managed.add_job(job())
    managed.claims.put('a', PENDING)
    managed.job_table.cancel(one.instance_uuid, managed.now_s)
    managed.fall_back(one, reason=EXPIRED)
    assert (managed.used, managed.claims.hosts(), managed.queues.all_jobs()) == ({}, {}, {})


def test_one_that_was_cancelled_and_is_built_is_deleted(make_managed):
    managed = make_managed('a')
    one = managed.add_job(job())
    managed.claims.put('a')
    managed.job_table.cancel(one.instance_uuid, managed.now_s)
    managed.fall_back(one, reason=EXPIRED)
    assert managed.queues.all_jobs() == {'host.a': ['delete']}
    assert managed.used == TINY


@pytest.mark.parametrize('error', [errors.NoAnswer('x', 'y'), errors.StoreUnavailable('y')])
def test_a_scheduler_that_is_away_is_asked_again(make_managed, error):
    managed = make_managed('a', script=[error, ('a',)])
    one = managed.add_job(job())
    with pytest.raises(type(error)):
        managed.fall_back(one)
    assert managed.state(one) == 'queued'
    managed.fall_back(one)
    assert managed.queues.all_jobs() == {'host.a': ['create']}


def test_a_request_that_makes_no_sense_fails(make_managed):
    managed = make_managed(script=[errors.InvalidRequest('hints', 'too many')])
    one = managed.add_job(job())
    managed.fall_back(one)
    assert managed.answer() == ('failed', None, 'Invalid request, hints: too many')


def test_an_unknown_job(make_managed):
    managed = make_managed()
    managed.fall_back(job())
    assert (managed.scheduler.asked, managed.queues.all_jobs()) == ([], {})


def test_a_delete_that_its_node_cannot_do_fails(make_managed):
    managed = make_managed('a')
    managed.report_result(result(managed.add_job(job())))
    delete = managed.add_job(job('delete'), amounts=None)
    managed.fall_back(delete, tries=3)
    assert (managed.state(delete), managed.used) == ('failed', TINY)
    assert 'cannot delete it' in managed.answer()[2]


# Moves.


def resize(managed, **fields):
    """A server on a is to be large."""
    managed.report_result(result(managed.add_job(job())))
    managed.claims.put('a')
    return managed.add_job(job('resize', asked=spec('large', **fields), source='a'), LARGE)


def test_a_resize_is_in_place_where_that_may_be(make_managed):
    managed = make_managed('a', 'b', script=[('a',)])
    managed.fall_back(resize(managed))
    assert managed.scheduler.asked[0].requested_destination.host == 'a'
    (sent,) = managed.queues.jobs('host.a')
    assert (sent.kind, sent.claimed, sent.source) == ('resize', False, 'a')
    assert sent.spec.requested_destination is None
    assert managed.used == LARGE


@each_afresh(
    'ignored, script',
    {
        'a filter refuses it there': ([], [refusal(), ('b', 'c')]),
        'it must not be there': (['A'], [('b', 'c')]),
    },
)
def test_a_resize_goes_elsewhere(make_managed, ignored, script):
    managed = make_managed('a', 'b', 'c', script=script)
    managed.fall_back(resize(managed, ignore_hosts=ignored))
    assert managed.scheduler.asked[-1].ignore_hosts == [*ignored, 'a']
    (sent,) = managed.queues.jobs('host.b')
    assert (sent.kind, sent.claimed, json.loads(sent.alternates)) == (
        'migrate',
        True,
        [['c', 'c']],
    )
    assert managed.claims.calls == [('resize_claim', 'b', 'resize')]
    assert managed.claims.hosts() == {'a': 'confirmed', 'b': PENDING}


def test_a_resize_whose_node_has_no_room_goes_elsewhere(make_managed):
    """The scheduler thought that it had."""
    managed = make_managed('a', 'b', script=[('a',), ('b',)])
    managed.fall_back(resize(managed))
    (sent,) = managed.queues.jobs('host.a')
    sent.kind = 'migrate'
    managed.fall_back(sent)
    (moved,) = managed.queues.jobs('host.b')
    assert (moved.kind, moved.source) == ('migrate', 'a')


def test_a_resize_whose_node_does_not_take_it_has_failed(make_managed):
    managed = make_managed('a', script=[('a',)])
    asked = resize(managed)
    managed.fall_back(asked)
    (sent,) = managed.queues.jobs('host.a')
    managed.fall_back(sent, reason=EXPIRED)
    assert (managed.state(asked), managed.used) == ('failed', TINY)
    assert 'host a has not taken it' in managed.answer()[2]


def test_a_resize_waits_for_its_node_that_is_busy(make_managed):
    managed = make_managed('a', script=[('a',)])
    asked = resize(managed)
    managed.fall_back(asked)
    managed.queues.busy.add('host.a')
    for _ in range(2):
        sent = managed.queues.jobs('host.a')[-1]
        managed.fall_back(sent, reason=EXPIRED)
    assert (managed.state(asked), len(managed.queues.jobs('host.a'))) == ('queued', 3)


def test_a_resize_that_finds_no_host_gives_back_what_it_wanted(make_managed):
    managed = make_managed('a', script=[refusal(), refusal('Nowhere.')])
    asked = resize(managed)
    managed.fall_back(asked)
    assert (managed.state(asked), managed.used) == ('failed', TINY)
    assert managed.answer() == ('failed', None, 'Nowhere.')
    assert managed.claims.hosts() == {'a': 'confirmed'}


def migrate(managed):
    managed.report_result(result(managed.add_job(job())))
    managed.claims.put('a')
    return managed.add_job(job('migrate', source='a'))


def test_a_migration_past_a_host_that_is_full_by_now(make_managed):
    managed = make_managed('a', 'b', 'c', script=[('b',), ('c',)])
    managed.claims.full.add('b')
    managed.fall_back(migrate(managed))
    assert managed.scheduler.asked[-1].ignore_hosts == ['a', 'b']
    assert managed.claims.calls == [('resize_claim', host, 'migration') for host in 'bc']
    assert managed.queues.all_jobs() == {'host.c': ['migrate']}


def test_a_migration_that_no_node_takes_goes_on_to_other_hosts_and_ends(make_managed):
    managed = make_managed('a', 'b', 'c', 'd', script=[('b',), ('c',), ('d',)])
    asked = migrate(managed)
    managed.fall_back(asked)
    for host in 'bcd':
        (sent,) = managed.queues.jobs(f'host.{host}')
        managed.fall_back(sent, reason=EXPIRED)
    assert managed.state(asked) == 'failed'
    assert managed.answer()[2] == 'Exhausted all hosts available: tried b, c, d'
    assert (managed.used, managed.claims.hosts()) == (TINY, {'a': 'confirmed'})


def test_a_migration_that_is_done_already(make_managed):
    managed = make_managed('a', 'b')
    asked = migrate(managed)
    del managed.claims.there[asked.instance_uuid, 'a']
    managed.claims.put('b')
    managed.fall_back(asked)
    assert (managed.state(asked), managed.answer()) == ('done', ('done', 'b', None))
    assert managed.queues.all_jobs() == {'host.a': ['delete']}


def test_a_migration_that_another_manager_gives_up_meanwhile_does_not_start(make_managed):
    """It had another copy of the message, and its caller was told that the server stays."""
    managed = make_managed('a', 'b', script=[('b',)])
    asked = migrate(managed)
    choose = managed.scheduler.select_destinations

    def choose_late(*args, **words):
        managed.endings.give_up(asked, 'Nowhere.')
        return choose(*args, **words)

    managed.scheduler.select_destinations = choose_late
    managed.fall_back(asked)
    assert (managed.state(asked), managed.queues.all_jobs()) == ('failed', {})
    assert managed.claims.hosts() == {'a': 'confirmed'}
