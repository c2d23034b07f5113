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
"""Blocks: which classes must share a domain, and which blocks are alike."""

import pytest

from nova_sched.groups.arrays.compile import compile
from nova_sched.tests.groups import policy, problem
from nova_sched.tests.unit.groups.arrays.test_compile import FOUR, cells, classes


def blocks(compiled):
    """Each block as level and classes."""
    names = classes(compiled)
    return [
        (compiled.problem.levels[block.level], [names[c] for c in block.classes])
        for block in compiled.blocks
    ]


@pytest.mark.parametrize(
    'rules, expected',
    [
        pytest.param([policy('affinity', 'rack', 'a b')], [('rack', ['a b'])], id='one rack'),
        pytest.param(
            [policy('affinity', 'rack', 'a b'), policy('affinity', 'rack', 'b c')],
            [('rack', ['a b c'])],
            id='overlapping affinity is one',
        ),
        pytest.param(
            [policy('affinity', 'zone', 'a b c d'), policy('affinity', 'rack', 'a b')],
            [('rack', ['a b']), ('zone', ['a b', 'c d'])],
            id='a rack in a zone',
        ),
        pytest.param(
            [policy('affinity', 'zone', 'a b'), policy('affinity', 'rack', 'a b')],
            [('rack', ['a b'])],
            id='the finer says it all',
        ),
        pytest.param([policy('affinity', 'host', 'a b')], [], id='a unit is no block'),
        pytest.param(
            [policy('near', 'rack', 'a b', 'c')],
            [('rack', ['a b', 'c'])],
            id='near one is affinity',
        ),
        pytest.param(
            [policy('near', 'rack', 'a', 'b c'), policy('affinity', 'rack', 'b c')],
            [('rack', ['a', 'b c'])],
            id='near what is together is affinity',
        ),
        pytest.param([policy('near', 'rack', 'a', 'b c')], [], id='near two is not'),
        pytest.param([policy('affinity', 'rack', 'a b', weight=1.0)], [], id='a wish is no block'),
    ],
)
def test_blocks(rules, expected):
    found = blocks(compile(problem(FOUR, [9] * 8, *rules, zones=[0, 0, 0, 0, 1, 1, 1, 1])))
    assert [(level, sorted(' '.join(names).split())) for level, names in found] == [
        (level, sorted(' '.join(names).split())) for level, names in expected
    ]


def test_levels_that_do_not_nest_say_nothing_of_each_other():
    """Racks lie across zones here, so that a rack in common is no zone in common."""
    rules = [policy('affinity', 'rack', 'a b'), policy('affinity', 'zone', 'a b')]
    compiled = compile(problem(FOUR, [9] * 4, *rules, racks=[0, 0, 1, 1], zones=[0, 1, 0, 1]))
    assert [(level, names) for level, names in blocks(compiled)] == [
        ('rack', ['a b']),
        ('zone', ['a b']),
    ]
    assert compiled.layout.nests.tolist() == [
        [True, True, True],
        [False, True, False],
        [False, False, True],
    ]


@pytest.mark.parametrize(
    'more, expected',
    [
        pytest.param([], [[0, 1, 2]], id='all alike'),
        pytest.param(
            [policy('anti-affinity', 'rack', 'h0 h1 h2')],
            [[0, 1, 2]],
            id='a policy on all of them',
        ),
        pytest.param(
            [policy('anti-affinity', 'rack', 'h0 h1')], [[0, 1], [2]], id='one is not in it'
        ),
        pytest.param(
            [policy('spread', 'host', 'v0 w0', min_domains=2)],
            [[0], [1, 2]],
            id='a spread of its own',
        ),
        pytest.param([policy('near', 'rack', 'h0', 'h1 h2')], [[0], [1, 2]], id='near the others'),
    ],
)
def test_types_of_blocks(more, expected):
    compiled = cells(*more)
    assert sorted(sorted(one.blocks) for one in compiled.block_types) == expected
    for one in compiled.block_types:
        shapes = compiled.shape[one.classes]
        assert (shapes == shapes[0]).all()
        assert (compiled.count[one.classes] == compiled.count[one.classes][0]).all()
