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
"""Rebalances in the database: their moves, and the hosts that take no new servers meanwhile.

The state of a move only goes forward: waiting, held (a scheduler checks it, and claims on its
destination), handed over to a conductor, and then confirmed or reverted; or it is refused before
that. All times are the database's.
"""

import dataclasses
import uuid

import sqlalchemy as sa

from nova_sched.db import clock
from nova_sched.db.tables import CLAIMS, CLOSED_HOSTS, MOVES, NODES, REBALANCES, REVISIONS
from nova_sched.db.transactions import THERE, Sessions, repeated

WAITING, HELD, HANDED_OVER = 'waiting', 'held', 'handed-over'
CONFIRMED, REVERTED, REFUSED = 'confirmed', 'reverted', 'refused'
IN_FLIGHT = (HELD, HANDED_OVER)
OPEN = (WAITING, *IN_FLIGHT)
ENDS = (CONFIRMED, REVERTED, REFUSED)
STATES = (*OPEN, *ENDS)
STOPPED = 'the rebalance was stopped'

AGAIN_S = 10.0  # a move in flight is read again after this time
HOUR_S = 3600.0
CHUNK = 500  # servers in one statement

# What starts, plans or stops moves, and closes or opens hosts, writes this row: so each of these
# transactions reads what the one before has done. On Galera a row that is only locked orders
# nothing.
HOLD = sa.update(REVISIONS).where(REVISIONS.c.name == 'moves').values(value=REVISIONS.c.value + 1)
IS_OPEN, FLIES = MOVES.c.state.in_(OPEN), MOVES.c.state.in_(IN_FLIGHT)
COUNT_FLYING = sa.select(sa.func.count()).select_from(MOVES).where(FLIES)
PERIODIC = sa.select(REBALANCES.c.uuid).where(REBALANCES.c.periodic)
# By their UUIDs, so that moves of other rebalances are not read.
COUNT_STARTED = (
    sa.select(sa.func.count())
    .select_from(MOVES)
    .where(
        MOVES.c.rebalance_uuid.in_(sa.bindparam('periodic', expanding=True)),
        MOVES.c.started_s > clock.NOW - HOUR_S,
    )
)
# Of one table, in the order of its index: a plan may have 100,000 moves that wait.
NEXT = (
    sa.select(MOVES)
    .where(
        MOVES.c.state == WAITING,
        MOVES.c.server.not_in(sa.select(MOVES.c.server).where(FLIES)),
    )
    .order_by(MOVES.c.since_s, MOVES.c.uuid)
    .limit(1)
)
NEXT_BY_HAND = NEXT.where(MOVES.c.rebalance_uuid.not_in(PERIODIC))
# A time that is further away than any was set: the database's clock has been set back since.
DUE = (
    sa.select(MOVES)
    .where(
        FLIES,
        sa.or_(
            MOVES.c.due_s <= clock.NOW,
            MOVES.c.due_s > clock.NOW + AGAIN_S,
            sa.and_(
                MOVES.c.state == HANDED_OVER,
                MOVES.c.due_s <= clock.NOW + AGAIN_S - sa.bindparam('again_s', type_=sa.Double()),
            ),
        ),
    )
    .order_by(MOVES.c.due_s, MOVES.c.uuid)
    .limit(1)
)
# A rebalance that keeps hosts closed can still be stopped.
OLD = (
    sa.select(REBALANCES.c.uuid)
    .where(REBALANCES.c.created_s < clock.NOW - sa.bindparam('kept_s'))
    .where(~sa.exists().where(MOVES.c.rebalance_uuid == REBALANCES.c.uuid, IS_OPEN))
    .where(~sa.exists().where(CLOSED_HOSTS.c.rebalance_uuid == REBALANCES.c.uuid))
)


@dataclasses.dataclass(frozen=True, slots=True)
class MoveEntry:
    """A stored move: server, source and destination are UUIDs, times are seconds since the epoch.

    ``since_s`` is when the server got its claim on the source; the oldest server moves first.
    ``claim_uuid`` is the claim on the destination, from when the move was handed over. In a Nova
    cloud it is the newest live migration of the server before Nova was asked for this one, or the
    move's own UUID if there was none. ``why`` is the reason why it was refused or reverted, or why
    its server has no claim on the destination.
    """

    uuid: str
    rebalance_uuid: str
    server: str
    source: str
    destination: str
    since_s: float
    state: str = WAITING
    serial: int = 0
    claim_uuid: str | None = None
    started_s: float | None = None
    changed_s: float = 0.0
    due_s: float | None = None
    why: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RebalanceEntry:
    """A stored rebalance, with the number of its moves by state."""

    uuid: str
    goal: str | None
    periodic: bool
    created_s: float
    stopped_s: float | None
    counts: dict

    @property
    def state(self):
        """Return `running`, `stopping`, `stopped` or `done`."""
        runs = any(self.counts.get(state) for state in OPEN)
        if self.stopped_s is None:
            return 'running' if runs else 'done'
        return 'stopping' if runs else 'stopped'


@dataclasses.dataclass(frozen=True, slots=True)
class ClosedHost:
    """A host that takes no new servers until ``until_s``; ``closed``: its service is disabled."""

    host: str
    rebalance_uuid: str
    until_s: float
    closed: bool


class SqlRebalances:
    """The tables of rebalances, which all schedulers share.

    Each method raises StoreUnavailable if the database does not answer; methods that change data
    also raise StoreFull, and StoreBusy if other transactions stop them again and again.
    """

    def __init__(self, engine):
        self._sessions = Sessions(engine)

    def now_s(self):
        """The time by the database's clock, in seconds since the epoch."""
        with self._sessions.transaction(reads=True) as connection:
            return clock.read(connection)

    # Rebalances.

    @repeated
    def create(self, moves, goal=None, close_s=None, interval_s=None, new_uuid=None):
        """Store a rebalance of these moves (rebalance.Move). Returns its UUID.

        ``close_s``: the sources take no new servers for so many seconds. ``interval_s`` makes it a
        periodic one: then it is stored only if no move is open, and no periodic one was created in
        so many seconds; otherwise None is returned. ``new_uuid`` is the UUID that it gets: with
        the same one, a repeated call changes nothing.
        """
        moves, new_uuid = list(moves), new_uuid or str(uuid.uuid4())
        try:
            return self._create(moves, goal, close_s, interval_s, new_uuid)
        except THERE:
            if not self.list(new_uuid):
                raise
            return new_uuid

    def _create(self, moves, goal, close_s, interval_s, new_uuid):
        with self._sessions.transaction() as connection:
            if interval_s is not None:
                connection.execute(HOLD)
            now_s = clock.read(connection)
            if interval_s is not None and not _is_due(connection, now_s - interval_s):
                return None
            connection.execute(
                sa.insert(REBALANCES),
                {
                    'uuid': new_uuid,
                    'goal': goal,
                    'periodic': interval_s is not None,
                    'created_s': now_s,
                },
            )
            since = _ages(connection, [move.server for move in moves])
            rows = [
                {
                    'uuid': str(uuid.uuid4()),
                    'rebalance_uuid': new_uuid,
                    'server': move.server,
                    'source': move.source,
                    'destination': move.destination,
                    'since_s': since.get(move.server, now_s),
                    'state': WAITING,
                    'serial': 0,
                    'changed_s': now_s,
                }
                for move in moves
            ]
            if rows:
                connection.execute(sa.insert(MOVES), rows)
            if interval_s is None:
                # Late: moves in flight go on while a large plan is stored.
                connection.execute(HOLD)
            if close_s is not None:
                _close(connection, new_uuid, {move.source for move in moves}, now_s + close_s)
        return new_uuid

    @repeated
    def stop(self, rebalance):
        """Refuse the moves that no conductor has. Returns their number, or None for an unknown
        rebalance. Its hosts take new servers again.

        A scheduler that holds one of them cannot hand it over any more.
        """
        with self._sessions.transaction() as connection:
            connection.execute(HOLD)
            stopped = connection.execute(
                sa.update(REBALANCES)
                .where(REBALANCES.c.uuid == rebalance)
                .values(stopped_s=sa.func.coalesce(REBALANCES.c.stopped_s, clock.NOW))
            )
            if not stopped.rowcount:
                return None
            connection.execute(
                sa.update(CLOSED_HOSTS)
                .where(CLOSED_HOSTS.c.rebalance_uuid == rebalance)
                .values(until_s=clock.NOW)
            )
            return connection.execute(
                sa.update(MOVES)
                .where(MOVES.c.rebalance_uuid == rebalance, MOVES.c.state.in_((WAITING, HELD)))
                .values(_change(REFUSED, why=STOPPED))
            ).rowcount

    def list(self, rebalance=None):
        """All rebalances, or one, oldest first."""
        wanted = sa.select(REBALANCES).order_by(REBALANCES.c.created_s, REBALANCES.c.uuid)
        count = sa.select(MOVES.c.rebalance_uuid, MOVES.c.state, sa.func.count()).group_by(
            MOVES.c.rebalance_uuid, MOVES.c.state
        )
        if rebalance is not None:
            wanted = wanted.where(REBALANCES.c.uuid == rebalance)
            count = count.where(MOVES.c.rebalance_uuid == rebalance)
        with self._sessions.transaction(reads=True) as connection:
            rows = connection.execute(wanted).mappings().all()
            counts: dict = {}
            for key, state, number in connection.execute(count):
                counts.setdefault(key, {})[state] = number
        return [RebalanceEntry(**row, counts=counts.get(row['uuid'], {})) for row in rows]

    @repeated
    def forget(self, kept_s):
        """Delete rebalances without open moves that were created so many seconds ago."""
        with self._sessions.transaction() as connection:
            for old in connection.scalars(OLD, {'kept_s': kept_s}).all():
                connection.execute(sa.delete(MOVES).where(MOVES.c.rebalance_uuid == old))
                connection.execute(sa.delete(REBALANCES).where(REBALANCES.c.uuid == old))

    # Moves.

    def moves(self, rebalance):
        """The moves of a rebalance, in the order in which they start."""
        wanted = (
            sa.select(MOVES)
            .where(MOVES.c.rebalance_uuid == rebalance)
            .order_by(MOVES.c.since_s, MOVES.c.uuid)
        )
        with self._sessions.transaction(reads=True) as connection:
            return [MoveEntry(**row) for row in connection.execute(wanted).mappings()]

    def find(self, move):
        """A move by its UUID, or None."""
        with self._sessions.transaction(reads=True) as connection:
            return _find(connection, move)

    def has_open(self):
        """Whether any move is open."""
        with self._sessions.transaction(reads=True) as connection:
            return connection.scalar(sa.select(sa.exists().where(IS_OPEN)))

    @repeated
    def take(self, most, most_an_hour=None):
        """Hold the move of the oldest server, if fewer than ``most`` are in flight. Returns it, or
        None.

        Of periodic rebalances it takes one only if fewer than ``most_an_hour`` of their moves have
        started in the last hour; None takes none of them. A server that moves already waits.
        """
        with self._sessions.transaction() as connection:
            if _next(connection, most, most_an_hour) is None:
                return None  # as in nearly every pass
            connection.execute(HOLD)
            row = _next(connection, most, most_an_hour)
            return row and _advance(connection, row, HELD, started_s=clock.NOW)

    @repeated
    def take_due(self, again_s=AGAIN_S):
        """A move in flight without news for AGAIN_S seconds, or None. For one that was handed
        over, the time is ``again_s``, at most AGAIN_S.

        Its serial rises: the scheduler that had it before cannot change it any more.
        """
        with self._sessions.transaction() as connection:
            row = connection.execute(DUE, {'again_s': again_s}).mappings().first()
            return row and _advance(connection, row, row['state'])

    @repeated
    def hand_over(self, entry, claim_uuid):
        """The move has its claim, or has one again. Returns it handed over; None if another
        scheduler has it, or it was stopped."""
        with self._sessions.transaction() as connection:
            row = dataclasses.asdict(entry)
            return _advance(connection, row, HANDED_OVER, claim_uuid=claim_uuid, why=None)

    @repeated
    def note(self, entry, why):
        """The server of a move that was handed over has no claim on the destination, for this
        reason. Returns whether the move is as ``entry`` says, and the reason is a new one."""
        same = MOVES.c.uuid == entry.uuid, MOVES.c.serial == entry.serial
        with self._sessions.transaction() as connection:
            noted = connection.execute(
                sa.update(MOVES).where(*same, MOVES.c.state == HANDED_OVER).values(why=why)
            )
            return bool(noted.rowcount) and entry.why != why

    @repeated
    def end(self, entry, state, why=None):
        """End a move that is as ``entry`` says. Returns whether it was.

        If it is not, another scheduler holds it, has handed it over since, or has ended it.
        """
        same = MOVES.c.uuid == entry.uuid, MOVES.c.serial == entry.serial
        with self._sessions.transaction() as connection:
            ended = connection.execute(
                sa.update(MOVES).where(*same).values(_change(state, why=why))
            )
            return bool(ended.rowcount)

    # Hosts.

    def closed_hosts(self):
        """(ClosedHost, whether its time is over) of all."""
        wanted = sa.select(CLOSED_HOSTS, CLOSED_HOSTS.c.until_s <= clock.NOW).order_by(
            CLOSED_HOSTS.c.host
        )
        with self._sessions.transaction(reads=True) as connection:
            return [(ClosedHost(*row[:-1]), bool(row[-1])) for row in connection.execute(wanted)]

    @repeated
    def set_closed(self, host, closed=True):
        """The host's service is disabled now; not ``closed``: it is about to be enabled. Returns
        whether the host is to be closed as ``host`` says; otherwise nothing changes."""
        change = sa.update(CLOSED_HOSTS).where(*_same(host)).values(closed=closed)
        with self._sessions.transaction() as connection:
            return bool(connection.execute(change).rowcount)

    @repeated
    def drop_closed(self, host):
        """The host is open again, unless another rebalance has closed it for longer."""
        with self._sessions.transaction() as connection:
            connection.execute(HOLD)  # a new rebalance may be about to close the host
            connection.execute(sa.delete(CLOSED_HOSTS).where(*_same(host)))


def _same(host):
    """Conditions for the row of a closed host, unless another rebalance has changed it."""
    table = CLOSED_HOSTS.c
    return (
        table.host == host.host,
        table.rebalance_uuid == host.rebalance_uuid,
        table.until_s == host.until_s,
    )


def _find(connection, move):
    row = connection.execute(sa.select(MOVES).where(MOVES.c.uuid == move)).mappings().first()
    return row and MoveEntry(**row)


def _next(connection, most, most_an_hour):
    """The move that may start now, or None; see SqlRebalances.take."""
    if connection.scalar(COUNT_FLYING) >= most:
        return None
    may = False
    if most_an_hour is not None:
        periodic = connection.scalars(PERIODIC).all()
        started = connection.scalar(COUNT_STARTED, {'periodic': periodic}) if periodic else 0
        may = started < most_an_hour
    return connection.execute(NEXT if may else NEXT_BY_HAND).mappings().first()


def _change(state, **values):
    return {
        'state': state,
        'serial': MOVES.c.serial + 1,
        'changed_s': clock.NOW,
        'due_s': clock.NOW + AGAIN_S if state in IN_FLIGHT else None,
        **values,
    }


def _advance(connection, row, state, **values):
    """Change a move if it is still as ``row`` says. Returns it, or None."""
    changed = connection.execute(
        sa.update(MOVES)
        .where(MOVES.c.uuid == row['uuid'], MOVES.c.serial == row['serial'])
        .values(_change(state, **values))
    )
    return _find(connection, row['uuid']) if changed.rowcount else None


def _is_due(connection, before_s):
    """Whether no move is open, and no periodic rebalance was created since ``before_s``."""
    recent = sa.exists().where(REBALANCES.c.periodic, REBALANCES.c.created_s > before_s)
    return not connection.scalar(sa.select(sa.or_(sa.exists().where(IS_OPEN), recent)))


def _ages(connection, servers):
    """Server -> when it got its first claim."""
    created = {}
    for start in range(0, len(servers), CHUNK):
        wanted = (
            sa.select(CLAIMS.c.consumer_uuid, sa.func.min(CLAIMS.c.created_s))
            .where(CLAIMS.c.consumer_uuid.in_(servers[start : start + CHUNK]))
            .group_by(CLAIMS.c.consumer_uuid)
        )
        created.update(connection.execute(wanted).all())
    return created


def _close(connection, rebalance, nodes, until_s):
    """Keep new servers off the hosts of these nodes until that time, or longer."""
    hosts = connection.scalars(sa.select(NODES.c.host).where(NODES.c.uuid.in_(nodes)).distinct())
    known = dict(connection.execute(sa.select(CLOSED_HOSTS.c.host, CLOSED_HOSTS.c.until_s)).all())
    for host in sorted(hosts):
        values = {'rebalance_uuid': rebalance, 'until_s': until_s}
        if host not in known:
            connection.execute(sa.insert(CLOSED_HOSTS), {'host': host, 'closed': False, **values})
        elif known[host] < until_s:
            connection.execute(
                sa.update(CLOSED_HOSTS).where(CLOSED_HOSTS.c.host == host).values(values)
            )
