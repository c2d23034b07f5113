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
"""The weights of winners: as texts, and the same from a full pass and from a kind of request."""

import json
import types

import numpy as np
import pytest

from nova_sched.engine.block_weights import BlockWeights
from nova_sched.engine.decide import WinnerWeights, weigh
from nova_sched.tests.builders import aggregate, cluster, request
from nova_sched.tests.rows import each
from nova_sched.weighers.cpu import CPUWeigher
from nova_sched.weighers.ram import RAMWeigher

WEIGHERS = RAMWeigher(), CPUWeigher()
A = types.SimpleNamespace(name='A')
REQUEST = request(vcpus=1, memory_mb=512)


@each(
    'multiplier, shown',
    [
        pytest.param(2.0, [2.0, 2.0], id='one for all'),
        pytest.param(np.array([1.0, 3.0, 5.0]), [5.0, 1.0], id='one for each'),
    ],
)
def test_a_weight_by_its_parts(multiplier, shown):
    notes = [(A, np.array([5.0, 7.0, 9.0]), 1.0, 9.0, multiplier)]
    first, second = WinnerWeights.of_notes(notes, [2, 0]).told()
    assert first == {
        'weight': shown[0],
        'weights': [
            {
                'weigher': 'A',
                'raw': 9.0,
                'normalised': 1.0,
                'multiplier': shown[0],
                'weight': shown[0],
            }
        ],
    }
    assert (second['weight'], second['weights'][0]['raw']) == (0.5 * shown[1], 5.0)


def test_what_json_has_no_word_for_is_none():
    notes = [(A, np.array([np.inf, -0.0]), 0.0, 2.0, 1.0)]
    first, second = WinnerWeights.of_notes(notes, [0, 1]).told()
    assert (first['weight'], first['weights'][0]['raw']) == (None, None)
    assert json.dumps(second['weights'][0]['raw']) == '0.0'


def test_a_scale_without_a_length_gives_no_weight():
    notes = [(A, np.array([3.0, 3.0]), 3.0, 3.0, 1.0)]
    (found,) = WinnerWeights.of_notes(notes, [1]).told()
    assert (found['weight'], found['weights'][0]['normalised']) == (0.0, 0.0)


def test_a_single_host_is_not_weighed():
    assert WinnerWeights.of_notes([], [0]).told() == [{'weight': 0.0, 'weights': []}]


def both(made, rows):
    """The winners' weights from a full pass and from kept weights, with the sums."""
    hosts, notes = made.hosts, []
    weights = weigh(WEIGHERS, hosts, np.arange(len(hosts)), REQUEST, notes)
    kept = BlockWeights(WEIGHERS, hosts, REQUEST, np.ones(len(hosts), dtype=bool))
    kept.top(len(rows))
    return (
        WinnerWeights.of_notes(notes, rows).told(),
        kept.winners(rows).told(),
        weights[rows].tolist(),
    )


@each('hosts', [1, 2, 200])
def test_full_passes_and_kinds_tell_the_same(hosts):
    made = cluster(hosts, vcpus_used=[row * 7919 % 16 for row in range(hosts)])
    full, kept, sums = both(made, list(range(0, hosts, 70)))
    assert full == kept
    assert [one['weight'] for one in full] == sums
    assert len(full[0]['weights']) == (hosts > 1 and len(WEIGHERS))


def test_a_multiplier_of_an_aggregate():
    groups = [aggregate(1, ['host-3'], cpu_weight_multiplier='4')]
    made = cluster(200, groups, vcpus_used=[row % 16 for row in range(200)])
    full, kept, sums = both(made, [3, 4, 130])
    assert full == kept
    assert [one['weight'] for one in full] == sums
    assert [one['weights'][1]['multiplier'] for one in full] == [4.0, 1.0, 1.0]
