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
"""Tests of when a difference is told."""

import logging

import pytest

from nova_sched.agent.dispute import AT_MOST, Dispute

NONE, A, B = frozenset(), frozenset({'a'}), frozenset({'b'})
HEAD = 'Node cmp1 and the scheduler count differently. '
AGAIN = 'Node cmp1 and the scheduler count the same again'


@pytest.mark.parametrize(
    'heard, lines',
    [
        pytest.param([(0, NONE), (10, NONE)], [], id='none'),
        pytest.param([(0, A)], [], id='too young'),
        pytest.param([(0, A), (1, A)], [], id='still too young'),
        pytest.param([(0, A), (2, A)], ['a'], id='it stands'),
        pytest.param([(0, A), (2, A), (12, A), (22, A)], ['a'], id='told once'),
        pytest.param([(0, A), (1, NONE), (2, A)], [], id='over before it is told'),
        pytest.param([(0, A), (2, A), (12, NONE), (22, NONE)], ['a', AGAIN], id='over'),
        pytest.param(
            [(0, A), (2, A), (5, NONE), (6, A), (8, A)], ['a', AGAIN, 'a'], id='it comes back'
        ),
        pytest.param(
            [(0, A), (2, A | B), (4, A | B)], ['a', 'b'], id='another one: only that is told'
        ),
        pytest.param([(0, A | B), (2, A | B), (4, A), (9, A)], ['a; b'], id='fewer are no news'),
        pytest.param(
            [(0, A | B), (2, A | B), (4, A), (5, A | B), (7, A | B)],
            ['a; b', 'b'],
            id='one comes back',
        ),
        pytest.param(
            [(0, A), (2, A), (3, B), (4, NONE)], ['a', AGAIN], id='another that ends by itself'
        ),
    ],
)
def test_what_is_told(caplog, heard, lines):
    caplog.set_level(logging.INFO)
    made = Dispute(settle_s=2)
    for now_s, found in heard:
        made.hear('cmp1', found, now_s)
    assert [record.getMessage().removeprefix(HEAD) for record in caplog.records] == lines
    levels = ['INFO' if line == AGAIN else 'WARNING' for line in lines]
    assert [record.levelname for record in caplog.records] == levels


@pytest.mark.parametrize(
    'heard, soon',
    [
        pytest.param([(0, NONE)], False, id='nothing'),
        pytest.param([(0, A)], True, id='a young one'),
        pytest.param([(0, A), (2, A)], False, id='a told one'),
        pytest.param([(0, A), (2, A | B)], True, id='a told one and a young one'),
    ],
)
def test_when_to_look_again(heard, soon):
    made = Dispute(settle_s=2)
    assert [made.hear('cmp1', found, now_s) for now_s, found in heard][-1] == soon


def test_very_many_are_counted(caplog):
    made = Dispute(settle_s=0)
    made.hear('cmp1', frozenset(f'{number:03}' for number in range(AT_MOST + 5)), 0)
    (line,) = caplog.messages
    assert line.endswith(f'; {AT_MOST - 1:03}; and 5 more')
