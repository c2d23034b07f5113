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
"""Goals, numbers of moves, and moves, from texts."""

import pytest

from nova_sched import errors
from nova_sched.extensions.optimize.rebalance import Goal, Move, most_moves, read_goal, read_moves
from nova_sched.tests.builders import uuid_of


@pytest.mark.parametrize(
    'text, found',
    [
        ('empty', Goal('empty')),
        ('spread', Goal('spread')),
        ('drain:a, b,a', Goal('drain', ('a', 'b'))),
        ('fit:m1.large', Goal('fit', ('m1.large',))),
    ],
)
def test_goals(text, found):
    assert read_goal(text) == found


@pytest.mark.parametrize(
    'text, why',
    [
        ('emty', 'there is no goal emty; did you mean empty'),
        ('drain', 'drain needs hosts, aggregates or zones'),
        ('drain:,', 'drain needs'),
        ('fit:', 'fit needs a flavor'),
        ('fit:a,b', 'fit takes one flavor'),
        ('empty:a', 'empty takes no name'),
        (None, 'not text'),
    ],
)
def test_no_goals(text, why):
    with pytest.raises(errors.InvalidRequest, match=why):
        read_goal(text)


@pytest.mark.parametrize(
    'text, found',
    [('1%', 10), ('0.01%', 1), ('100%', 1000), ('7', 7), (7, 7), (' 5 % ', 50), (None, 1000)],
)
def test_moves(text, found):
    assert most_moves(text, 1000) == found


@pytest.mark.parametrize('text', ['0', '-1', '0%', '101%', 'nan%', 'many', '1.5', '', [], True])
def test_no_moves(text):
    with pytest.raises(errors.InvalidRequest, match='neither a number from 1 nor a share'):
        most_moves(text, 1000)


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
