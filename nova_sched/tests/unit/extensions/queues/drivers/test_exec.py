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
"""The driver that runs a command: real processes, their user and their output."""

import grp
import json
import os
import pwd
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nova_sched import errors
from nova_sched.extensions.queues.drivers import DriverSettings
from nova_sched.extensions.queues.drivers import exec as commands
from nova_sched.extensions.queues.drivers.exec import MAX_ON_DISK, TAIL, CommandOutput, Exec
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import PATIENCE_S, eventually
from nova_sched.tests.rows import each, each_afresh, table
from nova_sched.tests.unit.extensions.queues.node.doubles import job


def driver(command, timeout_s=30.0, **settings):
    return Exec(DriverSettings(exec_command=command, exec_timeout_s=timeout_s, **settings), 'host')


def script(folder, text, name='script'):
    """A command that runs a shell script."""
    path = folder / name
    path.write_text(text)
    return f'sh {shlex.quote(str(path))}'


def why_not(command, **words):
    with pytest.raises(errors.BuildFailed) as failed:
        driver(command, **words).create(job(), job().spec)
    assert failed.value.args[0] == 'host'
    return failed.value.args[1]


@each('command', [None, '', '   ', pytest.param("build 'it", id='open quote')])
def test_a_command_that_is_none_is_refused(command):
    with pytest.raises(errors.BadConfig, match='exec_command'):
        driver(command)


@each_afresh(
    'kind, call',
    {
        'create': ('create', lambda one, made: one.create(made, made.spec)),
        'delete': ('delete', lambda one, made: one.destroy(made, made.instance_uuid)),
        'resize': ('resize', lambda one, made: one.resize(made, made.spec)),
        'migrate': ('migrate', lambda one, made: one.migrate(made, made.spec, 'b')),
    },
)
def test_the_command_is_told_what_to_do(tmp_path, kind, call):
    told, words = tmp_path / 'told', tmp_path / 'words'
    command = script(tmp_path, f'cat > {told}; printf "%s\\n" "$@" > {words}')
    given = job(kind='create' if kind == 'delete' else kind, source='b', project_id='p')
    call(driver(f"{command} --flag 'two words'"), given)
    assert words.read_text().splitlines() == ['--flag', 'two words', kind, uuid_of('server')]
    read = json.loads(told.read_text())
    assert (read['kind'], read['instance_uuid'], read['host']) == (kind, uuid_of('server'), 'host')
    assert (read['uuid'], read['source'], read['project_id']) == (given.uuid, 'b', 'p')
    assert read['spec']['nova_object.data']['flavor']['nova_object.data']['vcpus'] == 1


def test_an_instance_without_a_job_is_named_all_the_same(tmp_path):
    told = tmp_path / 'told'
    driver(script(tmp_path, f'cat > {told}')).destroy(None, uuid_of('left over'))
    assert json.loads(told.read_text()) == {
        'kind': 'delete',
        'instance_uuid': uuid_of('left over'),
        'host': 'host',
    }


@each_afresh(
    'text, why',
    {
        'one line': ('echo no image >&2; exit 1', 'no image'),
        'the last line': ('printf "trace\\nno image\\n\\n  \\n" >&2; exit 1', 'no image'),
        'standard output does not count': ('echo loud; exit 1', 'create ended with status 1'),
        'nothing said': ('exit 3', 'create ended with status 3'),
        'a signal': ('kill -TERM $$', 'create was ended by signal 15'),
        'no text': ('printf "a\\377b" >&2; exit 1', 'a\ufffdb'),
        'a long line': ('head -c 300000 /dev/zero | tr "\\0" x >&2; exit 1', 'x' * 200),
    },
)
def test_the_last_line_of_standard_error_is_the_reason(tmp_path, text, why):
    assert why_not(script(tmp_path, text)) == why


@each_afresh(
    'text, stdout, stderr',
    {
        'both streams': ('echo out; echo err >&2; exit 1', 'out\n', 'err\n'),
        'of a command that takes too long': ('echo out; sleep 60', 'out\n', ''),
    },
)
def test_what_a_failed_command_has_printed_is_kept(tmp_path, text, stdout, stderr):
    with pytest.raises(errors.BuildFailed) as failed:
        driver(script(tmp_path, text), timeout_s=2.0).create(job(), job().spec)
    assert (failed.value.stdout, failed.value.stderr) == (stdout, stderr)


def test_only_named_variables_are_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv('OS_PASSWORD', 'secret')
    monkeypatch.setenv('TZ', 'UTC')
    names = ['PATH', 'TZ', 'COLOUR=blue']
    text = f'env > {tmp_path}/env'
    driver(script(tmp_path, text, 'other'), exec_environment=names).create(job(), job().spec)
    found = {line.split('=')[0] for line in (tmp_path / 'env').read_text().splitlines()}
    assert found - {'PWD', 'SHLVL', '_', 'OLDPWD'} == {'PATH', 'TZ', 'COLOUR'}


@pytest.mark.skipif(os.geteuid() != 0, reason='only root becomes another user')
def test_the_command_runs_as_its_user_and_can_be_ended(tmp_path):
    code = 'id -un >&2; id -Gn | tr " " "\\n" | wc -l; exec sleep 600'
    with pytest.raises(errors.BuildFailed) as failed:
        driver(f"sh -c '{code}'", timeout_s=1.0, exec_user='nobody').create(job(), job().spec)
    assert failed.value.stderr == 'nobody\n'
    assert failed.value.why == 'create has taken longer than 1 s'


def test_a_command_that_succeeds_may_complain(tmp_path):
    made = driver(script(tmp_path, 'echo warning >&2'))
    assert made.create(job(), job().spec) is None


def test_a_command_need_not_read_what_it_is_told(tmp_path):
    large = job(alternates='x' * 1_000_000)
    assert driver('true').create(large, large.spec) is None


def test_no_shell_reads_the_command(tmp_path):
    driver(f'echo x; touch {tmp_path}/made').create(job(), job().spec)
    assert not (tmp_path / 'made').exists()


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(errors.BadConfig, match='there is no program /nowhere/build'):
        driver('/nowhere/build')


def test_a_command_that_is_removed_later_is_named(tmp_path):
    command = tmp_path / 'build'
    command.write_text('#!/bin/sh\n')
    command.chmod(0o755)
    made = driver(str(command))
    command.unlink()
    with pytest.raises(errors.BuildFailed, match='build cannot be run: No such file or directory'):
        made.create(job(), job().spec)


def is_running(pid_file):
    """Whether the process runs whose number a file has."""
    try:
        state = Path(f'/proc/{pid_file.read_text().strip()}/stat').read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(')')[2].split()[0] != 'Z'


def written(path):
    return path.exists() and bool(path.read_text().strip())


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path):
    child = tmp_path / 'child'
    command = script(tmp_path, f'sleep 600 & echo $! > {child}; wait')
    assert why_not(command, timeout_s=0.5) == 'create has taken longer than 0.5 s'
    eventually(lambda: not is_running(child))


def test_a_child_that_is_left_behind_is_not_waited_for(tmp_path):
    child = tmp_path / 'child'
    driver(script(tmp_path, f'sleep 600 & echo $! > {child}')).create(job(), job().spec)
    assert is_running(child)
    os.kill(int(child.read_text()), signal.SIGKILL)


def test_the_end_of_the_agent_ends_commands(tmp_path):
    own = tmp_path / 'own'
    made, failed = driver(script(tmp_path, f'echo $$ > {own}; exec sleep 600')), []

    def build():
        try:
            made.create(job(), job().spec)
        except errors.BuildFailed as error:
            failed.append(error.args[1])

    thread = threading.Thread(target=build)
    thread.start()
    eventually(lambda: written(own))
    made.close()
    thread.join(PATIENCE_S)
    assert failed == ['create was ended by signal 9']
    assert not is_running(own)
    with pytest.raises(errors.BuildFailed, match='the agent ends'):
        made.create(job(), job().spec)


def test_several_commands_run_at_the_same_time(tmp_path):
    # Each waits for the other's file.
    text = f'touch {tmp_path}/$2; while [ $(ls {tmp_path} | wc -l) -lt 3 ]; do sleep 0.01; done'
    made = driver(script(tmp_path, text), timeout_s=PATIENCE_S)
    threads = [
        threading.Thread(target=made.create, args=(job(name), job().spec))
        for name in ('one', 'two')
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(list(tmp_path.iterdir())) == 3


# The user of commands, tried for real.


USER = 'nobody'
TRUE = '/bin/true'
root_only = pytest.mark.skipif(os.geteuid() != 0, reason='only root becomes another user')


def printed(*command, **options):
    """Return what a command prints."""
    return subprocess.run(
        command, capture_output=True, text=True, check=True, **options
    ).stdout.strip()


@root_only
def test_commands_run_as_the_user_with_its_groups():
    options = commands.user_options(USER, TRUE)
    name, group, groups = printed('sh', '-c', 'id -un; id -gn; id -Gn', **options).split('\n')
    found = pwd.getpwnam(USER)
    assert (name, group) == (USER, grp.getgrgid(found.pw_gid).gr_name)
    wanted = {grp.getgrgid(one).gr_name for one in os.getgrouplist(USER, found.pw_gid)}
    assert set(groups.split()) == wanted


@pytest.mark.parametrize('name', [None, pwd.getpwuid(os.geteuid()).pw_name])
def test_the_user_of_the_agent_needs_nothing(name):
    assert commands.user_options(name, TRUE) == {}


def test_an_unknown_user_is_refused():
    with pytest.raises(errors.BadConfig, match='exec_user: there is no user no-such-user'):
        commands.user_options('no-such-user', TRUE)


@root_only
def test_a_program_that_the_user_may_not_run_is_refused(tmp_path):
    program = tmp_path / 'build'
    program.write_text('#!/bin/sh\n')
    program.chmod(0o700)
    with pytest.raises(errors.BadConfig, match=f'user {USER} may not run {program}'):
        commands.user_options(USER, str(program))


CHECK = """
import {before}
from nova_sched import errors
from nova_sched.extensions.queues.drivers import exec as commands
from nova_sched.tests.rows import each, each_afresh
{then}
try:
    print(commands.user_options({user!r}, '/bin/true'))
except errors.BadConfig as error:
    print(error)
"""


@root_only
def test_an_agent_that_is_not_root_is_refused():
    """The check runs in a process that has given up its capabilities."""
    then = 'os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)'
    code = CHECK.format(before='os', then=then, user='daemon')
    said = printed(sys.executable, '-c', code)
    assert 'the agent cannot run commands as daemon: Operation not permitted' in said
    assert 'CAP_SETUID, CAP_SETGID and CAP_KILL' in said


@table(
    'wanted, found',
    {
        'nothing': ([], {}),
        'a variable of the agent': (['HERE'], {'HERE': 'here'}),
        'one that is missing': (['NOT_HERE'], {}),
        'values': (['A=1', 'B=x=y', 'C='], {'A': '1', 'B': 'x=y', 'C': ''}),
        'a value goes first': (['HERE=there'], {'HERE': 'there'}),
    },
)
def test_environment(monkeypatch, wanted, found):
    monkeypatch.setenv('HERE', 'here')
    monkeypatch.delenv('NOT_HERE', raising=False)
    assert commands.environment(wanted) == found


@each('item', ['', '=1', 'TWO WORDS', '1A=b', 'A-B'])
def test_what_names_no_variable_is_refused(item):
    with pytest.raises(errors.BadConfig, match='is neither NAME nor NAME=value'):
        commands.environment([item])


# What is kept of a command's output, and how much of the disk it takes.


@table(
    'written, text',
    {
        'nothing': (b'', ''),
        'lines': (b'a\nb\tc\n', 'a\nb\tc\n'),
        'the end of a long text': (b'x' * TAIL + b'y', 'x' * (TAIL - 1) + 'y'),
        'no text': (b'\xff\xc3\xbc', '\ufffd\u00fc'),
        'what steers a terminal': (b'\x1b[2J\0', '\ufffd[2J\ufffd'),
    },
)
def test_text(written, text):
    with CommandOutput() as output:
        os.write(output.file.fileno(), written)
        assert output.text == text


def test_a_command_that_prints_without_end_takes_a_bounded_disk():
    with CommandOutput() as output:
        for number in range(3):
            size = MAX_ON_DISK + 1
            command = f'head -c {size} /dev/zero | tr "\\0" x; echo {number}'
            subprocess.run(['sh', '-c', command], stdout=output.file, check=True)
            output.bound()
            assert os.fstat(output.file.fileno()).st_size <= TAIL
        assert output.text.endswith('xx2\n')


def test_a_short_text_stays():
    with CommandOutput() as output:
        os.write(output.file.fileno(), b'x' * MAX_ON_DISK)
        output.bound()
        assert os.fstat(output.file.fileno()).st_size == MAX_ON_DISK
