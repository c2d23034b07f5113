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
"""Decisions without a bus: default rules, the chosen host and two alternates. Their floor is bare
NumPy: ten masks, four scaled weights, the best four rows."""

import itertools
import random

import numpy as np

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.engine.answer import selections
from nova_sched.engine.place import Placer
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.timing import by_turns, row

SIZES = (100, 1_000, 10_000, 100_000)
FLAVORS = [(vcpus, vcpus * ratio) for vcpus in (1, 2, 4, 8) for ratio in (1024, 2048, 4096)]
SERVERS = 10  # of one request
PLACED = 100  # at most, of a measured decision
CHANGES = 100  # hosts that other claims change between two decisions
# What the floor asks for.
RAM_MB, VCPUS, DISK_GB, TRAITS, AGGREGATE = 4096, 2, 20, 0b1011, 1 << 3


class Floor:
    """Columns of random facts and one pass over them, with every buffer made beforehand."""

    def __init__(self, rows, seed=1):
        chance = np.random.default_rng(seed)
        used = chance.integers(0, 28, rows)
        self.ram, self.vcpus, self.disk = 262144 - used * 8192, 128 - used * 4, 2000 - used * 40
        self.on, self.up = chance.random(rows) < 0.97, chance.random(rows) < 0.98
        self.zone, self.kind = chance.integers(0, 3, rows), chance.integers(0, 4, rows)
        self.traits = chance.integers(0, 2**60, rows) | TRAITS
        self.aggregates = chance.integers(0, 2**20, rows)
        self.members = (chance.random(rows) < 0.01).astype(np.int64)
        self.io = chance.integers(0, 10, rows)
        self.mask, self.spare = np.empty(rows, bool), np.empty(rows, bool)
        self.words = np.empty(rows, np.int64)

    def _and(self, operation, column, value):
        operation(column, value, out=self.spare)
        np.logical_and(self.mask, self.spare, out=self.mask)

    def decide(self):
        np.greater_equal(self.vcpus, VCPUS, out=self.mask)
        self._and(np.greater_equal, self.ram, RAM_MB)
        self._and(np.greater_equal, self.disk, DISK_GB)
        np.logical_and(self.mask, self.on, out=self.mask)
        np.logical_and(self.mask, self.up, out=self.mask)
        self._and(np.not_equal, self.zone, 2)
        np.bitwise_and(self.traits, TRAITS, out=self.words)
        self._and(np.equal, self.words, TRAITS)
        np.bitwise_and(self.aggregates, AGGREGATE, out=self.words)
        self._and(np.equal, self.words, 0)
        self._and(np.not_equal, self.kind, 3)
        self._and(np.equal, self.members, 0)
        rows = np.flatnonzero(self.mask)
        cost = np.zeros(len(rows))
        for column, weight in (
            (self.ram, -1.0),
            (self.vcpus, -1.0),
            (self.disk, -1.0),
            (self.io, 1.0),
        ):
            raw = column[rows]
            low, high = raw.min(), raw.max()
            if low != high:
                cost += raw * (weight / float(high - low))
        best = np.argpartition(cost, 3)[:4]
        return rows[best[np.argsort(cost[best])]]


class Decide:
    """One decision and its answer. ``record`` gets the requests, the decision and the answer of
    one that notes its weights for a record."""

    def __init__(self, placer, settings, request=fleet.request, servers=1, record=None):
        self._placer, self._settings, self._request = placer, settings, request
        self._servers, self._record, self._made = servers, record, []

    def __call__(self):
        requests = [self._request() for _ in range(self._servers)]
        is_noted = self._record is not None
        decision = self._placer.decide(
            requests, self._settings, want_alternates=True, noted=is_noted
        )
        answer = selections(self._placer, decision, self._settings, want_alternates=True)
        if is_noted:
            self._record(requests, decision, answer)
        self._made.append(decision)

    def undo(self, kept=0):
        """End the claims, if there are more than ``kept`` servers: before the cluster is full."""
        if len(self._made) * self._servers > kept:
            while self._made:
                self._placer.undo(self._made.pop())

    def against(self, floor, budget_s, between=lambda: None):
        """Seconds of its calls, and of the floor's, by turns. What is between is not measured."""

        def before():
            self.undo(PLACED)
            between()

        samples = by_turns({'ours': self, 'floor': floor.decide}, budget_s, between=before)
        self.undo()
        return samples['ours'], 'bare NumPy', samples['floor']


class Varied:
    """Requests of twelve flavors by turns."""

    def __init__(self):
        self._flavors = itertools.cycle(FLAVORS)

    def __call__(self):
        vcpus, memory_mb = next(self._flavors)
        return fleet.request(vcpus, memory_mb)


class Changes:
    """Claims on hosts all over the fleet, and their end the next time."""

    def __init__(self, placer, settings):
        self._placer, self._settings = placer, settings
        self._chance, self._there = random.Random(3), []

    def __call__(self):
        cluster = self._placer.cluster
        for one in self._there:
            cluster.release(one)
        nodes = self._chance.sample(cluster.hosts.nodes, CHANGES // 2)
        marks = {'created_s': cluster.hosts.now_s}
        ttl_s = self._settings.pending_ttl_s
        self._there = [self._placer.consume(node, fleet.request(), ttl_s, marks) for node in nodes]


def rows(budget_s=2.0, sizes=SIZES):
    settings = service.settings(CONF)
    for size in sizes:
        cluster = fleet.cluster(fleet.filled_store(size), settings)
        placer = Placer(cluster, service.rules(CONF), random.Random(1))
        floor = Floor(size)
        one, ten = Decide(placer, settings), Decide(placer, settings, servers=SERVERS)
        varied = Decide(placer, settings, Varied())
        changes, what = Changes(placer, settings), f'decision, {size:,} hosts'
        yield row(what, *one.against(floor, budget_s))
        yield row(f'{what}, twelve flavors', *varied.against(floor, budget_s))
        yield row(f'{what}, {SERVERS} servers', *ten.against(floor, budget_s))
        yield row(f'{what}, {CHANGES} changes', *one.against(floor, budget_s, changes))
