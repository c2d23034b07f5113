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
"""The claims of a move in a Nova cloud: checked before it starts, and made by Nova's own call."""

import dataclasses

from nova_sched.engine.rebalance.move_claims import MoveClaims


@dataclasses.dataclass(frozen=True, slots=True)
class NoClaim:
    """What a move has in place of a claim."""

    uuid: None = None


class NovaMoveClaims(MoveClaims):
    """Nova's conductor asks a scheduler for the destination of each live migration. That call
    claims there and writes the allocation, and both ends count from then on. The claims follow
    Placement: one ends when its allocation is gone. A claim that was made before would be replaced
    by the one of the call, and nothing has to be settled at the end.
    """

    def hold(self, entry, request, has_moved=False):
        """Check the claims once more. Raises MoveRefused."""
        self._check_claims(entry, self._state_sync.claims_of(entry.server))
        return NoClaim()

    def renew(self, entry):
        """The claim on the destination lives as long as its allocation."""
        return True

    def finish(self, entry):
        """The claim on the source ends with Nova's allocation there."""
        return True

    def revert(self, entry):
        """The claim on the destination ends with Nova's allocation there."""
        return True

    def drop(self, entry):
        """There is no claim of a move that was not handed over."""

    def is_on(self, entry, node_uuid):
        """Not known: a claim is confirmed by its allocation, before the server arrives. Nova's
        migrations tell."""
        return False
