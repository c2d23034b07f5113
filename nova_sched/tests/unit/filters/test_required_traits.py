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

import json

import numpy as np
import pytest

from nova_sched.filters.required_traits import RequiredTraits
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import hosts, mask_of, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

HT = 'HW_CPU_HYPERTHREADING'


@each(
    'words, mask',
    [
        pytest.param({}, '*', id='none asked'),
        pytest.param({'extra_specs': {'trait:A': 'required'}}, '110', id='required'),
        pytest.param(
            {'extra_specs': {'trait:A': 'required', 'trait:B': 'required'}},
            '010',
            id='two required',
        ),
        pytest.param({'extra_specs': {'trait:B': 'forbidden'}}, '101', id='forbidden'),
        pytest.param(
            {'extra_specs': {'trait:A': 'required', 'trait:B': 'forbidden'}}, '100', id='both'
        ),
        pytest.param({'extra_specs': {'trait:C': 'required'}}, '000', id='nobody has it'),
        pytest.param(
            {'extra_specs': {'trait:C': 'forbidden'}}, '111', id='nobody has what is forbidden'
        ),
        pytest.param({'image_properties': {'traits_required': ['B']}}, '010', id='of the image'),
    ],
)
def test_traits(words, mask):
    assert (
        mask_of(RequiredTraits, hosts(traits=[{'A'}, {'A', 'B'}, set()]), request(**words)) == mask
    )


@each('is_owned, mask', [(False, '*'), (True, '10')])
def test_the_owner_of_the_node(is_owned, mask):
    seen = hosts(traits=[{'OWNER_NOVA'}, {'A'}])
    seen.is_owned = is_owned
    assert mask_of(RequiredTraits, seen, request()) == mask


@each('last', [1, 63, 64, 65, 200])
def test_many_traits(last):
    seen = hosts(traits=[{f'T{number}' for number in range(last)}, {f'T{last}'}, set()])
    assert (
        mask_of(RequiredTraits, seen, request(extra_specs={f'trait:T{last}': 'required'})) == '010'
    )
    assert mask_of(RequiredTraits, seen, request(extra_specs={'trait:T0': 'required'})) == '100'
    assert (
        mask_of(RequiredTraits, seen, request(extra_specs={f'trait:T{last}': 'forbidden'}))
        == '101'
    )


@each(
    'words, mask',
    [
        pytest.param({'root_required': {'A'}}, '110', id='required'),
        pytest.param({'root_forbidden': {'B'}}, '101', id='forbidden'),
        pytest.param(
            {'root_required': {'A'}, 'required_traits': {'B'}}, '010', id='beside others'
        ),
    ],
)
def test_traits_of_the_node_itself(words, mask):
    assert (
        mask_of(RequiredTraits, hosts(traits=[{'A'}, {'A', 'B'}, set()]), request(**words)) == mask
    )


def below(host, *traits):
    """The provider tree of the node of that host, with one device."""
    root = uuid_of(f'node {host}')
    device = {'inventories': {'CUSTOM_GPU': {'total': 1}}, 'traits': [*traits]}
    return json.dumps({root: {}, 'gpu': {**device, 'parent_provider_uuid': root}})


@each(
    'words, mask',
    [
        pytest.param(
            {'extra_specs': {'resources:CUSTOM_GPU': '1', 'trait:A': 'required'}},
            '110',
            id='of a device',
        ),
        pytest.param(
            {'extra_specs': {'trait:A': 'required'}}, '010', id='of a device that gives nothing'
        ),
        pytest.param(
            {'extra_specs': {'resources1:CUSTOM_GPU': '1', 'trait:A': 'required'}},
            '010',
            id='of a group',
        ),
        pytest.param(
            {'extra_specs': {'resources:CUSTOM_GPU': '1'}, 'root_required': {'A'}},
            '010',
            id='of the node itself',
        ),
    ],
)
def test_a_device_may_have_the_trait(words, mask):
    seen = hosts(
        3,
        providers=[below('host-0', 'A'), below('host-1'), below('host-2')],
        traits=[set(), {'A'}, set()],
    )
    assert mask_of(RequiredTraits, seen, request(**words)) == mask


@each(
    'extra_specs, strict, mask',
    [
        pytest.param({'hw:cpu_thread_policy': 'require'}, False, '1001', id='threads'),
        pytest.param({'hw:cpu_thread_policy': 'isolate'}, False, '0110', id='no threads'),
        pytest.param({'hw:cpu_thread_policy': 'prefer'}, False, '*', id='whichever'),
        pytest.param(
            {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'},
            False,
            '1011',
            id='dedicated, or shared ones that do',
        ),
        pytest.param(
            {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'},
            True,
            '1001',
            id='dedicated only',
        ),
    ],
)
def test_thread_policy(extra_specs, strict, mask):
    dedicated, shared = {'PCPU': Inventory(4)}, {'VCPU': Inventory(4)}
    seen = hosts(
        4,
        traits=[{HT}, set(), set(), {HT}],
        inventories=[dedicated, dedicated, shared, shared],
        used={},
    )
    with settings({'workarounds.disable_fallback_pcpu_query': strict}):
        assert mask_of(RequiredTraits, seen, request(extra_specs=extra_specs)) == mask


@each(
    'words, lasts',
    [
        pytest.param({}, True, id='plain'),
        pytest.param({'extra_specs': {'hw:cpu_thread_policy': 'require'}}, True, id='threads'),
        pytest.param(
            {'extra_specs': {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'}},
            False,
            id='who has dedicated CPUs',
        ),
        pytest.param({'extra_specs': {'resources:CUSTOM_GPU': '1'}}, False, id='who has devices'),
    ],
)
def test_what_lasts(words, lasts):
    assert (RequiredTraits().depends_on(request(**words)) is not None) is lasts


def test_why():
    seen = hosts(traits=[{'A'}, {'B'}, set()])
    asked = request(required_traits={'A'}, root_required={'B'}, root_forbidden={'A'})
    rows = np.arange(3)
    assert RequiredTraits().why(seen, asked, rows) == (
        'A is required, 1 of all 3 hosts have it (2 hosts); '
        'B is required, 1 of all 3 hosts have it (2 hosts); A is forbidden (1 host)'
    )
    assert RequiredTraits().why(seen, asked, rows[2:]) == (
        'A is required, the host lacks it; B is required, the host lacks it'
    )
