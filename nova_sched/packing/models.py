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
"""The models of devices, and what requests ask of one device."""

import math
from typing import NamedTuple

import numpy as np

from nova_sched.packing.device_potential import FULL, Items

NO_MODEL = -1
NEVER = FULL + 1  # thousandths that no device has


class Item(NamedTuple):
    """What a size asks of one device; see ``device_potential.Items``."""

    resource_class: str
    milli: int
    apart: bool
    required: frozenset[str]
    forbidden: frozenset[str]

    def is_allowed(self, resource_class, traits):
        return (
            resource_class == self.resource_class
            and self.required <= traits
            and self.forbidden.isdisjoint(traits)
        )


class Models:
    """The models of devices: devices that serve the same items are of one model.

    ``full`` is the number of units of a whole device, by resource class.
    """

    def __init__(self, trees, demands):
        self.full: dict[str, int] = {}
        traits = set[str]()
        for tree in trees:
            for provider in tree.children:
                traits |= provider.traits
                for name, stock in provider.stocks.items():
                    self.full[name] = max(self.full.get(name, 1), stock.total)
        self._known = frozenset(traits)
        self.items = sorted({self.item_of(one) for one in demands}, key=_by_milli)
        self.classes = sorted({item.resource_class for item in self.items})
        self.patterns: dict[tuple, int] = {}
        self._numbers: dict[tuple[str, frozenset[str]], int] = {}
        for tree in trees:
            for name, seen, _ in kinds(tree):
                if name in self.classes:
                    self.patterns.setdefault(self._pattern(name, seen), len(self.patterns))

    def item_of(self, demand):
        """The Item of a DeviceDemand. Traits that no device has are those of the node."""
        full = self.full.get(demand.resource_class)
        milli = NEVER if full is None else min(math.ceil(demand.units * FULL / full), NEVER)
        return Item(
            demand.resource_class,
            max(milli, 1),
            demand.count > 1,
            demand.required & self._known,
            demand.forbidden,
        )

    def _pattern(self, name, traits):
        return name, tuple(item.is_allowed(name, traits) for item in self.items)

    def number(self, name, traits):
        """The number of the model of such a device; of one that is new, the most similar."""
        found = self._numbers.get((name, traits))
        if found is None:
            found = self._numbers[name, traits] = self._find(name, traits)
        return found

    def _find(self, name, traits):
        pattern = self._pattern(name, traits)
        found = self.patterns.get(pattern)
        if found is None:
            alike = [
                (sum(a == b for a, b in zip(pattern[1], known[1], strict=True)), -number)
                for known, number in self.patterns.items()
                if known[0] == name
            ]
            found = -max(alike)[1] if alike else NO_MODEL
            self.patterns[pattern] = found
        return found

    def as_items(self):
        """The Items of the potential."""
        allowed = np.array([bits for _, bits in self.patterns], dtype=bool)
        place = {name: number for number, name in enumerate(self.classes)}
        return Items(
            np.array([item.milli for item in self.items], dtype=np.int64),
            np.array([place[item.resource_class] for item in self.items], dtype=np.int64),
            np.array([item.apart for item in self.items], dtype=bool),
            allowed.reshape(len(self.patterns), len(self.items)),
            np.array([place[name] for name, _ in self.patterns], dtype=np.int64),
        )


def _by_milli(item):
    return (
        item.milli,
        item.resource_class,
        item.apart,
        sorted(item.required),
        sorted(item.forbidden),
    )


def kinds(tree):
    """(resource class, traits, Stock) of the devices of a tree, in order; the node's own traits
    count too."""
    own = tree.by_uuid[tree.root].traits if tree.root in tree.by_uuid else frozenset()
    for provider in tree.children:
        for name, stock in provider.stocks.items():
            yield name, provider.traits | own, stock
