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
"""AggregateInstanceExtraSpecsFilter."""

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.filters.aggregate_instance_extra_specs import AggregateInstanceExtraSpecsFilter
from nova_sched.tests.builders import aggregate, hosts, mask_of, request, spec
from nova_sched.tests.rows import each

GROUPS = [
    aggregate(1, ['host-0', 'host-1'], ssd='true', size='10'),
    aggregate(2, ['host-1'], ssd='false, maybe', size='20', **{'a:b': 'c'}),
    aggregate(3, ['host-2'], other='x', size='large', ssd=''),
]
SCOPE = 'aggregate_instance_extra_specs'


@each(
    'extra_specs, mask',
    [
        pytest.param({}, '*', id='none'),
        pytest.param({'hw:cpu_policy': 'shared', 'trait:A': 'required'}, '*', id='other scopes'),
        pytest.param({f'{SCOPE}:ssd': 'true'}, '1100', id='scope'),
        pytest.param({'ssd': 'true'}, '1100', id='no scope'),
        pytest.param({'ssd': 'maybe'}, '0100', id='second of a list'),
        pytest.param({'ssd': 'false, maybe'}, '0000', id='not the list itself'),
        pytest.param({'ssd': ''}, '0010', id='an empty value'),
        pytest.param({f'{SCOPE}:a:b': 'c'}, '0100', id='colons in the key'),
        pytest.param({'group_policy': 'none'}, '0000', id='a free key that no aggregate has'),
        pytest.param({f'{SCOPE}:': 'x'}, '0000', id='no key'),
        pytest.param({f'{SCOPE}:size': '>= 11'}, '0100', id='any value will do'),
        pytest.param(
            {f'{SCOPE}:size': '>= 5'}, '1100', id='a value that is not a number is not at least 5'
        ),
        pytest.param({f'{SCOPE}:ssd': '<or> no <or> true'}, '1100', id='one of several'),
        pytest.param({'ssd': 'true', f'{SCOPE}:size': '20'}, '0100', id='both'),
        pytest.param({'ssd': 'true', f'{SCOPE}:ssd': 'maybe'}, '0100', id='one key twice'),
    ],
)
def test_extra_specs(extra_specs, mask):
    rule, seen = AggregateInstanceExtraSpecsFilter, hosts(4, GROUPS)
    assert mask_of(rule, seen, request(extra_specs=extra_specs)) == mask
    passes = [
        rule().host_passes(seen.state(row), spec(extra_specs=extra_specs)) for row in range(4)
    ]
    assert passes == [digit == '1' for digit in mask.replace('*', '1111')]


@each(
    'text, what',
    [
        pytest.param('>= x', 'x is not a number', id='number'),
        pytest.param('<or>', 'no word', id='or'),
    ],
)
def test_an_extra_spec_that_makes_no_sense_is_refused_by_its_name(text, what):
    asked = request(extra_specs={f'{SCOPE}:ssd': text})
    with pytest.raises(errors.InvalidRequest, match=f'extra spec {SCOPE}:ssd: {what}'):
        AggregateInstanceExtraSpecsFilter().mask(hosts(4, GROUPS), asked)


def test_only_what_is_about_aggregates_makes_another_question():
    rule = AggregateInstanceExtraSpecsFilter()
    plain, same, other = (
        rule.depends_on(request(extra_specs=specs))
        for specs in (
            {'ssd': 'true'},
            {'hw:cpu_policy': 'shared', 'ssd': 'true'},
            {'ssd': 'false'},
        )
    )
    assert plain == same != other


@each(
    'extra_specs, rows, why',
    [
        pytest.param(
            {'ssd': 'no'}, [0], 'extra spec ssd asks for no, aggregates have true', id='one host'
        ),
        pytest.param(
            {'ssd': 'no'},
            [0, 1],
            'extra spec ssd asks for no, aggregates have false, maybe, true',
            id='hosts',
        ),
        pytest.param(
            {'gpu': '1'}, [0], 'extra spec gpu asks for 1, no aggregate has it', id='nobody'
        ),
        pytest.param(
            {'ssd': 'true', 'size': '20'},
            [0, 3],
            'extra spec ssd asks for true, no aggregate has it; '
            'extra spec size asks for 20, aggregates have 10',
            id='each what another lacks',
        ),
        pytest.param(
            {'ssd': 'true', 'size': '20'},
            [0],
            'extra spec size asks for 20, aggregates have 10',
            id='what is met is not told',
        ),
    ],
)
def test_why(extra_specs, rows, why):
    asked = request(extra_specs=extra_specs)
    assert AggregateInstanceExtraSpecsFilter().why(hosts(4, GROUPS), asked, np.array(rows)) == why
