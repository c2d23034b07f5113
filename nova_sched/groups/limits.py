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
"""Time limits for each part of a plan, and for reading a template."""

import dataclasses
import time

from nova_sched import errors


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for the greedy search, and for the solver's repair, improvement and explanation."""

    greedy_s: float = 0.2
    repair_s: float = 1.0
    improve_s: float = 1.0
    explain_s: float = 2.0


class Allowance:
    """The time for one template: from its text to requests for hosts, in the thread that makes
    this.

    A text within all size limits may still require a lot of work. Only the thread's CPU time
    counts, so that a busy machine refuses no template.
    """

    def __init__(self, seconds: float = 2.0):
        self._seconds = seconds
        self._end_s = time.thread_time() + seconds

    def check(
        self, where: str = 'template', line: int | None = None, column: int | None = None
    ) -> None:
        """Raises TemplateError when the time is used up."""
        if time.thread_time() > self._end_s:
            why = f'it takes longer than {self._seconds:g} s to read; ask for less'
            raise errors.TemplateError(where, line, column, why)
