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
"""The ends of moves: what a conductor tells of a move settles its claims, once."""

import logging

from nova_sched import errors
from nova_sched.db.rebalances import CONFIRMED, HANDED_OVER, REVERTED
from nova_sched.extensions.optimize.moves import DONE, FAILED

LOG = logging.getLogger(__name__)

UNCLAIMED = 'the server is on the destination without a claim there: {}'


class MoveEndings:
    """``rebalances`` is a db.rebalances.SqlRebalances. ``call`` runs a method of ``claims``
    (MoveClaims) in the loop."""

    def __init__(self, rebalances, claims, call):
        self._rebalances, self._claims, self._call = rebalances, claims, call

    def tell(self, move_uuid, outcome, why=None):
        """Settle a move as a conductor tells. A late or doubled message changes nothing. Raises
        MoveNotFound."""
        entry = self._rebalances.find(move_uuid)
        if entry is None:
            raise errors.MoveNotFound(move_uuid)
        self.settle(entry, outcome, why)

    def settle(self, entry, outcome, why=None):
        """Settle a move that was handed over: first its claims, then its row. So a move that is
        interrupted in between is settled again; and so is one that another scheduler has handed
        over again meanwhile, perhaps with a new claim.

        Return False for a server that is on the destination and has no claim there: its move is
        not settled.
        """
        ending: tuple[str, str | None]
        while entry is not None and entry.state == HANDED_OVER:
            if outcome == DONE:
                if not self._call(self._claims.finish, entry):
                    return False
                ending = CONFIRMED, None
            elif outcome != FAILED:
                return True
            elif self._call(self._claims.revert, entry):
                ending = REVERTED, why or 'the conductor gives no reason'
            elif self._call(self._claims.is_on, entry, entry.destination):
                ending = CONFIRMED, None
            else:
                return True
            if self._end(entry, *ending):
                return True
            entry = self._rebalances.find(entry.uuid)
        return True

    def give_up(self, entry, why):
        """End a move whose server is on the destination, and cannot have a claim there."""
        if self._rebalances.end(entry, CONFIRMED, UNCLAIMED.format(why)):
            LOG.warning(
                'Server %s has been moved to node %s, and has no claim there: %s',
                entry.server,
                entry.destination,
                why,
            )

    def _end(self, entry, state, why):
        """Return whether the move has ended so."""
        if not self._rebalances.end(entry, state, why):
            return False
        if why is None:
            LOG.info('Move %s of server %s is confirmed', entry.uuid, entry.server)
        else:
            LOG.info('Move %s of server %s is reverted: %s', entry.uuid, entry.server, why)
        return True
