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
"""Tests of the entries of a conductor's jobs: a repeated request joins the job that is there."""

import pytest

from nova_sched import errors
from nova_sched.db import engine, schema
from nova_sched.db.jobs import CANCELLED, DONE, FAILED, QUEUED, SqlJobTable
from nova_sched.extensions.queues import jobs
from nova_sched.extensions.queues.conductor.job_entries import JobEntries
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.unit.extensions.queues.managed_queues import TINY, Claims, job

A, B = uuid_of('a'), uuid_of('b')


@pytest.fixture
def table(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/db.sqlite')
    schema.upgrade(made)
    yield SqlJobTable(made)
    made.dispose()


@pytest.fixture
def claims():
    return Claims()


@pytest.fixture
def entries(table, claims):
    return JobEntries(table, lambda project: {'servers': 2}, claims, lambda: NOW)


def make(instance_uuid, number):
    name = {A: 'a', B: 'b'}.get(instance_uuid, 'c')
    return job(name=name, number=number)


def created(entries, *uuids):
    return [(one.is_new, one.entry.state) for one in entries.creates(make, uuids, TINY)]


def test_a_repeated_request_joins_the_job(entries, table):
    assert created(entries, A, B) == [(True, QUEUED), (True, QUEUED)]
    assert created(entries, A, B) == [(False, QUEUED), (False, QUEUED)]
    assert (len(table.list()), table.usage('p')['servers']) == (2, 2)


def test_beyond_the_quota_none_is_entered(entries, table):
    with pytest.raises(errors.QuotaExceeded):
        created(entries, A, B, uuid_of('c'))
    assert (table.list(), table.usage('p')) == ([], {})


def test_a_job_that_failed_gets_a_successor(entries, table):
    created(entries, A)
    table.settle(jobs.uuid_of('create', A, 0), FAILED, NOW, release=True)
    assert created(entries, A) == [(True, QUEUED)]
    assert [one.state for one in table.of_instance(A)].count(QUEUED) == 1


@pytest.mark.parametrize(
    'is_there, found',
    [
        pytest.param(True, (False, DONE), id='it runs'),
        pytest.param(False, (True, QUEUED), id='it is gone'),
    ],
)
def test_a_job_that_was_done(entries, table, claims, is_there, found):
    created(entries, A)
    table.settle(jobs.uuid_of('create', A, 0), DONE, NOW)
    if is_there:
        claims.put('host', name='a')
    assert created(entries, A) == [found]


def test_a_cancelled_create_is_refused_and_the_others_are_not_left(entries, table):
    created(entries, A)
    cancelled, rest = entries.cancel(A)
    assert (cancelled.state, rest) == (CANCELLED, [])
    with pytest.raises(errors.NoValidHost, match='deleted before it was built'):
        created(entries, B, A)
    assert [one.state for one in table.of_instance(B)] == [FAILED]


def test_a_create_that_has_ended_cannot_be_cancelled(entries, table):
    created(entries, A)
    table.settle(jobs.uuid_of('create', A, 0), DONE, NOW)
    cancelled, rest = entries.cancel(A)
    assert (cancelled, [one.state for one in rest]) == (None, [DONE])


def test_a_delete_names_its_host(entries):
    first, again = (entries.enter(job('delete', 'a'), 'host') for _ in range(2))
    assert (first.is_new, first.entry.host, again.is_new) == (True, 'host', False)
