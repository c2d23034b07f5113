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
"""The goal `fit`, on fleets of a few hosts."""

import numpy as np

from nova_sched.rebalance import plan
from nova_sched.rebalance.greedy import fit, places
from nova_sched.tests.unit.rebalance.fleets import fleet

LARGE = np.array([8, 0, 0])


def everywhere(one):
    return np.ones(len(one), dtype=bool)


def test_places_by_the_scarcest_column():
    free = np.array([[16, 40], [7, 100], [-1, 100]])
    allowed = np.array([True, True, True])
    assert places(free, np.array([4, 20]), allowed).tolist() == [2, 1, 0]
    assert places(free, np.array([4, 20]), ~allowed).tolist() == [0, 0, 0]


def test_one_small_server_makes_room():
    one = fleet([16, 6], [2, 7], [(0, 0), (0, 1), (1, 0)])
    found = fit(one, LARGE, everywhere(one), 9)
    assert found.moves == [(0, 1)]
    assert (found.before, found.after) == (0, 1)


def test_no_place_is_lost_for_another():
    # Host 1 has room for one large server: what host 0 loses may not go there.
    one = fleet([16, 8], [2, 7], [(0, 0), (0, 1)])
    found = fit(one, LARGE, everywhere(one), 9)
    assert (found.moves, found.before, found.after) == ([], 1, 1)
    assert plan.PLACE_LOST in [one.rule for one in found.obstacles]


def test_the_fewest_servers_leave():
    # Host 0 needs two to leave, host 1 only one.
    servers = [(0, 0), (0, 0), (0, 0), (1, 1), (2, 0)]
    one = fleet([12, 10, 7], [2, 3], servers)
    found = fit(one, np.array([9, 0, 0]), everywhere(one), 1)
    assert [server for server, _ in found.moves] == [3]
    assert (found.before, found.after) == (0, 1)


def test_emptying_is_taken_if_it_makes_more():
    one = fleet([8, 16], [4], [(0, 0), (1, 0), (1, 0), (1, 0)])
    found = fit(one, LARGE, everywhere(one), 9)
    assert (found.emptied, found.after) == ([0], 1)
