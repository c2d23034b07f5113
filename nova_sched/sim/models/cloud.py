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
"""The common base of both models: the same nodes, one scheduler with its store, one clock.

The scheduler runs in the calling thread. The broker of jobs counts the messages that a real one
would transfer.
"""

import collections
import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nova_sched import errors, objects, service
from nova_sched.claims import ClaimSelector
from nova_sched.engine.context import Context
from nova_sched.engine.cycle import PLACE, Order
from nova_sched.engine.decide import survivors, weigh
from nova_sched.engine.scheduler import CALL, REPORT, Scheduler
from nova_sched.queues.brokers import Delivery
from nova_sched.queues.brokers.memory import SimulatedBroker, SimulatedConsumer
from nova_sched.queues.drivers import DriverSettings, fake
from nova_sched.rpc import translate
from nova_sched.sim.machines import Plan, SimulatedNode
from nova_sched.sim.models.load import Ask, aggregates_of
from nova_sched.sim.models.tally import CLAIMS, REPORTS, SCHEDULER, Meter, ModelTally, sample
from nova_sched.sim.replay import Clock
from nova_sched.sim.trace import TraceFlavor
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import ReportOrder

PUBLISH = 'publish'
DELIVER = 'deliver'
ACK = 'ack'
CONSUME = 'consume'
CANCEL = 'cancel'
WINDOW = 'qos'


class CountedBroker(SimulatedBroker):
    """``count`` has the commands by their AMQP names, ``kinds`` the published messages by kind of
    queue."""

    def __init__(
        self,
        clock: Callable[[], float],
        after: Callable,
        fallback_after_s: float,
        latency_s: float,
    ):
        super().__init__(clock, after, fallback_after_s, latency_s)
        self.count: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()

    def publish(self, queue: str, body: bytes, tries: int = 0, expires: bool = False) -> bool:
        self.sent(queue)
        return super().publish(queue, body, tries, expires)

    def sent(self, queue: str) -> None:
        self.count[PUBLISH] += 1
        self.kinds[queue.partition('.')[0]] += 1

    def consumer(self, deliver: Callable[[Delivery], None], name: str) -> 'CountedConsumer':
        def counted(delivery: Delivery) -> None:
            self.count[DELIVER] += 1
            deliver(delivery)

        return CountedConsumer(self, counted)


class CountedConsumer(SimulatedConsumer):
    """Changes the priority: one subscription ends and another begins."""

    def __init__(self, owner: CountedBroker, deliver: Callable[[Delivery], None]):
        super().__init__(owner, deliver)
        self._wire, self._subscribed = owner, set[str]()

    def follow(self, wanted: Mapping[str, int | None]) -> None:
        count, there = self._wire.count, self._subscribed
        for queue, priority in wanted.items():
            if queue in there:
                count[CANCEL] += 1
            if priority is None:
                there.discard(queue)
            else:
                there.add(queue)
                count[CONSUME] += 1
        super().follow(wanted)

    def window(self, count: int) -> None:
        self._wire.count[WINDOW] += 1
        super().window(count)

    def ack(self, delivery: Delivery) -> None:
        self._wire.count[ACK] += 1
        super().ack(delivery)

    def put_back(self, delivery: Delivery, queue: Any = None) -> None:
        self._wire.count[ACK] += 1
        self._wire.sent(queue or delivery.queue)
        super().put_back(delivery, queue)


# The engine's clock stands still: periodic reports, which keep nodes up, are not simulated.
NOW_S = 1_000_000.0
PARTS = {PLACE: SCHEDULER, REPORT: REPORTS, CALL: CLAIMS}
SAME = 1e-9  # weights that differ by less are equal


def read(spec_obj: Any, instance_uuid: str) -> Any:
    """Returns the Request of a RequestSpec for one instance. Raises InvalidRequest."""
    return translate.requests(translate.spec(spec_obj), [instance_uuid])[0]


class SimulatedScheduler:
    """Handles each message at once."""

    def __init__(self, conf: Any, store: Any, meter: Meter, seed: int):
        settings = dataclasses.replace(service.settings(conf), explain_retention_s=0)
        self.store, self.rules, self.cluster = store, service.rules(conf), Cluster()
        self.meter = meter
        chance = random.Random(f'{seed} engine')
        store.clock = store.clock or (lambda: NOW_S)
        context = Context(self.cluster, store, lambda: settings, lambda: NOW_S, chance)
        self._scheduler = Scheduler(context, self.rules)
        self.state_sync = self._scheduler.state_sync
        self.claim_service = self._scheduler.claim_service

    def join(self, reports: list, aggregates: list, disabled: list[str]) -> None:
        """Reads all nodes."""
        self.store.report(reports, NOW_S)
        self.call(self.state_sync.refresh)
        self.call(self.state_sync.set_aggregates, aggregates)
        for host in disabled:
            self.call(
                self.state_sync.set_service, host, True, 'simulated maintenance', None, NOW_S
            )
        self.cluster.hosts.now_s = NOW_S

    def place(self, requests: list, alternates: bool = False) -> list:
        return self._do(PLACE, Order(requests, alternates))

    def report(self, report: Any) -> Any:
        return self._do(REPORT, report)

    def call(self, work: Callable, *args: Any) -> Any:
        return self._do(CALL, (work, args))

    def _do(self, kind: str, work: Any) -> Any:
        with self.meter.of(PARTS[kind]):
            answer = self._scheduler.loop.send(kind, work)
            while not answer.done():
                self._scheduler.loop.turn()
        return answer.result()

    def rank(self, request: Any, host: str) -> tuple[int, int] | None:
        """Returns how many hosts the weighers rank above this one now, and how many are
        candidates.

        None if the host is not a candidate.
        """
        hosts = self.cluster.hosts
        rows = survivors(self.rules, hosts, request).rows()
        row = self.cluster.nodes_of(host)[0].row
        place = int(np.searchsorted(rows, row))
        if place == len(rows) or rows[place] != row:
            return None
        weights = weigh(self.rules.weighers, hosts, rows, request)
        return int(np.count_nonzero(weights > weights[place] + SAME)), len(rows)


class SimulatedClaims:
    """The interface of rpc.client.ClaimsClient. ``calls`` counts by method. ``claimed(request,
    host)`` is called before a new instance is claimed, and ``stands(uuid)`` when it has its
    claim."""

    def __init__(self, engine: SimulatedScheduler, calls: collections.Counter):
        self._engine = engine
        self._state_sync = engine.state_sync
        self._claim_service = engine.claim_service
        self._calls = calls
        self.before: Callable[[Any, str], None] = lambda request, host: None
        self.stands: Callable[[str], None] = lambda instance_uuid: None
        self.lost = 0

    def instance_claim(self, spec_obj, instance_uuid, host, nodename, new=False, context=None):
        request = read(spec_obj, instance_uuid)
        self.before(request, host)
        try:
            info = self._claim('instance_claim', request, host, nodename, None, None, None, new)
        except errors.SchedError:
            self.lost += 1
            raise
        self.stands(instance_uuid)
        return info

    def resize_claim(self, spec_obj, instance_uuid, host, nodename, move='resize', context=None):
        request = read(spec_obj, instance_uuid)
        return self._claim('resize_claim', request, host, nodename, None, None, move)

    def claim_alternate(
        self, spec_obj, instance_uuid, failed_host, host, nodename, context=None, claim=None
    ):
        request, meant = read(spec_obj, instance_uuid), ClaimSelector(claim)
        given = request, host, nodename, None, failed_host, None, False, meant
        return self._claim('claim_alternate', *given)

    def confirm_claim(self, instance_uuid, host, context=None, claim=None):
        given = instance_uuid, host, ClaimSelector(claim)
        return self._ask('confirm_claim', self._claim_service.confirm_claim, *given)

    def revert_claim(self, instance_uuid, context=None, claim=None):
        given = instance_uuid, ClaimSelector(claim)
        return self._ask('revert_claim', self._claim_service.revert_claim, *given)

    def abort_claim(self, instance_uuid, host=None, context=None, claim=None, confirmed=False):
        given = instance_uuid, host, ClaimSelector(claim, unconfirmed=not confirmed)
        return self._ask('abort_claim', self._claim_service.abort_claim, *given)

    def show(self, instance_uuid, context=None):
        return self._ask('show', self._claim_service.claims_of, instance_uuid)

    def _claim(self, name: str, *asked: Any) -> Any:
        self._calls[name] += 1
        return self._infos([self._engine.call(self._claim_service.claim, *asked)])[0]

    def _ask(self, name: str, work: Callable, *asked: Any) -> list:
        self._calls[name] += 1
        return self._infos(self._engine.call(work, *asked))

    def _infos(self, claims: list) -> list:
        nodes = self._engine.call(self._state_sync.names, [claim.node_uuid for claim in claims])
        return [translate.claim_info(claim, nodes[claim.node_uuid]) for claim in claims]


class Destinations:
    """The part of rpc.client.SchedulerClient that chooses hosts; ``claims`` receives the
    claims."""

    def __init__(
        self, engine: SimulatedScheduler, calls: collections.Counter, claims: SimulatedClaims
    ):
        self._engine, self._calls, self._claims = engine, calls, claims

    def select_destinations(self, spec_obj, instance_uuids, return_alternates=True, context=None):
        self._calls['select_destinations'] += 1
        requests = translate.requests(translate.spec(spec_obj), instance_uuids)
        found = self._engine.place(requests, return_alternates)
        for instance_uuid in instance_uuids:
            self._claims.stands(instance_uuid)
        return objects.from_primitive(translate.selections(found, True))


# Simulated durations in seconds.
CALL_S = 0.005  # a call over the bus, including its processing
COMMAND_S = 0.001  # a command to or a message from the broker of jobs
SAMPLE_S = 300.0


def build_seconds(chance: random.Random, mean_s: float) -> float:
    """Returns the duration of a driver operation: from half to one and a half of the mean."""
    return mean_s * chance.uniform(0.5, 1.5)


@dataclasses.dataclass(slots=True)
class SimulatedCloud:
    """``plan.failing`` is the share of failing builds, by instance and host the same in both
    models."""

    plan: Plan
    engine: SimulatedScheduler
    nodes: list[SimulatedNode]
    node_apis: dict[str, Any]
    aggregates: list
    drivers: dict[str, Any]
    large: TraceFlavor
    build_s: float
    clock: Clock = dataclasses.field(default_factory=Clock)

    @classmethod
    def of(
        cls,
        plan: Plan,
        engine: SimulatedScheduler,
        nodes: list[SimulatedNode],
        node_apis: list,
        large: TraceFlavor,
        build_s: float,
    ):
        """Returns the nodes that have joined the scheduler."""
        settings = DriverSettings(fake_failures=plan.failing, seed=plan.seed)
        aggregates = aggregates_of(nodes)
        disabled = [node.host for node in nodes if node.disabled]
        engine.join([node_api.told() for node_api in node_apis], aggregates, disabled)
        drivers = {node_api.host: fake.Fake(settings, node_api.host) for node_api in node_apis}
        by_host = {node_api.host: node_api for node_api in node_apis}
        return cls(plan, engine, nodes, by_host, aggregates, drivers, large, build_s)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.clock.at(self.clock() + seconds, call)

    def run(self, until_s: float) -> None:
        """Runs all events until then."""
        for call in self.clock.move(until_s):
            call()

    def report(self, node_api: Any, tally: ModelTally) -> None:
        """Sends the changes of the node as its agent does."""
        tally.reports += 1
        told = node_api.told()
        seen = self.engine.cluster.node(told.node_uuid).generation
        self.engine.report(dataclasses.replace(told, order=ReportOrder(seen=seen)))

    def look(self, tally: ModelTally, until_s: float) -> None:
        """Samples now, and repeatedly until that time."""
        tally.samples.append(sample(self.engine.cluster, self.large, self.clock()))
        if self.clock() + SAMPLE_S <= until_s:
            self.after(SAMPLE_S, lambda: self.look(tally, until_s))

    def note_server(self, tally: ModelTally, ask: Ask, host: str) -> None:
        """Records that the server runs on this host."""
        tally.placed += 1
        tally.runs_s.append(self.clock() - ask.time_s)
        tally.placed_vcpus += ask.flavor.vcpus
        zone = self.node_apis[host].node.zone
        if ask.zone not in (None, zone):
            tally.violations.append(f'server {ask.uuid} wants {ask.zone} and runs in {zone}')

    def note_refusal(self, tally: ModelTally) -> None:
        """Records a refused request at the current time."""
        if tally.first_refusal is None:
            tally.first_refusal = sample(self.engine.cluster, self.large, self.clock())
