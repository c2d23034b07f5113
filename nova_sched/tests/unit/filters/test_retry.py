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
"""RetryFilter."""

import types

import numpy as np
import pytest

from nova_sched.filters.retry import RetryFilter
from nova_sched.tests.builders import hosts, mask_of, request
from nova_sched.tests.rows import each

NODES = {'host': ['h', 'h', 'i'], 'nodename': ['n', 'm', 'o']}


@each(
    'tried, mask',
    [
        pytest.param([], '*', id='the first try'),
        pytest.param([('h', 'n')], '011', id='one node of a host'),
        pytest.param([('h', 'm'), ('i', 'o')], '100', id='two'),
        pytest.param([('h', 'o'), ('i', 'n')], '111', id='nodes of other hosts'),
        pytest.param([('gone', 'n')], '111', id='a host that is gone'),
    ],
)
def test_retry(tried, mask):
    nodes = [types.SimpleNamespace(host=host, hypervisor_hostname=node) for host, node in tried]
    asked = request(retry=types.SimpleNamespace(num_attempts=2, hosts=nodes))
    assert mask_of(RetryFilter, hosts(**NODES), asked) == mask


def test_no_retry_at_all():
    assert mask_of(RetryFilter, hosts(**NODES), request(retry=None)) == '*'


@each(
    'rows, why',
    [
        pytest.param([0], 'it is where the request was sent before', id='one host'),
        pytest.param([0, 1], 'all are where the request was sent before', id='hosts'),
    ],
)
def test_why(rows, why):
    assert RetryFilter().why(hosts(**NODES), request(), np.array(rows)) == why
