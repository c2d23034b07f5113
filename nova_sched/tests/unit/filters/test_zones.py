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
"""RequestedZone and AvailabilityZoneFilter."""

import pytest

from nova_sched.conf import CONF
from nova_sched.filters.availability_zone import AvailabilityZoneFilter
from nova_sched.filters.requested_zone import RequestedZone
from nova_sched.tests.builders import aggregate, host, hosts, mask_of, request, spec
from nova_sched.tests.rows import each

ZONES = [
    aggregate(1, ['host-0'], availability_zone='a'),
    aggregate(2, ['host-1', 'gone'], ssd='x'),
]


@each(
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


LISTED = [
    aggregate(1, ['host-0', 'host-1'], availability_zone='a'),
    aggregate(2, ['host-1'], availability_zone='b , c'),
    aggregate(3, ['host-2'], ssd='true'),
    aggregate(4, ['host-3'], availability_zone=''),
]


@each(
    'zone, mask',
    [
        pytest.param(None, '*', id='no zone asked'),
        pytest.param('', '*', id='empty zone'),
        pytest.param('a', '11000', id='zone'),
        pytest.param('c', '01000', id='second of a list'),
        pytest.param('b , c', '00000', id='not the list itself'),
        pytest.param(
            'nova', '00101', id='the default zone is for hosts that no aggregate gives one'
        ),
        pytest.param('nowhere', '00000', id='unknown zone'),
    ],
)
def test_availability_zone(zone, mask):
    assert (
        mask_of(AvailabilityZoneFilter, hosts(5, LISTED), request(availability_zone=zone)) == mask
    )


def test_default_availability_zone_is_an_option():
    CONF.set_override('default_availability_zone', 'home')
    try:
        seen = hosts(5, LISTED)
        assert mask_of(AvailabilityZoneFilter, seen, request(availability_zone='home')) == '00101'
        assert mask_of(AvailabilityZoneFilter, seen, request(availability_zone='nova')) == '00000'
    finally:
        CONF.clear_override('default_availability_zone')
