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
"""A table for each of the rules that read a column or two."""

import numpy as np
import pytest

from nova_sched.conf import CONF
from nova_sched.filters.all_hosts import AllHostsFilter
from nova_sched.filters.availability_zone import AvailabilityZoneFilter
from nova_sched.filters.compute import ComputeFilter
from nova_sched.filters.core import CoreFilter
from nova_sched.filters.different_host import DifferentHostFilter
from nova_sched.filters.disk import DiskFilter
from nova_sched.filters.ram import RamFilter
from nova_sched.filters.same_host import SameHostFilter
from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from nova_sched.tests.builders import NOW, aggregate, claim, cluster, hosts, request, uuid_of


def kept(rule, seen, asked):
    """The mask as text, `*` for no opinion."""
    mask = rule().mask(seen, asked)
    return '*' if mask is True else ''.join(map(str, mask.astype(int)))


def test_all_hosts():
    assert kept(AllHostsFilter, hosts(3), request()) == '*'


@pytest.mark.parametrize(
    'columns, asked, mask',
    [
        pytest.param({'memory_mb': [512, 511]}, 512, '10', id='exact fit'),
        pytest.param({'memory_mb': 1024, 'memory_mb_used': [512, 513]}, 512, '10', id='used'),
        pytest.param({'memory_mb': 1024, 'memory_mb_used': [1024, 1500], 'memory_mb_ratio': 2.0}, 1024, '10', id='ratio'),
        pytest.param({'memory_mb': [1000, 1024], 'memory_mb_ratio': 16.0}, 1024, '01', id='no more than there is'),
        pytest.param({'memory_mb': 1024, 'memory_mb_reserved': [512, 513], 'memory_mb_used': 513}, 512, '00', id='reserve'),
        pytest.param({'memory_mb': 100, 'memory_mb_used': [100, 101]}, 0, '10', id='nothing asked'),
    ],
)  # fmt: skip
def test_ram(columns, asked, mask):
    assert kept(RamFilter, hosts(2, **columns), request(memory_mb=asked)) == mask


@pytest.mark.parametrize(
    'columns, asked, mask',
    [
        pytest.param({'vcpus': [4, 3]}, 4, '10', id='exact fit'),
        pytest.param({'vcpus': 4, 'vcpus_used': [15, 16], 'vcpus_ratio': 4.0}, 1, '10', id='ratio'),
        pytest.param({'vcpus': [4, 8], 'vcpus_ratio': 16.0}, 5, '01', id='no more than there are'),
        pytest.param({'vcpus': [0, None]}, 5, '11', id='a host without CPUs of its own passes'),
        pytest.param({'vcpus': 3, 'vcpus_used': [3, 4], 'vcpus_ratio': 1.5}, 1, '10', id='broken ratio'),
    ],
)
def test_core(columns, asked, mask):
    assert kept(CoreFilter, hosts(2, **columns), request(vcpus=asked)) == mask


@pytest.mark.parametrize(
    'columns, asked, mask',
    [
        pytest.param({'disk_gb': [10, 9]}, {'root_gb': 10}, '10', id='exact fit'),
        pytest.param({'disk_gb': [10, 9]}, {'root_gb': 5, 'ephemeral_gb': 4, 'swap_mb': 1024}, '10', id='all parts'),
        pytest.param({'disk_gb': [10, 9]}, {'root_gb': 9, 'swap_mb': 1}, '10', id='swap is not rounded'),
        pytest.param({'disk_gb': [10, 9]}, {'root_gb': 99, 'ephemeral_gb': 10, 'is_bfv': True}, '10', id='volume'),
        pytest.param({'disk_gb': 10, 'disk_slack_gb': [2, 3]}, {'root_gb': 8}, '10', id='less on the disk than in the books'),
        pytest.param({'disk_gb': 10, 'disk_gb_used': [10, 11], 'disk_gb_ratio': 2.0}, {'root_gb': 10}, '10', id='ratio'),
        pytest.param({'disk_gb': [10, 11], 'disk_gb_ratio': 2.0}, {'root_gb': 11}, '01', id='no more than there is'),
    ],
)  # fmt: skip
def test_disk(columns, asked, mask):
    assert kept(DiskFilter, hosts(2, **columns), request(**asked)) == mask


@pytest.mark.parametrize(
    'columns, mask',
    [
        pytest.param({'seen_s': [NOW, NOW - 60, NOW - 61]}, '110', id='seen long ago'),
        pytest.param({'seen_s': [NOW + 60, NOW + 61, 0.0]}, '100', id='a clock that runs ahead'),
        pytest.param({'disabled': [True, False, True]}, '010', id='disabled'),
        pytest.param({'forced_down': [True, False, True]}, '010', id='forced down'),
        pytest.param({'traits': [{'COMPUTE_STATUS_DISABLED'}, set(), {'X'}]}, '011', id='disabled by trait'),
    ],
)
def test_compute(columns, mask):
    assert kept(ComputeFilter, hosts(3, **columns), request()) == mask


ZONES = [
    aggregate(1, ['host-0', 'host-1'], availability_zone='a'),
    aggregate(2, ['host-1'], availability_zone='b , c'),
    aggregate(3, ['host-2'], ssd='true'),
    aggregate(4, ['host-3'], availability_zone=''),
]


@pytest.mark.parametrize(
    'zone, mask',
    [
        pytest.param(None, '*', id='no zone asked'),
        pytest.param('', '*', id='empty zone'),
        pytest.param('a', '11000', id='zone'),
        pytest.param('c', '01000', id='second of a list'),
        pytest.param('b , c', '00000', id='not the list itself'),
        pytest.param('nova', '00101', id='the default zone is for hosts that no aggregate gives one'),
        pytest.param('nowhere', '00000', id='unknown zone'),
    ],
)
def test_availability_zone(zone, mask):
    assert kept(AvailabilityZoneFilter, hosts(5, ZONES), request(availability_zone=zone)) == mask


def test_default_availability_zone_is_an_option():
    CONF.set_override('default_availability_zone', 'home')
    try:
        seen = hosts(5, ZONES)
        assert kept(AvailabilityZoneFilter, seen, request(availability_zone='home')) == '00101'
        assert kept(AvailabilityZoneFilter, seen, request(availability_zone='nova')) == '00000'
    finally:
        CONF.clear_override('default_availability_zone')


A, B, C, ME = map(uuid_of, ['a', 'b', 'c', 'me'])
PLACES = {'instances': [{A}, {A, B}, set()]}


@pytest.mark.parametrize(
    'hint, same, different',
    [
        pytest.param([], '*', '*', id='empty'),
        pytest.param([A], '110', '001', id='on two hosts'),
        pytest.param(A, '110', '001', id='no list'),
        pytest.param([B], '010', '101', id='on one host'),
        pytest.param([B, C], '010', '101', id='one of them is nowhere'),
        pytest.param([C], '000', '111', id='nowhere'),
    ],
)
def test_same_and_different_host(hint, same, different):
    assert kept(SameHostFilter, hosts(**PLACES), request(hints={'same_host': hint})) == same
    assert kept(DifferentHostFilter, hosts(**PLACES), request(hints={'different_host': hint})) == different
    for rule in (SameHostFilter, DifferentHostFilter):
        assert kept(rule, hosts(**PLACES), request(hints={'other': hint})) == '*'


@pytest.mark.parametrize(
    'group, mask',
    [
        pytest.param(None, '*', id='no group'),
        pytest.param({'policy': 'affinity', 'hosts': []}, '*', id='the first member'),
        pytest.param({'policy': 'affinity', 'hosts': ['host-1', 'gone']}, '010', id='with the others'),
        pytest.param({'policy': 'affinity', 'hosts': ['gone']}, '000', id='their host is gone'),
        pytest.param({'policy': 'soft-affinity', 'hosts': ['host-1']}, '*', id='soft policy'),
        pytest.param({'policy': 'anti-affinity', 'hosts': ['host-1']}, '*', id='other policy'),
    ],
)
def test_server_group_affinity(group, mask):
    assert kept(ServerGroupAffinityFilter, hosts(**PLACES), request(group=group)) == mask


@pytest.mark.parametrize(
    'group, mask',
    [
        pytest.param(None, '*', id='no group'),
        pytest.param({'members': []}, '111', id='no members'),
        pytest.param({'members': [B, C]}, '101', id='apart from the others'),
        pytest.param({'members': [A, B], 'rules': {'max_server_per_host': '2'}}, '101', id='two on a host'),
        pytest.param({'members': [A, B], 'rules': {'max_server_per_host': 3}}, '111', id='three on a host'),
        pytest.param({'members': [C], 'hosts': ['host-0']}, '111', id='the hosts of the group do not count'),
        pytest.param({'policy': 'soft-anti-affinity', 'members': [A]}, '*', id='soft policy'),
        pytest.param({'policy': 'affinity', 'members': [A]}, '*', id='other policy'),
    ],
)
def test_server_group_anti_affinity(group, mask):
    asked = request(instance_uuid=ME, group=group and {'policy': 'anti-affinity', **group})
    assert kept(ServerGroupAntiAffinityFilter, hosts(**PLACES), asked) == mask


def test_an_instance_may_stay_where_it_is():
    asked = request(instance_uuid=B, group={'policy': 'anti-affinity', 'members': [A, B]})
    assert kept(ServerGroupAntiAffinityFilter, hosts(**PLACES), asked) == '011'


def test_a_claim_counts_as_an_instance():
    made = cluster(2)
    made.add(claim(A, made.hosts.nodes[1].uuid))
    asked = request(group={'policy': 'anti-affinity', 'members': [A]})
    assert kept(ServerGroupAntiAffinityFilter, made.hosts, asked) == '10'
    assert np.array_equal(SameHostFilter().mask(made.hosts, request(hints={'same_host': [A]})), [False, True])
