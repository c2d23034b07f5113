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
"""AggregateImagePropertiesIsolation."""

import numpy as np
import pytest

from nova_sched.filters.aggregate_image_properties_isolation import (
    AggregateImagePropertiesIsolation,
)
from nova_sched.tests.builders import aggregate, hosts, mask_of, request
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

GROUPS = [
    aggregate(1, ['host-0', 'host-1'], os_type='linux'),
    aggregate(
        2, ['host-1'], os_type='windows, other', hw_cpu_cores='2', os_require_quiesce='True'
    ),
    aggregate(3, ['host-2'], nonsense='linux', os_type=''),
]
SPACE, BETWEEN = (
    f'filter_scheduler.aggregate_image_properties_isolation_{name}'
    for name in ('namespace', 'separator')
)


@each(
    'words, mask',
    [
        pytest.param({'image': None}, '*', id='no image'),
        pytest.param({'image_properties': {}}, '*', id='no properties'),
        pytest.param(
            {'image_properties': {'hw_disk_bus': 'virtio'}}, '*', id='aggregates are silent'
        ),
        pytest.param({'image_properties': {'os_type': 'linux'}}, '1101', id='property'),
        pytest.param(
            {'image_properties': {'os_type': 'windows'}}, '0101', id='in the list of another'
        ),
        pytest.param(
            {'image_properties': {'os_type': 'windows, other'}}, '0001', id='not the list itself'
        ),
        pytest.param({'image_properties': {'hw_cpu_cores': 2}}, '1111', id='a number as text'),
        pytest.param({'image_properties': {'hw_cpu_cores': 4}}, '1011', id='another number'),
        pytest.param({'image_properties': {'hw_cpu_cores': 0}}, '*', id='0 is as good as not set'),
        pytest.param(
            {'image_properties': {'os_require_quiesce': True}}, '1111', id='a switch as text'
        ),
        pytest.param(
            {'image_properties': {'os_require_quiesce': False}}, '*', id='off is not set'
        ),
        pytest.param(
            {'image_properties': {'os_type': 'linux', 'hw_cpu_cores': 4}}, '1001', id='both'
        ),
    ],
)
def test_property(words, mask):
    assert mask_of(AggregateImagePropertiesIsolation, hosts(4, GROUPS), request(**words)) == mask


@each(
    'options, mask',
    [
        pytest.param({SPACE: 'os'}, '*', id='no property has a dot'),
        pytest.param({SPACE: 'os', BETWEEN: '_'}, '1101', id='properties of the namespace'),
        pytest.param({SPACE: '', BETWEEN: '_'}, '1001', id='an empty namespace is none'),
    ],
)
def test_namespace(options, mask):
    asked = request(image_properties={'os_type': 'linux', 'hw_cpu_cores': 4})
    rule = AggregateImagePropertiesIsolation
    before = rule().depends_on(asked)
    with settings(options):
        assert mask_of(rule, hosts(4, GROUPS), asked) == mask
        assert (rule().depends_on(asked) == before) is (mask == '1001')


@each(
    'rows, why',
    [
        pytest.param(
            [0], 'image property os_type is bsd, aggregates are for linux', id='one host'
        ),
        pytest.param(
            [0, 1],
            'image property os_type is bsd, aggregates are for linux, other, windows; '
            'image property hw_cpu_cores is 4, aggregates are for 2',
            id='hosts',
        ),
    ],
)
def test_why(rows, why):
    asked = request(
        image_properties={'os_type': 'bsd', 'hw_cpu_cores': 4, 'hw_disk_bus': 'virtio'}
    )
    assert AggregateImagePropertiesIsolation().why(hosts(4, GROUPS), asked, np.array(rows)) == why
