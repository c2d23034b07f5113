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
"""The potential of hosts without devices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.packing.tables import PlainPotential
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.packing import naive

sizes = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 16)), min_size=1, max_size=5)
hosts = st.lists(st.tuples(st.integers(-3, 64), st.integers(-3, 160)), max_size=5)


@settings(max_examples=cases(200), deadline=None)
@given(sizes, hosts, st.integers(0, 100))
def test_the_potential_is_that_of_loops(needs, free, seed):
    share = np.random.default_rng(seed).random(len(needs)) + 0.01
    capacity = np.array([64.0, 160.0])
    found = PlainPotential(np.array(needs), share, capacity).of(np.array(free).reshape(-1, 2))
    wanted = [naive.plain_potential(needs, share, capacity, host) for host in free]
    assert found.tolist() == pytest.approx(wanted, abs=1e-6)


def costs(free, need, needs=((1, 4), (4, 4)), share=(1.0, 1.0)):
    made = PlainPotential(np.array(needs), np.array(share), np.array([64.0, 160.0]))
    free = np.array(free, dtype=float)
    return made.cost(free - np.array(need, dtype=float), made.of(free)).tolist()


def test_the_host_where_it_fits_exactly_is_best():
    """On the other ones no copy of the larger size is left, or one less."""
    exact, less, more = costs([[1, 4], [4, 4], [5, 8]], [1, 4])
    assert exact < more < less


def test_of_equal_hosts_the_fullest():
    assert costs([[8, 0], [3, 0]], [1, 0])[1] < costs([[8, 0], [3, 0]], [1, 0])[0]


def test_without_a_mix_nothing_is_lost():
    made = PlainPotential(np.zeros((0, 2)), np.zeros(0), np.array([64.0, 160.0]))
    assert made.cost(np.array([[4.0, 4.0]]), np.array([0.0])).tolist() == [0.0]


def test_hosts_without_any_class():
    made = PlainPotential(np.zeros((1, 0)), np.ones(1), np.zeros(0))
    assert made.of(np.zeros((3, 0))).tolist() == [0.0] * 3
