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
"""`rebalance`: moves servers between hosts. A running scheduler plans the moves; a plan is kept in
the database, from which the schedulers carry it out."""

import argparse
import json
import pathlib
import sys
import time

from nova_sched import errors
from nova_sched.cmd.manage import arguments, asking, output, store, tables
from nova_sched.cmd.manage.arguments import TIMEOUT, option
from nova_sched.conf import cluster, services
from nova_sched.db.rebalances import ENDS, REFUSED, REVERTED, STATES, SqlRebalances
from nova_sched.extensions.optimize.rebalance import (
    DRAIN,
    EMPTY,
    FIT,
    GOALS,
    MAX_SEARCH_S,
    SEARCH_S,
    read_goal,
    read_moves,
)

POLL_S = 0.5  # interval at which --wait polls


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
    output.show(args, {'goal': args.goal, **planned(args, conf)}, text=plan_page)
    return 0


def planned(args, conf):
    """The plan of a running scheduler, as plain values. A thorough one may take its time in
    addition to the timeout. Raises FlavorNotFound."""
    if args.thorough:
        args.timeout += args.time_limit
    wanted, spec = read_goal(args.goal), None
    if wanted.kind == FIT:
        parser = argparse.ArgumentParser()
        arguments.add_request(parser)
        spec = arguments.request_spec(parser.parse_args(['--flavor', wanted.names[0]]), conf)
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


PLANNED_MOVES = {
    'Server': lambda row: row['server'],
    'From': lambda row: row['source_host'],
    'To': lambda row: row['destination_host'],
}
OBSTACLES = {
    'Rule': lambda row: row['rule'],
    'Hosts': lambda row: row['hosts'],
    'Such as host': lambda row: row['host'],
    'and server': lambda row: row['server'] or '-',
}


def plan_page(plan):
    """The figures of a plan, its moves, and why it has no more."""
    kind, before, after = plan['goal'].partition(':')[0], plan['before'], plan['after']
    if kind == EMPTY:
        figure = f'Empty hosts: {before} now, {after} afterwards.'
    elif kind == DRAIN:
        figure = f'Servers on the hosts to drain: {before} now, {after} afterwards.'
    elif kind == FIT:
        figure = f'Places for the flavor: {before} now, {after} afterwards.'
    else:
        figure = f'The fullest host: {before:.1%} in use now, {after:.1%} afterwards.'
    moves = tables.count(len(plan['moves']), 'move')
    on = f'{tables.count(plan["servers"], "server")} on {tables.count(plan["hosts"], "host")}'
    lines = [f'{moves} of {on}. {figure}']
    if plan['moves']:
        lines += ['', tables.table(PLANNED_MOVES, plan['moves'])]
    if plan['emptied']:
        names = ', '.join(host['host'] for host in plan['emptied'])
        lines += ['', tables.fill(names, 'Emptied: ')]
    if (bound := plan['bound']) is not None:  # the best that any plan can do
        if kind == FIT:
            reached, best = after, f'makes more than {tables.count(bound, "place")}'
        else:
            reached = len(plan['emptied'])
            best = f'empties more than {tables.count(bound, "host")}'
        proof = f'No plan of so many moves {best} (by {plan["bound_by"]}).'
        lines += ['', f'{proof} This plan is optimal.' if reached >= bound else proof]
    if plan['is_spent']:
        end = 'The plan ends because it has as many moves as are allowed.'
    elif plan['obstacles']:
        end = 'The plan ends because no other host can be helped. Rules that kept servers:'
    else:
        end = 'The plan ends because nothing is left to do.'
    lines += ['', end]
    if plan['obstacles']:
        lines += ['', tables.table(OBSTACLES, plan['obstacles'])]
    return '\n'.join(lines)


def _goal(text):
    try:
        read_goal(text)
    except errors.InvalidRequest as error:
        raise argparse.ArgumentTypeError(error.why) from None
    return text


# Rebalances in the database.


def run(args, conf):
    """Carry out a plan of moves: a running scheduler starts them

    PLAN is a file as 'rebalance plan --format json' prints it, or - for standard input: an object
    with a list 'moves' of objects with server, source and destination, all UUIDs; other keys are
    left out. With --goal instead, a running scheduler makes the plan, as 'rebalance plan' does:
    empty, drain:NAME,..., fit:FLAVOR or spread.

    The moves are stored in the database. The first of the running schedulers starts them, the
    oldest server first, [rebalance] in_flight at the same time. It checks each move again before
    it starts.

    Keys: those of 'rebalance show'.
    """
    if cluster.reads_nova(conf) and not services.has_nova_account(conf):
        why = 'it is not set: Nova moves the servers of its cloud, and its API needs an account'
        raise errors.BadConfig('[nova_api] auth_type', why)
    if (args.plan is None) == (args.goal is None):
        raise errors.InvalidRequest('rebalance run', 'give either PLAN or --goal')
    moves = read(args.plan) if args.goal is None else read_moves(planned(args, conf)['moves'])
    rebalances = SqlRebalances(store.ready(conf))
    uuid = rebalances.create(moves, goal=args.goal, close_s=args.close)
    while args.wait and any(
        rebalance.state in ('running', 'stopping') for rebalance in rebalances.list(uuid)
    ):
        time.sleep(POLL_S)
    return _show(args, rebalances, uuid)


def list_rebalances(args, conf):
    """List rebalances, oldest first

    A rebalance is running until each of its moves has ended, then done; stopping and stopped, if
    'rebalance stop' was called. It is listed for 7 days.

    Keys: rebalance_uuid, goal (null for the plan of a file), periodic, state, created_at,
    stopped_at, moves (number by state).
    """
    rebalances = SqlRebalances(store.ready(conf))
    listed = rebalances.list()
    output.show(
        args, [rebalance_row(rebalance) for rebalance in listed], columns(rebalances.now_s())
    )
    return 0


def show(args, conf):
    """Show a rebalance and its moves, in the order in which they start

    The state of a move is waiting; held, while a scheduler checks it and claims on its
    destination; handed-over, while a conductor moves the server; and in the end confirmed,
    reverted (the server is on its source again), or refused before it was handed over, both with
    the reason. One that is handed over or confirmed has a reason if its server has no claim on the
    destination.

    Keys: those of 'rebalance list', and plan (each move: move_uuid, server, source, destination,
    state, why, started_at, changed_at).
    """
    return _show(args, SqlRebalances(store.ready(conf)), args.rebalance)


def stop(args, conf):
    """Start no more moves of a rebalance

    No conductor gets a move after that. Moves that a conductor has already go on to their end. The
    hosts that the rebalance has closed take new servers again.

    Keys: those of 'rebalance show'.
    """
    rebalances = SqlRebalances(store.ready(conf))
    if rebalances.stop(args.rebalance) is None:
        raise errors.RebalanceNotFound(args.rebalance)
    return _show(args, rebalances, args.rebalance)


def read(path):
    """The moves of a plan, as a list of Move. Raises InvalidRequest, with the place."""
    try:
        text = sys.stdin.read() if path == '-' else pathlib.Path(path).read_text('utf-8')
        plan = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidRequest('PLAN', f'{path} cannot be read: {error}') from None
    except (ValueError, RecursionError) as error:
        raise errors.InvalidRequest('PLAN', f'{path} is not JSON: {error}') from None
    given = plan.get('moves') if isinstance(plan, dict) else None
    if not isinstance(given, list):
        why = "it has no list 'moves': give the output of 'rebalance plan --format json'"
        raise errors.InvalidRequest('PLAN', why)
    return read_moves(given)


def _show(args, rebalances, uuid):
    listed = rebalances.list(uuid)
    if not listed:
        raise errors.RebalanceNotFound(uuid)
    moves = [
        {
            'move_uuid': move.uuid,
            'server': move.server,
            'source': move.source,
            'destination': move.destination,
            'state': move.state,
            'why': move.why,
            'started_at': tables.moment(move.started_s),
            'changed_at': tables.moment(move.changed_s),
        }
        for move in rebalances.moves(uuid)
    ]
    shown = rebalance_row(listed[0]) | {'plan': moves}
    output.show(args, shown, text=rebalance_page)
    return 0


def rebalance_row(entry):
    """A rebalance as its keys and values."""
    return {
        'rebalance_uuid': entry.uuid,
        'goal': entry.goal,
        'periodic': bool(entry.periodic),
        'state': entry.state,
        'created_at': tables.moment(entry.created_s),
        'stopped_at': tables.moment(entry.stopped_s),
        'moves': {state: entry.counts.get(state, 0) for state in STATES},
    }


def columns(now_s):
    """The columns of a list of rebalances."""
    return {
        'Rebalance': lambda row: row['rebalance_uuid'],
        'Goal': lambda row: row['goal'] or 'a plan',
        'State': lambda row: row['state'],
        'Created': lambda row: tables.age(row['created_at'], now_s),
        'Moves': lambda row: sum(row['moves'].values()),
        'Ended': lambda row: sum(row['moves'][state] for state in ENDS),
        'Not moved': lambda row: row['moves'][REFUSED] + row['moves'][REVERTED],
    }


MOVES = {
    'Server': lambda row: row['server'],
    'From': lambda row: row['source'],
    'To': lambda row: row['destination'],
    'State': lambda row: row['state'],
    'Why': lambda row: row['why'] or '',
}


def rebalance_page(rebalance):
    """A rebalance as text: its state, and its moves."""
    counts = ', '.join(
        f'{number} {state}' for state, number in rebalance['moves'].items() if number
    )
    lines = [
        f'Rebalance  {rebalance["rebalance_uuid"]}, {rebalance["state"]}',
        f'Moves      {counts or "none"}',
    ]
    if rebalance['plan']:
        lines += ['', tables.table(MOVES, rebalance['plan'])]
    return '\n'.join(lines)


GOAL = {'metavar': 'GOAL', 'type': _goal, 'help': f'{", ".join(GOALS)}: see above'}
PLANNING = (
    option(
        '--moves', metavar='N', help='the most moves: a number, or a share of the servers: 1%%'
    ),
    option('--zone', metavar='NAME', help='only hosts of this availability zone'),
    option('--aggregate', metavar='NAME', help='only hosts of this aggregate, by name or UUID'),
    option('--thorough', action='store_true', help='search for a better plan, for empty and fit'),
    option(
        '--time-limit',
        metavar='SECONDS',
        type=arguments.from_1,
        default=SEARCH_S,
        help=f'the most seconds that --thorough takes, up to {MAX_SEARCH_S} ({SEARCH_S})',
    ),
    TIMEOUT,
)
UUID = option('rebalance', metavar='UUID', help='UUID of the rebalance')
VERBS = (
    ('plan', plan, option('--goal', required=True, **GOAL), *PLANNING),
    (
        'run',
        run,
        option('plan', metavar='PLAN', nargs='?', help='file with the plan; - is standard input'),
        option('--goal', **GOAL),
        *PLANNING,
        option(
            '--close',
            metavar='TIME',
            type=arguments.span,
            help='for this time (90, 15m, 2h, 7d) from now on, the sources of the moves take '
            'no new servers; their services are disabled, with the reason, and then enabled '
            'again',
        ),
        option('--wait', action='store_true', help='wait until all moves have ended'),
    ),
    ('list', list_rebalances),
    ('show', show, UUID),
    ('stop', stop, UUID),
)
