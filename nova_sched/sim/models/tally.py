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
"""The counts of a run of either model, its samples, and its processor time by component."""

import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nova_sched.claim import MEMORY_MB, VCPU
from nova_sched.sim.replay import short
from nova_sched.sim.trace import TraceFlavor

# A conductor; a manager of queues; the scheduler's decisions; claims of workers and managers;
# reports of nodes; work that only serves the measurement; and the rest: workers with their broker.
CONDUCTOR, MANAGER, SCHEDULER, CLAIMS, REPORTS, RANKING, WORKERS = PARTS = (
    'conductor',
    'manager',
    'scheduler',
    'claims',
    'reports',
    'ranking',
    'workers',
)


class Meter:
    """Seconds of processor time by part; a nested measurement counts only for the inner part."""

    def __init__(self, clock: Callable[[], float] = time.process_time):
        self.seconds: collections.Counter[str] = collections.Counter()
        self._clock, self._part, self._since_s = clock, WORKERS, clock()

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Counts the time in the context for that part."""
        before = self._turn(part)
        try:
            yield
        finally:
            self._turn(before)

    def clear(self) -> None:
        """Starts again from zero."""
        self._turn(self._part)
        self.seconds.clear()

    def total(self) -> float:
        """Returns the seconds of all parts until now."""
        self._turn(self._part)
        return sum(self.seconds.values())

    def _turn(self, part: str) -> str:
        """Switches to another part; returns the previous one."""
        now_s, before = self._clock(), self._part
        self.seconds[before] += now_s - self._since_s
        self._part, self._since_s = part, now_s
        return before


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Usage of the enabled nodes: shares (0..1) of vCPUs and memory, nodes in use, and ``room``:
    the number of servers of the large flavor that would still fit."""

    time_s: float
    vcpus: float
    memory: float
    nodes_in_use: int
    room: int


def sample(cluster: Any, large: TraceFlavor, time_s: float) -> Sample:
    """Returns a sample of the scheduler's records, including pending claims."""
    hosts = cluster.hosts
    able = ~hosts.disabled
    vcpus, memory = hosts.resources[VCPU], hosts.resources[MEMORY_MB]
    shares = [
        1.0 - float(one.free[able].sum() / np.maximum((one.used + one.free)[able].sum(), 1))
        for one in (vcpus, memory)
    ]
    slots = np.minimum(vcpus.free // large.vcpus, memory.free // large.memory_mb)
    in_use = int(np.count_nonzero(vcpus.used[able]))
    return Sample(time_s, *shares, in_use, int(np.maximum(slots, 0)[able].sum()))


@dataclasses.dataclass(slots=True)
class ModelTally:
    """Counts and lists of one run; ``waits_s`` are simulated seconds from the request to the first
    claim, ``runs_s`` to the running server.

    ``ranks`` are for servers that a worker took: the number of hosts that the scheduler's weighers
    ranked higher at that moment, and the number of candidates. ``calls`` count by RPC method,
    ``reports`` those of nodes. ``wire`` counts the commands to the broker of jobs, ``kinds`` the
    messages published there, by kind of queue. ``meter`` has the seconds of processor time by
    component, ``took_s`` the total.
    """

    asked: int = 0
    by_rule: int = 0  # not for a queue: passed to the scheduler by rule
    placed: int = 0
    refused: int = 0
    failed: int = 0  # built nowhere
    left: int = 0
    put_backs: int = 0
    lost_claims: int = 0
    expired: int = 0  # no worker took them from their queue in time
    rescued: int = 0  # of those, placed by the scheduler
    failed_builds: int = 0
    evaluations: int = 0
    changes: int = 0
    placed_vcpus: int = 0
    reasons: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    waits_s: list = dataclasses.field(default_factory=list)
    runs_s: list = dataclasses.field(default_factory=list)
    ranks: list = dataclasses.field(default_factory=list)
    calls: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    reports: int = 0
    casts: int = 0
    wire: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    kinds: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    statements: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    meter: Meter = dataclasses.field(default_factory=Meter)
    took_s: float = 0.0
    first_refusal: Sample | None = None
    samples: list = dataclasses.field(default_factory=list)
    fallbacks: int = 0  # jobs that the scheduler got from the fallback queue
    asked_vcpus: int = 0
    queues: int = 0
    first_subscriptions: int = 0  # of all workers, at their start
    start_s: float = 0.0  # seconds of processor time until then
    memory_mib: int = 0  # peak memory of this process
    violations: list = dataclasses.field(default_factory=list)

    def refuse(self, why: str) -> None:
        self.refused += 1
        self.reasons[short(why)] += 1

    @property
    def messages(self) -> int:
        """Returns messages on both buses: a call is a request and a reply, and so is a report; a
        cast is one."""
        return sum(self.calls.values()) * 2 + self.reports * 2 + self.casts + self.wire['publish']

    def rank_share(self, best: float) -> float:
        """Returns the share (0..1) of the servers that went to a host among that best share of the
        hosts."""
        good = sum(better < max(best * hosts, 1) for better, hosts in self.ranks)
        return good / len(self.ranks) if self.ranks else float('nan')

    @property
    def mean_rank(self) -> float:
        """Returns the mean share (0..1) of the hosts that ranked above the chosen one."""
        return (
            float(np.mean([better / hosts for better, hosts in self.ranks]))
            if self.ranks
            else float('nan')
        )
