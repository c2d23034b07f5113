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
"""What every filter keeps, whatever its rule."""

import functools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.filters import Filter
from nova_sched.tests import options
from nova_sched.tests.builders import aggregate, hosts, nova_like, request, spec, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.reference import golden
from nova_sched.tests.rows import each
from nova_sched.tests.rules import FILTERS
from nova_sched.tests.unit.strategies import clusters, words

every_filter = each('rule', [one() for one in FILTERS.values()], ids=lambda rule: rule.name)
# Whether any aggregate has the zone is more than one host can tell.
MORE_THAN_ONE_HOST = {'RequestedZone'}
# A Nova host state has neither the reserved amount nor the claimed amount of disk.
PLAIN = {'ResourceCapacity'}
BUSY = {
    'vcpus': 2,
    'memory_mb': 4096,
    'root_gb': 10,
    'availability_zone': 'here',
    'instance_uuid': uuid_of('me'),
    'extra_specs': {
        'capabilities:cpu_info:vendor': 'Intel',
        'capabilities:hypervisor_version': '>= 1',
        'vcpus_total': '>= 1',
        'trait:HW_A': 'required',
        'trait:HW_B': 'forbidden',
        'resources:CUSTOM_GOLD': '1',
    },
    'image_properties': {
        'img_hv_type': 'kvm',
        'img_hv_requested_version': '>=1',
        'hw_maxphysaddr_bits': 40,
    },
    'hints': {'same_host': [uuid_of('other')], 'different_host': [uuid_of('other')]},
    'group': {'policy': 'anti-affinity', 'members': [uuid_of('other')], 'hosts': ['host-0']},
}
REQUESTS = {
    'plain': {},
    'busy': BUSY,
    'affinity': {'group': {'policy': 'affinity', 'hosts': ['host-0']}},
    'unsupported': {'extra_specs': {'accel:device_profile': 'x'}},
}


shared_hosts = functools.cache(hosts)  # rules only read them


@every_filter
@each('asked', REQUESTS)
@each('n', [0, 1, 1000])
def test_a_mask_has_a_bool_for_each_row(rule, asked, n):
    mask = rule.mask(shared_hosts(n), request(**REQUESTS[asked]))
    assert mask is True or (
        isinstance(mask, np.ndarray) and mask.dtype == bool and mask.shape == (n,)
    )


@every_filter
@each('asked', REQUESTS)
def test_the_same_question_has_the_same_answer(rule, asked):
    seen = hosts(3, supported_instances=(('x86_64', 'kvm', 'hvm'),))
    wanted = request(**REQUESTS[asked])
    first = np.array(rule.mask(seen, wanted))
    assert np.array_equal(first, rule.mask(seen, wanted))
    assert len(seen) == 3
    assert wanted == request(**REQUESTS[asked])


@every_filter
@each('asked', REQUESTS)
@each('rows', [[], [1], [0, 2]])
def test_the_survivors_are_judged_like_all(rule, asked, rows):
    seen, wanted = hosts(3, vcpus=[0, 2, 16]), request(**REQUESTS[asked])
    mask = np.broadcast_to(rule.mask(seen, wanted), 3)
    verdict = rule.judge(seen, wanted, np.array(rows, dtype=np.intp))
    assert np.array_equal(np.broadcast_to(verdict, len(rows)), mask[rows])


@every_filter
def test_a_rule_says_what_it_is(rule):
    assert isinstance(rule, Filter)
    assert type(rule).__doc__.strip().endswith('.')
    assert rule.name == type(rule).__name__


FLAGS = {
    **{
        name: (flags['run_filter_once_per_request'], flags['RUN_ON_REBUILD'])
        for name, flags in golden('filter-matrix')['metadata'].items()
    },
    # Rules that Nova 34 does not have any more, or leaves to Placement.
    'AggregateCoreFilter': (False, False),
    'AggregateDiskFilter': (False, False),
    'AggregateRamFilter': (False, False),
    'AvailabilityZoneFilter': (True, False),
    'CoreFilter': (False, False),
    'DiskFilter': (False, False),
    'RamFilter': (False, False),
    'RetryFilter': (False, False),
    'ChildProviders': (False, False),
    'DisabledCompute': (True, False),
    'ExclusiveDomain': (False, False),
    'ImageMetadata': (True, False),
    'ImageTypeSupport': (True, False),
    'IsolatedAggregates': (True, False),
    'RequestedAggregates': (True, False),
    'RequestedZone': (True, False),
    'RequiredTraits': (True, False),
    'ResourceCapacity': (False, False),
    'TenantAggregates': (True, False),
    'Understood': (True, False),
}


@every_filter
def test_when_a_rule_is_asked(rule):
    once, on_rebuild = FLAGS[rule.name]
    assert (rule.run_filter_once_per_request, rule.RUN_ON_REBUILD) == (once, on_rebuild)
    assert [rule.run_filter_for_index(index) for index in (0, 1, 9)] == [True, not once, not once]


@settings(max_examples=cases(50))
@given(plain=st.booleans(), data=st.data())
def test_both_faces_agree(plain, data):
    seen, asked = data.draw(clusters(plain)), data.draw(words)
    states = [seen.state(row) for row in range(len(seen))]
    likes = [nova_like(state) for state in states]
    for name, make in FILTERS.items():
        if (name in PLAIN and not plain) or (
            name in MORE_THAN_ONE_HOST and 'availability_zone' in asked
        ):
            continue
        rule = make()
        mask = np.broadcast_to(rule.mask(seen, request(**asked)), len(seen)).tolist()
        for faces in (states, likes):
            assert (name, [rule.host_passes(one, spec(**asked)) for one in faces]) == (name, mask)
            kept = [one for one, passes in zip(faces, mask, strict=True) if passes]
            assert (name, list(rule.filter_all(faces, spec(**asked)))) == (name, kept)


@every_filter
def test_a_rebuild_asks_only_the_rules_made_for_it(rule):
    # Disabled hosts that have nothing, are kept for other images, and are asked for much.
    words = {**BUSY, 'hints': {**BUSY['hints'], '_nova_check_type': ['rebuild']}}
    names = ['host-0', 'host-1']
    groups = [aggregate(1, names, img_hv_type='xen')]
    seen = hosts(2, groups, vcpus=0, memory_mb=0, disk_gb=0, disabled=True, forced_down=True)
    states = [seen.state(row) for row in range(2)]
    with options.settings({'filter_scheduler.isolated_hosts': names}):
        kept = list(rule.filter_all(states, spec(**words)))
    assert kept == ([] if rule.RUN_ON_REBUILD else states)
