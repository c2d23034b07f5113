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
"""Counted units and blocks become single ones again."""

import numpy as np
import pytest

from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.definition import AFFINITY, ANTI_AFFINITY
from nova_sched.groups.exact import symmetry
from nova_sched.groups.exact.symmetry import counted, promising, roomy, symmetry_of
from nova_sched.tests.unit.groups.exact.test_tasks import paths, policy, problem


def test_blocks_in_the_counts_are_told_apart_by_search_where_dealing_does_not():
    rows, caps = (
        [[0, 1], [0, 1]],
        [(1, [1, 1])],
    )  # two blocks of a head and a worker, never on one host
    assert not symmetry._kept([[row[block::2] for row in rows] for block in range(2)], caps)
    shares = symmetry._shares(rows, 2, caps, [4, 5])
    assert symmetry._kept(shares, caps)
    assert sorted(h for share in shares for h in share[0]) == [0, 1]


def test_blocks_that_cannot_be_told_apart_are_an_error_that_is_mended():
    with pytest.raises(symmetry.CannotSplitError) as error:
        symmetry._shares([[0, 0], [1, 1]], 2, [(1, [2, 1])], [4, 5])
    assert error.value.blocks == [4, 5]


@pytest.mark.parametrize(
    'members, rules, hosts',
    [
        # Two racks hold twice the members; three are spare.
        pytest.param(12, [], range(10, 20), id='single members'),
        # Twice the one block, and four are spare.
        pytest.param(6, [policy(AFFINITY, 'rack', paths('a', 6))], range(8, 20), id='a block'),
    ],
)
def test_domains_with_the_most_places_are_kept(members, rules, hosts):
    """Ten racks of two hosts; a host takes 1, 2, ... 10 members, by rack."""
    room = np.repeat(np.arange(1, 11), 2)
    symmetry = symmetry_of(compile(problem([2] * 10, 0, {'a': members}, *rules, room=room)))
    kept = roomy(symmetry)
    assert np.flatnonzero(kept.sets[0].most).tolist() == [*hosts]
    assert kept.size == len(hosts) < symmetry.size


def test_the_best_hosts_and_the_hosts_at_present_are_kept():
    score = np.arange(100, dtype=np.float32)[None]
    apart = policy(ANTI_AFFINITY, 'host', paths('a', 2))
    given = problem([100], 1, {'a': 2}, apart, score=score)
    symmetry = symmetry_of(compile(given))
    counts = counted(symmetry, np.array([3, 5]))
    (alike,) = promising(symmetry, counts, 10).sets
    assert np.flatnonzero(alike.most).tolist() == [3, 5, *range(90, 100)]
