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
"""Plans of CP-SAT, on problems of a few hosts, and replayed on random ones."""

import numpy as np

from nova_sched.extensions.optimize.rebalance import exact, greedy
from nova_sched.extensions.optimize.rebalance.greedy import empty
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.optimize.rebalance.checker import replay
from nova_sched.tests.unit.extensions.optimize.rebalance.problems import problem, random_problem

LARGE = np.array([8, 32, 0])
SECONDS = 20.0


def sources(one, moves):
    return {int(one.servers.host[server]) for server, _ in moves}


def test_the_fewest_moves_of_equal_plans():
    one = problem([8, 8, 8], [1], [(0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 0)])
    moves, bound = exact.empty(one, 3, [], SECONDS)
    assert (len(sources(one, moves)), bound) == (2, 2)
    assert len(moves) == 3


def test_nothing_to_do():
    one = problem([8, 8], [1], [(0, 0, {'fixed': 'devices'}), (1, 0, {'fixed': 'devices'})])
    assert exact.empty(one, 9, [], SECONDS) == (None, 0)
    assert exact.fit(one, np.array([7, 0, 0]), np.ones(2, dtype=bool), 9, [], SECONDS) == (None, 2)


def test_places_by_moves_of_a_few_servers():
    # A place needs one server less on host 0, or two on host 1.
    servers = [(0, 0), (1, 0), (1, 0), (2, 1)]
    one = problem([8, 8, 8], [1, 6], servers)
    everywhere = np.ones(3, dtype=bool)
    moves, bound = exact.fit(one, np.array([8, 0, 0]), everywhere, 9, [], SECONDS)
    assert (len(moves), bound) == (1, 1)
    assert greedy.places_after(one, moves, np.array([8, 0, 0]), everywhere) == 1


def test_an_oversubscribed_host_is_no_contradiction():
    one = problem([8, 8, 8], [4, 1], [(0, 0), (0, 0), (1, 1), (2, 1)])
    one.free[0, 0] = -2
    size, everywhere = np.array([8, 0, 0]), np.ones(3, dtype=bool)
    moves, bound = exact.fit(one, size, everywhere, 9, [], SECONDS)
    assert bound == 1
    assert greedy.places_after(one, moves, size, everywhere) == 1
    replay(one, moves)


@each('seed', range(12))
@each('largest', [exact.MAX_VARIABLES, 60], ids=['whole', 'a part'])
def test_no_rule_breaks(monkeypatch, seed, largest):
    """Begun with the greedy plan, a search ends with one that is as good, and keeps all rules: in
    order, in any order, several at once, with moves that fail, cut off anywhere."""
    monkeypatch.setattr(exact, 'MAX_VARIABLES', largest)
    random = np.random.default_rng(seed)
    one = random_problem(random, fill=random.uniform(0.3, 0.9))
    most = int(random.integers(1, 20))
    everywhere = np.ones(len(one), dtype=bool)
    made, fits = empty(one, most), greedy.fit(one, LARGE, everywhere, most)
    emptied, bound = exact.empty(one, most, made.moves, SECONDS)
    if emptied is not None:
        assert set(replay(one, emptied).emptied()) == sources(one, emptied)
        if largest == exact.MAX_VARIABLES and bound is not None:
            assert len(made.emptied) <= len(sources(one, emptied)) <= bound
    placed, places = exact.fit(one, LARGE, everywhere, most, fits.moves, SECONDS)
    if placed is not None and largest != 60:
        after = greedy.places_after(one, placed, LARGE, everywhere)
        assert fits.after <= after <= places
    for moves in (emptied or [], placed or []):
        assert len(moves) <= most
        replay(one, moves, random, in_flight=len(moves) + 1)
        replay(one, moves, random, in_flight=3, fails=0.3)
        replay(one, moves, random, 2, most=int(random.integers(len(moves) + 1)))
