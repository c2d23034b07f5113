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
"""The messages of jobs: their bytes, and what is kept of failed attempts."""

from types import SimpleNamespace

import pytest

from nova_sched import errors, objects
from nova_sched.extensions.queues import messages
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.queues.node.doubles import job


def result(**fields):
    usual = {'host': 'a', 'nodename': 'a', 'tries': 1, 'why': None, 'claim': None}
    return objects.QueueResult(**{'job': job(), 'outcome': 'done', **usual, **fields})


@each('kind', ['create', 'delete', 'resize', 'migrate'])
def test_a_job_comes_back_as_it_was(kind):
    sent = job(kind=kind, tried=['a', 'b'], alternates='[["c", "c"]]', claimed=True)
    read = messages.read_job(messages.to_bytes(sent))
    assert read.obj_to_primitive() == sent.obj_to_primitive()


def test_a_result_comes_back_as_it_was():
    sent = result(why='no image', outcome='failed')
    assert (
        messages.read_result(messages.to_bytes(sent)).obj_to_primitive() == sent.obj_to_primitive()
    )


def test_what_may_be_null_may_be_left_out():
    sent = job()
    for name in ('queue', 'source', 'alternates', 'reply_to', 'created_at', 'failures'):
        delattr(sent, name)
    assert messages.read_job(messages.to_bytes(sent)).source is None


def test_a_result_needs_all_of_its_job():
    sent = result()
    del sent.job.instance_uuid
    with pytest.raises(errors.MalformedObject, match=r'QueueJob\.instance_uuid: it is missing'):
        messages.read_result(messages.to_bytes(sent))


def test_a_job_is_no_result():
    with pytest.raises(errors.MalformedObject, match='it is something else'):
        messages.read_result(messages.to_bytes(job()))


def test_a_create_needs_a_spec():
    sent = job(spec=None)
    with pytest.raises(errors.MalformedObject, match='a job of the kind create needs one'):
        messages.read_job(messages.to_bytes(sent))


@each(
    'count, kept',
    [
        pytest.param(0, [], id='none'),
        pytest.param(1, ['h0'], id='one'),
        pytest.param(7, ['h2', 'h3', 'h4', 'h5', 'h6'], id='the latest stay'),
    ],
)
def test_the_latest_failures_stay_with_a_job(count, kept):
    known = None
    for number in range(count):
        known = messages.with_failure(known, errors.BuildFailed(f'h{number}', 'why', 'out', 'err'))
    assert messages.failures(known) == [
        {'host': host, 'why': 'why', 'stdout': 'out', 'stderr': 'err'} for host in kept
    ]


def claim(host, state='confirmed', move=None, resize=None, **fields):
    """A claim of the server of job(), by its host; without a request's ID, of an older release."""
    uuid = uuid_of(f'claim on {host}')
    return objects.ClaimInfo(
        uuid=uuid,
        host=host,
        state=state,
        move=move,
        resize_uuid=resize and uuid_of(resize),
        **fields,
    )


OURS, OTHERS = {'request_id': 'req-1'}, {'request_id': 'req-2'}


@pytest.mark.parametrize(
    'kind, claims, reverted',
    [
        pytest.param(
            'migrate',
            [claim('a', move='live-migration'), claim('b', 'pending', 'migration', **OURS)],
            ['b'],
            id='of a server that came by a live migration',
        ),
        pytest.param(
            'migrate',
            [claim('a'), claim('b', 'confirmed', 'migration', **OURS)],
            ['b'],
            id='that a report has confirmed',
        ),
        pytest.param(
            'migrate',
            [claim('a'), claim('b', 'confirmed', 'resize', **OTHERS)],
            [],
            id='of others',
        ),
        pytest.param(
            'migrate',
            [claim('a'), claim('b', 'pending', 'migration', **OTHERS)],
            [],
            id='of others, pending',
        ),
        pytest.param(
            'migrate',
            [claim('b', move='evacuation', **OURS)],
            [],
            id='where it was evacuated to',
        ),
        pytest.param(
            'resize',
            [claim('a'), claim('b', 'pending', 'resize')],
            ['b'],
            id='of whom is not told',
        ),
        pytest.param(
            'resize',
            [claim('a'), claim('b', 'confirmed', 'resize')],
            [],
            id='of whom is not told, confirmed',
        ),
        pytest.param('resize', [claim('a', resize='larger')], ['larger'], id='in place'),
        pytest.param('migrate', [claim('a', resize='larger')], [], id='in place, of others'),
        pytest.param(
            'resize',
            [claim('a', resize='larger'), claim('b', 'pending', 'resize', **OURS)],
            ['larger', 'b'],
            id='in place, and then elsewhere',
        ),
    ],
)
def test_only_what_was_claimed_for_a_job_is_taken_back(kind, claims, reverted):
    moving = job(kind='migrate', source='a', request_id='req-1')
    named = []
    store = SimpleNamespace(
        show=lambda instance_uuid: claims,
        revert_claim=lambda instance_uuid, claim: named.append(claim),
    )
    hosts = messages.take_back(store, moving, kind)
    names = {one.name: one.host for one in claims} | {uuid_of('larger'): 'larger'}
    assert [names[name] for name in named] == reverted
    assert hosts == [host for host in reverted if host != 'larger']


@pytest.mark.parametrize('error', [errors.ClaimNotFound('it'), errors.Outdated('it', 'gone')])
def test_what_has_ended_needs_not_be_taken_back(error):
    def refuse(instance_uuid, claim):
        raise error

    claims = [claim('a'), claim('b', 'pending', 'migration')]
    store = SimpleNamespace(show=lambda instance_uuid: claims, revert_claim=refuse)
    assert messages.take_back(store, job(kind='migrate', source='a'), 'migrate') == ['b']
