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
"""The queue model from end to end, in one process: what a conductor asks for, and what is there
then."""

import concurrent.futures

import pytest

from nova_sched import errors
from nova_sched.tests import manual
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.queue_cloud import (
    FALLBACK_AFTER_S,
    OPTIONS,
    SMALL,
    QueueCloud,
    refused,
)
from nova_sched.tests.functional.test_agent import conf, until
from nova_sched.tests.options import settings

__all__ = ['conf']

# Seconds after which jobs fall back, where something else is to come before that.
AFTER_8_S, AFTER_60_S = (
    pytest.mark.parametrize('cloud', [seconds], indirect=True) for seconds in (8, 60)
)
USED = {'servers': 1, 'class:VCPU': 2, 'class:MEMORY_MB': 16}


@pytest.fixture
def cloud(conf, tmp_path, request):
    with settings(
        {**OPTIONS, 'queues.fallback_after': getattr(request, 'param', FALLBACK_AFTER_S)}
    ):
        made = QueueCloud(conf, tmp_path)
        yield made
        made.close()


def test_a_server_from_its_queue_to_its_end(cloud):
    cloud.worker('a', 'b')
    host = cloud.place('server')
    assert cloud.held('server') == [(host, 'confirmed', 2)]
    assert (cloud.instances(host), cloud.used) == ([uuid_of('server')], USED)
    assert cloud.jobs('server') == [('create', 'done')]
    cloud.router.delete(uuid_of('server'))
    assert (cloud.held('server'), cloud.instances(host), cloud.used) == ([], [], {})
    assert isinstance(refused(cloud.router.delete, uuid_of('nobody')), errors.NotFound)


def test_the_example_of_the_manual(cloud):
    cloud.worker('a', 'b')
    with settings({'default.transport_url': 'fake://'}):
        server, bigger = [uuid_of('server')], cloud.spec('large')
        names = manual.run(
            manual.ROUTER, spec=cloud.spec(), bigger=bigger, instance_uuids=server, context=None
        )
    assert names['placed'][0][0].service_host in ('a', 'b')
    assert [kind for kind, _ in cloud.jobs('server')][:3] == ['create', 'resize', 'delete']
    assert cloud.held('server') == []


def test_a_server_by_the_scheduler_is_built_by_its_worker_too(cloud):
    cloud.worker('a', 'b')
    ((found, *alternates),) = cloud.router.place(cloud.grouped(), [uuid_of('server')])
    assert {found.service_host, *(one.service_host for one in alternates)} == {'a', 'b'}
    assert cloud.instances(found.service_host) == [uuid_of('server')]
    (entry,) = cloud.job_table.of_instance(uuid_of('server'))
    assert (entry.queue, entry.host, entry.state) == (None, found.service_host, 'done')


def test_several_servers_fill_the_cloud_and_no_more(cloud):
    """Eight CPUs a host: three of two fill it, and a large one needs six."""
    cloud.worker('a', 'b')
    names = [f'server {number}' for number in range(8)]
    placed = cloud.router.place(cloud.spec(), [uuid_of(name) for name in names])
    hosts = sorted(found[0].service_host for found in placed)
    assert hosts == ['a'] * 4 + ['b'] * 4
    until(lambda: cloud.consumers()['small'] == 0)
    error = refused(cloud.place, 'one too many')
    assert f'no node has taken it from its queue within {FALLBACK_AFTER_S} s' in error.reason
    assert 'ResourceCapacity' in error.reason
    assert (cloud.used['servers'], cloud.held('one too many')) == (8, [])
    cloud.router.delete(uuid_of('server 0'))
    until(lambda: cloud.consumers()['small'] == 1)
    assert cloud.place('now it fits') == placed[0][0].service_host


@pytest.mark.parametrize(
    'dropped', [False, True], ids=['taken by nobody', 'its flavor is dropped']
)
def test_what_waits_for_a_busy_node_reaches_it_by_the_scheduler(cloud, dropped):
    """A job that no worker takes in time, or whose queue ends, goes to the scheduler; the node has
    room."""
    with settings({'queues.slots': 1, 'queues.fake_seconds': 1.5 if dropped else 3.0}):
        cloud.worker('a')
    with concurrent.futures.ThreadPoolExecutor() as callers:
        first = callers.submit(cloud.place, 'first', 'large')
        until(lambda: cloud.held('first'))
        second = callers.submit(cloud.place, 'second')
        until(lambda: cloud.jobs('second') == [('create', 'queued')])
        if dropped:
            cloud.queues.flavor_delete('small')
        assert (first.result(), second.result()) == ('a', 'a')
    assert sorted(cloud.instances('a')) == sorted([uuid_of('first'), uuid_of('second')])
    assert ('small' in cloud.consumers()) is not dropped
    assert cloud.used['class:VCPU'] == 8


def test_beyond_the_quota(cloud):
    cloud.worker('a')
    with settings({'quota.limits': {}}):
        cloud.job_table.set_limit('p', 'class:VCPU', 3)
        cloud.place('first')
        error = refused(cloud.place, 'second')
    assert error.args == ('p', 'class:VCPU', 2, 2, 3)
    assert str(error) == 'Project p: 2 class:VCPU asked, 2 of 3 used'
    assert (cloud.used, cloud.jobs('second')) == (USED, [])


def test_a_resize_in_place(cloud):
    cloud.worker('a')
    cloud.place('server')
    (found,) = cloud.router.resize(cloud.spec('large'), uuid_of('server'))
    assert found.service_host == 'a'
    assert cloud.held('server') == [('a', 'confirmed', 6)]
    assert cloud.used['class:VCPU'] == 6


def test_a_resize_elsewhere(cloud):
    cloud.worker('a')
    for name in ('server', 'x', 'y'):
        cloud.place(name)
    cloud.worker('b')
    (found,) = cloud.router.resize(cloud.spec('large'), uuid_of('server'))
    assert found.service_host == 'b'
    until(lambda: cloud.held('server') == [('b', 'confirmed', 6)])
    until(lambda: len(cloud.instances('a')) == 2)
    assert cloud.instances('b') == [uuid_of('server')]
    assert (cloud.used['class:VCPU'], cloud.used['servers']) == (10, 3)
    until(lambda: ('delete', 'done') in cloud.jobs('server'))


def test_a_resize_to_nowhere_changes_nothing(cloud):
    cloud.worker('a')
    for name in ('server', 'x', 'y'):
        cloud.place(name)
    assert isinstance(
        refused(cloud.router.resize, cloud.spec('large'), uuid_of('server')), errors.NoValidHost
    )
    assert cloud.held('server') == [('a', 'confirmed', 2)]
    assert cloud.used['class:VCPU'] == 6


def test_a_migration(cloud):
    cloud.worker('a')
    cloud.place('server')
    cloud.worker('b')
    (found,) = cloud.router.migrate(cloud.spec(), uuid_of('server'))
    assert found.service_host == 'b'
    until(lambda: (cloud.instances('a'), cloud.instances('b')) == ([], [uuid_of('server')]))
    assert (cloud.held('server'), cloud.used) == ([('b', 'confirmed', 2)], USED)


@AFTER_8_S
def test_a_server_that_is_deleted_before_any_worker_has_it(cloud):
    with concurrent.futures.ThreadPoolExecutor() as callers:
        met = callers.submit(refused, cloud.place, 'server')
        until(lambda: cloud.jobs('server') == [('create', 'queued')])
        cloud.router.delete(uuid_of('server'))
        assert 'deleted before it was built' in met.result().reason
    until(lambda: cloud.used == {})
    cloud.worker('a')
    assert (cloud.held('server'), cloud.instances('a')) == ([], [])


def test_a_server_that_is_deleted_while_it_is_built(cloud):
    with settings({'queues.fake_seconds': 4.0}):
        cloud.worker('a')
    with concurrent.futures.ThreadPoolExecutor() as callers:
        met = callers.submit(refused, cloud.place, 'server')
        until(lambda: cloud.held('server'))
        cloud.router.delete(uuid_of('server'))
        assert 'deleted before it was built' in met.result().reason
    until(lambda: cloud.used == {})
    until(lambda: (cloud.held('server'), cloud.instances('a')) == ([], []))
    assert cloud.jobs('server') == [('create', 'cancelled'), ('delete', 'done')]


@AFTER_60_S
def test_a_flavor_that_is_dropped_while_its_jobs_wait_and_no_node_has_capacity(cloud):
    names = [f'server {number}' for number in range(3)]
    with concurrent.futures.ThreadPoolExecutor() as callers:
        met = [callers.submit(refused, cloud.place, name) for name in names]
        until(lambda: [cloud.jobs(name) for name in names] == [[('create', 'queued')]] * 3)
        cloud.queues.flavor_delete('small')
        reasons = [one.result().reason for one in met]
    assert all(reason.startswith('its flavor is not offered any more; ') for reason in reasons)
    assert (cloud.used, set(cloud.consumers())) == ({}, {'fallback', 'results', 'large'})


def test_two_callers_of_one_server_have_one(cloud):
    with settings({'queues.fake_seconds': 0.5}):
        cloud.worker('a', 'b')
    with concurrent.futures.ThreadPoolExecutor() as callers:
        hosts = {one.result() for one in [callers.submit(cloud.place, 'server') for _ in range(5)]}
    assert cloud.held('server') == [(hosts.pop(), 'confirmed', 2)]
    assert (hosts, cloud.used, cloud.jobs('server')) == (set(), USED, [('create', 'done')])


def test_what_a_manager_refuses(cloud):
    again = cloud.queues.flavor_create(SMALL)
    assert (again['flavorid'], [one['name'] for one in cloud.queues.flavor_list()['flavors']]) == (
        'small',
        ['large', 'small'],
    )
    assert isinstance(
        refused(cloud.queues.flavor_create, {**SMALL, 'vcpus': 3}), errors.FlavorExists
    )
    assert isinstance(refused(cloud.queues.flavor_create, 'small'), errors.InvalidRequest)
    assert isinstance(refused(cloud.queues.flavor_create, {'name': 'x'}), errors.InvalidRequest)
    assert isinstance(refused(cloud.queues.flavor_delete, 'nobody'), errors.FlavorNotFound)


def test_without_queues_a_conductor_builds_as_ever(cloud):
    cloud.worker('a')
    with settings({'queues.enabled': False}):
        assert cloud.place('server') == 'a'
    assert cloud.held('server') == [('a', 'pending', 2)]
    assert (cloud.instances('a'), cloud.used, cloud.jobs('server')) == ([], {}, [])
