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
"""The conductors of both models, and a queue manager, without threads.

The work is that of `queues.conductor` and `queues.manager`, in the steps of a simulated clock.
"""

import random
import types
from collections.abc import Callable
from typing import Any

from nova_sched import errors
from nova_sched.claims import ClaimSelector
from nova_sched.db.jobs import FAILED
from nova_sched.objects.job import CREATE, DELETE, DONE
from nova_sched.queues import jobs, messages
from nova_sched.queues.brokers import EXPIRED, FALLBACK, RESULTS, Delivery, of_reply
from nova_sched.queues.conductor import routing
from nova_sched.queues.conductor.job_entries import JobEntries
from nova_sched.queues.manager import endings, fallback
from nova_sched.queues.messages import Sender, place_of
from nova_sched.rpc import translate
from nova_sched.sim.conductor import PROJECT, USER
from nova_sched.sim.models.cloud import (
    CALL_S,
    COMMAND_S,
    CountedBroker,
    Destinations,
    SimulatedClaims,
    SimulatedCloud,
    build_seconds,
    read,
)
from nova_sched.sim.models.load import Ask
from nova_sched.sim.models.tally import CONDUCTOR, MANAGER, SCHEDULER, ModelTally

REPLIES = of_reply('simulation')
WINDOW = 64


def no_limits(_project_id: str) -> dict:
    return {}


class QueueConductor:
    """Records each server and sends its job, receives the outcome, and deletes the server when its
    lifetime ends.

    It sends one job after the other, including those of one batch.
    """

    def __init__(
        self,
        cloud: SimulatedCloud,
        broker: CountedBroker,
        claims: SimulatedClaims,
        job_table: Any,
        catalogue: Any,
        tally: ModelTally,
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
        with self._tally.meter.of(CONDUCTOR):
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
        with self._tally.meter.of(CONDUCTOR):
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
        with self._tally.meter.of(CONDUCTOR):
            self._job_table.cancel(uuid, now_s)
            self._claims.show(uuid)
            self._job_table.of_instance(uuid)
            job = jobs.new(DELETE, jobs.uuid_of(DELETE, uuid, 0), uuid, self._caller, now_s)
            asked = self._entries.enter(job, host)
            self._sender.to_host(asked.job, host)


class QueueModelManager:
    """Settles the workers' outcomes, and passes jobs that no worker takes to the scheduler."""

    def __init__(
        self,
        cloud: SimulatedCloud,
        broker: CountedBroker,
        claims: SimulatedClaims,
        job_table: Any,
        tally: ModelTally,
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
        with self._tally.meter.of(MANAGER):
            self._ends.take(delivery)

    def _fall(self, delivery: Delivery) -> None:
        self._tally.expired += delivery.reason == EXPIRED
        self._tally.fallbacks += 1
        with self._tally.meter.of(MANAGER):
            self._falling.take(delivery)


def listen(broker: CountedBroker, queue: str, take: Callable[[Delivery], None]) -> None:
    """Takes each message of a queue, and acknowledges it."""

    def deliver(delivery: Delivery) -> None:
        take(delivery)
        consumer.ack(delivery)

    consumer = broker.consumer(deliver, queue)
    consumer.window(WINDOW)
    consumer.follow({queue: 0})


class SchedulerConductor:
    """A conductor asks the engine for a host for each server; the chosen node or an alternate
    builds it."""

    def __init__(self, cloud: SimulatedCloud, tally: ModelTally):
        self._cloud, self._tally = cloud, tally
        self._chance = random.Random(f'{cloud.plan.seed} builds')

    def ask(self, ask: Ask) -> None:
        tally, cloud = self._tally, self._cloud
        tally.asked += 1
        tally.calls['select_destinations'] += 1
        try:
            with tally.meter.of(SCHEDULER):
                requests = translate.requests(ask.spec(), [ask.uuid])
                (found,) = cloud.engine.place(requests, alternates=True)
        except errors.NoValidHost as refusal:
            tally.refuse(refusal.reason)
            cloud.note_refusal(tally)
            return
        tally.waits_s.append(CALL_S)
        self._build(ask, requests[0], [(one.host, one.nodename) for one in found], CALL_S)

    def _build(self, ask: Ask, request: Any, places: list, after_s: float) -> None:
        """Builds the server on the first of the places; the others are alternates."""
        self._tally.casts += 1
        node_api = self._cloud.node_apis[places[0][0]]
        node_api.begin(request)
        seconds = build_seconds(self._chance, self._cloud.build_s)
        self._cloud.after(after_s + seconds, lambda: self._built(ask, request, places))

    def _built(self, ask: Ask, request: Any, places: list) -> None:
        tally, cloud, (host, _) = self._tally, self._cloud, places[0]
        node_api = cloud.node_apis[host]
        try:
            cloud.drivers[host].create(types.SimpleNamespace(instance_uuid=ask.uuid), None)
        except errors.BuildFailed:
            tally.failed_builds += 1
            node_api.undo(ask.uuid, failed=True)
            cloud.report(node_api, tally)
            self._elsewhere(ask, request, places)
            return
        node_api.keep(ask.uuid)
        cloud.report(node_api, tally)
        cloud.note_server(tally, ask, host)
        if ask.lifetime_s is not None:
            cloud.after(ask.lifetime_s, lambda: self._leave(ask.uuid, node_api))

    def _elsewhere(self, ask: Ask, request: Any, places: list) -> None:
        tally, cloud, failed = self._tally, self._cloud, places[0][0]
        service = cloud.engine.claim_service
        meant = ClaimSelector(service.claims_of(ask.uuid)[0].name)
        for number, (host, nodename) in enumerate(places[1:], 1):
            tally.calls['claim_alternate'] += 1
            try:
                place = request, host, nodename, None, failed, None, False, meant
                cloud.engine.call(service.claim, *place)
            except errors.ComputeResourcesUnavailable:
                continue
            self._build(ask, request, places[number:], CALL_S)
            return
        tally.calls['abort_claim'] += 1
        cloud.engine.call(service.abort_claim, ask.uuid, None, meant)
        tally.failed += 1

    def _leave(self, uuid: str, node_api: Any) -> None:
        self._tally.casts += 1

        def gone() -> None:
            node_api.destroy(uuid)
            self._cloud.report(node_api, self._tally)
            self._tally.left += 1

        self._cloud.after(build_seconds(self._chance, self._cloud.build_s), gone)
