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
"""Packs a whole block into one domain: tries some domains and keeps the best."""

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays import bounds
from nova_sched.groups.arrays.blocks import Block
from nova_sched.groups.arrays.layout import Level, Rows
from nova_sched.groups.arrays.tally import Tally
from nova_sched.groups.quick.greedy_class import SCORE, TIGHT, Anchor, Chooser, Taste

TRIES = 12  # domains tried at most
ENOUGH = 4  # domains that work, after which the best of them is taken


class Packer:
    """Packs blocks into an attempt's tally.

    ``demand`` int64 [D] by level: the number of blocks that could use a domain.
    """

    def __init__(self, tally: Tally, taste: Taste, demand: dict[int, np.ndarray]):
        self.tally, self.taste, self._demand = tally, taste, demand
        self._mean = np.maximum(tally.free.mean(axis=0), 1e-9)

    def place(self, block: Block) -> bool:
        """Places the whole block where it is best. Returns False, and places nothing, if it does
        not fit."""
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
            found = self._try(level.rows(int(domain)), finer)
            if found is None:
                continue
            works += 1
            if found[0] - price[domain] > worth:
                best, worth = found[1], found[0] - price[domain]
        for c, host in best or ():
            tally.settle(c, host)
        return best is not None

    def _rules(self, block: Block) -> tuple[list[int], dict[int, list[int]]]:
        """Returns the rules that treat the block as one, and by class the rules that separate its
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
        """Returns the domains, bool [D], that bounds and policies allow for the block, and their
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
            around = layout.around(block.level, rule.active.level)
            if not rule.is_required and self.taste.wishes:
                price += np.broadcast_to(rule.price(a, b), rule.level.count)[around] * (
                    tally.wiring.weight[1] * rule.rule.penalty
                )
            elif rule.is_required:
                allowed = rule.allowed(a, b)
                if allowed is not None:
                    passes &= allowed[around]
            if rule.rule.kind == definition.NEAR and b and rule.left_a > a:
                anchor = Anchor(tally, number).wanted()
                if anchor is not None:
                    wanted = anchor[around] if wanted is None else wanted & anchor[around]
        if wanted is not None and (passes & wanted).any():
            passes &= wanted
        return passes, price

    def _rank(self, block: Block, level: Level, reach: np.ndarray) -> np.ndarray:
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
        """Packs by taste; if that fails, by best fit, with the classes of the fewest hosts first.

        Returns (worth, [(class, host)]), or None. Leaves the tally unchanged.
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
        """Places unit after unit, large units first; the worth is None if a unit had no host."""
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
                found = chooser.best()
                if found is None:
                    return None, done
                worth += found[1]
                done.append((c, found[0], tally.place(c, found[0], finer[c])))
        return worth, done
