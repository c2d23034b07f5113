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

from nova_sched import errors
from nova_sched.cmd.manage import arguments, output, store, tables
from nova_sched.cmd.manage.arguments import option
from nova_sched.db.jobs import CREATE, STATES, SqlJobTable

MAX_JOBS = 1000


def list_jobs(args, conf):
    """List jobs, oldest first

    A job is queued until a compute node or the scheduler has reported its result: done, failed. A
    create that is not wanted any more is cancelled. A job that has ended is listed for [queues]
    job_retention seconds.

    Keys: job_uuid, kind (create, delete, resize, migrate), instance_uuid,
    project_id, user_id, request_id, queue (the flavor queue that it was sent to; null: a host's
    own), host (where it is or was done; null: not known yet), state, tries, why (null for
    nothing), created_at, updated_at.
    """
    jobs = SqlJobTable(store.ready(conf))
    entries = jobs.list(
        project_id=args.project,
        state=args.state,
        instance_uuid=args.instance,
        marker=args.marker,
        limit=args.limit,
    )
    output.show(args, [row(entry) for entry in entries], columns(jobs.now_s()))
    return 0


def show(args, conf):
    """Show one job

    Keys: those of 'job list', and failures: for each of the last 5 attempts that failed on a node,
    host, why, stdout and stderr (the last 4 KiB of what the driver's command has printed).
    """
    from nova_sched.extensions.queues import (
        messages,  # late: of these verbs, this one needs objects
    )

    jobs = SqlJobTable(store.ready(conf))
    entry = jobs.find(args.uuid)
    if entry is None:
        raise errors.JobNotFound(args.uuid)
    shown = row(entry) | {'failures': messages.failures(entry.failures)}
    # Not the row that ``show`` passes: the output of commands has lines, and each gets a heading.
    output.show(args, shown, text=lambda _: page(shown, jobs.now_s()))
    return 0


def cancel(args, conf):
    """Cancel the build of a server that waits in a queue

    The conductor that waits for it gets NoValidHost. A worker that builds the server already
    deletes it again. A job that is not a queued create is refused.

    Keys: those of 'job list'.
    """
    jobs = SqlJobTable(store.ready(conf))
    entry = jobs.find(args.uuid)
    if entry is None:
        raise errors.JobNotFound(args.uuid)
    ended = entry.kind == CREATE and jobs.cancel(entry.instance_uuid, jobs.now_s(), args.uuid)
    if not ended:
        entry = jobs.find(args.uuid) or entry  # it may have ended in between
        why = (
            f'job {args.uuid} is a {entry.kind} and {entry.state}: only a queued create can be '
            'cancelled'
        )
        raise errors.InvalidRequest('job cancel', why)
    words = f'Job {args.uuid} is cancelled: instance {entry.instance_uuid} will not be built.'
    output.show(args, row(ended), text=lambda _: words)
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
    lines.append(tables.fill(row['why'] or '-', 'Why         '))
    for failure in row['failures']:
        lines += ['', tables.fill(failure['why'], f'Failed on {failure["host"]}: ')]
        for name in ('stdout', 'stderr'):
            lines += [f'  {name} | {line}' for line in failure[name].splitlines()]
    return '\n'.join(lines)


UUID = option('uuid', metavar='UUID', help='UUID of the job')
VERBS = (
    (
        'list',
        list_jobs,
        option('--project', metavar='ID', help='only jobs of this project'),
        option('--state', choices=STATES, help='only jobs in this state'),
        option('--instance', metavar='UUID', help='only jobs for this instance'),
        option('--marker', metavar='UUID', help='only jobs after this one'),
        arguments.limit(MAX_JOBS),
    ),
    ('show', show, UUID),
    ('cancel', cancel, UUID),
)
