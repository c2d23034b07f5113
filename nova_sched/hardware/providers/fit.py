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
"""Assigns groups to providers: the fullest suitable one, so that partly used devices fill up
first."""

from collections.abc import Iterable, Mapping, Sequence

from nova_sched.hardware.providers.allotted import Allotted
from nova_sched.hardware.providers.request import ProviderRequest, ResourceGroup
from nova_sched.hardware.providers.tree import Provider, ProviderTree

# The search ends after this number of tries to assign a group to a provider. It misses a fit only
# on a node whose devices all differ, if all groups compete for them.
MOST_TRIES = 2_000


def fit(
    tree: ProviderTree, asked: ProviderRequest, preferred: str | None = None
) -> tuple[Allotted, ...] | None:
    """Returns the units for each group and loose amount by provider; None if it does not fit.

    Groups come in their order, then the loose amounts, by provider. A request for one provider
    gets the ``preferred`` one (UUID), if that is suitable.
    """
    pieces = list(asked.pieces())
    choices = [candidates(tree, piece) for piece in pieces]
    if not all(choices):
        return None
    if len(pieces) == 1 and not asked.required:
        piece = pieces[0]
        best = min(
            choices[0],
            key=lambda one: (
                one.uuid != preferred,
                _left_over(one, piece, _free(one, piece.classes)),
            ),
        )
        return (Allotted(piece.suffix, best.uuid, dict(piece.resources)),)
    return _ProviderSearch(tree, asked, pieces, choices).run()


def fits(tree: ProviderTree, asked: ProviderRequest) -> bool:
    """Returns whether ``fit`` finds units for the request.

    The most frequent requests, for one group or several equal ones, need no search: their
    candidates are counted.
    """
    pieces = list(asked.pieces())
    if pieces and not asked.required and not asked.subtrees:
        first = pieces[0]
        if len(pieces) == 1 or (asked.isolate and all(_alike(first, one) for one in pieces)):
            return len(candidates(tree, first)) >= len(pieces)
    return tree.summary.may_take(asked) and fit(tree, asked) is not None


def _alike(one: ResourceGroup, other: ResourceGroup) -> bool:
    """Whether two groups, not loose amounts, differ in their suffixes only."""
    return bool(one.suffix and other.suffix) and (
        one.resources == other.resources
        and one.required == other.required
        and one.forbidden == other.forbidden
        and one.in_tree == other.in_tree
    )


def candidates(tree: ProviderTree, piece: ResourceGroup) -> list[Provider]:
    """Returns the providers that could meet it if nothing else were requested."""
    if piece.in_tree is not None and piece.in_tree not in tree.by_uuid:
        return []
    return [
        one
        for one in tree.providers
        if has_traits(one, piece) and has_stocks(one, piece.resources)
    ]


def has_traits(provider: Provider, piece: ResourceGroup) -> bool:
    return piece.required <= provider.traits and piece.forbidden.isdisjoint(provider.traits)


def has_stocks(provider: Provider, resources: Iterable[tuple[str, int]]) -> bool:
    stocks = provider.stocks
    return all(name in stocks and stocks[name].gives(units) for name, units in resources)


class _ProviderSearch:
    """One search through the choices: the hardest piece first, and its best provider first.

    Providers in an equal state are one choice. States that differ only by a swap of such providers
    are one state. Devices of one kind therefore cost at most one try per piece.
    """

    def __init__(
        self,
        tree: ProviderTree,
        asked: ProviderRequest,
        pieces: Sequence[ResourceGroup],
        choices: Sequence[Sequence[Provider]],
    ):
        self._tree, self._asked = tree, asked
        self._pieces, self._choices = pieces, choices
        self._order = sorted(
            range(len(pieces)),
            key=lambda place: (len(choices[place]), _size(pieces[place]), place),
        )
        names = frozenset[str]().union(*(piece.classes for piece in pieces))
        self._relevant = asked.required.union(
            *(piece.required | piece.forbidden for piece in pieces)
        )
        # Units by class that each provider can still give: in total, and to this request.
        self._free = {one.uuid: _free(one, names) for one in tree.providers}
        self._most = {
            one.uuid: {name: one.stocks[name].largest for name in names & one.stocks.keys()}
            for one in tree.providers
        }
        self._kinds = {one.uuid: self._kind(one, names) for one in tree.providers}
        self._chosen: dict[int, Provider] = {}
        self._isolated: set[str] = set()
        self._lost: set[object] = set()
        self._tries = 0

    def _kind(self, provider: Provider, names: frozenset[str]) -> object:
        """Returns the attributes that distinguish a provider, in addition to its free units."""
        stocks = ((name, stock.total, stock.min_unit, stock.step_size)
                  for name, stock in provider.stocks.items() if name in names)  # fmt: skip
        place = provider.uuid if self._asked.subtrees else None
        return place, provider.traits & self._relevant, tuple(sorted(stocks))

    def run(self) -> tuple[Allotted, ...] | None:
        return self._allotted() if self._extend(0) else None

    def _extend(self, depth: int) -> bool:
        """Assigns the pieces from this depth on."""
        if depth == len(self._order):
            return self._asked.required <= self._traits()
        state = self._state(depth)
        if state in self._lost:
            return False
        place = self._order[depth]
        seen = set()
        for provider in sorted(self._choices[place], key=lambda one: self._left(one, place)):
            alike = self._signature(provider)
            if alike in seen or not self._has_room(provider, place):
                continue
            seen.add(alike)
            self._tries += 1
            if self._tries > MOST_TRIES:
                return False
            self._move(provider, place, -1)
            if all(map(self._has_top, self._asked.subtrees)) and self._extend(depth + 1):
                return True
            self._move(provider, place, 1)
        self._lost.add(state)
        return False

    def _left(self, provider: Provider, place: int) -> tuple[int, float]:
        """Returns a sort key for providers: those with missing traits first, then the one with the
        least left."""
        piece = self._pieces[place]
        missing = 0 if piece.suffix else len(self._asked.required & provider.traits)
        return -missing, _left_over(provider, piece, self._free[provider.uuid])

    def _has_room(self, provider: Provider, place: int) -> bool:
        piece, uuid = self._pieces[place], provider.uuid
        if self._asked.isolate and piece.suffix and uuid in self._isolated:
            return False
        free, most = self._free[uuid], self._most[uuid]
        return all(units <= min(free[name], most[name]) for name, units in piece.resources)

    def _move(self, provider: Provider, place: int, sign: int) -> None:
        """Assigns a piece to a provider (-1), or releases it (1)."""
        piece, uuid = self._pieces[place], provider.uuid
        for name, units in piece.resources:
            self._free[uuid][name] += sign * units
            self._most[uuid][name] += sign * units
        if sign < 0:
            self._chosen[place] = provider
        else:
            del self._chosen[place]
        if piece.suffix and self._asked.isolate:
            (self._isolated.add if sign < 0 else self._isolated.discard)(provider.uuid)

    def _signature(self, provider: Provider) -> object:
        """Returns a key that is equal for providers that are equivalent from here on."""
        uuid = provider.uuid
        most = self._most[uuid]
        room = tuple(sorted((name, free, most[name]) for name, free in self._free[uuid].items()))
        return self._kinds[uuid], uuid in self._isolated, room

    def _state(self, depth: int) -> object:
        """Returns a key that is equal for states from which the same pieces can be met."""
        signature = frozenset(_counted(map(self._signature, self._tree.providers)))
        near = tuple(sorted((place, one.uuid) for place, one in self._chosen.items()
                            if self._asked.subtrees))  # fmt: skip
        return depth, signature, self._traits() & self._asked.required, near

    def _traits(self) -> frozenset[str]:
        """Returns the traits of the providers of the loose amounts."""
        found = (
            one.traits for place, one in self._chosen.items() if not self._pieces[place].suffix
        )
        return frozenset[str]().union(*found)

    def _has_top(self, suffixes: frozenset[str]) -> bool:
        """Returns whether in a subtree one provider is, or can still be, above all chosen ones."""
        chosen, open_tops = set[str](), set[str]()
        for place, piece in enumerate(self._pieces):
            if piece.suffix in suffixes:
                if place in self._chosen:
                    chosen.add(self._chosen[place].uuid)
                else:
                    open_tops.update(one.uuid for one in self._choices[place])
        tops = [self._tree.above[uuid] for uuid in chosen]
        return not chosen or any(all(top in above for above in tops) for top in chosen | open_tops)

    def _allotted(self) -> tuple[Allotted, ...]:
        found, loose = [], dict[str, dict[str, int]]()
        for place, piece in enumerate(self._pieces):
            uuid = self._chosen[place].uuid
            if piece.suffix:
                found.append(Allotted(piece.suffix, uuid, dict(piece.resources)))
            else:
                loose.setdefault(uuid, {}).update(piece.resources)
        return (*found, *(Allotted('', uuid, resources) for uuid, resources in loose.items()))


def _free(provider: Provider, names: frozenset[str]) -> dict[str, int]:
    """Returns the free units of these classes, as far as the provider has them."""
    return {name: stock.free for name, stock in provider.stocks.items() if name in names}


def _left_over(provider: Provider, piece: ResourceGroup, free: Mapping[str, int]) -> float:
    """Returns the share of the provider that would be left, summed over the classes."""
    return sum(
        (free[name] - units) / max(provider.stocks[name].total, 1)
        for name, units in piece.resources
    )


def _size(piece: ResourceGroup) -> int:
    """Returns a sort key for pieces: the larger first."""
    return -sum(units for _, units in piece.resources)


def _counted(things: Iterable[object]) -> Iterable[tuple[object, int]]:
    counts: dict[object, int] = {}
    for thing in things:
        counts[thing] = counts.get(thing, 0) + 1
    return counts.items()
