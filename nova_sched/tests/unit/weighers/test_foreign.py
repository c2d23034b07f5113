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
"""Weighers that were written for Nova run among ours, unchanged."""

import numpy as np
import pytest

from nova_sched.engine.decide import weigh
from nova_sched.tests.builders import aggregate, hosts, request
from nova_sched.tests.rows import each
from nova_sched.weighers import normalize
from nova_sched.weighers.foreign import ForeignWeigher, adopt
from nova_sched.weighers.ram import RAMWeigher


class NovaBase:
    """What a Nova weigher inherits: it finds the bounds while it weighs."""

    minval = None
    maxval = None

    def weight_multiplier(self, host_state):
        return 1.0

    def weigh_objects(self, weighed_obj_list, weight_properties):
        weights = [self._weigh_object(one.obj, weight_properties) for one in weighed_obj_list]
        self.minval = min(weights, default=None)
        self.maxval = max(weights, default=None)
        return weights


class EvenWeigher(NovaBase):
    """As an operator would write it."""

    def weight_multiplier(self, host_state):
        return 2.0 if host_state.aggregates else 0.5

    def _weigh_object(self, host_state, weight_properties):
        return host_state.vcpus_total % 2 + weight_properties.flavor.vcpus


def test_it_weighs_the_given_rows():
    rule = adopt(EvenWeigher)
    seen = hosts(3, [aggregate(1, ['host-2'])], vcpus=[1, 2, 3])
    rows = np.array([2, 1])
    weights = rule.raw(seen, rows, request(vcpus=10))
    assert weights.dtype == float
    assert weights.tolist() == [11, 10]
    assert rule.multiplier(seen, rows).tolist() == [2.0, 0.5]
    assert normalize(weights, rule.minval, rule.maxval).tolist() == [1, 0]
    assert (rule.name, rule.minval, rule.maxval) == ('EvenWeigher', 10, 11)


def test_the_bounds_are_those_of_this_round():
    rule, seen = adopt(EvenWeigher), hosts(vcpus=[1, 2])
    rule.raw(seen, np.array([0, 1]), request(vcpus=100))
    rule.raw(seen, np.array([0, 1]), request(vcpus=1))
    assert (rule.minval, rule.maxval) == (1, 2)


def test_in_the_sum_it_is_one_of_several():
    seen = hosts(3, [aggregate(1, ['host-2'])], vcpus=[1, 2, 3], memory_mb=[10, 30, 20])
    total = weigh((RAMWeigher(), adopt(EvenWeigher)), seen, np.array([1, 2]), request())
    assert total.tolist() == pytest.approx([30 / 30 + 0.5 * 0, 20 / 30 + 2.0 * 1])


def test_no_rows():
    rule, nobody = adopt(EvenWeigher), np.array([], dtype=np.intp)
    assert rule.raw(hosts(2), nobody, request()).tolist() == []
    assert rule.multiplier(hosts(2), nobody).tolist() == []


@each('made', [RAMWeigher, RAMWeigher()], ids=['class', 'object'])
def test_ours_are_not_wrapped(made):
    rule = adopt(made)
    assert type(rule) is RAMWeigher
    assert not isinstance(rule, ForeignWeigher)


class HeightWeigher:
    """As short as it can be: no base class, one host at a time, and a floor."""

    minval = 2

    def weight_multiplier(self, host_state):
        return 3.0

    def _weigh_object(self, host_state, weight_properties):
        return host_state.vcpus_total * weight_properties.flavor.vcpus


def test_one_host_at_a_time():
    seen, rows = hosts(vcpus=[1, 2, 4, 8]), np.array([0, 1, 2])
    assert adopt(HeightWeigher).raw(seen, rows, request(vcpus=1)).tolist() == [1, 2, 4]
    assert weigh((adopt(HeightWeigher),), seen, rows, request(vcpus=1)).tolist() == [0, 0, 3]
