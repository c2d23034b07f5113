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
"""Traces one warm `select_destinations` through the daemon: the functions it calls, in order.

    python -m nova_sched.tests.functional.warm_boot
    python -m nova_sched.tests.functional.warm_boot --all

Without ``--all`` values and rules (packages in ``VALUES``) are only counted.
"""

import argparse
import itertools
import pathlib
import sys
import tempfile
import threading
import time

import nova_sched
from nova_sched.tests.functional.harness import eventually, running

ROOT = pathlib.Path(nova_sched.__file__).parent
# What a decision reads and asks, as against how it comes about.
VALUES = frozenset('claim.py objects state filters weighers conf'.split())
ENGINE, BACKGROUND = 'nova-sched-engine', 'nova-sched-'
WARM_UP, TRACED = 3, 10  # boots
REST_S = 0.05  # until the engine waits for the next message


class Trace:
    """Notes functions of the package that the threads of a daemon enter.

    Threads that start while it is entered are traced, but for those that work in the background
    (all of the package's own but the engine). Comprehensions are no functions.
    """

    def __init__(self):
        self._calls = {}
        self._is_on = False

    def __enter__(self):
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_):
        threading.setprofile(None)

    def of(self, daemon, work, *args):
        """The (file, function) pairs that are entered while ``work`` runs, and until the engine
        has nothing left to do for it: each once, in order."""
        self._calls, self._is_on = {}, True
        work(*args)
        eventually(lambda: not daemon.service.scheduler.loop.is_busy)
        time.sleep(REST_S)
        self._is_on = False
        return list(self._calls)

    def _note(self, frame, event, _):
        code = frame.f_code
        if not self._is_on or event != 'call' or code.co_name.startswith('<'):
            return
        path = pathlib.PurePath(code.co_filename)
        if not path.is_relative_to(ROOT) or path.is_relative_to(ROOT / 'tests'):
            return
        name = threading.current_thread().name
        if name.startswith(BACKGROUND) and name != ENGINE:
            return
        self._calls[str(path.relative_to(ROOT)), code.co_qualname] = None


def is_value(path):
    """Whether a file, relative to the package, holds values or rules."""
    return path.partition('/')[0] in VALUES


def counts(calls):
    """(files, functions) of these calls."""
    return len({path for path, _ in calls}), len(calls)


def trace(folder):
    """The (file, function) pairs that one warm boot enters, in the order of their first calls."""
    with Trace() as made, running('fake://', folder) as daemon:
        daemon.add('host-0', 'host-1')
        for number in range(WARM_UP):
            daemon.boot(f'warm {number}')
        # The engine may poll the store during one of them.
        return min(
            (made.of(daemon, daemon.boot, f'traced {number}') for number in range(TRACED)), key=len
        )


def told(calls):
    """The calls as lines, each file once in a row with its functions."""
    for path, some in itertools.groupby(calls, lambda call: call[0]):
        yield f'{path}: {", ".join(name for _, name in some)}'


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--all', action='store_true', help='values and rules, too')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        calls = trace(pathlib.Path(folder))
    spine = [call for call in calls if not is_value(call[0])]
    print(*told(calls if args.all else spine), sep='\n')
    for name, some in ('all', calls), ('besides values and rules', spine):
        print('{}: {} files, {} functions'.format(name, *counts(some)))
    return 0


if __name__ == '__main__':
    sys.exit(main())
