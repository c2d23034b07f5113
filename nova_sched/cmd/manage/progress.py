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


@contextlib.contextmanager
def shown(what):
    """Show ``what`` with a moving sign on standard error, if that is a terminal, and remove it at
    the end."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # late: most commands are done at once

    with Console(stderr=True).status(what):
        yield
