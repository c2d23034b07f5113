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
"""Types of resources that create no members, and conditions that are refused."""

import pytest

from nova_sched.tests.unit.groups.template import SERVER, read, refused


@pytest.mark.parametrize(
    'conditions, place, where, why',
    [
        pytest.param('{a: b}', (2, 17), 'conditions.a', 'there is no condition b', id='unknown'),
        pytest.param('{a: {not: a}}', (2, 18), 'conditions.a', 'in a circle', id='circle'),
        pytest.param(
            '{a: {equals: [{get_param: x}, 1]}}',
            (2, 39),
            'conditions.a.equals.0.get_param',
            'x',
            id='param',
        ),
        pytest.param('{a: 1}', (2, 17), 'conditions.a', 'a condition is a name', id='number'),
        pytest.param('[a]', (2, 13), 'conditions', 'a mapping is wanted, not a list', id='list'),
    ],
)
def test_conditions_that_are_refused(conditions, place, where, why):
    line, column, found, words = refused(f'conditions: {conditions}')
    if why != 'in a circle':  # where a circle is cut does not matter
        assert ((line, column), found) == (place, where)
    assert why in words


def test_what_creates_servers_unseen_is_a_warning():
    assert read({'i': {'type': 'OS::Heat::InstanceGroup'}, 'a': SERVER}).warnings == (
        'resources.i: the servers of OS::Heat::InstanceGroup are not planned',
    )


def test_resources_of_heat_are_no_members():
    others = [
        'OS::Neutron::Port',
        'OS::Heat::WaitCondition',
        'OS::Nova::KeyPair',
        'OS::NovaSched::TopGroup',
        'My::Thing',
    ]
    resources = {
        f'r{i}': {'type': kind, 'properties': {'x': {'get_file': 'y'}}}
        for i, kind in enumerate(others)
    }
    assert list(read({**resources, 'a': SERVER}).members) == ['a']
