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
"""The models of devices."""

import pytest

from nova_sched.packing.devices import FULL, NEVER, NO_MODEL, Models
from nova_sched.packing.mix import DeviceDemand
from nova_sched.tests.unit.packing.fleets import GPU, tree

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
