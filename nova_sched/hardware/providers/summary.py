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
"""Summary figures of a node's providers, which show quickly that a request cannot fit there."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping

from nova_sched.hardware.providers.asked import ProviderRequest
from nova_sched.hardware.providers.provider import Provider


@dataclasses.dataclass(frozen=True, slots=True)
class TreeSummary:
    """By resource class: the units that one consumer can get from the ``best`` provider, and
    ``of_all``."""

    best: Mapping[str, int]
    of_all: Mapping[str, int]
    traits: frozenset[str]  # traits that any provider has

    @classmethod
    def of(cls, providers: Iterable[Provider]) -> 'TreeSummary':
        best: dict[str, int] = {}
        of_all: dict[str, int] = {}
        traits = frozenset[str]()
        for provider in providers:
            traits |= provider.traits
            for name, stock in provider.stocks.items():
                best[name] = max(best.get(name, 0), stock.best)
                of_all[name] = of_all.get(name, 0) + stock.best
        return cls(best, of_all, traits)

    def may_take(self, asked: ProviderRequest) -> bool:
        """Returns False if the request cannot fit. True is inconclusive."""
        sums: dict[str, int] = collections.Counter()
        for piece in asked.pieces():
            if not piece.required <= self.traits:
                return False
            for name, units in piece.resources:
                sums[name] += units
                if units > self.best.get(name, 0):
                    return False
        return asked.required <= self.traits and all(
            units <= self.of_all[name] for name, units in sums.items()
        )
