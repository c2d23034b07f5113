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
"""The namespace `candidates`: hosts are offered first, and claimed by UUID later."""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.rpc import translate
from nova_sched.rpc.messages import expected


class CandidatesEndpoint:
    target = messaging.Target(namespace='candidates', version='1.0')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    @expected
    def select_candidates(self, context, spec_obj, instance_uuids=None, count=None):
        """Decide as for `select_destinations`, but claim nothing: up to ``count`` hosts for each
        instance.

        Returns for each instance a list of Candidate, the best first. Without given UUIDs, UUIDs
        are generated for all instances except that of the spec. The candidates of each instance
        are ranked as if the earlier instances had taken their best ones. ``count`` is
        `[candidates] max` by default and at most. Raises NoValidHost.
        """
        spec = translate.spec(spec_obj)
        requests = translate.requests(spec, instance_uuids)
        if requests[0].is_rebuild:
            raise errors.InvalidRequest('scheduler_hints', 'a check of a rebuild claims nothing')
        wanted = None if count is None else words.number(count, 'count')
        text = translate.kept_text(spec)
        try:
            return self._scheduler.candidates.offer(
                requests, text, wanted, context, translate.candidate
            )
        except errors.NoValidHost as refusal:
            raise self._scheduler.for_caller(refusal, context) from None

    @expected
    def claim_candidate(self, context, uuid):
        """Claim an offered host, if the instance still fits. A repeated call makes one claim.
        Returns the ClaimInfo.

        Raises CandidateNotFound, NodeNotFound if the node has left, or ComputeResourcesUnavailable
        with the shortages.
        """
        candidate, text = self._scheduler.candidates.find(words.uuid(uuid, 'uuid'))
        (request,) = translate.requests(translate.kept_spec(text), [candidate.instance_uuid])
        claim = self._scheduler.call(
            self._scheduler.candidates.claim, candidate, request, context.request_id
        )
        nodes = self._scheduler.call(self._scheduler.state_sync.names, [claim.node_uuid])
        return translate.claim_info(claim, nodes[claim.node_uuid])
