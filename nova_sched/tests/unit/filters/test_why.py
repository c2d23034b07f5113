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
"""Why rules refuse, in words: the true cause, with its figures, and no host names."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.filters import Filter
from nova_sched.filters.availability_zone import AvailabilityZoneFilter
from nova_sched.filters.compute import ComputeFilter
from nova_sched.filters.compute_capabilities import ComputeCapabilitiesFilter
from nova_sched.filters.core import CoreFilter
from nova_sched.filters.different_host import DifferentHostFilter
from nova_sched.filters.disabled_compute import DisabledCompute
from nova_sched.filters.disk import DiskFilter
from nova_sched.filters.image_properties import ImagePropertiesFilter
from nova_sched.filters.ram import RamFilter
from nova_sched.filters.requested_zone import RequestedZone
from nova_sched.filters.required_traits import RequiredTraits
from nova_sched.filters.resource_capacity import ResourceCapacity
from nova_sched.filters.same_host import SameHostFilter
from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from nova_sched.filters.understood import Understood
from nova_sched.tests.builders import NOW, aggregate, hosts, request, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each
from nova_sched.tests.rules import FILTERS
from nova_sched.tests.unit.strategies import clusters, words

ME, OTHER = uuid_of('me'), uuid_of('other')
KVM, X86 = (('x86_64', 'kvm', 'hvm'),), {'hw_architecture': 'x86_64'}


def refused(rule, seen, asked):
    """Rows that the rule refuses."""
    return np.flatnonzero(~np.broadcast_to(rule.mask(seen, asked), len(seen)))


def members(*counts):
    """Instances of a group, so many on each host, as a column of ``hosts`` and as the group's
    members."""
    told = [
        [uuid_of(f'member {row} {place}') for place in range(count)]
        for row, count in enumerate(counts)
    ]
    return {'instances': list(map(frozenset, told))}, [one for some in told for one in some]


HELD, MEMBERS = members(2, 3, 0)
ZONES = [
    aggregate(1, ['host-0'], availability_zone='east'),
    aggregate(2, ['host-1'], availability_zone='north, east'),
]


@each(
    'rule, made, asked, why, alone',
    [
        pytest.param(
            Understood,
            {'n': 2},
            {'unsupported': ('accel:x', 'resourcesX')},
            'the request asks for what no rule knows: accel:x, resourcesX',
            None,
            id='words that no rule knows',
        ),
        pytest.param(
            DisabledCompute,
            {'disabled': [True, True]},
            {},
            'all are disabled',
            'it is disabled',
            id='disabled',
        ),
        pytest.param(
            ComputeFilter,
            {'disabled': [True, True, False, False, False],
             'forced_down': [False, True, True, False, False],
             'seen_s': [NOW, NOW, NOW, NOW - 75, NOW - 90]},
            {},
            '2 are disabled, 1 is forced down, 2 are silent for more than 60 s, '
            'the latest heartbeat is 75 s old',
            'it is disabled',
            id='each way to be down',
        ),
        pytest.param(
            ComputeFilter,
            {'seen_s': [0.0]},
            {},
            'it is silent for more than 60 s',
            None,
            id='never seen',
        ),
        pytest.param(
            ComputeFilter,
            {'seen_s': [NOW + 100]},
            {},
            'it is ahead of our clock by 100 s or more',
            None,
            id='a clock that runs ahead',
        ),
        pytest.param(
            AvailabilityZoneFilter,
            {'n': 3, 'aggregates': ZONES},
            {'availability_zone': 'west'},
            'zone west is asked for, where no host is, these hosts are in east, north, nova; '
            'did you mean east?',
            'zone west is asked for, where no host is, the host is in east; did you mean east?',
            id='a zone that is nowhere',
        ),
        pytest.param(
            RequestedZone,
            {'n': 3, 'aggregates': ZONES},
            {'availability_zone': 'north'},
            'zone north is asked for, these hosts are in east, nova',
            'zone north is asked for, the host is in east',
            id='another zone',
        ),
        pytest.param(
            RequiredTraits,
            {'traits': [frozenset(), frozenset(['HW_B']), frozenset(['HW_A'])]},
            {'required_traits': frozenset(['HW_A'])},
            'HW_A is required, 1 of all 3 hosts have it',
            'HW_A is required, the host lacks it',
            id='a trait that others have',
        ),
        pytest.param(
            RequiredTraits,
            {'traits': [frozenset(), frozenset(['HW_B'])]},
            {'required_traits': frozenset(['HW_A']), 'forbidden_traits': frozenset(['HW_B'])},
            'HW_A is required, no host has it; HW_B is forbidden (1 host)',
            'HW_A is required, the host lacks it',
            id='a trait that nobody has, and a forbidden one',
        ),
        pytest.param(
            RequiredTraits,
            {'traits': [frozenset(['CUSTOM_COOLED', 'HW_CPU_X86_AVX2'])] * 2},
            {'required_traits': frozenset(['CUSTOM_COOLD', 'CUSTOM_CO', 'HW_CPU_X86_AVX'])},
            'CUSTOM_CO is required, no host has it; '
            'CUSTOM_COOLD is required, no host has it; did you mean CUSTOM_COOLED?; '
            'HW_CPU_X86_AVX is required, no host has it; did you mean HW_CPU_X86_AVX2?',
            'CUSTOM_CO is required, the host lacks it; '
            'CUSTOM_COOLD is required, the host lacks it; did you mean CUSTOM_COOLED?; '
            'HW_CPU_X86_AVX is required, the host lacks it; did you mean HW_CPU_X86_AVX2?',
            id='misspelled traits',
        ),
        pytest.param(
            ResourceCapacity,
            {'memory_mb': 16384, 'memory_mb_used': [12288, 4096, 16384]},
            {'memory_mb': 16384},
            '16384 MiB of memory asked, the best host has 12288 free',
            '16384 MiB of memory asked, the host has 4096 free',
            id='memory',
        ),
        pytest.param(
            ResourceCapacity,
            {'vcpus': [4, 8], 'vcpus_ratio': 16.0},
            {'vcpus': 9},
            '9 vCPUs asked, the largest host has 8 in all',
            '9 vCPUs asked, the host has 4 in all',
            id='more than any host has in all',
        ),
        pytest.param(
            ResourceCapacity,
            {'disk_gb': [5, 100, 100], 'memory_mb': [9999, 100, 200]},
            {'root_gb': 10, 'memory_mb': 1024},
            '1024 MiB of memory asked, the largest of 2 hosts has 200 in all; '
            '10 GiB of disk asked, 1 host has 5 in all',
            '10 GiB of disk asked, the host has 5 in all',
            id='each lacks something else',
        ),
        pytest.param(
            ResourceCapacity,
            {'n': 2},
            {'resources': {'CUSTOM_GOLD': 1}},
            '1 CUSTOM_GOLD asked, these hosts have none',
            '1 CUSTOM_GOLD asked, the host has none',
            id='a class that nobody has',
        ),
        pytest.param(
            RamFilter,
            {'memory_mb': 1000, 'memory_mb_used': [600, 700]},
            {'memory_mb': 500},
            '500 MiB of memory asked, the best host has 400 free',
            '500 MiB of memory asked, the host has 400 free',
            id='RamFilter',
        ),
        pytest.param(
            CoreFilter,
            {'vcpus': 2, 'vcpus_used': [2, 3]},
            {'vcpus': 1},
            '1 vCPU asked, the best host has 0 free',
            '1 vCPU asked, the host has 0 free',
            id='CoreFilter',
        ),
        pytest.param(
            DiskFilter,
            {'disk_gb': 20, 'disk_gb_used': [10, 15]},
            {'root_gb': 10, 'swap_mb': 512},
            '10.5 GiB of disk asked, the best host has 10 free',
            '10.5 GiB of disk asked, the host has 10 free',
            id='DiskFilter',
        ),
        pytest.param(
            ImagePropertiesFilter,
            {'supported_instances': [KVM, None]},
            {'image_properties': {'hw_architecture': 'aarch64', 'img_hv_type': 'kvm'}},
            'the image is for aarch64 kvm, these hosts run x86_64 kvm hvm',
            'the image is for aarch64 kvm, the host runs x86_64 kvm hvm',
            id='an image for other hosts',
        ),
        pytest.param(
            ImagePropertiesFilter,
            {'n': 2},
            {'image_properties': X86},
            'the image is for x86_64, these hosts report no supported guest types',
            'the image is for x86_64, the host reports no supported guest types',
            id='hosts that tell nothing',
        ),
        pytest.param(
            ImagePropertiesFilter,
            {'supported_instances': KVM, 'hypervisor_version': [2001000, 3000000]},
            {'image_properties': {**X86, 'img_hv_requested_version': '>=4.0'}},
            'the image asks for a hypervisor of version >=4.0, the newest has 3.0.0',
            'the image asks for a hypervisor of version >=4.0, the host has 2.1.0',
            id='an old hypervisor',
        ),
        pytest.param(
            ImagePropertiesFilter,
            {'n': 2, 'supported_instances': KVM, 'cpu_info': '{"maxphysaddr": {"bits": 40}}'},
            {'image_properties': {**X86, 'hw_maxphysaddr_bits': 46}},
            'the image needs physical addresses of 46 bits, these hosts have fewer',
            'the image needs physical addresses of 46 bits, the host has fewer',
            id='short addresses',
        ),
        pytest.param(
            ComputeCapabilitiesFilter,
            {'cpu_info': ['{"vendor": "AMD"}', '{"vendor": "ARM"}', '{"vendor": "Intel"}']},
            {'extra_specs': {'capabilities:cpu_info:vendor': 'Intel'}},
            "extra spec capabilities:cpu_info:vendor asks for 'Intel', 1 of all 3 hosts are so",
            "extra spec capabilities:cpu_info:vendor asks for 'Intel', the host is not so",
            id='a capability',
        ),
        pytest.param(
            ComputeCapabilitiesFilter,
            {'cpu_info': ['{"vendor": "AMD"}', None]},
            {'extra_specs': {'capabilities:cpu_info:vendor': 'AMD',
                             'capabilities:vcpus_total': '>= 99'}},
            "extra spec capabilities:cpu_info:vendor asks for 'AMD', "
            "1 of all 2 hosts are so (1 host not); "
            "extra spec capabilities:vcpus_total asks for '>= 99', no host is so",
            "extra spec capabilities:vcpus_total asks for '>= 99', the host is not so",
            id='two capabilities',
        ),
        pytest.param(
            SameHostFilter,
            {'instances': [frozenset([OTHER]), frozenset(), frozenset()]},
            {'hints': {'same_host': [OTHER]}},
            'the hint same_host names 1 instance, on 1 other host',
            None,
            id='same host',
        ),
        pytest.param(
            SameHostFilter,
            {'n': 2},
            {'hints': {'same_host': [OTHER, ME]}},
            'the hint same_host names 2 instances, on no known host',
            None,
            id='same host as nobody knows',
        ),
        pytest.param(
            DifferentHostFilter,
            {'instances': [frozenset([OTHER]), frozenset([ME])]},
            {'hints': {'different_host': [OTHER, ME]}},
            'each of these hosts has an instance that the hint different_host names',
            'the host has an instance that the hint different_host names',
            id='different host',
        ),
        pytest.param(
            ServerGroupAffinityFilter,
            {'n': 3},
            {'group': {'policy': 'affinity', 'hosts': ['host-0']}},
            'the policy of the server group is affinity, and its members are on 1 other host',
            None,
            id='affinity',
        ),
        pytest.param(
            ServerGroupAntiAffinityFilter,
            {**HELD},
            {'group': {'policy': 'anti-affinity', 'members': MEMBERS,
                       'rules': {'max_server_per_host': 2}}},
            'the server group allows 2 members on a host (anti-affinity), '
            'and each of these hosts has 2 or more',
            'the server group allows 2 members on a host (anti-affinity), and the host has 2',
            id='anti-affinity',
        ),
    ],
)  # fmt: skip
def test_why(rule, made, asked, why, alone):
    seen, wanted, rule = hosts(**made), request(**asked), rule()
    rows = refused(rule, seen, wanted)
    assert rule.why(seen, wanted, rows) == why
    assert rule.why(seen, wanted, rows[:1]) == (alone or why)


@each(
    'rule, made, asked, nearest',
    [
        pytest.param(
            ResourceCapacity,
            {'memory_mb': [900, 990, 950]},
            {'memory_mb': 1000},
            1,
            id='one dimension',
        ),
        pytest.param(
            ResourceCapacity,
            {
                'memory_mb': 2000,
                'memory_mb_used': [1100, 1900, 1500],
                'vcpus': [4, 4, 1],
                'vcpus_used': 0,
            },
            {'memory_mb': 1000, 'vcpus': 2},
            0,
            id='the dimension that lacks most',
        ),
        pytest.param(
            ResourceCapacity,
            {'memory_mb': [999, 2000], 'memory_mb_used': [0, 1900]},
            {'memory_mb': 1000},
            1,
            id='one that is full now before one that is too small',
        ),
        pytest.param(
            RamFilter, {'memory_mb': [10, 30, 20]}, {'memory_mb': 100}, 1, id='RamFilter'
        ),
        pytest.param(CoreFilter, {'vcpus': [1, 3, 2]}, {'vcpus': 100}, 1, id='CoreFilter'),
        pytest.param(DiskFilter, {'disk_gb': [1, 3, 2]}, {'root_gb': 100}, 1, id='DiskFilter'),
        pytest.param(
            DisabledCompute,
            {'disabled': [True, True]},
            {},
            None,
            id='not a matter of more or less',
        ),
    ],
)
def test_nearest(rule, made, asked, nearest):
    seen, wanted = hosts(**made), request(**asked)
    assert rule().nearest(seen, wanted, refused(rule(), seen, wanted)) == nearest


@settings(max_examples=cases(50))
@given(plain=st.booleans(), data=st.data())
def test_every_rule_has_a_reason_that_users_may_read(plain, data):
    seen, asked = data.draw(clusters(plain)), request(**data.draw(words))
    for make in FILTERS.values():
        rule = make()
        rows = refused(rule, seen, asked)
        for some in (rows, *np.split(rows, len(rows))) if len(rows) else ():
            why = rule.why(seen, asked, some)
            assert (rule.name, bool(why), why.endswith('.')) == (rule.name, True, False)
            assert (rule.name, re.findall(r'host-\d', why)) == (rule.name, [])
            assert rule.nearest(seen, asked, some) in (None, *some.tolist())


def test_a_rule_need_not_say_anything():
    assert Filter().why(hosts(1), request(), np.array([0])) == ''
