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
"""What metrics and traces cost a request in the engine, against one without, within one run: from
its message to the loop until its answer, with a store in memory.

Processor time of the thread, in random order: the differences are smaller than what other programs
on the machine cause.
"""

import random
import time

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.measures.catalogue import MEASURES
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tracing import TRACER

SIZES = (1_000, 10_000)
PLACED = 100  # servers of each kind of call, before all are deleted


class Call:
    """One call: with metrics if ``is_on``, and with traces of this share of the calls."""

    def __init__(self, scheduler, is_on=False, share=None):
        self._scheduler, self._is_on, self._share = scheduler, is_on, share
        self._placed = []

    def __call__(self):
        MEASURES.is_on = self._is_on
        TRACER.share, TRACER.sink = self._share or 0.0, None if self._share is None else _drop
        request = fleet.request()
        placement = self._scheduler.begin_place([request], alternates=True)
        self._scheduler.loop.turn()
        placement.result()
        self._placed.append(request.instance_uuid)

    def undo(self):
        if len(self._placed) > PLACED:
            cluster = self._scheduler._cluster
            for uuid in self._placed:
                for claim in cluster.claims_of(uuid):
                    self._scheduler._store.release([claim.key])
                    cluster.drop(claim)
            self._placed.clear()


def _drop(_trace):
    pass


def rows(budget_s=2.0, sizes=SIZES):
    for size in sizes:
        scheduler = service.scheduler(CONF, fleet.filled_store(size))
        scheduler.state_sync.refresh()
        calls = {
            'plain': Call(scheduler),
            'metrics': Call(scheduler, is_on=True),
            'traces of 1 %': Call(scheduler, share=0.01),
            'traces of all': Call(scheduler, share=1.0),
        }

        samples = _in_random_order(calls, budget_s)
        plain = samples.pop('plain')
        for name, some in samples.items():
            yield {
                'what': f'call with {name}, {size:,} hosts',
                'p50': f'{p50_ms(some):.3f} ms',
                'p99': f'{p99_ms(some):.3f} ms',
                'floor': f'without {p50_ms(plain):.3f} ms',
                'ratio': f'{p50_ms(some) / p50_ms(plain):.3f}',
            }
    MEASURES.is_on, TRACER.sink = False, None


def _in_random_order(calls, budget_s):
    """Seconds of processor time of each call, by name."""
    samples, chance = {name: [] for name in calls}, random.Random(1)
    end = time.perf_counter() + budget_s
    while time.perf_counter() < end:
        for one in calls.values():
            one.undo()
        MEASURES.plain()
        calls['plain']()  # after other work the first call is slower
        for name in chance.sample(list(calls), len(calls)):
            begin_s = time.thread_time()
            calls[name]()
            samples[name].append(time.thread_time() - begin_s)
    return samples
