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
"""The calls of a worker during a job: to the shared claims, and to the driver."""

import logging
import math
from collections.abc import Callable, Generator
from typing import Any

from nova_sched import errors
from nova_sched.queues.drivers import Driver
from nova_sched.queues.node.hands import Task
from nova_sched.queues.node.site import Claims
from nova_sched.queues.node.steps import CLAIMS, DRIVER, Call, Pause, Step

LOG = logging.getLogger(__name__)

RETRY_S = 2.0  # seconds before a call to the claims without an answer is repeated
NO_ANSWER = (errors.NoAnswer, errors.StoreUnavailable, errors.StoreFull)


class Asking:
    """For the jobs on one host."""

    def __init__(self, claims: Claims, driver: Driver, host: str):
        self._claims, self._driver, self._host = claims, driver, host

    def claims(
        self,
        call: Callable[[], Any],
        patience_s: float = math.inf,
        passing: tuple[type[errors.SchedError], ...] = NO_ANSWER,
    ) -> Generator[Step, Any, Any]:
        """Returns the answer of the claims; repeats the call until they answer.

        Raises their refusal, unless that is ``passing``; NoAnswer after ``patience_s`` seconds.
        """
        waited_s = 0.0
        while True:
            try:
                return (yield Call(CLAIMS, call))
            except Exception as error:
                if isinstance(error, errors.SchedError) and not isinstance(error, passing):
                    raise
                if waited_s >= patience_s:
                    raise errors.NoAnswer('claims', str(error)) from error
                if not waited_s:
                    LOG.warning('The claims are asked again until they answer: %s', error)
            yield Pause(RETRY_S)
            waited_s += RETRY_S

    def confirm(self, task: Task) -> Generator[Step, Any, list[Any]]:
        """Confirm the instance's claim here, which decides which worker has built it.

        Raises ClaimNotFound.
        """
        return (yield from self.claims(lambda: self._claims.confirm_claim(task.uuid, self._host)))

    def abort(self, task: Task) -> Generator[Step, Any, None]:
        """End its claim on this host, if there is one."""
        try:
            yield from self.claims(lambda: self._claims.abort_claim(task.uuid, self._host))
        except errors.ClaimNotFound:
            LOG.debug('Instance %s has no claim here', task.uuid)

    def revert(self, task: Task) -> Generator[Step, Any, None]:
        """End its claim of another size, if there is one."""
        try:
            yield from self.claims(lambda: self._claims.revert_claim(task.uuid))
        except errors.ClaimNotFound:
            LOG.debug('Instance %s has no claim of two sizes', task.uuid)

    def driver(self, call: Callable[[], None]) -> Generator[Step, Any, None]:
        """Run a call of the driver. Raises BuildFailed for each error of the driver."""
        try:
            yield Call(DRIVER, call)
        except errors.BuildFailed:
            raise
        except Exception as error:
            LOG.exception('The driver has failed with an unexpected error')
            raise errors.BuildFailed(self._host, f'{type(error).__name__}: {error}') from error

    def clean(self, task: Task) -> Generator[Step, Any, None]:
        """Have the driver remove a complete or partial build."""
        try:
            yield from self.driver(lambda: self._driver.destroy(task.job, task.uuid))
        except errors.BuildFailed as error:
            LOG.error('The remains of instance %s cannot be removed: %s', task.uuid, error)
