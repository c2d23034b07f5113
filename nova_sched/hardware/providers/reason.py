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
"""Explains in text and figures why a request does not fit a node's providers: the nearest miss."""

from collections.abc import Iterable
from typing import NamedTuple

from nova_sched.hardware import Undecided
from nova_sched.hardware.providers.fit import candidates, has_traits, search
from nova_sched.hardware.providers.request import ProviderRequest, ResourceGroup
from nova_sched.hardware.providers.tree import ProviderTree

MAX_LOOKS = 2_000  # at providers of several nodes, of which the nearest one is explained

# How far a fit got: a later stage is a nearer miss.
_NO_PROVIDER, _NO_TRAITS, _TOO_MUCH, _NOT_TOGETHER = range(4)


class ProviderMiss(NamedTuple):
    """What is short; of two, the greater one is the nearer miss."""

    stage: int
    gap: float  # negative: the shortage as a share of the requested amount
    words: str


def why_not(tree: ProviderTree, request: ProviderRequest) -> str:
    """Returns why the request does not fit on the node; empty if it fits."""
    missed = miss(tree, request)
    return missed.words if missed else ''


def nearest_miss(nodes: Iterable[tuple[ProviderTree, ProviderRequest]]) -> str:
    """Returns why the request does not fit on the nearest of several nodes; empty if it fits
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
    """Returns what is short; None if it fits."""
    if missed := _of_pieces(tree, request):
        return missed
    try:
        return _together(request) if search(tree, request) is None else None
    except Undecided:
        return ProviderMiss(
            _NOT_TOGETHER, 0.0, 'its devices allow too many choices to search all of them'
        )


def _of_pieces(tree: ProviderTree, request: ProviderRequest) -> ProviderMiss | None:
    """Returns what a piece lacks by itself; None if each fits alone."""
    alone = [_alone(tree, piece) for piece in request.pieces() if not candidates(tree, piece)]
    return min(alone) if alone else None


def _together(request: ProviderRequest) -> ProviderMiss:
    """Returns what is short if each piece fits alone."""
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
    """Returns what one piece lacks, even if the node were empty."""
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
