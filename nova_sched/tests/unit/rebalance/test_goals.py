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
"""Goals and numbers of moves, from texts."""

import pytest

from nova_sched import errors
from nova_sched.rebalance import Goal, most_moves, read_goal


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
        (None, 'no text'),
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
