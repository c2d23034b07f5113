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
"""The namespace `explain` 1.0: the reasons for a past decision, and the outcome of a possible
one."""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.conf import CONF
from nova_sched.extensions.optimize.moves import RebalanceSettings
from nova_sched.extensions.optimize.planning.move_planner import view_of
from nova_sched.extensions.optimize.planning.snapshot import Scope
from nova_sched.extensions.optimize.rebalance import LONGEST_SEARCH_S, read_goal
from nova_sched.rpc import translate
from nova_sched.rpc.failures import expected

MOST_SIZES = 100  # sizes, or hosts, in an answer


class ExplainEndpoint:
    """Read-only calls. They return plain values; times are seconds since the epoch."""

    target = messaging.Target(namespace='explain', version='1.4')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    @expected
    def dry_run(self, context, spec_obj):
        """Decide as for `select_destinations`, but claim nothing: for as many instances as the
        spec asks for.

        Returns a mapping:

        * ``outcome``: `placed` or `refused`; ``reason``: the error text of a refused request, or
          None;
        * ``hosts``: number of all hosts; ``instances``: how many were asked for; ``found``: how
          many of them had a host;
        * ``filters``: for each in order ``filter``, how many hosts it had ``seen`` and ``left``,
          ``why`` it removed hosts, the names of some that it ``removed``; for resources also the
          ``nearest`` host that it removed, and ``nearest_why``;
        * ``placed``: for each instance ``instance_uuid``, ``host``, ``node``, the sum of its
          ``weight``; ``weights``: for each ``weigher`` its ``raw``, its ``normalised`` (0 to 1),
          its ``multiplier``, and their product ``weight``; and the same for its ``alternates``. A
          host that was the last one left is not weighed, nor are the later ones of many instances.
          A number that is not finite is None.
        """
        requests = translate.requests(translate.spec(spec_obj))
        return self._scheduler.call(self._scheduler.questions.dry_run, requests)

    @expected
    def why_not(self, context, spec_obj, host):
        """The verdict of each rule on one host. Raises NotFound for a host that has not reported.

        Returns the mapping of ``engine.questions.Questions.why_not``.
        """
        request = translate.requests(translate.spec(spec_obj))[0]
        return self._scheduler.call(
            self._scheduler.questions.why_not, request, words.name(host, 'host')
        )

    @expected
    def health(self, context):
        """The number of compute ``nodes``, and how many of them were ``heard`` in time. Since
        1.1."""
        return self._scheduler.call(self._scheduler.questions.health)

    @expected
    def capacity(self, context, spec_obj):
        """How many more instances like those of the spec fit, in all and by zone and aggregate.

        Returns the mapping of ``engine.scheduler.Scheduler.capacity``.
        """
        return self._scheduler.capacity(translate.requests(translate.spec(spec_obj))[0])

    @expected
    def fragmentation(self, context, zone=None, aggregate=None, most=10):
        """How many of the ``most`` usual sizes still fit, and which free capacity no usual request
        can use; of an availability zone, or of an aggregate by its id or name. Since 1.3.

        Returns the mapping of ``engine.scheduler.Scheduler.fragmentation``. Raises NotFound.
        """
        names = [
            None if one is None else words.name(one, 'zone or aggregate')
            for one in (zone, aggregate)
        ]
        if type(most) is not int or not 1 <= most <= MOST_SIZES:
            raise errors.InvalidRequest('most', f'it is not a number from 1 to {MOST_SIZES}')
        return self._scheduler.fragmentation(*names, most)

    @expected
    def rank_hosts(self, context, spec_obj, hosts, weights=None, check_type=None):
        """Which of these hosts may take an instance of the spec, best first: a list of names.
        Since 1.2.

        ``hosts`` are pairs of a host and the name of its node, which may be None. ``weights`` by
        host order hosts that the weighers find equal. ``check_type``: the spec has to be one for
        this check (`rebuild`, `resize`, `live_migrate`).
        """
        request = translate.requests(translate.spec(spec_obj))[0]
        if check_type is not None and request.check_type != check_type:
            said = request.check_type or 'a new server'
            raise errors.InvalidRequest('spec', f'it is about {said}, and not {check_type}')
        offered = translate.offered_hosts(hosts, weights)
        return self._scheduler.call(self._scheduler.questions.ranking, request, offered)

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
        options = CONF.rebalance
        scope = Scope(
            goal=read_goal(goal),
            zone=None if zone is None else words.name(zone, 'zone'),
            aggregate=None if aggregate is None else words.name(aggregate, 'aggregate'),
            settings=RebalanceSettings(
                protected_aggregates=frozenset(options.protected_aggregates),
                protected_projects=frozenset(options.protected_projects),
                immovable_servers=frozenset(options.immovable_servers),
            ),
        )
        wanted = None
        if spec_obj is not None:
            wanted = translate.requests(translate.spec(spec_obj))[0]
        if thorough_s is not None:
            words.number(thorough_s, 'thorough_s', LONGEST_SEARCH_S)
        planner = self._scheduler.move_planner
        return view_of(planner.plan(scope, moves, wanted, thorough_s=thorough_s))

    @expected
    def show(self, context, request_id):
        """The kept records of the decisions about a request, oldest first; an empty list if none
        is kept.

        Each is a mapping as of ``dry_run``, and has ``request_id``, ``time`` and ``asked``: the
        first of the ``instances``, ``flavor``, ``resources``, ``extra_specs``, ``image``,
        ``zone``, ``policy`` of the server group, ``project_id``, ``user_id``. It also has the
        number of ``attempts``, and ``took_ms``, the time from the queue to the answer. Only
        refusals have the reasons why a filter removed hosts, and ``for_tenants``: the reason
        without facts about the cloud. Raises StoreUnavailable.
        """
        return self._scheduler.decision_log.show(words.name(request_id, 'request_id'))
