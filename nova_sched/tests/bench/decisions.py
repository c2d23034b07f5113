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
"""Decisions without a bus: default rules, one server, the chosen host and two alternates."""

import random

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.engine.answer import selections
from nova_sched.engine.place import Placer
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.floor import Floor
from nova_sched.tests.bench.timing import by_turns, p50_ms, p99_ms

SIZES = (100, 1_000, 10_000, 100_000)


class Decide:
    """One decision and its answer; now and then the servers go again, before the cluster is
    full."""

    def __init__(self, placer, settings, request=fleet.request):
        self._placer, self._settings, self._request, self._made = placer, settings, request, []

    def __call__(self):
        if len(self._made) == 100:
            self.undo()
        decision = self._placer.decide([self._request()], self._settings, want_alternates=True)
        selections(self._placer, decision, self._settings, want_alternates=True)
        self._made.append(decision)

    def undo(self):
        while self._made:
            self._placer.undo(self._made.pop())


def rows(budget_s=2.0, sizes=SIZES):
    settings = service.settings(CONF)
    for size in sizes:
        cluster = fleet.cluster(fleet.filled_store(size), settings)
        placer = Placer(cluster, service.rules(CONF), random.Random(1))
        floor = Floor(size)

        samples = by_turns({'ours': Decide(placer, settings), 'floor': floor.decide}, budget_s)
        ours, bare = p50_ms(samples['ours']), p50_ms(samples['floor'])
        yield {
            'what': f'decision, {size:,} hosts',
            'p50': f'{ours:.3f} ms',
            'p99': f'{p99_ms(samples["ours"]):.3f} ms',
            'a second': f'{1000 / ours:,.0f}',
            'floor': f'bare NumPy {bare:.3f} ms',
            'ratio': f'{ours / bare:.2f}',
        }
