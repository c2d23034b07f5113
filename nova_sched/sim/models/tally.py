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
"""What is counted of a run of either model, and looked at from time to time."""

import collections
import dataclasses
from typing import Any

import numpy as np

from nova_sched.objects.claim import MEMORY_MB, VCPU
from nova_sched.sim.models.meter import Meter
from nova_sched.sim.replay import short
from nova_sched.sim.trace import Flavor


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """How full the enabled nodes are: shares (0..1) of vCPUs and memory, nodes in use, and
    ``room``: how many servers of the large flavor would still fit."""

    time_s: float
    vcpus: float
    memory: float
    nodes_in_use: int
    room: int


def sample(cluster: Any, large: Flavor, time_s: float) -> Sample:
    """As the scheduler records it, claims on their way included."""
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
class Tally:
    """Counts and lists of one run; ``waits_s`` are simulated seconds from the request to the first
    claim, ``runs_s`` to the server that runs.

    ``ranks`` are of the servers that a worker took: how many hosts the scheduler's weighers liked
    better at that moment, and how many it could have chosen from. ``calls`` count by RPC method,
    ``reports`` those of nodes; ``wire`` the commands to the broker of jobs and ``kinds`` what was
    published there, by kind of queue. ``meter`` has the seconds of the processor by who used them,
    ``took_s`` all of them.
    """

    asked: int = 0
    by_rule: int = 0  # not for a queue: the scheduler's by rule
    placed: int = 0
    refused: int = 0
    failed: int = 0  # built nowhere
    left: int = 0
    put_backs: int = 0
    lost_claims: int = 0
    expired: int = 0  # nobody took them from their queue in time
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
    fallbacks: int = 0  # jobs that came to the scheduler by the fallback queue
    asked_vcpus: int = 0
    queues: int = 0
    first_subscriptions: int = 0  # of all workers, at their start
    start_s: float = 0.0  # seconds of the processor until they had them
    memory_mib: int = 0  # the most that this process had
    violations: list = dataclasses.field(default_factory=list)

    def refuse(self, why: str) -> None:
        self.refused += 1
        self.reasons[short(why)] += 1

    @property
    def messages(self) -> int:
        """On both buses: a call is a request and a reply, and so is a report; a cast is one."""
        return sum(self.calls.values()) * 2 + self.reports * 2 + self.casts + self.wire['publish']

    def rank_share(self, best: float) -> float:
        """Which share (0..1) of the servers went to one of that share of the hosts, the best
        ones."""
        good = sum(better < max(best * hosts, 1) for better, hosts in self.ranks)
        return good / len(self.ranks) if self.ranks else float('nan')

    @property
    def mean_rank(self) -> float:
        """Mean share (0..1) of the hosts that were liked better than the one that took it."""
        return (
            float(np.mean([better / hosts for better, hosts in self.ranks]))
            if self.ranks
            else float('nan')
        )
