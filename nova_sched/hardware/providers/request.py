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
"""The provider part of a request: groups that need one provider each, and resources outside
groups."""

import dataclasses
from collections.abc import Iterator

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
        """Returns the resource classes that it asks for."""
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
        """Returns the pieces that need one provider each; loose amounts have no suffix."""
        yield from self.groups
        for amount in self.loose:
            yield ResourceGroup('', (amount,), forbidden=self.forbidden)

    @property
    def anonymous(self) -> 'ProviderRequest':
        """Returns the same with groups identified by number: equal for requests that fit the same
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
