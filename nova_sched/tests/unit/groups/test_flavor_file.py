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
"""The operator's file of flavors: read when it is there, and again when it changes."""

import os

import pytest

from nova_sched import errors
from nova_sched.groups.members import flavor_file

SMALL = {'vcpus': 1, 'ram': 512}


def test_without_a_file_there_are_none():
    assert flavor_file.read(None) == {}


@pytest.mark.parametrize(
    'text, found',
    [
        pytest.param('small: {vcpus: 1, ram: 512}\n', {'small': SMALL}, id='one'),
        pytest.param(
            '7: {vcpus: 1, ram: 512}\n', {'7': SMALL}, id='a name that YAML takes for a number'
        ),
        pytest.param('# none yet\n', {}, id='empty'),
    ],
)
def test_flavors(tmp_path, text, found):
    (tmp_path / 'flavors.yaml').write_text(text)
    assert flavor_file.read(str(tmp_path / 'flavors.yaml')) == found


def test_it_is_read_again_when_it_changes(tmp_path):
    file = tmp_path / 'flavors.yaml'
    file.write_text('small: {vcpus: 1, ram: 512}\n')
    before = flavor_file.read(str(file))
    assert flavor_file.read(str(file)) is before
    file.write_text('small: {vcpus: 2, ram: 512}\n')
    os.utime(file, ns=(1, 1))  # of the same size, and whatever the clock of the file system is
    assert flavor_file.read(str(file)) == {'small': {'vcpus': 2, 'ram': 512}}


@pytest.mark.parametrize(
    'text, why',
    [
        pytest.param(None, 'cannot be read: .*No such file', id='not there'),
        pytest.param('{', 'is no YAML: .*line', id='no YAML'),
        pytest.param('- small\n', 'no mapping from names to flavors', id='a list'),
        pytest.param('small: 1\n', 'no mapping from names to flavors', id='no flavors'),
        pytest.param('!!python/object/apply:os.getpid []\n', 'is no YAML', id='a program'),
        pytest.param(b'\xff\xfe\xff', 'cannot be read', id='no text'),
    ],
)
def test_a_file_that_makes_no_sense(tmp_path, text, why):
    file = tmp_path / 'flavors.yaml'
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(errors.BadConfig, match=why) as bad:
        flavor_file.read(str(file))
    assert bad.value.where == '[groups] flavors'
