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
"""The namespaces `candidates`: hosts are offered first, and claimed by UUID later; and `claims`:
operations on a claim after its host was chosen.

Since 1.2, ``claim`` is the UUID of the claim that a caller means, or of the resize that is open on
it. The call then touches no other claim, however late it comes. Without ``claim``, a call only
confirms an instance that neither moves nor is resized; a call that would end, revert or settle
something raises Outdated. Outdated is also raised if the claim is not as its caller knew it.
"""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.claim import MOVES
from nova_sched.claims import ClaimSelector
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


class ClaimsEndpoint:
    target = messaging.Target(namespace='claims', version='1.3')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    def _infos(self, claims):
        nodes = self._scheduler.call(
            self._scheduler.state_sync.names, [claim.node_uuid for claim in claims]
        )
        return [translate.claim_info(claim, nodes[claim.node_uuid]) for claim in claims]

    @expected
    def instance_claim(self, context, spec_obj, instance_uuid, host, nodename, new=False):
        """Claim for one instance on a node that the caller names.

        Returns the ClaimInfo; the same claim made twice is one. Raises NodeNotFound, or
        ComputeResourcesUnavailable with the shortages. ``new`` (since 1.1): the instance runs
        nowhere yet. If it runs on that node, its claim there is returned unchanged. If it runs on
        another one, raises AlreadyPlaced.
        """
        return self._claim(context, spec_obj, instance_uuid, host, nodename, new=bool(new))

    @expected
    def claim_alternate(
        self, context, spec_obj, instance_uuid, failed_host, host, nodename, claim=None
    ):
        """End the claim on the host where the build failed, and claim an alternate, in one
        transaction.

        Raises as instance_claim does; then the claim on the failed host still stands. Raises
        ClaimNotFound if the named ``claim`` has ended in favour of another one, and Outdated if it
        is confirmed.
        """
        leaving = words.name(failed_host, 'failed_host')
        return self._claim(context, spec_obj, instance_uuid, host, nodename, leaving, claim=claim)

    @expected
    def resize_claim(
        self, context, spec_obj, instance_uuid, host, nodename, move='resize', claim=None
    ):
        """Claim for an instance that gets another size or another place: ``spec_obj`` is of the
        new size.

        ``move`` is `resize`, `migration`, `live-migration` or `evacuation`. On the node where the
        instance is, the claim holds the resources of both sizes together. On another node the new
        claim exists in addition to the old one. For a resize or migration the source is kept until
        `confirm_claim` or `revert_claim`, whatever its node reports. Raises as instance_claim
        does. Another resize that is open on the node, or the pending claim of another request for
        another node or size, ends only if ``claim`` names it (since 1.3); else raises Outdated.
        """
        if move not in MOVES:
            raise errors.InvalidRequest(
                'move', f'{words.short(move)} is none of {", ".join(MOVES)}'
            )
        return self._claim(
            context, spec_obj, instance_uuid, host, nodename, move=move, claim=claim
        )

    def _claim(
        self,
        context,
        spec_obj,
        instance_uuid,
        host,
        nodename,
        leaving=None,
        move=None,
        new=False,
        claim=None,
    ):
        (request,) = translate.requests(translate.spec(spec_obj), [instance_uuid])
        node = words.name(host, 'host'), words.name(nodename, 'nodename')
        how = context.request_id, leaving, move, new, _selector(claim)
        return self._infos(
            [self._scheduler.call(self._scheduler.claim_service.claim, request, *node, *how)]
        )[0]

    @expected
    def confirm_claim(self, context, instance_uuid, host, claim=None):
        """The instance stays on the host: the claim on the source of its move ends, and so does
        its old size.

        Returns its claims there. Raises ClaimNotFound.
        """
        uuid, host = words.uuid(instance_uuid, 'instance_uuid'), words.name(host, 'host')
        confirm = self._scheduler.claim_service.confirm_claim
        return self._infos(self._scheduler.call(confirm, uuid, host, _selector(claim)))

    @expected
    def revert_claim(self, context, instance_uuid, claim=None):
        """Undo the instance's move or resize: it keeps its place and size.

        Returns its claims then. Raises ClaimNotFound if there is no move or resize to undo.
        """
        uuid = words.uuid(instance_uuid, 'instance_uuid')
        return self._infos(
            self._scheduler.call(
                self._scheduler.claim_service.revert_claim, uuid, _selector(claim)
            )
        )

    @expected
    def abort_claim(self, context, instance_uuid, host=None, claim=None, confirmed=False):
        """End a claim of the instance; with a ``host``, only if it is there. Returns it in a list.

        Raises ClaimNotFound, and Outdated if it is confirmed, unless ``confirmed`` (since 1.3)
        says that the caller knows that.
        """
        uuid = words.uuid(instance_uuid, 'instance_uuid')
        only = None if host is None else words.name(host, 'host')
        abort = self._scheduler.claim_service.abort_claim
        meant = _selector(claim)._replace(unconfirmed=not confirmed)
        return self._infos(self._scheduler.call(abort, uuid, only, meant))

    @expected
    def show(self, context, instance_uuid):
        """The instance's claims: one, or two while it moves; none if there are none."""
        uuid = words.uuid(instance_uuid, 'instance_uuid')
        return self._infos(self._scheduler.call(self._scheduler.claim_service.claims_of, uuid))


def _selector(claim):
    """The claim that the call names, or none."""
    return ClaimSelector(None if claim is None else words.uuid(claim, 'claim'))
