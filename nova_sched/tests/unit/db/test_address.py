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
"""What a database URL says by itself."""

import os

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import address, engine
from nova_sched.tests.rows import each_afresh, table


@table(
    'url, shown',
    {
        'password': ('mysql+pymysql://u:secret@h/db?x=1', 'mysql+pymysql://u:***@h/db?x=1'),
        'no password': ('postgresql+psycopg2://u@h/db', 'postgresql+psycopg2://u@h/db'),
        'file': ('sqlite:////var/lib/x.sqlite', 'sqlite:////var/lib/x.sqlite'),
    },
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert address.shown(url) == shown


@each_afresh(
    'content, is_database',
    {
        'not there yet': (None, True),
        'empty': (b'', True),
        'a database': (b'SQLite format 3\0rest', True),
        'another format': (b'SQLite format 2\0rest', False),
        'something short': (b'x', False),
    },
)
def test_the_file_of_sqlite(tmp_path, content, is_database):
    file = tmp_path / 'x.sqlite'
    if content is not None:
        file.write_bytes(content)
    if is_database:
        assert address.sqlite_file(f'sqlite:///{file}') == file
    else:
        with pytest.raises(errors.BadConfig, match='is not a SQLite database'):
            address.sqlite_file(f'sqlite:///{file}')


@each_afresh('root', {'as root': True, 'as another user': False})
def test_a_new_file_belongs_to_the_owner_of_its_folder(tmp_path, monkeypatch, root):
    given = []
    monkeypatch.setattr(os, 'geteuid', lambda: 0 if root else 1000)
    monkeypatch.setattr(os, 'chown', lambda _, *ids: given.append(ids))
    file, folder = tmp_path / 'x.sqlite', tmp_path.stat()
    address.make_file(f'sqlite:///{file}')
    assert file.read_bytes() == b''
    assert given == ([(folder.st_uid, folder.st_gid)] if root else [])


@each_afresh(
    'name, content',
    {'a file that exists': ('x.sqlite', b'x'), 'no folder': ('none/x.sqlite', None)},
)
def test_no_file_is_made(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(os, 'chown', None)
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    address.make_file(f'sqlite:///{file}')
    assert (file.read_bytes() if file.exists() else None) == content


@each_afresh(
    'url, exists, may_write, is_refused',
    {
        "another user's file": ('sqlite:///{}', True, False, True),
        'an own file': ('sqlite:///{}', True, True, False),
        'no file yet': ('sqlite:///{}', False, False, False),
        'a server': ('postgresql+psycopg2://u@h/{}', True, False, False),
    },
)
def test_a_file_that_cannot_be_written(tmp_path, monkeypatch, url, exists, may_write, is_refused):
    file = tmp_path / 'x.sqlite'
    if exists:
        file.touch()
    monkeypatch.setattr(os, 'access', lambda *_: may_write)
    if is_refused:
        with pytest.raises(errors.BadConfig, match='cannot be written by this user'):
            address.check_file(url.format(file))
    else:
        address.check_file(url.format(file))


def test_other_databases_have_no_file():
    assert address.sqlite_file('postgresql+psycopg2://u@h/db') is None


@table(
    'url, why',
    {
        'in memory': ('sqlite://', 'in memory'),
        'in memory, spelt out': ('sqlite:///:memory:', 'in memory'),
        'no URL': ('nonsense', 'Could not parse'),
        'no port': ('postgresql://u:p@h:port/x', 'Could not parse'),
    },
)
def test_a_url_that_cannot_be(url, why):
    with pytest.raises(errors.BadConfig, match=why):
        address.sqlite_file(url)


@pytest.mark.parametrize('umask', [0o000, 0o027, 0o077])
@pytest.mark.parametrize('create', [engine.create, engine.for_command])
def test_a_new_file_is_for_its_owner_only(tmp_path, create, umask):
    """And so is the log beside it."""
    before = os.umask(umask)
    try:
        made = create(f'sqlite:///{tmp_path / "x.sqlite"}')
        with made.begin() as connection:
            connection.execute(sa.text('CREATE TABLE t (a INTEGER)'))
            there = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        made.dispose()
    finally:
        os.umask(before)
    assert there['x.sqlite'] == 0o600
    assert len(there) > 1
    assert set(there.values()) == {0o600}
