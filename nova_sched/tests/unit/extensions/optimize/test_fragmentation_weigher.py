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
"""FragmentationWeigher: its weights, their scale, and the device that it names."""

import contextlib
import random

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.engine.catalog import Rules
from nova_sched.engine.decide import weigh
from nova_sched.engine.kinds import RequestKinds
from nova_sched.extensions.optimize.fragmentation_weigher import FragmentationWeigher
from nova_sched.extensions.optimize.packing.host_resources import read_resources
from nova_sched.extensions.optimize.packing.mix import Mix
from nova_sched.extensions.optimize.packing.scores import Scores
from nova_sched.extensions.optimize.packing.tables import Tables
from nova_sched.tests.builders import cluster, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.unit.extensions.optimize.packing.builders import size
from nova_sched.tests.unit.extensions.optimize.packing.test_scores import asked, gpu_cluster

MIX = Mix({size(2, 460): 3.0, size(8, 1000): 2.0, size(4): 5.0})
MULTIPLIER = 'filter_scheduler.fragmentation_weight_multiplier'


def weigher(made, mix=MIX):
    rule, resources = FragmentationWeigher(), read_resources(made.hosts)
    rule.use(Scores(Tables(mix, resources), resources))
    return rule


def weights(rule, made, wanted):
    return rule.raw(made.hosts, np.arange(len(made.hosts)), wanted)


def test_without_scores_all_hosts_are_equal():
    made = gpu_cluster()
    assert not weights(FragmentationWeigher(), made, asked(1, 460)).any()


def test_a_device_that_is_used_is_better_than_a_whole_one():
    made = gpu_cluster(3, plain=0)
    made.consume(made.hosts.nodes[2], asked(1, 460))
    found = weights(weigher(made), made, asked(2, 460))
    assert found.argmax() == 2


def test_of_plain_hosts_the_one_where_no_larger_copy_is_lost():
    made = cluster(3, vcpus=[5, 4, 12])
    found = weights(weigher(made), made, request(resources={'VCPU': 1}))
    assert found.argmax() == 0


def test_a_view_of_some_hosts_has_the_same_weights():
    made = gpu_cluster()
    rule, wanted = weigher(made), asked(1, 460)
    made.consume(made.hosts.nodes[0], asked(2, 190))
    rows = np.array([4, 0, 1])
    view = made.hosts.what_if(rows)
    wholes = weights(rule, made, wanted)
    assert rule.raw(view, np.arange(3), wanted).tolist() == wholes[rows].tolist()
    assert rule.raw(made.hosts.what_if(), rows, wanted).tolist() == wholes[rows].tolist()


@pytest.mark.parametrize('milli', [0, 460])
def test_keep_empty(milli):
    """Any host with instances is better than an empty one; the order of the others stays."""
    made = gpu_cluster()
    for row in (1, 3, 4):
        made.consume(made.hosts.nodes[row], asked(f'there {row}', 0, vcpus=1))
    rule, wanted = weigher(made), asked(1, milli)
    free = weights(rule, made, wanted)
    with settings({'filter_scheduler.keep_empty': True}):
        kept = weights(rule, made, wanted)
    used = np.array([1, 3, 4])
    assert kept[used].min() > kept[[0, 2, 5]].max()
    assert np.argsort(kept[used]).tolist() == np.argsort(free[used]).tolist()
    assert -3 <= kept.min() <= kept.max() <= 1


def test_new_scores_are_a_new_version():
    made = gpu_cluster()
    rule = weigher(made)
    before = rule.version
    rule.use(None)
    assert rule.version > before


def test_the_device():
    made = gpu_cluster(3, plain=0)
    made.consume(made.hosts.nodes[0], asked(1, 460))
    rule, wanted = weigher(made), asked(2, 460)
    assert rule.device(made.hosts, 0, wanted) is None  # the multiplier is 0
    with settings({MULTIPLIER: 1.0}):
        assert rule.device(made.hosts, 0, wanted) == uuid_of('host-0 0')
        assert FragmentationWeigher().device(made.hosts, 0, wanted) is None


def test_the_raw_weights_are_explained():
    made = gpu_cluster()
    rule, wanted, notes = weigher(made), asked(1, 460), []
    with settings({MULTIPLIER: 2.0}):
        weigh((rule,), made.hosts, np.arange(6), wanted, notes)
    ((noted, raw, _, _, multiplier),) = notes
    assert (noted, multiplier) == (rule, 2.0)
    assert raw.tolist() == weights(rule, made, wanted).tolist()


def test_kinds_of_requests_and_full_passes_weigh_alike():
    """To the bit, whatever changed."""
    made, chance = gpu_cluster(198, plain=80), random.Random(3)
    rule = weigher(made)
    with settings({MULTIPLIER: 1.0}):
        kinds = RequestKinds(Rules((), (), (rule,)), made.hosts, fewest=0)
        for number in range(60):
            for change in range(4):
                node = chance.choice(made.hosts.nodes)
                with contextlib.suppress(errors.ComputeResourcesUnavailable):
                    made.consume(node, asked(f'{number} {change}', chance.choice([0, 190, 460])))
            wanted = asked(f'new {number}', 460)
            kind = kinds.find(wanted)
            if kind is not None:
                rows, kept = kind.weights.top(len(made.hosts))
                full = weigh((rule,), made.hosts, rows, wanted)
                assert kept.tolist() == full.tolist()
    assert len(kinds) == 1
