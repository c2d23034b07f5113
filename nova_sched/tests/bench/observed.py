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
"""What metrics, traces and events of claims cost a request in the engine, against one without,
within one run: from its message to the loop until its answer, with a store in memory."""

import time

from oslo_messaging._drivers.common import serialize_msg

from nova_sched import service
from nova_sched.claims import ClaimChanges
from nova_sched.conf import CONF
from nova_sched.engine.measuring import EVERY, RuleTimes
from nova_sched.engine.room_figures import EVERY_S, room
from nova_sched.measures.catalogue import MEASURES
from nova_sched.rpc.event_notifications import ClaimNotifications
from nova_sched.rpc.messages import PlainSerializer
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.timing import by_turns, in_random_order, p50_ms, row
from nova_sched.tests.builders import claim, uuid_of
from nova_sched.tracing import TRACER

SIZES = (1_000, 10_000)
BATCH, TIMES = 64, 200  # claims of one transaction, and transactions
PLACED = 100  # servers of each kind of call, before all are deleted


class Call:
    """One call: with metrics if ``is_on``, with the times of rules in every ``every``-th, with
    traces of this share of the calls, and with ``events`` (a ClaimNotifications)."""

    def __init__(self, scheduler, is_on=False, share=None, every=EVERY, events=None):
        self._scheduler, self._is_on, self._share = scheduler, is_on, share
        self._events = events
        self._times, self._placed = RuleTimes(every), []

    def __call__(self):
        MEASURES.is_on = self._is_on
        TRACER.share, TRACER.sink = self._share or 0.0, None if self._share is None else _drop
        self._scheduler.placer._times = self._times
        self._scheduler._store.on_changes = self._events and self._events.changed
        request = fleet.request()
        placement = self._scheduler.begin_place([request], alternates=True)
        self._scheduler.loop.turn()
        placement.result()
        self._placed.append(request.instance_uuid)

    def undo(self):
        self._scheduler._store.on_changes = None
        if self._events is not None:
            self._events.flush()
        if len(self._placed) > PLACED:
            cluster = self._scheduler._cluster
            for uuid in self._placed:
                for claim in cluster.claims_of(uuid):
                    self._scheduler._store.release([claim.key])
                    cluster.drop(claim)
            self._placed.clear()


def _drop(_trace):
    pass


class Bus:
    """A notifier that does what a driver does up to the socket."""

    def __init__(self):
        self._serializer = PlainSerializer()

    def info(self, context, event, payload):
        told = {'event_type': event, 'payload': self._serializer.serialize_entity({}, payload)}
        serialize_msg(told)


def of_claims():
    """Seconds of this thread to notify of BATCH new claims of one transaction."""
    made = [claim(uuid_of(f'one {number}'), uuid_of('node')) for number in range(BATCH)]
    told = ClaimChanges('request', {}, {one.key: one for one in made}, 0.0, {})
    sender = ClaimNotifications(Bus())

    def notify():
        begin_s = time.thread_time()
        sender.changed(told)
        sender.flush()
        return time.thread_time() - begin_s

    return [notify() for _ in range(TIMES)]


def rows(budget_s=2.0, sizes=SIZES):
    for size in sizes:
        scheduler = service.scheduler(CONF, fleet.filled_store(size))
        scheduler.state_sync.refresh()
        calls = {
            'plain': Call(scheduler),
            'metrics': Call(scheduler, is_on=True),
            'times of rules': Call(scheduler, is_on=True, every=1),
            'traces of 1 %': Call(scheduler, share=0.01),
            'traces of all': Call(scheduler, share=1.0),
            'events of claims': Call(scheduler, events=ClaimNotifications(Bus())),
        }

        def prepare(calls=calls):
            for one in calls.values():
                one.undo()
            MEASURES.plain()
            calls['plain']()  # after other work the first call is slower

        samples = in_random_order(calls, budget_s, between=prepare)
        plain = samples.pop('plain')
        for name, some in samples.items():
            yield row(f'call with {name}, {size:,} hosts', some, 'without', plain)
        hosts = scheduler._cluster.hosts
        took = by_turns({'sums': lambda hosts=hosts: room(hosts, 'nova')}, budget_s / 10)['sums']
        yield row(f'sums over {size:,} hosts, each {EVERY_S:.0f} s', took)
    MEASURES.is_on, TRACER.sink = False, None
    took = of_claims()
    rate = {'a second': f'{BATCH * 1000 / p50_ms(took):,.0f} claims'}
    yield row(f'events of {BATCH} claims of one transaction, in their thread', took) | rate
