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
"""The claims that a caller means, if claims have changed since it sent its message.

A message may arrive late or twice. ``since_s`` is the time, by the store's clock, after which it
was certainly sent (see engine.received). The sender may not know of changes after that time.
"""

import math
from typing import NamedTuple


class Meant(NamedTuple):
    """The claims that a message is about: the claim with UUID ``name``; without ``name``, the
    claims that its sender knew."""

    name: str | None = None
    since_s: float = math.inf

    def covers(self, claim):
        """Whether the message is about this claim, or about its open resize."""
        if self.name is not None:
            return claim.is_named(self.name)
        return (claim.changed_s if claim.resizing else claim.created_s) <= self.since_s

    def may_end(self, claim):
        """Whether the message ends this claim: a confirmed one, only if the message is newer than
        its confirmation."""
        if self.name is not None and not claim.is_named(self.name):
            return False
        is_safe = self.name is not None and not claim.is_confirmed
        return is_safe or claim.changed_s <= self.since_s


ANY = Meant()
