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
"""AggregateMultiTenancyIsolation."""

import numpy as np
import pytest

from nova_sched.filters.aggregate_multi_tenancy_isolation import AggregateMultiTenancyIsolation
from nova_sched.tests.builders import aggregate, hosts, mask_of, request
from nova_sched.tests.rows import each

GROUPS = [
    aggregate(1, ['host-0', 'host-1'], filter_tenant_id='a'),
    aggregate(2, ['host-1'], filter_tenant_id3='b , c'),
    aggregate(3, ['host-2'], filter_tenant_id=''),
    aggregate(4, ['host-3'], a_filter_tenant_id='a'),
]


@each(
    'project, mask',
    [
        pytest.param('a', '11011', id='project'),
        pytest.param('c', '01011', id='a key that only starts so, and a list'),
        pytest.param('x', '00011', id='another project'),
        pytest.param(None, '00011', id='no project'),
    ],
)
def test_project(project, mask):
    assert (
        mask_of(AggregateMultiTenancyIsolation, hosts(5, GROUPS), request(project_id=project))
        == mask
    )


def test_no_opinion_where_no_aggregate_is_for_a_project():
    assert mask_of(AggregateMultiTenancyIsolation, hosts(2, GROUPS[3:]), request()) == '*'


def test_another_project_is_another_question():
    rule = AggregateMultiTenancyIsolation()
    one, same, other = (rule.depends_on(request(project_id=project)) for project in 'aab')
    assert one == same != other


@each(
    'rows, why',
    [
        pytest.param([0], 'it is kept for other projects', id='one host'),
        pytest.param([0, 1], 'all are kept for other projects', id='hosts'),
    ],
)
def test_why_does_not_name_the_others(rows, why):
    asked = request(project_id='x')
    assert AggregateMultiTenancyIsolation().why(hosts(5, GROUPS), asked, np.array(rows)) == why
