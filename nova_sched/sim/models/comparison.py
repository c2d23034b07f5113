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
"""Runs the queue model and the central scheduler on the same simulated cloud.

::

    load: the trace, scaled, and the nodes    cloud: scheduler, counting broker, clock
    conductor: of both models, and a manager  tally: what is counted

The queue model uses the product's worker, catalogue, routing, job entries, endings and fallback;
both models use its engine and claims. The clock, the broker and the driver are simulated, and
everything runs in one thread.
"""

import dataclasses
import pathlib
import random
import resource
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import counting, schema
from nova_sched.db import engine as db_engine
from nova_sched.db.jobs import SqlJobTable
from nova_sched.queues.brokers import of_flavor
from nova_sched.queues.catalogue import Catalogue
from nova_sched.queues.fits.fit import Fit, with_devices
from nova_sched.queues.fits.node_fit import NodeFit
from nova_sched.queues.manager import fallback
from nova_sched.queues.node.steps import BROKER, CLAIMS, DRIVER, ComponentCall, Simulated
from nova_sched.queues.node.worker import Worker, WorkerDependencies, WorkerSettings
from nova_sched.sim import session
from nova_sched.sim.machines import Plan, machines
from nova_sched.sim.models import load
from nova_sched.sim.models.cloud import (
    CALL_S,
    COMMAND_S,
    CONSUME,
    NOW_S,
    CountedBroker,
    SimulatedClaims,
    SimulatedCloud,
    SimulatedScheduler,
    build_seconds,
    read,
)
from nova_sched.sim.models.conductor import QueueConductor, QueueModelManager, SchedulerConductor
from nova_sched.sim.models.load import Ask, SimulatedNodeApi, fill, of_host, special_facts
from nova_sched.sim.models.tally import RANKING, ModelTally, sample
from nova_sched.sim.replay import Demand
from nova_sched.sim.trace import Arrival, TraceFlavor

MODELS = QUEUES, SCHEDULER = 'queues', 'scheduler'
EVALUATE_S = 600.0  # interval after which a worker reads an unchanged node again
TAIL_S = 600.0  # time that the clock runs on after the last request
COMMON = 0.01  # a flavor with a lower share of the requests is not the large one


@dataclasses.dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """Settings of the simulation. Shares are from 0 to 1.

    ``fullness``: peak of the demand, as a share of the nodes' vCPUs. ``prefill``: the share in use
    at the start, by servers that stay. ``packed``: those servers are placed as packing weights
    place them. ``by_rule`` is the share of projects whose requests no queue represents.
    ``database``: claims are in SQLite, like the instance records, so that all statements are
    counted; else in memory. ``ranked``: see ModelTally.ranks.
    """

    plan: Plan
    zoned: float = 0.3
    hours: float = 4.0
    fullness: float = 1.1
    prefill: float = 0.0
    packed: bool = False
    build_s: float = 5.0
    slots: int = 2
    steps: int = 10
    fallback_after_s: float = 30.0
    max_attempts: int = 3
    max_redeliveries: int = 3
    more_flavors: int = 0
    more_specials: Sequence[str] = ()
    ranked: bool = True
    database: bool = True
    by_rule: float = 0.0
    most_asks: int | None = None


class Run:
    """One cloud, empty or prefilled, and its requests."""

    def __init__(
        self,
        settings: ComparisonSettings,
        arrivals: Sequence[Arrival],
        conf: Any,
        directory: pathlib.Path,
    ):
        self.settings, self.tally = settings, ModelTally()
        plan = dataclasses.replace(settings.plan, failing=0.0)  # the drivers fail, not the nodes
        nodes = machines(plan)
        arrivals = load.cut(arrivals, settings.hours)
        self.flavors = load.mix(arrivals)
        own = special_facts(settings.more_specials, len(nodes))
        node_apis = [
            SimulatedNodeApi(node, *facts) for node, facts in zip(nodes, own, strict=True)
        ]
        fill(node_apis, self.flavors, settings.prefill, settings.packed, plan.seed)
        self.asks = self._demand(nodes, arrivals)
        database = db_engine.create(f'sqlite:///{directory / "pull.sqlite"}')
        schema.upgrade(database)
        self._statements = counting.Statements(database)
        database.dispose()
        self.job_table = SqlJobTable(database)
        store = SqlClaimStore(database if settings.database else schema.in_memory())
        engine = SimulatedScheduler(conf, store, self.tally.meter, plan.seed)
        self.cloud = SimulatedCloud.of(
            settings.plan, engine, nodes, node_apis, large(self.flavors), settings.build_s
        )

    def _demand(self, nodes: list, arrivals: Sequence[Arrival]) -> list[Ask]:
        settings, plan = self.settings, self.settings.plan
        able = sum(node.capacity()['VCPU'] for node in nodes if not node.disabled)
        demand = Demand(plan.zone_names, settings.zoned, plan.seed)
        vcpus = able * (settings.fullness - settings.prefill)
        found = load.asks(arrivals, vcpus, demand, settings.by_rule, plan.seed)
        return found[: settings.most_asks]

    def play(
        self, ask: Callable[[Ask], None], watch: Callable[[ModelTally, float], None]
    ) -> ModelTally:
        """Runs the simulated hours. Returns the tally."""
        cloud, tally = self.cloud, self.tally
        self._statements.count.clear()
        end_s = self.asks[-1].time_s if self.asks else load.START_S
        cloud.clock.at(load.START_S, lambda: cloud.look(tally, end_s))
        tally.meter.clear()
        for one in self.asks:
            cloud.run(one.time_s)
            ask(one)
            watch(tally, cloud.clock())
        tally.samples.append(sample(cloud.engine.cluster, cloud.large, cloud.clock()))
        cloud.run(end_s + TAIL_S)
        tally.took_s = tally.meter.total()
        tally.statements.update(self._statements.count)
        tally.asked_vcpus = sum(one.flavor.vcpus for one in self.asks)
        tally.memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        tally.violations += self._audit()
        return tally

    def _audit(self) -> list[str]:
        """Returns the violations at the end. Servers of the start have no claims; pending ones
        have claims."""
        accounts = session.stored_accounts(self.cloud.engine.store)
        held = {one.uuid for one in self.asks}
        found = []
        for violation in session.audit(accounts, self.cloud.nodes):
            words = violation.split()
            if words[0] != 'server' or words[1] in held:
                found.append(violation)
        return found


def large(flavors: Mapping[TraceFlavor, int]) -> TraceFlavor:
    """Returns the flavor with the most vCPUs of those that are common."""
    common = [one for one, count in flavors.items() if count >= COMMON * sum(flavors.values())]
    return max(common, key=lambda one: (one.vcpus, one.memory_mb))


def scheduler(run: Run, watch: Callable[[ModelTally, float], None]) -> ModelTally:
    """The central scheduler."""
    central = SchedulerConductor(run.cloud, run.tally)
    return run.play(central.ask, watch)


def catalogue(settings: ComparisonSettings, flavors: Mapping[TraceFlavor, int]) -> Catalogue:
    """Returns the flavors of the trace and ``more_flavors`` without requests, zones, and
    additional special things."""
    rows = [{'name': one.name, 'vcpus': one.vcpus, 'memory_mb': one.memory_mb} for one in flavors]
    rows += [
        {'name': f'more-{number}', 'vcpus': 1 + number % 16, 'memory_mb': 512 * (1 + number % 61)}
        for number in range(settings.more_flavors)
    ]
    zones = [f'zone:{zone}' for zone in settings.plan.zone_names] if settings.zoned else []
    return Catalogue.of(1, rows, [*zones, *settings.more_specials])


class Pull:
    """The queue model: a worker on each node."""

    def __init__(self, run: Run):
        self._run, settings, cloud, tally = run, run.settings, run.cloud, run.tally
        self.broker = CountedBroker(cloud.clock, cloud.after, settings.fallback_after_s, COMMAND_S)
        self.claims = SimulatedClaims(cloud.engine, tally.calls)
        self.catalogue = catalogue(settings, run.flavors)
        self.broker.declare(of_flavor(queue.name) for queue in self.catalogue.queues)
        self._fit = Fit(with_devices(cloud.engine.rules), self.catalogue, settings.steps)
        chosen = fallback.FallbackSettings(settings.max_attempts, int(settings.fallback_after_s))
        self._manager = QueueModelManager(
            cloud, self.broker, self.claims, run.job_table, tally, chosen
        )
        self.conductor = QueueConductor(
            cloud, self.broker, self.claims, run.job_table, self.catalogue, tally
        )
        if settings.ranked:
            self.claims.before = self._rank
        self._chance = random.Random(f'{settings.plan.seed} builds')
        self.workers = {
            node_api.host: self._worker(node_api) for node_api in cloud.node_apis.values()
        }

    def start(self) -> None:
        self._manager.start()
        self.conductor.start()
        for worker in self.workers.values():
            worker.start()

    def _worker(self, node_api: SimulatedNodeApi) -> Worker:
        cloud, settings = self._run.cloud, self._run.settings
        view = NodeFit(
            self._fit,
            of_host(cloud.aggregates, node_api.host),
            node_api.node.disabled,
            lambda: NOW_S,
        )
        around = WorkerDependencies(
            _Reporting(node_api, cloud, self._run.tally),
            self.claims,
            self.broker,
            cloud.drivers[node_api.host],
            lambda: view,
            read,
        )
        told = WorkerSettings(
            settings.slots, settings.max_redeliveries, settings.steps, lambda: EVALUATE_S
        )
        chance = random.Random(f'{settings.plan.seed} {node_api.host}')
        return Worker(around, told, Simulated(cloud.after, self._takes), cloud.clock, chance)

    def _takes(self, call: ComponentCall) -> float:
        if call.what == DRIVER:
            return build_seconds(self._chance, self._run.settings.build_s)
        return {CLAIMS: CALL_S, BROKER: COMMAND_S}[call.what]

    def _rank(self, request: Any, host: str) -> None:
        with self._run.tally.meter.of(RANKING):
            found = self._run.cloud.engine.rank(request, host)
        if found is not None:
            self._run.tally.ranks.append(found)

    def collect(self) -> None:
        """Sums up the counts of the workers and the broker."""
        tally = self._run.tally
        for worker in self.workers.values():
            tally.put_backs += worker.figures.put_backs
            tally.evaluations += worker.figures.evaluations
            tally.changes += worker.figures.changes
        tally.wire.update(self.broker.count)
        tally.kinds.update(self.broker.kinds)
        tally.lost_claims = self.claims.lost


class _Reporting:
    """A node_api whose agent reports changes; the worker sees no difference."""

    def __init__(self, node_api: SimulatedNodeApi, cloud: SimulatedCloud, tally: ModelTally):
        self._node_api, self._cloud, self._tally = node_api, cloud, tally

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node_api, name)

    def keep(self, instance_uuid: str) -> None:
        self._node_api.keep(instance_uuid)
        self._cloud.report(self._node_api, self._tally)

    def undo(self, instance_uuid: str, failed: bool = False) -> None:
        self._node_api.undo(instance_uuid, failed)
        if failed:
            self._tally.failed_builds += 1
            self._cloud.report(self._node_api, self._tally)

    def destroy(self, instance_uuid: str) -> bool:
        here = self._node_api.destroy(instance_uuid)
        self._cloud.report(self._node_api, self._tally)
        return here


def queues(run: Run, watch: Callable[[ModelTally, float], None]) -> ModelTally:
    """The queue model."""
    pull, tally = Pull(run), run.tally
    tally.meter.clear()
    pull.start()
    run.cloud.run(load.START_S - 1)
    tally.queues = len(pull.catalogue.queues)
    tally.first_subscriptions = pull.broker.count[CONSUME]
    tally.start_s = tally.meter.total()
    pull.broker.count.clear()
    pull.broker.kinds.clear()
    for worker in pull.workers.values():
        worker.figures.evaluations = worker.figures.changes = 0
    run.play(pull.conductor.ask, watch)
    pull.collect()
    return tally
