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
"""Packing and moves within one scheduler."""

import logging

from nova_sched.conf import CONF
from nova_sched.conf.services import has_nova_account
from nova_sched.db.flavors import SqlFlavors
from nova_sched.db.rebalances import SqlRebalances
from nova_sched.extension import Part
from nova_sched.extensions.optimize import fragmentation
from nova_sched.extensions.optimize.mix_learner import MixLearner
from nova_sched.extensions.optimize.mixes import SqlMixes
from nova_sched.extensions.optimize.moves import settings
from nova_sched.extensions.optimize.moves.move_runner import MoveRunner
from nova_sched.extensions.optimize.planning.move_planner import MovePlanner
from nova_sched.extensions.queues.catalogue import bare_requests

LOG = logging.getLogger(__name__)

NO_MOVES = '[rebalance] goal has no effect: [nova_api] auth_type is not set, so Nova is not asked'


def flavor_requests(database, nova):
    """Return a function that returns a request of each flavor: of Nova's, if the hosts are read
    from there. None if there are no flavors."""
    if nova is not None:
        return lambda: bare_requests(nova.flavors())
    if database is None:
        return None
    stored = SqlFlavors(database)
    return lambda: bare_requests(stored.list()[1])


class Optimizer(Part):
    """Learns the mix of requests, makes plans of moves, and carries them out.

    Without a shared database there are no rebalances, and the mix is that of this process.
    """

    def __init__(self, scheduler):
        context = scheduler.context
        self._scheduler, self._context, self._runner = scheduler, context, None
        mixes = self.rebalances = None
        if context.database is not None:
            mixes, self.rebalances = SqlMixes(context.database), SqlRebalances(context.database)
        flavors = flavor_requests(context.database, context.nova)
        self.mix = MixLearner(
            context.cluster.hosts,
            scheduler.call,
            context.membership.uuid,
            mixes,
            flavors,
            self._listen,
        )
        self.planner = MovePlanner(context, scheduler.placer, scheduler.call, flavors)

    @property
    def moves_servers(self):
        """Whether it carries out moves."""
        return self._runner is not None

    def fragmentation(self, zone=None, aggregate=None, most=10):
        """How many of the ``most`` usual sizes fit, and what is stranded, in a zone or aggregate
        (id or name); None: any. Raises NotFound.

        Returns the mapping of ``fragmentation.Overview.plain``, with ``zones``: for each
        ``zone`` the same, ``fit`` in the order of the sizes; and ``worst_hosts``: ``host``,
        ``node``, ``potential`` and what is ``stranded`` there.
        """
        default_zone, hosts = self._context.settings().default_zone, self._context.cluster.hosts
        places = self._scheduler.call(
            fragmentation.read_places, hosts, default_zone, zone, aggregate
        )
        return fragmentation.overview(places, self.mix.mix_of_now(), most)

    def run_moves(self, conductors, rebalance_settings, services=None):
        """Carry out the moves of rebalances from now on. Returns the MoveRunner, which has these
        arguments; None without a store of rebalances."""
        if self.rebalances is not None:
            self._runner = MoveRunner(
                self._scheduler,
                self._context,
                self.rebalances,
                conductors,
                rebalance_settings,
                self.planner.moves,
                services,
            )
            self._runner.start()
        return self._runner

    # A Part.

    def endpoints(self, bus):
        from nova_sched.extensions.optimize import bus as moves
        from nova_sched.extensions.optimize.endpoints import PlansEndpoint, RebalancesEndpoint

        reads_nova = self._context.reads_nova
        endpoints = [PlansEndpoint(self), RebalancesEndpoint(self, reads_nova)]
        if not reads_nova:
            runner = self.run_moves(moves.MovesClient(bus), _settings)
            if runner is not None:
                endpoints.append(moves.RebalanceEndpoint(runner))
        elif self.rebalances is not None and has_nova_account(CONF):
            from nova_sched.extensions.optimize import nova_moves

            conductors, services = nova_moves.of(self._context.nova, self.rebalances)
            self.run_moves(conductors, _settings, services)
        elif self.rebalances is not None and CONF.rebalance.goal is not None:
            LOG.warning(NO_MOVES)
        return endpoints

    def start(self):
        self.mix.start()

    def leave(self):
        if self._runner is not None:
            self._runner.leave()

    def stop(self):
        self.mix.stop()
        if self._runner is not None:
            self._runner.leave()
            self._runner.join()

    def follow(self, rules):
        self.mix.follow(rules)

    def figures(self):
        return self.mix.figures

    def _listen(self, learn):
        """Have ``learn`` get the requests of answered orders; None: do not listen."""
        listener = learn and (lambda order, _: learn(order.requests))
        self._context.seams.listen('answered', 'optimize', listener)


def _settings():
    return settings(CONF)
