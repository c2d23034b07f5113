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

"""The page Groups: what each group holds, where, and why one is or was refused."""

import collections
import itertools

import flask

from nova_sched import errors
from nova_sched.api import handlers
from nova_sched.extensions.dashboard.decisions import is_own, summary
from nova_sched.extensions.dashboard.parts import answer

ENDPOINT, TITLE, RULE = 'groups', 'Groups', 'groups:list'
ALL = 'dashboard:decisions:all_projects'
MAX_SHOWN = 200  # groups
HOST = 'host'
MAX_REFUSED, MAX_READ = 20, 5000  # newest refusals: of groups, and searched for them


def add(app, parts):
    pages = GroupPages(parts)
    app.add_url_rule('/groups', ENDPOINT, pages.show)
    app.add_url_rule('/groups/<uuid:uuid>', 'group', pages.group)
    app.add_url_rule('/groups/try', 'try_group', pages.try_out, methods=['POST'])


class GroupPages:
    """The handlers of the REST API answer, with its rights and its limits."""

    def __init__(self, parts):
        self._parts = parts
        self._handlers = handlers.GroupHandlers(
            parts.clients.groups, parts.policy, parts.conf.api.max_limit
        )

    def show(self):
        all_projects = self._parts.may('groups:list:all_projects')
        query = {'all_projects': True} if all_projects else {}
        listed = answer(self._handlers.list_groups, query={**query, 'limit': MAX_SHOWN})
        # The newest refused plans that the caller may see.
        sees_all = self._parts.may(ALL)
        newest = self._parts.sources.decisions.newest_first(refused=True)
        refused = (
            record
            for record in itertools.islice(newest, MAX_READ)
            if 'group' in record and (sees_all or is_own(record))
        )
        return flask.render_template(
            'groups.html',
            groups=listed['groups'],
            has_more=bool(listed['links']),
            shown=MAX_SHOWN,
            refused=[
                {**summary(record, sees_all), **record['group']}
                for record in itertools.islice(refused, MAX_REFUSED)
            ],
        )

    def group(self, uuid):
        group = answer(self._handlers.show_group)
        members = answer(self._handlers.show_plan)['members']
        try:
            policies = self._parts.clients.groups.validate(
                group['template'],
                parameters=group['parameters'] or None,
                context=flask.g.context,
            )['policies']
        except errors.SchedError:  # it names more than itself, such as a flavor that is gone
            policies = []
        return flask.render_template(
            'group.html',
            group=group,
            tree=tree(members),
            states=states(members),
            policies=policies,
            hosts=sorted({member['host'] for member in members if member['host']}),
        )

    def try_out(self):
        """A dry run of a template: its plan, or the policies that collide."""
        template = flask.request.form.get('template', '')
        if not template.strip():
            raise errors.InvalidRequest('template', 'there is none')
        try:
            group = answer(self._handlers.create_group, body={'template': template}, dry_run=True)
        except errors.GroupRefused as error:
            return flask.render_template(
                'group_refused.html', reason=str(error), details=error.details or {}
            )
        return flask.render_template(
            'group_tried.html',
            group=group,
            tree=tree(group['members']),
            states=states(group['members']),
        )


def tree(members):
    """Nested branches, the widest domain first. A branch is a mapping of its ``level``, ``name``,
    ``branches`` and ``members``; members without a place are in the branch of level None."""
    root = {'level': '', 'name': '', 'branches': [], 'members': []}
    for member in members:
        branch = root
        for level, name in _domains(member):
            for child in branch['branches']:
                if (child['level'], child['name']) == (level, name):
                    break
            else:
                child = {'level': level, 'name': name, 'branches': [], 'members': []}
                branch['branches'].append(child)
            branch = child
        branch['members'].append(member)
    return root['branches']


def _domains(member):
    """The domains of a member, the widest first."""
    domains = [(level, name) for level, name in member['domains'].items() if name is not None]
    if not domains and not member['host']:
        return [(None, 'no place')]
    wide_first = [(level, name) for level, name in reversed(domains) if level != HOST]
    if member['host']:
        wide_first.append((HOST, member['host']))
    # A domain with the name of a narrower one says nothing new: the node reports none there.
    names = [name for _, name in wide_first]
    return [domain for place, domain in enumerate(wide_first, 1) if domain[1] not in names[place:]]


def states(members):
    """How many members are in each state."""
    return dict(collections.Counter(member['state'] for member in members))
