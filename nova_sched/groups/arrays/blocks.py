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
"""Which members must share a domain: by label at every level, and as blocks of classes."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import Active
from nova_sched.groups.arrays.layout import Layout
from nova_sched.groups.arrays.problem import Problem


@dataclasses.dataclass(eq=False)
class Together:
    """The constraints of required affinity, and of near where it is equivalent.

    ``labels`` [L, M]: members of one label must share a domain of the level. ``pins`` [L, M]: the
    live domain to which a member is bound because a fixed member shares its label, else -1.
    ``spoken``: rules that labels and pins express completely. ``torn``: levels and labels where
    one label is bound to two domains.
    """

    labels: np.ndarray
    pins: np.ndarray
    spoken: set[int]
    torn: list[tuple[int, int]]  # level, label


def unite(problem: Problem, layout: Layout) -> Together:
    """Merges labels until nothing changes.

    Affinity applies at its level and all levels around it. Near applies if its partner is a single
    label.
    """
    labels = np.tile(np.arange(problem.member_count), (len(problem.levels), 1))
    spoken: set[int] = set()
    waiting = []
    for number, rule in enumerate(problem.rules):
        if rule.is_required and rule.kind == definition.AFFINITY:
            _merge(labels, layout, rule.level, rule.a)
            spoken.add(number)
        elif rule.is_required and rule.kind == definition.NEAR and len(rule.a) and len(rule.b):
            waiting.append(number)
    changed = True
    while changed:
        changed = False
        for number in [number for number in waiting if number not in spoken]:
            rule = problem.rules[number]
            partners = labels[rule.level, rule.b]
            if (partners == partners[0]).all():
                _merge(labels, layout, rule.level, np.append(rule.a, rule.b))
                spoken.add(number)
                changed = True
    pins, torn = _nail(problem, layout, labels)
    return Together(labels, pins, spoken, torn)


def _merge(labels: np.ndarray, layout: Layout, level: int, members: np.ndarray) -> None:
    if len(members) < 2:
        return
    for above in np.flatnonzero(layout.nests[level]):
        row = labels[above]
        hit = np.zeros(labels.shape[1], dtype=bool)
        hit[row[members]] = True
        row[hit[row]] = row[members[0]]


def _nail(
    problem: Problem, layout: Layout, labels: np.ndarray
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Returns the pins from the fixed members, and the labels that these pins contradict."""
    pins = np.full(labels.shape, -1, dtype=np.intp)
    torn: list[tuple[int, int]] = []
    fixed = np.flatnonzero(problem.fixed >= 0)
    at = layout.position[problem.fixed[fixed]]
    for level, row in enumerate(labels):
        nail = np.full(labels.shape[1], -1, dtype=np.intp)
        domains = layout.levels[level].ids[at]
        nail[row[fixed]] = domains
        torn.extend(
            (level, int(label)) for label in np.unique(row[fixed][nail[row[fixed]] != domains])
        )
        pins[level] = nail[row]
    return pins, torn


@dataclasses.dataclass(eq=False)
class Block:
    """All units of ``classes`` go to one domain of ``level``.

    ``inner``: numbers of the blocks that are wholly inside this block.
    """

    number: int
    level: int
    classes: np.ndarray  # intp, sorted
    inner: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class BlockType:
    """Blocks of one level that are interchangeable: class i of one block equals class i of any
    other.

    ``classes`` intp [blocks, k]: each row is ordered so that the columns match. If there is more
    than one block, policies on the units of a single block are host anti-affinity only.
    """

    level: int
    blocks: list[int]
    classes: np.ndarray


def find(layout: Layout, members: Sequence[np.ndarray], together: Together) -> list[Block]:
    """Returns every component of two or more units, fine levels first.

    ``members``: those of each class, as in Compiled. Omits a component that a finer level already
    has.
    """
    found: list[Block] = []
    fine_first = sorted(
        range(1, len(layout.levels)), key=lambda level: -layout.levels[level].count
    )
    for level in fine_first:
        components: dict[int, list[int]] = collections.defaultdict(list)
        for c, units in enumerate(members):
            components[int(together.labels[level, units[0, 0]])].append(c)
        for classes in components.values():
            alone = len(classes) == 1 and not _joined(members[classes[0]], together, level)
            if alone or any(
                layout.nests[block.level, level] and block.classes.tolist() == classes
                for block in found
            ):
                continue
            block = Block(len(found), level, np.array(classes, dtype=np.intp))
            inside = set(classes)
            block.inner = [
                other.number
                for other in found
                if layout.nests[other.level, level] and inside.issuperset(other.classes.tolist())
            ]
            found.append(block)
    return found


def _joined(units: np.ndarray, together: Together, level: int) -> bool:
    """Returns whether a class that is a whole component has at least two units to keep
    together."""
    heads = units[:, 0]
    return len(heads) > 1 and len(np.unique(together.labels[level, heads])) == 1


def types(
    blocks: list[Block], active: list[Active], class_keys: Sequence[tuple | None]
) -> list[BlockType]:
    """Returns all blocks by type; a block that is unlike all other blocks is a type by itself.

    ``class_keys``: for each class its shape, count and hosts; None for a class with members at
    home, which equals no other.
    """
    within = np.zeros((len(blocks), len(class_keys)), dtype=np.int64)
    for block in blocks:
        within[block.number, block.classes] = 1
    touch = np.array([(one.a > 0) | (one.b > 0) for one in active], dtype=np.int64)
    touch = touch.reshape(len(active), len(class_keys))
    fixed = np.array([one.fixed_a.any() or one.fixed_b.any() for one in active], dtype=bool)
    inside = touch @ within.T  # [rules, blocks]: classes of the block that the rule concerns
    private = (inside == touch.sum(axis=1)[:, None]) & ~fixed[:, None]
    alike: dict[tuple, list[tuple[Block, list[int]]]] = collections.defaultdict(list)
    for block, here, own in zip(blocks, (inside > 0).T, private.T, strict=True):
        caps = [active[number] for number in np.flatnonzero(here & own)]
        common = [active[number] for number in np.flatnonzero(here & ~own)]
        around = np.flatnonzero(within[:, block.classes].any(axis=1)).tolist()
        around.remove(block.number)
        if (
            block.inner
            or any(class_keys[c] is None for c in block.classes)
            or not all(
                one.kind == definition.ANTI_AFFINITY and one.is_required and not one.level
                for one in caps
            )
        ):
            order, key = block.classes.tolist(), ('own', block.number)
        else:
            order, key = _signature(
                class_keys, block, caps, common, {n: within[n] for n in around}
            )
        alike[key].append((block, order))
    return [
        BlockType(
            level=same[0][0].level,
            blocks=[block.number for block, _ in same],
            classes=np.array([order for _, order in same], dtype=np.intp),
        )
        for same in alike.values()
    ]


def _signature(
    class_keys: Sequence[tuple | None],
    block: Block,
    caps: list[Active],
    common: list[Active],
    around: Mapping[int, np.ndarray],
) -> tuple[list[int], tuple]:
    """Returns the classes of the block in canonical order, and a key that is equal within a type.

    ``caps``: rules on this block alone; ``common``: the other rules that concern it; ``around``:
    int64 [C] for each block that shares classes with it, which classes that block has.
    """

    def plain(c: int) -> tuple:
        return (
            class_keys[c],
            tuple((one.number, int(one.a[c]), int(one.b[c])) for one in common),
            tuple(number for number, row in around.items() if row[c]),
            tuple(sorted((one.rule.most, int(one.a[c])) for one in caps)),
        )

    keys = {c: plain(c) for c in block.classes.tolist()}
    order = sorted(keys, key=lambda c: keys[c])
    joint = sorted((one.rule.most, tuple(one.a[order].tolist())) for one in caps)
    return order, (block.level, tuple(around), tuple(keys[c] for c in order), tuple(joint))
