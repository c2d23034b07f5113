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
"""ComputeFilter and DisabledCompute: seconds, switches."""

import numpy as np
import pytest

from nova_sched.filters.compute import ComputeFilter
from nova_sched.filters.disabled_compute import DisabledCompute
from nova_sched.state.node import LEFT_OUT, ServiceState
from nova_sched.tests.builders import NOW, hosts, mask_of, request
from nova_sched.tests.rows import each


@each(
    'columns, mask',
    [
        pytest.param({'seen_s': [NOW, NOW - 60, NOW - 61]}, '110', id='seen long ago'),
        pytest.param({'seen_s': [NOW + 60, NOW + 61, 0.0]}, '100', id='a clock that runs ahead'),
        pytest.param({'disabled': [True, False, True]}, '010', id='disabled'),
        pytest.param({'forced_down': [True, False, True]}, '010', id='forced down'),
        pytest.param(
            {'traits': [{'COMPUTE_STATUS_DISABLED'}, set(), {'X'}]}, '011', id='disabled by trait'
        ),
    ],
)
def test_compute(columns, mask):
    assert mask_of(ComputeFilter, hosts(3, **columns), request()) == mask


@each(
    'columns, mask',
    [
        pytest.param({'disabled': [True, False]}, '01', id='disabled'),
        pytest.param(
            {'traits': [{'COMPUTE_STATUS_DISABLED'}, set()]}, '01', id='disabled by trait'
        ),
        pytest.param({'forced_down': True, 'seen_s': NOW - 9999}, '11', id='down is not disabled'),
    ],
)
def test_disabled(columns, mask):
    assert mask_of(DisabledCompute, hosts(2, **columns), request()) == mask


@each(
    'reasons, why',
    [
        pytest.param(['disk', None], 'all are disabled', id='by an operator'),
        pytest.param(
            [f'{LEFT_OUT}no service', 'disk'],
            '1 is disabled, 1 is left out (nova-sched-manage cloud status has the reasons)',
            id='facts are missing',
        ),
    ],
)
def test_why(reasons, why):
    made = hosts(2, disabled=True)
    for node, one in zip(made.nodes, reasons, strict=True):
        node.service = ServiceState(True, one)
    assert DisabledCompute().why(made, request(), np.array([0, 1])) == why
