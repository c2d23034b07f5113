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
"""`--watch`: repeats a verb until the operator interrupts it."""

import sys
from time import sleep

from nova_sched import errors
from nova_sched.cmd.manage import output

CLEAR = '\033[H\033[2J'  # ECMA-48: the cursor to the top left, and the screen empty


def repeat(verb, each_s, clears):
    """Run ``verb`` each so many seconds. A failure is printed, and the next run follows. Returns
    the exit status of the last run."""
    status = 0
    try:
        while True:
            if clears and sys.stdout.isatty():
                print(CLEAR, end='')
            try:
                status = verb()
            except errors.BadConfig:
                raise
            except errors.SchedError as error:
                status = 1
                output.complain(error)
            sleep(each_s)
    except KeyboardInterrupt:
        return status
