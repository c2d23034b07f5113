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
"""A conductor's part: it places servers and moves them, and takes the next alternate where that
fails."""

import contextlib

from nova_sched import errors
from nova_sched.rpc.client import ClaimsClient, SchedulerClient


class _Exhausted(Exception):
    """No alternate is left; ``claim`` names the last claim, None if it is gone."""

    def __init__(self, claim, uuid, tried):
        super().__init__(uuid, tried)
        self.claim = claim


class Conductor:
    """The work of a conductor: places a server or moves it, and takes the next alternate where
    that fails."""

    def __init__(self, bus):
        self.scheduler = SchedulerClient(bus)
        self.claims = ClaimsClient(bus)

    def boot(self, spec_obj, instance_uuids, build, context=None):
        """Place and build instances; returns for each one the Selection where it runs, in order.

        ``build(instance_uuid, selection)`` raises ComputeResourcesUnavailable when the build
        failed there. Raises NoValidHost, or MaxRetriesExceeded when an instance has no alternate
        left. The other instances are built in that case, too. No second scheduling pass is made.
        """
        placed = self.scheduler.select_destinations(spec_obj, instance_uuids, context=context)
        running, exhausted = [], None
        for uuid, selections in zip(instance_uuids, placed, strict=True):
            try:
                running.append(self.build_instance(spec_obj, uuid, selections, build, context))
            except errors.MaxRetriesExceeded as error:
                exhausted = exhausted or error
        if exhausted:
            raise exhausted
        return running

    def build_instance(self, spec_obj, uuid, selections, build, context=None):
        """Build one placed instance on the first of its Selections where that works; returns that
        Selection.

        Raises MaxRetriesExceeded; then the instance's claim has ended.
        """
        with self._undoing(
            lambda claim: self.claims.abort_claim(uuid, context=context, claim=claim)
        ):
            return self._first_that_works(spec_obj, uuid, selections, build, context)

    def move(self, spec_obj, instance_uuid, start, move='resize', context=None):
        """Move an instance to another host, or give it another size; returns the Selection where
        it is then.

        ``spec_obj`` is of the new size. Its ``ignore_hosts`` name the host where the instance is,
        unless it may get its new size there. ``start(instance_uuid, selection)`` raises
        ComputeResourcesUnavailable when it failed there. The move, one of MOVES, stays open until
        ``claims.confirm_claim`` or ``claims.revert_claim``. Raises as ``boot`` does; then the
        instance has the claim that it had before.
        """
        (selections,) = self.scheduler.select_destinations(
            spec_obj, [instance_uuid], context=context
        )
        chosen = selections[0].service_host, selections[0].nodename
        new_claim = self.claims.resize_claim(
            spec_obj, instance_uuid, *chosen, move, context=context
        )
        with self._undoing(
            lambda claim: self.claims.revert_claim(instance_uuid, context=context, claim=claim)
        ):
            return self._first_that_works(
                spec_obj, instance_uuid, selections, start, context, new_claim.name
            )

    @contextlib.contextmanager
    def _undoing(self, undo):
        """If no alternate is left, undo the claim that was made last, unless another call has
        ended or confirmed it."""
        try:
            yield
        except _Exhausted as error:
            if error.claim is not None:
                with contextlib.suppress(errors.ClaimNotFound, errors.Outdated):
                    undo(error.claim)
            raise errors.MaxRetriesExceeded(*error.args) from None

    def _first_that_works(self, spec_obj, uuid, selections, start, context, claim=None):
        """The first Selection where it could be started; the instance's claim moves along.

        ``claim`` names the claim on the first host, if that is known. Raises _Exhausted.
        """
        tried = []
        for selection in selections:
            if tried:
                claim = claim or self._claim_on(uuid, tried[-1], context)
                moved = self._move_claim(spec_obj, uuid, tried[-1], selection, context, claim)
                if moved is None:
                    continue
                claim = moved
            try:
                start(uuid, selection)
                return selection
            except errors.ComputeResourcesUnavailable:
                tried.append(selection.service_host)
        raise _Exhausted(claim or self._claim_on(uuid, tried[-1], context), uuid, ', '.join(tried))

    def _claim_on(self, uuid, host, context):
        """The name of the instance's claim on a host; None if it has none there."""
        names = (
            claim.name for claim in self.claims.show(uuid, context=context) if claim.host == host
        )
        return next(names, None)

    def _move_claim(self, spec_obj, uuid, failed_host, selection, context, claim):
        """Claim the alternate in place of the failed host, and return the name of that claim.

        Returns None for an alternate that filled up in the meantime: it is skipped.
        """
        target = selection.service_host, selection.nodename
        try:
            new_claim = self.claims.claim_alternate(
                spec_obj, uuid, failed_host, *target, context=context, claim=claim
            )
        except (errors.ComputeResourcesUnavailable, errors.NodeNotFound):
            return None
        return new_claim.name
