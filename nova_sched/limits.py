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
"""Limits of projects from the configured source: none, the table, or Keystone."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nova_sched.conf import quota

KEPT_S = 5.0  # seconds for which an answer is cached
MAX_CACHED = 10_000  # projects whose answers are cached

Limits = Callable[[str], Mapping[str, int]]


class OwnLimits(Protocol):
    """The part of the job table, or of the claim store, that provides limits."""

    def limits(self, project_id: str) -> Mapping[str, int]: ...


def limits(
    conf: Any, own_limits: OwnLimits, clock: Callable[[], float] = time.monotonic
) -> Limits:
    """Return a function of a project's limits by resource: -1, or not named, is no limit.
    Placement groups have limits by default, whatever the source names.

    It raises StoreUnavailable if the table is unavailable, LimitsUnknown if Keystone is, and
    BadConfig if Keystone cannot provide limits with this configuration. An answer is cached for
    KEPT_S. ``conf`` is read now; ``clock`` counts seconds.
    """
    driver, defaults = conf.quota.driver, {**quota.PLANS, **conf.quota.limits}
    if driver == quota.NONE:
        return lambda project_id: {}
    if driver == quota.TABLE:
        return _CachedLimits(
            lambda project_id: {**defaults, **own_limits.limits(project_id)}, clock
        )
    # Not at the top: its imports take as long as all the others together.
    from nova_sched import unified_limits

    return _CachedLimits(unified_limits.KeystoneLimits(conf), clock)


class _CachedLimits:
    """A cache of answers. May be used from any thread."""

    def __init__(self, ask: Limits, clock: Callable[[], float]) -> None:
        self._ask, self._clock = ask, clock
        self._cache: dict[str, tuple[float, Mapping[str, int]]] = {}

    def __call__(self, project_id: str) -> Mapping[str, int]:
        now_s, known = self._clock(), self._cache.get(project_id)
        if known is not None and now_s - known[0] < KEPT_S:
            return known[1]
        of_project = self._ask(project_id)
        if len(self._cache) >= MAX_CACHED:
            self._cache = {}
        self._cache[project_id] = now_s, of_project
        return of_project
