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
"""Ends claims that no server will use, and removes their allocations; writes the allocations of
servers that have lost them.

A scheduler that is killed between its commit and its answer leaves a claim, and maybe an
allocation. A conductor that takes an alternate leaves the claim on the host that failed. The
compute node does not know of either. A decision that comes after Nova has given up an unshelving
leaves both for a server that stays offloaded. The mirror has confirmed a claim whose allocation it
has read, whether there is a server or not.

A scheduler that stands still between a read and a removal may remove the allocations of a server
that was placed again meanwhile: see `claims.nova_node`. Its claim says what they were.
"""

import dataclasses
import json
import logging
import time

from nova_sched import errors
from nova_sched.engine.answer import allocation_request
from nova_sched.logs import Problems

LOG = logging.getLogger(__name__)

MAX_CHECKED = 100  # claims that are checked at once
EVERY_S = 20.0  # between two checks of all claims
BATCH = 500  # nodes whose claims are checked at once: the loop waits for that


class Reconciler:
    """Compares old claims that are still pending, or without a server or allocations, with
    Placement and Nova: those on the nodes that this scheduler reads.

    ``age_s``: a younger claim may still be written by its scheduler. Several reconcilers do no
    harm: a claim ends by its UUID, and an allocation is removed at the generation that was read.
    """

    def __init__(self, scheduler, cells, api, placement, mirror, age_s, monotonic=time.monotonic):
        self._scheduler, self._cells, self._api = scheduler, cells, api
        self._placement, self._mirror, self._age_s = placement, mirror, age_s
        self._monotonic, self._due_s = monotonic, float('-inf')
        self._problems = Problems(LOG)

    def settle(self):
        """Check the oldest of these claims, if the last check is EVERY_S old. Raises a SchedError
        if Nova or Placement does not answer."""
        if self._monotonic() < self._due_s:
            return
        self._due_s = self._monotonic() + EVERY_S
        before_s = self._scheduler.clock() - self._age_s
        nodes, claims = [*self._mirror.unmatched.items()], []
        for begin in range(0, len(nodes), BATCH):
            batch = dict(nodes[begin : begin + BATCH])
            find = self._scheduler.nova_hosts.unsettled_claims
            claims += self._scheduler.call(find, before_s, batch)
        oldest = sorted(claims, key=lambda claim: claim.created_s)[:MAX_CHECKED]
        unclear = {claim.node_uuid for claim in oldest if not self._settle(claim)}
        if unclear:
            self._mirror.read_nodes(unclear)

    def _settle(self, claim):
        """End a claim that no server will use. Returns False if its node has to be read first."""
        allocations = self._placement.allocations_of(claim.consumer_uuid)
        is_there = self._mirror.has_any(claim.node_uuid, allocations.providers)
        if claim.is_confirmed and not (is_there or claim.resizing) and self._rests_on(claim):
            self._restore(claim, allocations)
            return False
        if self._is_needed(claim.consumer_uuid) if is_there else claim.is_confirmed:
            return False
        if is_there and not self._placement.remove(claim.consumer_uuid, allocations):
            return True  # the allocation has changed: the next check decides
        if self._scheduler.call(self._scheduler.nova_hosts.end_claim, claim):
            needless = 'its server does not exist, or is offloaded'
            what = needless if is_there else 'it has no allocation'
            LOG.warning(
                'Ended the claim of instance %s on node %s: %s',
                claim.consumer_uuid,
                claim.node_uuid,
                what,
            )
        return True

    def _rests_on(self, claim):
        """Return whether the server of a claim is on its node, one of several that its host may
        have, and Nova does nothing with it."""
        for cell in self._cells:
            row = cell.server(claim.consumer_uuid)
            if row and row.task_state is None:
                nodes = cell.nodes([claim.node_uuid], [claim.node_uuid])
                return any(claim.consumer_uuid in node.instances for node in nodes)
        return False

    def _restore(self, claim, allocations):
        """Add what a claim has of its node to the allocations of its server."""
        resources = {name: units for name, units in claim.resources.items() if units}
        allotted = claim.parts.providers if claim.parts else ()
        text = allocation_request(claim.node_uuid, json.dumps(resources), allotted)
        held = json.loads(text)['allocations'].items()
        providers = {uuid: part['resources'] for uuid, part in held if part['resources']}
        wanted = dataclasses.replace(
            allocations,
            providers={**allocations.providers, **providers},
            project_id=allocations.project_id or claim.project_id,
            user_id=allocations.user_id or claim.user_id,
        )
        what = claim.consumer_uuid, claim.node_uuid
        try:
            self._placement.write({claim.consumer_uuid: wanted})
        except errors.PlacementRefused as error:
            self._problems.begin(
                claim.uuid,
                'Instance %s runs on node %s without allocations, and gets none: %s',
                *what,
                error,
            )
        else:
            LOG.warning(
                'Instance %s ran on node %s without allocations: it has those of its claim', *what
            )

    def _is_needed(self, uuid):
        """Whether a server is being built, is on a host, or may get there. Nova makes the server
        before it deletes the build request, so the build request is read first."""
        return self._api.has_build_request(uuid) or any(
            row.needs_allocations for cell in self._cells if (row := cell.server(uuid))
        )
