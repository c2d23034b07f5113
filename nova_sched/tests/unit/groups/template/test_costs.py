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
"""What a template may cost: its work and its time are limited, and end the reading anywhere."""

import json
import time

import pytest

from nova_sched import errors
from nova_sched.engine.groups.member_state import MemberRequests
from nova_sched.groups import template
from nova_sched.groups.definition import Definition, Member, MemberFlavor
from nova_sched.groups.template.values import Allowance
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


HEAD = {'heat_template_version': '2021-04-16'}
SERVER = {'type': 'OS::Nova::Server', 'properties': {'flavor': {'vcpus': 1, 'ram': 64, 'disk': 0}}}
LARGE = {**HEAD, 'resources': {f'server-{number}': SERVER for number in range(1000)}}
COPIES = {
    'repeat': {
        'for_each': {'%i%': list(range(100)), '%j%': list(range(100))},
        'template': '%i%-%j%',
    }
}
BUSY = {
    **HEAD,
    'resources': {'server': SERVER},
    'conditions': {f'c{number}': {'equals': [COPIES, COPIES]} for number in range(50)},
}


@pytest.mark.parametrize(
    'text',
    [
        pytest.param(LARGE, id='a mapping'),
        pytest.param(json.dumps(LARGE), id='JSON'),
        pytest.param(BUSY, id='little text, much work'),
    ],
)
def test_a_template_that_takes_too_long(text):
    with pytest.raises(errors.TemplateError, match=r'takes longer than 0\.005 s'):
        template.read(text, allowance=Allowance(0.005))


def test_requests_that_take_too_long():
    """Each member is another one, and has CPUs that are told apart."""
    dedicated = {'hw:cpu_policy': 'dedicated'}
    members = {
        path: Member(path, MemberFlavor(4096, 64 + number, extra_specs=dedicated))
        for number in range(1000)
        for path in [f'm{number}']
    }
    with pytest.raises(errors.TemplateError) as refused:
        MemberRequests.of(Definition(members), Allowance(0.05))
    assert refused.value.where != 'm0'


def test_time_in_which_nothing_is_done_does_not_count():
    allowance = Allowance(0.05)
    time.sleep(0.1)
    assert allowance.check() is None


def test_what_a_template_may_be_is_read_in_time():
    """The largest group that there may be, as long as it says nothing that takes ages."""
    assert len(template.read(json.dumps(LARGE)).members) == 1000
