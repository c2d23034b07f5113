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
"""What one transaction of a claim store has changed of claims."""

import dataclasses
from collections.abc import Mapping

from nova_sched.claim import Claim

# Causes: what the transaction was for.
REQUEST = 'request'  # a decided request or a plan: its claims replace older ones of the instance
CONFIRM, FINISH, REVERT, RELEASE = 'confirm', 'finish', 'revert', 'release'  # a caller's calls
ALLOCATION = 'allocation'  # it was written to Placement
TIMEOUT = 'timeout'
RENEWAL = 'renewal'  # of a plan
REPORT = 'report'  # of a node
REMOVAL = 'removal'  # of a node

# Kinds of changes of one claim.
MADE, CONFIRMED, RESIZING, SETTLED = 'made', 'confirmed', 'resizing', 'settled'
REVERTED, ENDED, EXPIRED = 'reverted', 'ended', 'expired'
KINDS = (ENDED, EXPIRED, REVERTED, MADE, RESIZING, CONFIRMED, SETTLED)
_ENDS = {TIMEOUT: EXPIRED, REVERT: REVERTED}


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimChanges:
    """The claims that a transaction ended or replaced, as they were ``before``, and those that it
    wrote, as they are ``after`` it: both by (consumer, node UUID).

    ``now_s`` is its time by the store's clock, in seconds since the epoch. ``hosts`` maps the
    UUIDs of nodes to their hosts.
    """

    cause: str
    before: Mapping[tuple[str, str], Claim]
    after: Mapping[tuple[str, str], Claim]
    now_s: float
    hosts: Mapping[str, str]

    @property
    def size(self):
        """Return the number of claims that it keeps in memory."""
        return len(self.before) + len(self.after)

    def by_kind(self):
        """Return the changed claims by kind, ends first. Claims that end are given as they were,
        the rest as they are now. Marks, times and positions in groups are not changes."""
        by_kind: dict[str, list[Claim]] = {kind: [] for kind in KINDS}
        for key, claim in self.before.items():
            now = self.after.get(key)
            if now is None or not claim.has_uuid(now.uuid):
                by_kind[_ENDS.get(self.cause, ENDED)].append(claim)
        for key, claim in self.after.items():
            kind = self._kind(self.before.get(key), claim)
            if kind is not None:
                by_kind[kind].append(claim)
        return {kind: claims for kind, claims in by_kind.items() if claims}

    def _kind(self, before, after):
        """The kind of the change of a claim that still exists; None if nothing that counts has
        changed."""
        if before is None or not before.has_uuid(after.uuid):
            return MADE
        if after.resizing and _resize(before) != _resize(after):
            return RESIZING
        if before.resizing and not after.resizing:
            return SETTLED if self.cause == FINISH else REVERTED
        if before.move and not after.move:
            return SETTLED
        return CONFIRMED if after.is_confirmed and not before.is_confirmed else None


def _resize(claim):
    """What tells one resize in place from the next."""
    return claim.resizing and (claim.resizing.uuid, claim.resizing.new)
