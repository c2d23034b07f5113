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
"""Hosts as they would be: a view changes, and the hosts stay as they are."""

import itertools

import numpy as np

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.tests.builders import claim, cluster, hosts, request, uuid_of

HERE, NEW = uuid_of('here'), uuid_of('new')
METRICS = '[{"name": "cpu.percent", "value": 0.5}]'


def test_a_view_of_all_rows_is_changed_by_itself():
    seen = hosts(2, vcpus=[4, 8], instances=frozenset([HERE]))
    view = seen.what_if()
    view.resources = {'VCPU': seen.resources['VCPU'].copy()}
    view.resources['VCPU'].take(slice(None), np.array([1, 2]))
    view.num_instances = seen.num_instances + 5
    view.members = {NEW: np.array([0, 3])}
    assert view.vcpus_used.tolist() == [1, 2]
    assert view.fits('VCPU', 4 * 4).tolist() == seen.fits('VCPU', 99).tolist()
    assert view.count_instances([HERE, NEW]).tolist() == [1, 4]
    assert view.count_instances([HERE]).tolist() == [1, 1]
    assert seen.vcpus_used.tolist() == [0, 0]
    assert seen.num_instances.tolist() == [1, 1]
    assert seen.count_instances([NEW]).tolist() == [0, 0]


def test_a_view_of_some_rows_has_their_facts():
    seen = hosts(
        3,
        traits=[{'HW_A'}, set(), {'HW_A'}],
        instances=[frozenset(), frozenset([HERE]), frozenset()],
        failed_builds=[1, 2, 3],
        metrics=[None, METRICS, None],
    )
    view = seen.what_if(np.array([1, 1, 0]))
    view.failed_builds[0] = 7
    assert len(view) == 3
    assert view.failed_builds.tolist() == [7, 2, 1]
    assert seen.failed_builds.tolist() == [1, 2, 3]
    assert view.has_trait('HW_A').tolist() == [False, False, True]
    assert view.count_instances([HERE]).tolist() == [1, 1, 0]
    assert view.named(['host-1']).tolist() == [True, True, False]
    assert [view.state(row).host for row in range(3)] == ['host-1', 'host-1', 'host-0']
    assert np.nan_to_num(view.metric('cpu.percent')).tolist() == [50.0, 50.0, 0.0]


def test_a_view_counts_images_of_its_rows():
    made = cluster(2, instances=[frozenset([HERE]), frozenset()])
    made.hosts.places.learn(HERE, {'os_distro': 'ubuntu'})
    view = made.hosts.what_if(np.array([1, 0]))
    assert view.count_images('os_distro', 'ubuntu').tolist() == [0, 1]


def test_a_view_knows_instances_that_grow_by_its_rows():
    made = cluster(2, vcpus=[4, 8])
    made.add(claim(HERE, uuid_of('node host-1'), state=CONFIRMED))
    asked = request(instance_uuid=HERE, vcpus=2)
    seen = made.hosts
    assert seen.growing(asked, 'VCPU') == {1: (2, True)}
    assert seen.what_if().growing(asked, 'VCPU') == {1: (2, True)}
    view = seen.what_if(np.array([1, 0, 1]))
    assert view.growing(asked, 'VCPU') == {0: (2, True), 2: (2, True)}


def test_a_resize_in_place_finds_the_room_that_its_claim_takes():
    """The filter and the claim agree for all sizes on a node of 5 CPUs, which others may have
    filled beyond its capacity meanwhile; an open resize takes no less than it holds."""
    answers = []
    for old, opened, new, others in itertools.product((1, 2), (None, 1, 4), (1, 3, 6), range(6)):
        made = cluster(1, vcpus=5, memory_mb=65536, disk_gb=1000)
        (node,) = made.hosts.nodes
        made.add(claim(NEW, node.uuid, vcpus=others, state=CONFIRMED))
        held = claim(HERE, node.uuid, vcpus=old, state=CONFIRMED, uuid=uuid_of('held'))
        if opened is not None:
            asked = claim(HERE, node.uuid, vcpus=opened, uuid=uuid_of('opened'), created_s=1.0)
            held = held.merged_with(asked)
        made.add(held)
        asked = request(instance_uuid=HERE, vcpus=new, memory_mb=512, root_gb=0)
        ((both, fits),) = made.hosts.growing(asked, 'VCPU').values()
        try:
            made.consume(node, asked)
        except errors.ComputeResourcesUnavailable:
            taken = None
        else:
            taken = made.hosts.nodes[0].claims[HERE].resources['VCPU']
        answers.append(taken)
        assert (taken is not None) == fits, (old, opened, new, others)
        assert taken in (None, both)
    assert {None, 2, 4} <= set(answers)
