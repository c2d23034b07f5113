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
"""Native or green threads: chosen before anything else, from one option alone."""

import os
import subprocess
import sys

import pytest

from nova_sched.cmd import backend
from nova_sched.tests.rows import each

SCRIPT = """
import sys
from nova_sched.cmd import backend
chosen = backend.choose(sys.argv[1:])
import threading
green = 'eventlet' in sys.modules and __import__('eventlet').patcher.is_monkey_patched('thread')
from oslo_service.backend import get_backend_type
print(chosen, get_backend_type().value, 'green' if green else 'native')
"""


def choose(*arguments, environment=None):
    """A new process that chooses: its exit status, what it said, and what went wrong."""
    env = {
        name: value for name, value in os.environ.items() if name != 'OS_DEFAULT__SERVICE_BACKEND'
    }
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', SCRIPT, *map(str, arguments)],
        env=env | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def file(tmp_path):
    """A configuration file of these lines of [DEFAULT]."""

    def write(lines, name='some.conf'):
        path = tmp_path / name
        path.write_text(f'[DEFAULT]\n{lines}\n')
        return path

    return write


THREADS, GREEN = 'threading threading native', 'eventlet eventlet green'


@pytest.mark.parametrize(
    'lines, environment, chosen',
    [
        ('', None, THREADS),
        ('service_backend = eventlet', None, GREEN),
        ('service_backend = threading', {'OS_DEFAULT__SERVICE_BACKEND': 'eventlet'}, GREEN),
        ('service_down_time = never\n[scheduler]\nworkers = many', None, THREADS),  # not read
    ],
)
def test_what_is_chosen(file, lines, environment, chosen):
    done = choose('--config-file', file(lines), '--no-such-argument', environment=environment)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, chosen, '')


@pytest.mark.parametrize(
    'lines, words',
    [
        ('service_backend = fibers', "Valid values are [threading, eventlet], but found 'fibers'"),
        ('nonsense', 'Failed to parse'),
    ],
)
def test_a_mistake_ends_the_program_with_a_sentence(file, lines, words):
    done = choose('--config-file', file(lines))
    assert done.returncode == os.EX_CONFIG
    assert words in done.stderr
    assert 'Traceback' not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@each(
    'arguments, found',
    [
        ([], []),
        (['--config-file=a', '--config-dir=b'], ['--config-file=a', '--config-dir=b']),
        (['--debug', '--config-dir', 'b', 'list'], ['--config-dir', 'b']),
        (
            ['--config-file', 'a', '--config-file', 'b'],
            ['--config-file', 'a', '--config-file', 'b'],
        ),
    ],
)
def test_arguments_that_name_files(arguments, found):
    assert backend.config_arguments(arguments) == found
