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
"""AggregateTypeAffinityFilter."""

import numpy as np
import pytest

from nova_sched.filters.aggregate_type_affinity import AggregateTypeAffinityFilter
from nova_sched.tests.builders import aggregate, hosts, mask_of, request
from nova_sched.tests.rows import each

GROUPS = [
    aggregate(1, ['host-0', 'host-1'], instance_type='small'),
    aggregate(2, ['host-1'], instance_type='large , huge'),
    aggregate(3, ['host-2'], instance_type=''),
    aggregate(4, ['host-3'], other='small'),
]


@each(
    'flavor, mask',
    [
        pytest.param('small', '11011', id='small'),
        pytest.param('huge', '01011', id='second of a list'),
        pytest.param('tiny', '00011', id='in no list'),
        pytest.param('large , huge', '00011', id='not the list itself'),
    ],
)
def test_flavor(flavor, mask):
    assert (
        mask_of(AggregateTypeAffinityFilter, hosts(5, GROUPS), request(flavor_name=flavor)) == mask
    )


def test_no_opinion_where_no_aggregate_names_a_flavor():
    assert mask_of(AggregateTypeAffinityFilter, hosts(2, GROUPS[3:]), request()) == '*'


def test_another_flavor_is_another_question():
    rule = AggregateTypeAffinityFilter()
    small, again, large = (
        rule.depends_on(request(flavor_name=name)) for name in ('small', 'small', 'large')
    )
    assert small == again != large


@each(
    'rows, why',
    [
        pytest.param(
            [0], 'flavor tiny asked, the aggregates of the host are for small', id='one host'
        ),
        pytest.param(
            [0, 1],
            'flavor tiny asked, the aggregates of 2 hosts are for huge, large, small',
            id='hosts',
        ),
    ],
)
def test_why(rows, why):
    asked = request(flavor_name='tiny')
    assert AggregateTypeAffinityFilter().why(hosts(5, GROUPS), asked, np.array(rows)) == why
