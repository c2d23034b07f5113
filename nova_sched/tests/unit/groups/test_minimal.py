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
"""The policies that are said to collide, against every placement of small groups whose members are
alike."""

import itertools
import random

import numpy as np
import pytest

from nova_sched.groups.arrays import policies
from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    APART,
    EXCLUSIVE,
    NEAR,
    RELATIONS,
    SPREAD,
)
from nova_sched.groups.exact import model
from nova_sched.groups.reasons import collision, why
from nova_sched.tests.groups import policy, problem

KINDS = (AFFINITY, ANTI_AFFINITY, ANTI_AFFINITY, SPREAD, EXCLUSIVE, NEAR, APART)
LEVELS = ('host', 'rack', 'zone')
HOSTS = 4


def alike(seed):
    """Three or four members of one flavor, and policies of a few kinds on sets of members of one
    size."""
    chance = random.Random(seed)
    names = [f'm{number}' for number in range(chance.choice([3, 4, 4]))]
    kept = []
    for _ in range(chance.randint(1, 3)):
        kind, level, size = chance.choice(KINDS), chance.choice(LEVELS), chance.choice([2, 2, 3])
        domains = {'min_domains': 2} if kind == SPREAD else {}
        for _ in range(chance.randint(1, 5)):
            a = chance.sample(names, size)
            b = [name for name in names if name not in a][:1] if kind in RELATIONS else ()
            kept.append(policy(kind, level, a, b, **domains))
    places = {'racks': [0, 0, 1, 1], 'zones': [0, 0, 0, 1]}
    free = [chance.randint(0, 3) for _ in range(HOSTS)]
    occupied = np.array([chance.random() < 0.2 for _ in range(HOSTS)])
    return problem(dict.fromkeys(names, 1), free, *kept, occupied=occupied, **places)


def can_be_kept(one, numbers):
    """Whether one of all placements keeps these rules, by trying each."""
    given = collision.only(one, numbers)
    every = itertools.product(range(given.host_count), repeat=given.member_count)
    return any(not policies.broken(given, np.array(hosts, dtype=np.int32)) for hosts in every)


def is_minimal(one, core):
    return not can_be_kept(one, core) and all(
        can_be_kept(one, [other for other in core if other != number]) for number in core
    )


@pytest.mark.parametrize('seeds', [pytest.param(range(80), id='80 groups')])
def test_a_core_that_is_said_to_be_minimal_is(seeds, monkeypatch):
    monkeypatch.setattr(collision, 'SETTLE_S', 60.0)  # the machine may be busy
    wrong, cores = [], 0
    for seed in seeds:
        one = alike(seed)
        if model.repair(one, 60.0)[0] is not None:
            continue
        families, minimal = collision.core(one, (why.counted, model._settle), float('inf'))
        core = [number for family in families for number in family]
        cores += len(core) > 1
        if not minimal or not is_minimal(one, core):
            wrong.append(seed)
    assert wrong == []
    assert cores > 10
