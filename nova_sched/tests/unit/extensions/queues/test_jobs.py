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
"""Tests of jobs: the same request makes the same job, and a job's row keeps its message."""

import types

from nova_sched.db.jobs import CANCELLED, DONE, FAILED, QUEUED
from nova_sched.extensions.queues import jobs
from nova_sched.state.report import MAX_AMOUNT
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.rows import table
from nova_sched.tests.unit.extensions.queues.managed_queues import CATALOGUE, TINY, job, spec


def entry(kind='create', state=QUEUED, after_s=0, **fields):
    """A row that is so many seconds younger than the others."""
    made = jobs.entry(job(kind, **fields), NOW + after_s)
    return type(made)(**{name: getattr(made, name) for name in made.__slots__} | {'state': state})


def test_a_repeated_request_is_the_same_job():
    kinds = [(kind, number) for kind in ('create', 'delete') for number in (0, 1)]
    first, again = (
        [jobs.uuid_of(kind, uuid_of('a'), number) for kind, number in kinds] for _ in range(2)
    )
    assert first == again
    assert len(set(first)) == len(kinds)


def test_a_row_keeps_the_job():
    made = job(queue='tiny')
    row = jobs.entry(made, NOW, 'a')
    assert (row.uuid, row.queue, row.host, row.state) == (made.uuid, 'tiny', 'a', QUEUED)
    assert jobs.of_entry(row).obj_to_primitive() == made.obj_to_primitive()


@table(
    'context, project_id',
    {
        'of the request': (None, 'p'),
        'not that of the context': (types.SimpleNamespace(project_id='q'), 'p'),
    },
)
def test_the_project_of_a_caller(context, project_id):
    caller = jobs.Caller.of(context, spec(), 'reply.me')
    assert (caller.project_id, caller.reply_to) == (project_id, 'reply.me')


def test_a_caller_without_a_request_has_the_project_of_the_context():
    context = types.SimpleNamespace(project_id='q', user_id='u', request_id='req-1')
    caller = jobs.Caller.of(context)
    assert (caller.project_id, caller.user_id, caller.request_id) == ('q', 'u', 'req-1')


def test_the_quota_of_a_request():
    assert jobs.amounts(CATALOGUE.bare['tiny']) == TINY


@table(
    'resources, amounts',
    {
        'some': ({'VCPU': 2, 'DISK_GB': 0}, {'servers': 1, 'class:VCPU': 2}),
        'largest': ({'VCPU': MAX_AMOUNT}, {'servers': 1, 'class:VCPU': MAX_AMOUNT}),
        'none': ({}, {'servers': 1}),
    },
)
def test_the_quota_of_a_claim(resources, amounts):
    assert jobs.amounts_of_claim(resources) == amounts


@table(
    'later, is_deleted',
    {
        'nothing else': ([], False),
        'a delete later': ([entry('delete', after_s=1)], True),
        'a delete before': ([entry('delete', after_s=-1)], False),
        'a delete that failed': ([entry('delete', FAILED, after_s=1)], False),
        'remains of a move': ([entry('delete', after_s=1, source='a')], False),
        'another create': ([entry('create', after_s=1)], False),
    },
)
def test_a_job_whose_instance_was_deleted(later, is_deleted):
    first = entry()
    assert jobs.is_deleted([first, *later], since=first) == is_deleted


@table(
    'later, is_wanted',
    {
        'nothing else': ([], False),
        'another create': ([entry(after_s=1, number=1)], True),
        'one that failed': ([entry(state=FAILED, after_s=1, number=1)], False),
        'a delete': ([entry('delete', after_s=1)], False),
    },
)
def test_an_instance_that_is_wanted_again(later, is_wanted):
    first = entry()
    assert jobs.is_wanted_again([first, *later], since=first) == is_wanted


@table(
    'entries, flavor',
    {
        'unknown': ([], None),
        'as built': ([entry(state=DONE)], 'tiny'),
        'resized': ([entry(state=DONE), entry('resize', DONE, asked=spec('large'))], 'large'),
        'failed': ([entry(state=DONE), entry('resize', FAILED, asked=spec('large'))], 'tiny'),
        'never built': ([entry(state=CANCELLED)], None),
    },
)
def test_the_last_size(entries, flavor):
    found = jobs.last_size(entries)
    assert (found and found.flavor.name) == flavor
