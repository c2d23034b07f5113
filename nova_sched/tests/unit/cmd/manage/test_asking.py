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

"""A command ends within its timeout, whatever the bus or the database does."""

import socket
import threading
import time

import pytest

from nova_sched.cmd.manage import asking
from nova_sched.tests.fixtures import warm

START_S = 60  # far more than a start takes on a busy machine, and less than any wait without limit
AWAY = 1  # a port at which nothing listens
LITE = 'sqlite:///{folder}/db.sqlite'
POSTGRESQL, MYSQL = (
    'postgresql+psycopg2://a:b@127.0.0.1:{port}/c',
    'mysql+pymysql://a:b@127.0.0.1:{port}/c',
)


@pytest.fixture
def silent():
    """The port of a server that accepts connections, and says nothing."""
    with socket.create_server(('127.0.0.1', 0)) as made:
        yield made.getsockname()[1]


def run(folder, line, bus, database=LITE, port=AWAY):
    """The errors of a command, and how long it took; the bus is at the port ``bus``."""
    file = folder / 'nova_sched.conf'
    file.write_text(
        f'[DEFAULT]\ntransport_url = rabbit://guest:guest@127.0.0.1:{bus}/\n'
        f'[database]\nconnection = {database.format(folder=folder, port=port)}\n'
    )
    began_s = time.monotonic()
    given = [*line.split(), '--config-file', file]
    done = warm.run('nova_sched.cmd.manage:main', given, timeout=300)
    assert (done.returncode, done.stdout) == (1, ''), done.stderr
    return done.stderr, time.monotonic() - began_s


CALLS = [
    pytest.param('group list', id='group'),
    pytest.param('queue list', id='queue'),
    pytest.param('explain capacity', id='explain'),
    pytest.param('server place --why', id='two calls'),
]


@pytest.mark.parametrize('line', CALLS)
def test_a_bus_that_is_away(tmp_path, line):
    said, took_s = run(tmp_path, f'{line} --timeout 1000', AWAY)
    assert 'The broker does not answer: ' in said
    assert (len(said.splitlines()), took_s < START_S) == (1, True)


@pytest.mark.parametrize('line', CALLS)
def test_a_bus_that_is_silent(tmp_path, silent, line):
    said, took_s = run(tmp_path, f'{line} --timeout 1', silent)
    assert 'the message bus cannot be reached' in said
    assert (len(said.splitlines()), took_s < START_S) == (1, True)


@pytest.mark.parametrize('database', [POSTGRESQL, MYSQL], ids=['PostgreSQL', 'MySQL'])
@pytest.mark.parametrize('line', ['host list', 'explain list', 'server place --flavor x'])
def test_a_database_that_is_silent(tmp_path, silent, line, database):
    said, took_s = run(tmp_path, line, AWAY, database, silent)
    assert 'The database does not answer' in said
    assert (len(said.splitlines()), took_s < START_S) == (1, True)


@pytest.mark.parametrize('database', [POSTGRESQL, MYSQL], ids=['PostgreSQL', 'MySQL'])
def test_a_database_that_is_away(tmp_path, database):
    said, took_s = run(tmp_path, 'host list', AWAY, database)
    assert 'The database does not answer' in said
    assert (len(said.splitlines()), took_s < START_S) == (1, True)


# Works that run at the same time.


PATIENCE_S = 20.0


def test_works_run_at_the_same_time_and_keep_their_order():
    meeting = threading.Barrier(3)

    def work(number):
        meeting.wait(PATIENCE_S)  # raises if the works ran one after the other
        return number

    assert asking.results([lambda n=n: work(n) for n in range(3)]) == [0, 1, 2]


def test_without_works_there_are_no_results():
    assert asking.results([]) == []


def test_an_error_is_raised():
    with pytest.raises(ZeroDivisionError):
        asking.results([lambda: 1, lambda: 1 / 0])
