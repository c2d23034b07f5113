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
"""nova-sched-scheduler as a program: how it ends when it cannot start."""

import os
import subprocess
import sys

import pytest


def run(*arguments, lines=None, folder=None):
    """Run the program to its end: exit status and all that it said."""
    if lines is not None:
        file = folder / 'nova_sched.conf'
        file.write_text(f'[DEFAULT]\ntransport_url = fake://\n{lines}\n')
        arguments = ('--config-file', str(file), *arguments)
    # The tests choose a backend in the environment, which goes before a file.
    env = {
        name: value for name, value in os.environ.items() if name != 'OS_DEFAULT__SERVICE_BACKEND'
    }
    done = subprocess.run(
        [sys.executable, '-m', 'nova_sched.cmd.scheduler', *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,  # the machine may be busy
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    'lines, words',
    [
        pytest.param(
            '[filter_scheduler]\nenabled_filters = ComputeFilter,MagicFilter',
            'filter_scheduler.enabled_filters: no filter is named MagicFilter; there are ',
            id='unknown filter',
        ),
        pytest.param(
            'log_file = /no/such/folder/log',
            'options of the log: [Errno 2] No such file',
            id='no place to log',
        ),
        pytest.param('service_backend = fibers', 'service_backend', id='unknown backend'),
    ],
)
def test_a_bad_configuration_ends_it_with_one_sentence(tmp_path, lines, words):
    status, said = run(lines=lines, folder=tmp_path)
    assert status == os.EX_CONFIG
    assert words in said
    assert said.startswith('scheduler.py: ')
    assert len(said.splitlines()) == 1


def test_a_configuration_file_that_is_not_there():
    status, said = run('--config-file', '/no/such/file.conf')
    assert (status, said) == (
        os.EX_CONFIG,
        'scheduler.py: Failed to find some config files: /no/such/file.conf\n',
    )


def test_help():
    status, said = run('--help')
    assert status == 0
    assert '--config-file' in said
