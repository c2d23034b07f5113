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
"""MetricsFilter."""

import json

import numpy as np
import pytest

from nova_sched.filters.metrics import MetricsFilter
from nova_sched.tests.builders import hosts, mask_of, request
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

HOSTS = [{'a': 1, 'b': 2}, {'a': 0}, {'b': None}, {}]  # metrics, by name


def seen():
    return hosts(
        metrics=[
            json.dumps([{'name': name, 'value': value} for name, value in one.items()])
            for one in HOSTS
        ]
    )


@each(
    'setting, mask, why',
    [
        pytest.param([], '*', None, id='nothing set'),
        pytest.param(['bad', 'a=much', '=2'], '*', None, id='nothing that makes sense'),
        pytest.param(['a=1.0'], '1100', 'a is not reported by 2 hosts', id='one; 0 is a value'),
        pytest.param(
            ['a=0'], '1100', 'a is not reported by 2 hosts', id='one that counts for nothing'
        ),
        pytest.param(
            ['b=1'], '1010', 'b is not reported by 2 hosts', id='reported without a value'
        ),
        pytest.param(
            ['a=1', 'b=1', 'bad'],
            '1000',
            'a is not reported by 2 hosts, b is not reported by 2 hosts',
            id='two',
        ),
        pytest.param(
            ['c=1'], '0000', 'c is not reported by 4 hosts', id='one that nobody reports'
        ),
    ],
)
def test_metrics(setting, mask, why):
    with settings({'metrics.weight_setting': setting}):
        assert mask_of(MetricsFilter, seen(), request()) == mask
        if why is not None:
            refused = np.flatnonzero([digit == '0' for digit in mask])
            assert MetricsFilter().why(seen(), request(), refused) == why


def test_why_of_one_host():
    with settings({'metrics.weight_setting': ['a=1', 'b=1']}):
        assert [MetricsFilter().why(seen(), request(), np.array([row])) for row in (1, 2, 3)] == [
            'the host does not report b',
            'the host does not report a',
            'the host does not report a and b',
        ]
