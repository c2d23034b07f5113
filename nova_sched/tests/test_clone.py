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
"""A checkout may lie anywhere, and have the name of the package, as git gives it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from nova_sched.tests.cases import ONLY_WHOLE
from nova_sched.tests.fixtures.interpreter import ROOT, frames

# What no clone has.
APART = ('.*', '*.egg-info', '*.sqlite*', '__pycache__', 'build', 'dist')
# Tests that look at the tree, start our daemons, and run commands. All of them: tools/test clone.
BRIEF = (
    'test_tree.py',
    'functional/test_agent_daemon.py',
    'unit/extensions/queues/drivers/test_exec.py',
)
HOME = '/srv/a folder of ü/nova_sched'
PACKAGES = '.venv/lib/python3.11/site-packages'


def test_frames_of_the_package_in_a_clone_that_has_its_name():
    rows = [
        ('our own', f'{HOME}/nova_sched/rpc/messages.py', True),
        ('our plug-in for Heat', f'{HOME}/nova_sched/extensions/heat/nova_sched/group.py', True),
        ('a library in the environment', f'{HOME}/{PACKAGES}/oslo_messaging/rpc/server.py', False),
        ('a package of a like name', f'{HOME}/nova_sched_rules/filter.py', False),
        ('an installed copy', f'{HOME}/{PACKAGES}/nova_sched/rpc/messages.py', False),
        ('a library elsewhere', '/usr/lib/python3.11/threading.py', False),
    ]
    prefix = '2026-11-26 08:00:00.000 1 ERROR oslo_messaging '
    wrong = {
        name
        for name, path, is_ours in rows
        for line in (f'  File "{path}", line 7, in f', f'{prefix}  File "{path}", line 7, in f')
        if frames(f'{prefix}Traceback:\n{line}\n    f()\n', Path(HOME, 'nova_sched'))
        != [path] * is_ours
    }
    assert wrong == set()


def borrowing(folder):
    """Return the Python of a new environment with the packages of this one."""
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', folder], check=True)
    python = folder / 'bin' / 'python'
    code = 'import sysconfig; print(sysconfig.get_path("purelib"))'
    site = subprocess.check_output([python, '-I', '-c', code], encoding='utf-8').strip()
    # In ASCII, as which such a file is read with LC_ALL=C.
    line = f'import sys; sys.path.append({sysconfig.get_path("purelib")!a})'
    Path(site, 'borrowed.pth').write_text(line)
    return python


@ONLY_WHOLE
def test_a_brief_part_of_the_gate_in_a_clone(tmp_path):
    """With its name from git and its own environment, below a folder with a blank, in another
    locale and time zone, with files that nobody else may read."""
    clone = tmp_path / 'a folder of ü' / 'nova_sched'
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*APART))
    python = borrowing(clone / '.venv')
    env = {name: value for name, value in os.environ.items() if not name.startswith('PYTEST_')}
    command = [python, '-m', 'pytest', '-q', '-p', 'no:cacheprovider']
    done = subprocess.run(
        [
            *command,
            '--basetemp',
            tmp_path / 'tmp',
            *(clone / 'nova_sched/tests' / x for x in BRIEF),
        ],
        cwd=clone,
        env=env | {'PYTHONPATH': str(clone), 'TZ': 'Asia/Kolkata', 'LC_ALL': 'C'},
        umask=0o027,
        capture_output=True,
        encoding='utf-8',
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
