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
"""The driver that only waits, and fails at a configured rate: for trials, tests and
simulations."""

import hashlib
import threading
from typing import Any

from nova_sched import errors
from nova_sched.extensions.queues.drivers import Driver
from nova_sched.objects.job import QueueJob

DIGITS = 8  # bytes of a digest, as a number


class Fake(Driver):
    """Each job takes ``fake_seconds``; the share ``fake_failures`` of all jobs except removals
    fails.

    With the same seed, the same jobs fail: that depends only on host, kind and instance.
    ``instances`` are those that it has built.
    """

    def __init__(self, settings: Any, host: str):
        super().__init__(settings, host)
        self.instances = set[str]()
        self._ended = threading.Event()

    def create(self, job: QueueJob, spec: Any) -> None:
        self._work('create', job.instance_uuid)
        self.instances.add(job.instance_uuid)

    def destroy(self, job: QueueJob | None, instance_uuid: str) -> None:
        self._wait()
        self.instances.discard(instance_uuid)

    def resize(self, job: QueueJob, spec: Any) -> None:
        self._work('resize', job.instance_uuid)

    def migrate(self, job: QueueJob, spec: Any, source: str | None) -> None:
        self._work('migrate', job.instance_uuid)
        self.instances.add(job.instance_uuid)

    def close(self) -> None:
        self._ended.set()

    def _work(self, kind: str, instance_uuid: str) -> None:
        self._wait()
        text = f'{self.settings.seed} {self.host} {kind} {instance_uuid}'
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:DIGITS])
        if number / 256**DIGITS < self.settings.fake_failures:
            raise errors.BuildFailed(
                self.host, f'the driver fake was told to fail: {kind} {instance_uuid}'
            )

    def _wait(self) -> None:
        if self.settings.fake_seconds:
            self._ended.wait(self.settings.fake_seconds)
