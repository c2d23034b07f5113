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
"""Reduces the hosts that the solver chooses from, if there are too many. It cannot prove
anything."""

from collections.abc import Iterator

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.layout import Layout, Level
from nova_sched.groups.exact.crowds import Crew, Team
from nova_sched.groups.exact.model_answer import Counts

SPARE_DOMAINS, SPARE_BLOCK_DOMAINS = 3, 4
PLENTY = 2  # times the demand
PARTNERS = 30  # domains of partners, above which they are no hint
BLOCK_DOMAINS = 12


def roomy(crew: Crew) -> Crew:
    """Keeps the domains with the most places: those of each team, and those of the other unit
    sets.

    The latter are chosen in each wide domain, and apply to all unit sets.
    """
    layout = crew.compiled.layout
    fine, wide = _grain(layout)
    chosen = np.zeros(fine.count, dtype=bool)
    in_team = {crowd for team in crew.teams if not team.inner for crowd in team.crowds}
    for number, crowd in enumerate(crew.crowds):
        if number not in in_team:
            places = fine.sum(crowd.most)
            for domains in wide:
                chosen[_richest(domains, places, PLENTY * crowd.count, SPARE_DOMAINS)] = True
    masks = [chosen[fine.ids]] * len(crew.crowds)
    for team in crew.teams:
        level = layout.levels[team.level]
        best = np.zeros(level.count, dtype=bool)
        slack = _slack(crew, team, level)
        best[np.argsort(-slack, kind='stable')[: PLENTY * team.count + SPARE_BLOCK_DOMAINS]] = True
        if not team.inner:
            for number in team.crowds:
                masks[number] = masks[number] | best[level.ids]
    return crew.within(masks)


def _grain(layout: Layout) -> tuple[Level, list[np.ndarray]]:
    """Returns the finest level above the host, and its domains grouped by the widest level around
    it."""
    above = [number for number, level in enumerate(layout.levels) if number and level.count > 1]
    if not above:
        return layout.levels[0], [np.arange(layout.levels[0].count)]
    finest = max(above, key=lambda number: layout.levels[number].count)
    around = [number for number in above if layout.nests[finest, number] and number != finest]
    fine = layout.levels[finest]
    if not around:
        return fine, [np.arange(fine.count)]
    widest = min(around, key=lambda number: layout.levels[number].count)
    inside = layout.around(finest, widest)
    return fine, [
        np.flatnonzero(inside == domain) for domain in range(layout.levels[widest].count)
    ]


def _richest(domains: np.ndarray, places: np.ndarray, enough: int, spare: int) -> np.ndarray:
    """Returns the domains with the most places until there are ``enough``, plus ``spare`` more."""
    order = domains[np.argsort(-places[domains], kind='stable')]
    return order[: int(np.searchsorted(np.cumsum(places[order]), enough)) + 1 + spare]


def _slack(crew: Crew, team: Team, level: Level) -> np.ndarray:
    """Ranks each domain of a team by the blocks that it takes, then by its scarcest unit set.

    The scarcest unit set is measured in places relative to its demand.
    """
    rows = [crew.crowds[number] for number in team.crowds]
    times = np.min([level.sum(row.most) / team.need(row) for row in rows], axis=0)
    return np.where(team.most > 0, team.most + times / (1 + times), -1.0)


def promising(crew: Crew, counts: Counts, budget: int) -> Crew:
    """Keeps the hosts with the best scores, the current hosts, and the hosts that can meet
    partners.

    The result needs about ``budget`` variables.
    """
    compiled, layout = crew.compiled, crew.compiled.layout
    masks = []
    share = budget // max(len(crew.crowds), 1)
    for crowd, mine in zip(crew.crowds, counts, strict=True):
        score = np.where(
            crowd.most > 0, compiled.shapes[compiled.shape[crowd.first]].score, -np.inf
        )
        mask = np.zeros(len(layout.live), dtype=bool)
        mask[np.argsort(-score, kind='stable')[: max(2 * crowd.count + 20, share)]] = True
        mask[list(mine)] = True
        masks.append(mask)
    for number, mask in _partners(crew, counts):
        masks[number] |= mask
    for team in crew.teams:
        if not team.inner:
            best = _best_domains(crew, team, counts)
            for number in team.crowds:
                masks[number] = best.copy()
    homes = compiled.problem.home[compiled.problem.home >= 0]
    at = layout.position[homes]
    for mask in masks:
        mask[at[at >= 0]] = True
    return _trimmed(crew, masks, counts, budget)


def _partners(crew: Crew, counts: Counts) -> Iterator[tuple[int, np.ndarray]]:
    """Yields unit sets with hosts in the domains of the members with which they share a policy."""
    layout = crew.compiled.layout
    for one in crew.compiled.active:
        draws = one.kind in (definition.NEAR, definition.SPREAD) or one.kind == definition.AFFINITY
        if not draws or not one.level:
            continue
        level = layout.levels[one.level]
        sides = [
            n for n, crowd in enumerate(crew.crowds) if one.a[crowd.first] or one.b[crowd.first]
        ]
        used = np.zeros(level.count, dtype=bool)
        for number in sides:
            used[level.ids[list(counts[number])]] = True
        if used.sum() <= PARTNERS:
            for number in sides:
                yield number, used[level.ids]


def _best_domains(crew: Crew, team: Team, counts: Counts) -> np.ndarray:
    """Returns the hosts in the current domains of a team, and in its best domains by possible
    score."""
    compiled, level = crew.compiled, crew.compiled.layout.levels[team.level]
    worth = np.zeros(level.count)
    used = np.zeros(level.count, dtype=bool)
    for number in team.crowds:
        crowd = crew.crowds[number]
        score = np.where(
            crowd.most > 0, compiled.shapes[compiled.shape[crowd.first]].score, -np.inf
        )
        worth += team.need(crowd) * level.max(score)
        used[level.ids[list(counts[number])]] = True
    worth[team.most == 0] = -np.inf
    used[np.argsort(-worth, kind='stable')[: PLENTY * team.count + BLOCK_DOMAINS]] = True
    return used[level.ids]


def _trimmed(crew: Crew, masks: list[np.ndarray], counts: Counts, budget: int) -> Crew:
    """Trims the candidates to the budget: the same share of each unit set, the best by score.

    The current hosts of each unit set always remain.
    """
    sizes = [
        int(np.count_nonzero(mask & (crowd.most > 0)))
        for mask, crowd in zip(masks, crew.crowds, strict=True)
    ]
    if sum(sizes) <= budget:
        return crew.within(masks)
    compiled = crew.compiled
    trimmed = []
    for crowd, mask, mine, size in zip(crew.crowds, masks, counts, sizes, strict=True):
        score = np.where(
            mask & (crowd.most > 0), compiled.shapes[compiled.shape[crowd.first]].score, -np.inf
        )
        best = np.zeros(len(mask), dtype=bool)
        best[np.argsort(-score, kind='stable')[: max(1, size * budget // sum(sizes))]] = True
        best[list(mine)] = True
        trimmed.append(best & mask)
    return crew.within(trimmed)
