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

"""Tests of the node's UUID."""

import uuid

import pytest

from nova_sched import errors
from nova_sched.extensions.agent import machine

FIRST = '5b0e6a35-1b5c-4c8f-9a53-6a0c51f0a1d4'
SECOND = 'c7a4f2d1-90a5-4a0e-8a55-0d5a2f3f7e11'


def test_made_once_and_kept(tmp_path):
    path = tmp_path / 'state' / 'compute_id'
    made = machine.node_uuid(path, new=lambda: uuid.UUID(FIRST))
    again = machine.node_uuid(path, new=lambda: uuid.UUID(SECOND))
    assert made == again == FIRST
    assert path.read_text() == f'{FIRST}\n'
    assert [entry.name for entry in path.parent.iterdir()] == ['compute_id']


def test_each_node_gets_its_own(tmp_path):
    assert machine.node_uuid(tmp_path / 'one') != machine.node_uuid(tmp_path / 'two')


def test_another_process_that_was_first_wins(tmp_path):
    path = tmp_path / 'compute_id'

    def late():
        path.write_text(SECOND)
        return uuid.UUID(FIRST)

    assert machine.node_uuid(path, new=late) == SECOND
    assert path.read_text() == SECOND


def test_other_spellings_are_read(tmp_path):
    path = tmp_path / 'compute_id'
    path.write_text(f'  {FIRST.upper()}\n\n')
    assert machine.node_uuid(path) == FIRST


@pytest.mark.parametrize(
    'content',
    [
        pytest.param(b'', id='empty'),
        pytest.param(b'not-a-uuid', id='words'),
        pytest.param(b'\x00\xff\x13', id='bytes'),
        pytest.param(FIRST[:-1].encode(), id='cut short'),
    ],
)
def test_a_corrupted_file_is_told_and_left_as_it_is(tmp_path, content):
    path = tmp_path / 'compute_id'
    path.write_bytes(content)
    with pytest.raises(errors.BadMachineFacts) as error:
        machine.node_uuid(path)
    assert error.value.what == str(path)
    assert 'restore the file' in error.value.why
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    'name',
    [
        pytest.param('.', id='a directory'),
        pytest.param('file/compute_id', id='below a file'),
    ],
)
def test_a_file_that_cannot_be_is_told(tmp_path, name):
    (tmp_path / 'file').touch()
    with pytest.raises(errors.BadMachineFacts) as error:
        machine.node_uuid(tmp_path / name)
    assert error.value.what == str(tmp_path / name)
