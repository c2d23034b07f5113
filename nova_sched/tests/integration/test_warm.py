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
"""A copy of a process that has imported the package is, for a test, as one that Python starts."""

import os
import subprocess

import pytest

from nova_sched.tests.fixtures import warm

EVENTLET = {warm.BACKEND: 'eventlet'}
ELSEWHERE = {'PYTHONPATH': '/no/such'}


@pytest.fixture(params=[pytest.param(True, id='copy'), pytest.param(False, id='Python')])
def is_warm(request):
    return request.param


def test_it_runs_a_module_with_arguments_in_a_folder(is_warm, tmp_path):
    (tmp_path / 'one.json').write_text('{"a": 1}')
    ended = warm.run('json.tool', ['--compact', 'one.json'], cwd=tmp_path, is_warm=is_warm)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, '{"a":1}\n', '')


def test_it_runs_a_function_in_an_environment(is_warm):
    """What a function returns is the exit status; a text is printed as an error."""
    env = {**os.environ, 'LOGNAME': 'operator'}
    ended = warm.run('getpass:getuser', [], env=env, is_warm=is_warm)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, '', 'operator\n')


def test_a_usage_that_is_wrong(is_warm):
    ended = warm.run('json.tool', ['--no-such'], is_warm=is_warm)
    assert (ended.returncode, ended.stdout) == (2, '')
    assert 'unrecognized arguments: --no-such' in ended.stderr


def test_it_reads_what_is_written_to_it(is_warm):
    child = warm.start(
        'json.tool', [], stdin=subprocess.PIPE, stdout=subprocess.PIPE, is_warm=is_warm
    )
    with child.stdin:
        child.stdin.write('[]')
    with child.stdout:
        assert child.stdout.read() == '[]\n'
    assert child.wait(60) == 0


def test_it_is_killed(is_warm):
    child = warm.start('json.tool', [], stdin=subprocess.PIPE, is_warm=is_warm)
    assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    assert os.getsid(child.pid) == child.pid
    child.kill()
    assert (child.wait(60), child.poll()) == (-9, -9)
    child.kill()  # once more, as tests do in the end
    child.stdin.close()
    assert not os.path.exists(f'/proc/{child.pid}')


@pytest.mark.parametrize(
    'more, kind',
    [
        pytest.param({}, warm.Child, id='as the tests'),
        pytest.param(EVENTLET, subprocess.Popen, id='another backend'),
        pytest.param(ELSEWHERE, subprocess.Popen, id='other packages'),
    ],
)
def test_it_is_a_copy_where_it_would_import_the_same(more, kind):
    env = {**warm.STARTED, warm.BACKEND: warm.NATIVE, **more}
    child = warm.start('json.tool', ['--help'], stdout=subprocess.DEVNULL, env=env)
    assert type(child) is kind
    assert child.wait(60) == 0
