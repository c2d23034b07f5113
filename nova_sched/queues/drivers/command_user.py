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
"""The user that runs the commands of the driver `exec`, and the environment that they see."""

import contextlib
import os
import pwd
import re
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from nova_sched import errors

USER, ENVIRONMENT = '[queues] exec_user', '[queues] exec_environment'
VARIABLE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')


def options(name: str | None, program: str) -> dict[str, Any]:
    """Returns the options with which ``subprocess`` runs a program as this user, with its groups.

    None, or the user of this process: none. Raises BadConfig if there is no such user, or if this
    process cannot run the program as that user, or not end it.
    """
    if name is None:
        return {}
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise errors.BadConfig(USER, f'there is no user {name} on this machine') from None
    if (found.pw_uid, found.pw_gid) == (os.geteuid(), os.getegid()):
        return {}
    groups = os.getgrouplist(name, found.pw_gid)
    chosen = {'user': found.pw_uid, 'group': found.pw_gid, 'extra_groups': groups, 'cwd': '/'}
    _try(name, program, chosen)
    return chosen


def _try(name: str, program: str, chosen: dict[str, Any]) -> None:
    """Run a program as the user, and end it. Raises BadConfig."""
    try:
        may_run = subprocess.run(['test', '-x', program], check=False, **chosen).returncode == 0
        waiting = subprocess.Popen(['cat'], stdin=subprocess.PIPE, **chosen)
        with waiting, contextlib.ExitStack() as stack:
            stack.callback(waiting.communicate)  # it ends with its input, if the signal fails
            waiting.send_signal(signal.SIGKILL)
    except OSError as error:
        why = (
            f'the agent cannot run commands as {name}: {error.strerror}. Let it run as root, or '
            'with the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL (and, under systemd, '
            'PrivateUsers=no)'
        )
        raise errors.BadConfig(USER, why) from None
    if not may_run:
        raise errors.BadConfig(USER, f'user {name} may not run {program}')


def environment(wanted: Sequence[str]) -> dict[str, str]:
    """Returns the variables of commands: each of ``wanted`` is NAME=value, or the NAME of a
    variable of this process, which may be missing. Raises BadConfig."""
    found = {}
    for item in wanted:
        name, is_given, value = item.partition('=')
        if not VARIABLE.fullmatch(name):
            why = f'{item!r} is neither NAME nor NAME=value'
            raise errors.BadConfig(ENVIRONMENT, why)
        if is_given:
            found[name] = value
        elif name in os.environ:
            found[name] = os.environ[name]
    return found
