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
"""A few figures of a node's child providers, which tell at a glance that a request has no place there."""

import dataclasses
from collections.abc import Mapping

from nova_sched.hardware.providers.tree import Tree


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """By resource class: units that one consumer can have from the ``best`` child, and from all in ``sum``.

    ``traits`` are those of any child.
    """

    best: Mapping[str, int]
    sum: Mapping[str, int]
    traits: frozenset[str]

    @classmethod
    def of(cls, tree: Tree) -> 'Summary':
        best: dict[str, int] = {}
        total: dict[str, int] = {}
        for provider in tree.children:
            for name, stock in provider.stocks.items():
                best[name] = max(best.get(name, 0), stock.best)
                total[name] = total.get(name, 0) + stock.best
        return cls(best, total, frozenset[str]().union(*(one.traits for one in tree.children)))
