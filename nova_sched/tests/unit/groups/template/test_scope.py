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
"""The work that a template may ask for is limited."""

import json

import pytest

from nova_sched.tests.unit.groups.template import refused
from nova_sched.tests.unit.groups.template.test_functions import BODY


def many(count, value):
    return [value] * count


@pytest.mark.parametrize(
    'value, why',
    [
        pytest.param(
            {'list_join': [',', many(100, 'x' * 1000)]},
            'the text would have 100099',
            id='long join',
        ),
        pytest.param(
            {'str_replace': {'template': 'a' * 1000, 'params': {'a': 'x' * 1000}}},
            'the text would have 1000000',
            id='long replacement',
        ),
        pytest.param(
            {'str_replace': {'template': 'a', 'params': {f'{i}x': '' for i in range(101)}}},
            '101 texts',
            id='many texts',
        ),
        pytest.param(
            {'repeat': {'template': 'x', 'for_each': {str(i): many(100, 'y') for i in range(5)}}},
            '10000000000 copies',
            id='many copies',
        ),
        pytest.param(
            {'repeat': {'template': many(100, 'i'), 'for_each': {'i': many(9999, 'y')}}},
            'too much work',
            id='large copies',
        ),
    ],
)
def test_what_would_blow_up_is_refused(value, why):
    assert why in refused(BODY.format(value=json.dumps(value)))[3]


def test_functions_in_a_long_row_are_refused():
    """Each asks the next: no stack of Python overflows."""
    conditions = {f'c{i}': {'not': f'c{i + 1}'} for i in range(3000)}
    assert 'in a circle' in refused(f'conditions: {json.dumps({**conditions, "c3000": True})}')[3]
