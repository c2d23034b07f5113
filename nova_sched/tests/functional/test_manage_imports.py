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

"""What the commands import: a command starts fast if it imports only what it needs."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
from nova_sched.cmd.manage import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""
BUS = {'oslo_messaging', 'oslo_service', 'eventlet', 'kombu', 'amqp'}
DATABASE = {'sqlalchemy'}
OBJECTS = {'oslo_versionedobjects'}
SOLVERS = {'numpy', 'ortools'}
OTHERS = {
    'sqlalchemy.orm',
    'alembic',
    'keystoneauth1',
    'oslo_log.log',
    'rich',
    'yaml',
    'jsonschema',
}
NONE_OF_DATABASE = BUS | OBJECTS | SOLVERS | OTHERS
NONE_OF_BUS = DATABASE | SOLVERS | {'keystoneauth1', 'jsonschema'}
NONE_OF_CHECK = {'sqlalchemy.orm', 'alembic', 'keystonemiddleware', 'ortools'}


@pytest.fixture(scope='module')
def configuration(tmp_path_factory):
    """A file that names a SQLite database of this release, and a bus that refuses connections."""
    folder = tmp_path_factory.mktemp('imports')
    file = folder / 'one.conf'
    file.write_text(
        f'[DEFAULT]\ntransport_url = rabbit://a:b@127.0.0.1:1/\n'
        f'[database]\nconnection = sqlite:///{folder}/db.sqlite\n'
    )
    imported(file, 'db', 'upgrade')
    return file


def imported(file, *words):
    """The modules of a process after this command."""
    line = [sys.executable, '-c', CODE, '--config-file', str(file), *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert 'Traceback' not in done.stderr, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    'line, forbidden',
    [
        pytest.param('--help', NONE_OF_DATABASE | DATABASE, id='help'),
        pytest.param('host --help', NONE_OF_DATABASE, id='help of a noun'),
        pytest.param('host list', NONE_OF_DATABASE, id='host list'),
        pytest.param('claim list', NONE_OF_DATABASE, id='claim list'),
        pytest.param('explain list', NONE_OF_DATABASE, id='explain list'),
        pytest.param('job list', NONE_OF_DATABASE, id='job list'),
        pytest.param('quota list', NONE_OF_DATABASE, id='quota list'),
        pytest.param('flavor list', NONE_OF_DATABASE, id='flavor list'),
        pytest.param('scheduler list', NONE_OF_DATABASE, id='scheduler list'),
        pytest.param('db version', NONE_OF_DATABASE, id='db version'),
        pytest.param('completion bash', NONE_OF_DATABASE | DATABASE, id='completion'),
        pytest.param(
            'group list', DATABASE | SOLVERS | {'keystoneauth1', 'jsonschema'}, id='group'
        ),
        pytest.param(
            'queue list', DATABASE | SOLVERS | {'keystoneauth1', 'jsonschema'}, id='queue'
        ),
        pytest.param('cloud status', NONE_OF_BUS, id='cloud status'),
        pytest.param('config check', NONE_OF_CHECK, id='config check'),
    ],
)
def test_a_command_imports_only_what_it_needs(configuration, line, forbidden):
    assert imported(configuration, *line.split()) & forbidden == set()
