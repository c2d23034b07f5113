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
"""Tasks for the processes that read templates, most of which end them."""

import os
import signal
import time

from nova_sched import errors


def pid(seconds):
    return os.getpid()


def memory(seconds):
    return len(bytearray(2**32))


def memory_bit_by_bit(seconds):
    held = []
    while True:
        held.append('x' * 10**6 + str(len(held)))


def forever(seconds):
    while True:
        pass


def asleep(seconds):
    time.sleep(600)


def killed(seconds):
    os.kill(os.getpid(), signal.SIGKILL)


def broken(seconds):
    raise KeyError('x')


def refused(seconds):
    raise errors.TemplateError('a.b', 3, 4, 'no')


def large(seconds):
    return bytes(2**26)


def deep(seconds):
    return deep(seconds)


def threads(seconds):
    import numpy  # noqa: F401, its library starts threads

    return len(os.listdir('/proc/self/task'))


def slow(seconds):
    time.sleep(0.2)
    return time.monotonic()


def wait_for(path, seconds):
    while not os.path.exists(path):
        time.sleep(0.01)
