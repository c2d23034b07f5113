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
"""nova-sched-manage: the command line tool of operators. One file for each noun, one function for
each verb."""

import os

from nova_sched.cmd import backend, startup
from nova_sched.cmd.manage import commands


def main(argv=None):
    backend.ignore_eventlet()  # commands run on native threads
    if '_ARGCOMPLETE' in os.environ:  # the shell asks for the words that may come next
        import argcomplete  # late: a command that runs does not need it

        argcomplete.autocomplete(commands.parser(os.environ['COMP_LINE'].split()))
    args = commands.parser().parse_args(argv)
    commands.log(args.debug)
    return startup.guarded(lambda: commands.run(args))
