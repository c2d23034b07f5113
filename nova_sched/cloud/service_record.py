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
"""Keeps the record of this scheduler among Nova's services, for operators and monitoring."""

import logging
import time
import uuid

from nova_sched import errors

LOG = logging.getLogger(__name__)


class ServiceRecord:
    """Writes heartbeats. No server depends on them: without write access there are none.

    ``records`` is a SqlServiceRecords. ``interval_s`` returns the seconds between two heartbeats.
    """

    def __init__(self, records, host, interval_s, monotonic=time.monotonic):
        self._records, self._host, self._interval_s = records, host, interval_s
        self._monotonic, self._due_s = monotonic, float('-inf')
        self._uuid = str(uuid.uuid4())
        self._may_write = True

    def write(self):
        """Write a heartbeat, if one is due. Raises StoreUnavailable."""
        now_s = self._monotonic()
        if not self._may_write or now_s < self._due_s:
            return
        try:
            self._records.write(self._host, self._uuid)
            self._due_s = now_s + self._interval_s()
        except errors.BadConfig as error:
            self._may_write = False
            LOG.warning(
                'The record of service nova-scheduler on host %s cannot be written: %s. Operators '
                'see it as down',
                self._host,
                error,
            )
