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
"""Instances that are on the node: deleted, and given another size."""

import json

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import of_flavor, of_host
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.queues.node.doubles import BUILD_S, job

HERE = of_host('a')


@pytest.fixture
def a(cloud):
    """A worker whose node of 8 vCPUs has one server of one."""
    made = cloud.start('a')
    made.node_api.put('server')
    cloud.claims.put('server', 'a', CONFIRMED)
    return made


def delete(name='server', **fields):
    return job(name, 'delete', **fields)


def resize(flavor='medium', **fields):
    return job('server', 'resize', flavor, **fields)


# Deletes.


def test_a_delete_takes_the_instance_and_its_claim(cloud, a):
    cloud.send(delete(), HERE)
    cloud.run()
    assert cloud.results() == [('delete', 'done', 'a')]
    assert (a.node_api.used, cloud.claims.states('server')) == (0, {})
    assert cloud.kinds() == [('destroy', 'a')]
    assert cloud.ready(HERE) == 0


def test_an_instance_that_is_not_here_is_deleted_all_the_same(cloud):
    cloud.start('a')
    cloud.send(delete(), HERE)
    cloud.run()
    assert cloud.results() == [('delete', 'done', 'a')]
    assert cloud.kinds() == [('destroy', 'a')]


def test_a_delete_that_the_driver_cannot_do_leaves_all_as_it_is(cloud, a):
    a.driver.script.add('destroy', errors.BuildFailed('a', 'it is stuck', 'out', 'err'))
    cloud.send(delete(), HERE)
    cloud.run()
    result = cloud.result()
    assert [one['stderr'] for one in messages.failures(result.job.failures)] == ['err']
    assert (result.outcome, result.host, result.why) == ('failed', 'a', 'it is stuck')
    assert (a.node_api.size('server'), cloud.claims.states('server')) == (1, {'a': CONFIRMED})


def test_a_delete_ends_no_claim_of_the_next_server_of_that_uuid(cloud, a):
    """It was claimed for again while the driver removed the old one."""
    cloud.send(delete(), HERE)
    cloud.run(BUILD_S / 2)
    cloud.claims.put('server', 'a', PENDING)
    cloud.claims.rename('server', 'a')
    cloud.run()
    assert cloud.results() == [('delete', 'done', 'a')]
    assert cloud.claims.states('server') == {'a': PENDING}


def test_a_delete_ends_the_claim_on_its_own_node_only(cloud, a):
    cloud.claims.put('server', 'b', CONFIRMED)
    cloud.send(delete(), HERE)
    cloud.run()
    assert cloud.claims.states('server') == {'b': CONFIRMED}


@pytest.mark.parametrize(
    'claims, are_remains',
    [
        pytest.param({'b': (CONFIRMED, None)}, True, id='it has moved'),
        pytest.param({'b': (PENDING, 'migration')}, False, id='it is to move'),
        pytest.param({}, False, id='nobody knows where it is'),
        pytest.param({'a': (CONFIRMED, None)}, False, id='it is here'),
        pytest.param(
            {'a': (CONFIRMED, None), 'b': (CONFIRMED, 'resize')}, False, id='it may come back'
        ),
        pytest.param(
            {'b': (CONFIRMED, None), 'a': (PENDING, 'migration')}, True, id='it is to come back'
        ),
        pytest.param(
            {'b': (CONFIRMED, None), 'a': (CONFIRMED, 'migration')},
            True,
            id='what was left here was taken for it',
        ),
    ],
)
def test_only_what_a_move_has_left_is_removed_with_its_remains(cloud, claims, are_remains):
    a = cloud.start('a')
    a.node_api.put('server', claim=uuid_of('the claim before the move'))
    for host, (state, move) in claims.items():
        cloud.claims.put('server', host, state, move=move)
    cloud.send(delete(source='a'), HERE)
    cloud.run()
    assert cloud.results() == [('delete', 'done' if are_remains else 'failed', 'a')]
    assert (cloud.kinds(), a.node_api.size('server')) == (
        ([('destroy', 'a')], None) if are_remains else ([], 1)
    )
    assert cloud.claims.states('server') == {host: state for host, (state, _) in claims.items()}


def test_a_server_that_has_come_back_is_not_removed_with_the_remains(cloud):
    a = cloud.start('a')
    cloud.claims.put('server', 'b', CONFIRMED)
    claim = cloud.claims.put('server', 'a', CONFIRMED, move='migration')
    a.node_api.put('server', claim=claim.name)
    cloud.send(delete(source='a'), HERE)
    cloud.run()
    assert (cloud.results(), cloud.kinds()) == ([('delete', 'failed', 'a')], [])


def test_a_server_that_was_built_in_vain_is_deleted_with_its_claim(cloud, a):
    """Its job was given up before that; nobody else has it."""
    cloud.send(delete(source='a', claimed=True), HERE)
    cloud.run()
    assert (cloud.results(), cloud.kinds()) == ([('delete', 'done', 'a')], [('destroy', 'a')])
    assert cloud.claims.states('server') == {}


@pytest.mark.parametrize('slots', [1, 2])
def test_a_delete_waits_for_the_build_of_its_instance(cloud, slots):
    a = cloud.start('a', slots=slots)
    cloud.send(job())
    cloud.run(1.0)
    cloud.send(delete(), HERE)
    cloud.run(BUILD_S / 2)
    assert cloud.kinds() == []
    cloud.run()
    assert cloud.kinds() == [('create', 'a'), ('destroy', 'a')]
    assert cloud.results() == [('create', 'done', 'a'), ('delete', 'done', 'a')]
    assert a.node_api.used == 0


# Another size.


def test_a_resize_that_fits_is_done_in_place(cloud, a):
    cloud.send(resize(), HERE)
    cloud.run(1.0)
    assert (a.node_api.is_resizing('server'), a.node_api.used) == (True, 2)
    cloud.run()
    result = cloud.result()
    assert (result.job.kind, result.outcome, result.host) == ('resize', 'done', 'a')
    assert result.claim.resources == {'VCPU': 2}
    assert (a.node_api.size('server'), a.node_api.is_resizing('server')) == (2, False)
    assert cloud.kinds() == [('resize', 'a')]


def test_a_claimed_resize_is_not_claimed_again(cloud, a):
    cloud.send(resize(claimed=True), HERE)
    cloud.run()
    assert cloud.results() == [('resize', 'done', 'a')]
    assert [call[0] for call in cloud.claims.calls] == ['show', 'confirm_claim']


@each_afresh('unknown, shared', {'by the node': (7, 8), 'by the store': (0, 1)})
def test_a_resize_that_does_not_fit_becomes_a_move(cloud, a, unknown, shared):
    a.node_api.unknown, cloud.claims.vcpus['a'] = unknown, shared
    b = cloud.start('b', vcpus=4)
    cloud.send(resize(), HERE)
    cloud.run()
    result = cloud.result()
    assert (result.job.kind, result.job.source, result.host) == ('migrate', 'a', 'b')
    assert result.job.uuid == resize().uuid
    assert (a.node_api.size('server'), a.node_api.is_resizing('server')) == (1, False)
    assert b.node_api.size('server') == 2
    assert cloud.claims.states('server') == {'b': CONFIRMED}


@each_afresh('queue', {'of no queue': None, 'its queue is gone': 'gone'})
def test_a_move_that_no_queue_takes_is_for_the_scheduler(cloud, a, queue):
    a.node_api.unknown = 7
    cloud.send(resize(queue=queue), HERE)
    cloud.run()
    (fallen,) = cloud.fallen()
    assert (fallen.kind, fallen.source, fallen.uuid) == ('migrate', 'a', resize().uuid)


def test_a_claimed_resize_that_does_not_fit_goes_to_its_alternate(cloud, a):
    b = cloud.start('b', vcpus=4)
    a.node_api.unknown = 7
    alternates = json.dumps([['b', 'b']])
    cloud.send(resize(claimed=True, alternates=alternates), HERE)
    cloud.run()
    assert cloud.results() == [('migrate', 'done', 'b')]
    assert (a.node_api.size('server'), b.node_api.size('server')) == (1, 2)


def test_a_resize_that_the_driver_cannot_do_leaves_the_old_size(cloud, a):
    a.driver.script.add('resize', errors.BuildFailed('a', 'no space'))
    cloud.send(resize(), HERE)
    cloud.run()
    result = cloud.result()
    assert (result.outcome, result.why) == ('failed', 'no space')
    assert (a.node_api.size('server'), a.node_api.is_resizing('server')) == (1, False)
    assert ('revert_claim',) in cloud.claims.calls


@pytest.mark.parametrize('method, size', [('resize_claim', 1), ('confirm_claim', 2)])
@pytest.mark.parametrize(
    'error', [errors.ClaimNotFound('server'), errors.Outdated('server', 'there is another one')]
)
def test_a_resize_whose_claim_is_gone_has_failed_and_the_node_tells_what_runs(
    cloud, a, method, size, error
):
    cloud.claims.script.add(method, error)
    cloud.send(resize(), HERE)
    cloud.run()
    assert cloud.results() == [('resize', 'failed', 'a')]
    assert (a.node_api.size('server'), a.node_api.is_resizing('server')) == (size, False)
    assert cloud.kinds() == ([('resize', 'a')] if size == 2 else [])


@pytest.mark.parametrize(
    'method, error',
    [
        ('resize_claim', errors.Outdated('server', 'there is another one')),
        ('resize_claim', errors.ComputeResourcesUnavailable('a', 'VCPU')),
        ('resize', errors.BuildFailed('a', 'no space')),
    ],
)
def test_a_resize_that_was_cut_off_and_is_refused_leaves_both_sizes(cloud, a, method, error):
    """The driver of the last process may have done it."""
    cloud.send(resize(), HERE)
    cloud.run(BUILD_S / 2)
    a.worker.stop()
    again = cloud.start('a', node_api=a.node_api, run=False)
    script = again.driver.script if method == 'resize' else cloud.claims.script
    script.add(method, error)
    cloud.run()
    assert a.node_api.is_resizing('server')
    assert (a.node_api.used, cloud.kinds()) == (2, [])


@pytest.mark.parametrize('hidden', [False, True])
def test_an_instance_that_is_not_here_cannot_be_resized(cloud, hidden):
    a = cloud.start('a')
    if hidden:
        a.node_api.put('server', hidden=True)
    cloud.send(resize(), HERE)
    cloud.run()
    result = cloud.result()
    assert (result.outcome, result.why) == ('failed', 'the instance is not on host a')


def test_a_move_waits_in_its_queue_for_a_host(cloud, a):
    a.node_api.unknown = 7
    cloud.send(resize(), HERE)
    cloud.run(3.0)
    assert a.figures.put_backs == 1  # it leaves its own instance to others
    assert cloud.ready(of_flavor('medium')) == 1
