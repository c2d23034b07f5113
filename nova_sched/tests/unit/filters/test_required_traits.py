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
"""RequiredTraits."""

import pytest

from nova_sched.filters.required_traits import RequiredTraits
from nova_sched.tests.builders import hosts, mask_of, request


@pytest.mark.parametrize(
    'words, mask',
    [
        pytest.param({}, '*', id='none asked'),
        pytest.param({'extra_specs': {'trait:A': 'required'}}, '110', id='required'),
        pytest.param(
            {'extra_specs': {'trait:A': 'required', 'trait:B': 'required'}}, '010', id='two required'
        ),
        pytest.param({'extra_specs': {'trait:B': 'forbidden'}}, '101', id='forbidden'),
        pytest.param({'extra_specs': {'trait:A': 'required', 'trait:B': 'forbidden'}}, '100', id='both'),
        pytest.param({'extra_specs': {'trait:C': 'required'}}, '000', id='nobody has it'),
        pytest.param({'extra_specs': {'trait:C': 'forbidden'}}, '111', id='nobody has what is forbidden'),
        pytest.param({'image_properties': {'traits_required': ['B']}}, '010', id='of the image'),
    ],
)
def test_traits(words, mask):
    assert mask_of(RequiredTraits, hosts(traits=[{'A'}, {'A', 'B'}, set()]), request(**words)) == mask


@pytest.mark.parametrize('last', [1, 63, 64, 65, 200])
def test_many_traits(last):
    seen = hosts(traits=[{f'T{number}' for number in range(last)}, {f'T{last}'}, set()])
    assert mask_of(RequiredTraits, seen, request(extra_specs={f'trait:T{last}': 'required'})) == '010'
    assert mask_of(RequiredTraits, seen, request(extra_specs={'trait:T0': 'required'})) == '100'
    assert mask_of(RequiredTraits, seen, request(extra_specs={f'trait:T{last}': 'forbidden'})) == '101'
