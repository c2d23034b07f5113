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
"""The namespace `rebalances` 1.0: moves that are carried out, for operators."""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.db.rebalances import STATES
from nova_sched.extensions.optimize.rebalance import read_moves
from nova_sched.rpc.failures import expected

LONGEST_S = 31536000  # for which hosts may be closed


class RebalancesEndpoint:
    """Each method returns plain values; times are seconds since the epoch, by the database's
    clock.

    ``reads_nova``: hosts are those of a Nova cloud, where Nova's API is asked to move servers.
    """

    target = messaging.Target(namespace='rebalances', version='1.0')

    def __init__(self, scheduler, reads_nova=False):
        self._scheduler, self._reads_nova = scheduler, reads_nova

    def _store(self):
        return self._scheduler.rebalances

    @expected
    def create(self, context, uuid, moves, close_s=None):
        """Carry out moves: a list as that of a plan. Returns the mapping of ``show``.

        ``uuid`` is the UUID that the rebalance gets: with the same one, a repeated call changes
        nothing. The sources take no new servers for ``close_s`` seconds. Raises InvalidRequest.
        """
        made, wanted = words.uuid(uuid, 'uuid'), read_moves(moves)
        if close_s is not None:
            words.number(close_s, 'close_s', LONGEST_S)
        if self._reads_nova and not self._scheduler.moves_servers:
            why = 'Nova moves the servers of its cloud, and [nova_api] of the scheduler is not set'
            raise errors.InvalidRequest('moves', why)
        if self._store() is None:
            why = 'rebalances are kept in a database, and [claims] store is memory'
            raise errors.InvalidRequest('moves', why)
        self._store().create(wanted, close_s=close_s, made=made)
        return self._shown(made)

    @expected
    def list(self, context, marker=None, limit=None):
        """Rebalances, oldest first: at most ``limit``, after the one with the UUID ``marker``.
        Raises RebalanceNotFound for the marker.

        Each is a mapping: ``uuid``, ``goal`` (None: a plan was given), ``periodic``, ``state``
        (`running`, `done`, `stopping`, `stopped`), ``created_s``, ``stopped_s``, and ``moves``,
        their number by state.
        """
        if limit is not None:
            words.number(limit, 'limit')
        found = [] if self._store() is None else self._store().list()
        if marker is not None:
            known = [one.uuid for one in found]
            if words.uuid(marker, 'marker') not in known:
                raise errors.RebalanceNotFound(marker)
            found = found[known.index(marker) + 1 :]
        return [_told(one) for one in found[:limit]]

    @expected
    def show(self, context, uuid):
        """The mapping of ``list`` for one rebalance, with ``plan``: each move, in the order in
        which they start: ``uuid``, ``server``, ``source``, ``destination``, ``state``, ``why``,
        ``started_s``, ``changed_s``. Raises RebalanceNotFound."""
        return self._shown(words.uuid(uuid, 'uuid'))

    @expected
    def stop(self, context, uuid):
        """Start no more moves. Returns the mapping of ``show``. Raises RebalanceNotFound."""
        wanted = words.uuid(uuid, 'uuid')
        if self._store() is not None:
            self._store().stop(wanted)
        return self._shown(wanted)

    def _shown(self, uuid):
        found = [] if self._store() is None else self._store().list(uuid)
        if not found:
            raise errors.RebalanceNotFound(uuid)
        return _told(found[0]) | {'plan': [_move_told(one) for one in self._store().moves(uuid)]}


def _told(entry):
    return {
        'uuid': entry.uuid,
        'goal': entry.goal,
        'periodic': bool(entry.periodic),
        'state': entry.state,
        'created_s': entry.created_s,
        'stopped_s': entry.stopped_s,
        'moves': {state: entry.counts.get(state, 0) for state in STATES},
    }


def _move_told(entry):
    names = ('uuid', 'server', 'source', 'destination', 'state', 'why', 'started_s', 'changed_s')
    return {name: getattr(entry, name) for name in names}
