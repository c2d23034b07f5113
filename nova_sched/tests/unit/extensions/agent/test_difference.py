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
"""Differences between both counts: found, and logged once."""

import logging

from nova_sched.extensions.agent import difference
from nova_sched.extensions.agent.difference import MAX_LOGGED, Counted, DifferenceLog
from nova_sched.tests.rows import table

SMALL, LARGE = {'VCPU': 2, 'MEMORY_MB': 512}, {'VCPU': 4, 'MEMORY_MB': 512}


def side(claims=None, confirmed=(), capacity=None, used=None):
    return Counted(capacity or {'VCPU': 8}, used or {}, claims or {}, confirmed)


# Counts here and there, and the differences.
DIFFERENCES = {
    'nothing on both sides': (side(), side(), []),
    'one instance': (side({'a': SMALL}), side({'a': SMALL}, 'a'), []),
    'one that is on its way': (side(), side({'a': SMALL}), []),
    'nobody has claimed it': (
        side({'a': SMALL}),
        side(),
        ['instance a: MEMORY_MB=512 VCPU=2 here, no claim'],
    ),
    'it is gone': (
        side(),
        side({'a': SMALL}, 'a'),
        ['instance a: not here, MEMORY_MB=512 VCPU=2 claimed'],
    ),
    'another size': (
        side({'a': LARGE}),
        side({'a': SMALL}, 'a'),
        ['instance a: VCPU=4 here, VCPU=2 claimed'],
    ),
    'a class that the other side has not': (
        side({'a': {**SMALL, 'DISK_GB': 0}}),
        side({'a': {**SMALL, 'CUSTOM_GOLD': 1}}, 'a'),
        ['instance a: CUSTOM_GOLD=0 here, CUSTOM_GOLD=1 claimed'],
    ),
    'capacity': (
        side(capacity={'VCPU': 8, 'PCPU': 2}),
        side(capacity={'VCPU': 16, 'DISK_GB': 0}),
        [
            'capacity of PCPU: 2 here, 0 by the scheduler',
            'capacity of VCPU: 8 here, 16 by the scheduler',
        ],
    ),
    'several': (
        side({'a': SMALL, 'b': SMALL}),
        side({'b': SMALL, 'c': LARGE}, 'bc'),
        [
            'instance a: MEMORY_MB=512 VCPU=2 here, no claim',
            'instance c: not here, MEMORY_MB=512 VCPU=4 claimed',
        ],
    ),
}


def test_differences():
    found = {
        name: sorted(difference.differences(ours, theirs))
        for name, (ours, theirs, _) in DIFFERENCES.items()
    }
    assert found == {name: phrases for name, (*_, phrases) in DIFFERENCES.items()}


def test_the_counts_of_the_node():
    vcpu = {'total': 9, 'reserved': 2, 'allocation_ratio': 1.5, 'min_unit': 1}
    counted = difference.here({'VCPU': vcpu}, {'a': SMALL, 'b': LARGE})
    assert counted == Counted(
        {'VCPU': 10}, {'VCPU': 6, 'MEMORY_MB': 1024}, {'a': SMALL, 'b': LARGE}, {'a', 'b'}
    )


@table(
    'answer, counted',
    {
        'no answer': (None, None),
        'an answer without it': ({'node': 'n', 'claims': {'a': 'confirmed'}}, None),
        'claims by size': (
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
        ),
    },
)
def test_the_counts_of_the_scheduler(answer, counted):
    assert difference.there(answer) == counted


@table(
    'theirs, text',
    {
        'not told': (None, 'The scheduler has not reported its count of this node yet'),
        'the same of what is asked': (
            side(used={'VCPU': 7, 'MEMORY_MB': 1}),
            'By its last answer the scheduler counts the same usage',
        ),
        'both numbers, and the claim': (
            side({'x': {'VCPU': 2}}, capacity={'VCPU': 16}, used={'VCPU': 5}),
            (
                'By its last answer the scheduler counts different usage: VCPU: 7 of 8 here, '
                '5 of 16 there, with VCPU=2 claimed for this instance'
            ),
        ),
    },
)
def test_the_text_after_a_refusal(theirs, text):
    ours = side(used={'VCPU': 7, 'MEMORY_MB': 512})
    assert difference.comparison({'VCPU': 2}, ours, theirs, 'x') == text


NONE, A, B = frozenset(), frozenset({'a'}), frozenset({'b'})
HEAD = 'Node cmp1 and the scheduler count differently. '
AGAIN = 'Node cmp1 and the scheduler count the same again'


# Differences by time, and what the log has about them.
LINES = {
    'none': ([(0, NONE), (10, NONE)], []),
    'too young': ([(0, A)], []),
    'still too young': ([(0, A), (1, A)], []),
    'it stands': ([(0, A), (2, A)], ['a']),
    'told once': ([(0, A), (2, A), (12, A), (22, A)], ['a']),
    'over before it is told': ([(0, A), (1, NONE), (2, A)], []),
    'over': ([(0, A), (2, A), (12, NONE), (22, NONE)], ['a', AGAIN]),
    'it comes back': ([(0, A), (2, A), (5, NONE), (6, A), (8, A)], ['a', AGAIN, 'a']),
    'another one: only that is told': ([(0, A), (2, A | B), (4, A | B)], ['a', 'b']),
    'fewer are no news': ([(0, A | B), (2, A | B), (4, A), (9, A)], ['a; b']),
    'one comes back': ([(0, A | B), (2, A | B), (4, A), (5, A | B), (7, A | B)], ['a; b', 'b']),
    'another that ends by itself': ([(0, A), (2, A), (3, B), (4, NONE)], ['a', AGAIN]),
}


def test_what_is_told(caplog):
    caplog.set_level(logging.INFO)
    found = {}
    for name, (heard, _) in LINES.items():
        caplog.clear()
        made = DifferenceLog(settle_s=2)
        for now_s, differences in heard:
            made.update('cmp1', differences, now_s)
        found[name] = [
            (record.levelname, record.getMessage().removeprefix(HEAD)) for record in caplog.records
        ]
    assert found == {
        name: [('INFO' if line == AGAIN else 'WARNING', line) for line in lines]
        for name, (_, lines) in LINES.items()
    }


@table(
    'heard, soon',
    {
        'nothing': ([(0, NONE)], False),
        'a young one': ([(0, A)], True),
        'a told one': ([(0, A), (2, A)], False),
        'a told one and a young one': ([(0, A), (2, A | B)], True),
    },
)
def test_when_to_read_again(heard, soon):
    made = DifferenceLog(settle_s=2)
    assert [made.update('cmp1', found, now_s) for now_s, found in heard][-1] == soon


def test_very_many_are_counted(caplog):
    made = DifferenceLog(settle_s=0)
    made.update('cmp1', frozenset(f'{number:03}' for number in range(MAX_LOGGED + 5)), 0)
    (line,) = caplog.messages
    assert line.endswith(f'; {MAX_LOGGED - 1:03}; and 5 more')
