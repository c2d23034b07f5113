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
"""A table for each weigher, and the scale."""

import numpy as np
import pytest

from nova_sched.objects.claiming import CONFIRMED
from nova_sched.tests.builders import claim, cluster, hosts, request, uuid_of
from nova_sched.weighers import normalize
from nova_sched.weighers.cpu import CPUWeigher
from nova_sched.weighers.disk import DiskWeigher
from nova_sched.weighers.io_ops import IoOpsWeigher
from nova_sched.weighers.ram import RAMWeigher
from nova_sched.weighers.server_group_soft_affinity import ServerGroupSoftAffinityWeigher
from nova_sched.weighers.server_group_soft_anti_affinity import ServerGroupSoftAntiAffinityWeigher

A, B = map(uuid_of, ['a', 'b'])


def raw(rule, seen, asked=None):
    return rule().raw(seen, np.arange(len(seen)), asked or request()).tolist()


@pytest.mark.parametrize(
    'rule, columns, weights',
    [
        pytest.param(
            RAMWeigher,
            {'memory_mb': 100, 'memory_mb_used': [0, 101], 'memory_mb_ratio': 16.0},
            [100, -1],
            id='free memory, no ratio',
        ),
        pytest.param(
            RAMWeigher,
            {'memory_mb': 100, 'memory_mb_reserved': [10, 0], 'memory_mb_used': 20},
            [80, 80],
            id='the reserve is among the used',
        ),
        pytest.param(
            CPUWeigher,
            {'vcpus': 4, 'vcpus_used': [0, 17], 'vcpus_ratio': 4.0},
            [16, -1],
            id='vCPUs by the ratio',
        ),
        pytest.param(
            CPUWeigher, {'vcpus': [3, None], 'vcpus_ratio': 1.5}, [4.5, 0], id='half a vCPU, and none'
        ),
        pytest.param(
            DiskWeigher,
            {'disk_gb': 10, 'disk_gb_used': 1, 'disk_slack_gb': [0, 4]},
            [9 * 1024, 5 * 1024],
            id='what is really free of the disk',
        ),
        pytest.param(IoOpsWeigher, {'io_workload': [3, 0]}, [3, 0], id='work under way'),
    ],
)
def test_raw(rule, columns, weights):
    assert raw(rule, hosts(2, **columns)) == weights


@pytest.mark.parametrize(
    'policy, affinity, anti_affinity',
    [
        pytest.param('soft-affinity', [1, 2, 0], None, id='soft affinity'),
        pytest.param('soft-anti-affinity', None, [-1, -2, 0], id='soft anti-affinity'),
        pytest.param('affinity', None, None, id='hard policy'),
    ],
)
def test_members_of_the_group(policy, affinity, anti_affinity):
    seen = hosts(instances=[{A}, {A, B}, {uuid_of('stranger')}])
    asked = request(group={'policy': policy, 'members': [A, B]})
    for rule, weights in (
        (ServerGroupSoftAffinityWeigher, affinity),
        (ServerGroupSoftAntiAffinityWeigher, anti_affinity),
    ):
        found = rule().raw(seen, np.arange(3), asked)
        assert (None if found is None else found.tolist()) == weights
        assert rule().raw(seen, np.arange(3), request()) is None


def test_a_claim_weighs_at_once():
    made = cluster(2, vcpus=4, memory_mb=1000, io_workload=1)
    node = made.hosts.nodes[0]
    made.add(claim(A, node.uuid, vcpus=3, memory_mb=600))
    made.add(claim(B, made.hosts.nodes[1].uuid, vcpus=1, memory_mb=100, state=CONFIRMED))
    assert raw(CPUWeigher, made.hosts) == [1, 3]
    assert raw(RAMWeigher, made.hosts) == [400, 900]
    assert raw(IoOpsWeigher, made.hosts) == [2, 1]
    asked = request(group={'policy': 'soft-affinity', 'members': [A, B]})
    assert raw(ServerGroupSoftAffinityWeigher, made.hosts, asked) == [1, 1]


@pytest.mark.parametrize(
    'weights, bounds, scaled',
    [
        pytest.param([], {}, [], id='none'),
        pytest.param([-5, 10], {'minval': 0}, [0, 1], id='below minval'),
        pytest.param([-5, -1], {'minval': 0}, [0, 0], id='all below minval'),
        pytest.param([7], {'minval': 0}, [1], id='one host above minval'),
        pytest.param([1, 3], {'maxval': 5}, [0, 0.5], id='maxval'),
        pytest.param([1, 9], {'maxval': 5}, [0, 2], id='above maxval'),
    ],
)
def test_normalize(weights, bounds, scaled):
    assert normalize(np.array(weights, dtype=float), **bounds).tolist() == scaled


def test_normalize_keeps_the_raw_weights():
    weights = np.array([-1, 2])
    normalize(weights, minval=0)
    assert weights.tolist() == [-1, 2]
