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
from nova_sched.objects.claim import PENDING
from nova_sched.queues.brokers import DROPPED, EXPIRED
from nova_sched.tests.unit.queues.office import LARGE, TINY, Office, job, result, spec


@pytest.fixture
def open_office(tmp_path):
    made = []

    def make(*hosts, script=()):
        made.append(Office(tmp_path, *hosts, script=script))
        return made[-1]

    yield make
    for one in made:
        one.engine.dispose()


def refusal(reason='There are not enough hosts available.'):
    return errors.NoValidHost(reason)


# Creates.


def test_a_create_goes_where_the_scheduler_wants_it(open_office):
    office = open_office('a', 'b', script=[('a', 'b')])
    office.fall(office.enter(job()), reason=EXPIRED)
    (sent,) = office.queues.jobs('host.a')
    assert (sent.claimed, json.loads(sent.alternates), sent.tried) == (True, [['b', 'b']], [])
    assert office.claims.hosts() == {'a': PENDING}
    assert (office.state(sent), office.used) == ('queued', TINY)


@pytest.mark.parametrize(
    'fields, tried, why',
    [
        pytest.param(
            {'reason': EXPIRED},
            [],
            'no node has taken it from its queue within 30 s; ',
            id='expired',
        ),
        pytest.param(
            {'reason': DROPPED}, [], 'its flavor is not offered any more; ', id='dropped'
        ),
        pytest.param({'tries': 3}, [], '3 nodes have given it back; ', id='given back'),
        pytest.param({}, ['a', 'b'], 'it failed on a, b; ', id='failed'),
        pytest.param({}, [], '', id='no reason'),
    ],
)
def test_a_refusal_says_why_and_ends_it(open_office, fields, tried, why):
    office = open_office(script=[refusal('Filter X removed the last 3 hosts.')])
    one = office.enter(job(tried=tried))
    office.fall(one, **fields)
    assert office.answer() == ('failed', None, f'{why}Filter X removed the last 3 hosts.')
    assert (office.state(one), office.used) == ('failed', {})


def test_what_is_logged_of_a_job_is_under_the_id_of_its_request(open_office):
    office = open_office('a', 'b', script=[('a',), ('b',)])
    for name in ('first', 'second'):
        asked = job(name=name)
        asked.request_id = f'req-{name}'
        office.fall(office.enter(asked), reason=EXPIRED)
        assert context.get_current().request_id == asked.request_id


def test_hosts_where_it_failed_are_not_asked_again(open_office):
    office = open_office('c', script=[('c',)])
    office.fall(office.enter(job(asked=spec(ignore_hosts=['x']), tried=['a', 'b'])))
    assert office.scheduler.asked[0].ignore_hosts == ['x', 'a', 'b']
    (sent,) = office.queues.jobs('host.c')
    assert sent.spec.ignore_hosts == ['x']


def test_so_many_hosts_are_tried(open_office):
    office = open_office()
    one = office.enter(job(tried=['a', 'b', 'c']))
    office.fall(one)
    assert office.answer() == ('failed', None, 'Exhausted all hosts available: tried a, b, c')
    assert (office.state(one), office.used, office.scheduler.asked) == ('failed', {}, [])


def test_a_node_that_did_not_take_what_it_was_chosen_for_was_tried(open_office):
    office = open_office('a', 'b', script=[('b',)])
    office.claims.put('a', PENDING)
    office.fall(office.enter(job(claimed=True, alternates='[]')), reason=EXPIRED)
    assert office.scheduler.asked[0].ignore_hosts == ['a']
    assert office.claims.hosts() == {'b': PENDING}


@pytest.mark.parametrize('move', [None, 'resize'], ids=['a create', 'a move'])
def test_a_node_that_is_only_busy_keeps_what_it_was_chosen_for(open_office, move):
    office = open_office('a')
    one = job(claimed=True) if move is None else job('migrate', claimed=True, source='z')
    office.claims.put('a', PENDING, move=move)
    office.queues.busy.add('host.a')
    office.fall(office.enter(one), reason=EXPIRED)
    assert (office.scheduler.asked, office.claims.hosts()) == ([], {'a': PENDING})
    (sent,) = office.queues.jobs('host.a')
    assert (sent.claimed, sent.tried) == (True, [])


@pytest.mark.parametrize(
    'full, at, tried',
    [
        pytest.param((), 'b', ['a'], id='its claim goes along'),
        pytest.param(('b',), 'c', ['a'], id='past one that is full by now'),
    ],
)
def test_a_chosen_host_without_a_worker_is_passed_over(open_office, full, at, tried):
    office = open_office('b', 'c', script=[('a', 'b', 'c')])
    office.claims.full.update(full)
    office.fall(office.enter(job()))
    (sent,) = office.queues.jobs(f'host.{at}')
    assert (sent.tried, office.claims.hosts()) == (tried, {at: PENDING})


def test_where_no_chosen_host_has_a_worker_others_are_chosen(open_office):
    office = open_office('d', script=[('a', 'b'), ('d',)])
    office.fall(office.enter(job()))
    assert [one.ignore_hosts for one in office.scheduler.asked] == [[], ['a', 'b']]
    assert office.queues.all_jobs() == {'host.d': ['create']}


def test_one_that_was_built_meanwhile_is_done(open_office):
    office = open_office()
    one = office.enter(job())
    office.claims.put('a')
    office.fall(one, reason=EXPIRED)
    assert office.answer() == ('done', 'a', None)
    assert (office.state(one), office.used) == ('done', TINY)


@pytest.mark.parametrize('state', ['done', 'failed'])
def test_one_that_has_ended_is_left_alone(open_office, state):
    office = open_office()
    one = office.enter(job())
    office.tell(result(one, outcome=state, why='no'))
    office.fall(one)
    assert (office.scheduler.asked, office.queues.all_jobs(), office.state(one)) == ([], {}, state)


def test_one_that_was_cancelled_gives_its_quota_back(open_office):
    office = open_office()
    one = office.enter(job())
    office.claims.put('a', PENDING)
    office.job_table.cancel(one.instance_uuid, office.now_s)
    office.fall(one, reason=EXPIRED)
    assert (office.used, office.claims.hosts(), office.queues.all_jobs()) == ({}, {}, {})


def test_one_that_was_cancelled_and_is_built_is_deleted(open_office):
    office = open_office('a')
    one = office.enter(job())
    office.claims.put('a')
    office.job_table.cancel(one.instance_uuid, office.now_s)
    office.fall(one, reason=EXPIRED)
    assert office.queues.all_jobs() == {'host.a': ['delete']}
    assert office.used == TINY


@pytest.mark.parametrize('error', [errors.NoAnswer('x', 'y'), errors.StoreUnavailable('y')])
def test_a_scheduler_that_is_away_is_asked_again(open_office, error):
    office = open_office('a', script=[error, ('a',)])
    one = office.enter(job())
    with pytest.raises(type(error)):
        office.fall(one)
    assert office.state(one) == 'queued'
    office.fall(one)
    assert office.queues.all_jobs() == {'host.a': ['create']}


def test_a_request_that_makes_no_sense_fails(open_office):
    office = open_office(script=[errors.InvalidRequest('hints', 'too many')])
    one = office.enter(job())
    office.fall(one)
    assert office.answer() == ('failed', None, 'Invalid request, hints: too many')


def test_an_unknown_job(open_office):
    office = open_office()
    office.fall(job())
    assert (office.scheduler.asked, office.queues.all_jobs()) == ([], {})


def test_a_delete_that_its_node_cannot_do_fails(open_office):
    office = open_office('a')
    office.tell(result(office.enter(job())))
    delete = office.enter(job('delete'), amounts=None)
    office.fall(delete, tries=3)
    assert (office.state(delete), office.used) == ('failed', TINY)
    assert 'cannot delete it' in office.answer()[2]


# Moves.


def resize(office, **fields):
    """A server on a is to be large."""
    office.tell(result(office.enter(job())))
    office.claims.put('a')
    return office.enter(job('resize', asked=spec('large', **fields), source='a'), LARGE)


def test_a_resize_is_in_place_where_that_may_be(open_office):
    office = open_office('a', 'b', script=[('a',)])
    office.fall(resize(office))
    assert office.scheduler.asked[0].requested_destination.host == 'a'
    (sent,) = office.queues.jobs('host.a')
    assert (sent.kind, sent.claimed, sent.source) == ('resize', False, 'a')
    assert sent.spec.requested_destination is None
    assert office.used == LARGE


@pytest.mark.parametrize(
    'ignored, script',
    [
        pytest.param([], [refusal(), ('b', 'c')], id='a filter refuses it there'),
        pytest.param(['A'], [('b', 'c')], id='it must not be there'),
    ],
)
def test_a_resize_goes_elsewhere(open_office, ignored, script):
    office = open_office('a', 'b', 'c', script=script)
    office.fall(resize(office, ignore_hosts=ignored))
    assert office.scheduler.asked[-1].ignore_hosts == [*ignored, 'a']
    (sent,) = office.queues.jobs('host.b')
    assert (sent.kind, sent.claimed, json.loads(sent.alternates)) == (
        'migrate',
        True,
        [['c', 'c']],
    )
    assert office.claims.calls == [('resize_claim', 'b', 'resize')]
    assert office.claims.hosts() == {'a': 'confirmed', 'b': PENDING}


def test_a_resize_whose_node_has_no_room_goes_elsewhere(open_office):
    """The scheduler thought that it had."""
    office = open_office('a', 'b', script=[('a',), ('b',)])
    office.fall(resize(office))
    (sent,) = office.queues.jobs('host.a')
    sent.kind = 'migrate'
    office.fall(sent)
    (moved,) = office.queues.jobs('host.b')
    assert (moved.kind, moved.source) == ('migrate', 'a')


def test_a_resize_whose_node_does_not_take_it_has_failed(open_office):
    office = open_office('a', script=[('a',)])
    asked = resize(office)
    office.fall(asked)
    (sent,) = office.queues.jobs('host.a')
    office.fall(sent, reason=EXPIRED)
    assert (office.state(asked), office.used) == ('failed', TINY)
    assert 'host a has not taken it' in office.answer()[2]


def test_a_resize_waits_for_its_node_that_is_busy(open_office):
    office = open_office('a', script=[('a',)])
    asked = resize(office)
    office.fall(asked)
    office.queues.busy.add('host.a')
    for _ in range(2):
        sent = office.queues.jobs('host.a')[-1]
        office.fall(sent, reason=EXPIRED)
    assert (office.state(asked), len(office.queues.jobs('host.a'))) == ('queued', 3)


def test_a_resize_that_finds_no_host_gives_back_what_it_wanted(open_office):
    office = open_office('a', script=[refusal(), refusal('Nowhere.')])
    asked = resize(office)
    office.fall(asked)
    assert (office.state(asked), office.used) == ('failed', TINY)
    assert office.answer() == ('failed', None, 'Nowhere.')
    assert office.claims.hosts() == {'a': 'confirmed'}


def migrate(office):
    office.tell(result(office.enter(job())))
    office.claims.put('a')
    return office.enter(job('migrate', source='a'))


def test_a_migration(open_office):
    office = open_office('a', 'b', script=[('b',)])
    office.fall(migrate(office))
    assert office.claims.calls == [('resize_claim', 'b', 'migration')]
    assert office.queues.all_jobs() == {'host.b': ['migrate']}


def test_a_migration_past_a_host_that_is_full_by_now(open_office):
    office = open_office('a', 'b', 'c', script=[('b',), ('c',)])
    office.claims.full.add('b')
    office.fall(migrate(office))
    assert office.scheduler.asked[-1].ignore_hosts == ['a', 'b']
    assert office.queues.all_jobs() == {'host.c': ['migrate']}


def test_a_migration_that_no_node_takes_goes_on_to_other_hosts_and_ends(open_office):
    office = open_office('a', 'b', 'c', 'd', script=[('b',), ('c',), ('d',)])
    asked = migrate(office)
    office.fall(asked)
    for host in 'bcd':
        (sent,) = office.queues.jobs(f'host.{host}')
        office.fall(sent, reason=EXPIRED)
    assert office.state(asked) == 'failed'
    assert office.answer()[2] == 'Exhausted all hosts available: tried b, c, d'
    assert (office.used, office.claims.hosts()) == (TINY, {'a': 'confirmed'})


def test_a_migration_that_is_done_already(open_office):
    office = open_office('a', 'b')
    asked = migrate(office)
    del office.claims.there[asked.instance_uuid, 'a']
    office.claims.put('b')
    office.fall(asked)
    assert (office.state(asked), office.answer()) == ('done', ('done', 'b', None))
    assert office.queues.all_jobs() == {'host.a': ['delete']}
