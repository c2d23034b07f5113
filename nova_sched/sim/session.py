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
"""One complete simulation: the fleet joins, the trace is replayed, and the result is checked."""

import contextlib
import dataclasses
from typing import Any

from nova_sched.sim import audit, explain
from nova_sched.sim.clock import Clock
from nova_sched.sim.conductor import Conductor
from nova_sched.sim.fleet import Fleet
from nova_sched.sim.machines import Plan, machines
from nova_sched.sim.pool import Pool
from nova_sched.sim.replay import Demand, Replay, Tally


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """``inflight`` parallel calls; ``zoned`` is the share (0..1) of batches that name a zone."""

    plan: Plan = dataclasses.field(default_factory=Plan)
    inflight: int = 32
    zoned: float = 0.7


@dataclasses.dataclass(slots=True)
class Result:
    """The result of a simulation.

    ``decided_s`` and ``answered_s`` are the engine's own times for the requests of the replay,
    ``alone_s`` those of requests sent one by one. If the engine is in another process
    (``embedded`` False) they are empty, and ``explained`` is None. ``machine`` is this machine's
    node, if it took part.
    """

    settings: Settings
    tally: Tally
    nodes: list
    machine: Any = None
    decided_s: list = dataclasses.field(default_factory=list)
    answered_s: list = dataclasses.field(default_factory=list)
    alone_s: list = dataclasses.field(default_factory=list)
    conflicts: int = 0
    explained: explain.Explained | None = None
    embedded: bool = False
    reports: int = 0
    claims: int = 0
    violations: list = dataclasses.field(default_factory=list)


def play(settings, arrivals, bus, service=None, machine=None, watch=lambda tally: None):
    """Runs the simulation over a bus. Returns the Result.

    ``service`` is a SchedulerService that was started in this process for this run alone: its
    store is audited. Without one, a remote scheduler is used over the bus, and the fleet is
    removed from it at the end.
    """
    with Pool(settings.inflight, 'conductor') as pool:
        members = [*machines(settings.plan), *([machine] if machine else [])]
        fleet = Fleet(members, bus, pool)
        with _membership(fleet, temporary=service is None):
            demand = Demand(settings.plan.zone_names, settings.zoned, settings.plan.seed)
            replay = Replay(fleet, Conductor(bus, fleet), Clock(), pool, demand, watch)
            result = Result(
                settings, replay.run(arrivals), members, machine, embedded=service is not None
            )
            fleet.report_all()
            result.reports = fleet.reports
            accounts = audit.from_answers(fleet) if service is None else _inside(result, service)
            result.claims = sum(len(account.holders) for account in accounts)
            result.violations = audit.audit(accounts, members)
    return result


@contextlib.contextmanager
def _membership(fleet, temporary):
    try:
        fleet.join()
        yield
    finally:
        if temporary:
            fleet.leave()


def _inside(result, service):
    """Returns the results that only the scheduler's own process has."""
    figures = service.scheduler.figures
    result.decided_s, result.answered_s = list(figures.decided_s), list(figures.answered_s)
    result.conflicts = figures.conflicts
    result.alone_s = explain.one_by_one(service.scheduler)
    zones = result.settings.plan.zone_names
    result.explained = explain.refusal(service.scheduler, zones[min(1, len(zones) - 1)])
    return audit.from_store(service.store)
