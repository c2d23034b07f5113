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
"""`group`: groups of servers, planned together before the first one exists."""

import contextlib
import sys

from nova_sched import errors
from nova_sched.cmd.manage import arguments, asking, group_pages, output
from nova_sched.cmd.manage.arguments import TIMEOUT, option


class BadFile(errors.InvalidRequest):
    """A file on the command line does not exist, or has other contents."""

    message = '{where}: {why}'


def create(args, conf):
    """Plan all members of a template together, and hold their places

    A group that cannot be placed as a whole is refused with the reason, and the exit status is 1.
    The servers are created afterwards by Nova's usual calls, with two scheduler hints: top_group,
    the UUID of the group, and member, the path of the member. With --dry-run nothing is held.

    Keys: those of 'group show'; of a group that is refused: refused (the
    reason), details (null for nothing).
    """
    from oslo_context.context import RequestContext  # late, as the bus

    given = _description(args)
    context = RequestContext(overwrite=False, project_id=args.project, user_id=args.user)
    return _told(
        args,
        conf,
        lambda groups: groups.create(
            **given, name=args.name, ttl=args.ttl, dry_run=args.dry_run, context=context
        ),
        group_pages.page,
    )


def update(args, conf):
    """Replace the whole template of a group

    Members that are built stay where they are, unless a required policy forces a move: the answer
    lists each move that is needed, and why. With --generation the group stays unchanged if another
    request has changed it since. With --dry-run nothing is changed.

    Keys: those of 'group create'.
    """
    given = _description(args)
    return _told(
        args,
        conf,
        lambda groups: groups.update(
            args.uuid,
            **given,
            generation=args.generation,
            ttl=args.ttl,
            dry_run=args.dry_run,
            project_id=args.project,
        ),
        group_pages.page,
    )


def show(args, conf):
    """Show a group with its members and where they are

    A member is planned (its place is held), pending (its server is being built), confirmed (its
    server is built), or unplaced (nothing is held for it any more).

    Keys: uuid, name, project_id, user_id, status (planned, building, built,
    incomplete, deleting), generation (of its template; from 1), serial (of its template and
    places), template, parameters, members (path, state, member_uuid, instance_uuid, host,
    nodename, compute_node_uuid, availability_zone, domains (name by level)), moves (path,
    instance_uuid, from_host, to_host, reason), warnings, dry_run, created_at, updated_at,
    expires_at.
    """
    return _told(args, conf, lambda groups: groups.show(args.uuid, args.project), group_pages.page)


def list_groups(args, conf):
    """List groups, oldest first

    Keys: those of 'group show' but template, parameters, members and moves.
    """
    wanted = {
        'project_id': args.project,
        'name': args.name,
        'marker': args.marker,
        'limit': args.limit,
    }
    return _told(args, conf, lambda groups: groups.list(**wanted), group_pages.listing)


def plan(args, conf):
    """Draw the actual or planned places of a group's members, as a tree of domains

    With --replan, members without a good place (the plan expired, or the host is gone) are placed
    first, in addition to the members that are built.

    Keys: those of 'group create'.
    """
    from nova_sched.groups.topology import DomainTopology  # late: it imports NumPy

    below = DomainTopology(conf.topology.levels, conf.topology.orders).below
    return _told(
        args,
        conf,
        lambda groups: groups.plan(args.uuid, args.project, args.replan, args.dry_run),
        lambda row: group_pages.tree(row, below),
    )


def renew(args, conf):
    """Hold the places of the members that are not created yet for longer

    Keys: those of 'group show'.
    """
    return _told(
        args,
        conf,
        lambda groups: groups.renew(args.uuid, args.ttl, args.project, args.dry_run),
        group_pages.page,
    )


def delete(args, conf):
    """End the planned claims of a group, and delete it

    Servers that were created for it stay, and keep their resources until they are deleted. With
    --dry-run the group is shown as it would be left.

    Keys: deleted (the UUID); with --dry-run those of 'group show'.
    """

    def ask(groups):
        return groups.delete(args.uuid, args.generation, args.dry_run, args.project)

    gone = asking.ask(args, conf, 'GroupsClient', ask)
    if gone is not None:
        _show(args, gone, group_pages.page)
    else:
        output.show(args, {'deleted': args.uuid}, text=lambda _: f'Group {args.uuid} is deleted.')
    return 0


def topology(args, conf):
    """Show the levels of failure domains, and the nodes that do not report theirs

    A node without a domain at a level shares one there with the nodes of its domain at the level
    below.

    Keys: domains (number by level, from narrow to wide), warnings.
    """
    answer = asking.ask(args, conf, 'GroupsClient', lambda groups: groups.topology())
    output.show(args, answer, text=group_pages.topology)
    return 0


def validate(args, conf):
    """Check a template, and list its members and policies

    Calls neither a scheduler, nor the bus, nor a database. From the configuration it reads
    [topology], [groups] flavors, max_members, read_seconds and solver, and [pci] alias. The exit
    status is 1 for a template that is not valid, with a member that Nova would refuse to create,
    or with required policies that contradict each other on any cluster.

    Keys: ok, error (where, line, column, why; null for none), members (path,
    flavor, vcpus, memory_mb, disk_gb, availability_zone), policies (name, kind, level, members,
    others, weight (null: required), most, min_domains, max_skew), warnings, contradiction (text;
    null: none was found).
    """
    from nova_sched.engine.groups import reading  # late: these import the solver
    from nova_sched.groups import why
    from nova_sched.groups.exact import worker
    from nova_sched.groups.topology import DomainTopology

    given = _description(args)
    topology = DomainTopology(conf.topology.levels, conf.topology.orders)
    try:
        rules = reading.ReadingRules.of(conf.groups, topology.levels)
        definition = reading.read(reading.Given(**given), rules, rules.seconds).definition
    except (errors.TemplateError, errors.InvalidRequest) as error:
        place = {name: getattr(error, name, None) for name in errors.TemplateError.facts}
        if args.format == output.TABLE:
            output.complain(group_pages.mistake(args.file, **place))
        else:
            output.show(args, {'ok': False, 'error': place})
        return 1
    with worker.Solver() if conf.groups.solver else contextlib.nullcontext() as solver:
        collision = why.contradiction_anywhere(definition, topology.levels, solver=solver)
    document = {
        'ok': collision is None,
        'error': None,
        **definition.summary(),
        'contradiction': collision,
    }
    output.show(args, document, text=group_pages.validated)
    return 0 if document['ok'] else 1


# Calls to the scheduler.


def _told(args, conf, question, page):
    """Call a scheduler, and show the group or the refusal. Return the exit status."""
    try:
        answer = asking.ask(args, conf, 'GroupsClient', question)
    except errors.GroupRefused as refused:
        if args.format == output.TABLE:
            output.complain(group_pages.refusal(refused))
        else:
            output.show(args, {'refused': refused.reason, 'details': refused.details})
        return 1
    except errors.TemplateError as error:
        place = {name: getattr(error, name) for name in errors.TemplateError.facts}
        output.complain(group_pages.mistake(args.file, **place))
        return 1
    _show(args, answer, page)
    return 0


def _show(args, answer, page):
    many = isinstance(answer, list)
    rows = [*map(group_pages.plain, answer)] if many else group_pages.plain(answer)
    output.show(args, rows, text=page)


def _description(args):
    """The arguments of `create` that describe the members, from files and options."""
    parameters = {**(_mapping(args.parameters) or {}), **dict(args.parameter)}
    return {
        'template': _text(args.file),
        'parameters': parameters or None,
        'flavors': _mapping(args.flavors),
        'images': _mapping(args.images),
    }


def _text(path):
    """The contents of a file; - is standard input. Raises BadFile."""
    try:
        if path == '-':
            return sys.stdin.read()
        with open(path, encoding='utf-8') as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise BadFile(path, getattr(error, 'strerror', None) or str(error)) from None


def _mapping(path):
    """The YAML mapping in a file; None without a file. Raises BadFile."""
    from nova_sched.groups.template import source  # late: most commands need it not

    if path is None:
        return None
    try:
        mapping = source.plain(_text(path))
    except errors.TemplateError as error:
        raise BadFile(path, error.fault) from None
    if not isinstance(mapping, dict):
        raise BadFile(path, 'it holds no mapping')
    return mapping


# The command line.


def _project(help_):
    return option('--project', metavar='ID', help=help_)


def _ttl(help_='how long to hold the places of members that are not created'):
    return option('--ttl', metavar='SECONDS', type=int, help=f'{help_} ([groups] plan_ttl)')


UUID = option('uuid', metavar='UUID', help='UUID of the group')
OF_PROJECT = _project('only if the group is of this project')
GENERATION = option('--generation', metavar='N', type=int, help='only if it is at this generation')
DRY_RUN = option('--dry-run', action='store_true', help='change nothing, and show the result')
DESCRIPTION = (
    option('file', metavar='FILE', help='the template, YAML or JSON; - is standard input'),
    option(
        '--parameter',
        metavar='KEY=VALUE',
        type=arguments.pair,
        action='append',
        default=[],
        help='a parameter of the template; may be repeated, and goes before those of --parameters',
    ),
    *(
        option(f'--{name}', metavar='FILE', help=f'YAML file of {what}')
        for name, what in (
            ('parameters', 'the parameters of the template by name'),
            ('flavors', 'flavors that the template names, before those of [groups] flavors'),
            ('images', 'images that the template names'),
        )
    ),
)
VERBS = (
    (
        'create',
        create,
        *DESCRIPTION,
        option('--name', metavar='NAME', help='name of the group'),
        _project('project of the group'),
        option('--user', metavar='ID', help='user that creates the group'),
        _ttl(),
        DRY_RUN,
        TIMEOUT,
    ),
    ('show', show, UUID, OF_PROJECT, TIMEOUT),
    (
        'list',
        list_groups,
        _project('only groups of this project'),
        option('--name', metavar='NAME', help='only groups of this name'),
        option('--marker', metavar='UUID', help='only groups after this one'),
        option('--limit', metavar='N', type=int, help='maximum number'),
        TIMEOUT,
    ),
    ('update', update, UUID, *DESCRIPTION, OF_PROJECT, GENERATION, _ttl(), DRY_RUN, TIMEOUT),
    ('delete', delete, UUID, OF_PROJECT, TIMEOUT, GENERATION, DRY_RUN),
    (
        'plan',
        plan,
        UUID,
        OF_PROJECT,
        TIMEOUT,
        option('--replan', action='store_true', help='first place the members that have no place'),
        DRY_RUN,
    ),
    ('validate', validate, *DESCRIPTION),
    ('renew', renew, UUID, OF_PROJECT, TIMEOUT, _ttl('how long from now'), DRY_RUN),
    ('topology', topology, TIMEOUT),
)
