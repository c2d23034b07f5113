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
"""Reads a database URL without making a connection."""

import contextlib
import os
import pathlib

import sqlalchemy as sa

from nova_sched import errors, files, urls

MAGIC = b'SQLite format 3\0'


def _url(connection):
    where = '[database] connection'
    try:
        url = sa.engine.make_url(connection)
    except (sa.exc.ArgumentError, ValueError):  # with a part of the URL, perhaps of its password
        why = f'Could not parse it as the URL of a database; {urls.ADVICE}'
        raise errors.BadConfig(where, why) from None
    if '@' in (url.host or ''):
        raise errors.BadConfig(where, f'Could not parse it; {urls.ADVICE}')
    return url


def shown(connection):
    """Return the URL without its password, for output. Raises BadConfig if it is not a
    URL."""
    _url(connection)
    return urls.shown(connection)


def sqlite_file(connection):
    """Return the file of a SQLite database, whether or not it exists; None for any other
    database.

    Raises BadConfig, also for a database in memory and for a file that is not a SQLite database.
    """
    url = _url(connection)
    if url.get_backend_name() != 'sqlite':
        return None
    if url.database in (None, '', ':memory:'):
        why = (
            'a SQLite database in memory is lost with its process: name a file, as in '
            'sqlite:////var/lib/x.sqlite'
        )
        raise errors.BadConfig('[database] connection', why)
    file = pathlib.Path(url.database)
    if file.is_file() and file.stat().st_size and not _is_database(file):
        raise errors.BadConfig('[database] connection', f'{file} is not a SQLite database')
    return file


def check_folder(connection):
    """Raise BadConfig if the directory of a SQLite database does not exist."""
    file = _plain_file(connection)
    if file is not None and not file.absolute().parent.is_dir():
        folder = file.absolute().parent
        raise errors.BadConfig('[database] connection', f'there is no directory {folder}')


def make_file(connection):
    """Make a missing SQLite file that only its owner can read and write. If this process runs as
    root, the owner is that of the directory, because the daemons write there.

    SQLite gives its log the same rights. If the file cannot be made, the connection says why.
    """
    file = _plain_file(connection)
    if file is None:
        return
    _url(connection).get_dialect().import_dbapi()  # no file for a driver that does not exist
    with contextlib.suppress(OSError), open(file, 'xb', opener=files.private) as new_file:
        if os.geteuid() == 0:
            folder = file.absolute().parent.stat()
            os.chown(new_file.fileno(), folder.st_uid, folder.st_gid)


def check_file(connection):
    """Raise BadConfig if the file of a SQLite database exists and this process may not write
    it."""
    file = _plain_file(connection)
    if file is not None and file.exists() and not os.access(file, os.W_OK):
        why = f'{file} cannot be written by this user: give the file to the user'
        raise errors.BadConfig('[database] connection', f'{why} that runs the scheduler')


def _plain_file(connection):
    """The file of a SQLite database; None for any other one, and for a URI, which has options."""
    url = _url(connection)
    if url.get_backend_name() != 'sqlite' or url.database in (None, '', ':memory:'):
        return None
    return None if url.database.startswith('file:') else pathlib.Path(url.database)


def _is_database(file):
    try:
        with file.open('rb') as opened:
            return opened.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise errors.BadConfig(
            '[database] connection', f'{file} cannot be read: {error.strerror}'
        ) from error
