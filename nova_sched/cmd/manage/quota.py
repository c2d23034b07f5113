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
"""`quota`: limits and usage of projects."""

import re

from nova_sched import errors, words
from nova_sched.claims import plan_quota
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage import output, store
from nova_sched.cmd.manage.arguments import option
from nova_sched.conf import quota
from nova_sched.db.jobs import SqlJobTable
from nova_sched.limits import limits

NO_LIMIT = -1
RESOURCE = re.compile(
    r'(planned_)?(servers|class:[A-Z0-9_]{1,240})|group_members|exclusive_domains|group_bytes'
)
MAX_LIMIT = 2**62


def show(args, conf):
    """Show the usage and the limits of a project

    Limits are those of the table, else of [quota] limits. With [quota] driver = keystone they are
    those of Keystone. There a resource of servers that is not registered has the limit 0, and one
    of placement groups has its default limit, if it has one.

    Keys: for each resource project_id, resource (servers, class: and a resource class; for
    placement groups planned_servers, planned_class: and a resource class, group_members,
    exclusive_domains and group_bytes), used, limit (null: none), own (the value set here for the
    project; null: nothing, -1: no limit).
    """
    return _show(args, conf, [args.project])


def list_projects(args, conf):
    """List the usage and the limits of all projects that have usage, or limits in the table

    Keys: those of 'quota show'.
    """
    return _show(args, conf, None)


def set_limit(args, conf):
    """Set the limit of a project for a resource

    Schedulers and managers see it within a few seconds. A limit below the present usage does not
    remove anything, but the project gets no more. Only with [quota] driver = table: Keystone has
    separate commands.

    Keys: those of 'quota show', for that resource.
    """
    if conf.quota.driver != quota.TABLE:
        why = f'it is {conf.quota.driver}: limits that are set here would not be read'
        raise errors.BadConfig('[quota] driver', why)
    books = _Books(store.ready(conf))
    books.job_table.set_limit(args.project, args.resource, args.limit)
    shown = rows(books, limits(conf, books.job_table), args.project, [args.resource])
    (limit_row,) = (row for row in shown if row['resource'] == args.resource)
    output.show(args, limit_row, text=sentence)
    return 0


def _show(args, conf, projects):
    books = _Books(store.ready(conf))
    limits_of = limits(conf, books.job_table)
    chosen = books.projects() if projects is None else projects
    shown = [row for project in chosen for row in rows(books, limits_of, project)]
    output.show(args, shown, COLUMNS)
    return 0


class _Books:
    """The usage of projects: that of servers is in the job table, that of plans in the claims."""

    def __init__(self, engine):
        self.job_table, self._claims = SqlJobTable(engine), SqlClaimStore(engine)

    def usage(self, project):
        return {**self.job_table.usage(project), **self._claims.plan_usage(project)}

    def projects(self):
        planners = {group.project_id for group in self._claims.top_groups()} - {None}
        return sorted({*self.job_table.projects(), *planners})


def rows(books, limits_of, project, besides=()):
    """A row for each resource that the project uses, that has a limit, or that is named in
    ``besides``."""
    used, own, most = books.usage(project), books.job_table.limits(project), limits_of(project)
    return [
        {
            'project_id': project,
            'resource': name,
            'used': used.get(name, 0),
            'limit': _limit(_most(most, name)),
            'own': own.get(name),
        }
        for name in sorted(
            {*used, *own, *most, *besides}, key=lambda name: (name != 'servers', name)
        )
    ]


def _most(limits, name):
    """The limit of a resource. Keystone's limits of plans are none if they are not named."""
    known = dict(limits) if plan_quota.is_counted(name) else limits
    return known.get(name, NO_LIMIT)


def _limit(number):
    return None if number < 0 else number


# Text output.

COLUMNS = {
    'Project': lambda row: row['project_id'],
    'Resource': lambda row: row['resource'],
    'Used': lambda row: row['used'],
    'Limit': lambda row: _word(row['limit']),
    'Own': lambda row: '' if row['own'] is None else _word(_limit(row['own'])),
}


def _word(limit):
    return 'none' if limit is None else f'{limit}'


def sentence(row):
    """The result of a change of a limit."""
    whose = 'as by default' if row['own'] is None else 'of its own'
    limit = 'no limit' if row['limit'] is None else f'the limit {row["limit"]}'
    return (
        f'Project {row["project_id"]} has {limit} of {row["resource"]}, {whose}; '
        f'{row["used"]} used.'
    )


# Arguments.


def _resource(text):
    if not RESOURCE.fullmatch(text):
        raise ValueError(text)
    return text


def _amount(text):
    """A limit; None for the default of all projects."""
    if text == 'default':
        return None
    return words.whole(text, NO_LIMIT, MAX_LIMIT)


# The texts that argparse adds to its errors.
_resource.__name__ = 'resource (servers, class:VCPU, planned_servers, ...)'
_amount.__name__ = 'limit (-1 or more, or default)'


PROJECT = option('project', metavar='PROJECT', help='ID of the project')
VERBS = (
    ('show', show, PROJECT),
    (
        'set',
        set_limit,
        PROJECT,
        option(
            'resource',
            metavar='RESOURCE',
            type=_resource,
            help='servers, or class: and a resource class, such as class:VCPU; for placement '
            'groups planned_servers, planned_class:VCPU, group_members, exclusive_domains or '
            'group_bytes',
        ),
        option(
            'limit',
            metavar='LIMIT',
            type=_amount,
            help='a number, -1 for no limit, or default: the limit of all projects',
        ),
    ),
    ('list', list_projects),
)
