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

import json

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.hardware import pci
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import aggregate, claim, cluster, hosts, request, spec, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each
from nova_sched.weighers import normalize
from nova_sched.weighers.build_failure import BuildFailureWeigher
from nova_sched.weighers.cpu import CPUWeigher
from nova_sched.weighers.cross_cell import CrossCellWeigher
from nova_sched.weighers.disk import DiskWeigher
from nova_sched.weighers.hypervisor_version import HypervisorVersionWeigher
from nova_sched.weighers.image_properties import ImagePropertiesWeigher
from nova_sched.weighers.io_ops import IoOpsWeigher
from nova_sched.weighers.metrics import MetricsWeigher
from nova_sched.weighers.num_instances import NumInstancesWeigher
from nova_sched.weighers.pci import PCIWeigher
from nova_sched.weighers.ram import RAMWeigher
from nova_sched.weighers.server_group_soft_affinity import ServerGroupSoftAffinityWeigher
from nova_sched.weighers.server_group_soft_anti_affinity import ServerGroupSoftAntiAffinityWeigher

A, B = map(uuid_of, ['a', 'b'])


def devices(*counts):
    """Pools of so many free devices each, as a node reports them."""
    return pci.pools_to_json(
        [pci.PciPool('8086', f'157{place}', count=n) for place, n in enumerate(counts)]
    )


def raw(rule, seen, asked=None):
    return rule().raw(seen, np.arange(len(seen)), asked or request()).tolist()


@each(
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
            CPUWeigher,
            {'vcpus': [3, None], 'vcpus_ratio': 1.5},
            [4.5, 0],
            id='half a vCPU, and none',
        ),
        pytest.param(
            DiskWeigher,
            {'disk_gb': 10, 'disk_gb_used': 1, 'disk_slack_gb': [0, 4]},
            [9 * 1024, 5 * 1024],
            id='what is really free of the disk',
        ),
        pytest.param(IoOpsWeigher, {'io_workload': [3, 0]}, [3, 0], id='work under way'),
        pytest.param(NumInstancesWeigher, {'instances': [{A, B}, None]}, [2, 0], id='instances'),
        pytest.param(
            HypervisorVersionWeigher,
            {'hypervisor_version': [2001000, None]},
            [2001000, 0],
            id='version',
        ),
        pytest.param(BuildFailureWeigher, {'failed_builds': [3, 0]}, [3, 0], id='failed builds'),
        pytest.param(
            PCIWeigher, {'pci_pools': [None, devices(2, 3)]}, [100, 95], id='free devices'
        ),
        pytest.param(
            PCIWeigher, {'pci_pools': [devices(99), devices(98, 7)]}, [1, 1], id='plenty of them'
        ),
    ],
)
def test_raw(rule, columns, weights):
    assert raw(rule, hosts(2, **columns)) == weights


@each(
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
    assert raw(NumInstancesWeigher, made.hosts) == [1, 1]
    asked = request(group={'policy': 'soft-affinity', 'members': [A, B]})
    assert raw(ServerGroupSoftAffinityWeigher, made.hosts, asked) == [1, 1]


HERE, THERE = map(uuid_of, ['cell 1', 'cell 2'])


@each(
    'destination, weights',
    [
        pytest.param(None, None, id='no destination'),
        pytest.param(RequestedDestination(cell_uuid=HERE), None, id='it must stay in its cell'),
        pytest.param(
            RequestedDestination(host='host-1', allow_cross_cell_move=True), None, id='no cell'
        ),
        pytest.param(
            RequestedDestination(cell_uuid=HERE, allow_cross_cell_move=True),
            [1, -1, 1],
            id='it may leave; a node that never told its cell may be in any',
        ),
        pytest.param(
            RequestedDestination(cell_uuid=uuid_of('cell 3'), allow_cross_cell_move=True),
            [-1, -1, 1],
            id='a cell that no node is in',
        ),
    ],
)
def test_cross_cell(destination, weights):
    seen = hosts(cell_uuid=[HERE, THERE, None])
    found = CrossCellWeigher().raw(seen, np.arange(3), request(destination=destination))
    assert (None if found is None else found.tolist()) == weights


METRICS = [{'a': 10, 'b': 2}, {'a': 1}, {'a': None, 'b': 3}]


@each(
    'setting, multipliers, weights',
    [
        pytest.param([], [1, 1, 1], None, id='nothing set'),
        pytest.param(['nonsense'], [1, 1, 1], None, id='nothing that makes sense'),
        pytest.param(['b=1'], [1, 1, 1], [2, -7, 3], id='one'),
        pytest.param(
            ['a=-0.5', 'b=10'],
            [1, 1, 1],
            [15, -7, -7],
            id='a sum, and one that lacks a part of it',
        ),
        pytest.param(
            ['a=1', 'b=0'], [1, 1, 1], [10, 1, -7], id='what counts for nothing is not missed'
        ),
        pytest.param(['b=1'], [1, 0, 1], [2, 0, 3], id='nor where the multiplier is 0'),
        pytest.param(['b=1', 'b=1'], [1, 1, 1], [4, -7, 6], id='one name twice'),
        pytest.param(['c=1'], [1, 1, 1], [-7, -7, -7], id='what nobody reports'),
    ],
)
def test_metrics(setting, multipliers, weights):
    texts = [
        json.dumps([{'name': name, 'value': value} for name, value in one.items()])
        for one in METRICS
    ]
    groups = [
        aggregate(row, [f'host-{row}'], metrics_weight_multiplier=str(multiplier))
        for row, multiplier in enumerate(multipliers)
    ]
    seen = hosts(3, groups, metrics=texts)
    options = {'weight_setting': setting, 'required': False, 'weight_of_unavailable': -7.0}
    with settings({f'metrics.{name}': value for name, value in options.items()}):
        found = MetricsWeigher().raw(seen, np.arange(3), request())
        assert (None if found is None else found.tolist()) == weights


@each(
    'rows, missing',
    [
        pytest.param([0], 0, id='reported'),
        pytest.param([0, 1, 2], 2, id='not, or not as a number'),
        pytest.param([1], 1, id='not'),
    ],
)
def test_a_required_metric(rows, missing):
    seen = hosts(metrics=['[{"name": "a", "value": 1}]', None, '[{"name": "a"}]'])
    with settings({'metrics.weight_setting': ['a=0']}):
        if not missing:
            assert MetricsWeigher().raw(seen, np.array(rows), request()).tolist() == [0]
            return
        told = (
            f'a has no value on {missing} of {len(rows)} hosts that could be chosen: '
            'enable MetricsFilter'
        )
        with pytest.raises(errors.BadConfig, match=told):
            MetricsWeigher().raw(seen, np.array(rows), request())
        with pytest.raises(errors.BadConfig, match='1 of 1 hosts'):
            MetricsWeigher()._weigh_object(seen.state(1), spec())


UBUNTU = {'os_distro': 'ubuntu', 'hw_qemu_guest_agent': True, 'traits_required': ['A']}


@each(
    'setting, asked, weights',
    [
        pytest.param([], UBUNTU, [3, 5], id='each property counts 1'),
        pytest.param([], {'os_distro': 'ubuntu'}, [1, 3], id='one property'),
        pytest.param([], {'os_distro': 'fedora'}, [1, 0], id='another value of it'),
        pytest.param([], {'os_distro': 'debian'}, [0, 0], id='a value that nobody has'),
        pytest.param([], {}, [0, 0], id='no image'),
        pytest.param(['os_distro=2', 'os_type=9'], UBUNTU, [2, 6], id='what is named'),
        pytest.param(
            ['os_distro=-0.5', 'hw_qemu_guest_agent=0'], UBUNTU, [-0.5, -1.5], id='against it'
        ),
        pytest.param(['nonsense'], UBUNTU, [3, 5], id='nothing that makes sense is nothing set'),
    ],
)
def test_image_properties(setting, asked, weights):
    names = ['i', 'j', 'k', 'l', 'm']
    made = cluster(instances=[set(names[:2]), set(names[2:])])
    images = [
        UBUNTU,
        {'os_distro': 'fedora'},
        UBUNTU,
        {'os_distro': 'ubuntu'},
        {'os_distro': 'ubuntu'},
    ]
    for uuid, image in zip(names, images, strict=True):
        made.hosts.places.learn(uuid, image)
    options = {'image_props_weight_multiplier': -1.0, 'image_props_weight_setting': setting}
    with settings({f'filter_scheduler.{name}': value for name, value in options.items()}):
        wanted = request(image_properties=asked)
        assert raw(ImagePropertiesWeigher, made.hosts, wanted) == weights
        states = [made.hosts.state(row) for row in range(2)]
        alone = [
            ImagePropertiesWeigher()._weigh_object(one, spec(image_properties=asked))
            for one in states
        ]
        assert alone == weights


def test_image_properties_are_off_at_first():
    """Whatever an aggregate says; and nothing is counted until a request needs it."""
    seen = hosts(1, [aggregate(1, ['host-0'], image_props_weight_multiplier='5')])
    assert (
        ImagePropertiesWeigher().raw(seen, np.arange(1), request(image_properties=UBUNTU)) is None
    )
    assert ImagePropertiesWeigher().multiplier(hosts(1), np.arange(1)) == 0.0


@each(
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
