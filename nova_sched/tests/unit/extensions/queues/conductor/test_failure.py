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
"""The error of a job that was not done: what its conductor, and so its tenant, is told."""

from nova_sched import errors
from nova_sched.extensions.queues import jobs
from nova_sched.extensions.queues.conductor.router import failure
from nova_sched.extensions.queues.conductor.waiting import JobEnd
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.extensions.queues.managed_queues import job

SERVER = uuid_of('server')
ASK = 'Operators find the details under req-1.'
FULL = f'{errors.NOT_ENOUGH} ResourceCapacity removed the last hosts. {ASK}'


def told(why, tell, kind='create', state='failed'):
    """The error of a failed job on host cmp-1."""
    made = job(kind)
    made.request_id = 'req-1'
    return failure(jobs.entry(made, 0.0), JobEnd(made.uuid, state, 'cmp-1', why=why), tell)


@table(
    'why, rules',
    {
        'of the scheduler': (FULL, FULL),
        'not taken': (
            f'no node has taken it from its queue within 30 s; {FULL}',
            f'no node has taken it from its queue within 30 s; {FULL}',
        ),
        'not offered': (
            f'its flavor is not offered any more; {FULL}',
            f'its flavor is not offered any more; {FULL}',
        ),
        'hosts have failed': (f'it failed on cmp-1, cmp-2; {FULL}', FULL),
        'given back': (f'3 nodes have given it back; {FULL}', FULL),
        'a resize': ('host cmp-1 has not taken it', f'{errors.NOT_ENOUGH} {ASK}'),
        'words of a driver': (
            'libvirt: no space on /dev/sda of cmp-1',
            f'{errors.NOT_ENOUGH} {ASK}',
        ),
        'deleted': (jobs.DELETED, jobs.DELETED),
    },
)
@each('kind', ['create', 'resize', 'migrate'])
def test_a_refusal(why, rules, kind):
    for tell, reason in (('rules', rules), ('all', why)):
        error = told(why, tell, kind)
        assert (type(error), error.reason) == (errors.NoValidHost, reason)


def test_a_job_without_a_request_id():
    made = job()
    error = failure(jobs.entry(made, 0.0), JobEnd(made.uuid, 'failed', None), 'rules')
    assert error.reason == errors.NOT_ENOUGH


@each('tell, tried', [('rules', 'as many as allowed'), ('all', 'cmp-1, cmp-2')])
def test_every_host_has_failed(tell, tried):
    error = told(f'{jobs.EXHAUSTED}cmp-1, cmp-2', tell)
    assert (type(error), error.args) == (errors.MaxRetriesExceeded, (SERVER, tried))


@each('tell', ['rules', 'all'])
def test_a_cancelled_create(tell):
    assert told('anything', tell, state='cancelled').reason == jobs.DELETED


@each('tell', ['rules', 'all'])
def test_a_delete_names_its_node(tell):
    error = told('busy', tell, kind='delete')
    assert (type(error), error.args) == (errors.BuildFailed, ('cmp-1', 'busy'))
