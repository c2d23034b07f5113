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
"""What a scheduler does after each look at Nova, such as to write its service record."""

import logging
from collections.abc import Callable, Mapping

from nova_sched import errors
from nova_sched.logs import Problems

LOG = logging.getLogger(__name__)


class AfterLook:
    """Steps that are tried each on its own: one that fails keeps no other from its turn.

    ``steps`` are called with whether the look has compared, in this order, by the names that the
    log has for them.
    """

    def __init__(self, steps: Mapping[str, Callable[[bool], object]]):
        self._steps = steps
        self._problems = Problems(LOG)

    def run(self, has_compared: bool) -> None:
        """Run all steps. Raises nothing."""
        for name, step in self._steps.items():
            self._try(name, step, has_compared)

    def _try(self, name: str, step: Callable[[bool], object], has_compared: bool) -> None:
        try:
            step(has_compared)
        except errors.SchedError as error:
            self._problems.begin(
                name, '%s has failed: %s; it is tried again after each look', name, error
            )
        except Exception:
            LOG.exception('%s has failed with an unexpected error; it is tried again', name)
        else:
            self._problems.end(name, '%s succeeds again', name)
