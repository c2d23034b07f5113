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
"""The goal `spread`, on fleets of a few hosts."""

import numpy as np

from nova_sched.rebalance import plan
from nova_sched.rebalance.greedy import spread
from nova_sched.tests.unit.rebalance.fleets import fleet


def test_the_fullest_host_gives_to_the_emptiest():
    one = fleet([8, 8, 8], [2], [(0, 0), (0, 0), (0, 0), (1, 0), (1, 0)])
    found = spread(one, 9)
    assert len(found.moves) == 1
    assert found.moves[0][1] == 2
    assert (found.before, found.after) == (0.75, 0.5)


def test_an_even_fleet_stays():
    assert spread(fleet([8, 8], [2], [(0, 0), (1, 0)]), 9).moves == []


def test_the_moves_are_limited():
    found = spread(fleet([8, 8], [1], [(0, 0)] * 8), 2)
    assert len(found.moves) == 2
    assert found.is_spent
    assert found.after == 0.75


def test_a_move_that_helps_nothing_is_not_made():
    found = spread(fleet([8, 8], [6], [(0, 0)]), 9)
    assert found.moves == []
    assert [one.rule for one in found.obstacles] == [plan.NOT_LOWER]


def test_a_host_that_cannot_be_helped_does_not_keep_the_next():
    servers = [(0, 0, {'fixed': 'devices'})] * 4 + [(1, 0)] * 3
    found = spread(fleet([8, 8, 8], [2], servers), 9)
    assert [target for _, target in found.moves] == [2]
    assert (found.before, found.after) == (1.0, 1.0)
    assert [one.rule for one in found.obstacles] == ['devices']


def test_a_fleet_without_hosts():
    assert spread(fleet([], [1], []), 9).moves == []
    assert np.isclose(spread(fleet([], [1], []), 9).before, 0)
