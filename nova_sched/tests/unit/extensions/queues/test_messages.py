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

import pytest

from nova_sched import errors, objects
from nova_sched.extensions.queues import messages
from nova_sched.tests.rows import each, each_named
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


@each_named(
    'count, kept',
    {'none': (0, []), 'one': (1, ['h0']), 'the latest stay': (7, ['h2', 'h3', 'h4', 'h5', 'h6'])},
)
def test_the_latest_failures_stay_with_a_job(count, kept):
    known = None
    for number in range(count):
        known = messages.with_failure(known, errors.BuildFailed(f'h{number}', 'why', 'out', 'err'))
    assert messages.failures(known) == [
        {'host': host, 'why': 'why', 'stdout': 'out', 'stderr': 'err'} for host in kept
    ]
