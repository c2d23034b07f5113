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

"""The field types that are our own."""

import uuid

import pytest

from nova_sched import objects
from nova_sched.objects import fields

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
        pytest.param(
            fields.ResourceClassField(), 'CUSTOM_PMEM_4GB', 'CUSTOM_PMEM_4GB', id='resource class'
        ),
        pytest.param(fields.NetworkModelField(), '[]', '[]', id='network model text'),
        pytest.param(
            fields.NetworkModelField(), [{'id': 1}], '[{"id": 1}]', id='network model list'
        ),
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
        pytest.param(fields.ResourceClassField(), 'vcpu', id='resource class in small letters'),
        pytest.param(fields.NetworkModelField(), 7, id='network model number'),
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
