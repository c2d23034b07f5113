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

"""`openstack placement group ...`: groups of servers, planned together before the first exists."""

import pathlib
import sys

import yaml
from osc_lib import exceptions
from osc_lib.command import command

from nova_sched.extensions.openstackclient.plugin import (
    DICT,
    DICTS,
    GROUPS,
    LIST,
    Action,
    at,
    option,
)

BRIEF = ('uuid', 'name', 'project_id', 'status', 'generation', 'created_at', 'expires_at')
MEMBER = ('path', 'state', 'host', 'availability_zone', 'instance_uuid', 'domains')
NESTED = {
    'parameters': DICT,
    'members': DICTS,
    'moves': DICTS,
    'policies': DICTS,
    'warnings': LIST,
}
HIDDEN = ('links', 'template')


def _pair(text):
    key, equals, value = text.partition('=')
    if not key or not equals:
        raise ValueError(text)
    return key, value


_pair.__name__ = '<key=value>'  # argparse adds this text to its error

GROUP = option('group', metavar='<uuid>', help='UUID of the group')
NAME = option('--name', metavar='<name>', help='name of the group')
TTL = option(
    '--ttl',
    metavar='<seconds>',
    type=int,
    help='seconds for which the places of members that are not created yet are held',
)
DRY_RUN = option('--dry-run', action='store_true', help='change nothing, show the result')
GENERATION = option(
    '--generation', metavar='<number>', type=int, help='only if it is at this generation'
)
DESCRIPTION = (
    option('template', metavar='<file>', help='the template, YAML or JSON; - is standard input'),
    option(
        '--parameter',
        metavar='<key=value>',
        action='append',
        default=[],
        type=_pair,
        help='a parameter of the template; may be repeated, and goes before those of --parameters',
    ),
    *(
        option(f'--{name}', metavar='<file>', help=f'YAML file of {what}')
        for name, what in (
            ('parameters', 'the parameters of the template by name'),
            ('flavors', 'flavors that the template names'),
            ('images', 'images that the template names'),
        )
    ),
)


class CreateGroup(Action, command.ShowOne):
    """Plan all members of a template together, and hold their places"""

    arguments = (*DESCRIPTION, NAME, TTL, DRY_RUN)

    def take_action(self, parsed_args):
        body = {**_description(parsed_args), 'name': parsed_args.name, 'ttl': parsed_args.ttl}
        return _shown(
            self.api.ask('POST', GROUPS, {'dry_run': parsed_args.dry_run}, json=body).json()
        )


class ListGroups(Action, command.Lister):
    """List placement groups, the oldest first"""

    arguments = (
        option('--name', metavar='<name>', help='only groups of this name'),
        option(
            '--status',
            choices=('planned', 'building', 'built', 'incomplete', 'deleting'),
            help='only groups of this status',
        ),
        option('--project', metavar='<id>', help='only groups of this project (admin)'),
        option('--all-projects', action='store_true', help='groups of all projects (admin)'),
        option('--marker', metavar='<uuid>', help='only groups after this one'),
        option('--limit', metavar='<number>', type=int, help='maximum number'),
    )

    def take_action(self, parsed_args):
        groups = self.api.pages(
            GROUPS,
            'groups',
            parsed_args.limit,
            name=parsed_args.name,
            status=parsed_args.status,
            project_id=parsed_args.project,
            all_projects=parsed_args.all_projects or None,
            marker=parsed_args.marker,
        )
        return BRIEF, [[group[name] for name in BRIEF] for group in groups]


class ShowGroup(Action, command.ShowOne):
    """Show a placement group with its members and their places"""

    arguments = (GROUP,)

    def take_action(self, parsed_args):
        return _shown(self.api.ask('GET', at(GROUPS, parsed_args.group)).json())


class SetGroup(Action, command.ShowOne):
    """Replace the template of a placement group

    Members that are built stay where they are, unless a required policy forces a move: the answer
    lists each move that is needed.
    """

    arguments = (GROUP, *DESCRIPTION, GENERATION, TTL, DRY_RUN)

    def take_action(self, parsed_args):
        body = _description(parsed_args)
        path = at(GROUPS, parsed_args.group)
        if parsed_args.ttl is not None:
            body['ttl'] = parsed_args.ttl
        if parsed_args.generation is None:  # then the one that is there now counts
            seen = self.api.ask('GET', path).headers.get('ETag', '*')
        else:
            seen = _tag(parsed_args.generation)
        query = {'dry_run': parsed_args.dry_run}
        answer = self.api.ask('PUT', path, query, json=body, headers={'If-Match': seen})
        return _shown(answer.json())


class DeleteGroup(Action, command.Command):
    """Delete placement groups

    The planned claims end at once. Servers that were created stay, and keep their resources.
    """

    arguments = (
        option('groups', metavar='<uuid>', nargs='+', help='UUIDs of the groups'),
        GENERATION,
    )

    def take_action(self, parsed_args):
        more = {}
        if parsed_args.generation is not None:
            more['headers'] = {'If-Match': _tag(parsed_args.generation)}
        for group in parsed_args.groups:
            self.api.ask('DELETE', at(GROUPS, group), **more)


class PlanGroup(Action, command.Lister):
    """Show the actual or planned place of each member, at every level"""

    arguments = (
        GROUP,
        option('--replan', action='store_true', help='first place the members that have no place'),
        DRY_RUN,
    )

    def take_action(self, parsed_args):
        path = at(GROUPS, parsed_args.group, 'plan')
        if parsed_args.replan:
            answer = self.api.ask('POST', path, {'dry_run': parsed_args.dry_run})
        elif parsed_args.dry_run:
            raise exceptions.CommandError('--dry-run is for --replan: without it nothing changes')
        else:
            answer = self.api.ask('GET', path)
        members = answer.json()['members']
        return MEMBER, [
            [DICT(member[name]) if name == 'domains' else member[name] for name in MEMBER]
            for member in members
        ]


class RenewGroup(Action, command.ShowOne):
    """Hold the places of the members that are not created yet for longer"""

    arguments = (GROUP, TTL, DRY_RUN)

    def take_action(self, parsed_args):
        query, body = {'dry_run': parsed_args.dry_run}, {'ttl': parsed_args.ttl}
        path = at(GROUPS, parsed_args.group, 'renew')
        return _shown(self.api.ask('POST', path, query, json=body).json())


class ValidateGroup(Action, command.ShowOne):
    """Check a template, and show its members and policies"""

    arguments = DESCRIPTION

    def take_action(self, parsed_args):
        body = _description(parsed_args)
        return _shown(self.api.ask('POST', at(GROUPS, 'validate'), json=body).json())


def _shown(document):
    """A mapping as columns and values."""
    kept = {name: value for name, value in document.items() if name not in HIDDEN}
    return tuple(kept), [
        NESTED[name](value) if name in NESTED and value else value for name, value in kept.items()
    ]


def _tag(generation):
    return f'"{generation}"'


# The template, and what it names.


def _description(args):
    """The part of a body that describes the members. Raises CommandError."""
    parameters = {**_mapping(args.parameters), **dict(args.parameter)}
    given = {'parameters': parameters, 'flavors': _mapping(args.flavors)}
    given['images'] = _mapping(args.images)
    return {
        'template': _text(args.template),
        **{key: value for key, value in given.items() if value},
    }


def _text(path):
    try:
        return sys.stdin.read() if path == '-' else pathlib.Path(path).read_text('utf-8')
    except (OSError, ValueError) as error:
        why = getattr(error, 'strerror', None) or str(error)
        raise exceptions.CommandError(f'{path} cannot be read: {why}') from None


def _mapping(path):
    """The mapping in a file; empty without a file."""
    if path is None:
        return {}
    try:
        mapping = yaml.safe_load(_text(path))
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # PyYAML's own, too
        raise exceptions.CommandError(f'{path}: {" ".join(str(error).split())}') from None
    if not isinstance(mapping, dict):
        raise exceptions.CommandError(f'{path} holds no mapping')
    return mapping
