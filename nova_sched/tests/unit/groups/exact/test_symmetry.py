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

import pytest

from nova_sched.groups.exact import symmetry


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
