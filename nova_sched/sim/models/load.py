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
"""The requests of users of a simulated cloud, server by server: the trace, scaled to a fleet."""

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any

from nova_sched.sim import conductor
from nova_sched.sim.replay import Demand
from nova_sched.sim.trace import Arrival, Flavor

GRID_S = 300.0  # the trace's resolution of arrivals: they are spread randomly within it
IGNORED = 'a-host-of-old'  # no host has that name
START_S = 120.0  # simulated time of the first arrival: every worker has subscribed by then


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """One server; ``lifetime_s`` None: no end."""

    time_s: float
    uuid: str
    flavor: Flavor
    zone: str | None
    lifetime_s: float | None
    by_rule: bool = False

    def spec(self) -> Any:
        """Returns the RequestSpec; with ``by_rule`` it has hosts to ignore, which no queue
        represents."""
        spec = conductor.spec(self.flavor, [self.uuid], self.zone)
        if self.by_rule:
            spec.ignore_hosts = [IGNORED]
        return spec


def cut(arrivals: Sequence[Arrival], hours: float) -> list[Arrival]:
    """Returns only the first hours."""
    return [one for one in arrivals if one.time_s < arrivals[0].time_s + hours * 3600]


def peak_vcpus(arrivals: Sequence[Arrival]) -> int:
    """Returns the peak of vCPUs in use while requests arrive, if none were refused."""
    changes: list[tuple[float, int]] = []
    for one in arrivals:
        changes.append((one.time_s, len(one) * one.flavor.vcpus))
        changes += [
            (one.time_s + life, -one.flavor.vcpus) for life in one.lifetimes_s if life is not None
        ]
    in_use = most = 0
    for time_s, change in sorted(changes):
        if time_s > arrivals[-1].time_s:
            break
        in_use += change
        most = max(most, in_use)
    return most


def mix(arrivals: Sequence[Arrival]) -> dict[Flavor, int]:
    """Returns how often each flavor is requested."""
    found: dict[Flavor, int] = {}
    for one in arrivals:
        found[one.flavor] = found.get(one.flavor, 0) + len(one)
    return found


def asks(
    arrivals: Sequence[Arrival], vcpus: float, demand: Demand, by_rule: float, seed: int
) -> list[Ask]:
    """Repeats the trace until its peak has that many vCPUs. Returns the requests in order of time.

    The last, partial repetition contains each batch with a matching probability. The share
    ``by_rule`` (0..1) of the batches asks for something that no queue represents. Servers of one
    batch arrive together. Its copies arrive at other moments of the same five minutes, for other
    projects.
    """
    copies, chance, found = vcpus / peak_vcpus(arrivals), random.Random(f'{seed} load'), []
    began_s = arrivals[0].time_s
    for copy in range(math.ceil(copies)):
        moments: dict[str, float | None] = {}
        ruled: set[str] = set()
        for one in arrivals:
            batch = f'{one.batch}.{copy}'
            if batch not in moments:
                comes = chance.random() < copies - copy
                moments[batch] = chance.uniform(0, GRID_S) if comes else None
                if chance.random() < by_rule:
                    ruled.add(batch)
            if (moment := moments[batch]) is None:
                continue
            time_s, zone = START_S + one.time_s - began_s + moment, demand.zone(batch)
            for uuid, life in zip(demand.uuids(len(one)), one.lifetimes_s, strict=True):
                found.append(Ask(time_s, uuid, one.flavor, zone, life, batch in ruled))
    return sorted(found, key=lambda ask: ask.time_s)
