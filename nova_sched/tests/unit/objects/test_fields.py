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
"""Field types and the words of enumerated fields."""

import uuid

import pytest

from nova_sched import objects
from nova_sched.objects import fields
from nova_sched.tests.rows import each
from nova_sched.tests.unit.objects import reference

SOME = '7a9f961e-91b7-5eec-ba67-426d5c717816'


@pytest.mark.parametrize(
    'field, given, kept',
    [
        pytest.param(fields.UUIDField(), SOME, SOME, id='uuid text'),
        pytest.param(fields.UUIDField(), uuid.UUID(SOME), SOME, id='uuid object'),
        pytest.param(
            fields.UUIDField(),
            SOME.replace('-', ''),
            SOME.replace('-', ''),
            id='uuid without dashes',
        ),
        pytest.param(fields.ListOfUUIDField(), [SOME], [SOME], id='list of uuids'),
    ],
)
def test_a_value_is_kept(field, given, kept):
    assert field.coerce(None, 'x', given) == kept


@pytest.mark.parametrize(
    'field, given',
    [
        pytest.param(fields.UUIDField(), 'me', id='no uuid'),
        pytest.param(fields.UUIDField(), SOME + '\n', id='uuid and more'),
        pytest.param(fields.UUIDField(), 5, id='uuid number'),
        pytest.param(fields.ListOfUUIDField(), [SOME, 'me'], id='list with no uuid'),
    ],
)
def test_a_value_is_refused(field, given):
    with pytest.raises(ValueError, match='required'):
        field.coerce(None, 'x', given)


def test_pinned_cpus_are_integers_here_and_strings_on_the_wire():
    cell = objects.InstanceNUMACell(cpu_pinning={0: 4, 1: 5})
    assert cell.cpu_pinning_raw == {'0': 4, '1': 5}
    assert cell.cpu_pinning == {0: 4, 1: 5}
    cell.cpu_pinning = None
    assert cell.cpu_pinning is None


FACTS = reference.facts()
TABLES = {'Architecture': FACTS['architecture_aliases'], **FACTS['hvtype_aliases']}
ROWS = [
    pytest.param(kind, word, known, id=f'{kind} {word}')
    for kind, table in TABLES.items()
    for word, known in table.items()
    if word != 'None'
]


@each('kind, word, known', [row for row in ROWS if 'raises' not in row.values[2]])
def test_a_spelling_is_understood_as_in_nova(kind, word, known):
    assert getattr(fields, f'{kind}Field')().coerce(None, 'x', word) == known


@pytest.mark.parametrize('kind, word, known', [row for row in ROWS if 'raises' in row.values[2]])
def test_a_word_is_refused_as_in_nova(kind, word, known):
    with pytest.raises(ValueError, match='none of'):
        getattr(fields, f'{kind}Field')().coerce(None, 'x', word)


@pytest.mark.parametrize(
    'field, word',
    [
        pytest.param(fields.ArchitectureField, None, id='null'),
        pytest.param(fields.ArchitectureField, 'riscv64', id='unknown'),
        pytest.param(fields.DiskBusField, 'SCSI', id='capitals matter elsewhere'),
    ],
)
def test_what_has_no_other_spelling_stays(field, word):
    assert field.AUTO_TYPE.canonical(word) == word
