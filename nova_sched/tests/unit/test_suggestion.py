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
"""A word that is not known, and the nearest that is."""

import pytest

from nova_sched.suggestion import question, suggestion


@pytest.mark.parametrize(
    'word, found',
    [
        pytest.param('cuont', 'did you mean count?', id='near'),
        pytest.param('elephant', '', id='far'),
    ],
)
def test_the_nearest_word(word, found):
    assert question(word, ['count', 'room']) == found
    assert suggestion(word, ['count', 'room']) == (f'; {found}' if found else '')


def test_it_may_have_to_be_closer():
    assert question('cuont', ['count'], 0.95) == ''


def test_a_few_short_names_are_compared():
    """A comparison takes long, and tenants choose the names."""
    long = 'x' * 41
    assert question(long, [long + 'y', long]) == ''
    assert question('cuont', [long * 1000, 'count']) == 'did you mean count?'
    others = [f'{number:05}' for number in range(200)]
    assert question('cuont', [*others[:90], 'count']) == 'did you mean count?'
    assert question('cuont', ['a', *['far too long'] * 500, 'count']) == 'did you mean count?'
    assert question('cuont', [*others, 'count']) == ''
