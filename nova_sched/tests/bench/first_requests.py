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
"""Calls of a known kind while first requests of new kinds arrive, without a bus: all rules, on
hosts of which no two have equal NUMA cells."""

import itertools
import math
import random
import time
import uuid

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.engine import time_slice
from nova_sched.engine.context import Context
from nova_sched.engine.cycle import PLACE, Order
from nova_sched.engine.scheduler import Scheduler
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.state.cluster import Cluster
from nova_sched.tests.bench import all_rules, fleet
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.options import settings

HOSTS = 10_000
PER_SECOND = 200
NEW_EACH_S = 1.0
WARM = 50  # calls


class Calls:
    """Sends requests of a known kind at a fixed rate, whatever the answers take, and new kinds in
    between. Times are in seconds."""

    def __init__(self, scheduler):
        self._loop = scheduler.loop
        self._new_memory_mb = itertools.count(4 * all_rules.GIB)

    def run(self, seconds, has_new):
        """Return the times that calls of the known kind took, and those of new kinds."""
        known, new, due_s = [], [], time.monotonic()
        for number in range(int(seconds * PER_SECOND)):
            if has_new and number % (NEW_EACH_S * PER_SECOND) == 0:
                new.append(self._send(self._new_kind()))
            known.append(self._send(all_rules.request('plain')))
            due_s += 1.0 / PER_SECOND
            time.sleep(max(0.0, due_s - time.monotonic()))
        return self._times(known), self._times(new)

    def _send(self, request):
        took, begin_s = [], time.perf_counter()
        order = Order([fleet.changed(request, instance_uuid=str(uuid.uuid4()))])
        future = self._loop.send(PLACE, order)
        future.add_done_callback(lambda _: took.append(time.perf_counter() - begin_s))
        return future, took

    @staticmethod
    def _times(sent):
        for future, _ in sent:
            future.result()
        return [took[0] for _, took in sent]

    def _new_kind(self):
        memory_mb = next(self._new_memory_mb)
        request = all_rules.request('NUMA')
        pieces = HardwareRequest(all_rules.guest(vcpus=8, cells=2, memory_mb=memory_mb))
        return fleet.changed(request, pieces=pieces)


def _scheduler(hosts):
    store, cluster = all_rules.filled_store(hosts), Cluster()
    chosen = service.settings(CONF)
    rules = service.rules(CONF)
    context = Context(cluster, store, lambda: chosen, time.time, random.Random(1), rules)
    scheduler = Scheduler(context)
    scheduler.state_sync.refresh()
    scheduler.loop.start()
    return scheduler


def rows(budget_s=2.0, hosts=HOSTS):
    """Runs of ``5 * budget_s`` seconds each."""
    seconds, slice_s = 5 * budget_s, time_slice.SLICE_S
    with settings(all_rules.everything()):
        scheduler = _scheduler(hosts)
        service.collect_seldom()
        try:
            calls = Calls(scheduler)
            calls.run(WARM / PER_SECOND, has_new=False)
            alone, _ = calls.run(seconds, has_new=False)
            yield _row('no new kinds', hosts, alone, alone, ())
            for how, time_slice.SLICE_S in (('in slices', slice_s), ('at once', math.inf)):
                known, new = calls.run(seconds, has_new=True)
                yield _row(f'a new kind each second, {how}', hosts, known, alone, new)
        finally:
            time_slice.SLICE_S = slice_s
            scheduler.loop.stop()


def _row(what, hosts, known, alone, new):
    row = {
        'what': f'{PER_SECOND} calls a second, {hosts:,} hosts, {what}',
        'p50': f'{p50_ms(known):.2f} ms',
        'p99': f'{p99_ms(known):.2f} ms',
        'ratio': f'{p99_ms(known) / p99_ms(alone):.2f}',
    }
    return row | ({'first request': f'{p50_ms(new):.0f} ms'} if new else {})
