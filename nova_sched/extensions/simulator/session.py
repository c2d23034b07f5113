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
"""One complete simulation: the hosts join, the trace is replayed, and the result is checked."""

import collections
import dataclasses
import time
import uuid
from collections.abc import Mapping
from typing import Any

from nova_sched import errors
from nova_sched.claims import ClaimSelector
from nova_sched.extensions.simulator import conductor
from nova_sched.extensions.simulator.conductor import SimulatedConductor
from nova_sched.extensions.simulator.machines import FAST_CPU, Plan, machines
from nova_sched.extensions.simulator.replay import Clock, Demand, Replay, ReplayTally
from nova_sched.extensions.simulator.simulated_hosts import CallPool, SimulatedHosts
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.rpc import translate


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """The scheduler's record of one node: usage and capacity by resource class, and the consumers
    of its claims."""

    host: str
    used: Mapping[str, int]
    capacity: Mapping[str, int]
    holders: frozenset[str]


def stored_accounts(store):
    """Return accounts of all nodes, read from the claim store."""
    accounts = []
    for facts in store.changes({}).nodes:
        used = collections.Counter(facts.foreign)
        for claim in facts.claims:
            used.update(claim.resources)
        inventories = facts.report.inventories
        capacity = {name: inventory.capacity for name, inventory in inventories.items()}
        holders = frozenset(claim.consumer_uuid for claim in facts.claims)
        accounts.append(Account(facts.report.host, used, capacity, holders))
    return accounts


def answered_accounts(hosts):
    """Return accounts of the simulated nodes, from the scheduler's answers to their last
    reports."""
    amounts = {
        uuid: claim.resources
        for node in hosts.nodes.values()
        for uuid, claim in node.instances.items()
    }
    accounts = []
    for node in hosts.nodes.values():
        answer = hosts.answers[node.host]
        used = collections.Counter(answer['foreign'])
        for holder in answer['claims']:
            used.update(amounts.get(holder, {}))
        accounts.append(Account(node.host, used, node.capacity(), frozenset(answer['claims'])))
    return accounts


def audit(accounts, nodes):
    """Return the differences between the accounts and the nodes that run servers, a sentence
    each."""
    faults, hosts = [], collections.defaultdict(list)
    for account in accounts:
        for holder in account.holders:
            hosts[holder].append(account.host)
        for name, used in sorted(account.used.items()):
            capacity = account.capacity.get(name, 0)
            if used > capacity:
                faults.append(f'{account.host} is over its capacity: {name} {used} of {capacity}')
    runs = {instance: node.host for node in nodes for instance in node.instances}
    for instance, host in runs.items():
        if hosts.get(instance, []) != [host]:
            claimed = ', '.join(hosts.get(instance, [])) or 'nothing'
            faults.append(f'server {instance} runs on {host}, but its claims are on {claimed}')
    for instance, claimed in hosts.items():
        if instance not in runs:
            faults.append(
                f'server {instance} runs nowhere, but has claims on {", ".join(claimed)}'
            )
    return faults


SMALL = TraceFlavor('small', 1, 1024)


@dataclasses.dataclass(frozen=True, slots=True)
class Explained:
    """``steps`` are the engine's: (rule, hosts that it saw, hosts that it left), in order."""

    asked: str
    reason: str
    steps: tuple


def refusal(scheduler, zone):
    """Ask a running engine for hardware that no simulated node has, in a zone. Return None if it
    finds a host."""
    flavor, server = TraceFlavor('impossible', 4, 28 * 1024), str(uuid.uuid4())
    spec = conductor.spec(
        flavor,
        [server],
        zone,
        extra_specs={f'trait:{FAST_CPU}': 'required'},
        image_properties={'hw_architecture': 'aarch64'},
    )
    try:
        scheduler.place(translate.requests(spec, [server]), claim=False)
    except errors.NoValidHost as error:
        request = (
            f'a server with {flavor} in {zone}, on a CPU with AVX-512, from an image for aarch64'
        )
        return Explained(request, error.reason, error.steps)
    return None


def one_by_one(scheduler, count=100):
    """Place servers one after the other, then end their claims. Return the seconds that each
    took."""
    placed, took_s = [], []
    for server in (str(uuid.uuid4()) for _ in range(count)):
        requests = translate.requests(conductor.spec(SMALL, [server]), [server])
        begin_s = time.perf_counter()
        try:
            scheduler.place(requests, alternates=True)
        except errors.NoValidHost:
            break
        took_s.append(time.perf_counter() - begin_s)
        placed.append(server)
    service = scheduler.claim_service
    for server in placed:
        for claim in scheduler.call(service.claims_of, server):
            scheduler.call(service.abort_claim, server, None, ClaimSelector(claim.name))
    return took_s


@dataclasses.dataclass(frozen=True, slots=True)
class SimulationSettings:
    """``inflight`` parallel calls; ``zoned`` is the share (0..1) of batches that name a zone."""

    plan: Plan = dataclasses.field(default_factory=Plan)
    inflight: int = 32
    zoned: float = 0.7


@dataclasses.dataclass(slots=True)
class SimulationResult:
    """The result of a simulation.

    ``decided_s`` and ``answered_s`` are the engine's own times for the requests of the replay,
    ``alone_s`` those of requests sent one by one. If the engine is in another process
    (``embedded`` False) they are empty, and ``explained`` is None. ``machine`` is this machine's
    node, if it took part.
    """

    settings: SimulationSettings
    tally: ReplayTally
    nodes: list
    machine: Any = None
    decided_s: list = dataclasses.field(default_factory=list)
    answered_s: list = dataclasses.field(default_factory=list)
    alone_s: list = dataclasses.field(default_factory=list)
    conflicts: int = 0
    explained: Explained | None = None
    embedded: bool = False
    reports: int = 0
    claims: int = 0
    violations: list = dataclasses.field(default_factory=list)


def play(settings, arrivals, bus, service=None, machine=None, watch=lambda tally: None):
    """Run the simulation over a bus. Return the result.

    ``service`` is a SchedulerService that was started in this process for this run alone: its
    store is audited. Without one, a remote scheduler is used over the bus, and the hosts are
    removed from it at the end.
    """
    with CallPool(settings.inflight, 'conductor') as pool:
        members = [*machines(settings.plan), *([machine] if machine else [])]
        hosts = SimulatedHosts(members, bus, pool)
        try:
            hosts.join()
            demand = Demand(settings.plan.zone_names, settings.zoned, settings.plan.seed)
            replay = Replay(hosts, SimulatedConductor(bus, hosts), Clock(), pool, demand, watch)
            result = SimulationResult(
                settings, replay.run(arrivals), members, machine, embedded=service is not None
            )
            hosts.report_all()
            result.reports = hosts.reports
            accounts = answered_accounts(hosts) if service is None else _inside(result, service)
            result.claims = sum(len(account.holders) for account in accounts)
            result.violations = audit(accounts, members)
        finally:
            if service is None:
                hosts.leave()
    return result


def _inside(result, service):
    """Return the results that only the scheduler's own process has."""
    figures = service.scheduler.figures
    result.decided_s, result.answered_s = list(figures.decided_s), list(figures.answered_s)
    result.conflicts = figures.conflicts
    result.alone_s = one_by_one(service.scheduler)
    zones = result.settings.plan.zone_names
    result.explained = refusal(service.scheduler, zones[min(1, len(zones) - 1)])
    return stored_accounts(service.store)
