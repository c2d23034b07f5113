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
"""Necessary conditions by counting: a problem that fails one has no placement; the count says why.

Each condition compares the amount that a domain holds with the amount that is asked, for all
domains of a level at once. A condition is necessary for every placement that extends a tally. So
it prunes during an attempt and is a proof at the start.

The rest of a domain after its last whole block is lost for further blocks. So a region may
have enough free capacity for all its blocks, and a domain for each of them, but too few domains:
``whole_blocks`` counts these.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import Active
from nova_sched.groups.arrays.compile import Block, Compiled, compile
from nova_sched.groups.arrays.layout import Layout, LayoutLevel
from nova_sched.groups.arrays.problem import ENDLESS, Problem, slots
from nova_sched.groups.arrays.tally import PlacementTally, Wiring


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A proof that there is no placement: ``words`` for users, and the count that fails.

    ``members``: the members to be placed, as text. ``dimension``: a resource, a policy or 'hosts'.
    ``domain``: the domain that comes nearest, as text. ``held`` and ``asked``: amounts of the
    dimension. ``rule``: number of the policy, if a single policy fails. ``block``: the failure
    concerns the block that must share a domain.
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
    classes: np.ndarray  # the classes that it counts
    rule: int | None = None


def first(given: Problem | Compiled) -> Failure | None:
    """Return a condition that fails, on the whole cluster or for a block in every domain.

    Return None if no condition fails, which proves nothing.
    """
    compiled = compile(given) if isinstance(given, Problem) else given
    problem = compiled.problem
    for number in compiled.hopeless:
        name = problem.rules[number].policy.name
        words = (
            f'{name} cannot be kept: members that stay break it, or it asks for more '
            'than there are members'
        )
        return Failure(words, 'the members that stay', name, 'the cluster', 0, 1, rule=number)
    if not compiled.class_count:
        return None
    tally = PlacementTally(Wiring(compiled))
    every = np.arange(compiled.class_count)
    passing: dict[int, np.ndarray] = {}
    failure = _failing(tally, every, compiled.layout.whole, None, passing)
    for block in compiled.blocks:  # fine levels first
        if failure is None:
            failure = _failing(
                tally, block.classes, compiled.layout.levels[block.level], block, passing
            )
    return failure or _crowded(tally, passing)


def passing(
    tally: PlacementTally, block: Block, inner: dict[int, np.ndarray] | None = None
) -> np.ndarray:
    """Return the domains of the block's level that may take it, bool [D].

    ``inner``: the same for the blocks inside.
    """
    level = tally.compiled.layout.levels[block.level]
    passes = np.ones(level.count, dtype=bool)
    for check in checks(tally, block.classes, level, block.level):
        passes &= check.held >= check.asked
    if inner is not None:
        for number in block.inner:
            if number in inner:
                passes &= _inside(tally, number, block.level, inner[number])
        for needed, held in _whole(tally, block, inner):
            passes &= held >= needed
    return passes


def checks(
    tally: PlacementTally, classes: np.ndarray, level: LayoutLevel, number: int | None
) -> Iterator[Check]:
    """Yield all conditions on the unplaced units of the classes, if they go to one domain of the
    level.

    ``number`` is the level's number, or None for the level whose only domain is the whole cluster.
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
    tally: PlacementTally,
    classes: np.ndarray,
    left: np.ndarray,
    level: LayoutLevel,
    usable: np.ndarray,
) -> Iterator[Check]:
    """Check free amounts, also in slots of each shape, because space between large units is
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
        places = sum(
            n * int((least[s][counted] // measure[counted]).min()) for s, n in shapes.items()
        )
        held = level.sum(np.where(usable, np.minimum(tally.slots[t], ENDLESS >> 12), 0))
        words = f'places for {compiled.problem.kind_names[compiled.shapes[t].kinds[0]]}'
        yield Check(held, places, words, classes)


def _rules(
    tally: PlacementTally,
    classes: np.ndarray,
    left: np.ndarray,
    room: np.ndarray,
    number: int | None,
) -> Iterator[Check]:
    """Check anti-affinity, the domains that a spread needs, and members that may not be
    together."""
    layout = tally.compiled.layout
    for position in sorted({p for c in classes for p in tally.wiring.concerns[c]}):
        applied = tally.rules[position]
        active = applied.active
        each = active.a[classes]
        members = int((each * left).sum())
        if members and active.is_cap:
            most, needed = np.maximum(active.rule.most - applied.a, 0), members
            fine = layout.levels[active.level].sum((each[:, None] * room).sum(axis=0))
            held = _lift(layout, np.minimum(most, fine), most, active.level, number)
        elif members == applied.left_a and active.is_required and active.kind == definition.SPREAD:
            used = applied.a > 0
            fresh = ~used & layout.levels[active.level].any(room[each > 0].any(axis=0))
            needed = active.rule.min_domains - int(used.sum())
            held = _lift(layout, fresh.astype(np.int64), ~used, active.level, number)
        elif number is not None and members and _forbids(layout, active, classes, left, number):
            held, needed = np.zeros(layout.levels[number].count, dtype=np.int64), members
        else:
            continue
        if held is not None:
            yield Check(held, needed, active.rule.policy.name, classes, active.number)


def _forbids(
    layout: Layout, active: Active, classes: np.ndarray, left: np.ndarray, number: int
) -> bool:
    """Return whether a required rule separates units that must share one domain of a level."""
    rivals = active.is_required and active.kind in (definition.APART, definition.EXCLUSIVE)
    return bool(layout.nests[number, active.level] and rivals and (active.b[classes] * left).any())


def _lift(
    layout: Layout, values: np.ndarray, alone: np.ndarray, level: int, number: int | None
) -> np.ndarray | None:
    """Return the amounts that the domains of a level hold, from the amounts of level ``number``.

    ``number`` None is the whole cluster. The result is the sum of ``values`` over the domains
    inside, or for a wider domain the amount that it holds ``alone``. Return None if neither
    applies.
    """
    if number is None:
        return np.array([int(values.sum())])
    if layout.nests[level, number]:
        size = layout.levels[number].count
        return np.bincount(layout.around[level, number], weights=values, minlength=size)
    if layout.nests[number, level]:
        return alone[layout.around[number, level]].astype(np.int64)
    return None


def _inside(tally: PlacementTally, number: int, level: int, fits: np.ndarray) -> np.ndarray:
    """Return the domains of a level that contain a domain where an inner block fits."""
    inner = tally.compiled.blocks[number]
    around = tally.compiled.layout.around[inner.level, level]
    domains = np.zeros(tally.compiled.layout.levels[level].count, dtype=bool)
    domains[around[fits]] = True
    return domains


def _whole(
    tally: PlacementTally, block: Block, passing: dict[int, np.ndarray]
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield how many of some blocks inside a block there are, and how many of them each domain of
    its level holds."""
    layout, blocks = tally.compiled.layout, tally.compiled.blocks
    inside = [blocks[number] for number in block.inner if number in passing]
    for level, some, most in whole_blocks(tally, inside, passing):
        size = layout.levels[block.level].count
        around = layout.around[level, block.level]
        yield len(some), np.bincount(around, weights=most, minlength=size).astype(np.int64)


def _crowded(tally: PlacementTally, passing: dict[int, np.ndarray]) -> Failure | None:
    """Return the failure that the whole cluster has too few domains for some of the blocks."""
    problem = tally.compiled.problem
    for level, some, most in whole_blocks(tally, tally.compiled.blocks, passing):
        held = int(most.sum())
        if held < len(some):
            members = sum(int(tally.compiled.count[block.classes].sum()) for block in some)
            who, where = f'{members} members', 'the cluster'
            words = (
                f'{who} in {len(some)} parts that must each be together in a '
                f'{problem.levels[level]}: {where} has a place for {held} of these parts'
            )
            return Failure(words, who, 'parts', where, held, len(some))
    return None


def _failing(
    tally: PlacementTally,
    classes: np.ndarray,
    level: LayoutLevel,
    block: Block | None,
    known: dict[int, np.ndarray],
) -> Failure | None:
    """Return the condition that no domain passes, or that the best domain fails.

    Return None if some domain passes all conditions.
    """
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
        for needed, held in _whole(tally, block, known):
            good &= held >= needed
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


def _failure(
    tally: PlacementTally, check: Check, domain: int, held: int, block: Block | None
) -> Failure:
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


def _scattered(tally: PlacementTally, block: Block, known: dict[int, np.ndarray]) -> Failure:
    """A domain has enough capacity for a block, but not in the domains where an inner block
    fits."""
    problem = tally.compiled.problem
    level = problem.levels[block.level]
    members = f'{int(tally.compiled.count[block.classes].sum())} members'
    fits = np.sum(
        [_inside(tally, inner, block.level, known[inner]) for inner in block.inner], axis=0
    )
    held = int(fits.max())
    words = f'{members}: no {level} has capacity for all, and for the parts that must be together'
    return Failure(
        words, members, 'parts', f'a {level}', held, len(block.inner), None, block.number
    )


def whole_blocks(
    tally: PlacementTally, blocks: Iterable[Block], passing: Mapping[int, np.ndarray]
) -> Iterator[tuple[int, list[Block], np.ndarray]]:
    """Yield sets of two or more blocks of one level, and how many of a set each domain holds at
    most.

    ``passing``: by block, the domains that may take it, bool [D]. For each block, the set has the
    blocks that need at least as much of every resource as it does.
    """
    by_level: dict[int, list[Block]] = {}
    for block in blocks:
        by_level.setdefault(block.level, []).append(block)
    for level, every in by_level.items():
        if len(every) < 2:
            continue
        needs = np.array([_need(tally, block) for block in every])
        done: set[bytes] = set()
        for need in needs:
            some = (needs >= need).all(axis=1)
            if some.sum() < 2 or some.tobytes() in done:
                continue
            done.add(some.tobytes())
            chosen = [every[n] for n in np.flatnonzero(some).tolist()]
            yield level, chosen, _most(tally, chosen, need, passing)


def _need(tally: PlacementTally, block: Block) -> np.ndarray:
    """Return the resources of all units, then the number of units, int64 [R + 1]."""
    compiled = tally.compiled
    count = compiled.count[block.classes]
    least = np.array([compiled.shapes[compiled.shape[c]].least for c in block.classes])
    return np.append(count @ least, count.sum())


def _most(
    tally: PlacementTally,
    blocks: list[Block],
    need: np.ndarray,
    passing: Mapping[int, np.ndarray],
) -> np.ndarray:
    """Int64 [D]: an upper limit of the blocks in each domain.

    Each block needs at least ``need``, as from ``_need``.
    """
    compiled, level = tally.compiled, tally.compiled.layout.levels[blocks[0].level]
    classes = np.concatenate([block.classes for block in blocks])
    usable = np.logical_or.reduce([tally.usable(c) for c in classes.tolist()])
    passes = np.logical_or.reduce([passing[block.number] for block in blocks])
    most = np.where(passes, len(blocks), 0).astype(np.int64)
    for number in np.flatnonzero(need[:-1]).tolist():
        free = level.sum(np.where(usable, tally.free[:, number], 0))
        np.minimum(most, free // need[number], out=most)
    shapes = {int(compiled.shape[c]) for c in classes.tolist()}
    least = np.min([compiled.shapes[shape].least for shape in shapes], axis=0)
    units = np.minimum(slots(least[None], tally.free.T), int(compiled.count.sum()))
    for active in compiled.active:
        if not active.is_cap:
            continue
        if active.level == 0 and (each := int(active.a[classes].min())):
            np.minimum(units, active.rule.most // each, out=units)
        elif active.level == blocks[0].level:
            members = min(int(active.a[b.classes] @ compiled.count[b.classes]) for b in blocks)
            if members:
                np.minimum(most, active.rule.most // members, out=most)
    np.minimum(most, level.sum(np.where(usable, units, 0)) // need[-1], out=most)
    if _are_rivals(tally, blocks):
        np.minimum(most, 1, out=most)
    return most


def _are_rivals(tally: PlacementTally, blocks: list[Block]) -> bool:
    """Return whether no two of the blocks may share a domain, because exclusive domains are
    required for all, or all but one, each for itself."""
    compiled = tally.compiled
    nests = compiled.layout.nests[blocks[0].level]
    alone: set[int] = set()
    for active in compiled.active:
        if active.is_required and active.kind == definition.EXCLUSIVE and nests[active.level]:
            owners = {block.number for block in blocks if (active.a[block.classes] > 0).any()}
            if len(owners) == 1:
                alone |= owners
    return len(alone) >= len(blocks) - 1
