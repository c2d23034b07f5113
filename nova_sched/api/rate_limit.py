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
"""Limits how often a project may change groups and ask for plans. Each process of the API counts
for itself."""

import math
import time

import limits
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from nova_sched import errors


class PlanRateLimit:
    """``rate`` is as in [api] plan_rate; '' is no limit. May be used from any thread.

    ``option`` is the one that has the rate. Raises BadConfig for a rate that cannot be understood.
    """

    def __init__(self, rate, option='[api] plan_rate'):
        try:
            self._rate = limits.parse(rate) if rate.strip() else None
        except ValueError as error:
            raise errors.BadConfig(option, str(error)) from None
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def count(self, policy, context):
        """Count one request of a caller, before anything is done for it. Raises RateLimited."""
        if not policy.allows(context, 'groups:any_rate', context.project_id, context.user_id):
            self.take(context.project_id)

    def take(self, project_id):
        """Count one request of a project. Raises RateLimited."""
        if self._rate is None or self._limiter.hit(self._rate, project_id or ''):
            return
        until_s = self._limiter.get_window_stats(self._rate, project_id or '').reset_time
        retry_s = max(1, math.ceil(until_s - time.time()))
        raise errors.RateLimited(str(self._rate), retry_s)
