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
"""The wheel: what is in it, its version, and that it runs without the tests."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nova_sched.tests.test_clone import borrowing
from nova_sched.tests.test_layers import SOURCES
from nova_sched.tests.test_tree import ROOT

TAG = '1.2.3'
# What the build reads.
TREE = ('LICENSE', 'README.rst', 'etc', 'nova_sched', 'pyproject.toml', 'requirements.txt')
DATA = {
    'share/nova-sched': {'nova_sched.conf.sample', 'policy.yaml.sample'},
    'share/nova-sched/logrotate': {'nova-sched'},
    'share/nova-sched/metrics': {'alerts.yaml', 'dashboard.json'},
    'share/nova-sched/systemd': {path.name for path in (ROOT / 'etc' / 'systemd').iterdir()},
}


def run(*command, **kwargs):
    """The output of a command that has to succeed."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=200, **kwargs
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    """The wheel of a clone of this tree, with its changes, at a tag."""
    clone = tmp_path_factory.mktemp('clone')
    for name in (*TREE, 'setup.cfg', 'setup.py'):
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns('__pycache__', '*.sqlite*')
            shutil.copytree(source, clone / name, ignore=ignored)
        else:
            shutil.copy(source, clone)
    former = clone / 'build' / 'lib' / 'nova_sched'
    former.mkdir(parents=True)
    (former / 'gone.py').touch()  # a build of another release has left it
    git = ('git', '-c', 'user.name=t', '-c', 'user.email=t@example.org', '-C', clone)
    run(*git, 'init', '-q')
    run(*git, 'add', '-A')
    run(*git, 'commit', '-q', '-m', 'All')
    run(*git, 'tag', TAG)
    env = {key: value for key, value in os.environ.items() if key != 'PBR_VERSION'}
    pip = (sys.executable, '-m', 'pip', 'wheel', '-q', '--no-index', '--no-deps')
    run(*pip, '--no-build-isolation', '-w', clone / 'dist', clone, env=env)
    (made,) = (clone / 'dist').iterdir()
    return made


@pytest.fixture(scope='module')
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_version_is_that_of_the_tag(wheel):
    assert wheel.name == f'nova_sched-{TAG}-py3-none-any.whl'


def test_the_package_is_whole_and_the_tests_are_not_in_it(names):
    modules = {name for name in names if name.startswith('nova_sched/')}
    assert {str(path.relative_to(ROOT)) for path in SOURCES} <= modules
    assert {
        'nova_sched/api/openapi.yaml',
        'nova_sched/extensions/simulator/data/vms.csv.gz',
    } <= modules
    pages = ('templates/base.html', 'static/style.css', 'static/vendor/LICENSE.htmx')
    assert {f'nova_sched/extensions/dashboard/{path}' for path in pages} <= modules
    assert [name for name in names if 'tests' in Path(name).parts] == []
    assert 'nova_sched/gone.py' not in modules


def test_the_data_files(names):
    found = {}
    for name in names:
        _, _, path = name.partition('.data/data/')
        if path:
            found.setdefault(str(Path(path).parent), set()).add(Path(path).name)
    assert found == DATA


def test_it_runs_where_no_tests_are(wheel, tmp_path):
    """In a new environment, which borrows the dependencies of this one and not its package."""
    python = borrowing(tmp_path)
    pip = (sys.executable, '-m', 'pip', '--python', python, 'install', '-q', '--no-index')
    run(*pip, '--no-deps', wheel)
    script = 'import importlib.util as u; print(u.find_spec("nova_sched.tests"))'
    assert run(python, '-I', '-c', script) == 'None\n'
    assert 'usage: ' in run(tmp_path / 'bin' / 'nova-sched-manage', '--help', cwd=tmp_path)
    daemon = run(tmp_path / 'bin' / 'nova-sched-scheduler', '--version', cwd=tmp_path)
    assert daemon.strip() == TAG
