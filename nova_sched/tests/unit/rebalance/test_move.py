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
"""The moves of a plan, as they come from outside."""

import pytest

from nova_sched import errors
from nova_sched.rebalance import Move, read_moves
from nova_sched.tests.builders import uuid_of

ONE = {name: uuid_of(name) for name in ('server', 'source', 'destination')}


def test_other_keys_are_left_out():
    assert read_moves([{**ONE, 'source_host': 'a'}]) == [Move(**ONE)]
    assert read_moves([]) == []


@pytest.mark.parametrize(
    'given, where',
    [
        pytest.param(None, 'moves', id='no list'),
        pytest.param(['a'], r'moves\[0\]', id='no object'),
        pytest.param([ONE, {}], r'moves\[1\].server', id='no server'),
        pytest.param([{**ONE, 'source': 'a'}], r'moves\[0\].source', id='no UUID'),
        pytest.param([{**ONE, 'source': ONE['destination']}], 'its source is', id='nowhere'),
        pytest.param([ONE, ONE], r'moves\[1\]: server .* earlier move', id='twice'),
    ],
)
def test_what_makes_no_sense(given, where):
    with pytest.raises(errors.InvalidRequest, match=where):
        read_moves(given)
