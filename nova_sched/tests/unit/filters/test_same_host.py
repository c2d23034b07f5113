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
"""SameHostFilter, and DifferentHostFilter, which is its opposite."""

import pytest

from nova_sched.filters.different_host import DifferentHostFilter
from nova_sched.filters.same_host import SameHostFilter
from nova_sched.tests.builders import claim, cluster, hosts, mask_of, request, uuid_of
from nova_sched.tests.rows import each

A, B, C = map(uuid_of, 'abc')
PLACES = {'instances': [{A}, {A, B}, set()]}


@each(
    'hint, same, different',
    [
        pytest.param([], '*', '*', id='empty'),
        pytest.param([''], '*', '*', id='empty text'),
        pytest.param([A], '110', '001', id='on two hosts'),
        pytest.param(A, '110', '001', id='no list'),
        pytest.param([B], '010', '101', id='on one host'),
        pytest.param([B, C], '010', '101', id='one of them is nowhere'),
        pytest.param([C], '000', '111', id='nowhere'),
    ],
)
def test_same_and_different_host(hint, same, different):
    assert mask_of(SameHostFilter, hosts(**PLACES), request(hints={'same_host': hint})) == same
    assert (
        mask_of(DifferentHostFilter, hosts(**PLACES), request(hints={'different_host': hint}))
        == different
    )
    for rule in (SameHostFilter, DifferentHostFilter):
        assert mask_of(rule, hosts(**PLACES), request(hints={'other': hint})) == '*'


def test_a_claim_counts_as_an_instance():
    made = cluster(2)
    made.add(claim(A, made.hosts.nodes[1].uuid))
    assert mask_of(SameHostFilter, made.hosts, request(hints={'same_host': [A]})) == '01'
