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
"""Tests of what counts as a difference between the counts of a node and the scheduler's."""

import pytest

from nova_sched.agent import difference
from nova_sched.agent.difference import Counted

SMALL, LARGE = {'VCPU': 2, 'MEMORY_MB': 512}, {'VCPU': 4, 'MEMORY_MB': 512}


def side(claims=None, confirmed=(), capacity=None, used=None):
    return Counted(capacity or {'VCPU': 8}, used or {}, claims or {}, confirmed)


@pytest.mark.parametrize(
    'ours, theirs, listed, found',
    [
        pytest.param(side(), side(), [], [], id='nothing on both sides'),
        pytest.param(side({'a': SMALL}), side({'a': SMALL}, 'a'), 'a', [], id='one instance'),
        pytest.param(side(), side({'a': SMALL}), [], [], id='one that is on its way'),
        pytest.param(
            side(), side({'a': SMALL}, 'a'), 'a', [], id='one that is listed for the last time'
        ),
        pytest.param(
            side({'a': SMALL}),
            side(),
            'a',
            ['instance a: MEMORY_MB=512 VCPU=2 here, no claim'],
            id='nobody has claimed it',
        ),
        pytest.param(
            side(),
            side({'a': SMALL}, 'a'),
            [],
            ['instance a: not here, MEMORY_MB=512 VCPU=2 claimed'],
            id='it is gone',
        ),
        pytest.param(
            side({'a': LARGE}),
            side({'a': SMALL}, 'a'),
            'a',
            ['instance a: VCPU=4 here, VCPU=2 claimed'],
            id='another size',
        ),
        pytest.param(
            side({'a': {**SMALL, 'DISK_GB': 0}}),
            side({'a': {**SMALL, 'CUSTOM_GOLD': 1}}, 'a'),
            'a',
            ['instance a: CUSTOM_GOLD=0 here, CUSTOM_GOLD=1 claimed'],
            id='a class that the other side has not',
        ),
        pytest.param(
            side(capacity={'VCPU': 8, 'PCPU': 2}),
            side(capacity={'VCPU': 16, 'DISK_GB': 0}),
            [],
            [
                'capacity of PCPU: 2 here, 0 by the scheduler',
                'capacity of VCPU: 8 here, 16 by the scheduler',
            ],
            id='capacity',
        ),
        pytest.param(
            side({'a': SMALL, 'b': SMALL}),
            side({'b': SMALL, 'c': LARGE}, 'bc'),
            'ab',
            [
                'instance a: MEMORY_MB=512 VCPU=2 here, no claim',
                'instance c: not here, MEMORY_MB=512 VCPU=4 claimed',
            ],
            id='several',
        ),
    ],
)
def test_differences(ours, theirs, listed, found):
    assert sorted(difference.differences(ours, theirs, listed)) == found


def test_the_counts_of_the_node():
    vcpu = {'total': 9, 'reserved': 2, 'allocation_ratio': 1.5, 'min_unit': 1}
    counted = difference.here({'VCPU': vcpu}, {'a': SMALL, 'b': LARGE})
    assert counted == Counted(
        {'VCPU': 10}, {'VCPU': 6, 'MEMORY_MB': 1024}, {'a': SMALL, 'b': LARGE}, {'a', 'b'}
    )


@pytest.mark.parametrize(
    'answer, counted',
    [
        pytest.param(None, None, id='no answer'),
        pytest.param({'node': 'n', 'claims': {'a': 'confirmed'}}, None, id='an answer without it'),
        pytest.param(
            {
                'claims': {'a': 'confirmed', 'b': 'pending', 'c': 'confirmed'},
                'counted': {
                    'capacity': {'VCPU': 8},
                    'used': {'VCPU': 9},
                    'sizes': [
                        {'resources': SMALL, 'instances': ['a', 'b']},
                        {'resources': LARGE, 'instances': ['c']},
                    ],
                },
            },
            Counted({'VCPU': 8}, {'VCPU': 9}, {'a': SMALL, 'b': SMALL, 'c': LARGE}, ['a', 'c']),
            id='claims by size',
        ),
    ],
)
def test_the_counts_of_the_scheduler(answer, counted):
    assert difference.there(answer) == counted


@pytest.mark.parametrize(
    'theirs, text',
    [
        pytest.param(
            None, 'The scheduler has not reported its count of this node yet', id='not told'
        ),
        pytest.param(
            side(used={'VCPU': 7, 'MEMORY_MB': 1}),
            'By its last answer the scheduler counts the same usage',
            id='the same of what is asked',
        ),
        pytest.param(
            side({'x': {'VCPU': 2}}, capacity={'VCPU': 16}, used={'VCPU': 5}),
            'By its last answer the scheduler counts different usage: VCPU: 7 of 8 here, 5 of 16 '
            'there, with VCPU=2 claimed for this instance',
            id='both numbers, and the claim',
        ),
    ],
)
def test_the_text_after_a_refusal(theirs, text):
    ours = side(used={'VCPU': 7, 'MEMORY_MB': 512})
    assert difference.beside({'VCPU': 2}, ours, theirs, 'x') == text
