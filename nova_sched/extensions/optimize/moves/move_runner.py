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
"""Carries out moves, a pass after the other, in a thread of one of the schedulers; what a
conductor tells of a move settles its claims, once."""

import dataclasses
import logging
import threading
import time

from nova_sched import errors
from nova_sched.db.rebalances import (
    AGAIN_S,
    CONFIRMED,
    HANDED_OVER,
    HELD,
    IN_FLIGHT,
    REFUSED,
    REVERTED,
)
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING
from nova_sched.extensions.optimize.moves.host_closings import HostClosings, OwnServices
from nova_sched.extensions.optimize.moves.move_claims import MoveClaims, NovaMoveClaims
from nova_sched.state.request import RequestedDestination

LOG = logging.getLogger(__name__)

POLL_S = 2.0  # the thread checks this often for moves
BUSY_S = 0.3  # and this often while any are open
FORGET_S = 3600.0  # interval at which old rebalances are deleted
JOIN_S = 5.0
RENEWALS = 4  # attempts to renew a claim before it expires
KEPT_S = 7 * 86400.0  # a rebalance is kept for this time after it was created
FAILS = 'The scheduler fails on move %s of server %s: %s'
FAULT = 'the scheduler fails on it: {}: {}'
UNCLAIMED = 'the server is on the destination without a claim there: {}'

# The state of the move is not known: it is read again later.
UNKNOWN = (
    errors.StoreUnavailable,
    errors.StoreFull,
    errors.NoAnswer,
    errors.NovaUnavailable,
    errors.BrokerUnavailable,
    errors.Outdated,
    errors.DeadlinePassed,
)
# With these, a conductor says that the server stays on its host.
STAYS = (errors.MoveRefused, errors.NotFound, errors.Invalid)


class MoveRunner:
    """The first of the live schedulers starts the moves; any of them takes what conductors tell.

    The store decides which scheduler has a move, so two that both count as the first one do no
    harm. ``rebalances`` is a db.rebalances.SqlRebalances. ``conductors`` has ``request(server)``,
    the state.request.Request of a server as its conductor knows it, and ``start(entry, source,
    destination)``, which hands a move to a conductor and returns its outcome until now and the
    reason; a second call for the same move only asks. ``settings`` returns RebalanceSettings.
    ``planner(settings, most)`` returns a list of at most that many rebalance.Move, for the
    periodic mode. ``services`` are those of HostClosings; None: the schedulers' own.
    """

    def __init__(
        self, scheduler, context, rebalances, conductors, settings, planner=None, services=None
    ):
        self._scheduler, self._context, self._rebalances = scheduler, context, rebalances
        self._conductors, self._settings, self._planner = conductors, settings, planner
        claims_of = NovaMoveClaims if context.reads_nova else MoveClaims
        self._claims = claims_of(
            context.cluster, scheduler.state_sync, scheduler.claim_service, settings
        )
        self._call = scheduler.call
        self._closings = HostClosings(
            rebalances,
            context.cluster,
            self._call,
            services or OwnServices(context.cluster, scheduler.state_sync, self._call),
        )
        self._next_plan_s = self._next_forget_s = 0.0
        self._is_away = self._is_busy = False
        self._leaving, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-moves', daemon=True)

    def start(self):
        self._thread.start()

    def leave(self):
        """Start no more moves. Does not wait."""
        self._leaving.set()
        self._wake.set()

    def join(self):
        """Wait until the thread has ended, or for JOIN_S seconds: a conductor may be silent. The
        loop must still run."""
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def tell(self, move_uuid, outcome, why=None):
        """Settle a move as a conductor tells. A late or doubled message changes nothing. Raises
        MoveNotFound."""
        entry = self._rebalances.find(move_uuid)
        if entry is None:
            raise errors.MoveNotFound(move_uuid)
        self.settle(entry, outcome, why)
        self._wake.set()

    def _run(self):
        while not self._leaving.is_set():
            interval_s = POLL_S
            try:
                if self._scheduler.position_and_count[0] == 0:
                    interval_s = BUSY_S if self.turn() else POLL_S
                self._is_away = False
            except errors.SchedError as error:
                self._warn(error)
            except Exception:
                if not self._leaving.is_set():
                    LOG.exception('Moves wait, because the scheduler has failed on one')
            self._wake.wait(interval_s)
            self._wake.clear()

    def turn(self):
        """One pass: read the moves that are due, and start new ones. Return whether any are
        open."""
        self._closings.turn()
        self._plan()
        if time.monotonic() >= self._next_forget_s:
            self._next_forget_s = time.monotonic() + FORGET_S
            self._rebalances.forget(KEPT_S)
        self._is_busy = self._rebalances.has_open()
        if not self._is_busy:
            return False
        # Often enough to renew the claim of a move in flight before it expires.
        lifetime_s = self._context.settings().pending_ttl_s
        again_s = AGAIN_S if lifetime_s is None else min(AGAIN_S, lifetime_s / RENEWALS)
        while not self._leaving.is_set() and (entry := self._rebalances.take_due(again_s)):
            try:
                self._go_on(entry)
            except errors.SchedError:
                raise
            except Exception:  # it must not keep the others from going on
                LOG.exception(FAILS, entry.uuid, entry.server, 'it goes on later')
        settings = self._settings()
        while not self._leaving.is_set():
            most_an_hour = settings.most_an_hour(self._rebalances.now_s())
            entry = self._rebalances.take(settings.in_flight, most_an_hour)
            if entry is None:
                break
            self._begin(entry)
        return True

    # One move.

    def _go_on(self, entry):
        """Go on with a move that is due."""
        if entry.state == HELD:
            self._begin(entry)
        elif self._call(self._claims.is_on, entry, entry.destination):
            self.settle(entry, DONE)
        else:
            self._ask(entry, *self._call(self._claims.names, entry))

    def _begin(self, entry):
        """Check a move that is held, claim on its destination, and hand it over."""
        try:
            source, destination = self._call(self._claims.check, entry)
            request = self._conductors.request(entry.server)
            self._check_rules(request, source, destination)
            claim_uuid = self._call(self._claims.hold, entry, request)
        except UNKNOWN as error:
            self._warn(error)
            return
        except errors.SchedError as error:
            self._refuse(entry, _why(error))
            return
        except Exception as error:  # it would keep its slot for good
            LOG.exception(FAILS, entry.uuid, entry.server, 'it is refused')
            self._refuse(entry, FAULT.format(type(error).__name__, error))
            return
        handed = self._hand_over(entry, claim_uuid)
        if handed is not None:
            self._ask(handed, source, destination)

    def _refuse(self, entry, why):
        if self._rebalances.end(entry, REFUSED, why):
            LOG.info('Move %s of server %s is refused: %s', entry.uuid, entry.server, why)
            self._call(self._claims.drop, entry)

    def _check_rules(self, request, source, destination):
        """Raise NoValidHost unless all rules allow the server on the destination."""
        host, nodename = destination
        wanted = dataclasses.replace(
            request.destination or RequestedDestination(), host=host, node=nodename
        )
        moved = dataclasses.replace(
            request,
            destination=wanted,
            ignore_hosts=request.ignore_hosts | {source[0]},
            force_hosts=frozenset(),
            force_nodes=frozenset(),
        )
        self._scheduler.place([moved], claim=False)

    def _hand_over(self, entry, claim_uuid):
        """The move with this claim; None if another scheduler has it, or it has ended meanwhile:
        then the claim ends, too."""
        handed = self._rebalances.hand_over(entry, claim_uuid)
        if handed is None:
            now = self._rebalances.find(entry.uuid)
            if now is None or now.state not in IN_FLIGHT:
                self._call(self._claims.drop, entry)
        return handed

    def _ask(self, entry, source, destination):
        """Hand a move to a conductor, or ask for its outcome, and do what the answer calls for.

        The claim on the destination may have ended before: no scheduler or no conductor was there
        to renew it. Then it is made again.
        """
        try:
            outcome, why = self._conductors.start(entry, source, destination)
        except STAYS as error:
            self.settle(entry, FAILED, _why(error))
            return
        except errors.SchedError as error:
            self._warn(error)  # the migration may run
            return
        if outcome == RUNNING:
            if self._call(self._claims.renew, entry):
                return
        elif self.settle(entry, outcome, why):
            return
        has_moved = outcome == DONE
        try:
            request = self._conductors.request(entry.server)
            claim_uuid = self._call(self._claims.hold, entry, request, has_moved)
        except UNKNOWN as error:
            self._warn(error)
        except errors.SchedError as error:
            self._go_on_unclaimed(entry, has_moved, _why(error))
        except Exception as error:
            LOG.exception(FAILS, entry.uuid, entry.server, 'it has no claim')
            self._go_on_unclaimed(entry, has_moved, FAULT.format(type(error).__name__, error))
        else:
            again = self._hand_over(entry, claim_uuid)
            if again is not None:
                LOG.warning(
                    'Move %s of server %s had lost its claim on the destination and has it again',
                    entry.uuid,
                    entry.server,
                )
                self.settle(again, outcome)

    def _go_on_unclaimed(self, entry, has_moved, why):
        """A move has no claim on its destination, and cannot have one: the operator is told
        once."""
        if has_moved:
            if self._rebalances.end(entry, CONFIRMED, UNCLAIMED.format(why)):
                LOG.warning(
                    'Server %s has been moved to node %s, and has no claim there: %s',
                    entry.server,
                    entry.destination,
                    why,
                )
        elif self._rebalances.note(entry, f'no claim on the destination: {why}'):
            LOG.warning(
                'Move %s of server %s runs without a claim on the destination: %s',
                entry.uuid,
                entry.server,
                why,
            )

    def settle(self, entry, outcome, why=None):
        """Settle a move that was handed over: first its claims, then its row. So a move that is
        interrupted in between is settled again; and so is one that another scheduler has handed
        over again meanwhile, perhaps with a new claim.

        Return False for a server that is on the destination and has no claim there: its move is
        not settled.
        """
        while entry is not None and entry.state == HANDED_OVER:
            reason = None
            if outcome == DONE:
                if not self._call(self._claims.finish, entry):
                    return False
            elif outcome != FAILED:
                return True
            elif self._call(self._claims.revert, entry):
                reason = why or 'the conductor gives no reason'
            elif not self._call(self._claims.is_on, entry, entry.destination):
                return True
            if self._rebalances.end(entry, CONFIRMED if reason is None else REVERTED, reason):
                if reason is None:
                    LOG.info('Move %s of server %s is confirmed', entry.uuid, entry.server)
                else:
                    LOG.info(
                        'Move %s of server %s is reverted: %s', entry.uuid, entry.server, reason
                    )
                return True
            entry = self._rebalances.find(entry.uuid)
        return True

    def _warn(self, error):
        """Log once that moves wait; while there are none, another part of the scheduler tells."""
        if self._is_busy and not self._is_away:
            LOG.warning('%s; moves in flight are polled again later', error)
        self._is_away = True

    # The periodic mode.

    def _plan(self):
        """Store a plan, if it is time for one."""
        settings = self._settings()
        if settings.goal is None or self._planner is None or time.monotonic() < self._next_plan_s:
            return
        most = settings.most_an_hour(self._rebalances.now_s())
        if not most:
            return
        self._next_plan_s = time.monotonic() + settings.interval_s
        try:
            moves = self._planner(settings, most)
        except errors.SchedError as error:
            LOG.warning('%s; the next periodic rebalance is planned later', error)
            return
        if moves:
            try:
                uuid = self._rebalances.create(
                    moves, settings.goal, settings.close_s, settings.interval_s
                )
            except errors.StoreUnavailable:  # the next pass may store it
                self._next_plan_s = 0.0
                raise
            if uuid is not None:
                LOG.info('Periodic rebalance %s has %d moves', uuid, len(moves))


def _why(error):
    """The reason in an error, without the rest of its text."""
    return getattr(error, 'why', None) or getattr(error, 'reason', None) or str(error)
