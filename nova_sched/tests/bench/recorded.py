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
"""Recorded decisions against unrecorded ones, within one run: what the loop does for a request and
its record, and what the thread of the decision log does later."""

import random
import time

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.db import record_text
from nova_sched.engine.answer import selections
from nova_sched.engine.cycle import Order
from nova_sched.engine.explain import reasons
from nova_sched.engine.explain.decision_log import PLACED, DecisionLog, record
from nova_sched.engine.place import Placer
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.decisions import PLACED as MOST
from nova_sched.tests.bench.decisions import Varied
from nova_sched.tests.bench.timing import in_random_order, p50_ms, p99_ms

SIZES = (1_000, 10_000)


class Call:
    """A call without a bus and without a store; ``noted``: with its record."""

    def __init__(self, placer, settings, request, noted):
        self._placer, self._settings, self._request = placer, settings, request
        self._noted, self._made = noted, []
        self._log = DecisionLog(self)
        self.records = []

    def __call__(self):
        placer, settings = self._placer, self._settings
        requests = [self._request()]
        order = Order(requests, alternates=True)
        decision = placer.decide(requests, settings, want_alternates=True, noted=self._noted)
        answer = selections(placer, decision, settings, want_alternates=True)
        if self._noted:
            self._log.put(lambda: record(order, PLACED, 0.0, reasons.placement(decision, answer)))
        self._made.append(decision)

    def write(self, records):
        """Of the decision log's store."""
        self.records = [record_text.dump(one) for one in records]

    def undo(self):
        """End the claims, if there are more than MOST: before the cluster is full."""
        if len(self._made) > MOST:
            while self._made:
                self._placer.undo(self._made.pop())

    def make_records(self):
        """What the decision log's thread does. Returns its seconds."""
        start = time.thread_time()
        self._log.flush()
        return time.thread_time() - start


def rows(budget_s=2.0, sizes=SIZES):
    settings = service.settings(CONF)
    for size in sizes:
        cluster = fleet.cluster(fleet.filled_store(size), settings)
        placer = Placer(cluster, service.rules(CONF), random.Random(1))
        for what, request in (('one flavor', fleet.request), ('twelve flavors', Varied())):
            calls = {
                name: Call(placer, settings, request, noted)
                for name, noted in (('plain', False), ('noted', True))
            }

            in_thread = []

            def undo(calls=calls, in_thread=in_thread):
                for one in calls.values():
                    one.undo()
                in_thread.append(calls['noted'].make_records())
                calls['plain']()  # after other work the first call is slower

            samples = in_random_order(calls, budget_s, between=undo)
            plain, noted = p50_ms(samples['plain']), p50_ms(samples['noted'])
            yield {
                'what': f'recorded decision, {size:,} hosts, {what}',
                'p50': f'{noted:.3f} ms',
                'p99': f'{p99_ms(samples["noted"]):.3f} ms',
                'floor': f'without record {plain:.3f} ms',
                'ratio': f'{noted / plain:.2f}',
            }
            thread = p50_ms(in_thread)
            yield {
                'what': 'its record, in the thread of the decision log',
                'p50': f'{thread:.3f} ms',
                'floor': f'without record {plain:.3f} ms',
                'ratio': f'{thread / plain:.2f}',
            }
