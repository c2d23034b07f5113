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
"""The goals `empty`, `drain`, `fit` and `spread`, on problems of a few hosts."""

import numpy as np
import pytest

from nova_sched.extensions.optimize.rebalance import plan
from nova_sched.extensions.optimize.rebalance.bound import most_emptied
from nova_sched.extensions.optimize.rebalance.greedy import drain, empty, fit, places, spread
from nova_sched.tests.unit.extensions.optimize.rebalance.checker import replay
from nova_sched.tests.unit.extensions.optimize.rebalance.problems import problem, random_problem


def rules(found):
    return [one.rule for one in found.obstacles]


def test_the_host_of_fewest_servers_is_emptied_into_the_tightest_one():
    one = problem([8, 8, 8], [2], [(0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 0)])
    found = empty(one, 1)
    assert (found.moves, found.emptied, found.before, found.after) == ([(0, 2)], [0], 0, 1)
    assert found.is_spent


def test_no_empty_host_is_used():
    found = empty(problem([8, 8], [2], [(0, 0)]), 5)
    assert found.moves == []
    assert rules(found) == [plan.ONLY_EMPTY]


def test_all_of_a_host_or_none():
    one = problem([8, 8], [2, 6], [(0, 0), (0, 1), (1, 0), (1, 0), (1, 0)])
    assert empty(one, 9).moves == []
    one = problem([8, 8], [1], [(0, 0), (0, 0), (1, 0), (1, 0), (1, 0)])
    found = empty(one, 1)  # no host can be emptied by one move
    assert found.moves == []
    assert found.is_spent


def test_the_oldest_server_moves_first():
    servers = [(0, 0), (0, 0), (1, 0), (1, 0), (1, 0)]
    one = problem([8, 8], [1], servers, created_s=np.array([9.0, 3.0, 0.0, 0.0, 0.0]))
    assert empty(one, 2).moves == [(1, 1), (0, 1)]


def test_a_server_that_stays_keeps_its_host():
    servers = [(0, 0, {'fixed': 'devices of its own'}), (1, 0), (1, 0)]
    found = empty(problem([8, 8], [1], servers), 1)
    assert found.moves == []
    servers = [(0, 0, {'fixed': 'devices of its own'}), (1, 0)]
    found = empty(problem([8, 8], [1], servers), 9)
    assert found.moves == [(1, 0)]
    assert rules(found) == ['devices of its own']


def test_a_server_without_a_claim_keeps_its_host():
    one = problem([8, 8], [1], [(0, 0), (1, 0)], strangers=np.array([1, 0]))
    found = empty(one, 9)
    assert found.emptied == [1]
    assert rules(found) == [plan.STRANGER]


def test_members_of_a_group_stay_apart():
    family = {'families': (3,)}
    found = empty(problem([8, 8], [1], [(0, 0, family), (1, 0, family)]), 9)
    assert found.moves == []
    assert rules(found) == [plan.FAMILY]
    one = problem([8, 8, 8], [1], [(0, 0, family), (1, 0, family), (2, 0)])
    assert empty(one, 1).moves == [(0, 2)]


def test_the_scope_limits_both_ends():
    one = problem(
        [8, 8, 8],
        [1],
        [(0, 0), (1, 0), (1, 0), (2, 0)],
        sources=np.array([False, True, True]),
        destinations=np.array([False, True, True]),
    )
    assert empty(one, 9).moves == [(3, 1)]


def test_drain_moves_what_it_can_and_says_what_stays():
    servers = [(0, 0, {'fixed': 'devices of its own'}), (0, 0), (0, 1)]
    found = drain(problem([8, 4], [1, 5], servers), [0], 9)
    assert found.moves == [(1, 1)]
    assert (found.before, found.after, found.emptied) == (3, 2, [])
    assert sorted(rules(found)) == ['devices of its own', 'no room: VCPU']


def test_drain_prefers_hosts_in_use_and_takes_empty_ones():
    one = problem([8, 4, 8], [3], [(0, 0), (0, 0), (1, 0)])
    assert drain(one, [0], 9).moves == [(0, 2), (1, 2)]
    one = problem([8, 8, 8], [3], [(0, 0), (0, 0), (1, 0)])
    assert dict(drain(one, [0], 9).moves) == {0: 1, 1: 2}


def test_drained_hosts_do_not_take_servers_of_each_other():
    one = problem([8, 8, 8], [3], [(0, 0), (1, 0)])
    assert dict(drain(one, [0, 1], 9).moves) == {0: 2, 1: 2}
    found = drain(problem([8, 8], [3], [(0, 0), (1, 0)]), [0, 1], 9)
    assert found.moves == []
    assert rules(found) == [plan.ROLE]


def test_drain_within_its_moves():
    found = drain(problem([8, 8], [1], [(0, 0), (0, 0)]), [0], 1)
    assert len(found.moves) == 1
    assert found.is_spent


@pytest.mark.parametrize('seed, most', [(3, 17), (5, 22), (11, 22), (21, 22), (24, 25)])
def test_the_order_of_the_linear_program_empties_more(seed, most):
    one = random_problem(np.random.default_rng(seed), fill=0.55)
    bound = most_emptied(one, most)
    hinted = empty(one, most, bound)
    assert len(empty(one, most).emptied) < len(hinted.emptied) <= bound.most
    assert replay(one, hinted.moves).emptied() == sorted(hinted.emptied)


LARGE = np.array([8, 0, 0])


def everywhere(one):
    return np.ones(len(one), dtype=bool)


def test_places_by_the_scarcest_column():
    free = np.array([[16, 40], [7, 100], [-1, 100]])
    allowed = np.array([True, True, True])
    assert places(free, np.array([4, 20]), allowed).tolist() == [2, 1, 0]
    assert places(free, np.array([4, 20]), ~allowed).tolist() == [0, 0, 0]


def test_one_small_server_makes_room():
    one = problem([16, 6], [2, 7], [(0, 0), (0, 1), (1, 0)])
    found = fit(one, LARGE, everywhere(one), 9)
    assert found.moves == [(0, 1)]
    assert (found.before, found.after) == (0, 1)


def test_no_place_is_lost_for_another():
    # Host 1 has room for one large server: what host 0 loses may not go there.
    one = problem([16, 8], [2, 7], [(0, 0), (0, 1)])
    found = fit(one, LARGE, everywhere(one), 9)
    assert (found.moves, found.before, found.after) == ([], 1, 1)
    assert plan.PLACE_LOST in [one.rule for one in found.obstacles]


def test_the_fewest_servers_leave():
    # Host 0 needs two to leave, host 1 only one.
    servers = [(0, 0), (0, 0), (0, 0), (1, 1), (2, 0)]
    one = problem([12, 10, 7], [2, 3], servers)
    found = fit(one, np.array([9, 0, 0]), everywhere(one), 1)
    assert [server for server, _ in found.moves] == [3]
    assert (found.before, found.after) == (0, 1)


def test_emptying_is_taken_if_it_makes_more():
    one = problem([8, 16], [4], [(0, 0), (1, 0), (1, 0), (1, 0)])
    found = fit(one, LARGE, everywhere(one), 9)
    assert (found.emptied, found.after) == ([0], 1)


def test_the_fullest_host_gives_to_the_emptiest():
    one = problem([8, 8, 8], [2], [(0, 0), (0, 0), (0, 0), (1, 0), (1, 0)])
    found = spread(one, 9)
    assert len(found.moves) == 1
    assert found.moves[0][1] == 2
    assert (found.before, found.after) == (0.75, 0.5)


def test_an_even_fleet_stays():
    assert spread(problem([8, 8], [2], [(0, 0), (1, 0)]), 9).moves == []


def test_the_moves_are_limited():
    found = spread(problem([8, 8], [1], [(0, 0)] * 8), 2)
    assert len(found.moves) == 2
    assert found.is_spent
    assert found.after == 0.75


def test_a_move_that_helps_nothing_is_not_made():
    found = spread(problem([8, 8], [6], [(0, 0)]), 9)
    assert found.moves == []
    assert [one.rule for one in found.obstacles] == [plan.NOT_LOWER]


def test_a_host_that_cannot_be_helped_does_not_keep_the_next():
    servers = [(0, 0, {'fixed': 'devices'})] * 4 + [(1, 0)] * 3
    found = spread(problem([8, 8, 8], [2], servers), 9)
    assert [target for _, target in found.moves] == [2]
    assert (found.before, found.after) == (1.0, 1.0)
    assert [one.rule for one in found.obstacles] == ['devices']


def test_a_fleet_without_hosts():
    assert spread(problem([], [1], []), 9).moves == []
    assert np.isclose(spread(problem([], [1], []), 9).before, 0)
