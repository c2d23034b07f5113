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
"""The tree of a node's providers, nested as in Placement, with their inventories; what a request
asks for from them, and the units that it gets."""

import collections
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from nova_sched import words
from nova_sched.hardware import Overdrawn, wire

Amounts = tuple[tuple[str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources (class and units, sorted) and traits that one provider must have, all of them.

    ``suffix`` is the suffix in the extra specs, or the id of a port. A group of traits alone
    restricts where the other groups of its subtree may be. ``in_tree``: a provider of the node
    must have this UUID.
    """

    suffix: str
    resources: Amounts = ()
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    in_tree: str | None = None

    @property
    def classes(self) -> frozenset[str]:
        """Return the resource classes that it asks for."""
        return frozenset(name for name, _ in self.resources)


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderRequest:
    """The resources that a request asks for from the providers of one node.

    ``isolate``: each group needs a separate provider. ``subtrees``: sets of suffixes; one provider
    of each set must be above the other providers of the set. ``loose`` are amounts outside groups
    of classes that the node itself does not have. Each comes from any one provider. Together these
    providers must have the ``required`` traits, and none may have a ``forbidden`` one.
    """

    groups: tuple[ResourceGroup, ...] = ()
    isolate: bool = False
    subtrees: tuple[frozenset[str], ...] = ()
    loose: Amounts = ()
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.groups or self.loose or self.required)

    def pieces(self) -> Iterator[ResourceGroup]:
        """Return the pieces that need one provider each; loose amounts have no suffix."""
        yield from self.groups
        for amount in self.loose:
            yield ResourceGroup('', (amount,), forbidden=self.forbidden)

    @property
    def anonymous(self) -> 'ProviderRequest':
        """Return the same with groups identified by number: equal for requests that fit the same
        nodes."""
        numbers = {group.suffix: str(number) for number, group in enumerate(self.groups, 1)}
        return dataclasses.replace(
            self,
            groups=tuple(
                ResourceGroup(
                    numbers[group.suffix],
                    group.resources,
                    group.required,
                    group.forbidden,
                    group.in_tree,
                )
                for group in self.groups
            ),
            subtrees=tuple(
                frozenset(numbers[suffix] for suffix in some if suffix in numbers)
                for some in self.subtrees
            ),
        )


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
        """Return the free units; negative if usage exceeds the capacity."""
        return int((self.total - self.reserved) * self.ratio) - self.used

    @property
    def largest(self) -> int:
        """Return the largest amount that one consumer may have in total."""
        return self.total if self.max_unit is None else min(self.total, self.max_unit)

    @property
    def best(self) -> int:
        """Return the largest amount that one consumer can get now."""
        return max(min(self.free, self.largest), 0)

    def gives(self, amount: int) -> bool:
        """Return whether a consumer without an allocation here can get this amount."""
        return self.min_unit <= amount <= self.best and amount % self.step_size == 0

    def with_use(self, amount: int) -> 'Stock':
        """Return the inventory with this additional usage; a negative amount frees it."""
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
        """Return False if the request cannot fit. True is inconclusive."""
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
        """Return the tree without names, with numbers for UUIDs: equal for nodes with the same
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
        """Return the resource classes of all inventories."""
        return frozenset(name for provider in self.providers for name in provider.stocks)

    @functools.cached_property
    def by_uuid(self) -> dict[str, Provider]:
        return {provider.uuid: provider for provider in self.providers}

    @functools.cached_property
    def children(self) -> tuple[Provider, ...]:
        """Return all providers except the node itself."""
        return tuple(provider for provider in self.providers if provider.uuid != self.root)

    @functools.cached_property
    def above(self) -> dict[str, frozenset[str]]:
        """Map each provider to itself and all of its ancestors."""
        above = {}
        for provider in self.providers:
            uuids = set[str]()
            ancestor: Provider | None = provider
            while ancestor is not None and ancestor.uuid not in uuids:
                uuids.add(ancestor.uuid)
                ancestor = self.by_uuid.get(ancestor.parent or '')
            above[provider.uuid] = frozenset(uuids)
        return above

    @functools.cached_property
    def summary(self) -> TreeSummary:
        return TreeSummary.of(self.providers)

    def stock(self, uuid: str, resource_class: str) -> Stock | None:
        """Return a provider's inventory of a class; None if it does not exist."""
        provider = self.by_uuid.get(uuid)
        return None if provider is None else provider.stocks.get(resource_class)

    def with_root(
        self, stocks: Mapping[str, Stock], traits: frozenset[str] = frozenset()
    ) -> 'ProviderTree':
        """Return the tree with the node itself as a provider of these inventories, so that it can
        meet groups too."""
        own = self.by_uuid.get(self.root, Provider(self.root))
        own = dataclasses.replace(own, stocks=stocks, traits=own.traits | traits)
        return ProviderTree(self.root, (own, *self.children))

    @classmethod
    def from_json(cls, text: str, root: str) -> 'ProviderTree':
        """Read providers by UUID as a node reports them, including the node itself. Raises
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


@dataclasses.dataclass(frozen=True, slots=True)
class Allotted:
    """Units by resource class from one provider, for one group; no suffix: for resources outside
    groups."""

    suffix: str
    provider_uuid: str
    resources: Mapping[str, int]

    def to_plain(self) -> list[Any]:
        """Return values that JSON can represent."""
        return [self.suffix, self.provider_uuid, dict(self.resources)]

    @classmethod
    def from_plain(cls, plain: Any) -> 'Allotted':
        """Read the values that ``to_plain`` made. Raises MalformedObject."""
        with wire.reading('Allotted'):
            suffix, uuid, resources = plain
            return cls(
                str(suffix),
                str(uuid),
                {str(name): wire.count(units) for name, units in resources.items()},
            )


def on_root(tree: ProviderTree, allotted: Iterable[Allotted]) -> dict[str, int]:
    """Return the part from the node itself, whose usage is recorded elsewhere."""
    sums: dict[str, int] = {}
    for part in allotted:
        if part.provider_uuid == tree.root:
            for name, units in part.resources.items():
                sums[name] = sums.get(name, 0) + units
    return sums


def take(tree: ProviderTree, allotted: Iterable[Allotted]) -> ProviderTree:
    """Return the tree with these units in use. Raises Overdrawn if they do not exist or are not
    free."""
    sums = _sums(tree, allotted)
    for (uuid, name), units in sums.items():
        stock = tree.stock(uuid, name)
        free = max(stock.free, 0) if stock else 0
        if units > free:
            raise Overdrawn(f'{name} of provider {uuid}', f'{units} asked, {free} free')
    return _changed(tree, sums, lambda stock, units: stock.with_use(units))


def hold(tree: ProviderTree, allotted: Iterable[Allotted]) -> ProviderTree:
    """Return the tree with these units in use, even beyond the inventory; ignores missing
    providers."""
    return _changed(tree, _sums(tree, allotted), lambda stock, units: stock.with_use(units))


def give_back(tree: ProviderTree, allotted: Iterable[Allotted]) -> ProviderTree:
    """Return the tree without this usage. Raises Overdrawn if it is not in use; ignores missing
    providers."""
    sums = _sums(tree, allotted)
    for (uuid, name), units in sums.items():
        stock = tree.stock(uuid, name)
        if stock and units > stock.used:
            raise Overdrawn(
                f'{name} of provider {uuid}', f'{units} given back, {stock.used} in use'
            )
    return _changed(tree, sums, lambda stock, units: stock.with_use(-units))


def less_known(tree: ProviderTree, allotted: Iterable[Allotted]) -> ProviderTree:
    """Return a tree as its node reported it, without this usage. The remainder belongs to other
    consumers."""
    return _changed(
        tree, _sums(tree, allotted), lambda stock, units: stock.with_use(-min(units, stock.used))
    )


def _sums(tree: ProviderTree, allotted: Iterable[Allotted]) -> dict[tuple[str, str], int]:
    """Return units by child provider and resource class."""
    sums: dict[tuple[str, str], int] = {}
    for part in allotted:
        if part.provider_uuid != tree.root:
            for name, units in part.resources.items():
                key = part.provider_uuid, name
                sums[key] = sums.get(key, 0) + units
    return sums


def _changed(
    tree: ProviderTree, sums: Mapping[tuple[str, str], int], change: Callable[[Stock, int], Stock]
) -> ProviderTree:
    changed: dict[str, Provider] = {}
    for (uuid, name), units in sums.items():
        stock = tree.stock(uuid, name)
        if stock is not None:
            provider = changed.get(uuid) or tree.by_uuid[uuid]
            changed[uuid] = provider.with_stocks({name: change(stock, units)})
    if not changed:
        return tree
    return ProviderTree(
        tree.root, tuple(changed.get(provider.uuid, provider) for provider in tree.providers)
    )
