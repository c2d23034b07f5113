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
"""What is taken from devices, and given back."""

import pytest

from nova_sched import errors
from nova_sched.hardware import Overdrawn, providers
from nova_sched.hardware.providers import Allotted
from nova_sched.tests.unit.hardware.providers.builders import MILLI, ROOT, device, tree

NODE = tree(device('a', used=200), device('b'))


def gpu(units, uuid='a', suffix='1'):
    return Allotted(suffix, uuid, {MILLI: units})


def used(found):
    return {one.uuid: one.stocks[MILLI].used for one in found.children}


def test_take():
    assert used(providers.take(NODE, [gpu(300), gpu(500, suffix='2'), gpu(7, 'b')])) == {
        'a': 1000,
        'b': 7,
    }
    assert used(NODE) == {'a': 200, 'b': 0}


@pytest.mark.parametrize(
    'taken, why',
    [
        pytest.param([gpu(801)], f'{MILLI} of provider a: 801 asked, 800 free', id='too much'),
        pytest.param([gpu(400), gpu(401)], '801 asked', id='too much together'),
        pytest.param([gpu(1, 'z')], 'provider z: 1 asked, 0 free', id='a provider that is gone'),
        pytest.param(
            [Allotted('', 'b', {'VF': 1})], 'VF of provider b', id='a class that it has not'
        ),
    ],
)
def test_what_cannot_be_taken(taken, why):
    with pytest.raises(Overdrawn, match=why):
        providers.take(NODE, taken)


def test_hold_takes_what_is_not_there():
    held = providers.hold(NODE, [gpu(900), gpu(1, 'z'), Allotted('', 'b', {'VF': 1})])
    assert used(held) == {'a': 1100, 'b': 0}
    assert held.stock('a', MILLI).best == 0


def test_give_back():
    assert used(providers.give_back(NODE, [gpu(150), gpu(50), gpu(1, 'z')])) == {'a': 0, 'b': 0}
    with pytest.raises(Overdrawn, match='201 given back, 200 in use'):
        providers.give_back(NODE, [gpu(201)])


@pytest.mark.parametrize(
    'known, left',
    [
        pytest.param([], 200, id='nobody known'),
        pytest.param([gpu(150)], 50, id='some known'),
        pytest.param([gpu(150), gpu(150)], 0, id='more than is in use'),
    ],
)
def test_less_known(known, left):
    assert used(providers.less_known(NODE, known)) == {'a': left, 'b': 0}


def test_what_the_node_gives_is_consumed_elsewhere():
    own = [Allotted('1', ROOT, {'VCPU': 2}), Allotted('2', ROOT, {'VCPU': 1}), gpu(1)]
    assert providers.on_root(NODE, own) == {'VCPU': 3}
    assert used(providers.take(NODE, own)) == {'a': 201, 'b': 0}


def test_as_plain_values():
    one = Allotted('1', 'a', {MILLI: 500, 'VF': 1})
    assert one.to_plain() == ['1', 'a', {MILLI: 500, 'VF': 1}]
    assert Allotted.from_plain(one.to_plain()) == one


@pytest.mark.parametrize(
    'plain', [None, [], ['1', 'a'], ['1', 'a', {MILLI: 'x'}], ['1', 'a', [1]]]
)
def test_plain_values_that_are_none(plain):
    with pytest.raises(errors.MalformedObject):
        Allotted.from_plain(plain)
