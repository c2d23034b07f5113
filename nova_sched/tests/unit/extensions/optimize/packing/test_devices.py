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
"""The models of devices, and the potential of hosts with devices, against loops over one host."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.extensions.optimize.packing.devices import (
    FULL,
    NEVER,
    NO_MODEL,
    DevicePotential,
    DeviceSizes,
    Items,
    Models,
)
from nova_sched.extensions.optimize.packing.mix import DeviceDemand
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.extensions.optimize.packing import naive
from nova_sched.tests.unit.extensions.optimize.packing.builders import GPU, tree

OLD, NEW = tree(1000, traits=['OLD']), tree(500, 0, traits=['NEW', 'FAST'])
ANY, NEEDS_NEW = DeviceDemand(GPU, 460), DeviceDemand(GPU, 1000, 1, frozenset(['NEW']))


def test_devices_that_serve_the_same_items_are_of_one_model():
    models = Models([OLD, NEW], [ANY])
    assert models.number(GPU, frozenset(['OLD'])) == models.number(GPU, frozenset(['NEW'])) == 0
    models = Models([OLD, NEW], [ANY, NEEDS_NEW])
    assert models.number(GPU, frozenset(['OLD'])) != models.number(GPU, frozenset(['NEW']))
    assert models.as_items().allowed.tolist() == [[True, False], [True, True]]


def test_a_device_that_is_new_is_of_the_most_similar_model():
    models = Models([OLD], [ANY, NEEDS_NEW])
    assert models.number(GPU, frozenset(['NEW'])) == models.number(GPU, frozenset(['OLD']))
    assert models.number('OTHER', frozenset()) == NO_MODEL


@pytest.mark.parametrize(
    'units, total, milli',
    [
        pytest.param(460, 1000, 460, id='thousandths'),
        pytest.param(1, 1, FULL, id='whole'),
        pytest.param(1, 3, 334, id='a third, rounded up'),
        pytest.param(2, 1, NEVER, id='more than a device has'),
    ],
)
def test_thousandths(units, total, milli):
    models = Models([tree(total, total=total)], [DeviceDemand(GPU, units)])
    assert models.items[0].milli == milli


def test_a_class_that_no_device_has():
    assert Models([OLD], []).item_of(DeviceDemand('OTHER', 1)).milli == NEVER


def test_a_trait_that_no_device_has_is_one_of_the_node():
    models = Models([OLD], [DeviceDemand(GPU, 5, 1, frozenset(['HW_CPU_X86_AVX']))])
    assert models.as_items().allowed.all()


def test_a_forbidden_trait():
    models = Models([OLD, NEW], [DeviceDemand(GPU, 5, 1, frozenset(), frozenset(['OLD']))])
    assert models.as_items().allowed.tolist() == [[False], [True]]


def test_an_item_of_several_devices_is_another_one():
    models = Models([OLD], [DeviceDemand(GPU, 500), DeviceDemand(GPU, 500, 2)])
    assert [item.apart for item in models.items] == [False, True]


WEIGHTS = 10.0, 1.0, 0.3, 0.1


@st.composite
def hosts_with_devices(draw):
    """Items, sizes, values of holes and weights of blocks, and a few hosts."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    models, count, many = draw(st.tuples(*[st.integers(1, 4)] * 3))
    hosts, devices, classes = draw(st.tuples(st.integers(1, 5), st.integers(0, 4), st.just(2)))
    class_of_model = chance.integers(0, 2, models)
    resource_class = chance.integers(0, 2, count)
    allowed = chance.random((models, count)) < 0.7
    allowed &= class_of_model[:, None] == resource_class
    milli = chance.choice([90, 250, 500, 810, 1000], count)
    items = Items(milli, resource_class, chance.random(count) < 0.3, allowed, class_of_model)
    item = chance.integers(0, count, many)
    apart = items.apart[item]
    sizes = DeviceSizes(
        chance.integers(0, 4, (many, classes)) * 2.0,
        item,
        np.where(apart, chance.integers(2, 4, many), 1),
        chance.random(many) + 0.1,
    )
    values = np.cumsum(chance.random((models, 101)), axis=1)
    kinds = chance.integers(-1, models, (hosts, devices))
    free = np.where(kinds >= 0, chance.choice([0, 95, 190, 500, 1000], kinds.shape), 0)
    node = chance.integers(-2, 20, (hosts, classes)).astype(float)
    return items, sizes, values, chance.random(many), node, free, kinds


@settings(max_examples=cases(200), deadline=None)
@given(hosts_with_devices())
def test_the_potential_is_that_of_loops(resources):
    items, sizes, values, blocks, node, free, kinds = resources
    potential = DevicePotential(items, sizes, values, None, blocks)
    found = potential.of(node, potential.devices(free, kinds))
    for host in range(len(node)):
        terms = naive.device_potential(
            items, sizes, values, blocks, node[host], free[host], kinds[host]
        )
        wanted = sum(weight * term for weight, term in zip(WEIGHTS, terms, strict=True))
        assert found[host] == pytest.approx(wanted, abs=1e-6)


@settings(max_examples=cases(50), deadline=None)
@given(hosts_with_devices(), st.data())
def test_a_change_of_one_device_is_as_if_it_had_been_so(resources, data):
    items, sizes, values, _, node, free, kinds = resources
    if not (kinds >= 0).any():
        return
    potential = DevicePotential(items, sizes, values)
    host, place = data.draw(st.sampled_from(np.argwhere(kinds >= 0).tolist()))
    devices, after = potential.devices(free, kinds), free.copy()
    after[host, place] //= 2
    devices[[host]] = potential.changed(
        devices[[host]], kinds[[host], place], free[[host], place], after[[host], place]
    )
    wanted = potential.of(node, potential.devices(after, kinds))
    assert potential.of(node, devices) == pytest.approx(wanted, abs=1e-6)
