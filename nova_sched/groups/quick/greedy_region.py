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
"""Estimates the value of each domain for a block that is too wide to be packed in all of them."""

import collections

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.blocks import Block
from nova_sched.groups.arrays.compile import Compiled
from nova_sched.groups.arrays.tally import Tally


def promise(tally: Tally, block: Block, inside: list[Block], domains: np.ndarray) -> np.ndarray:
    """Float64 per domain: the approximate value of the block's units there, by score and home.

    Units of each class take the best hosts, even if other classes want them too. Blocks ``inside``
    that are packed at once take the best domains while these have capacity.
    """
    compiled, level = tally.compiled, tally.compiled.layout.levels[block.level]
    worth = np.zeros(len(domains))
    alone = np.setdiff1d(block.classes, [c for one in inside for c in one.classes])
    for c in alone.tolist():
        hosts = -(
            -int(compiled.count[c])
            // max(min(int(tally.wiring.at_most[c]), int(compiled.count[c])), 1)
        )
        value = np.where(tally.usable(c), tally.value(c), -np.inf)
        each = compiled.count[c] / hosts
        worth += each * np.array(
            [_best(value[level.rows(int(domain))], hosts) for domain in domains]
        )
    taken = {one.level: np.zeros(compiled.layout.levels[one.level].count) for one in inside}
    for one, count in _by_type(compiled, inside):
        reach, share = tally.reach(one.classes, one.level), taken[one.level]
        times = (_times(tally, one, count) * (1 - share) + 1e-9).astype(np.int64)
        around = compiled.layout.around(one.level, block.level)
        for place, domain in enumerate(domains.tolist()):
            rows = np.flatnonzero((around == domain) & (times > 0) & (reach > -np.inf))
            rows = rows[np.argsort(-reach[rows], kind='stable')]
            here = np.clip(count - (np.cumsum(times[rows]) - times[rows]), 0, times[rows])
            share[rows] += here / times[rows] * (1 - share[rows])
            if here.any():  # hosts that seem to lack capacity count as much as the others
                worth[place] += float(reach[rows] @ here) * count / int(here.sum())
    return worth


def _times(tally: Tally, block: Block, count: int) -> np.ndarray:
    """Int64 [D]: about how many blocks like this one each domain could take, at most ``count``."""
    compiled, level = tally.compiled, tally.compiled.layout.levels[block.level]
    times = np.full(level.count, count)
    for c in block.classes.tolist():
        slots = np.where(
            tally.usable(c),
            np.minimum(tally.slots[compiled.shape[c]], compiled.count[c] * count),
            0,
        )
        times = np.minimum(times, level.sum(slots) // compiled.count[c])
    for one in compiled.active:
        asked = int((one.a[block.classes] * compiled.count[block.classes]).sum())
        if (
            asked
            and one.kind == definition.ANTI_AFFINITY
            and one.is_required
            and one.level == block.level
        ):
            times = np.minimum(times, one.rule.most // asked)
    return times


def _by_type(compiled: Compiled, blocks: list[Block]) -> list[tuple[Block, int]]:
    """Returns one block of each type, and how many there are."""
    type_of = {
        number: place for place, one in enumerate(compiled.block_types) for number in one.blocks
    }
    found: dict[int, list[Block]] = collections.defaultdict(list)
    for block in blocks:
        found[type_of[block.number]].append(block)
    return [(alike[0], len(alike)) for alike in found.values()]


def _best(values: np.ndarray, count: int) -> float:
    """Returns the sum of the largest values.

    If there are too few, each missing value counts as the mean of those that exist.
    """
    good = values[values > -np.inf]
    if not len(good):
        return 0.0
    if len(good) > count:
        good = np.partition(good, len(good) - count)[-count:]
    return float(good.mean()) * count
