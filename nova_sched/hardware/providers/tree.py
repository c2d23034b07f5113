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
"""The tree of a node's providers, nested as in Placement, and their inventories."""

import collections
import dataclasses
import functools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched import words
from nova_sched.hardware import wire
from nova_sched.hardware.providers.request import ProviderRequest


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
        # Runs for each claim: this takes a third as long as dataclasses.replace.
        return Stock(
            self.total,
            self.reserved,
            self.ratio,
            self.min_unit,
            self.max_unit,
            self.step_size,
            self.used + amount,
        )


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
        stocks = {**self.stocks, **changed}
        return Provider(self.uuid, stocks, self.traits, self.parent, self.name)


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

    def may_take(self, request: ProviderRequest) -> bool:
        """Returns False if the request cannot fit. True is inconclusive."""
        sums: dict[str, int] = collections.Counter()
        for piece in request.pieces():
            if not piece.required <= self.traits:
                return False
            for name, units in piece.resources:
                sums[name] += units
                if units > self.best.get(name, 0):
                    return False
        return request.required <= self.traits and all(
            units <= self.of_all[name] for name, units in sums.items()
        )


@dataclasses.dataclass(frozen=True)
class ProviderTree:
    """All providers of one node, by name. ``root`` is the UUID of the node itself.

    The usage of the node's own inventories is not recorded here. Its provider has traits, and has
    inventories only in the tree that ``with_root`` makes for one fit.
    """

    root: str
    providers: tuple[Provider, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash(tuple(
            (provider.uuid, provider.parent, provider.traits, frozenset(provider.stocks.items()))
            for provider in self.providers
        ))  # fmt: skip

    @functools.cached_property
    def shape(self) -> 'ProviderTree':
        """Returns the tree without names, with numbers for UUIDs: equal for nodes with the same
        supply."""
        numbers = {provider.uuid: str(place) for place, provider in enumerate(self.providers)}
        return ProviderTree(
            numbers.get(self.root, ''),
            tuple(
                Provider(
                    numbers[provider.uuid],
                    provider.stocks,
                    provider.traits,
                    numbers.get(provider.parent or ''),
                )
                for provider in self.providers
            ),
        )

    @functools.cached_property
    def classes(self) -> frozenset[str]:
        """Returns the resource classes of all inventories."""
        return frozenset(name for provider in self.providers for name in provider.stocks)

    @functools.cached_property
    def by_uuid(self) -> dict[str, Provider]:
        return {provider.uuid: provider for provider in self.providers}

    @functools.cached_property
    def children(self) -> tuple[Provider, ...]:
        """Returns all providers except the node itself."""
        return tuple(provider for provider in self.providers if provider.uuid != self.root)

    @functools.cached_property
    def above(self) -> dict[str, frozenset[str]]:
        """Maps each provider to itself and all of its ancestors."""
        return {provider.uuid: frozenset(self._up(provider)) for provider in self.providers}

    @functools.cached_property
    def summary(self) -> TreeSummary:
        return TreeSummary.of(self.providers)

    def _up(self, provider: Provider) -> list[str]:
        uuids: list[str] = []
        ancestor: Provider | None = provider
        while ancestor is not None and ancestor.uuid not in uuids:
            uuids.append(ancestor.uuid)
            ancestor = self.by_uuid.get(ancestor.parent or '')
        return uuids

    def stock(self, uuid: str, resource_class: str) -> Stock | None:
        """Returns a provider's inventory of a class; None if it does not exist."""
        provider = self.by_uuid.get(uuid)
        return None if provider is None else provider.stocks.get(resource_class)

    def with_providers(self, changed: Mapping[str, Provider]) -> 'ProviderTree':
        """Returns the tree with these providers in place of those with the same UUIDs."""
        return ProviderTree(
            self.root, tuple(changed.get(provider.uuid, provider) for provider in self.providers)
        )

    def with_root(
        self, stocks: Mapping[str, Stock], traits: frozenset[str] = frozenset()
    ) -> 'ProviderTree':
        """Returns the tree with the node itself as a provider of these inventories, so that it can
        meet groups too."""
        own = self.by_uuid.get(self.root, Provider(self.root))
        own = dataclasses.replace(own, stocks=stocks, traits=own.traits | traits)
        return ProviderTree(self.root, (own, *self.children))

    @classmethod
    def from_json(cls, text: str, root: str) -> 'ProviderTree':
        """Reads providers by UUID as a node reports them, including the node itself. Raises
        MalformedObject.

        The node's own inventories are left out, see above.
        """
        with wire.reading('provider tree'):
            providers = [
                _read(uuid, given, uuid == root) for uuid, given in json.loads(text).items()
            ]
            return cls(
                root,
                tuple(
                    sorted(
                        providers,
                        key=lambda provider: (provider.uuid != root, provider.name, provider.uuid),
                    )
                ),
            )


def _read(uuid: str, given: Mapping[str, Any], is_root: bool) -> Provider:
    used = {} if is_root else given.get('used') or {}
    inventories = {} if is_root else given.get('inventories') or {}
    if strange := sorted(used.keys() - inventories.keys()):
        raise ValueError(f'{strange[0]} is in use, but not in the inventories')
    return Provider(
        uuid=uuid,
        stocks={
            name: _stock(inventory, used.get(name, 0)) for name, inventory in inventories.items()
        },
        traits=frozenset(given.get('traits') or ()),
        parent=given.get('parent_provider_uuid'),
        name=str(given.get('name') or ''),
    )


def _stock(given: Mapping[str, Any], used: Any) -> Stock:
    most = given.get('max_unit')
    stock = Stock(
        total=wire.count(given['total']),
        reserved=wire.count(given.get('reserved', 0)),
        ratio=words.finite(given.get('allocation_ratio', 1.0)),
        min_unit=wire.count(given.get('min_unit', 1)),
        max_unit=None if most is None else wire.count(most),
        step_size=wire.count(given.get('step_size', 1)),
        used=wire.count(used),
    )
    if not (0 <= stock.reserved <= stock.total and stock.used >= 0 and 0 < stock.ratio < math.inf):
        raise ValueError('reserved, used or allocation_ratio cannot be true')
    if min(stock.min_unit, stock.step_size, 1 if most is None else int(most)) < 1:
        raise ValueError('min_unit, max_unit and step_size must be 1 or more')
    return stock
