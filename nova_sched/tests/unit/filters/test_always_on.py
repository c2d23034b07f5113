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
"""What Nova leaves to Placement: the rules that no configuration switches off."""

import dataclasses

import pytest

from nova_sched.filters.disabled_compute import DisabledCompute
from nova_sched.filters.requested_zone import RequestedZone
from nova_sched.filters.required_traits import RequiredTraits
from nova_sched.filters.resource_capacity import ResourceCapacity
from nova_sched.filters.understood import Understood
from nova_sched.objects.claiming import VCPU
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import (
    NOW,
    aggregate,
    claim,
    cluster,
    host,
    hosts,
    put,
    report,
    request,
    spec,
    uuid_of,
)


def kept(rule, seen, asked):
    """The mask as text, `*` for no opinion."""
    mask = rule().mask(seen, asked)
    return '*' if mask is True else ''.join(map(str, mask.astype(int)))


@pytest.mark.parametrize(
    'columns, resources, mask',
    [
        pytest.param({'vcpus': [4, 3]}, {'VCPU': 4}, '10', id='exact fit'),
        pytest.param({'vcpus': 4, 'vcpus_used': [15, 16], 'vcpus_ratio': 4.0}, {'VCPU': 1}, '10', id='ratio'),
        pytest.param({'vcpus': [4, 5], 'vcpus_ratio': 16.0}, {'VCPU': 5}, '01', id='no more than there are'),
        pytest.param(
            {'memory_mb': 1000, 'memory_mb_reserved': [400, 401], 'memory_mb_used': 600, 'memory_mb_ratio': 2.0},
            {'MEMORY_MB': 1000},
            '10',
            id='the reserve is taken off before the ratio',
        ),
        pytest.param({'vcpus': 3, 'vcpus_ratio': [1.5, 1.4]}, {'VCPU': 3}, '11', id='capacity is whole'),
        pytest.param({'vcpus': 3, 'vcpus_used': [1, 2], 'vcpus_ratio': 1.5}, {'VCPU': 3}, '10', id='4.5 is 4'),
        pytest.param({'vcpus': 8, 'memory_mb': [512, 511]}, {'VCPU': 8, 'MEMORY_MB': 512}, '10', id='every class'),
        pytest.param({'vcpus': [None, 1]}, {'VCPU': 1}, '01', id='a node that has none of it'),
        pytest.param({}, {'CUSTOM_GOLD': 1}, '00', id='a class that nobody has'),
        pytest.param({'disk_gb': 10, 'disk_slack_gb': 9}, {'DISK_GB': 10}, '11', id='the books count'),
        pytest.param({'vcpus': 4, 'vcpus_used': [4, 99]}, {'VCPU': 1}, '00', id='surprises take nothing more'),
        pytest.param({}, {'MEMORY_MB': 10**30}, '00', id='more than any number'),
        pytest.param({}, {}, '*', id='nothing asked'),
    ],
)  # fmt: skip
def test_capacity(columns, resources, mask):
    assert kept(ResourceCapacity, hosts(2, **columns), request(resources=resources)) == mask


@pytest.mark.parametrize(
    'inventory, amount, fits',
    [
        pytest.param(Inventory(8, max_unit=4), 4, True, id='max_unit'),
        pytest.param(Inventory(8, max_unit=4), 5, False, id='above max_unit'),
        pytest.param(Inventory(8, max_unit=99), 9, False, id='max_unit above the total'),
        pytest.param(Inventory(8, min_unit=2), 1, False, id='below min_unit'),
        pytest.param(Inventory(8, step_size=3), 6, True, id='step'),
        pytest.param(Inventory(8, step_size=3), 4, False, id='between steps'),
    ],
)
def test_units(inventory, amount, fits):
    made = cluster(1)
    put(made, report('other', inventories={'CUSTOM_GOLD': inventory}, used={}))
    mask = ResourceCapacity().mask(made.hosts, request(resources={'CUSTOM_GOLD': amount}))
    assert mask.tolist() == [False, fits]


def test_claims_take_capacity_until_they_are_dropped():
    made = cluster(1, vcpus=4)
    taken = claim(uuid_of('a'), made.hosts.nodes[0].uuid, vcpus=3)
    made.add(taken)
    assert kept(ResourceCapacity, made.hosts, request(vcpus=2)) == '0'
    made.drop(taken)
    assert kept(ResourceCapacity, made.hosts, request(vcpus=4)) == '1'


def test_a_node_that_left_is_never_asked_for_again():
    made = cluster(3, vcpus=[1, 8, 2])
    made.remove(made.hosts.nodes[1].uuid)
    assert kept(ResourceCapacity, made.hosts, request(vcpus=2)) == '01'
    put(made, report('new', vcpus=None))
    assert kept(ResourceCapacity, made.hosts, request(vcpus=2)) == '010'


@pytest.mark.parametrize(
    'words, mask',
    [
        pytest.param({}, '*', id='none asked'),
        pytest.param({'extra_specs': {'trait:A': 'required'}}, '110', id='required'),
        pytest.param(
            {'extra_specs': {'trait:A': 'required', 'trait:B': 'required'}}, '010', id='two required'
        ),
        pytest.param({'extra_specs': {'trait:B': 'forbidden'}}, '101', id='forbidden'),
        pytest.param({'extra_specs': {'trait:A': 'required', 'trait:B': 'forbidden'}}, '100', id='both'),
        pytest.param({'extra_specs': {'trait:C': 'required'}}, '000', id='nobody has it'),
        pytest.param({'extra_specs': {'trait:C': 'forbidden'}}, '111', id='nobody has what is forbidden'),
        pytest.param({'image_properties': {'traits_required': ['B']}}, '010', id='of the image'),
    ],
)
def test_traits(words, mask):
    assert kept(RequiredTraits, hosts(traits=[{'A'}, {'A', 'B'}, set()]), request(**words)) == mask


@pytest.mark.parametrize('last', [1, 63, 64, 65, 200])
def test_many_traits(last):
    seen = hosts(traits=[{f'T{number}' for number in range(last)}, {f'T{last}'}, set()])
    assert kept(RequiredTraits, seen, request(extra_specs={f'trait:T{last}': 'required'})) == '010'
    assert kept(RequiredTraits, seen, request(extra_specs={'trait:T0': 'required'})) == '100'
    assert kept(RequiredTraits, seen, request(extra_specs={f'trait:T{last}': 'forbidden'})) == '101'


ZONES = [aggregate(1, ['host-0'], availability_zone='a'), aggregate(2, ['host-1', 'gone'], ssd='x')]


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
    assert kept(RequestedZone, hosts(3, ZONES), request(availability_zone=zone)) == mask


def test_a_zone_without_a_node_holds_nobody():
    seen = hosts(2, [aggregate(1, ['gone'], availability_zone='empty')])
    assert kept(RequestedZone, seen, request(availability_zone='empty')) == '00'


def test_one_host_restricts_itself_to_its_own_zones():
    state = host(aggregates=[aggregate(1, ['host-0'], availability_zone='a')])
    assert RequestedZone().host_passes(state, spec(availability_zone='a'))


@pytest.mark.parametrize(
    'columns, mask',
    [
        pytest.param({'disabled': [True, False]}, '01', id='disabled'),
        pytest.param({'traits': [{'COMPUTE_STATUS_DISABLED'}, set()]}, '01', id='disabled by trait'),
        pytest.param({'forced_down': True, 'seen_s': NOW - 9999}, '11', id='down is not disabled'),
    ],
)
def test_disabled(columns, mask):
    assert kept(DisabledCompute, hosts(2, **columns), request()) == mask


@pytest.mark.parametrize(
    'words, understood',
    [
        pytest.param({}, True, id='plain'),
        pytest.param(
            {'extra_specs': {'resources:CUSTOM_GOLD': '1', 'trait:A': 'required'}}, True, id='known'
        ),
        pytest.param({'extra_specs': {'hw:cpu_policy': 'shared', 'ssd': 'true'}}, True, id='free keys'),
        pytest.param({'extra_specs': {'accel:device_profile': 'gpu'}}, False, id='accelerator'),
        pytest.param({'extra_specs': {'resources1:VGPU': '1'}}, False, id='numbered group'),
        pytest.param({'extra_specs': {'trait_GPU:A': 'required'}}, False, id='trait of a group'),
    ],
)
def test_understood(words, understood):
    assert kept(Understood, hosts(2), request(**words)) == ('*' if understood else '00')
    assert Understood().host_passes(host(), spec(**words)) is understood


def test_a_request_is_plain_values():
    asked = request(resources={VCPU: 1})
    assert dataclasses.replace(asked, resources={VCPU: 2}) != asked
