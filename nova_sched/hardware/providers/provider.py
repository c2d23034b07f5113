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
"""One provider, a node or a device below it, and its inventories."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Stock:
    """The inventory of one resource class at one provider, in whole units; ``max_unit`` None means
    ``total``."""

    total: int
    reserved: int = 0
    ratio: float = 1.0
    min_unit: int = 1
    max_unit: int | None = None
    step_size: int = 1
    used: int = 0

    @property
    def free(self) -> int:
        """Returns the free units; negative if usage exceeds the capacity."""
        return int((self.total - self.reserved) * self.ratio) - self.used

    @property
    def largest(self) -> int:
        """Returns the largest amount that one consumer may have in total."""
        return self.total if self.max_unit is None else min(self.total, self.max_unit)

    @property
    def best(self) -> int:
        """Returns the largest amount that one consumer can get now."""
        return max(min(self.free, self.largest), 0)

    def gives(self, amount: int) -> bool:
        """Returns whether a consumer without an allocation here can get this amount."""
        return self.min_unit <= amount <= self.best and amount % self.step_size == 0

    def with_use(self, amount: int) -> 'Stock':
        """Returns the inventory with this additional usage; a negative amount frees it."""
        return dataclasses.replace(self, used=self.used + amount)


@dataclasses.dataclass(frozen=True)
class Provider:
    """One provider; ``stocks`` maps resource classes to inventories, ``parent`` is the parent's
    UUID."""

    uuid: str
    stocks: Mapping[str, Stock] = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    parent: str | None = None
    name: str = ''

    def with_stocks(self, changed: Mapping[str, Stock]) -> 'Provider':
        return dataclasses.replace(self, stocks={**self.stocks, **changed})
