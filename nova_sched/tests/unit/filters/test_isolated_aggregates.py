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
"""IsolatedAggregates."""

import numpy as np
import pytest

from nova_sched.filters.isolated_aggregates import IsolatedAggregates
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.tests.builders import aggregate, hosts, mask_of, request
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

ON = {'scheduler.enable_isolated_aggregate_filtering': True}
GROUPS = [
    aggregate(1, ['host-0'], **{'trait:A': 'required'}),
    aggregate(2, ['host-1'], **{'trait:A': 'required', 'trait:B': 'required'}),
    aggregate(3, ['host-2'], **{'trait:B': 'forbidden', 'trait': 'required'}),
    aggregate(4, ['host-3', 'host-0'], **{'trait:HW_CPU_HYPERTHREADING': 'required'}),
]
OF_GROUP = ResourceGroup('1', (('VGPU', 1),), frozenset('A'))


@each(
    'words, mask',
    [
        pytest.param({}, '00101', id='nothing required'),
        pytest.param({'required_traits': frozenset('A')}, '00101', id='one of two aggregates'),
        pytest.param({'required_traits': frozenset('AB')}, '01101', id='both traits of one'),
        pytest.param(
            {'required_traits': frozenset('A'), 'sibling_threads': True}, '10111', id='threads'
        ),
        pytest.param({'sibling_threads': False}, '00101', id='no threads'),
        pytest.param(
            {'required_traits': frozenset('B'), 'groups': (OF_GROUP,)}, '01101', id='of a group'
        ),
        pytest.param(
            {'forbidden_traits': frozenset('AB')}, '00101', id='forbidden is not required'
        ),
        pytest.param(
            {'root_required': frozenset('AB')}, '00101', id='nor are those of the node alone'
        ),
    ],
)
def test_isolation(words, mask):
    with settings(ON):
        assert mask_of(IsolatedAggregates, hosts(5, GROUPS), request(**words)) == mask


def test_off():
    assert mask_of(IsolatedAggregates, hosts(5, GROUPS), request()) == '*'


def test_what_it_depends_on():
    rule = IsolatedAggregates()
    off = rule.depends_on(request())
    with settings(ON):
        assert (
            len(
                {
                    off,
                    rule.depends_on(request()),
                    rule.depends_on(request(required_traits=frozenset('A'))),
                }
            )
            == 3
        )


@each(
    'rows, why',
    [
        pytest.param(
            [0, 1],
            'all are kept for requests that require A, B, HW_CPU_HYPERTHREADING',
            id='several',
        ),
        pytest.param([3], 'it is kept for requests that require HW_CPU_HYPERTHREADING', id='one'),
    ],
)
def test_why(rows, why):
    with settings(ON):
        assert IsolatedAggregates().why(hosts(5, GROUPS), request(), np.array(rows)) == why
