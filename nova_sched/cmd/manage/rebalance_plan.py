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
"""`rebalance plan`: which moves would empty hosts, drain them, make places, or even out."""

import argparse
import types

from nova_sched import errors
from nova_sched.cmd.manage import asking, numbers, output, specs, tables
from nova_sched.rebalance import (
    DRAIN,
    EMPTY,
    FIT,
    GOALS,
    LONGEST_SEARCH_S,
    SEARCH_S,
    read_goal,
)


def plan(args, conf):
    """Plan moves of servers between hosts; none is made

    A running scheduler makes the plan from its host state, with its filters, and beside its
    decisions. The goals:

    empty            as many hosts without servers as possible
    drain:NAME,...   no servers on these hosts, or on those of an aggregate or a zone, or of a
                     domain at a level of [topology] levels, such as rack=r1
    fit:FLAVOR       as many places for the flavor as possible
    spread           a lower highest share of use

    The moves may be made in any order, several at once, and may stop anywhere: a host that a
    server leaves receives none, and both hosts have room for a server while it moves.

    With --thorough a search takes up to --time-limit seconds to find a better plan, or to prove
    that there is none, for the goals empty and fit.

    Keys: goal, servers, hosts, moves (server, source, destination, source_host,
    destination_host), emptied (node, host), before, after, bound, bound_by, is_spent, obstacles
    (rule, hosts, server, host).
    """
    output.show(args, {'goal': args.goal, **planned(args, conf)}, text=page)
    return 0


def planned(args, conf):
    """The plan of a running scheduler, as plain values. A thorough one may take its time in
    addition to the timeout."""
    if args.thorough:
        args.timeout += args.time_limit
    wanted = read_goal(args.goal)
    spec = _spec_of(wanted.names[0], conf) if wanted.kind == FIT else None
    return asking.ask(
        args,
        conf,
        'ExplainClient',
        lambda scheduler: scheduler.plan_moves(
            args.goal,
            args.moves,
            args.zone,
            args.aggregate,
            spec,
            args.time_limit if args.thorough else None,
        ),
    )


def _spec_of(flavor, conf):
    """A RequestSpec of a server of the flavor. Raises FlavorNotFound."""
    parser = argparse.ArgumentParser()
    specs.add_arguments(parser)
    return specs.spec(parser.parse_args(['--flavor', flavor]), conf)


MOVES = types.MappingProxyType(
    {
        'Server': lambda one: one['server'],
        'From': lambda one: one['source_host'],
        'To': lambda one: one['destination_host'],
    }
)
OBSTACLES = types.MappingProxyType(
    {
        'Rule': lambda one: one['rule'],
        'Hosts': lambda one: one['hosts'],
        'Such as host': lambda one: one['host'],
        'and server': lambda one: one['server'] or '-',
    }
)


def page(found):
    """The figures of a plan, its moves, and why it has no more."""
    moves = tables.count(len(found['moves']), 'move')
    on = f'{tables.count(found["servers"], "server")} on {tables.count(found["hosts"], "host")}'
    lines = [f'{moves} of {on}. {_figure(found)}']
    if found['moves']:
        lines += ['', tables.table(MOVES, found['moves'])]
    if found['emptied']:
        names = ', '.join(one['host'] for one in found['emptied'])
        lines += ['', tables.fill(names, 'Emptied: ')]
    if found['bound'] is not None:
        lines += ['', _bound(found)]
    lines += ['', _end(found)]
    if found['obstacles']:
        lines += ['', tables.table(OBSTACLES, found['obstacles'])]
    return '\n'.join(lines)


def _figure(found):
    kind, before, after = found['goal'].partition(':')[0], found['before'], found['after']
    if kind == EMPTY:
        return f'Empty hosts: {before} now, {after} afterwards.'
    if kind == DRAIN:
        return f'Servers on the hosts to drain: {before} now, {after} afterwards.'
    if kind == FIT:
        return f'Places for the flavor: {before} now, {after} afterwards.'
    return f'The fullest host: {before:.1%} in use now, {after:.1%} afterwards.'


def _bound(found):
    """The proof: the best that any plan can do, and what this one lacks of it."""
    bound, is_fit = found['bound'], found['goal'].partition(':')[0] == FIT
    reached = found['after'] if is_fit else len(found['emptied'])
    best = (
        f'makes more than {tables.count(bound, "place")}'
        if is_fit
        else f'empties more than {tables.count(bound, "host")}'
    )
    proof = f'No plan of so many moves {best} (by {found["bound_by"]}).'
    return f'{proof} This plan is optimal.' if reached >= bound else proof


def _end(found):
    if found['is_spent']:
        return 'The plan ends because it has as many moves as are allowed.'
    if found['obstacles']:
        return 'The plan ends because no other host can be helped. Rules that kept servers:'
    return 'The plan ends because nothing is left to do.'


def _goal(text):
    try:
        read_goal(text)
    except errors.InvalidRequest as error:
        raise argparse.ArgumentTypeError(error.why) from None
    return text


def add_arguments(parser, required=True):
    parser.add_argument(
        '--goal',
        metavar='GOAL',
        type=_goal,
        required=required,
        help=f'{", ".join(GOALS)}: see above',
    )
    parser.add_argument(
        '--moves', metavar='N', help='the most moves: a number, or a share of the servers: 1%%'
    )
    parser.add_argument('--zone', metavar='NAME', help='only hosts of this availability zone')
    parser.add_argument(
        '--aggregate', metavar='NAME', help='only hosts of this aggregate, by name or UUID'
    )
    parser.add_argument(
        '--thorough', action='store_true', help='search for a better plan, for empty and fit'
    )
    parser.add_argument(
        '--time-limit',
        metavar='SECONDS',
        type=numbers.from_1,
        default=SEARCH_S,
        help=f'the most seconds that --thorough takes, up to {LONGEST_SEARCH_S} ({SEARCH_S})',
    )
    asking.add_timeout(parser)


VERBS = (('plan', plan, add_arguments),)
