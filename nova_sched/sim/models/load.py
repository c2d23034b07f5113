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
"""The requests of users, server by server, and the nodes as their workers see them."""

import dataclasses
import math
import random
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from nova_sched.queues.catalogue import RESOURCE, TRAIT
from nova_sched.rpc import reports, translate
from nova_sched.sim import conductor
from nova_sched.sim.machines import SimulatedNode
from nova_sched.sim.replay import Demand
from nova_sched.sim.trace import Arrival, TraceFlavor
from nova_sched.state.host_aggregate import ZONE_KEY, HostAggregate
from nova_sched.state.report import Inventory, Report
from nova_sched.state.request import Request

GRID_S = 300.0  # the trace's resolution of arrivals: they are spread randomly within it
IGNORED = 'a-host-of-old'  # no host has that name
START_S = 120.0  # simulated time of the first arrival: every worker has subscribed by then


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """One server; ``lifetime_s`` None: no end."""

    time_s: float
    uuid: str
    flavor: TraceFlavor
    zone: str | None
    lifetime_s: float | None
    by_rule: bool = False

    def spec(self) -> Any:
        """Returns the RequestSpec; with ``by_rule`` it has hosts to ignore, which no queue
        represents."""
        spec = conductor.spec(self.flavor, [self.uuid], self.zone)
        if self.by_rule:
            spec.ignore_hosts = [IGNORED]
        return spec


def cut(arrivals: Sequence[Arrival], hours: float) -> list[Arrival]:
    """Returns only the first hours."""
    return [one for one in arrivals if one.time_s < arrivals[0].time_s + hours * 3600]


def peak_vcpus(arrivals: Sequence[Arrival]) -> int:
    """Returns the peak of vCPUs in use while requests arrive, if none were refused."""
    changes: list[tuple[float, int]] = []
    for one in arrivals:
        changes.append((one.time_s, len(one) * one.flavor.vcpus))
        changes += [
            (one.time_s + life, -one.flavor.vcpus) for life in one.lifetimes_s if life is not None
        ]
    in_use = most = 0
    for time_s, change in sorted(changes):
        if time_s > arrivals[-1].time_s:
            break
        in_use += change
        most = max(most, in_use)
    return most


def mix(arrivals: Sequence[Arrival]) -> dict[TraceFlavor, int]:
    """Returns how often each flavor is requested."""
    found: dict[TraceFlavor, int] = {}
    for one in arrivals:
        found[one.flavor] = found.get(one.flavor, 0) + len(one)
    return found


def asks(
    arrivals: Sequence[Arrival], vcpus: float, demand: Demand, by_rule: float, seed: int
) -> list[Ask]:
    """Repeats the trace until its peak has that many vCPUs. Returns the requests in order of time.

    The last, partial repetition contains each batch with a matching probability. The share
    ``by_rule`` (0..1) of the batches asks for something that no queue represents. Servers of one
    batch arrive together. Its copies arrive at other moments of the same five minutes, for other
    projects.
    """
    copies, chance, found = vcpus / peak_vcpus(arrivals), random.Random(f'{seed} load'), []
    began_s = arrivals[0].time_s
    for copy in range(math.ceil(copies)):
        moments: dict[str, float | None] = {}
        ruled: set[str] = set()
        for one in arrivals:
            batch = f'{one.batch}.{copy}'
            if batch not in moments:
                comes = chance.random() < copies - copy
                moments[batch] = chance.uniform(0, GRID_S) if comes else None
                if chance.random() < by_rule:
                    ruled.add(batch)
            if (moment := moments[batch]) is None:
                continue
            time_s, zone = START_S + one.time_s - began_s + moment, demand.zone(batch)
            for server, life in zip(demand.uuids(len(one)), one.lifetimes_s, strict=True):
                found.append(Ask(time_s, server, one.flavor, zone, life, batch in ruled))
    return sorted(found, key=lambda ask: ask.time_s)


UNITS = 4  # of a special resource class on a node that has it
MISSES = 8  # consecutive servers that do not fit before a node counts as full


class SimulatedNodeApi:
    """One simulated node, with the interface that a worker and a report need
    (queues.node.node_api)."""

    def __init__(
        self,
        node: SimulatedNode,
        traits: frozenset[str] = frozenset(),
        classes: Collection[str] = (),
    ):
        """In addition to its own facts, the node has these traits, and UNITS of these resource
        classes."""
        self.node, self.host, self.nodename = node, node.host, node.nodename
        stats, _ = node.report()
        found = reports.report(stats, None, [], node.inventories)
        inventories = {**found.inventories, **dict.fromkeys(classes, Inventory(UNITS))}
        self._base = dataclasses.replace(
            found,
            traits=found.traits | traits,
            inventories=inventories,
            used={name: one.reserved for name, one in inventories.items()},
        )
        self._hidden: set[str] = set()
        self._watching: tuple[Callable[[], None], ...] = ()

    def facts(self) -> Report:
        """Returns the report with all instances of the node."""
        return self._report(frozenset())

    def told(self) -> Report:
        """Returns the agent's report: without the instances that are being built."""
        return self._report(frozenset(self._hidden))

    def _report(self, without: Collection[str]) -> Report:
        held = self.node.instances
        used = dict(self._base.used)
        for name, (use, _) in self.node.usage().items():
            used[name] += use
        for instance in without:
            for name, units in held[instance].resources.items():
                used[name] -= units
        listed = frozenset(held).difference(without) if without else frozenset(held)
        return dataclasses.replace(
            self._base,
            used=used,
            instances=listed,
            num_instances=len(listed),
            running_vms=len(listed),
        )

    def hidden(self) -> Collection[str]:
        return self._hidden

    def holds(self, instance_uuid: str) -> bool:
        return instance_uuid in self.node.instances and instance_uuid not in self._hidden

    def begin(self, request: Request, move: str | None = None) -> None:
        if request.instance_uuid in self._hidden:
            self.node.drop(request.instance_uuid)
        self.node.build(request)
        self._hidden.add(request.instance_uuid)
        self._changed()

    def built(self, instance_uuid: str) -> None:
        """Does nothing: reports are sent after ``keep`` here, so the instance need not be listed
        before."""

    def keep(self, instance_uuid: str) -> None:
        self._hidden.discard(instance_uuid)
        self._changed()

    def undo(self, instance_uuid: str, failed: bool = False) -> None:
        if instance_uuid in self._hidden:
            self._hidden.discard(instance_uuid)
            self.node.drop(instance_uuid)
            self._changed()

    def destroy(self, instance_uuid: str) -> bool:
        here = instance_uuid in self.node.instances
        if here:
            self._hidden.discard(instance_uuid)
            self.node.drop(instance_uuid)
            self._changed()
        return here

    def watch(self, callback: Callable[[], None]) -> None:
        self._watching += (callback,)

    def _changed(self) -> None:
        for callback in self._watching:
            callback()


def special_facts(specials: Sequence[str], nodes: int) -> list[tuple[frozenset[str], list[str]]]:
    """Returns the special things of each node, in the syntax of [queues] specials: two of the
    traits, and one of the resource classes."""
    named = {kind: [text.partition(':')[2] for text in specials if text.startswith(kind)]
             for kind in (TRAIT, RESOURCE)}  # fmt: skip
    found = []
    for number in range(nodes):
        traits, classes = named[TRAIT], named[RESOURCE]
        own = {traits[(number * step) % len(traits)] for step in (1, 7)} if traits else set[str]()
        found.append((frozenset(own), [classes[number % len(classes)]] if classes else []))
    return found


def aggregates_of(nodes: Iterable[SimulatedNode]) -> list[HostAggregate]:
    """Returns one aggregate for each zone and one for each rack."""
    held: dict[tuple[str, str, str], set[str]] = {}
    for node in nodes:
        held.setdefault((node.zone, ZONE_KEY, node.zone), set()).add(node.host)
        held.setdefault((node.rack, 'rack', node.rack), set()).add(node.host)
    return [
        HostAggregate(place + 1, name, frozenset(hosts), {key: value})
        for place, ((name, key, value), hosts) in enumerate(held.items())
    ]


def of_host(found: Sequence[HostAggregate], host: str) -> list[HostAggregate]:
    """Returns the aggregates that a node receives: its own and those that name a zone, with only
    itself as host."""
    itself = frozenset([host])
    told = [one for one in found if host in one.hosts or one.availability_zone]
    return [dataclasses.replace(one, hosts=one.hosts & itself) for one in told]


def fill(
    node_apis: Sequence[SimulatedNodeApi],
    flavors: Mapping[TraceFlavor, int],
    share: float,
    packed: bool,
    seed: int,
) -> None:
    """Fills that share (0..1) of all vCPUs at the start, with servers of these flavors that never
    leave.

    Spread: each node has that share. Packed: that share of the nodes is full, and the others are
    empty.
    """
    chance, names = random.Random(f'{seed} fill'), list(flavors)
    weights, wanted = list(flavors.values()), {flavor: _wanted(flavor) for flavor in names}
    full = node_apis[: round(share * len(node_apis))] if packed else node_apis
    for node_api in full if share else ():
        misses = 0
        _, capacity = node_api.node.usage()['VCPU']
        most = capacity if packed else share * capacity
        while misses < MISSES:
            (flavor,) = chance.choices(names, weights)
            used, _ = node_api.node.usage()['VCPU']
            memory, memory_most = node_api.node.usage()['MEMORY_MB']
            if used + flavor.vcpus > most or memory + flavor.memory_mb > memory_most:
                misses += 1
                continue
            server = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            node_api.node.build(dataclasses.replace(wanted[flavor], instance_uuid=server))


def _wanted(flavor: TraceFlavor) -> Request:
    server = str(uuid.UUID(int=0))
    return translate.requests(conductor.spec(flavor, [server]), [server])[0]
