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
"""Plans of moves and fragmentation, in the namespace `explain`, and the namespace `rebalances`
1.0: moves that are carried out, for operators."""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.conf import CONF
from nova_sched.db.rebalances import STATES
from nova_sched.extensions.optimize.moves import settings
from nova_sched.extensions.optimize.planning.move_planner import view_of
from nova_sched.extensions.optimize.planning.snapshot import Scope
from nova_sched.extensions.optimize.rebalance import MAX_SEARCH_S, read_goal, read_moves
from nova_sched.rpc import translate
from nova_sched.rpc.messages import expected

MAX_SIZES = 100  # sizes, or hosts, in an answer
MAX_CLOSED_S = 31536000  # for which hosts may be closed
MOVE = ('uuid', 'server', 'source', 'destination', 'state', 'why', 'started_s', 'changed_s')


class PlansEndpoint:
    """What operators ask about the whole cloud; read-only calls."""

    target = messaging.Target(namespace='explain', version='1.4')

    def __init__(self, optimizer):
        self._optimizer = optimizer

    @expected
    def fragmentation(self, context, zone=None, aggregate=None, most=10):
        """How many of the ``most`` usual sizes still fit, and which free capacity no usual request
        can use; of an availability zone, or of an aggregate by its id or name. Since 1.3.

        Returns the mapping of ``optimizer.Optimizer.fragmentation``. Raises NotFound.
        """
        names = [
            None if part is None else words.name(part, 'zone or aggregate')
            for part in (zone, aggregate)
        ]
        if type(most) is not int or not 1 <= most <= MAX_SIZES:
            raise errors.InvalidRequest('most', f'it is not a number from 1 to {MAX_SIZES}')
        return self._optimizer.fragmentation(*names, most)

    @expected
    def plan_moves(
        self,
        context,
        goal,
        moves=None,
        zone=None,
        aggregate=None,
        spec_obj=None,
        thorough_s=None,
    ):
        """Plan moves of servers between hosts, and make none of them. Since 1.3.

        ``goal``: `empty`, `spread`, `drain:` with names of hosts, aggregates or zones, or of other
        failure domains, such as `rack=r1`, or `fit:` with a flavor, whose spec is ``spec_obj``;
        without one, the flavor is looked up in the database. ``moves``: the most moves, as a
        number or as a share of the servers such as `1%`. ``zone`` and ``aggregate`` (its name or
        UUID) limit the hosts. With ``thorough_s`` (since 1.4), a search for a better plan for
        `empty` or `fit` takes at most so many seconds.

        Returns a mapping:

        * ``servers`` that have a claim, and ``hosts``: their numbers;
        * ``moves``, in the order in which to make them: for each the UUIDs of the ``server``, of
          its ``source`` and its ``destination`` node, and ``source_host``, ``destination_host``;
        * ``emptied``: the hosts that lose their last server, each with ``node`` and ``host``;
        * ``before``, ``after``: the figure of the goal now and after all moves: empty hosts,
          servers on the hosts to drain, places for the flavor, or the highest share of use;
        * ``bound``: of the goal `empty`, the most hosts that any such plan empties; of `fit`, the
          most places after any such plan, or None. ``bound_by``: `linear program` or `volume`, or
          `search`: that of ``thorough_s``. None for other goals;
        * ``is_spent``: whether the number of moves ended the plan;
        * ``obstacles``: each ``rule`` that kept servers where they are, on how many ``hosts``,
          and a ``server`` (None: one without a claim) and its ``host`` as an example.

        Raises InvalidRequest.
        """
        scope = Scope(
            goal=read_goal(goal),
            zone=None if zone is None else words.name(zone, 'zone'),
            aggregate=None if aggregate is None else words.name(aggregate, 'aggregate'),
            settings=settings(CONF),
        )
        wanted = None
        if spec_obj is not None:
            wanted = translate.requests(translate.spec(spec_obj))[0]
        if thorough_s is not None:
            words.number(thorough_s, 'thorough_s', MAX_SEARCH_S)
        planner = self._optimizer.planner
        return view_of(planner.plan(scope, moves, wanted, thorough_s=thorough_s))


class RebalancesEndpoint:
    """Each method returns plain values; times are seconds since the epoch, by the database's
    clock.

    ``reads_nova``: hosts are those of a Nova cloud, where Nova's API is asked to move servers.
    """

    target = messaging.Target(namespace='rebalances', version='1.0')

    def __init__(self, optimizer, reads_nova=False):
        self._optimizer, self._reads_nova = optimizer, reads_nova

    @expected
    def create(self, context, uuid, moves, close_s=None):
        """Carry out moves: a list as that of a plan. Returns the mapping of ``show``.

        ``uuid`` is the UUID that the rebalance gets: with the same one, a repeated call changes
        nothing. The sources take no new servers for ``close_s`` seconds. Raises InvalidRequest.
        """
        own_uuid, wanted = words.uuid(uuid, 'uuid'), read_moves(moves)
        if close_s is not None:
            words.number(close_s, 'close_s', MAX_CLOSED_S)
        if self._reads_nova and not self._optimizer.moves_servers:
            why = 'Nova moves the servers of its cloud, and [nova_api] of the scheduler is not set'
            raise errors.InvalidRequest('moves', why)
        if self._optimizer.rebalances is None:
            why = 'rebalances are kept in a database, and [claims] store is memory'
            raise errors.InvalidRequest('moves', why)
        self._optimizer.rebalances.create(wanted, close_s=close_s, new_uuid=own_uuid)
        return self._shown(own_uuid)

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
        store = self._optimizer.rebalances
        rebalances = [] if store is None else store.list()
        if marker is not None:
            known = [rebalance.uuid for rebalance in rebalances]
            if words.uuid(marker, 'marker') not in known:
                raise errors.RebalanceNotFound(marker)
            rebalances = rebalances[known.index(marker) + 1 :]
        return [_summary(rebalance) for rebalance in rebalances[:limit]]

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
        if self._optimizer.rebalances is not None:
            self._optimizer.rebalances.stop(wanted)
        return self._shown(wanted)

    def _shown(self, uuid):
        store = self._optimizer.rebalances
        rebalances = [] if store is None else store.list(uuid)
        if not rebalances:
            raise errors.RebalanceNotFound(uuid)
        moves = [{name: getattr(move, name) for name in MOVE} for move in store.moves(uuid)]
        return _summary(rebalances[0]) | {'plan': moves}


def _summary(entry):
    return {
        'uuid': entry.uuid,
        'goal': entry.goal,
        'periodic': bool(entry.periodic),
        'state': entry.state,
        'created_s': entry.created_s,
        'stopped_s': entry.stopped_s,
        'moves': {state: entry.counts.get(state, 0) for state in STATES},
    }
