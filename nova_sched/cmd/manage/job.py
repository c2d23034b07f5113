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
"""`job`: the jobs that were sent to compute nodes through queues, and their results."""

import time

from nova_sched import errors
from nova_sched.cmd.manage import store, tables
from nova_sched.db.jobs import STATES, SqlJobTable

NOUN = 'job'
HELP = 'show the jobs that go through queues, and their results'

MOST = 1000


def list_jobs(args, conf):
    """List jobs, oldest first

    A job is queued until a compute node or the scheduler has reported its result: done, failed. A
    create that is not wanted any more is cancelled. A job that has ended is listed for [queues]
    job_retention seconds.

    Keys with --format json: job_uuid, kind (create, delete, resize, migrate), instance_uuid,
    project_id, user_id, request_id, queue (the flavor queue that it was sent to; null: a host's
    own), host (where it is or was done; null: not known yet), state, tries, why (null for
    nothing), created_at, updated_at.
    """
    found = SqlJobTable(store.ready(conf)).list(
        project_id=args.project,
        state=args.state,
        instance_uuid=args.instance,
        marker=args.marker,
        limit=args.limit,
    )
    tables.show(tables.listing(args.format, columns(time.time()), [row(entry) for entry in found]))
    return 0


def show(args, conf):
    """Show one job

    Keys with --format json: those of 'job list'.
    """
    entry = SqlJobTable(store.ready(conf)).find(args.uuid)
    if entry is None:
        raise errors.JobNotFound(args.uuid)
    found = row(entry)
    tables.show(tables.as_json(found) if args.format == 'json' else page(found, time.time()))
    return 0


def row(entry):
    """A job as its keys and values. Its message is not included, because it may hold confidential
    data."""
    return {
        'job_uuid': entry.uuid,
        'kind': entry.kind,
        'instance_uuid': entry.instance_uuid,
        'project_id': entry.project_id,
        'user_id': entry.user_id,
        'request_id': entry.request_id,
        'queue': entry.queue,
        'host': entry.host,
        'state': entry.state,
        'tries': entry.tries,
        'why': entry.why,
        'created_at': tables.moment(entry.created_s),
        'updated_at': tables.moment(entry.updated_s),
    }


def columns(now_s):
    return {
        'Job': lambda row: row['job_uuid'],
        'Kind': lambda row: row['kind'],
        'Instance': lambda row: row['instance_uuid'],
        'Project': lambda row: row['project_id'] or '-',
        'Queue': lambda row: row['queue'] or '-',
        'Host': lambda row: row['host'] or '-',
        'State': lambda row: row['state'],
        'Tries': lambda row: row['tries'],
        'Made': lambda row: tables.age(row['created_at'], now_s),
        'Changed': lambda row: tables.age(row['updated_at'], now_s),
    }


def page(row, now_s):
    lines = [f'{name:12}{cell(row)}' for name, cell in columns(now_s).items()]
    lines += [f'User        {row["user_id"] or "-"}', f'Request     {row["request_id"] or "-"}']
    return '\n'.join([*lines, tables.fill(row['why'] or '-', 'Why         ')])


# Arguments.


def _count(text):
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


_count.__name__ = 'number from 1'  # argparse adds this text to its error


def _list_arguments(parser):
    parser.add_argument('--project', metavar='ID', help='only jobs of this project')
    parser.add_argument('--state', choices=STATES, help='only jobs in this state')
    parser.add_argument('--instance', metavar='UUID', help='only jobs for this instance')
    parser.add_argument('--marker', metavar='UUID', help='only jobs after this one')
    parser.add_argument(
        '--limit', metavar='N', type=_count, default=MOST, help=f'maximum number ({MOST})'
    )


def _show_arguments(parser):
    parser.add_argument('uuid', metavar='UUID', help='UUID of the job')


VERBS = (('list', list_jobs, _list_arguments), ('show', show, _show_arguments))
