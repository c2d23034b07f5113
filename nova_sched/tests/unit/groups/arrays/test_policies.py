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
"""What each policy means: when it is broken, what that costs, and where one member may go."""

import numpy as np
import pytest

from nova_sched.groups.arrays import policies
from nova_sched.tests import checker
from nova_sched.tests.groups import policy, problem, random_problem
from nova_sched.tests.rows import each
from nova_sched.tests.unit.groups.oracle import placements

# Six hosts, two in a rack, three in a zone: rack 1 lies in both zones.
ZONES = [0, 0, 0, 1, 1, 1]
MEMBERS = dict.fromkeys('abcd', 1)


def group(*rules, members=MEMBERS, **more):
    return problem(members, [9] * 6, *rules, zones=ZONES, **more)


@each('seed', range(600))
def test_it_is_broken_and_costs_as_the_checker_says(seed):
    """The checker knows nothing of the planner; test_checker has examples of its own."""
    given = random_problem(seed, preferred=seed % 2)
    given.free += 9 * (seed % 4 > 1)  # else most of them break nothing but capacity
    chance = np.random.default_rng(seed)
    hosts = chance.integers(given.host_count, size=given.member_count).astype(np.int32)
    if seed % 5:
        hosts = np.where(given.fixed >= 0, given.fixed, hosts)
    placement, needs, rules, cluster = checker.of_problem(given, hosts)
    wrong = checker.violations(placement, needs, rules, cluster)
    assert bool(policies.broken(given, hosts)) == bool(wrong)
    preferred = policies.cost(given, hosts).preferred
    assert preferred == pytest.approx(checker.cost(placement, rules, cluster))


def test_nobody_breaks_nothing_but_the_partner_of_others():
    nowhere = np.array([0, 0, 0, 0])
    assert policies.broken(group(policy('spread', 'rack', '', min_domains=3)), nowhere) == []
    assert len(policies.broken(group(policy('near', 'rack', 'a', '')), nowhere)) == 1


def test_a_member_that_stays_has_not_moved():
    group = problem({'a': 1, 'b': 1}, [8, 8], fixed={'b': 0})
    assert policies.broken(group, np.array([0, 0])) == []
    assert policies.broken(group, np.array([0, 1])) == [('mask', 'b must stay at host0')]


def test_words_name_the_policy_and_the_member():
    broken = policies.broken(group(policy('affinity', 'rack', 'a b')), np.array([0, 4, 0, 0]))
    assert broken == [(0, 'affinity rack: 1 rack domains too many are used')]
    broken = policies.broken(problem({'one': 5, 'other': 5}, [8]), np.array([0, 0]))
    assert broken == [('capacity', 'host0 has no capacity for one, other')]


def test_costs_go_by_weight():
    rule = policy('affinity', 'rack', 'a b', weight=0.1)
    score = np.array([[1, 9, 1, 1, 1, 1]], dtype=np.float32)
    one = group(rule, home={'c': 2}, score=score, occupied=np.array([True] * 5 + [False]))

    def cost(*hosts):
        return policies.cost(one, np.array(hosts))

    together, apart = cost(0, 0, 3, 3), cost(1, 2, 2, 1)
    assert together < apart  # a wish comes before a move and before any score
    assert cost(0, 0, 2, 0) < cost(1, 1, 3, 1)  # who stays at home comes before any score
    assert cost(1, 1, 2, 1) < cost(0, 0, 2, 0)
    assert cost(0, 0, 2, 0) < cost(0, 0, 2, 5)  # and last, no host is begun without need
    assert apart == (0.1, 0, -20.0, 0)


@each('seed', range(60))
def test_allowed_is_where_nothing_of_it_is_broken(seed):
    """Against the final check, with the member on each host."""
    one = random_problem(seed, members=(1, 5))
    chance = np.random.default_rng(seed)
    hosts = chance.integers(one.host_count, size=one.member_count).astype(np.int32)
    hosts = np.where(one.fixed >= 0, one.fixed, hosts)
    member = int(chance.integers(one.member_count))
    if one.fixed[member] >= 0:
        one.fixed[member] = -1
    mine = {number for number, rule in enumerate(one.rules)
            if member in rule.a or member in rule.b or rule.kind == 'exclusive'}  # fmt: skip
    allowed = policies.allowed(one, hosts, member)
    for host in range(one.host_count):
        hosts[member] = host
        bad = [
            words
            for what, words in policies.broken(one, hosts)
            if what in mine or words.startswith((f'{one.names[member]} ', f'host{host} '))
        ]
        assert allowed[host] == (not bad), bad


@each('seed', range(120))
def test_one_member_may_go_where_the_checker_lets_it(seed):
    """From a placement that breaks nothing, each member on each host."""
    given = random_problem(seed, members=(1, 5), hosts=(2, 5), preferred=0.1)
    given.free += 9 * (seed % 2)  # else few have a placement
    for placed in placements(given, limit=1000) or ():
        for member in np.flatnonzero(given.fixed < 0):
            kept = []
            for host in range(given.host_count):
                hosts = placed.copy()
                hosts[member] = host
                kept.append(not checker.violations(*checker.of_problem(given, hosts)))
            assert policies.allowed(given, placed, member).tolist() == kept


def test_allowed_counts_only_who_is_somewhere():
    one = group(policy('anti-affinity', 'rack', 'a b'), policy('near', 'rack', 'a', 'c'))
    assert policies.allowed(one, np.array([0, 3, -1, -1]), 0).tolist() == [False] * 6
    assert policies.allowed(one, np.array([0, 3, 5, -1]), 0).tolist() == [False] * 4 + [True] * 2
