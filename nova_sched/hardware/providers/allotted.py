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
"""The units that a request gets from each provider, and the units that are left there."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova_sched.hardware import Overdrawn, wire
from nova_sched.hardware.providers.tree import Provider, ProviderTree, Stock


@dataclasses.dataclass(frozen=True, slots=True)
class Allotted:
    """Units by resource class from one provider, for one group; no suffix: for resources outside
    groups."""

    suffix: str
    provider_uuid: str
    resources: Mapping[str, int]

    def to_plain(self) -> list[Any]:
        """Returns values that JSON can represent."""
        return [self.suffix, self.provider_uuid, dict(self.resources)]

    @classmethod
    def from_plain(cls, plain: Any) -> 'Allotted':
        """Reads the values that ``to_plain`` made. Raises MalformedObject."""
        with wire.reading('Allotted'):
            suffix, uuid, resources = plain
            return cls(
                str(suffix),
                str(uuid),
                {str(name): wire.count(units) for name, units in resources.items()},
            )


def on_root(tree: ProviderTree, allotted: Iterable[Allotted]) -> dict[str, int]:
    """Returns the part from the node itself, whose usage is recorded elsewhere."""
    sums: dict[str, int] = {}
    for part in allotted:
        if part.provider_uuid == tree.root:
            for name, units in part.resources.items():
                sums[name] = sums.get(name, 0) + units
    return sums


def take(tree: ProviderTree, allotted: Iterable[Allotted]) -> ProviderTree:
    """Returns the tree with these units in use. Raises Overdrawn if they do not exist or are not
    free."""
    sums = _sums(tree, allotted)
    for (uuid, name), units in sums.items():
        stock = tree.stock(uuid, name)
        free = max(stock.free, 0) if stock else 0
        if units > free:
            raise Overdrawn(f'{name} of provider {uuid}', f'{units} asked, {free} free')
    return _changed(tree, sums, lambda stock, units: stock.with_use(units))


def hold(tree: ProviderTree, allotted: Iterable[Allotted]) -> ProviderTree:
    """Returns the tree with these units in use, even beyond the inventory; ignores missing
    providers."""
    return _changed(tree, _sums(tree, allotted), lambda stock, units: stock.with_use(units))


def give_back(tree: ProviderTree, allotted: Iterable[Allotted]) -> ProviderTree:
    """Returns the tree without this usage. Raises Overdrawn if it is not in use; ignores missing
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
    """Returns a tree as its node reported it, without this usage. The remainder belongs to other
    consumers."""
    return _changed(
        tree, _sums(tree, allotted), lambda stock, units: stock.with_use(-min(units, stock.used))
    )


def _sums(tree: ProviderTree, allotted: Iterable[Allotted]) -> dict[tuple[str, str], int]:
    """Returns units by child provider and resource class."""
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
    return tree.with_providers(changed) if changed else tree
