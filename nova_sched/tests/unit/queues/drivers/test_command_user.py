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
"""The user of commands, tried for real."""

import grp
import os
import pwd
import subprocess
import sys

import pytest

from nova_sched import errors
from nova_sched.queues.drivers import command_user

USER = 'nobody'
TRUE = '/bin/true'
root_only = pytest.mark.skipif(os.geteuid() != 0, reason='only root becomes another user')


def run(code, options, **words):
    """Run Python code as such a user; what it prints."""
    done = subprocess.run(
        [sys.executable, '-c', code],
        capture_output=True,
        text=True,
        check=True,
        **options,
        **words,
    )
    return done.stdout.strip()


def id_of(options):
    return subprocess.run(
        ['sh', '-c', 'id -un; id -gn; id -Gn'],
        capture_output=True,
        text=True,
        check=True,
        **options,
    ).stdout.split('\n')[:3]


@root_only
def test_commands_run_as_the_user_with_its_groups():
    name, group, groups = id_of(command_user.options(USER, TRUE))
    found = pwd.getpwnam(USER)
    assert (name, group) == (USER, grp.getgrgid(found.pw_gid).gr_name)
    wanted = {grp.getgrgid(one).gr_name for one in os.getgrouplist(USER, found.pw_gid)}
    assert set(groups.split()) == wanted


@pytest.mark.parametrize('name', [None, pwd.getpwuid(os.geteuid()).pw_name])
def test_the_user_of_the_agent_needs_nothing(name):
    assert command_user.options(name, TRUE) == {}


def test_an_unknown_user_is_refused():
    with pytest.raises(errors.BadConfig, match='exec_user: there is no user no-such-user'):
        command_user.options('no-such-user', TRUE)


@root_only
def test_a_program_that_the_user_may_not_run_is_refused(tmp_path):
    program = tmp_path / 'build'
    program.write_text('#!/bin/sh\n')
    program.chmod(0o700)
    with pytest.raises(errors.BadConfig, match=f'user {USER} may not run {program}'):
        command_user.options(USER, str(program))


CHECK = """
import {before}
from nova_sched import errors
from nova_sched.queues.drivers import command_user
{then}
try:
    print(command_user.options({user!r}, '/bin/true'))
except errors.BadConfig as error:
    print(error)
"""


@root_only
def test_an_agent_that_is_not_root_is_refused():
    """The check runs in a process that has given up its capabilities."""
    then = 'os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)'
    said = run(CHECK.format(before='os', then=then, user='daemon'), {})
    assert 'the agent cannot run commands as daemon: Operation not permitted' in said
    assert 'CAP_SETUID, CAP_SETGID and CAP_KILL' in said


@pytest.mark.parametrize(
    'wanted, found',
    [
        pytest.param([], {}, id='nothing'),
        pytest.param(['HERE'], {'HERE': 'here'}, id='a variable of the agent'),
        pytest.param(['NOT_HERE'], {}, id='one that is missing'),
        pytest.param(['A=1', 'B=x=y', 'C='], {'A': '1', 'B': 'x=y', 'C': ''}, id='values'),
        pytest.param(['HERE=there'], {'HERE': 'there'}, id='a value goes first'),
    ],
)
def test_environment(monkeypatch, wanted, found):
    monkeypatch.setenv('HERE', 'here')
    monkeypatch.delenv('NOT_HERE', raising=False)
    assert command_user.environment(wanted) == found


@pytest.mark.parametrize('item', ['', '=1', 'TWO WORDS', '1A=b', 'A-B'])
def test_what_names_no_variable_is_refused(item):
    with pytest.raises(errors.BadConfig, match='is neither NAME nor NAME=value'):
        command_user.environment([item])
