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
"""Replays a trace at full speed, in its order; only departures use simulated time."""

import collections
import concurrent.futures
import dataclasses
import heapq
import itertools
import random
import re
import time
import uuid

from nova_sched.claim import MEMORY_MB, VCPU
from nova_sched.extensions.simulator import conductor


class Clock:
    """Seconds of simulated time. Calling the object returns the time, so it can be passed as a
    clock."""

    def __init__(self, start_s=0.0):
        self._now_s = start_s
        self._due = []
        self._order = itertools.count()

    def __call__(self):
        return self._now_s

    def at(self, when_s, what):
        """Schedule ``what`` at that time; an event in the past falls due with the next move."""
        heapq.heappush(self._due, (when_s, next(self._order), what))

    def move(self, to_s):
        """Move to a time, and yield the events until then, in order of time, then of ``at``.

        At each step the clock shows the time of the event. It never runs backwards.
        """
        while self._due and self._due[0][0] <= to_s:
            when_s, _, what = heapq.heappop(self._due)
            self._now_s = max(self._now_s, when_s)
            yield what
        self._now_s = max(self._now_s, to_s)


REMOVED_THE_LAST = re.compile(r'(\w+) removed the last')


@dataclasses.dataclass(slots=True)
class Refusal:
    """Requests refused for one reason: their number, their servers, and the requested flavors and
    zones."""

    requests: int = 0
    servers: int = 0
    # Of (flavor, zone).
    asked: collections.Counter = dataclasses.field(default_factory=collections.Counter)


@dataclasses.dataclass(slots=True)
class ReplayTally:
    """The totals so far; times in seconds.

    ``servers`` = placed + refused + failed (built on no host). ``moved`` of the placed run on an
    alternate, ``left`` of them are deleted again. ``history`` has (simulated time, use by zone) of
    each step.
    """

    requests: int = 0
    servers: int = 0
    placed: int = 0
    refused: int = 0
    moved: int = 0
    failed: int = 0
    left: int = 0
    now_s: float = 0.0
    began_s: float = 0.0
    took_s: float = 0.0
    latencies_s: list = dataclasses.field(default_factory=list)
    refusals: dict = dataclasses.field(default_factory=dict)
    history: list = dataclasses.field(default_factory=list)

    @property
    def running(self):
        return self.placed - self.left

    def add(self, arrival, zone, boot):
        """Count one request."""
        self.requests += 1
        self.servers += len(arrival)
        self.placed += len(boot.hosts)
        self.moved += boot.moved
        self.failed += boot.failed
        self.latencies_s.append(boot.latency_s)
        if boot.reason is not None:
            self.refused += len(arrival)
            refusal = self.refusals.setdefault(short(boot.reason), Refusal())
            refusal.requests += 1
            refusal.servers += len(arrival)
            refusal.asked[arrival.flavor, zone] += 1


def short(reason):
    """Return the key that groups refusals: the rule that removed the last host, or the text
    without its numbers."""
    rule = REMOVED_THE_LAST.search(reason)
    return rule[1] if rule else re.sub(r'\d+', 'N', reason)


class Demand:
    """Values that a trace lacks, generated from a seed: UUIDs and zones.

    A share of the batches (``zoned``, 0..1) requires a zone; each zone is half as popular as the
    one before.
    """

    def __init__(self, zones, zoned, seed):
        self._zones, self._zoned, self._seed = zones, zoned, seed
        self._chance = random.Random(f'{seed} uuids')

    def uuids(self, count):
        return [str(uuid.UUID(int=self._chance.getrandbits(128), version=4)) for _ in range(count)]

    def zone(self, batch):
        chance = random.Random(f'{self._seed} batch {batch}')
        if chance.random() >= self._zoned:
            return None
        return chance.choices(self._zones, [0.5**place for place in range(len(self._zones))])[0]


class Replay:
    """One run of a trace. ``watch`` is called with the ReplayTally after each request."""

    def __init__(self, hosts, conductors, clock, pool, demand, watch=lambda tally: None):
        self._hosts, self._conductors, self._clock = hosts, conductors, clock
        self._pool, self._demand, self._watch = pool, demand, watch

    def run(self, arrivals):
        """Replay arrivals in order of time. Return the ReplayTally.

        Requests of the same time are in flight together. Before them, departures until then are
        finished, and each changed node has reported.
        """
        tally, begin_s = ReplayTally(), time.monotonic()
        for now_s, together in itertools.groupby(arrivals, key=lambda arrival: arrival.time_s):
            tally.began_s = tally.began_s if tally.requests else now_s
            tally.now_s = now_s
            early = []
            for host, instance in self._clock.move(now_s):
                if not self._hosts.nodes[host].drop(instance):
                    early.append(instance)
                tally.left += 1
            self._pool.each(self._conductors.abandon, early)
            self._hosts.report()
            for arrival, zone, uuids, boot in self._arrive(together):
                tally.add(arrival, zone, boot)
                tally.took_s = time.monotonic() - begin_s
                self._watch(tally)
                for instance, lifetime_s in zip(uuids, arrival.lifetimes_s, strict=True):
                    if instance in boot.hosts and lifetime_s is not None:
                        departure = boot.hosts[instance], instance
                        self._clock.at(arrival.time_s + lifetime_s, departure)
            tally.history.append((now_s, use_by_zone(self._hosts.nodes.values())))
        tally.took_s = time.monotonic() - begin_s
        return tally

    def _arrive(self, together):
        """Boot all; yield each arrival with its zone, its UUIDs and its Boot as it completes."""
        flying = {}
        for arrival in together:
            zone, uuids = self._demand.zone(arrival.batch), self._demand.uuids(len(arrival))
            flying[self._pool.submit(self._boot, arrival, zone, uuids)] = arrival, zone, uuids
        for future in concurrent.futures.as_completed(flying):
            yield *flying[future], future.result()

    def _boot(self, arrival, zone, uuids):
        return self._conductors.boot(conductor.spec(arrival.flavor, uuids, zone), uuids)


def use_by_zone(nodes):
    """Return zone -> resource class -> (used, capacity), summed over its nodes."""
    by_zone = {}
    for node in nodes:
        zone, use = by_zone.setdefault(node.zone, {}), node.usage()
        for name in (VCPU, MEMORY_MB):
            before = zone.get(name, (0, 0))
            zone[name] = before[0] + use[name][0], before[1] + use[name][1]
    return by_zone
