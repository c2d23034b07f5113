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
"""Child providers of the nodes: what is in use of them, by reports and by claims."""

import dataclasses
import json

from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.hardware.providers import Allotted
from nova_sched.tests.builders import claim, cluster, put, report, uuid_of
from nova_sched.tests.rows import table

GPU = 'CUSTOM_GPU_MILLI'
NODE = uuid_of('node host-0')


def tree(used=0, total=1000, traits=()):
    """The provider tree of a node with one GPU, as text."""
    device = {
        'parent_provider_uuid': NODE,
        'inventories': {GPU: {'total': total}},
        'used': {GPU: used},
        'traits': list(traits),
    }
    return json.dumps({NODE: {}, 'gpu': device})


def holding(units, counted=False, consumer='a'):
    """A claim that holds units of the GPU; ``counted``: the report has them among what is in
    use."""
    parts = HardwareAllocation(providers=(Allotted('1', 'gpu', {GPU: units}),))
    return dataclasses.replace(claim(uuid_of(consumer), NODE), parts=parts, counted=counted)


def in_use(made):
    return made.hosts.nodes[0].providers.stock('gpu', GPU).used


@table(
    'reported, claims, used',
    {
        'nothing': (0, [], 0),
        'use that no claim explains': (300, [], 300),
        'a claim': (0, [holding(500)], 500),
        'a claim beside other use': (300, [holding(500)], 800),
        'a claim that the report counts': (500, [holding(500, counted=True)], 500),
        'and more': (800, [holding(500, counted=True)], 800),
        'a claim that it should count, and does not': (0, [holding(500, counted=True)], 500),
        'one that it counts, one not': (
            500,
            [holding(500, counted=True), holding(200, consumer='b')],
            700,
        ),
        'more than there is': (0, [holding(700), holding(700, consumer='b')], 1400),
    },
)
def test_use(reported, claims, used):
    made = cluster(1)
    made.put(report(providers=tree(reported)), claims)
    assert in_use(made) == used


@table(
    'listed, state, used',
    {
        'listed': ('a', CONFIRMED, 500),
        'listed, and not confirmed yet': ('a', PENDING, 1000),
        'another one is listed': ('b', CONFIRMED, 1000),
        'no list': (None, CONFIRMED, 1000),
    },
)
def test_use_of_a_claim_whose_other_hardware_is_not_counted(listed, state, used):
    """Placement has it since the allocation was written."""
    made, one = cluster(1), dataclasses.replace(holding(500), state=state)
    instances = None if listed is None else frozenset([uuid_of(listed)])
    made.put(report(providers=tree(500), instances=instances), [one])
    assert in_use(made) == used
    made.drop(one)
    made.add(one)
    assert in_use(made) == used


def test_claims_come_and_go():
    made = cluster(1, providers=tree(100))
    one, other = holding(500), holding(200, consumer='b')
    made.add(one)
    made.add(other)
    assert in_use(made) == 800
    made.drop(one)
    assert in_use(made) == 300
    made.drop(other)
    assert in_use(made) == 100


def test_another_report_keeps_the_claims():
    made = cluster(1, providers=tree())
    made.add(holding(500))
    made.put(report(providers=tree(total=2000)), [holding(500)])
    assert in_use(made) == 500
    made.put(report(), [holding(500)])
    assert made.hosts.nodes[0].providers is None
    made.put(report(providers=tree()), [holding(500)])
    assert in_use(made) == 500


def test_what_devices_have_is_known_by_row():
    made = cluster(1, providers=tree(traits=['NEW']))
    put(made, report('other'))
    assert made.hosts.has_below(GPU).tolist() == [True, False]
    assert made.hosts.has_below('OTHER').tolist() == [False, False]
    assert made.hosts.has_trait_below('NEW').tolist() == [True, False]
    assert made.hosts.has_trait('NEW').tolist() == [False, False]
    made.remove(NODE)
    assert made.hosts.has_below(GPU).tolist() == [False]
    put(made, report(providers=tree()))
    assert made.hosts.has_below(GPU).tolist() == [False, True]
    assert made.hosts.has_trait_below('NEW').tolist() == [False, False]


def test_classes_of_their_own():
    seen = cluster(2, vcpus=[None, 4], disk_gb=[0, 1]).hosts
    assert seen.has_class('VCPU').tolist() == [False, True]
    assert seen.has_class('DISK_GB').tolist() == [False, True]
    assert seen.has_class(GPU).tolist() == [False, False]
    assert cluster(1, vcpus=None).hosts.nodes[0].own_classes == {'MEMORY_MB', 'DISK_GB'}
