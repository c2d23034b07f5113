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

"""Tests of reading the kernel's small files."""

import pytest

from nova_sched import errors
from nova_sched.extensions.agent import sysfs


@pytest.mark.parametrize(
    'content, base, value',
    [
        pytest.param('42\n', 10, 42, id='decimal'),
        pytest.param('0x8086\n', 16, 0x8086, id='hexadecimal'),
        pytest.param('-1\n', 10, -1, id='negative'),
    ],
)
def test_number(tmp_path, content, base, value):
    (tmp_path / 'file').write_text(content)
    assert sysfs.number(tmp_path / 'file', base) == value


@pytest.mark.parametrize(
    'content, value',
    [
        pytest.param('0', 0, id='zero is a number'),
        pytest.param('-1', None, id='minus one is the word for none'),
        pytest.param(None, None, id='no file'),
    ],
)
def test_optional_number(tmp_path, content, value):
    if content is not None:
        (tmp_path / 'file').write_text(content)
    assert sysfs.optional_number(tmp_path / 'file') == value


@pytest.mark.parametrize(
    'read',
    [
        pytest.param(lambda root: sysfs.text(root / 'none'), id='no such file'),
        pytest.param(lambda root: sysfs.text(root), id='a directory'),
        pytest.param(lambda root: sysfs.number(root / 'words'), id='not a number'),
        pytest.param(
            lambda root: sysfs.optional_number(root / 'words'), id='not a number, though optional'
        ),
        pytest.param(lambda root: sysfs.number(root / 'bytes'), id='not even text'),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, read):
    (tmp_path / 'words').write_text('many')
    (tmp_path / 'bytes').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(errors.BadMachineFacts) as error:
        read(tmp_path)
    assert error.value.what.startswith(str(tmp_path))
    assert error.value.why


def test_link_name(tmp_path):
    (tmp_path / 'driver').symlink_to('../../drivers/i40e')
    assert sysfs.link_name(tmp_path / 'driver') == 'i40e'
    assert sysfs.link_name(tmp_path / 'none') is None


def test_children_are_in_order_and_may_be_none(tmp_path):
    for name in ('b', 'a', 'c'):
        (tmp_path / name).touch()
    assert [path.name for path in sysfs.children(tmp_path)] == ['a', 'b', 'c']
    assert sysfs.children(tmp_path / 'none') == []
