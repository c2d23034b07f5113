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
"""`completion`: scripts with which shells complete the words of nova-sched-manage."""

import argcomplete

from nova_sched.cmd.manage import commands

PROGRAM = 'nova-sched-manage'


def bash(_args, _conf):
    """Print the script for bash

    To use it: source <(nova-sched-manage completion bash)
    """
    return _print('bash')


def zsh(_args, _conf):
    """Print the script for zsh

    To use it: source <(nova-sched-manage completion zsh)
    """
    return _print('zsh')


def fish(_args, _conf):
    """Print the script for fish

    To use it: nova-sched-manage completion fish | source
    """
    return _print('fish')


def complete(words):
    """Write the words that may come next where the shell reads them, and end the process."""
    argcomplete.autocomplete(commands.parser(words))


def _print(shell):
    print(argcomplete.shellcode([PROGRAM], shell=shell))
    return 0


VERBS = (('bash', bash), ('zsh', zsh), ('fish', fish))
