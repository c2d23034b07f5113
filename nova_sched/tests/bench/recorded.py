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
from nova_sched.db import decision_log
from nova_sched.engine.cycle import Order
from nova_sched.engine.explain import reasons
from nova_sched.engine.explain.decision_log import PLACED, DecisionLog, record
from nova_sched.engine.place import Placer
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.decisions import PLACED as MOST
from nova_sched.tests.bench.decisions import Decide, Varied
from nova_sched.tests.bench.timing import in_random_order, row

SIZES = (1_000, 10_000)


class Records:
    """The decision log, and its store."""

    def __init__(self):
        self._log = DecisionLog(self)
        self.records, self.in_thread = [], []

    def put(self, requests, decision, answer):
        order = Order(requests, alternates=True)
        self._log.put(lambda: record(order, PLACED, 0.0, reasons.placement(decision, answer)))

    def write(self, records):
        self.records = [decision_log.dump(one) for one in records]

    def flush(self):
        """What the decision log's thread does."""
        start = time.thread_time()
        self._log.flush()
        self.in_thread.append(time.thread_time() - start)


def rows(budget_s=2.0, sizes=SIZES):
    settings = service.settings(CONF)
    for size in sizes:
        cluster = fleet.cluster(fleet.filled_store(size), settings)
        placer = Placer(cluster, service.rules(CONF), random.Random(1))
        for what, request in (('one flavor', fleet.request), ('twelve flavors', Varied())):
            records = Records()
            calls = {
                'plain': Decide(placer, settings, request),
                'noted': Decide(placer, settings, request, record=records.put),
            }

            def undo(calls=calls, records=records):
                for one in calls.values():
                    one.undo(MOST)
                records.flush()
                calls['plain']()  # after other work the first call is slower

            samples = in_random_order(calls, budget_s, between=undo)
            floor = 'without record', samples['plain']
            yield row(f'recorded decision, {size:,} hosts, {what}', samples['noted'], *floor)
            told = 'its record, in the thread of the decision log'
            yield row(told, records.in_thread, *floor)
