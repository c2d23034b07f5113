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
"""What required policies say without saying it."""

import itertools
import random

import numpy as np
import pytest

from nova_sched.groups.arrays import policies
from nova_sched.groups.definition import ANTI_AFFINITY, NEAR, SPREAD
from nova_sched.groups.quick.implied import with_implied
from nova_sched.tests.groups import policy, problem

APPS, CACHES = 'a0 a1 a2', 'c0 c1 c2'
MEMBERS = dict.fromkeys(f'{APPS} {CACHES}'.split(), 1)
SPREAD_APPS = policy(SPREAD, 'rack', APPS, min_domains=3)
TOLD = [(SPREAD, 'rack', 3)]


def implied(*rules):
    """Kind, level and domains of each rule that is added."""
    given = problem(MEMBERS, [4] * 8, *rules)
    added = with_implied(given).rules[len(given.rules) :]
    assert all({given.names[m] for m in rule.a} == set(CACHES.split()) for rule in added)
    return [(rule.kind, given.levels[rule.level], rule.min_domains) for rule in added]


@pytest.mark.parametrize(
    'rules, added',
    [
        pytest.param([SPREAD_APPS], [], id='nobody is near'),
        pytest.param([SPREAD_APPS, policy(NEAR, 'rack', APPS, CACHES)], TOLD, id='of a spread'),
        pytest.param(
            [policy(ANTI_AFFINITY, 'rack', APPS), policy(NEAR, 'rack', APPS, CACHES)],
            TOLD,
            id='of anti-affinity',
        ),
        pytest.param(
            [SPREAD_APPS, policy(NEAR, 'host', APPS, CACHES)], TOLD, id='near in a smaller domain'
        ),
        pytest.param(
            [SPREAD_APPS, policy(NEAR, 'zone', APPS, CACHES)], [], id='near in a larger domain'
        ),
        pytest.param(
            [SPREAD_APPS, policy(NEAR, 'rack', 'a0 a1', CACHES)], [], id='some need no partner'
        ),
        pytest.param(
            [SPREAD_APPS, policy(NEAR, 'rack', APPS, CACHES, weight=1.0)], [], id='preferred'
        ),
        pytest.param(
            [
                policy(SPREAD, 'rack', APPS, min_domains=3, weight=1.0),
                policy(NEAR, 'rack', APPS, CACHES),
            ],
            [],
            id='the spread is preferred',
        ),
    ],
)
def test_partners_are_spread_as_far(rules, added):
    assert implied(*rules) == added


def test_nothing_implied_is_the_same_problem():
    given = problem(MEMBERS, [4] * 8, SPREAD_APPS)
    assert with_implied(given) is given


def test_it_goes_on_from_partner_to_partner():
    rules = (
        SPREAD_APPS,
        policy(NEAR, 'rack', APPS, 'c0 c1 c2'),
        policy(NEAR, 'rack', 'c0 c1 c2', 'd0 d1 d2'),
    )
    given = problem(MEMBERS | dict.fromkeys(['d0', 'd1', 'd2'], 1), [4] * 8, *rules)
    added = with_implied(given).rules[3:]
    assert [[given.names[m] for m in rule.a] for rule in added] == [
        ['c0', 'c1', 'c2'],
        ['d0', 'd1', 'd2'],
    ]


def at_random(chance):
    """A few apps that are spread somehow, and caches near some of them, in levels that nest or
    not."""
    apps, caches = APPS.split()[: chance.randint(2, 3)], CACHES.split()[: chance.randint(2, 3)]
    hosts = chance.randint(3, 4)
    domains = {name: [chance.randrange(3) for _ in range(hosts)] for name in ('racks', 'zones')}
    level, other = chance.choices(['host', 'rack', 'zone'], k=2)
    spread = policy(SPREAD, level, apps, min_domains=chance.randint(1, 3))
    rules = [
        chance.choice([spread, policy(ANTI_AFFINITY, level, apps, most=chance.randint(1, 2))])
    ]
    rules.append(policy(NEAR, other, chance.choice([apps, apps[:1]]), caches))
    return problem(dict.fromkeys([*apps, *caches], 1), [3] * hosts, *rules, **domains)


def test_each_placement_that_keeps_the_policies_keeps_what_they_imply():
    """All placements of small random problems."""
    chance, seen = random.Random(1), 0
    for _ in range(60):
        given = at_random(chance)
        told = with_implied(given)
        if told is given:
            continue
        for hosts in itertools.product(range(given.host_count), repeat=given.member_count):
            placed = np.array(hosts, dtype=np.int32)
            if not policies.broken(given, placed):
                seen += 1
                assert not policies.broken(told, placed), hosts
    assert seen > 100
