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

from pathlib import Path

from nova_sched.tests.fixtures.interpreter import frames

HOME = '/srv/a folder of ü/nova_sched'
PACKAGES = '.venv/lib/python3.11/site-packages'


def test_frames_of_the_package_in_a_clone_that_has_its_name():
    rows = [
        ('our own', f'{HOME}/nova_sched/rpc/serving.py', True),
        ('our plug-in for Heat', f'{HOME}/nova_sched/heat/nova_sched/group.py', True),
        ('a library in the environment', f'{HOME}/{PACKAGES}/oslo_messaging/rpc/server.py', False),
        ('a package of a like name', f'{HOME}/nova_sched_rules/filter.py', False),
        ('an installed copy', f'{HOME}/{PACKAGES}/nova_sched/rpc/serving.py', False),
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
