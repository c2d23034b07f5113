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
"""The namespace `explain` 1.0: why a request got what it got, and what another one would get."""

import oslo_messaging as messaging

from nova_sched.rpc import translate, words
from nova_sched.rpc.failures import expected


class Explain:
    """Questions, which change nothing. Answers are plain values, times seconds since the epoch."""

    target = messaging.Target(namespace='explain', version='1.0')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    @expected
    def dry_run(self, context, spec_obj):
        """Decide as for `select_destinations`, but claim nothing: for as many instances as the
        spec says.

        Returns a mapping:

        * ``outcome``: `placed` or `refused`; ``reason``: what the caller of a refused request reads, or None;
        * ``hosts``: number of all hosts; ``instances``: how many were asked for; ``found``: how many of them
          had a host;
        * ``filters``: for each in order ``filter``, how many hosts it had ``seen`` and ``left``, ``why`` it
          removed the others, the names of some that it ``removed``; of resources also the ``nearest`` host
          that it removed, and ``nearest_why``;
        * ``placed``: for each instance ``instance_uuid``, ``host``, ``node``, the sum of its ``weight``;
          ``weights``: for each ``weigher`` its ``raw``, its ``normalised`` (0 to 1), its ``multiplier``, and
          their product ``weight``; and the same for its ``alternates``. A host that was the last one left is
          not weighed, nor are the later ones of many instances. A number that is not finite is None.
        """
        requests = translate.requests(translate.spec(spec_obj))
        return self._scheduler.call(self._scheduler.questions.dry_run, requests)

    @expected
    def why_not(self, context, spec_obj, host):
        """What each rule says of one host. Raises NotFound for a host that has not reported.

        See ``engine.questions.Questions.why_not`` for the mapping that is returned.
        """
        request = translate.requests(translate.spec(spec_obj))[0]
        return self._scheduler.call(
            self._scheduler.questions.why_not, request, words.name(host, 'host')
        )

    @expected
    def capacity(self, context, spec_obj):
        """How many more instances like those of the spec fit, in all and by zone and aggregate.

        See ``engine.scheduler.Scheduler.capacity`` for the mapping that is returned.
        """
        return self._scheduler.capacity(translate.requests(translate.spec(spec_obj))[0])

    @expected
    def show(self, context, request_id):
        """What is kept of the decisions about a request, oldest first; nothing for one that is not
        kept.

        Each is a mapping as of ``dry_run``, and has ``request_id``, ``time`` and ``asked``: the
        first of the ``instances``, ``flavor``, ``resources``, ``extra_specs``, ``image``,
        ``zone``, ``policy`` of the server group, ``project_id``, ``user_id``. Why a filter removed
        hosts is told in refusals only. Raises StoreUnavailable.
        """
        return self._scheduler.decision_log.show(words.name(request_id, 'request_id'))
