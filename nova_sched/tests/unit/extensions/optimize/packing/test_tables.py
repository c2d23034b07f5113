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
"""What a request costs on hosts: against all ways to place it, and against loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.extensions.optimize.packing.devices import SCARCITY, UNFIT
from nova_sched.extensions.optimize.packing.mix import Mix
from nova_sched.extensions.optimize.packing.tables import PlainPotential, Tables
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.optimize.packing import naive
from nova_sched.tests.unit.extensions.optimize.packing.builders import host_resources, size, tree

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


SHARES = [size(2, 460), size(8, 1000), size(4, 190), size(16, 1000, 2), size(4)]


def tables_of(hosts, *sizes):
    return Tables(Mix(dict.fromkeys(sizes, 1.0)), hosts)


def potential(tables, trees, vcpus):
    return tables.state(host_resources(trees, VCPU=vcpus)).potential


@each('seed', range(10))
@each('asked', SHARES[:3])
def test_a_share_takes_the_best_device(seed, asked):
    chance = np.random.default_rng(seed)
    free = chance.choice([0, 190, 460, 500, 810, 1000], (6, 4))
    vcpus = chance.integers(8, 32, 6)
    hosts = host_resources([tree(*line) for line in free], VCPU=vcpus)
    tables = tables_of(hosts, *SHARES)
    costs, chosen = tables.cost(asked, tables.state(hosts))
    milli = asked.device.units
    for host, line in enumerate(free):
        ways = {}
        for place in np.flatnonzero(line >= milli):
            after = line.copy()
            after[place] -= milli
            left = [vcpus[host] - dict(asked.amounts)['VCPU']]
            before = potential(tables, [tree(*line)], [vcpus[host]])[0]
            ways[place] = potential(tables, [tree(*after)], left)[0] - before
        if ways:
            assert costs[host] == pytest.approx(min(ways.values()), abs=1e-5)
            assert ways[chosen[host]] == pytest.approx(costs[host], abs=1e-5)
        else:
            assert (costs[host], chosen[host]) == (UNFIT, -1)


def test_several_devices():
    hosts = host_resources(
        [tree(1000, 1000, 0), tree(1000, 500), tree(1000, 1000, 1000)], VCPU=[32] * 3
    )
    tables = tables_of(hosts, *SHARES)
    costs, chosen = tables.cost(SHARES[3], tables.state(hosts))
    before = tables.state(hosts).potential
    after = potential(tables, [tree(0, 0, 0), None, tree(0, 0, 1000)], [16, 32, 16])
    assert costs[[0, 2]] == pytest.approx((after - before)[[0, 2]], abs=1e-5)
    assert costs[1] == UNFIT
    assert chosen.tolist() == [-1] * 3


def test_a_request_without_devices_strands_none():
    """It goes where the CPUs are not needed for devices."""
    hosts = host_resources([tree(0, 0), tree(1000, 1000), tree(1000)], VCPU=[20, 20, 80])
    tables = tables_of(hosts, *SHARES)
    full, tight, wide = tables.cost(size(12), tables.state(hosts))[0]
    assert full == wide == 0 < tight


def test_a_scarce_model_costs_more():
    rare, common = tree(1000, traits=['RARE']), tree(*[1000] * 8)
    hosts = host_resources([rare, common], VCPU=[99, 999])
    tables = tables_of(hosts, size(1, 1000), size(1, 1000, required=['RARE']))
    scarce = tables.cost(size(1, 1000), tables.state(hosts))[0]
    assert scarce[0] - scarce[1] > SCARCITY * 1000 * 0.9


@pytest.mark.parametrize(
    'asked',
    [
        pytest.param(size(2, 300), id='another size'),
        pytest.param(size(2, 300, required=['RARE']), id='other traits'),
        pytest.param(size(2, 300, 2), id='two of another size'),
        pytest.param(size(2, 1, name='OTHER'), id='another resource class'),
        pytest.param(size(), id='nothing'),
    ],
)
def test_a_size_that_is_not_in_the_mix(asked):
    hosts = host_resources([tree(1000, 460), tree(500), None], VCPU=[8, 8, 8])
    tables = tables_of(hosts, *SHARES)
    assert np.isfinite(tables.cost(asked, tables.state(hosts))[0]).all()


@pytest.mark.parametrize(
    'trees', [pytest.param([], id='no hosts'), pytest.param([None], id='no devices')]
)
@pytest.mark.parametrize('sizes', [pytest.param((), id='no mix'), pytest.param(SHARES, id='mix')])
def test_little(trees, sizes):
    hosts = host_resources(trees, VCPU=[8] * len(trees) or [0])
    if not trees:
        hosts.free['VCPU'], hosts.capacity['VCPU'] = np.zeros((2, 0))
    tables = tables_of(hosts, *sizes)
    assert len(tables.cost(size(1, 500), tables.state(hosts))[0]) == len(trees)


def test_without_a_mix_whole_devices_stay_whole():
    hosts = host_resources([tree(1000, 1000), tree(1000, 400)], VCPU=[8, 8])
    tables = tables_of(hosts)
    broken, used = tables.cost(size(1, 200), tables.state(hosts))[0]
    assert used < broken


def test_the_processor_is_yielded():
    calls = []
    Tables(Mix({SHARES[0]: 1.0}), host_resources([tree(1000)], VCPU=[8]), lambda: calls.append(1))
    assert calls


def test_the_provider_of_a_place():
    hosts = host_resources([tree(0, 460)], VCPU=[8])
    tables = tables_of(hosts, *SHARES)
    _, chosen = tables.cost(SHARES[0], tables.state(hosts))
    assert tables.provider(hosts.trees[0], chosen[0]) == '2'
