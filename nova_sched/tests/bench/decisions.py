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
"""Decisions without a bus: default rules, the chosen host and two alternates."""

import itertools
import random

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.engine.answer import selections
from nova_sched.engine.place import Placer
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.floor import Floor
from nova_sched.tests.bench.timing import by_turns, p50_ms, p99_ms

SIZES = (100, 1_000, 10_000, 100_000)
FLAVORS = [(vcpus, vcpus * ratio) for vcpus in (1, 2, 4, 8) for ratio in (1024, 2048, 4096)]
SERVERS = 10  # of one request
PLACED = 100  # at most, of a measured decision
CHANGES = 100  # hosts that other claims change between two decisions


class Decide:
    """One decision and its answer."""

    def __init__(self, placer, settings, request=fleet.request, servers=1):
        self._placer, self._settings, self._request = placer, settings, request
        self._servers, self._made = servers, []

    def __call__(self):
        requests = [self._request() for _ in range(self._servers)]
        decision = self._placer.decide(requests, self._settings, want_alternates=True)
        selections(self._placer, decision, self._settings, want_alternates=True)
        self._made.append(decision)

    def undo(self, kept=0):
        """End the claims, if there are more than ``kept`` servers: before the cluster is full."""
        if len(self._made) * self._servers > kept:
            while self._made:
                self._placer.undo(self._made.pop())

    def against(self, floor, budget_s, between=lambda: None):
        """Seconds of its calls and of the floor's, by turns. What is between is not measured."""

        def before():
            self.undo(PLACED)
            between()

        samples = by_turns({'ours': self, 'floor': floor.decide}, budget_s, between=before)
        self.undo()
        return samples


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
        yield row(what, one.against(floor, budget_s))
        yield row(f'{what}, twelve flavors', varied.against(floor, budget_s))
        yield row(f'{what}, {SERVERS} servers', ten.against(floor, budget_s))
        yield row(f'{what}, {CHANGES} changes', one.against(floor, budget_s, changes))


def row(what, samples):
    """A row of the table for seconds of ours and of the floor."""
    ours, bare = p50_ms(samples['ours']), p50_ms(samples['floor'])
    return {
        'what': what,
        'p50': f'{ours:.3f} ms',
        'p99': f'{p99_ms(samples["ours"]):.3f} ms',
        'a second': f'{1000 / ours:,.0f}',
        'floor': f'bare NumPy {bare:.3f} ms',
        'ratio': f'{ours / bare:.2f}',
    }
