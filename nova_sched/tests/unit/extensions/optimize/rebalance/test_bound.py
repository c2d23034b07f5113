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
"""Bounds of the goal `empty`, on problems of a few hosts."""

import pytest

from nova_sched.extensions.optimize.rebalance import bound
from nova_sched.extensions.optimize.rebalance.bound import PROGRAM, VOLUME, Bound, most_emptied
from nova_sched.tests.unit.extensions.optimize.rebalance.problems import problem

APART = problem([8, 8, 12], [2], [(0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 0)])


@pytest.mark.parametrize('most, found', [(1, 1), (2, 1), (3, 2)])
def test_the_moves_limit(most, found):
    assert most_emptied(APART, most).most == found


def test_servers_that_stay_hold_their_hosts():
    one = problem([8, 8], [2], [(0, 0, {'fixed': 'devices'}), (1, 0, {'fixed': 'devices'})])
    assert most_emptied(one, 9).most == 0


def test_the_program_sees_what_the_volume_does_not():
    # 4 vCPUs are free in all, but no host takes a server of 3.
    one = problem([5, 5], [3], [(0, 0), (1, 0)])
    assert most_emptied(one, 9) == Bound(0, VOLUME)
    one = problem([5, 5, 5], [3], [(0, 0), (1, 0), (2, 0)])
    assert most_emptied(one, 9) == Bound(0, PROGRAM)


def test_a_large_fleet_is_bounded_by_its_volume(monkeypatch):
    monkeypatch.setattr(bound, 'MAX_VARIABLES', 0)
    assert most_emptied(APART, 3) == Bound(2, VOLUME)
