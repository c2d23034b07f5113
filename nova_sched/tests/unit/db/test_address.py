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


@pytest.mark.parametrize(
    'url, shown',
    [
        pytest.param(
            'mysql+pymysql://u:secret@h/db?x=1', 'mysql+pymysql://u:***@h/db?x=1', id='password'
        ),
        pytest.param(
            'postgresql+psycopg2://u@h/db', 'postgresql+psycopg2://u@h/db', id='no password'
        ),
        pytest.param('sqlite:////var/lib/x.sqlite', 'sqlite:////var/lib/x.sqlite', id='file'),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert address.shown(url) == shown


@pytest.mark.parametrize(
    'content, is_database',
    [
        pytest.param(None, True, id='not there yet'),
        pytest.param(b'', True, id='empty'),
        pytest.param(b'SQLite format 3\0rest', True, id='a database'),
        pytest.param(b'SQLite format 2\0rest', False, id='another format'),
        pytest.param(b'x', False, id='something short'),
    ],
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


@pytest.mark.parametrize('root', [True, False], ids=['as root', 'as another user'])
def test_a_new_file_belongs_to_the_owner_of_its_folder(tmp_path, monkeypatch, root):
    given = []
    monkeypatch.setattr(os, 'geteuid', lambda: 0 if root else 1000)
    monkeypatch.setattr(os, 'chown', lambda _, *ids: given.append(ids))
    file, folder = tmp_path / 'x.sqlite', tmp_path.stat()
    address.make_file(f'sqlite:///{file}')
    assert file.read_bytes() == b''
    assert given == ([(folder.st_uid, folder.st_gid)] if root else [])


@pytest.mark.parametrize(
    'name, content',
    [
        pytest.param('x.sqlite', b'x', id='a file that exists'),
        pytest.param('none/x.sqlite', None, id='no folder'),
    ],
)
def test_no_file_is_made(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(os, 'chown', None)
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    address.make_file(f'sqlite:///{file}')
    assert (file.read_bytes() if file.exists() else None) == content


@pytest.mark.parametrize(
    'url, exists, may_write, is_refused',
    [
        pytest.param('sqlite:///{}', True, False, True, id="another user's file"),
        pytest.param('sqlite:///{}', True, True, False, id='an own file'),
        pytest.param('sqlite:///{}', False, False, False, id='no file yet'),
        pytest.param('postgresql+psycopg2://u@h/{}', True, False, False, id='a server'),
    ],
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


@pytest.mark.parametrize(
    'url, why',
    [
        pytest.param('sqlite://', 'in memory', id='in memory'),
        pytest.param('sqlite:///:memory:', 'in memory', id='in memory, spelt out'),
        pytest.param('nonsense', 'Could not parse', id='no URL'),
        pytest.param('postgresql://u:p@h:port/x', 'Could not parse', id='no port'),
    ],
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
