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
"""TenantAggregates."""

import numpy as np
import pytest

from nova_sched.filters.tenant_aggregates import TenantAggregates
from nova_sched.tests.builders import aggregate, hosts, mask_of, request
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

LIMIT = 'scheduler.limit_tenants_to_placement_aggregate'
REQUIRED = 'scheduler.placement_aggregate_required_for_tenants'
GROUPS = [
    aggregate(1, ['host-0'], filter_tenant_id='mine'),
    aggregate(2, ['host-1'], filter_tenant_id_2='mine', filter_tenant_id_1='other'),
    aggregate(3, ['host-2'], filter_tenant_id='other,mine'),
    aggregate(4, ['host-3'], owner='mine'),
]


@each(
    'project, options, mask',
    [
        pytest.param('mine', {}, '*', id='off'),
        pytest.param('mine', {REQUIRED: True}, '*', id='required, but off'),
        pytest.param('mine', {LIMIT: True}, '11000', id='its aggregates; a value is not split'),
        pytest.param('other,mine', {LIMIT: True}, '00100', id='the whole value'),
        pytest.param('nobody', {LIMIT: True}, '*', id='no aggregate: anywhere'),
        pytest.param('nobody', {LIMIT: True, REQUIRED: True}, '00000', id='no aggregate: nowhere'),
        pytest.param(
            'mine', {LIMIT: True, REQUIRED: True}, '11000', id='one is required, and there'
        ),
    ],
)
def test_tenants(project, options, mask):
    with settings(options):
        assert mask_of(TenantAggregates, hosts(5, GROUPS), request(project_id=project)) == mask


def test_what_it_depends_on():
    rule, asked = TenantAggregates(), request(project_id='mine')
    found = [rule.depends_on(asked)]
    for options in ({LIMIT: True}, {LIMIT: True, REQUIRED: True}):
        with settings(options):
            found.append(rule.depends_on(asked))
    assert len(set(found)) == 3
    assert None not in found


@each(
    'project, why',
    [
        pytest.param('mine', 'all are outside of the aggregates of the project', id='others'),
        pytest.param(
            'nobody', 'no aggregate is for the project, and it may go nowhere else', id='none'
        ),
    ],
)
def test_why(project, why):
    assert (
        TenantAggregates().why(hosts(5, GROUPS), request(project_id=project), np.array([3, 4]))
        == why
    )
