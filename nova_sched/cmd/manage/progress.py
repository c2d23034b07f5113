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

"""A sign on the terminal that a command still works."""

import contextlib
import sys
import threading

QUIET_S = 2  # seconds until it is shown


class Sign:
    """A moving sign on standard error, if that is a terminal, until the first output. It starts
    after QUIET_S."""

    def __init__(self, what, after_s=QUIET_S):
        self._what, self._shown = what, None
        self._lock = threading.Lock()
        self._timer = threading.Timer(after_s, self._show)
        self._timer.daemon = True
        if sys.stderr.isatty():
            self._timer.start()

    @property
    def is_shown(self):
        return self._shown is not None

    def _show(self):
        from rich.console import Console  # late: most commands are done at once
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._timer.finished.is_set():
                return
            columns = SpinnerColumn(), TextColumn('{task.description}'), TimeElapsedColumn()
            self._shown = Progress(
                *columns, console=Console(stderr=True), transient=True, redirect_stdout=False
            )
            self._shown.add_task(self._what, total=None)
            self._shown.start()

    def end(self):
        """Remove the sign, or do not show it at all."""
        self._timer.cancel()
        with self._lock:
            if self._shown is not None:
                self._shown.stop()
                self._shown = None


@contextlib.contextmanager
def shown(args, what):
    """Show a Sign during the block, and as ``args.sign``."""
    args.sign = Sign(what)
    try:
        yield
    finally:
        args.sign.end()
