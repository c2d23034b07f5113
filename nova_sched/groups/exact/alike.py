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
"""Classes that differ only in a private anti-affinity, such as database shards: counted as one.

Places for all these classes together can be distributed round-robin, domain by domain. Then no
class gets more places in a domain than its share, rounded up. So the anti-affinity of each class
can be kept exactly if all classes together have at most n times the limit of one class in each
domain, where n is the number of classes.
"""

import collections
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import Active
from nova_sched.groups.arrays.compile import Compiled


def alike(compiled: Compiled, classes: Iterable[int]) -> list[list[int]]:
    """Returns the classes, grouped by their common features; a class unlike all others is
    alone."""
    concerns = [(one.a > 0) | (one.b > 0) for one in compiled.active]
    is_own = [
        touched.sum() == 1 and not (one.fixed_a.any() or one.fixed_b.any())
        for one, touched in zip(compiled.active, concerns, strict=True)
    ]
    found: dict[tuple[object, ...], list[int]] = collections.defaultdict(list)
    for c in (int(c) for c in classes):
        mine = [number for number, touched in enumerate(concerns) if touched[c]]
        own = [compiled.active[number] for number in mine if is_own[number]]
        if not own or not _can_be_dealt(compiled, own):
            found['alone', c].append(c)
            continue
        key = (
            int(compiled.shape[c]),
            int(compiled.count[c]),
            compiled.open[c].tobytes(),
            tuple(block.number for block in compiled.blocks if c in block.classes),
            tuple(
                (number, int(compiled.active[number].a[c]), int(compiled.active[number].b[c]))
                for number in mine
                if not is_own[number]
            ),
            tuple(sorted((one.level, one.rule.most, int(one.a[c])) for one in own)),
        )
        found[key].append(c)
    return list(found.values())


def _can_be_dealt(compiled: Compiled, own: Sequence[Active]) -> bool:
    """Returns whether all own rules of a class are required anti-affinity, each nested in the
    next."""
    if not all(one.is_required and one.kind == definition.ANTI_AFFINITY for one in own):
        return False
    levels = chain(compiled, own)
    nests = compiled.layout.nests
    return all(nests[fine, coarse] for coarse, fine in itertools.pairwise(levels))


def chain(compiled: Compiled, own: Iterable[Active]) -> list[int]:
    """Returns the levels of the rules, coarse levels first."""
    return sorted(
        {one.level for one in own}, key=lambda level: compiled.layout.levels[level].count
    )


def deal(compiled: Compiled, classes: list[int], places: Iterable[int]) -> dict[int, list[int]]:
    """Distributes the live positions ``places`` over the classes."""
    own = [
        one
        for one in compiled.active
        if one.a[classes[0]] and not np.delete(one.a, classes[0]).any()
    ]
    ids = [compiled.layout.levels[level].ids for level in chain(compiled, own)]
    order = sorted(places, key=lambda h: (*(each[h] for each in ids), h))
    return {c: order[place :: len(classes)] for place, c in enumerate(classes)}
