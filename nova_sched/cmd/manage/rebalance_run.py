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
"""`rebalance run`, `list`, `show` and `stop`: moves that are carried out."""

import json
import pathlib
import sys
import time

from nova_sched import errors
from nova_sched.cmd.manage import numbers, output, rebalance_plan, store, tables
from nova_sched.conf import cluster, nova_api
from nova_sched.db.rebalances import ENDS, REFUSED, REVERTED, STATES, SqlRebalances
from nova_sched.rebalance import read_moves

LOOK_S = 0.5  # interval at which --wait looks


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
    if cluster.reads_nova(conf) and not nova_api.is_set(conf):
        why = 'it is not set: Nova moves the servers of its cloud, and its API needs an account'
        raise errors.BadConfig('[nova_api] auth_type', why)
    if (args.plan is None) == (args.goal is None):
        raise errors.InvalidRequest('rebalance run', 'give either PLAN or --goal')
    moves = (
        read(args.plan)
        if args.goal is None
        else read_moves(rebalance_plan.planned(args, conf)['moves'])
    )
    rebalances = SqlRebalances(store.ready(conf))
    made = rebalances.create(moves, goal=args.goal, close_s=args.close)
    if args.wait:
        _wait(rebalances, made)
    return _show(args, rebalances, made)


def list_rebalances(args, conf):
    """List rebalances, oldest first

    A rebalance is running until each of its moves has ended, then done; stopping and stopped, if
    'rebalance stop' was called. It is listed for 7 days.

    Keys: rebalance_uuid, goal (null for the plan of a file), periodic, state, created_at,
    stopped_at, moves (number by state).
    """
    rebalances = SqlRebalances(store.ready(conf))
    found = rebalances.list()
    output.show(args, [row(one) for one in found], columns(rebalances.now_s()))
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
        raise errors.InvalidRequest('PLAN', f'{path} is no JSON: {error}') from None
    given = plan.get('moves') if isinstance(plan, dict) else None
    if not isinstance(given, list):
        why = "it has no list 'moves': give the output of 'rebalance plan --format json'"
        raise errors.InvalidRequest('PLAN', why)
    return read_moves(given)


def _wait(rebalances, uuid):
    """Until the rebalance has ended."""
    while any(one.state in ('running', 'stopping') for one in rebalances.list(uuid)):
        time.sleep(LOOK_S)


def _show(args, rebalances, uuid):
    found = rebalances.list(uuid)
    if not found:
        raise errors.RebalanceNotFound(uuid)
    shown = row(found[0]) | {'plan': [_row(one) for one in rebalances.moves(uuid)]}
    output.show(args, shown, text=page)
    return 0


def row(entry):
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


def _row(entry):
    return {
        'move_uuid': entry.uuid,
        'server': entry.server,
        'source': entry.source,
        'destination': entry.destination,
        'state': entry.state,
        'why': entry.why,
        'started_at': tables.moment(entry.started_s),
        'changed_at': tables.moment(entry.changed_s),
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


def page(found):
    """A rebalance as text: its state, and its moves."""
    counts = ', '.join(f'{number} {state}' for state, number in found['moves'].items() if number)
    lines = [
        f'Rebalance  {found["rebalance_uuid"]}, {found["state"]}',
        f'Moves      {counts or "none"}',
    ]
    if found['plan']:
        lines += ['', tables.table(MOVES, found['plan'])]
    return '\n'.join(lines)


def _run_arguments(parser):
    parser.add_argument(
        'plan', metavar='PLAN', nargs='?', help='file with the plan; - is standard input'
    )
    rebalance_plan.add_arguments(parser, required=False)
    parser.add_argument(
        '--close',
        metavar='TIME',
        type=numbers.span,
        help='for this time (90, 15m, 2h, 7d) from now on, the sources of the moves take no new '
        'servers; their services are disabled, with the reason, and then enabled again',
    )
    parser.add_argument('--wait', action='store_true', help='wait until all moves have ended')


def _rebalance_argument(parser):
    parser.add_argument('rebalance', metavar='UUID', help='UUID of the rebalance')


VERBS = (
    ('run', run, _run_arguments),
    ('list', list_rebalances),
    ('show', show, _rebalance_argument),
    ('stop', stop, _rebalance_argument),
)
