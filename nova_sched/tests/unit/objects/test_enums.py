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

"""Words of enumerations, and their older spellings."""

import pytest

from nova_sched.objects import enums
from nova_sched.tests.unit.objects import reference

FACTS = reference.facts()
TABLES = {'Architecture': FACTS['architecture_aliases'], **FACTS['hvtype_aliases']}
ROWS = [
    pytest.param(kind, word, known, id=f'{kind} {word}')
    for kind, table in TABLES.items()
    for word, known in table.items()
    if word != 'None'
]


@pytest.mark.parametrize(
    'kind, word, known', [row for row in ROWS if 'raises' not in row.values[2]]
)
def test_a_spelling_is_understood_as_in_nova(kind, word, known):
    assert getattr(enums, kind)().coerce(None, 'x', word) == known


@pytest.mark.parametrize('kind, word, known', [row for row in ROWS if 'raises' in row.values[2]])
def test_a_word_is_refused_as_in_nova(kind, word, known):
    with pytest.raises(ValueError, match='none of'):
        getattr(enums, kind)().coerce(None, 'x', word)


@pytest.mark.parametrize(
    'kind, word',
    [
        pytest.param(enums.Architecture, None, id='null'),
        pytest.param(enums.Architecture, 'riscv64', id='unknown'),
        pytest.param(enums.DiskBus, 'SCSI', id='capitals matter elsewhere'),
    ],
)
def test_what_has_no_other_spelling_stays(kind, word):
    assert kind.canonical(word) == word
