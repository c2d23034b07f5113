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
"""Places the units of one class, or one whole block, in an attempt."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays import bounds
from nova_sched.groups.arrays.active import Spread, Standing
from nova_sched.groups.arrays.compile import Block
from nova_sched.groups.arrays.layout import LayoutLevel, Rows
from nova_sched.groups.arrays.tally import PlacementTally

SCORE, TIGHT, RANDOM = 'score', 'tight', 'random'  # criteria for the choice of a host


@dataclasses.dataclass(slots=True)
class Taste:
    """The criteria of an attempt for the choice among allowed hosts; ``noise`` [h] if random.

    ``wishes`` False: ignores preferred policies and homes, because they can prevent a placement.
    """

    mode: str
    noise: np.ndarray | None = None
    wishes: bool = True


def values(tally: PlacementTally, taste: Taste, c: int, rows: Rows = slice(None)) -> np.ndarray:
    """Float64 over ``rows``: the value of each host for a unit by taste, without preferred
    policies."""
    if taste.mode == SCORE:
        return tally.value(c, rows)
    free = tally.free[rows]
    left = (free / np.maximum(tally.compiled.free.mean(axis=0), 1e-9)).sum(axis=1)
    value = (
        -left if taste.noise is None else taste.noise[rows] - 0.5 * left / max(left.mean(), 1e-9)
    )
    at, members = tally.compiled.stay[c]
    if len(at) and taste.wishes:
        home = np.zeros(tally.slots.shape[1])
        home[at] = members * tally.wiring.weight[0]
        value = value + home[rows]
    return value


class Chooser:
    """Chooses hosts among ``rows`` for units of one class, by some ``rules`` (positions in
    ``active``)."""

    def __init__(self, tally: PlacementTally, taste: Taste, c: int, rows: Rows, rules: list[int]):
        self._tally, self._taste, self._c, self._rows = tally, taste, c, rows
        active = tally.compiled.active
        self._asked = [tally.rules[n] for n in tally.wiring.asked[c] if n in rules]
        self._priced = [
            tally.rules[n] for n in rules if taste.wishes and not active[n].is_required
        ]
        self._anchored = [
            tally.rules[n]
            for n in rules
            if active[n].kind == definition.NEAR and tally.rules[n].left_a > 0 and active[n].b[c]
        ]
        self._score = tally.value(c, rows)
        self._value = values(tally, taste, c, rows)

    def best(self) -> tuple[int, float] | None:
        """Return a host for one more unit and the value of this choice; None if there is none."""
        tally, c, rows = self._tally, self._c, self._rows
        usable = tally.usable(c, rows)
        for rule in self._asked:
            allowed = rule.allowed(int(rule.active.a[c]), int(rule.active.b[c]))
            if allowed is not None:
                usable &= allowed[rule.level.ids[rows]]
        for near in self._anchored:
            usable = _for_followers(tally, near, usable, rows)
        if self._taste.mode != SCORE:
            self._value = values(tally, self._taste, c, rows)
        value, cost = self._value, None
        if self._priced:
            cost = np.zeros(len(value))
            for rule in self._priced:
                price = rule.price(int(rule.active.a[c]), int(rule.active.b[c]))
                weighed = price * (tally.wiring.weight[1] * rule.rule.penalty)
                cost += np.broadcast_to(weighed, rule.level.count)[rule.level.ids[rows]]
            value = value - cost
        best = int(np.where(usable, value, -np.inf).argmax())
        if not usable[best]:
            return None
        worth = float(self._score[best]) - (0.0 if cost is None else float(cost[best]))
        return (best + (rows.start or 0) if isinstance(rows, slice) else int(rows[best])), worth


def place_class(tally: PlacementTally, taste: Taste, c: int, rows: Rows = slice(None)) -> bool:
    """Place every unit of a class in turn; returns False at the first unit without a host."""
    chooser = Chooser(tally, taste, c, rows, tally.wiring.concerns[c])
    for _ in range(int(tally.compiled.count[c])):
        choice = chooser.best()
        if choice is None:
            return False
        tally.settle(c, choice[0])
    return True


def _follower_room(tally: PlacementTally, near: Standing) -> np.ndarray:
    """Int64 [D]: unplaced followers of a near policy that each domain could take, counted kind by
    kind."""
    each = near.active.a
    none = np.zeros(tally.slots.shape[1], dtype=np.int64)
    return near.level.sum(
        sum((each[c] * tally.room(c) for c in np.flatnonzero(each).tolist()), none)
    )


def _wanted(tally: PlacementTally, near: Standing, room: np.ndarray) -> np.ndarray | None:
    """Return the domains, bool [D], that unplaced followers of a near policy are planned to use.

    Without a plan, returns the domains that take at least the average of the missing capacity.
    Return None if nothing is missing. ``room`` is the ``_follower_room``.
    """
    covered = near.b > 0
    for spread in _spreads_near(tally, near):
        if spread.plan is not None and (spread.plan & ~covered).any():
            return spread.plan & ~covered
    missing = near.left_a - int(room[covered].sum())
    if missing <= 0:
        return None
    return ~covered & (room * max(near.left_b, 1) >= missing)


def _for_followers(
    tally: PlacementTally, near: Standing, usable: np.ndarray, rows: Rows
) -> np.ndarray:
    """Return the usable hosts in domains that followers want; if there are none, those in the
    richest domain."""
    room = _follower_room(tally, near)
    wanted = _wanted(tally, near, room)
    if wanted is None:
        return usable
    ids = near.level.ids[rows]
    better = usable & wanted[ids]
    if better.any():
        return better
    room = np.where(usable & (near.b == 0)[ids], room[ids], 0)
    most = room.max(initial=0)
    return usable & (room == most) if most > 0 else usable


def plan_spreads(tally: PlacementTally, classes: np.ndarray, choice: dict[int, int]) -> None:
    """Plan the required spreads that limit the skew.

    These are the spreads of the classes, and those of the classes' followers. ``choice``: which
    plan to take, by rule.
    """
    numbers = {n for c in classes for n in tally.wiring.asked[c]}
    for number, rule in enumerate(tally.rules):
        partner = (
            rule.rule.kind == definition.NEAR
            and number in numbers
            and rule.active.b[classes].any()
        )
        numbers |= (
            {tally.rules.index(spread) for spread in _spreads_near(tally, rule)}
            if partner
            else set()
        )
    for number in sorted(numbers):
        rule, skew = tally.rules[number], tally.rules[number].rule.max_skew
        if isinstance(rule, Spread) and skew is not None and rule.plan is None:
            every = list(_plans(tally, rule, skew))
            if every:
                rule.ceiling, rule.plan = every[choice.get(number, 0) % len(every)]


def _plans(tally: PlacementTally, rule: Spread, max_skew: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield all plans of one spread. Members that need near partners use only domains open to
    these."""
    active = rule.active
    classes = np.flatnonzero(active.a).tolist()
    open_ = [c for c in classes if len(tally.at[c]) < tally.compiled.count[c]]
    none = np.zeros(tally.slots.shape[1], dtype=np.int64)
    room = sum((active.a[c] * tally.room(c) for c in open_), none)
    score = rule.level.max(np.where(room > 0, tally.value(classes[0]), -np.inf))
    room, most = rule.level.sum(room), rule.level.count
    for near in tally.rules:
        if near.rule.kind == definition.NEAR and _brings(near, rule):
            reached = near.b > 0
            most = min(most, int(reached.sum()) + near.left_b)
            for c in np.flatnonzero(near.active.b).tolist():
                if len(tally.at[c]) < tally.compiled.count[c]:
                    reached = reached | rule.level.any(tally.usable(c))
            room = np.where(reached, room, 0)
    return plans(room, rule.a, score, rule.left_a, rule.rule.min_domains, max_skew, most)


def _spreads_near(tally: PlacementTally, near: Standing) -> list[Spread]:
    """Return the spreads of limited skew whose members all need near partners."""
    return [
        rule
        for rule in tally.rules
        if isinstance(rule, Spread) and rule.rule.max_skew is not None and _brings(near, rule)
    ]


def _brings(near: Standing, spread: Standing) -> bool:
    """Return whether each domain that the spread's members use must have a partner."""
    return (
        near.rule.is_required
        and spread.rule.is_required
        and near.rule.level == spread.rule.level
        and bool((near.active.a[spread.active.a > 0] > 0).all())
    )


def plans(
    room: np.ndarray,
    members: np.ndarray,
    score: np.ndarray,
    left: int,
    min_domains: int,
    max_skew: int,
    most_domains: int | None = None,
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield all useful plans, the one with most spare capacity first: (ceiling, domains to use,
    bool [D]).

    ``room`` int64 [D]: members that each domain could take; ``members``: members that it has;
    ``score`` [D]: decides between equal domains; ``left``: members still to be placed;
    ``most_domains``: maximum number of domains to use.
    """
    holds, total = room + members, left + int(members.sum())
    used = members > 0
    by_score = np.argsort(-score, kind='stable')
    candidates = []
    for ceiling in range(max(1, int(members.max(initial=0))), total + 1):
        floor = max(1, ceiling - max_skew)
        fits = holds >= floor
        if (used & ~fits).any():
            break  # a higher ceiling needs even more
        count = min(
            int(fits.sum()), total // floor, len(room) if most_domains is None else most_domains
        )
        if count < max(min_domains, int(used.sum())):
            if total // floor < min_domains:
                break
            continue
        most = np.where(fits, np.minimum(holds, ceiling), 0)
        wanted = np.where(used, ceiling + 1, most)[by_score]
        chosen = by_score[np.argsort(-wanted, kind='stable')[:count]]
        spare = int(most[chosen].sum()) - total
        if spare >= 0:
            candidates.append((spare, ceiling, chosen))
    candidates.sort(key=lambda plan: -plan[0])
    for _, ceiling, chosen in candidates:
        domains = np.zeros(len(room), dtype=bool)
        domains[chosen] = True
        yield ceiling, domains


TRIES = 12  # domains tried at most
ENOUGH = 4  # domains that work, after which the best of them is taken


class Packer:
    """Packs blocks into an attempt's tally.

    ``demand`` int64 [D] by level: the number of blocks that could use a domain.
    """

    def __init__(self, tally: PlacementTally, taste: Taste, demand: dict[int, np.ndarray]):
        self.tally, self.taste, self._demand = tally, taste, demand
        self._mean = np.maximum(tally.free.mean(axis=0), 1e-9)

    def place(self, block: Block) -> bool:
        """Place the whole block where it is best. Return False, and places nothing, if it does not
        fit."""
        tally, level = self.tally, self.tally.compiled.layout.levels[block.level]
        outer, finer = self._rules(block)
        passes, price = self._allowed(block, outer)
        if not passes.any():
            return False
        reach = tally.reach(block.classes, block.level) - price
        ranked = np.flatnonzero(passes)
        best, worth = None, -np.inf
        works = 0
        for domain in ranked[
            np.argsort(-self._rank(block, level, reach)[ranked], kind='stable')[:TRIES]
        ]:
            if works and (works >= ENOUGH or self.taste.mode != SCORE or reach[domain] <= worth):
                break
            packed = self._try(level.rows(int(domain)), finer)
            if packed is None:
                continue
            works += 1
            if packed[0] - price[domain] > worth:
                best, worth = packed[1], packed[0] - price[domain]
        for c, host in best or ():
            tally.settle(c, host)
        return best is not None

    def _rules(self, block: Block) -> tuple[list[int], dict[int, list[int]]]:
        """Return the rules that treat the block as one, and by class the rules that separate its
        units.

        Rules are given as positions.
        """
        layout = self.tally.compiled.layout
        outer: set[int] = set()
        finer = {}
        for c in block.classes.tolist():
            concerns = self.tally.wiring.concerns[c]
            whole = {
                n for n in concerns if layout.nests[block.level, self.tally.rules[n].active.level]
            }
            outer |= whole
            finer[c] = [n for n in concerns if n not in whole]
        return sorted(outer), finer

    def _allowed(self, block: Block, outer: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the domains, bool [D], that bounds and policies allow for the block, and their
        costs."""
        tally, layout = self.tally, self.tally.compiled.layout
        passes = bounds.passing(tally, block)
        price = np.zeros(len(passes))
        wanted = None
        for number in outer:
            rule = tally.rules[number]
            count = tally.compiled.count[block.classes]
            a = int((rule.active.a[block.classes] * count).sum())
            b = int((rule.active.b[block.classes] * count).sum())
            around = layout.around[block.level, rule.active.level]
            if not rule.rule.is_required and self.taste.wishes:
                price += np.broadcast_to(rule.price(a, b), rule.level.count)[around] * (
                    tally.wiring.weight[1] * rule.rule.penalty
                )
            elif rule.rule.is_required:
                allowed = rule.allowed(a, b)
                if allowed is not None:
                    passes &= allowed[around]
            if rule.rule.kind == definition.NEAR and b and rule.left_a > a:
                by_followers = _wanted(tally, rule, _follower_room(tally, rule))
                if by_followers is not None:
                    by_followers = by_followers[around]
                    wanted = by_followers if wanted is None else wanted & by_followers
        if wanted is not None and (passes & wanted).any():
            passes &= wanted
        return passes, price

    def _rank(self, block: Block, level: LayoutLevel, reach: np.ndarray) -> np.ndarray:
        """Float64 [D]: priority of each domain for the trials."""
        if self.taste.mode == SCORE:
            return reach
        tight = -level.sum(np.ascontiguousarray(self.tally.free.sum(axis=1))) / max(
            int(self.tally.free.sum()), 1
        )
        rank = tight - self._demand[block.level]
        if self.taste.noise is not None:
            rank = rank + 2 * level.max(self.taste.noise)
        return rank

    def _try(
        self, rows: Rows, finer: dict[int, list[int]]
    ) -> tuple[float, list[tuple[int, int]]] | None:
        """Pack by taste; if that fails, by best fit, with the classes of the fewest hosts first.

        Return (worth, [(class, host)]), or None. Leaves the tally unchanged.
        """
        for taste in (
            (self.taste, Taste(TIGHT, wishes=False)) if self.taste.mode == SCORE else (self.taste,)
        ):
            worth, done = self._pack(rows, finer, taste)
            for c, host, way in reversed(done):
                self.tally.take_back(c, host, way, finer[c])
            if worth is not None:
                return worth, [(c, host) for c, host, _ in done]
        return None

    def _pack(
        self, rows: Rows, finer: dict[int, list[int]], taste: Taste
    ) -> tuple[float | None, list[tuple[int, int, int]]]:
        """Place unit after unit, large units first; the worth is None if a unit had no host."""
        tally, compiled = self.tally, self.tally.compiled
        size = {
            c: float((compiled.shapes[compiled.shape[c]].least / self._mean).max()) for c in finer
        }
        few = {c: 0 if taste.mode == SCORE else int(tally.usable(c, rows).sum()) for c in finer}
        worth = 0.0
        done: list[tuple[int, int, int]] = []
        for c in sorted(finer, key=lambda c: (few[c], -size[c])):
            chooser = Chooser(tally, taste, c, rows, finer[c])
            for _ in range(int(compiled.count[c])):
                chosen = chooser.best()
                if chosen is None:
                    return None, done
                worth += chosen[1]
                done.append((c, chosen[0], tally.place(c, chosen[0], finer[c])))
        return worth, done
