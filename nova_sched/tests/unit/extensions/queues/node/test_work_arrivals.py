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
"""Instances that come: created, or brought from another host; whatever happens on the way."""

import json

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import of_flavor, of_host
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.extensions.queues.node.doubles import BUILD_S, Cloud, job

NO_ANSWER = errors.NoAnswer('claims', 'it is away')
ALTERNATES = json.dumps([['b', 'b'], ['c', 'c']])


@pytest.fixture
def cloud():
    return Cloud()


def test_a_create_ends_in_a_result_with_its_claim(cloud):
    a = cloud.start('a')
    cloud.send(job(), tries=1)
    cloud.run()
    result = cloud.result()
    assert (result.outcome, result.host, result.nodename, result.why) == ('done', 'a', 'a', None)
    assert (result.job.uuid, result.tries) == (job().uuid, 1)
    assert result.claim.resources == {'VCPU': 1}
    assert cloud.claims.states('server') == {'a': CONFIRMED}
    assert (a.node_api.size('server'), a.node_api.hidden()) == (1, set())
    assert cloud.kinds() == [('create', 'a')]
    assert cloud.ready(of_flavor('tiny')) == 0
    assert (a.figures.taken, a.figures.done, a.figures.put_backs) == (1, 1, 0)


def test_an_instance_is_hidden_until_its_claim_is_confirmed(cloud):
    a = cloud.start('a')
    cloud.send(job())
    cloud.run(BUILD_S / 2)
    assert a.node_api.hidden() == {uuid_of('server')}
    assert (cloud.claims.states('server'), a.node_api.listed) == ({'a': PENDING}, [])
    cloud.run()
    assert (a.node_api.hidden(), a.node_api.listed) == (set(), [uuid_of('server')])


@pytest.mark.parametrize(
    'vcpus, flavors, after',
    [
        pytest.param(8, ['large'], (0, 0, 0), id='full'),
        pytest.param(8, ['tiny'], (1, 1, 0), id='the largest does not fit any more'),
        pytest.param(2, ['tiny'], (1, 0, 0), id='one more of the smallest'),
    ],
)
def test_queues_that_do_not_fit_any_more_are_left_while_it_builds(cloud, vcpus, flavors, after):
    cloud.start('a', vcpus)
    for flavor in flavors:
        cloud.send(job(flavor, flavor=flavor))
    cloud.run(1.0)
    assert cloud.subscribers() == after


def test_a_node_with_room_for_one_takes_one_of_many(cloud):
    a = cloud.start('a', vcpus=8, slots=4)
    for number in range(5):
        cloud.send(job(f'server {number}', flavor='large'))
    cloud.run()
    assert cloud.ready(of_flavor('large')) == 4
    assert (a.figures.put_backs, a.figures.done) == (0, 1)


@pytest.mark.parametrize('slots', [1, 2, 3])
def test_at_most_so_many_jobs_as_slots_at_once(cloud, slots):
    a = cloud.start('a', slots=slots)
    for number in range(5):
        cloud.send(job(f'server {number}'))
    cloud.run(BUILD_S / 2)
    assert len(a.node_api.hidden()) == slots
    cloud.run()
    assert a.figures.done == 5


def test_the_fuller_node_is_served_first(cloud):
    a, b = cloud.start('a', vcpus=8), cloud.start('b', vcpus=4)
    cloud.send(job())
    cloud.run()
    assert (a.figures.taken, b.figures.taken) == (0, 1)


# A node that does not take it.


@pytest.mark.parametrize('by', ['the node', 'the store', 'the rules'])
def test_what_one_node_refuses_another_node_does(cloud, by):
    full, free = cloud.start('full', vcpus=4), cloud.start('free', vcpus=8)
    if by == 'the node':
        full.node_api.unknown = 4
    elif by == 'the store':
        cloud.claims.vcpus['full'] = 0
    else:
        cloud.view.refused.add(('full', uuid_of('server')))
    cloud.send(job())
    cloud.run()
    assert cloud.results() == [('create', 'done', 'free')]
    assert (full.figures.put_backs, free.figures.done) == (1, 1)
    assert full.node_api.used == 0
    assert cloud.claims.states('server') == {'free': CONFIRMED}
    assert cloud.kinds() == [('create', 'free')]


def test_a_node_that_put_a_job_back_keeps_off_its_queue_for_some_seconds(cloud):
    full = cloud.start('full', vcpus=4, shared=0)
    cloud.send(job())
    cloud.run(2.0)
    assert (full.figures.put_backs, cloud.subscribers()) == (1, (0, 1, 0))
    cloud.run(6.0)
    assert full.figures.put_backs == 2


def test_what_was_put_back_too_often_goes_to_the_scheduler(cloud):
    full = cloud.start('full', vcpus=4, shared=0, max_redeliveries=3)
    cloud.send(job())
    cloud.run(60.0)
    (fallen,) = cloud.fallen()
    assert (fallen.uuid, fallen.tried) == (job().uuid, [])
    assert full.figures.put_backs == 4


def test_a_node_that_the_store_does_not_know_yet_waits_until_it_does(cloud):
    cloud.start('a')
    cloud.claims.script.add('instance_claim', *[errors.NodeNotFound('a')] * 3)
    cloud.send(job())
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')]


def test_a_node_that_the_store_never_knows_puts_back(cloud):
    a = cloud.start('a')
    del cloud.claims.vcpus['a']
    cloud.send(job())
    cloud.run(65.0)
    assert (a.figures.put_backs, a.node_api.used) == (1, 0)


def test_a_job_that_does_not_fit_in_the_own_queue_goes_to_the_scheduler(cloud):
    cloud.start('a', vcpus=1)
    cloud.send(job(flavor='large'), of_host('a'))
    cloud.run()
    assert [one.uuid for one in cloud.fallen()] == [job().uuid]


# Several at work on one job.


def test_of_two_that_build_one_instance_only_one_keeps_it(cloud):
    a, b = cloud.start('a', vcpus=4), cloud.start('b', vcpus=8)
    cloud.send(job())
    cloud.run(1.0)
    a.worker.withdraw()
    cloud.send(job())  # a sender takes its message for lost
    cloud.run()
    assert cloud.results() == [('create', 'done', 'b')]
    assert cloud.claims.states('server') == {'b': CONFIRMED}
    assert (a.node_api.used, b.node_api.used) == (0, 1)
    assert sorted(cloud.kinds()) == [('create', 'a'), ('create', 'b'), ('destroy', 'a')]
    assert (a.figures.dropped, b.figures.done) == (1, 1)
    assert cloud.ready(of_flavor('tiny')) == 0


def test_a_job_that_another_host_has_done_is_answered_for_it(cloud):
    a = cloud.start('a')
    cloud.claims.put('server', 'b', CONFIRMED)
    cloud.send(job())
    cloud.run()
    result = cloud.result()
    assert (result.outcome, result.host, result.nodename, result.claim) == (
        'done',
        'b',
        None,
        None,
    )
    assert (a.node_api.used, cloud.kinds()) == (0, [])


def test_a_job_whose_instance_is_here_without_a_claim_is_dropped(cloud):
    a = cloud.start('a')
    a.node_api.put('server')
    cloud.send(job())
    cloud.run()
    assert (cloud.results(), a.figures.dropped, cloud.kinds()) == ([], 1, [])


REMAINS = pytest.mark.parametrize(
    'state',
    [PENDING, pytest.param(CONFIRMED, id='a report has listed the remains')],
)


@REMAINS
def test_what_is_left_of_an_older_stay_is_no_build_of_this_job(cloud, state):
    a = cloud.start('a')
    a.node_api.put('server', claim=uuid_of('an earlier claim'))
    cloud.claims.put('server', 'b', CONFIRMED)
    claim = cloud.claims.put('server', 'a', state, move='migration')
    cloud.send(job(kind='migrate', source='b', claimed=True), of_host('a'))
    cloud.run()
    assert cloud.kinds() == [('destroy', 'a'), ('migrate', 'a')]
    assert cloud.results() == [('migrate', 'done', 'a')]
    assert cloud.claims.states('server') == {'a': CONFIRMED}
    assert a.node_api.claim_name(uuid_of('server')) == claim.uuid


def test_remains_that_cannot_be_removed_send_the_job_elsewhere(cloud):
    a = cloud.start('a')
    a.node_api.put('server', claim=uuid_of('an earlier claim'))
    a.driver.script.add('destroy', errors.BuildFailed('a', 'the disk is busy'))
    cloud.claims.put('server', 'b', CONFIRMED)
    cloud.claims.put('server', 'a', PENDING, move='migration')
    cloud.send(job(kind='migrate', source='b', claimed=True), of_host('a'))
    cloud.run()
    assert [one.tried for one in cloud.fallen()] == [['a']]
    assert (a.node_api.size('server'), cloud.kinds()) == (1, [])
    assert cloud.claims.states('server') == {'b': CONFIRMED}


def test_what_this_job_has_brought_here_is_confirmed(cloud):
    """The process ended before its answer came."""
    a = cloud.start('a')
    cloud.claims.put('server', 'b', CONFIRMED)
    claim = cloud.claims.put('server', 'a', CONFIRMED, move='migration')
    a.node_api.put('server', claim=claim.name)
    cloud.send(job(kind='migrate', source='b', claimed=True), of_host('a'))
    cloud.run()
    assert (cloud.kinds(), cloud.results()) == ([], [('migrate', 'done', 'a')])
    assert cloud.claims.states('server') == {'a': CONFIRMED}


def test_a_late_create_settles_no_resize(cloud):
    a = cloud.start('a')
    a.node_api.put('server')
    claim = cloud.claims.put('server', 'a', CONFIRMED)
    claim.resize_uuid = uuid_of('a resize')
    cloud.send(job())
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')]
    assert [call[0] for call in cloud.claims.calls] == ['show']


def test_a_worker_confirms_the_claim_that_it_has_made(cloud):
    """Another one was made in its place while it built."""
    a = cloud.start('a')
    cloud.send(job())
    cloud.run(BUILD_S / 2)
    cloud.claims.rename('server', 'a')
    cloud.run()
    assert (a.figures.dropped, a.node_api.used) == (1, 0)
    assert cloud.claims.states('server') == {'a': PENDING}


# Builds that fail.


def test_a_failed_build_ends_no_claim_that_it_has_not_made(cloud):
    """A migration comes to the source, which it is to leave."""
    cloud.start('a')
    cloud.claims.put('server', 'a', CONFIRMED)
    cloud.send(job(kind='migrate', source='a', claimed=True), of_host('a'))
    cloud.run()
    assert [one.tried for one in cloud.fallen()] == [['a']]
    assert cloud.claims.states('server') == {'a': CONFIRMED}


def test_a_job_whose_claim_has_expired_goes_to_the_scheduler(cloud):
    cloud.broker.declare([of_host('b')])
    a = cloud.start('a')
    cloud.claims.vcpus['b'] = 8
    cloud.claims.put('server', 'a')
    a.driver.script.add('create', errors.BuildFailed('a', 'no image'))
    cloud.claims.script.add('claim_alternate', errors.ClaimNotFound('server'))
    cloud.send(job(claimed=True, alternates=ALTERNATES), of_host('a'))
    cloud.run()
    assert [(one.tried, one.claimed) for one in cloud.fallen()] == [(['a'], False)]


def test_a_failed_build_goes_to_the_scheduler(cloud):
    a = cloud.start('a')
    a.driver.script.add('create', errors.BuildFailed('a', 'no image'))
    cloud.send(job(tried=['z']))
    cloud.run()
    (fallen,) = cloud.fallen()
    assert (fallen.tried, fallen.claimed) == (['z', 'a'], False)
    assert cloud.claims.states('server') == {}
    assert (a.node_api.used, a.node_api.failed_builds) == (0, 1)
    assert cloud.kinds() == [('destroy', 'a')]
    assert (cloud.results(), cloud.ready(of_flavor('tiny'))) == ([], 0)


def test_what_the_drivers_said_stays_with_the_job(cloud):
    for host in 'ab':
        failed = errors.BuildFailed(host, f'no image on {host}', 'out', 'err')
        cloud.start(host).driver.script.add('create', failed)
    cloud.claims.put('server', 'a')
    cloud.send(job(claimed=True, alternates='[["b", "b"]]'), of_host('a'))
    cloud.run()
    (fallen,) = cloud.fallen()
    assert messages.failures(fallen.failures) == [
        {'host': host, 'why': f'no image on {host}', 'stdout': 'out', 'stderr': 'err'}
        for host in 'ab'
    ]


@pytest.mark.parametrize(
    'error, remains',
    [
        pytest.param(RuntimeError('boom'), None, id='the driver breaks'),
        pytest.param(
            errors.BuildFailed('a', 'no image'),
            errors.BuildFailed('a', 'it is stuck'),
            id='the remains stay',
        ),
    ],
)
def test_a_driver_that_cannot_build_has_failed(cloud, error, remains):
    a = cloud.start('a')
    a.driver.script.add('create', error)
    a.driver.script.add('destroy', remains)
    cloud.send(job())
    cloud.run()
    assert [one.tried for one in cloud.fallen()] == [['a']]
    assert a.node_api.used == 0


@pytest.mark.parametrize(
    'known, queues, ends, left',
    [
        pytest.param(['b', 'c'], ['b', 'c'], 'b', [['c', 'c']], id='the first'),
        pytest.param(['c'], ['b', 'c'], 'c', [], id='the second, the first is gone'),
        pytest.param([], ['b', 'c'], None, None, id='none'),
    ],
)
def test_a_claimed_job_that_fails_goes_to_its_alternates(cloud, known, queues, ends, left):
    cloud.broker.declare(map(of_host, queues))
    a = cloud.start('a')
    cloud.claims.vcpus |= dict.fromkeys(known, 8)
    cloud.claims.put('server', 'a')
    a.driver.script.add('create', errors.BuildFailed('a', 'no image'))
    cloud.send(job(claimed=True, alternates=ALTERNATES), of_host('a'))
    cloud.run()
    sent = {host: cloud.drain(of_host(host)) for host in queues}
    assert [host for host in queues if sent[host]] == ([ends] if ends else [])
    assert cloud.claims.states('server') == ({ends: PENDING} if ends else {})
    fallen = cloud.fallen()
    assert [(one.claimed, one.tried, one.alternates) for one in fallen] == (
        [] if ends else [(False, ['a'], None)]
    )


def test_a_job_goes_on_from_alternate_to_alternate(cloud):
    workers = [cloud.start(host) for host in 'abc']
    cloud.claims.put('server', 'a')
    for one in workers[:2]:
        one.driver.script.add('create', errors.BuildFailed(one.node_api.host, 'no image'))
    cloud.send(job(claimed=True, alternates=ALTERNATES), of_host('a'))
    cloud.run()
    result = cloud.result()
    assert (result.host, result.job.tried) == ('c', ['a', 'b'])
    assert cloud.claims.states('server') == {'c': CONFIRMED}


def test_a_claimed_job_without_room_goes_to_its_alternate(cloud):
    a, b = cloud.start('a'), cloud.start('b')
    a.node_api.unknown = 8
    cloud.claims.put('server', 'a')
    cloud.send(job(claimed=True, alternates=ALTERNATES), of_host('a'))
    cloud.run()
    assert cloud.results() == [('create', 'done', 'b')]
    assert (a.node_api.used, b.node_api.used) == (0, 1)


def test_a_claimed_job_is_not_claimed_again(cloud):
    cloud.start('a')
    cloud.claims.put('server', 'a')
    cloud.send(job(claimed=True), of_host('a'))
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')]
    assert [call[0] for call in cloud.claims.calls] == ['show', 'confirm_claim']


@pytest.mark.parametrize('text', [ALTERNATES, '{', '5', '[["b"]]', '[5]', 'null'])
def test_alternates_that_have_no_queue_or_make_no_sense_are_none(cloud, text):
    a = cloud.start('a')
    cloud.claims.vcpus['b'] = 8
    cloud.claims.put('server', 'a')
    a.driver.script.add('create', errors.BuildFailed('a', 'no image'))
    cloud.send(job(claimed=True, alternates=text), of_host('a'))
    cloud.run()
    assert [one.tried for one in cloud.fallen()] == [['a']]


# Claims that do not answer.


@pytest.mark.parametrize('method', ['instance_claim', 'confirm_claim'])
@pytest.mark.parametrize(
    'error',
    [
        pytest.param(NO_ANSWER, id='no answer'),
        pytest.param(errors.StoreUnavailable('it is away'), id='store'),
        pytest.param(OSError('reset'), id='whatever a bus raises'),
    ],
)
def test_claims_are_asked_until_they_answer(cloud, method, error):
    cloud.start('a')
    cloud.claims.script.add(method, error, error)
    cloud.send(job())
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')]
    assert cloud.kinds() == [('create', 'a')]


def test_claims_that_stay_silent_leave_the_job_to_others(cloud):
    a = cloud.start('a')
    cloud.claims.script.add('instance_claim', *[NO_ANSWER] * 40)
    cloud.send(job())
    cloud.run(60.0)
    assert (a.figures.put_backs, a.node_api.used) == (0, 1)
    cloud.run(5.0)
    assert (a.figures.put_backs, a.node_api.used, cloud.kinds()) == (1, 0, [])
    assert cloud.ready(of_flavor('tiny')) == 1


def test_a_built_instance_waits_for_its_confirmation(cloud):
    a = cloud.start('a')
    cloud.claims.script.add('confirm_claim', *[NO_ANSWER] * 100)
    cloud.send(job())
    cloud.run(180.0)
    assert (len(a.node_api.hidden()), cloud.results()) == (1, [])
    cloud.run(100.0)
    assert cloud.results() == [('create', 'done', 'a')]


def test_a_spec_that_cannot_be_read_has_failed(cloud):
    a = cloud.start('a')
    hopeless = job()
    hopeless.spec.flavor.vcpus = 0
    cloud.send(hopeless)
    cloud.run()
    result = cloud.result()
    assert (result.outcome, result.host) == ('failed', 'a')
    assert 'it has no vcpus' in result.why
    assert a.figures.failed == 1


def test_a_list_that_cannot_be_written_puts_the_job_back(cloud):
    a = cloud.start('a')
    a.node_api.script.add('keep', errors.BadMachineFacts('instances.json', 'disk full'))
    cloud.send(job())
    cloud.run()
    # It comes again, and is found built: hidden here, confirmed in the store.
    assert cloud.results() == [('create', 'done', 'a')]
    assert (a.figures.put_backs, a.node_api.size('server')) == (1, 1)


# Migrations.


def moving(**fields):
    return job(kind='migrate', source='a', **fields)


def test_a_migration_ends_the_claim_of_the_source(cloud):
    cloud.claims.put('server', 'a', CONFIRMED)
    b = cloud.start('b')
    cloud.send(moving())
    cloud.run()
    assert cloud.results() == [('migrate', 'done', 'b')]
    assert cloud.claims.states('server') == {'b': CONFIRMED}
    assert (b.node_api.size('server'), cloud.kinds()) == (1, [('migrate', 'b')])


def test_the_source_leaves_the_job_to_others(cloud):
    a, b = cloud.start('a', vcpus=4), cloud.start('b', vcpus=8)
    a.node_api.put('other')
    cloud.claims.put('server', 'a', CONFIRMED)
    cloud.send(moving())
    cloud.run()
    assert cloud.results() == [('migrate', 'done', 'b')]
    assert (a.figures.put_backs, b.figures.done) == (1, 1)


def test_a_claimed_migration_to_its_own_source_goes_to_the_scheduler(cloud):
    cloud.start('a')
    cloud.claims.put('server', 'a', CONFIRMED)
    cloud.send(moving(claimed=True), of_host('a'))
    cloud.run()
    assert [one.tried for one in cloud.fallen()] == [['a']]


def test_a_claimed_migration_whose_claim_ends_meanwhile_goes_to_the_scheduler(cloud):
    b = cloud.start('b')
    cloud.claims.put('server', 'a', CONFIRMED)
    cloud.claims.put('server', 'b', PENDING, move='migration')
    cloud.claims.script.add('confirm_claim', errors.ClaimNotFound('server'))
    cloud.claims.meanwhile['confirm_claim'] = lambda: cloud.claims.end('server', 'b')
    cloud.send(moving(claimed=True), of_host('b'))
    cloud.run()
    assert [(one.tried, one.claimed) for one in cloud.fallen()] == [(['b'], False)]
    assert cloud.kinds() == [('migrate', 'b'), ('destroy', 'b')]
    assert (b.figures.dropped, b.node_api.used) == (0, 0)


def test_a_migration_that_another_host_has_done_is_answered_for_it(cloud):
    b = cloud.start('b')
    cloud.claims.put('server', 'c', CONFIRMED)
    cloud.send(moving())
    cloud.run()
    assert cloud.results() == [('migrate', 'done', 'c')]
    assert cloud.claims.states('server') == {'c': CONFIRMED}
    assert (b.node_api.used, cloud.kinds()) == (0, [])


def test_a_migration_that_fails_leaves_the_source_its_claim(cloud):
    b = cloud.start('b')
    cloud.claims.put('server', 'a', CONFIRMED)
    b.driver.script.add('migrate', errors.BuildFailed('b', 'no route'))
    cloud.send(moving())
    cloud.run()
    assert cloud.claims.states('server') == {'a': CONFIRMED}
    assert [one.tried for one in cloud.fallen()] == [['b']]
    assert b.node_api.used == 0


def test_a_migration_without_room_is_put_back(cloud):
    b = cloud.start('b', shared=0)
    cloud.claims.put('server', 'a', CONFIRMED)
    cloud.send(moving())
    cloud.run(2.0)
    assert (b.figures.put_backs, b.node_api.used) == (1, 0)
    assert cloud.claims.states('server') == {'a': CONFIRMED}
