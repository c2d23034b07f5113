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
"""Necessary conditions, counted: what fails one has no placement, and the count says why.

Each condition compares, for every domain of a level at once, what the domain holds with what is
asked of it. It is true of all placements that go on from a tally, so that it prunes in an attempt
and proves at the start.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import Active
from nova_sched.groups.arrays.blocks import Block
from nova_sched.groups.arrays.compile import Compiled, compile
from nova_sched.groups.arrays.layout import ENDLESS, Layout, Level
from nova_sched.groups.arrays.problem import Problem
from nova_sched.groups.arrays.tally import Tally, Wiring


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A proof that there is no placement: ``words`` for people, and the count that fails.

    ``members``: what was asked to be placed, in words; ``dimension``: a resource, a policy or
    'hosts'; ``domain``: the one that comes nearest, in words; ``held`` and ``asked``: how much, of
    the dimension. ``rule``: number of the policy, if it is one alone. ``block``: of the block that
    must share a domain.
    """

    words: str
    members: str
    dimension: str
    domain: str
    held: int
    asked: int
    rule: int | None = None
    block: int | None = None


@dataclasses.dataclass(slots=True)
class Check:
    """One condition on each domain: it fails where ``held`` [D] is less than ``asked``."""

    held: np.ndarray
    asked: int
    dimension: str
    classes: np.ndarray  # that it counts
    rule: int | None = None


def first(given: Problem | Compiled) -> Failure | None:
    """A condition that fails: on the whole cluster, or of a block in every domain. None proves
    nothing."""
    compiled = compile(given) if isinstance(given, Problem) else given
    problem = compiled.problem
    for number in compiled.hopeless:
        name = problem.rules[number].policy.name
        words = f'{name} cannot be kept: members that stay break it, or it asks for more than there are members'
        return Failure(words, 'the members that stay', name, 'the cluster', 0, 1, rule=number)
    if not compiled.class_count:
        return None
    tally = Tally(Wiring(compiled))
    every = np.arange(compiled.class_count)
    passing: dict[int, np.ndarray] = {}
    failure = _failing(tally, every, compiled.layout.whole, None, passing)
    for block in compiled.blocks:  # fine levels first
        if failure is None:
            failure = _failing(
                tally, block.classes, compiled.layout.levels[block.level], block, passing
            )
    return failure


def passing(tally: Tally, block: Block, inner: dict[int, np.ndarray] | None = None) -> np.ndarray:
    """Bool [D of its level]: domains that may take a block. ``inner``: the same of blocks
    inside."""
    level = tally.compiled.layout.levels[block.level]
    passes = np.ones(level.count, dtype=bool)
    for check in checks(tally, block.classes, level, block.level):
        passes &= check.held >= check.asked
    for number in block.inner:
        if inner and number in inner:
            passes &= _inside(tally, number, block.level, inner[number])
    return passes


def checks(tally: Tally, classes: np.ndarray, level: Level, number: int | None) -> Iterator[Check]:
    """All conditions on the units to come of the classes, if they went to one domain of the level.

    ``number``: the level's, or None for one that has the whole cluster as its only domain.
    """
    compiled = tally.compiled
    left = np.array([compiled.count[c] - len(tally.at[c]) for c in classes])
    room = np.array([tally.room(c) for c in classes])
    usable = np.logical_or.reduce(room)
    for c, n, here in zip(classes, left.tolist(), room, strict=True):
        yield Check(level.sum(here), n, 'hosts', np.array([c]))
    yield from _resources(tally, classes, left, level, usable)
    yield from _rules(tally, classes, left, room, number)


def _resources(
    tally: Tally, classes: np.ndarray, left: np.ndarray, level: Level, usable: np.ndarray
) -> Iterator[Check]:
    """Free amounts, also measured in slots of each shape: what is left between large units is
    lost."""
    compiled = tally.compiled
    shapes: dict[int, int] = {}
    for c, n in zip(classes, left.tolist(), strict=True):
        shapes[int(compiled.shape[c])] = shapes.get(int(compiled.shape[c]), 0) + n
    least = {s: compiled.shapes[s].least for s in shapes}
    total = sum(
        (n * least[s] for s, n in shapes.items()), np.zeros(tally.free.shape[1], dtype=np.int64)
    )
    names = compiled.problem.resources
    for number in np.flatnonzero(total).tolist():
        name = names[number] if number < len(names) else 'servers of one kind'
        held = level.sum(np.where(usable, tally.free[:, number], 0))
        yield Check(held, int(total[number]), name, classes)
    if len(shapes) < 2:
        return
    for t in shapes:
        measure = least[t]
        counted = measure > 0
        if len(compiled.shapes[t].ways) > 1 or not counted.any():
            continue
        asked = sum(
            n * int((least[s][counted] // measure[counted]).min()) for s, n in shapes.items()
        )
        held = level.sum(np.where(usable, np.minimum(tally.slots[t], ENDLESS >> 12), 0))
        words = f'places for {compiled.problem.kind_names[compiled.shapes[t].kinds[0]]}'
        yield Check(held, asked, words, classes)


def _rules(
    tally: Tally, classes: np.ndarray, left: np.ndarray, room: np.ndarray, number: int | None
) -> Iterator[Check]:
    """What anti-affinity leaves, the domains that a spread needs, and who may not be together."""
    layout = tally.compiled.layout
    for position in sorted({p for c in classes for p in tally.wiring.concerns[c]}):
        standing = tally.rules[position]
        one = standing.active
        each = one.a[classes]
        members = int((each * left).sum())
        if members and one.is_required and one.kind == definition.ANTI_AFFINITY:
            most, asked = np.maximum(one.rule.most - standing.a, 0), members
            fine = layout.levels[one.level].sum((each[:, None] * room).sum(axis=0))
            held = _lift(layout, np.minimum(most, fine), most, one.level, number)
        elif members == standing.left_a and one.is_required and one.kind == definition.SPREAD:
            used = standing.a > 0
            fresh = ~used & layout.levels[one.level].any(room[each > 0].any(axis=0))
            asked = one.rule.min_domains - int(used.sum())
            held = _lift(layout, fresh.astype(np.int64), ~used, one.level, number)
        elif number is not None and members and _forbids(layout, one, classes, left, number):
            held, asked = np.zeros(layout.levels[number].count, dtype=np.int64), members
        else:
            continue
        if held is not None:
            yield Check(held, asked, one.rule.policy.name, classes, one.number)


def _forbids(
    layout: Layout, one: Active, classes: np.ndarray, left: np.ndarray, number: int
) -> bool:
    """Whether a required rule keeps units apart that are to be in one domain of a level."""
    rivals = one.is_required and one.kind in (definition.APART, definition.EXCLUSIVE)
    return bool(layout.nests[number, one.level] and rivals and (one.b[classes] * left).any())


def _lift(
    layout: Layout, values: np.ndarray, alone: np.ndarray, level: int, number: int | None
) -> np.ndarray | None:
    """What the domains of a level hold, by those of level ``number`` (None: the whole cluster).

    Sums of ``values`` over the domains inside; of a domain around, what it holds ``alone``; else
    None.
    """
    if number is None:
        return np.array([int(values.sum())])
    if layout.nests[level, number]:
        size = layout.levels[number].count
        return np.bincount(layout.around(level, number), weights=values, minlength=size)
    if layout.nests[number, level]:
        return alone[layout.around(number, level)].astype(np.int64)
    return None


def _inside(tally: Tally, number: int, level: int, fits: np.ndarray) -> np.ndarray:
    """Domains of a level that have a domain in them where an inner block fits."""
    inner = tally.compiled.blocks[number]
    around = tally.compiled.layout.around(inner.level, level)
    found = np.zeros(tally.compiled.layout.levels[level].count, dtype=bool)
    found[around[fits]] = True
    return found


def _failing(
    tally: Tally,
    classes: np.ndarray,
    level: Level,
    block: Block | None,
    known: dict[int, np.ndarray],
) -> Failure | None:
    """The condition that no domain passes, or that the best domain fails; None if some domain
    passes all."""
    number = None if block is None else block.level
    every = list(checks(tally, classes, level, number))
    if not level.count:
        return _failure(tally, every[0], 0, 0, block) if every else None
    share = np.array([check.held / max(check.asked, 1) for check in every])
    passes = (share >= 1) | np.array([[check.asked <= 0] for check in every])
    good = passes.all(axis=0)
    if block is not None:
        had = good.any()
        for inner in block.inner:
            good &= _inside(tally, inner, block.level, known[inner])
        known[block.number] = good
        if had and not good.any():
            return _scattered(tally, block, known)
    if good.any():
        return None
    hardest = np.argmin(passes.sum(axis=1))
    if passes[hardest].any():
        domain = int(np.argmax(passes.sum(axis=0)))
        hardest = np.argmin(share[:, domain])
    else:
        domain = int(np.argmax(share[hardest]))
    return _failure(tally, every[hardest], domain, int(every[hardest].held[domain]), block)


def _failure(tally: Tally, check: Check, domain: int, held: int, block: Block | None) -> Failure:
    compiled = tally.compiled
    problem = compiled.problem
    where = 'the cluster'
    if block is not None and len(compiled.layout.levels[block.level].numbers):
        name = problem.domain_names[block.level][
            compiled.layout.levels[block.level].numbers[domain]
        ]
        where = f'{problem.levels[block.level]} {name}'
    units = sum(int(compiled.count[c]) for c in check.classes)
    members = (
        f'{units} x {compiled.words(check.classes[0])}'
        if len(check.classes) == 1
        else f'{units} members'
    )
    held = min(held, check.asked)
    what = 'has a place for' if check.dimension == 'hosts' else f'has, of {check.dimension},'
    nearest = 'comes nearest: it ' if block is not None else ''
    words = f'{members}: {where} {nearest}{what} {held} of {check.asked}'
    number = None if block is None else block.number
    return Failure(words, members, check.dimension, where, held, check.asked, check.rule, number)


def _scattered(tally: Tally, block: Block, known: dict[int, np.ndarray]) -> Failure:
    """Some domain has room enough for a block, but for none of those in which an inner block
    fits."""
    problem = tally.compiled.problem
    level = problem.levels[block.level]
    members = f'{int(tally.compiled.count[block.classes].sum())} members'
    fits = np.sum(
        [_inside(tally, inner, block.level, known[inner]) for inner in block.inner], axis=0
    )
    held = int(fits.max())
    words = (
        f'{members}: no {level} has room for all, and for the parts of them that must be together'
    )
    return Failure(
        words, members, 'parts', f'a {level}', held, len(block.inner), None, block.number
    )
