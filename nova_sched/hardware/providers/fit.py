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
first. Explains in text and figures why a request does not fit: the nearest miss."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nova_sched.hardware import Interrupted, Steps, Undecided
from nova_sched.hardware.providers.tree import (
    Allotted,
    Provider,
    ProviderRequest,
    ProviderTree,
    ResourceGroup,
)

# A search ends after so many assignments of a group to a provider, and after so many looks at a
# provider. It is then undecided, and the node counts as one on which the request does not fit.
MAX_TRIES = 2_000
MAX_STEPS = 8_000
# Of all nodes that one request is tried on; with fewer left, a search has FEWEST_STEPS.
SHARED_STEPS, FEWEST_STEPS = 100_000, 800


def fit(
    tree: ProviderTree, request: ProviderRequest, preferred: str | None = None
) -> tuple[Allotted, ...] | None:
    """Return the units for each group and loose amount by provider; None if it does not fit, or
    if the search ended undecided.

    Groups come in their order, then the loose amounts, by provider. A request for one provider
    gets the ``preferred`` one (UUID), if that is suitable.
    """
    try:
        return search(tree, request, preferred)
    except Undecided:
        return None


def search(
    tree: ProviderTree,
    request: ProviderRequest,
    preferred: str | None = None,
    steps: Steps | None = None,
) -> tuple[Allotted, ...] | None:
    """Return what ``fit`` returns. ``steps``: None means MAX_STEPS. Raises Undecided."""
    pieces = list(request.pieces())
    if request.isolate and len(request.groups) > len(tree.providers):
        return None
    known: dict[object, list[Provider]] = {}
    choices = []
    for piece in pieces:
        need = piece.resources, piece.required, piece.forbidden, piece.in_tree
        if need not in known:
            if len(known) * len(tree.providers) > MAX_STEPS:
                raise Undecided
            known[need] = candidates(tree, piece)
        choices.append(known[need])
        if not known[need]:
            return None
    if _is_counted(request, pieces):
        first = pieces[0]
        best = sorted(
            choices[0],
            key=lambda provider: (
                provider.uuid != preferred,
                _left_over(provider, first, _free(provider, first.classes)),
            ),
        )
        if len(best) < len(pieces):
            return None
        return tuple(
            Allotted(piece.suffix, provider.uuid, dict(piece.resources))
            for piece, provider in zip(pieces, best, strict=False)
        )
    return _ProviderSearch(tree, request, pieces, choices, steps or Steps(MAX_STEPS)).run()


def fits(tree: ProviderTree, request: ProviderRequest, shared: Steps | None = None) -> bool:
    """Return whether ``fit`` finds units for the request. ``shared`` are the steps of all nodes
    that it is tried on; raises Undecided if too few of them are left. Raises Interrupted: called
    again, it goes on.

    The most frequent requests, for one group or several equal ones, need no search: their
    candidates are counted.
    """
    pieces = list(request.pieces())
    if _is_counted(request, pieces):
        return len(candidates(tree, pieces[0])) >= len(pieces)
    if not tree.summary.may_take(request):
        return False
    steps = shared or Steps(MAX_STEPS)
    (known, rest), steps.interrupted = steps.interrupted, (None, None)
    try:
        if known == (tree, request) and rest is not None:
            return rest() is not None
        return search(tree, request, None, Steps(MAX_STEPS, shared, FEWEST_STEPS)) is not None
    except Interrupted as error:
        steps.interrupted = (tree, request), error.rest
        raise
    except Undecided as error:
        if error.for_now:
            raise
        return False


def _is_counted(request: ProviderRequest, pieces: Sequence[ResourceGroup]) -> bool:
    """Whether any candidates of the first piece serve all of them, one each."""
    if not pieces or request.required:
        return False
    if len(pieces) == 1:
        return True
    is_free = request.isolate and not request.subtrees
    return is_free and all(_alike(pieces[0], piece) for piece in pieces)


def _alike(group: ResourceGroup, other: ResourceGroup) -> bool:
    """Whether two groups, not loose amounts, differ in their suffixes only."""
    return bool(group.suffix and other.suffix) and (
        group.resources == other.resources
        and group.required == other.required
        and group.forbidden == other.forbidden
        and group.in_tree == other.in_tree
    )


def candidates(tree: ProviderTree, piece: ResourceGroup) -> list[Provider]:
    """Return the providers that could meet it if nothing else were requested."""
    if piece.in_tree is not None and piece.in_tree not in tree.by_uuid:
        return []
    return [
        provider
        for provider in tree.providers
        if has_traits(provider, piece)
        and all(
            name in provider.stocks and provider.stocks[name].gives(units)
            for name, units in piece.resources
        )
    ]


def has_traits(provider: Provider, piece: ResourceGroup) -> bool:
    return piece.required <= provider.traits and piece.forbidden.isdisjoint(provider.traits)


class _ProviderSearch:
    """One search through the choices: the hardest piece first, and its best provider first.

    Providers in an equal state are one choice. States that differ only by a swap of such providers
    are one state. Devices of one kind therefore cost at most one try per piece. Counting ends a
    search early: of units by class, and of the separate providers that isolated groups need. As
    these are a matching, a search for isolated groups alone never goes back.
    """

    def __init__(
        self,
        tree: ProviderTree,
        request: ProviderRequest,
        pieces: Sequence[ResourceGroup],
        choices: Sequence[Sequence[Provider]],
        steps: Steps,
    ):
        self._tree, self._asked = tree, request
        self._pieces, self._choices = pieces, choices
        self._order = sorted(
            range(len(pieces)),
            key=lambda place: (
                len(choices[place]),
                -sum(units for _, units in pieces[place].resources),
                place,
            ),
        )
        names = frozenset[str]().union(*(piece.classes for piece in pieces))
        self._relevant = request.required.union(
            *(piece.required | piece.forbidden for piece in pieces)
        )
        self._place_of = {
            provider.uuid: place for place, provider in enumerate(tree.providers)
        }  # in the tree
        # Units by class that each provider can still give: in total, and to this request.
        self._free = {provider.uuid: _free(provider, names) for provider in tree.providers}
        self._most = {
            provider.uuid: {
                name: provider.stocks[name].largest for name in names & provider.stocks.keys()
            }
            for provider in tree.providers
        }
        self._kinds = {provider.uuid: self._kind(provider, names) for provider in tree.providers}
        self._chosen: dict[int, Provider] = {}
        self._isolated: set[str] = set()
        self._numbers: dict[object, int] = {}  # of signatures
        self._first = {
            provider.uuid: self._signature(provider.uuid) for provider in tree.providers
        }
        self._now = dict(self._first)
        # Pieces with a list of choices in common have a list of groups of alike ones in common.
        alike = {id(some): self._grouped(some) for some in choices}
        self._alike = [alike[id(some)] for some in choices]
        self._touched: dict[str, int] = {}  # how many pieces a provider has
        self._lost: set[object] = set()
        self._tries, self._steps = Steps(MAX_TRIES), steps
        self._open: list[Iterator[tuple[Provider, dict[str, int]]]] | None = None

    def _kind(self, provider: Provider, names: frozenset[str]) -> object:
        """Return the attributes that distinguish a provider, in addition to its free units."""
        stocks = ((name, stock.total, stock.min_unit, stock.step_size)
                  for name, stock in provider.stocks.items() if name in names)  # fmt: skip
        place = provider.uuid if self._asked.subtrees else None
        return place, provider.traits & self._relevant, tuple(sorted(stocks))

    def _grouped(self, some: Iterable[Provider]) -> list[list[Provider]]:
        """Return the providers in groups of those that are alike at the beginning."""
        groups: dict[int, list[Provider]] = {}
        for provider in some:
            groups.setdefault(self._first[provider.uuid], []).append(provider)
        return list(groups.values())

    def run(self) -> tuple[Allotted, ...] | None:
        """Return the first complete choice; None if there is none. Raises Undecided, and
        Interrupted: called again, it goes on."""
        if self._open is None:
            matching = self._matching()
            if matching is None or not self._may_fit():
                return None
            if not self._order:
                return ()
            self._open = [self._options(0, matching)]
        while self._open:
            if self._is_complete(self._open):
                return self._allotted()
            if self._steps.pause is not None and self._steps.pause():
                raise Interrupted(self.run)
        return None

    def _is_complete(self, open_choices: list[Iterator[tuple[Provider, dict[str, int]]]]) -> bool:
        """Take the next choice, or go back by one. Return whether each piece has a provider."""
        depth = len(open_choices) - 1
        chosen = next(open_choices[-1], None)
        if chosen is None:
            self._lost.add(self._state(depth))
            open_choices.pop()
            if depth:
                self._move(depth - 1, 1)
            return False
        provider, matching = chosen
        self._move(depth, -1, provider)
        if all(map(self._has_top, self._asked.subtrees)):
            if depth + 1 == len(self._order):
                if self._asked.required <= self._traits():
                    return True
            elif self._state(depth + 1) not in self._lost:
                open_choices.append(self._options(depth + 1, matching))
                return False
        self._move(depth, 1)
        return False

    # What counting refutes.

    def _may_fit(self) -> bool:
        """Return False if counting shows that the request does not fit."""
        loose = (
            provider.traits
            for piece, some in zip(self._pieces, self._choices, strict=True)
            if not piece.suffix
            for provider in some
        )
        if not self._asked.required <= frozenset[str]().union(*loose):
            return False
        by_class: dict[str, list[int]] = {}
        for piece in self._pieces:
            for name, units in piece.resources:
                by_class.setdefault(name, []).append(units)
        able = {provider.uuid for some in self._alike for alike in some for provider in alike}
        return all(self._has_units(name, some, able) for name, some in by_class.items())

    def _has_units(self, name: str, amounts: list[int], able: Iterable[str]) -> bool:
        """Return False if the ``able`` providers have fewer units of the class than all pieces
        need, or room for fewer amounts of any size than there are."""
        rooms = [
            min(self._free[uuid][name], self._most[uuid][name])
            for uuid in able
            if name in self._free[uuid]
        ]
        if sum(amounts) > sum(max(room, 0) for room in rooms):
            return False
        amounts = sorted(amounts, reverse=True)
        for count, units in enumerate(amounts, start=1):
            if units <= 0:
                break
            if count < len(amounts) and amounts[count] == units:
                continue  # the last one of a size counts all of them
            self._steps.spend(len(rooms))
            if sum(max(room, 0) // units for room in rooms) < count:
                return False
        return True

    def _matching(self) -> dict[str, int] | None:
        """Return a separate provider for each isolated group, as far as each fits by itself:
        groups (their places) by UUID. None if there is none. Empty without isolation."""
        matching: dict[str, int] = {}
        if self._asked.isolate:
            for place in self._order:
                if self._pieces[place].suffix and not self._augment(matching, place):
                    return None
        return matching

    def _augment(self, matching: dict[str, int], place: int, fixed: str | None = None) -> bool:
        """Add a group to the matching, for which others may change their providers, if they are
        neither assigned nor ``fixed``. Return whether it could."""
        came_from: dict[str, tuple[int, str | None]] = {}
        waiting: list[tuple[int, str | None]] = [(place, None)]
        for group, held in waiting:  # grows
            for provider in self._choices[group]:
                self._steps.spend()
                uuid: str | None = provider.uuid
                if uuid in came_from or uuid == fixed or uuid in self._isolated:
                    continue
                came_from[provider.uuid] = group, held
                if provider.uuid in matching:
                    waiting.append((matching[provider.uuid], provider.uuid))
                    continue
                while uuid is not None:
                    matching[uuid], uuid = came_from[uuid]
                return True
        return False

    def _with_choice(
        self, matching: dict[str, int], place: int, uuid: str
    ) -> dict[str, int] | None:
        """Return the matching in which the group has this provider; None if the others then lack
        one."""
        if not (self._asked.isolate and self._pieces[place].suffix):
            return matching
        other = matching.get(uuid)
        if other == place:
            return matching
        changed = {chosen: group for chosen, group in matching.items() if group != place}
        changed[uuid] = place
        if other is not None and not self._augment(changed, other, uuid):
            return None
        return changed

    # The search.

    def _options(
        self, depth: int, matching: dict[str, int]
    ) -> Iterator[tuple[Provider, dict[str, int]]]:
        """Yield the providers for the piece of this depth that are worth a try, each with the
        matching that it leaves."""
        place, seen = self._order[depth], set[int]()
        different = [provider for some in self._alike[place] for provider in self._unlike(some)]
        for provider in sorted(different, key=lambda candidate: self._left(candidate, place)):
            self._steps.spend()
            alike = self._now[provider.uuid]
            if alike in seen or not self._has_room(provider, place):
                continue
            seen.add(alike)
            left = self._with_choice(matching, place, provider.uuid)
            if left is None:
                continue
            self._tries.spend()
            yield provider, left

    def _unlike(self, some: list[Provider]) -> Iterator[Provider]:
        """Yield those of some providers that have pieces, and the first one that has none."""
        for provider in some:
            self._steps.spend()
            yield provider
            if provider.uuid not in self._touched:
                break
        else:
            return
        first, after = self._first[provider.uuid], self._place_of[provider.uuid]
        for uuid in self._touched:
            if self._first[uuid] == first and self._place_of[uuid] > after:
                yield self._tree.by_uuid[uuid]

    def _left(self, provider: Provider, place: int) -> tuple[int, float, int]:
        """Return a sort key for providers: those with missing traits first, then the one with the
        least left."""
        piece, uuid = self._pieces[place], provider.uuid
        missing = 0 if piece.suffix else len(self._asked.required & provider.traits)
        return -missing, _left_over(provider, piece, self._free[uuid]), self._place_of[uuid]

    def _has_room(self, provider: Provider, place: int) -> bool:
        piece, uuid = self._pieces[place], provider.uuid
        if self._asked.isolate and piece.suffix and uuid in self._isolated:
            return False
        free, most = self._free[uuid], self._most[uuid]
        return all(units <= min(free[name], most[name]) for name, units in piece.resources)

    def _move(self, depth: int, sign: int, provider: Provider | None = None) -> None:
        """Assign the piece of this depth to a provider (-1), or releases it (1)."""
        place = self._order[depth]
        piece, provider = self._pieces[place], provider or self._chosen.pop(place)
        uuid = provider.uuid
        for name, units in piece.resources:
            self._free[uuid][name] += sign * units
            self._most[uuid][name] += sign * units
        if sign < 0:
            self._chosen[place] = provider
        if piece.suffix and self._asked.isolate:
            (self._isolated.add if sign < 0 else self._isolated.discard)(uuid)
        self._touched[uuid] = self._touched.get(uuid, 0) - sign
        if not self._touched[uuid]:
            del self._touched[uuid]
        self._now[uuid] = self._signature(uuid)

    def _signature(self, uuid: str) -> int:
        """Return a number that is equal for providers that are equivalent from here on."""
        most = self._most[uuid]
        room = tuple((name, free, most[name]) for name, free in sorted(self._free[uuid].items()))
        key = self._kinds[uuid], uuid in self._isolated, room
        return self._numbers.setdefault(key, len(self._numbers))

    def _state(self, depth: int) -> object:
        """Return a key that is equal for states from which the same pieces can be met."""
        self._steps.spend(len(self._touched))
        changes: dict[int, int] = {}  # how many providers more have a signature than at first
        for uuid in self._touched:
            first, now = self._first[uuid], self._now[uuid]
            changes[first] = changes.get(first, 0) - 1
            changes[now] = changes.get(now, 0) + 1
        near = tuple(sorted((place, provider.uuid) for place, provider in self._chosen.items()
                            if self._asked.subtrees))  # fmt: skip
        signature = frozenset(change for change in changes.items() if change[1])
        return depth, signature, self._traits() & self._asked.required, near

    def _traits(self) -> frozenset[str]:
        """Return the traits of the providers of the loose amounts."""
        if not self._asked.required:
            return frozenset()
        trait_sets = (
            provider.traits
            for place, provider in self._chosen.items()
            if not self._pieces[place].suffix
        )
        return frozenset[str]().union(*trait_sets)

    def _has_top(self, suffixes: frozenset[str]) -> bool:
        """Return whether in a subtree one provider is, or can still be, above all chosen ones."""
        self._steps.spend(len(self._pieces))
        chosen, open_tops = set[str](), set[str]()
        for place, piece in enumerate(self._pieces):
            if piece.suffix in suffixes:
                if place in self._chosen:
                    chosen.add(self._chosen[place].uuid)
                else:
                    open_tops.update(provider.uuid for provider in self._choices[place])
        tops = [self._tree.above[uuid] for uuid in chosen]
        return not chosen or any(all(top in above for above in tops) for top in chosen | open_tops)

    def _allotted(self) -> tuple[Allotted, ...]:
        grouped, loose = [], dict[str, dict[str, int]]()
        for place, piece in enumerate(self._pieces):
            uuid = self._chosen[place].uuid
            if piece.suffix:
                grouped.append(Allotted(piece.suffix, uuid, dict(piece.resources)))
            else:
                loose.setdefault(uuid, {}).update(piece.resources)
        return (*grouped, *(Allotted('', uuid, resources) for uuid, resources in loose.items()))


def _free(provider: Provider, names: frozenset[str]) -> dict[str, int]:
    """Return the free units of these classes, as far as the provider has them."""
    return {name: stock.free for name, stock in provider.stocks.items() if name in names}


def _left_over(provider: Provider, piece: ResourceGroup, free: Mapping[str, int]) -> float:
    """Return the share of the provider that would be left, summed over the classes."""
    return sum(
        (free[name] - units) / max(provider.stocks[name].total, 1)
        for name, units in piece.resources
    )


# Why a request does not fit.

MAX_LOOKS = 2_000  # at providers of several nodes, of which the nearest one is explained

# How far a fit got: a later stage is a nearer miss.
_NO_PROVIDER, _NO_TRAITS, _TOO_MUCH, _NOT_TOGETHER = range(4)


class ProviderMiss(NamedTuple):
    """What is short; of two, the greater one is the nearer miss."""

    stage: int
    gap: float  # negative: the shortage as a share of the requested amount
    words: str


def why_not(tree: ProviderTree, request: ProviderRequest) -> str:
    """Return why the request does not fit on the node; empty if it fits."""
    missed = miss(tree, request)
    return missed.words if missed else ''


def nearest_miss(nodes: Iterable[tuple[ProviderTree, ProviderRequest]]) -> str:
    """Return why the request does not fit on the nearest of several nodes; empty if it fits
    there.

    Nodes are examined until MAX_LOOKS providers were looked at, and one of them is searched.
    """
    missed, steps = [], 0
    for tree, request in nodes:
        missed.append((_of_pieces(tree, request) or _together(request), tree, request))
        steps += len(tree.providers) * (len(request.groups) + len(request.loose))
        if steps > MAX_LOOKS:
            break
    if not missed:
        return ''
    nearest, tree, request = max(missed, key=lambda entry: entry[0])
    short = miss(tree, request) if nearest.stage == _NOT_TOGETHER else nearest
    return short.words if short else ''


def miss(tree: ProviderTree, request: ProviderRequest) -> ProviderMiss | None:
    """Return what is short; None if it fits."""
    if missed := _of_pieces(tree, request):
        return missed
    try:
        return _together(request) if search(tree, request) is None else None
    except Undecided:
        return ProviderMiss(
            _NOT_TOGETHER, 0.0, 'its devices allow too many choices to search all of them'
        )


def _of_pieces(tree: ProviderTree, request: ProviderRequest) -> ProviderMiss | None:
    """Return what a piece lacks by itself; None if each fits alone."""
    alone = [_alone(tree, piece) for piece in request.pieces() if not candidates(tree, piece)]
    return min(alone) if alone else None


def _together(request: ProviderRequest) -> ProviderMiss:
    """Return what is short if each piece fits alone."""
    if request.required and not (request.groups or request.loose):
        return ProviderMiss(_NO_TRAITS, 0.0, f'trait {_listed(request.required)} is missing')
    among = ' from a provider each' if request.isolate else ''
    count = len(request.groups) + len(request.loose)
    if count > 1:
        near = ' near to each other' if request.subtrees else ''
        return ProviderMiss(
            _NOT_TOGETHER, 0.0, f'each group can be met, but not all {count} at once{among}{near}'
        )
    return ProviderMiss(_NOT_TOGETHER, 0.0, f'no provider has {_listed(request.required)} as well')


def _alone(tree: ProviderTree, piece: ResourceGroup) -> ProviderMiss:
    """Return what one piece lacks, even if the node were empty."""
    who = f' for group {piece.suffix}' if piece.suffix else ''
    if piece.in_tree is not None and piece.in_tree not in tree.by_uuid:
        return ProviderMiss(
            _NO_PROVIDER, 0.0, f'the provider that group {piece.suffix} names is elsewhere'
        )
    names = [name for name, _ in piece.resources]
    having = [
        provider for provider in tree.providers if all(name in provider.stocks for name in names)
    ]
    if not having:
        return ProviderMiss(_NO_PROVIDER, 0.0, f'no provider has {" and ".join(names)}')
    suited = [provider for provider in having if has_traits(provider, piece)]
    if not suited:
        return ProviderMiss(_NO_TRAITS, 0.0, f'no provider of {" and ".join(names) or "any kind"} '
                                     f'has {_traits(piece)}{who}')  # fmt: skip
    gap, words = max(
        max(_short(name, units, provider.stocks[name].best) for name, units in piece.resources
            if not provider.stocks[name].gives(units))
        for provider in suited
    )  # fmt: skip
    return ProviderMiss(_TOO_MUCH, gap, words + who)


def _short(name: str, units: int, best: int) -> tuple[float, str]:
    if units <= best:
        return 0.0, f'{name} does not come in parts of {units}'
    return (
        best - units
    ) / units, f'{name}: {units} asked of one provider, the best has {best} free'


def _traits(piece: ResourceGroup) -> str:
    wanted = [f'trait {_listed(piece.required)}'] if piece.required else []
    if piece.forbidden:
        wanted.append(f'no trait {_listed(piece.forbidden)}')
    return ' and '.join(wanted)


def _listed(words: Iterable[str]) -> str:
    return ', '.join(sorted(words))
