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
"""What a request costs on hosts, against all ways to place it."""

import numpy as np
import pytest

from nova_sched.packing.devices import SCARCITY, UNFIT
from nova_sched.packing.mix import Mix
from nova_sched.packing.tables import Tables
from nova_sched.tests.unit.packing.fleets import fleet, size, tree

SHARES = [size(2, 460), size(8, 1000), size(4, 190), size(16, 1000, 2), size(4)]


def tables_of(hosts, *sizes):
    return Tables(Mix(dict.fromkeys(sizes, 1.0)), hosts)


def potential(tables, trees, vcpus):
    return tables.state(fleet(trees, VCPU=vcpus)).potential


@pytest.mark.parametrize('seed', range(10))
@pytest.mark.parametrize('asked', SHARES[:3])
def test_a_share_takes_the_best_device(seed, asked):
    chance = np.random.default_rng(seed)
    free = chance.choice([0, 190, 460, 500, 810, 1000], (6, 4))
    vcpus = chance.integers(8, 32, 6)
    hosts = fleet([tree(*line) for line in free], VCPU=vcpus)
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
    hosts = fleet([tree(1000, 1000, 0), tree(1000, 500), tree(1000, 1000, 1000)], VCPU=[32] * 3)
    tables = tables_of(hosts, *SHARES)
    costs, chosen = tables.cost(SHARES[3], tables.state(hosts))
    before = tables.state(hosts).potential
    after = potential(tables, [tree(0, 0, 0), None, tree(0, 0, 1000)], [16, 32, 16])
    assert costs[[0, 2]] == pytest.approx((after - before)[[0, 2]], abs=1e-5)
    assert costs[1] == UNFIT
    assert chosen.tolist() == [-1] * 3


def test_a_request_without_devices_strands_none():
    """It goes where the CPUs are not needed for devices."""
    hosts = fleet([tree(0, 0), tree(1000, 1000), tree(1000)], VCPU=[20, 20, 80])
    tables = tables_of(hosts, *SHARES)
    full, tight, wide = tables.cost(size(12), tables.state(hosts))[0]
    assert full == wide == 0 < tight


def test_a_scarce_model_costs_more():
    rare, common = tree(1000, traits=['RARE']), tree(*[1000] * 8)
    hosts = fleet([rare, common], VCPU=[99, 999])
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
    hosts = fleet([tree(1000, 460), tree(500), None], VCPU=[8, 8, 8])
    tables = tables_of(hosts, *SHARES)
    assert np.isfinite(tables.cost(asked, tables.state(hosts))[0]).all()


@pytest.mark.parametrize(
    'trees', [pytest.param([], id='no hosts'), pytest.param([None], id='no devices')]
)
@pytest.mark.parametrize('sizes', [pytest.param((), id='no mix'), pytest.param(SHARES, id='mix')])
def test_little(trees, sizes):
    hosts = fleet(trees, VCPU=[8] * len(trees) or [0])
    if not trees:
        hosts.free['VCPU'], hosts.capacity['VCPU'] = np.zeros((2, 0))
    tables = tables_of(hosts, *sizes)
    assert len(tables.cost(size(1, 500), tables.state(hosts))[0]) == len(trees)


def test_without_a_mix_whole_devices_stay_whole():
    hosts = fleet([tree(1000, 1000), tree(1000, 400)], VCPU=[8, 8])
    tables = tables_of(hosts)
    broken, used = tables.cost(size(1, 200), tables.state(hosts))[0]
    assert used < broken


def test_the_processor_is_yielded():
    calls = []
    Tables(Mix({SHARES[0]: 1.0}), fleet([tree(1000)], VCPU=[8]), lambda: calls.append(1))
    assert calls


def test_the_provider_of_a_place():
    hosts = fleet([tree(0, 460)], VCPU=[8])
    tables = tables_of(hosts, *SHARES)
    _, chosen = tables.cost(SHARES[0], tables.state(hosts))
    assert tables.provider(hosts.trees[0], chosen[0]) == '2'
