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
"""What the requests of one process share: waits for other services that are short and few, so that
they never take all threads, and the rate of plans."""

import contextlib
import functools
import math
import threading
import time

import limits
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from nova_sched import errors

AWAY_S = 10.0  # for which a service that did not answer is not asked again
PLACE_S = 1.0  # to wait while as many wait for a service as may


class Service:
    """Another service that requests wait for. May be used from any thread.

    ``places``: requests that wait for it at the same time. After a call that it did not answer,
    the calls of the next AWAY_S seconds fail at once; then one of them tries.
    """

    def __init__(self, name, places, clock=time.monotonic):
        self._name, self._clock = name, clock
        self._places, self._lock = threading.Semaphore(places), threading.Lock()
        self._away_until_s = -math.inf

    def calls(self, client, patience_s=math.inf):
        """The client, with calls that wait as this class says. A call without an answer that took
        ``patience_s`` or longer says nothing about the service: it may have been at work."""
        return _Calls(self, client, patience_s)

    @contextlib.contextmanager
    def place(self):
        """One of the places. Raise ServiceBusy."""
        if not self._places.acquire(timeout=PLACE_S):
            raise errors.ServiceBusy(self._name)
        try:
            yield
        finally:
            self._places.release()

    def call(self, name, patience_s, method, /, *args, **kwargs):
        """The answer of a method of that name. Raise NoAnswer or ServiceBusy."""
        self._check(name)
        with self.place():
            begun_s = self._clock()
            try:
                answer = method(*args, **kwargs)
            except errors.NoAnswer:
                now_s = self._clock()
                if now_s - begun_s < patience_s:
                    self._away_until_s = now_s + AWAY_S
                raise
            except errors.SchedError:
                self._away_until_s = -math.inf
                raise
            self._away_until_s = -math.inf
            return answer

    def _check(self, name):
        """Raise NoAnswer if the service is away."""
        with self._lock:
            now_s = self._clock()
            if now_s < self._away_until_s:
                raise errors.NoAnswer(name, f'the {self._name} did not answer just before')
            if self._away_until_s > -math.inf:  # this call tries; the others do not meanwhile
                self._away_until_s = now_s + AWAY_S


class _Calls:
    def __init__(self, service, client, patience_s):
        self._service, self._client, self._patience_s = service, client, patience_s

    def __getattr__(self, name):
        method = getattr(self._client, name)
        return functools.partial(self._service.call, name, self._patience_s, method)


class PlanRateLimit:
    """Limits how often a project may change groups and ask for plans. Each process of the API
    counts for itself.

    ``rate`` is as in [api] plan_rate; '' sets no limit. May be used from any thread.
    ``option`` is the one that has the rate. Raises BadConfig for a rate that cannot be understood.
    """

    def __init__(self, rate, option='[api] plan_rate'):
        try:
            self._rate = limits.parse(rate) if rate.strip() else None
        except ValueError as error:
            raise errors.BadConfig(option, str(error)) from None
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def count(self, policy, context):
        """Count one request of a caller, before anything is done for it. Raise RateLimited."""
        if not policy.allows(context, 'groups:any_rate'):
            self.take(context.project_id)

    def take(self, project_id):
        """Count one request of a project. Raise RateLimited."""
        if self._rate is None or self._limiter.hit(self._rate, project_id or ''):
            return
        until_s = self._limiter.get_window_stats(self._rate, project_id or '').reset_time
        retry_s = max(1, math.ceil(until_s - time.time()))
        raise errors.RateLimited(str(self._rate), retry_s)


class Limits:
    """What the requests of one process share, to the API and to the dashboard alike.

    ``plans`` counts requests for plans. ``schedulers``, ``queue_managers`` and ``keystone`` are
    waited for, altogether, in fewer threads than ``threads_of`` returns. Raises BadConfig.
    """

    def __init__(self, conf):
        threads = conf.api.threads
        self.plans = PlanRateLimit(conf.api.plan_rate)
        self.schedulers = Service('schedulers', threads)
        self.queue_managers = Service('managers of queues', max(1, threads // 4))
        self.keystone = Service('identity service', max(1, threads // 2))


def threads_of(conf):
    """How many threads answer requests, so that some are left when others wait for a service, or
    for changes that a page shows."""
    streams = conf.dashboard.streams if 'dashboard' in conf else 0
    return 2 * conf.api.threads + 2 + streams
