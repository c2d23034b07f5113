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
"""Compiles a problem: live hosts only, equal members as one class with a count, affinity as
blocks."""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import Active, activate, is_hopeless, may_bind, shut
from nova_sched.groups.arrays.layout import Layout, lay_out
from nova_sched.groups.arrays.problem import Problem, Rule, demand_sums, slots, thrifty_ways


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
    """Merge labels until nothing changes.

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
    """Return the pins from the fixed members, and the labels that these pins contradict."""
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


def find_blocks(layout: Layout, members: Sequence[np.ndarray], together: Together) -> list[Block]:
    """Return every component of two or more units, fine levels first.

    ``members``: those of each class, as in Compiled. Omits a component that a finer level already
    has.
    """
    blocks: list[Block] = []
    fine_first = sorted(
        range(1, len(layout.levels)), key=lambda level: -layout.levels[level].count
    )
    for level in fine_first:
        components: dict[int, list[int]] = collections.defaultdict(list)
        for c, units in enumerate(members):
            components[int(together.labels[level, units[0, 0]])].append(c)
        for classes in components.values():
            if len(classes) == 1:
                # A class is a component if it has at least two units to keep together.
                heads = members[classes[0]][:, 0]
                if len(heads) < 2 or len(np.unique(together.labels[level, heads])) > 1:
                    continue
            if any(
                layout.nests[block.level, level] and block.classes.tolist() == classes
                for block in blocks
            ):
                continue
            block = Block(len(blocks), level, np.array(classes, dtype=np.intp))
            inside = set(classes)
            block.inner = [
                other.number
                for other in blocks
                if layout.nests[other.level, level] and inside.issuperset(other.classes.tolist())
            ]
            blocks.append(block)
    return blocks


def block_types(
    blocks: list[Block], active: list[Active], class_keys: Sequence[tuple | None]
) -> list[BlockType]:
    """Return all blocks by type; a block that is unlike all other blocks is a type by itself.

    ``class_keys``: for each class its shape, count and hosts; None for a class with members at
    home, which equals no other.
    """
    within = np.zeros((len(blocks), len(class_keys)), dtype=np.int64)
    for block in blocks:
        within[block.number, block.classes] = 1
    touch = np.array([(rule.a > 0) | (rule.b > 0) for rule in active], dtype=np.int64)
    touch = touch.reshape(len(active), len(class_keys))
    fixed = np.array([rule.fixed_a.any() or rule.fixed_b.any() for rule in active], dtype=bool)
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
            or not all(cap.is_cap and not cap.level for cap in caps)
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
    """Return the classes of the block in canonical order, and a key that is equal within a type.

    ``caps``: rules on this block alone; ``common``: the other rules that concern it; ``around``:
    int64 [C] for each block that shares classes with it, which classes that block has.
    """

    def plain(c: int) -> tuple:
        return (
            class_keys[c],
            tuple((rule.number, int(rule.a[c]), int(rule.b[c])) for rule in common),
            tuple(number for number, row in around.items() if row[c]),
            tuple(sorted((cap.rule.most, int(cap.a[c])) for cap in caps)),
        )

    keys = {c: plain(c) for c in block.classes.tolist()}
    order = sorted(keys, key=lambda c: keys[c])
    joint = sorted((cap.rule.most, tuple(cap.a[order].tolist())) for cap in caps)
    return order, (block.level, tuple(around), tuple(keys[c] for c in order), tuple(joint))


@dataclasses.dataclass(eq=False)
class UnitShape:
    """The demand of a unit and the hosts where it may go: one shape for units of the same kinds.

    ``ways`` int64 [V, R'] are the different sums of its members' demands; the unit takes one of
    them. R' is as in ``Compiled.free``. Over the h live hosts: ``slots`` int64, how many units
    each host could take alone (exact for one way, else an upper bound); ``mask`` bool; ``score``
    float64, the sum over its members.
    """

    kinds: tuple[int, ...]
    ways: np.ndarray
    slots: np.ndarray
    mask: np.ndarray
    score: np.ndarray

    @functools.cached_property
    def least(self) -> np.ndarray:
        """Return the minimum demand over all ways, int64 [R]."""
        return self.ways.min(axis=0)


@dataclasses.dataclass(eq=False)
class Compiled:
    """The problem over h live hosts, C classes and B blocks.

    A *unit* is a set of loose members that must share one host, usually one member. Units are of
    one *class* if no policy and no mask distinguishes them. Required affinity is expressed by
    ``shape`` (units of one host), ``open`` (hosts where fixed members pin it) and ``blocks``. The
    same holds for a required near that is equivalent to affinity. All other rules that may bind
    are in ``active``, including preferred affinity.

    ``members[c]`` int32 [n, size]: the members of each unit. ``stay[c]``: live positions of the
    home hosts of the members of one unit, and how many members each has. ``open`` bool [C, h]:
    hosts that mask, fixed members and outside instances allow for the first unit of a class,
    regardless of slots. ``free`` int64 [h, R'], never negative: the columns of the problem, then
    one column for each kind whose ``cap`` binds on some host. ``hopeless``: numbers of required
    rules that the fixed members already break, or that cannot be kept.
    """

    problem: Problem
    layout: Layout
    free: np.ndarray
    shapes: list[UnitShape]
    shape: np.ndarray  # intp [C]
    members: list[np.ndarray]
    count: np.ndarray  # int64 [C]: units of the class
    open: np.ndarray
    stay: list[tuple[np.ndarray, np.ndarray]]
    active: list[Active]
    blocks: list[Block]
    block_types: list[BlockType]
    hopeless: list[int]

    @property
    def class_count(self) -> int:
        return len(self.count)

    def slots(self, c: int) -> np.ndarray:
        """Return how many units of the class each live host could take alone, int64 [h].

        The value is 0 where the class may not go.
        """
        return np.where(self.open[c], self.shapes[self.shape[c]].slots, 0)

    def words(self, c: int) -> str:
        """Return the class as text: the kinds of its members, and the path of its first member."""
        names = [self.problem.kind_names[kind] for kind in self.shapes[self.shape[c]].kinds]
        first, more = self.problem.names[self.members[c][0, 0]], self.members[c].size - 1
        return f'{" + ".join(names)} ({first}{f" and {more} more" if more else ""})'

    def placement(self, at: list[list[int]]) -> np.ndarray:
        """Return the placement, int32 [M], from the live positions of the units of each class."""
        hosts = self.problem.fixed.astype(np.int32)
        for members, positions in zip(self.members, at, strict=True):
            hosts[members] = self.layout.live[np.asarray(positions, dtype=np.intp)][:, None]
        return hosts


def compile(problem: Problem) -> Compiled:  # noqa: A001 the usual name
    """Compile the problem once; takes milliseconds for 200 members on 10,000 hosts."""
    layout = lay_out(problem)
    together = unite(problem, layout)
    # Units: the loose members by host label, in order of their first member.
    loose = np.flatnonzero(problem.fixed < 0)
    of_label: dict[int, list[int]] = {}
    for member, label in zip(loose.tolist(), together.labels[0, loose].tolist(), strict=True):
        of_label.setdefault(label, []).append(member)
    units = [np.array(unit, dtype=np.int32) for unit in of_label.values()]
    numbers = [
        n for n, rule in enumerate(problem.rules) if n not in together.spoken and may_bind(rule)
    ]
    flat = np.concatenate(units) if units else np.zeros(0, dtype=np.int32)
    unit_of = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
    sides = [_sides(problem, problem.rules[number], flat, unit_of) for number in numbers]
    firsts, class_of = _classes(problem, together, units, sides)
    by_class: list[list[np.ndarray]] = [[] for _ in firsts]
    for unit, c in zip(units, class_of.tolist(), strict=True):
        by_class[c].append(unit)
    members = [np.array(alike, dtype=np.int32) for alike in by_class]
    active = [
        activate(problem, layout, number, a[firsts], b[firsts])
        for number, (a, b) in zip(numbers, sides, strict=True)
    ]
    free, capped = _with_caps(problem, layout)
    shapes, shape = _shapes(problem, layout, free, capped, [units[first] for first in firsts])
    count = np.array([len(rows) for rows in members], dtype=np.int64)
    open_ = _open(layout, together, shapes, shape, active, members)
    stay = []
    for rows in members:
        homes = problem.home[rows[0]]
        at = layout.position[homes[homes >= 0]]
        stay.append(np.unique(at[at >= 0], return_counts=True))
    blocks = find_blocks(layout, members, together)
    class_keys = [
        None if len(stay[c][0]) else (int(shape[c]), int(count[c]), open_[c].tobytes())
        for c in range(len(members))
    ]
    return Compiled(
        problem=problem,
        layout=layout,
        free=free,
        shapes=shapes,
        shape=shape,
        members=members,
        count=count,
        open=open_,
        stay=stay,
        active=active,
        blocks=blocks,
        block_types=block_types(blocks, active, class_keys),
        hopeless=_hopeless(problem, layout, together, active),
    )


def _sides(
    problem: Problem, rule: Rule, flat: np.ndarray, unit_of: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many members of each unit are on either side of a rule, int64 [U] each.

    ``flat`` has the members of all units, and ``unit_of`` the unit of each of them.
    """
    in_a, in_b = problem.sides(rule)
    size = int(unit_of[-1]) + 1 if len(unit_of) else 0
    return (
        np.bincount(unit_of[in_a[flat]], minlength=size),
        np.bincount(unit_of[in_b[flat]], minlength=size),
    )


def _classes(
    problem: Problem,
    together: Together,
    units: list[np.ndarray],
    sides: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first unit of each class, and each unit's class.

    Units of one class are equal in everything that rules distinguish.
    """
    heads = np.array([unit[0] for unit in units], dtype=np.intp)
    labels = together.labels[1:, heads]  # a copy
    for row in labels:  # all units without a companion get the same label
        row[np.bincount(row)[row] == 1] = -1
    columns = np.vstack(
        [
            *(side for pair in sides for side in pair),
            labels,
            together.pins[:, heads],
        ]
    ).astype(np.int32)
    columns = np.ascontiguousarray(columns.T)
    seen: dict[tuple, int] = {}
    firsts: list[int] = []
    class_of = np.zeros(len(units), dtype=np.intp)
    kinds, homes = problem.kind.tolist(), problem.home.tolist()
    for number, (unit, row) in enumerate(zip(units, columns, strict=True)):
        own = sorted([(kinds[member], homes[member]) for member in unit.tolist()])
        key = (tuple(own), row.tobytes())
        class_of[number] = seen.setdefault(key, len(seen))
        if class_of[number] == len(firsts):
            firsts.append(number)
    return np.array(firsts, dtype=np.intp), class_of


def _with_caps(problem: Problem, layout: Layout) -> tuple[np.ndarray, list[int]]:
    """Return the free amounts of live hosts with a column for each kind whose cap binds; and these
    kinds."""
    free = np.maximum(problem.free[layout.live], 0)
    if problem.cap is None:
        return free, []
    loose = np.bincount(problem.kind[problem.fixed < 0], minlength=len(problem.cap))
    caps = np.clip(problem.cap[:, layout.live], 0, None)
    columns = np.ascontiguousarray(free.T)
    capped = [
        int(kind)
        for kind in np.flatnonzero(loose)
        if (
            problem.mask[kind, layout.live]
            & (caps[kind] < np.minimum(loose[kind], slots(problem.demand[kind], columns)))
        ).any()
    ]
    return np.hstack([free, caps[capped].T.astype(np.int64)]), capped


def _shapes(
    problem: Problem, layout: Layout, free: np.ndarray, capped: list[int], firsts: list[np.ndarray]
) -> tuple[list[UnitShape], np.ndarray]:
    """Return the different shapes of the classes, and the shape of each class."""
    seen: dict[tuple[int, ...], int] = {}
    shape = [
        seen.setdefault(tuple(sorted(problem.kind[unit].tolist())), len(seen)) for unit in firsts
    ]
    columns = np.ascontiguousarray(free.T)
    shapes = []
    for kinds in seen:
        ways = thrifty_ways(demand_sums(problem.demand[kind] for kind in kinds))
        caps = np.array([kinds.count(kind) for kind in capped], dtype=np.int64)
        ways = np.hstack([ways, np.tile(caps, (len(ways), 1))])
        shapes.append(
            UnitShape(
                kinds=kinds,
                ways=ways,
                slots=slots(ways, columns),
                mask=np.all(problem.mask[list(kinds)][:, layout.live], axis=0),
                score=problem.score[list(kinds)][:, layout.live].sum(axis=0, dtype=np.float64),
            )
        )
    return shapes, np.array(shape, dtype=np.intp)


def _open(
    layout: Layout,
    together: Together,
    shapes: list[UnitShape],
    shape: np.ndarray,
    active: list[Active],
    members: list[np.ndarray],
) -> np.ndarray:
    """Return the hosts that masks, pins, fixed members and outside instances allow.

    The result holds for the first unit of each class.
    """
    open_ = np.array([shapes[s].mask for s in shape], dtype=bool).reshape(
        len(shape), len(layout.live)
    )
    torn = set(together.torn)
    for c, rows in enumerate(members):
        member = rows[0, 0]
        for level, domain in enumerate(together.pins[:, member].tolist()):
            if domain >= 0:
                open_[c] &= layout.levels[level].ids == domain
            if torn and (level, int(together.labels[level, member])) in torn:
                open_[c] = False
    for rule in active:
        if rule.is_required:
            ids = layout.levels[rule.level].ids
            for c in np.flatnonzero((rule.a > 0) | (rule.b > 0)).tolist():
                closed = shut(rule, int(rule.a[c]), int(rule.b[c]))
                if closed is not None and closed.any():
                    open_[c] &= ~closed[ids]
    return open_


def _hopeless(
    problem: Problem, layout: Layout, together: Together, active: list[Active]
) -> list[int]:
    hopeless = {rule.number for rule in active if rule.is_required and is_hopeless(rule)}
    for level, label in together.torn:
        for number in together.spoken:
            rule = problem.rules[number]
            if layout.nests[rule.level, level] and (together.labels[level, rule.a] == label).any():
                hopeless.add(number)
    return sorted(hopeless)
