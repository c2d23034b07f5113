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
"""RequestedZone."""

import pytest

from nova_sched.filters.requested_zone import RequestedZone
from nova_sched.tests.builders import aggregate, host, hosts, mask_of, request, spec

ZONES = [
    aggregate(1, ['host-0'], availability_zone='a'),
    aggregate(2, ['host-1', 'gone'], ssd='x'),
]


@pytest.mark.parametrize(
    'zone, mask',
    [
        pytest.param(None, '*', id='no zone asked'),
        pytest.param('a', '100', id='zone'),
        pytest.param('nova', '*', id='the default zone is no aggregate'),
        pytest.param('nowhere', '*', id='an unknown zone restricts nothing'),
    ],
)
def test_zone(zone, mask):
    assert mask_of(RequestedZone, hosts(3, ZONES), request(availability_zone=zone)) == mask


def test_a_zone_without_a_node_has_no_host():
    seen = hosts(2, [aggregate(1, ['gone'], availability_zone='empty')])
    assert mask_of(RequestedZone, seen, request(availability_zone='empty')) == '00'


def test_one_host_restricts_itself_to_its_own_zones():
    state = host(aggregates=[aggregate(1, ['host-0'], availability_zone='a')])
    assert RequestedZone().host_passes(state, spec(availability_zone='a'))
