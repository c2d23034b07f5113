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
"""What the tests of the worker process have it do."""

import os
import signal
import sys
import time


def echo(*arguments, seconds):
    return *arguments, seconds


def pid(seconds):
    return os.getpid()


def sleep(nap_s, seconds):
    time.sleep(nap_s)
    return 'slept'


def begin(path, nap_s, seconds):
    """Tell by a file that the task has begun; then it takes long."""
    with open(path, 'x'):
        time.sleep(nap_s)


def wait_for_file(path, seconds):
    while not os.path.exists(path):
        time.sleep(0.01)
    return 'found'


def die(seconds):
    os.kill(os.getpid(), signal.SIGKILL)


def fail(seconds):
    raise ValueError('a bad day')


def chatter(seconds):
    """What native code may do: write to standard output."""
    os.write(1, b'noise' * 100)
    return 'said'


def loaded(seconds):
    return sorted(name for name in ('ortools', 'eventlet') if name in sys.modules)
