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
"""A conductor and a manager of queues without threads: the work of `queues.conductor` and
`queues.manager`, in the steps of a simulated clock."""

from collections.abc import Callable
from typing import Any

from nova_sched import errors
from nova_sched.db.jobs import FAILED
from nova_sched.objects.job import CREATE, DELETE, DONE
from nova_sched.queues import jobs, messages
from nova_sched.queues.brokers import EXPIRED, FALLBACK, RESULTS, Delivery, of_reply
from nova_sched.queues.conductor import routing
from nova_sched.queues.conductor.job_entries import JobEntries
from nova_sched.queues.manager import endings, fallback
from nova_sched.queues.messages import Sender, place_of
from nova_sched.sim.conductor import PROJECT, USER
from nova_sched.sim.models import meter
from nova_sched.sim.models.broker import Broker
from nova_sched.sim.models.cloud import CALL_S, COMMAND_S, Cloud
from nova_sched.sim.models.engine import Claims, Destinations, read
from nova_sched.sim.models.load import Ask
from nova_sched.sim.models.tally import Tally

REPLIES = of_reply('simulation')
WINDOW = 64


def no_limits(_project_id: str) -> dict:
    return {}


class Conductor:
    """Records each server and sends its job, receives the outcome, and deletes the server when its
    lifetime ends.

    It sends one job after the other, including those of one batch.
    """

    def __init__(
        self,
        cloud: Cloud,
        broker: Broker,
        claims: Claims,
        job_table: Any,
        catalogue: Any,
        tally: Tally,
    ):
        self._cloud, self._broker, self._claims, self._job_table = cloud, broker, claims, job_table
        self._catalogue, self._tally = catalogue, tally
        self._entries = JobEntries(job_table, no_limits, claims, cloud.clock)
        self._sender = Sender(broker, claims)
        self._scheduler = Destinations(cloud.engine, tally.calls, claims)
        self._caller = jobs.Caller(project_id=PROJECT, user_id=USER, reply_to=REPLIES)
        self._asks: dict[str, Ask] = {}
        self._unclaimed = set[str]()
        self._free_s = 0.0  # when the last job was sent
        claims.stands = self._claimed

    def start(self) -> None:
        """Listens to the answers."""
        self._broker.declare([REPLIES])
        listen(self._broker, REPLIES, self._hear)

    def ask(self, ask: Ask) -> None:
        """Asks for a server without waiting."""
        self._tally.asked += 1
        self._asks[ask.uuid] = ask
        self._unclaimed.add(ask.uuid)
        now_s = self._cloud.clock()
        self._free_s = max(self._free_s, now_s) + COMMAND_S
        self._cloud.after(self._free_s - now_s, lambda: self._enter(ask))

    def _enter(self, ask: Ask) -> None:
        with self._tally.meter.of(meter.CONDUCTOR):
            self._send(ask)

    def _send(self, ask: Ask) -> None:
        spec = ask.spec()
        request = read(spec, ask.uuid)
        way = routing.route(request, spec, self._catalogue)
        queue = way.queue.name if way.queue else None

        def make(instance_uuid: str, number: int) -> Any:
            uuid = jobs.uuid_of(CREATE, instance_uuid, number)
            return jobs.new(
                CREATE, uuid, instance_uuid, self._caller, self._cloud.clock(), spec, queue=queue
            )

        (asked,) = self._entries.creates(make, [ask.uuid], jobs.amounts(request))
        if queue is None:
            self._tally.by_rule += 1
            self._cloud.after(CALL_S, lambda: self._choose(spec, asked.job))
        else:
            self._sender.to_flavor(asked.job)

    def _choose(self, spec: Any, job: Any) -> None:
        with self._tally.meter.of(meter.CONDUCTOR):
            self._send_chosen(spec, job)

    def _send_chosen(self, spec: Any, job: Any) -> None:
        try:
            (found,) = self._scheduler.select_destinations(spec, [job.instance_uuid])
        except errors.NoValidHost as refusal:
            self._job_table.settle(
                job.uuid, FAILED, self._cloud.clock(), why=refusal.reason, release=True
            )
            self._refused(job.instance_uuid, refusal.reason)
            return
        if self._sender.to_first(job, [place_of(one) for one in found]) is None:
            self._sender.to_fallback(job)

    def _claimed(self, uuid: str) -> None:
        if uuid in self._unclaimed:
            self._unclaimed.discard(uuid)
            self._tally.waits_s.append(self._cloud.clock() - self._asks[uuid].time_s)

    def _hear(self, delivery: Delivery) -> None:
        result = messages.read_result(delivery.body)
        uuid, tally = result.job.instance_uuid, self._tally
        if result.job.kind == DELETE:
            tally.left += 1
        elif result.outcome == DONE:
            ask = self._asks.pop(uuid)
            self._cloud.note_server(tally, ask, result.host)
            tally.rescued += bool(result.job.claimed and result.job.queue)
            if ask.lifetime_s is not None:
                host = result.host
                self._cloud.after(ask.lifetime_s, lambda: self._delete(uuid, host))
        elif jobs.EXHAUSTED in (result.why or ''):
            self._asks.pop(uuid)
            tally.failed += 1
        else:
            self._refused(uuid, result.why or '')

    def _refused(self, uuid: str, why: str) -> None:
        self._asks.pop(uuid)
        self._unclaimed.discard(uuid)
        self._tally.refuse(why)
        self._cloud.note_refusal(self._tally)

    def _delete(self, uuid: str, host: str) -> None:
        """Deletes like the router: checks whether the server is still to be built, its host, and
        its resources."""
        now_s = self._cloud.clock()
        with self._tally.meter.of(meter.CONDUCTOR):
            self._job_table.cancel(uuid, now_s)
            self._claims.show(uuid)
            self._job_table.of_instance(uuid)
            job = jobs.new(DELETE, jobs.uuid_of(DELETE, uuid, 0), uuid, self._caller, now_s)
            asked = self._entries.enter(job, host)
            self._sender.to_host(asked.job, host)


class Manager:
    """Settles the workers' outcomes, and passes jobs that no worker takes to the scheduler."""

    def __init__(
        self,
        cloud: Cloud,
        broker: Broker,
        claims: Claims,
        job_table: Any,
        tally: Tally,
        settings: Any,
    ):
        self._broker, self._tally = broker, tally
        sender = Sender(broker, claims)
        self._ends = endings.Endings(job_table, claims, sender, read, cloud.clock)
        chooser = Destinations(cloud.engine, tally.calls, claims)
        self._falling = fallback.Fallback(
            job_table, claims, chooser, sender, self._ends, lambda: settings
        )

    def start(self) -> None:
        listen(self._broker, RESULTS, self._ends_of)
        listen(self._broker, FALLBACK, self._fall)

    def _ends_of(self, delivery: Delivery) -> None:
        with self._tally.meter.of(meter.MANAGER):
            self._ends.take(delivery)

    def _fall(self, delivery: Delivery) -> None:
        self._tally.expired += delivery.reason == EXPIRED
        self._tally.fallbacks += 1
        with self._tally.meter.of(meter.MANAGER):
            self._falling.take(delivery)


def listen(broker: Broker, queue: str, take: Callable[[Delivery], None]) -> None:
    """Takes each message of a queue, and acknowledges it."""

    def deliver(delivery: Delivery) -> None:
        take(delivery)
        consumer.ack(delivery)

    consumer = broker.consumer(deliver, queue)
    consumer.window(WINDOW)
    consumer.follow({queue: 0})
