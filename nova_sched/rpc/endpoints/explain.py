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
"""Read-only calls of operators: the namespace `explain`, the reasons for a past decision and the
outcome of a possible one; and `cloud`, what a scheduler knows of the Nova cloud that it reads."""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.rpc import translate
from nova_sched.rpc.messages import expected


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

        Returns the mapping of ``engine.explain.questions.Questions.why_not``.
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


class CloudEndpoint:
    """Read-only calls of operators. ``status`` returns what ``cloud.status.CloudStatus.read``
    does; it is None for a scheduler whose hosts report themselves."""

    target = messaging.Target(namespace='cloud', version='1.0')

    def __init__(self, status):
        self._status = status

    @expected
    def status(self, context):
        """Return the mapping of ``cloud.status.CloudStatus.read``. Raises InvalidRequest."""
        if self._status is None:
            why = "the scheduler's hosts report themselves: nova-sched-manage host list shows them"
            raise errors.InvalidRequest('cloud status', why)
        return self._status()
