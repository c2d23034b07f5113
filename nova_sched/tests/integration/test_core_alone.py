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
"""The core without its extensions: their folder, and their entry points, are not there."""

import configparser
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nova_sched.tests.cases import ONLY_THOROUGH

ROOT = Path(__file__).resolve().parents[3]
EXTENSIONS = 'nova_sched.extensions'
# It starts, schedules, claims, plans groups and explains.
BRIEF = ('rpc_claims', 'rpc_explain', 'rpc_scheduler', 'ten_refusals', 'manage_group')
WHOLE = (
    'event_notifications',
    'group_examples',
    'manage_explain',
    'manage_server',
    'rpc_bad_input',
    'rpc_bad_reports',
    'rpc_candidates',
    'rpc_cloud',
    'rpc_conductor',
    'rpc_groups',
    'rpc_hardware',
    'rpc_policies',
    'rpc_recorded',
    'rpc_stats',
    'rpc_tolerance',
    'rpc_versions',
)


@pytest.fixture(scope='module')
def core(tmp_path_factory):
    """A folder with the core, as it would be installed without extensions."""
    folder = tmp_path_factory.mktemp('core')
    ignored = shutil.ignore_patterns('extensions', '__pycache__')
    shutil.copytree(ROOT / 'nova_sched', folder / 'nova_sched', ignore=ignored)
    shutil.copy(ROOT / 'pyproject.toml', folder)
    shutil.copytree(ROOT / 'etc', folder / 'etc')
    installed = importlib.metadata.distribution('nova-sched')
    parser = configparser.ConfigParser(delimiters=['='])
    parser.optionxform = str
    parser.read_string(installed.read_text('entry_points.txt'))
    for group in parser.sections():
        for name, target in parser.items(group):
            if target.startswith(EXTENSIONS):
                parser.remove_option(group, name)
    home = folder / f'nova_sched-{installed.version}.dist-info'
    home.mkdir()
    (home / 'METADATA').write_text(installed.read_text('METADATA'))
    with (home / 'entry_points.txt').open('w') as points:
        parser.write(points)
    return folder


@pytest.mark.parametrize(
    'names',
    [
        pytest.param(BRIEF, id='brief'),
        pytest.param(WHOLE, id='whole', marks=ONLY_THOROUGH),
    ],
)
def test_the_core_works_alone(core, names):
    files = [f'nova_sched/tests/functional/test_{name}.py' for name in names]
    code = (
        'import sys, pytest, nova_sched\n'
        'from nova_sched import extension\n'
        'assert extension.installed() == {}\n'
        'assert nova_sched.__path__[0].startswith(sys.argv[1])\n'
        'status = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:schemathesis",\n'
        '                      *sys.argv[2:]])\n'
        'assert not [name for name in sys.modules if name.startswith("nova_sched.extensions")]\n'
        'sys.exit(status)\n'
    )
    env = {name: value for name, value in os.environ.items() if name != 'PYTEST_XDIST_WORKER'}
    done = subprocess.run(
        [sys.executable, '-c', code, str(core), *files],
        cwd=core,
        env={**env, 'PYTHONPATH': str(core)},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
