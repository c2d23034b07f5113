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
"""SimpleCIDRAffinityFilter: addresses, networks, and hints that are neither."""

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.filters.simple_cidr_affinity import SimpleCIDRAffinityFilter
from nova_sched.tests.builders import host, hosts, mask_of, request, spec
from nova_sched.tests.rows import each

ROWS = {'host_ip': ['10.0.0.7', '10.0.1.7', '10.0.0.116', '2001:db8::5', None]}


@each(
    'hints, mask',
    [
        pytest.param({}, '*', id='no hint'),
        pytest.param({'cidr': '/32'}, '*', id='a size without an address'),
        pytest.param({'build_near_host_ip': ''}, '*', id='empty address'),
        pytest.param({'build_near_host_ip': []}, '*', id='no address in the list'),
        pytest.param({'build_near_host_ip': '10.0.0.1'}, '10100', id='/24 unless told'),
        pytest.param({'build_near_host_ip': ['10.0.0.1'], 'cidr': ['/24']}, '10100', id='lists'),
        pytest.param({'build_near_host_ip': '10.0.0.1', 'cidr': '/16'}, '11100', id='/16'),
        pytest.param({'build_near_host_ip': '10.0.0.7', 'cidr': '/32'}, '10000', id='/32'),
        pytest.param({'build_near_host_ip': '10.0.0.1', 'cidr': '/0'}, '11100', id='all of IPv4'),
        pytest.param(
            {'build_near_host_ip': '10.0.0.1', 'cidr': '/255.255.0.0'}, '11100', id='netmask'
        ),
        pytest.param(
            {'build_near_host_ip': '10.0.0.1', 'cidr': '16'}, '00100', id='digits of the address'
        ),
        pytest.param({'build_near_host_ip': '10.0.0.1', 'cidr': None}, '10100', id='null'),
        pytest.param({'build_near_host_ip': '10.0.0.1', 'cidr': []}, '10100', id='empty list'),
        pytest.param({'build_near_host_ip': '10.0.0.7', 'cidr': ''}, '10000', id='empty size'),
        pytest.param(
            {'build_near_host_ip': '10.0.0.7/31', 'cidr': ''}, '10000', id='size in the address'
        ),
        pytest.param({'build_near_host_ip': '2001:db8::1', 'cidr': '/64'}, '00010', id='IPv6'),
        pytest.param(
            {'build_near_host_ip': '2001:db8::1', 'cidr': '/0'}, '00010', id='all of IPv6'
        ),
        pytest.param(
            {'build_near_host_ip': '2001:db8::1', 'cidr': '/126'}, '00000', id='small IPv6'
        ),
        pytest.param({'build_near_host_ip': '2001:db8::1'}, '00010', id='/24 of IPv6'),
        pytest.param({'build_near_host_ip': '192.0.2.1'}, '00000', id='nobody is there'),
    ],
)
def test_network(hints, mask):
    rule = SimpleCIDRAffinityFilter()
    assert mask_of(SimpleCIDRAffinityFilter, hosts(**ROWS), request(hints=hints)) == mask
    passes = [
        rule.host_passes(host(host_ip=address), spec(hints=hints)) for address in ROWS['host_ip']
    ]
    assert passes == [digit == '1' for digit in mask.replace('*', '11111')]


@each(
    'hints, where, what',
    [
        pytest.param(
            {'build_near_host_ip': 'near'}, 'build_near_host_ip', 'near', id='no address'
        ),
        pytest.param(
            {'build_near_host_ip': '10.0.0'}, 'build_near_host_ip', '10.0.0', id='half an address'
        ),
        pytest.param(
            {'build_near_host_ip': '010.0.0.1'}, 'build_near_host_ip', '010', id='octal or not'
        ),
        pytest.param(
            {'build_near_host_ip': 7}, 'build_near_host_ip', '7 is not text', id='a number'
        ),
        pytest.param(
            {'build_near_host_ip': ['10.0.0.1', '10.0.0.2']},
            'build_near_host_ip',
            'is not text',
            id='two',
        ),
        pytest.param(
            {'build_near_host_ip': '10.0.0.1', 'cidr': '/33'}, 'cidr', '/33', id='too long'
        ),
        pytest.param(
            {'build_near_host_ip': '10.0.0.1', 'cidr': '/-1'}, 'cidr', '/-1', id='negative'
        ),
        pytest.param({'build_near_host_ip': '10.0.0.1', 'cidr': '/x'}, 'cidr', '/x', id='no size'),
        pytest.param(
            {'build_near_host_ip': '10.0.0.1', 'cidr': '//24'}, 'cidr', '//24', id='two slashes'
        ),
        pytest.param(
            {'build_near_host_ip': '10.0.0.1', 'cidr': '/'}, 'cidr', '/', id='slash alone'
        ),
    ],
)
def test_a_hint_that_makes_no_sense_is_refused_by_its_name(hints, where, what):
    rule = SimpleCIDRAffinityFilter()
    for ask in (
        lambda: rule.mask(hosts(**ROWS), request(hints=hints)),
        lambda: rule.depends_on(request(hints=hints)),
        lambda: rule.host_passes(host(host_ip='10.0.0.1'), spec(hints=hints)),
    ):
        with pytest.raises(errors.InvalidRequest, match=f'scheduler hint {where}: .*{what}'):
            ask()


def test_a_long_hint_is_not_told_whole():
    with pytest.raises(errors.InvalidRequest) as refused:
        SimpleCIDRAffinityFilter().mask(
            hosts(1), request(hints={'build_near_host_ip': 'x' * 10**6})
        )
    assert len(str(refused.value)) < 200


def test_an_address_in_the_form_of_an_object():
    class Address:
        def __str__(self):
            return '10.0.0.7'

    near = spec(hints={'build_near_host_ip': '10.0.0.1'})
    assert SimpleCIDRAffinityFilter().host_passes(host(host_ip=Address()), near)


def test_addresses_of_one_network_are_one_question():
    rule = SimpleCIDRAffinityFilter()
    one, same, other = (
        rule.depends_on(request(hints={'build_near_host_ip': near}))
        for near in ('10.0.0.1', '10.0.0.2', '10.1.0.1')
    )
    assert one == same != other
    assert rule.depends_on(request()) is not None


@each(
    'rows, why',
    [
        pytest.param([1], 'the host has no address in 10.0.0.0/24', id='one host'),
        pytest.param([1, 3, 4], 'none of 3 hosts has an address in 10.0.0.0/24', id='hosts'),
    ],
)
def test_why(rows, why):
    asked = request(hints={'build_near_host_ip': '10.0.0.1'})
    assert SimpleCIDRAffinityFilter().why(hosts(**ROWS), asked, np.array(rows)) == why
