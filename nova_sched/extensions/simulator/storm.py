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
"""A cloud in bad weather: schedulers, agents, conductors, bus and database under one simulated
clock, with faults that a seed draws.

Real are the engine with its loop and its poller, the endpoints, and the claim store on SQLite.
Simulated are time, the bus, the agents and the conductors. The ledger compares the store with what
really runs after each event. The same seed always gives the same run.
"""

import collections
import contextlib
import dataclasses
import hashlib
import logging
import pathlib
import random
import tempfile
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from nova_sched import errors, objects
from nova_sched.claim import LIVE_MIGRATION, MEMORY_MB, MIGRATION, PCPU, RESIZE, VCPU
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import schema
from nova_sched.engine import Settings, catalog
from nova_sched.engine.clock import Pauses, StoreClock, handling
from nova_sched.engine.context import Context
from nova_sched.engine.loop import Deferred
from nova_sched.engine.scheduler import CALL, Scheduler
from nova_sched.engine.sync.membership import SchedulerMembership
from nova_sched.engine.sync.store_poller import StorePoller
from nova_sched.extensions.agent.reporter import ReportCount
from nova_sched.extensions.simulator import conductor, pieces
from nova_sched.extensions.simulator.strands import Process, Signal, Timeline, names_from, wait
from nova_sched.filters.compute import ComputeFilter
from nova_sched.filters.numa_topology import NUMATopologyFilter
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.rpc.endpoints.claims import ClaimsEndpoint
from nova_sched.rpc.endpoints.scheduler import SchedulerEndpoint
from nova_sched.rpc.endpoints.stats import StatsEndpoint
from nova_sched.rpc.messages import NovaNoValidHost, known
from nova_sched.state.cluster import Cluster
from nova_sched.state.request import ANTI_AFFINITY
from nova_sched.weighers.ram import RAMWeigher

NAMESPACE = uuid.UUID('8a3a1c52-6a1e-4a53-9a86-5b0f2d1a7c10')
EPOCH_S = 1_800_000_000.0  # the database's clock at the start
FLAVORS = (pieces.Size('one', 1, 1024), pieces.Size('two', 2, 2048), pieces.Size('four', 4, 4096))
GROUPS = ('group 0', 'group 1')  # server groups with anti-affinity
VCPUS, NODE_MB = 8, 8192  # of each node
INTERVAL_S = 20.0  # between two reports
ANSWER_S = 60.0  # that a caller waits
AGAIN_S = 2.0  # before it calls again
POLL_S = 0.5  # a poller checks whether there is something to do
HEARD_S = 120.0  # without a heartbeat for so long, the bus gives a message to another scheduler
CALM_S = 30.0  # at the start
LINES = 40  # of the past that a failure shows
Amounts = Mapping[str, int]
Parts = tuple[HardwareAllocation | None, ...]


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(NAMESPACE, name))


def cpus_of(amounts: Amounts) -> int:
    return amounts.get(VCPU, 0) + amounts.get(PCPU, 0)


def is_less(available: Amounts, amounts: Amounts) -> bool:
    """Whether the available amounts do not contain others."""
    return any(available.get(name, 0) < amount for name, amount in amounts.items())


@dataclasses.dataclass(frozen=True, slots=True)
class Weather:
    """What a seed draws for a whole run. Shares are of messages or of transactions, from 0 to 1.

    ``pending_ttl_s`` is far longer than any pause, so that nothing that is built expires.
    """

    schedulers: int
    nodes: int
    servers: int  # that are there at once, about
    pending_ttl_s: float
    longest_pause_s: float
    slow: float
    lost: float
    doubled: float
    busy: float
    unavailable: float
    unanswered: float  # transactions that are made, and whose answer is lost
    fault_every_s: float
    strangers: bool  # instances that no scheduler placed run on some nodes, from the start
    jumps: bool  # of the database's clock
    target_first: bool  # a revert ends on the target before the server is back on the source
    pieces: bool  # some nodes have dedicated CPUs and devices, and servers ask for them
    groups: bool  # some servers are in groups with anti-affinity
    amounts: bool  # reports tell the amounts of each instance

    @classmethod
    def of(cls, chance: random.Random) -> 'Weather':
        ttl_s = chance.choice([900.0, 900.0, 900.0, 1800.0, 3600.0, 14400.0])
        rough = chance.choice([0.3, 1.0, 3.0])
        return cls(
            schedulers=chance.randint(2, 3),
            nodes=chance.randint(2, 5),
            servers=chance.randint(6, 14),
            pending_ttl_s=ttl_s,
            longest_pause_s=ttl_s / 4,
            slow=0.03 * rough,
            lost=0.01 * rough,
            doubled=0.02 * rough,
            busy=0.01 * rough,
            unavailable=0.003 * rough,
            unanswered=0.003 * rough,
            fault_every_s=chance.choice([10.0, 30.0, 120.0]) / rough,
            strangers=chance.random() < 0.4,
            jumps=chance.random() < 0.3,
            target_first=chance.random() < 0.3,
            pieces=chance.random() < 0.6,
            groups=chance.random() < 0.5,
            amounts=chance.random() < 0.5,
        )


class Violation(Exception):
    """A promise that was broken; ``about`` are names of servers and nodes."""

    def __init__(self, text: str, *about: str):
        super().__init__(text)
        self.about = about


# The database.


class StormySessions:
    """Sessions of one scheduler: other processes go on between transactions, and some of these
    fail."""

    def __init__(self, sessions: Any, cloud: 'Cloud', process: Process):
        self._sessions, self._cloud, self._process = sessions, cloud, process

    @contextlib.contextmanager
    def transaction(self, reads: bool = False) -> Iterator[Any]:
        self._before(reads)
        with self._sessions.transaction(reads) as connection:
            yield connection
        self._after(reads)

    @contextlib.contextmanager
    def brief(self, reads: bool = False) -> Iterator[Any]:
        self._before(reads)
        with self._sessions.brief(reads) as connection:
            yield connection
        self._after(reads)

    def _before(self, reads: bool) -> None:
        cloud, chance = self._cloud, self._cloud.chance
        cloud.take_time(self._process, 0.002)
        if cloud.is_database_down:
            raise errors.StoreUnavailable('simulated: the database is down')
        drawn = chance.random() if cloud.is_stormy else 1.0
        if drawn < cloud.weather.busy and not reads:
            raise errors.StoreBusy('simulated: another transaction')
        if drawn > 1.0 - cloud.weather.unavailable and cloud.is_stormy:
            raise errors.StoreUnavailable('simulated: the connection is broken')

    def _after(self, reads: bool) -> None:
        cloud = self._cloud
        if not reads:
            cloud.ledger.is_due = True
        if not cloud.is_stormy or reads:
            return
        if cloud.chance.random() < cloud.weather.unanswered:
            cloud.say(f'{self._process.name}: a transaction is made, its answer is lost')
            raise errors.StoreUnavailable('simulated: the connection broke after COMMIT')
        cloud.take_time(self._process, 0.001)


class StormyStore(SqlClaimStore):
    """The claim store of one scheduler, on the database of all."""

    def __init__(self, cloud: 'Cloud', process: Process):
        super().__init__(cloud.database, cloud.database_s)
        self._sessions = StormySessions(self._sessions, cloud, process)


# Schedulers.


class Front:
    """A Scheduler as endpoints see it: who waits for the loop lets the simulation go on."""

    def __init__(self, member: 'Member', scheduler: Scheduler):
        self._member, self._scheduler = member, scheduler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)

    def call(self, work: Callable, *args: Any) -> Any:
        return self._member.result(self._scheduler.loop.send(CALL, (work, args)))

    def begin_place(self, *args: Any, **words: Any) -> Any:
        return self._woken(self._scheduler.begin_place(*args, **words))

    def begin_report(self, report: Any) -> Any:
        return self._woken(self._scheduler.begin_report(report))

    def _woken(self, begun: Any) -> Any:
        self._member.work.set()
        return begun


class Member:
    """One scheduler process, which may be killed and started again under its name."""

    READS_NOVA = False

    def __init__(self, cloud: 'Cloud', number: int):
        self.cloud, self.number, self.name = cloud, number, f'scheduler {number}'
        self.starts = 0
        self.process = Process(cloud.timeline, self.name)
        self.is_ready = False
        self.start()

    def start(self) -> None:
        self.starts += 1
        cloud, self.is_ready = self.cloud, False
        self.process = process = Process(cloud.timeline, self.name)
        self.work = Signal(cloud.timeline)
        store = StormyStore(cloud, process)
        self.clock = StoreClock(
            store.now_s, lambda: cloud.timeline.now_s, lambda: cloud.wall_s(self.name), 3.0
        )
        self.pauses = Pauses(lambda: cloud.timeline.now_s)
        membership = SchedulerMembership(host=self.name, clock=self.clock,
                                         monotonic=lambda: cloud.timeline.now_s)  # fmt: skip
        membership.position_and_count = self.number, cloud.weather.schedulers
        context = Context(
            cluster=Cluster(),
            store=store,
            settings=lambda: cloud.settings,
            clock=self.clock,
            random=random.Random(f'{cloud.seed} {self.name} {self.starts}'),
            rules=self._rules(),
            membership=membership,
            pauses=self.pauses,
            reads_nova=self.READS_NOVA,
            monotonic=lambda: cloud.timeline.now_s,
        )
        self.scheduler = self._make(context)
        self.scheduler.loop.pause = self._rest  # type: ignore[method-assign]
        self.endpoints = self._endpoints(Front(self, self.scheduler))
        self._poller = StorePoller(context, self._ask)
        process.start(self._run)

    def _rules(self) -> catalog.Rules:
        rules = ComputeFilter(), NUMATopologyFilter(), PciPassthroughFilter()
        return catalog.Rules(catalog.always(), catalog.with_policies(rules), (RAMWeigher(),))

    def _make(self, context: Context) -> Scheduler:
        return Scheduler(context)

    def _endpoints(self, front: Front) -> dict[str, Any]:
        return {
            'scheduler': SchedulerEndpoint(front),
            'claims': ClaimsEndpoint(front),
            'stats': StatsEndpoint(front),
        }

    def _rest(self, seconds: float) -> None:
        wait(self.cloud.timeline, seconds)

    def _run(self) -> None:
        """The thread of the loop."""
        loop, timeline = self.scheduler.loop, self.cloud.timeline
        while True:
            with contextlib.suppress(errors.StoreUnavailable):
                self.clock.read_store()
                self.scheduler.state_sync.refresh()
                break
            wait(timeline, 1.0)
        self.pauses.start(watch=False)
        self.process.start(self._poll)
        self._open()
        while True:
            while loop.is_busy:
                loop.turn()
                self.cloud.take_time(self.process, 0.0005)
            self.work.is_set = False
            self.work.wait()

    def _open(self) -> None:
        """Take messages from now on."""
        self.is_ready = True

    def _poll(self) -> None:
        """The thread of the poller."""
        timeline, polled_s = self.cloud.timeline, 0.0
        while True:
            wait(timeline, self.cloud.poll_s)
            with contextlib.suppress(errors.StoreUnavailable):
                self.pauses.tick()
                if timeline.now_s - polled_s >= self.cloud.settings.refresh_interval_s:
                    polled_s = timeline.now_s
                    self._poller.poll()
                elif self.scheduler.state_sync.wake.is_set():
                    self._ask('heal')

    def _ask(self, method: str, *args: Any) -> Any:
        work = getattr(self.scheduler.state_sync, method)
        return self.result(self.scheduler.loop.send(CALL, (work, args)))

    def result(self, future: Future) -> Any:
        """What the loop answers. Waits for it in this strand."""
        self.work.set()
        self.wait_for(future)
        return future.result()

    def wait_for(self, future: Future) -> None:
        if not future.done():
            done = Signal(self.cloud.timeline)
            future.add_done_callback(lambda _: done.set())
            done.wait()

    def take(self, message: 'Message') -> None:
        """Handle a message off the bus, in a strand of its own."""
        self.process.start(self._handle, message)

    def _caller(self, message: 'Message') -> Any:
        """The context of a call."""
        return types.SimpleNamespace(request_id=message.request_id)

    def _handle(self, message: 'Message') -> None:
        with handling(self.pauses.received(message.timeout_s)):
            endpoint = self.endpoints[message.namespace]
            try:
                context = self._caller(message)
                result = getattr(endpoint, message.method)(context, **message.args)
                if isinstance(result, Deferred):
                    self.wait_for(result.future)
                    result = result.result()
            except Exception as error:
                failure = getattr(error, 'exc_info', (None, error))[1]
                if not isinstance(failure, errors.SchedError | NovaNoValidHost):
                    raise
                message.answer(None, known(failure))
            else:
                message.answer(result, None)


# The bus.


class Message:
    """A call on the bus, from one strand to one of the schedulers."""

    def __init__(self, cloud: 'Cloud', request_id: str, namespace: str, method: str, args: dict):
        self.request_id, self.namespace = request_id, namespace
        self.method, self.args = method, args
        self.timeout_s, self.sent_s = ANSWER_S, cloud.timeline.now_s
        self.done = Signal(cloud.timeline)
        self.found: Any = None
        self.error: Exception | None = None
        self._cloud = cloud

    def answer(self, result: Any, error: Exception | None) -> None:
        """Send an answer. The first one that arrives counts."""
        for after_s in self._cloud.bus.ways():
            self._cloud.timeline.at(after_s, lambda: self._arrive(result, error))

    def _arrive(self, result: Any, error: Exception | None) -> None:
        if not self.done.is_set:
            self.found, self.error = result, error
            self.done.set()


class Bus:
    """Delivers messages late, twice, or not at all, in any order."""

    def __init__(self, cloud: 'Cloud'):
        self._cloud = cloud
        self.sent = 0

    def ways(self) -> list[float]:
        """After how many seconds each copy of a message arrives."""
        chance, weather = self._cloud.chance, self._cloud.weather
        usual_s = chance.uniform(0.001, 0.01)
        if not self._cloud.is_stormy:
            return [usual_s]
        drawn = chance.random()
        if drawn < weather.lost:
            return []
        if drawn < weather.lost + weather.doubled:
            return [usual_s, usual_s + self._delay_s()]
        if drawn < weather.lost + weather.doubled + weather.slow:
            return [usual_s + self._delay_s()]
        return [usual_s]

    def _delay_s(self) -> float:
        longest_s = min(self._cloud.weather.longest_pause_s / 4, 300.0)
        return 0.05 * (longest_s / 0.05) ** self._cloud.chance.random()

    def call(self, namespace: str, method: str, request_id: str = 'req-0', **args: Any) -> Any:
        """Call one of the schedulers. Raises NoAnswer and what it raises."""
        cloud = self._cloud
        self.sent += 1
        message = Message(cloud, request_id, namespace, method, args)
        for after_s in self.ways():
            cloud.timeline.at(after_s, lambda: self._deliver(message))
        if not message.done.wait(message.timeout_s):
            raise errors.NoAnswer(method, 'simulated')
        if message.error is not None:
            raise message.error
        return message.found

    def _deliver(self, message: Message) -> None:
        cloud = self._cloud
        members = [
            candidate
            for candidate in cloud.members
            if candidate.process.is_alive and candidate.is_ready
        ]
        if not members:
            cloud.timeline.at(1.0, lambda: self._deliver(message))
            return
        member = cloud.chance.choice(members)
        member.take(message)
        if member.process.is_paused:
            # It may have it in its connection; another one gets it, too.
            left_s = member.process.paused_until_s - cloud.timeline.now_s
            if left_s > HEARD_S:
                cloud.timeline.at(HEARD_S, lambda: self._deliver(message))


# Compute nodes.


class Host:
    """A compute node and its agent. ``truth`` is what really is on it, by server: the amounts.

    ``listed`` are those that reports list; the source of an open move keeps its room, and does
    not list the server. It checks no capacity: the claims have to suffice. ``parts`` are the
    pieces of servers that reports tell, ``pieces`` the names of all that they hold. ``late``:
    reports tell still the amounts that a server had before.
    """

    def __init__(self, cloud: 'Cloud', name: str, folder: pathlib.Path):
        self.cloud, self.name, self.uuid = cloud, name, uuid_of(name)
        self.has_pieces = cloud.weather.pieces and int(name[1:]) % 3 != 2
        self.parts: dict[str, Parts] = {}
        self.pieces: dict[str, collections.Counter[str]] = {}
        self.late: dict[str, dict[str, int]] = {}
        self.truth: dict[str, dict[str, int]] = {}
        self.listed: dict[str, None] = {}
        self.strangers: dict[str, dict[str, int]] = {}
        self._file = folder / f'{name}.boot'
        self._serials: dict[str, tuple[int, bool]] = {}  # of the last order about each server
        self.answered = 0  # the number of reports that were answered
        self.start()

    def start(self) -> None:
        self.process = Process(self.cloud.timeline, self.name)
        self._count = ReportCount(self._file)
        self._seen: int | None = None
        self.news = Signal(self.cloud.timeline)
        self.process.start(self._report_always)

    # Reports: the one place that makes them.

    def _words(self, servers: list[str]) -> dict[str, Any]:
        """The arguments of a report that lists these servers, as an agent sends it."""
        here = {**self.truth, **self.late, **self.strangers}
        listed = {uuid_of(server): dict(here.get(server, {})) for server in servers}
        held: collections.Counter[str] = collections.Counter()
        for amounts in listed.values():
            held.update(amounts)
        instances = (
            listed if self.cloud.weather.amounts else [uuid for uuid in listed if listed[uuid]]
        )
        return {
            'name': self.name,
            'stats': _compute_node(self, held, servers),
            'inventories': _providers(self),
            'instances': instances,
            'seen': self._seen or 0,
            **self._count.next(),
        }

    def _report_always(self) -> None:
        timeline = self.cloud.timeline
        while True:
            self.news.is_set = False
            servers = [*self.strangers, *self.listed]
            words = self._words(servers)
            self.cloud.take_time(self.process, 0.01)
            pause_s = self.cloud.interval_s
            try:
                answer = self.cloud.bus.call('stats', 'update_resource_stats', **words)
                if answer['stale']:
                    self.cloud.say(f'{self.name}: its report was stale', self.name)
                    self._count.pass_by(answer['boot'] or 0)
                    pause_s = AGAIN_S
                else:
                    self.answered += 1
                self._seen = answer['generation']
            except errors.SchedError as error:
                self.cloud.say(f'{self.name}: report failed: {error}', self.name)
                pause_s = AGAIN_S
            self.news.wait(pause_s)
            wait(timeline, 0.05)

    # Orders of conductors. Each has a serial number, later ones are higher: a late one is refused,
    # and a repeated one has the answer of the first.

    def obey(self, server: str, serial: int, work: Callable[[], bool]) -> bool:
        last, done = self._serials.get(server, (0, False))
        if serial < last:
            return False
        if serial > last:
            done = work()
            self._serials[server] = serial, done
            self.news.set()
            self.cloud.ledger.is_due = True
        return done

    def hold(self, server: str, *parts: HardwareAllocation | None, told: Parts = ()) -> None:
        """It holds these pieces; reports tell the first of them, or what is ``told``."""
        self.parts.pop(server, None)
        self.pieces.pop(server, None)
        if any(told or parts):
            self.parts[server], self.pieces[server] = told or parts[:1], pieces.names(parts)

    def build(
        self,
        server: str,
        amounts: dict[str, int],
        until_s: float,
        fails: bool,
        parts: HardwareAllocation | None = None,
    ) -> bool:
        if fails or self.cloud.timeline.now_s > until_s:
            self.cloud.say(f'{server} is not built on {self.name}', server, self.name)
            return False
        self.truth[server] = amounts
        self.hold(server, parts)
        self.say_size(server, 'runs')
        self.listed[server] = None
        return True

    def say_size(self, server: str, what: str) -> None:
        names = ', '.join(sorted(self.pieces.get(server, ())))
        size = f'{cpus_of(self.truth[server])}{names and ": "}{names}'
        self.cloud.say(f'{server} {what} on {self.name} with {size}', server, self.name)

    def drop(self, server: str) -> bool:
        if self.truth.pop(server, None) is not None:
            self.cloud.say(f'{server} is gone from {self.name}', server, self.name)
        self.listed.pop(server, None)
        self.late.pop(server, None)
        self.hold(server)
        return True

    def keep_room(self, server: str) -> bool:
        """It runs elsewhere, and may come back."""
        self.listed.pop(server, None)
        self.cloud.say(f'{server} is stopped on {self.name}', server, self.name)
        return True

    def run_again(self, server: str) -> bool:
        self.listed[server] = None
        self.cloud.say(f'{server} runs on {self.name} again', server, self.name)
        return True

    def set_size(
        self, server: str, amounts: dict[str, int], *parts: HardwareAllocation | None
    ) -> bool:
        self.truth[server] = amounts
        self.hold(server, *parts)
        self.say_size(server, 'is')
        return True

    def set_size_untold(
        self, server: str, amounts: dict[str, int], parts: HardwareAllocation | None
    ) -> bool:
        """It has this size, and reports tell both until ``tell_size``."""
        self.late[server] = self.truth[server]
        both = *self.parts.get(server, ()), parts
        self.set_size(server, amounts, parts)
        self.hold(server, parts, told=both)
        return True

    def tell_size(self, server: str, parts: HardwareAllocation | None) -> bool:
        self.late.pop(server, None)
        self.hold(server, parts)
        return True


def _compute_node(host: Host, held: Mapping[str, int], servers: list[str]) -> objects.ComputeNode:
    count = len(servers)
    parts = [piece for server in servers for piece in host.parts.get(server, ())]
    return objects.ComputeNode(
        **pieces.fields(parts) if host.has_pieces else {},
        uuid=host.uuid,
        host=host.name,
        hypervisor_hostname=host.name,
        hypervisor_type='QEMU',
        hypervisor_version=8002002,
        supported_hv_specs=[objects.HVSpec(arch='x86_64', hv_type='kvm', vm_mode='hvm')],
        cpu_info='{}',
        vcpus=VCPUS,
        vcpus_used=held.get(VCPU, 0),
        memory_mb=NODE_MB,
        memory_mb_used=held.get(MEMORY_MB, 0),
        free_ram_mb=NODE_MB - held.get(MEMORY_MB, 0),
        local_gb=100,
        local_gb_used=0,
        free_disk_gb=100,
        cpu_allocation_ratio=1.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
        current_workload=0,
        running_vms=count,
        stats={'num_instances': str(count)},
    )


def _capacity(host: Host) -> dict[str, int]:
    pinned = {PCPU: len(pieces.PINNED)} if host.has_pieces else {}
    return {VCPU: VCPUS, MEMORY_MB: NODE_MB, **pinned}


def _providers(host: Host) -> dict[str, Any]:
    inventories = {
        name: {'total': total, 'reserved': 0, 'allocation_ratio': 1.0}
        for name, total in _capacity(host).items()
    }
    root = {'name': host.name, 'parent_provider_uuid': None, 'inventories': inventories,
            'traits': ['COMPUTE_NODE']}  # fmt: skip
    return {host.uuid: root, **(pieces.gpus(host.uuid, host.name) if host.has_pieces else {})}


# Conductors.


class Server:
    """What the conductors know of a server."""

    def __init__(self, name: str, flavor: pieces.Size, group: str | None = None):
        self.name, self.uuid, self.flavor = name, uuid_of(name), flavor
        self.group = group
        self.host: Host | None = None
        self.serial = 0  # of the orders to hosts


class Life:
    """One server from its boot to its end: what a conductor does for it, in one strand.

    Every call names the claim that it ends or settles, by the UUID that the caller was told.
    """

    PACE_S = 100.0  # between two changes, about

    def __init__(self, cloud: 'Cloud', server: Server, process: Process):
        self.cloud, self.server, self.process = cloud, server, process
        self._chance = random.Random(f'{cloud.seed} {server.name}')
        self._requests = 0  # of users
        self._changes = [
            self._resize, self._resize, self._move, self._move_live, self._move_selected
        ]  # fmt: skip

    def run(self) -> None:
        cloud, server, chance = self.cloud, self.server, self._chance
        try:
            if self._boot():
                for _ in range(chance.randint(0, 4)):
                    wait(cloud.timeline, chance.expovariate(1 / self.PACE_S))
                    if cloud.is_over:
                        break
                    self._wait_until_confirmed()
                    self._requests += 1
                    chance.choice(self._changes)()
                wait(cloud.timeline, chance.expovariate(0.5 / self.PACE_S))
                if not (cloud.is_over and chance.random() < 0.7):
                    self._delete()
        finally:
            cloud.ended(server)

    # Calls.

    def _call(self, namespace: str, method: str, tries: int = 3, **args: Any) -> Any:
        """Call until it is answered. Raises what the scheduler raises, and NoAnswer."""
        cloud, server = self.cloud, self.server
        cloud.ledger.forget(server.name)
        # As in Nova, all calls for one request of a user have its ID.
        request_id = f'req-{server.name}-{self._requests}'
        for left in reversed(range(tries)):
            cloud.take_time(self.process, 0.001)
            try:
                answer = cloud.bus.call(namespace, method, request_id, **args)
                cloud.say(f'{server.name}: {method} is answered', server.name)
                return answer
            except (errors.NoAnswer, errors.StoreUnavailable, errors.Outdated) as error:
                cloud.say(f'{server.name}: {method} failed: {error}', server.name)
                if not left:
                    raise errors.NoAnswer(method, str(error)) from None
                wait(cloud.timeline, AGAIN_S)
            except errors.SchedError as error:
                cloud.say(f'{server.name}: {method} is refused: {error}', server.name)
                raise
            except Exception as error:
                raise Violation(f'{method} of {server.name} failed: {error!r}',
                                server.name) from error  # fmt: skip
        return None

    def _always(self, namespace: str, method: str, **args: Any) -> Any:
        """Call until there is an answer of any kind."""
        return self._call(namespace, method, tries=10**9, **args)

    def _claims(self) -> list:
        return self._always('claims', 'show', instance_uuid=self.server.uuid)

    def _spec(self, flavor: pieces.Size, leaving: Host | None = None) -> Any:
        server = self.server
        spec = conductor.spec(flavor, [server.uuid], extra_specs=flavor.extra_specs)
        flavor.ask(spec, uuid_of(f'card of {server.name}'))
        if leaving is not None:
            spec.ignore_hosts = [leaving.name]
        if server.group is not None:
            spec.instance_group = objects.InstanceGroup(
                uuid=uuid_of(server.group), policy=ANTI_AFFINITY, members=[server.uuid], hosts=[]
            )
        return spec

    def _told(self, claim: Any, flavor: pieces.Size) -> HardwareAllocation | None:
        """The pieces that the claim tells, as many as the flavor asks for."""
        parts = claim and pieces.told(claim)
        names = pieces.names([parts])
        if claim is not None and names.total() != flavor.pieces:
            raise Violation(f'{self.server.name} asks for {flavor}, and was told {dict(names)}',
                            self.server.name, claim.host)  # fmt: skip
        return parts

    def _tell(self, host: Host, work: Callable[[], bool]) -> bool:
        """Give a host an order until it is answered. Returns whether it was done."""
        self.server.serial += 1
        serial, timeline = self.server.serial, self.cloud.timeline
        while True:
            answer: list[bool] = []
            done = Signal(timeline)

            def arrive(answer=answer, done=done) -> None:
                host.process.start(self._obey, host, serial, work, answer, done)

            for after_s in self.cloud.bus.ways():
                timeline.at(after_s, arrive)
            if done.wait(ANSWER_S):
                return answer[0]
            wait(timeline, AGAIN_S)

    def _obey(self, host: Host, serial: int, work: Callable, answer: list, done: Signal) -> None:
        answer.append(host.obey(self.server.name, serial, work))
        for after_s in self.cloud.bus.ways():
            self.cloud.timeline.at(after_s, done.set)

    # A boot.

    def _boot(self) -> bool:
        server, cloud = self.server, self.cloud
        spec, until_s = self._spec(server.flavor), self._deadline()
        hosts = self._select(spec)
        if not hosts:
            return False
        claim = self._claim_on(hosts[0], until_s)
        tried = None
        for host in hosts:
            if tried is not None:
                claim = self._claim_alternate(spec, tried, host, claim)
                if claim is None:
                    return self._abandon()
                if claim.host != host.name:
                    continue
            fails, parts = self._chance.random() < 0.1, self._told(claim, server.flavor)
            if self._tell(host, lambda host=host, fails=fails, parts=parts: host.build(
                    server.name, server.flavor.amounts, until_s, fails, parts)):  # fmt: skip
                server.host = host
                return True
            tried = host
            if cloud.timeline.now_s > until_s:
                break
        return self._abandon()

    def _deadline(self) -> float:
        return self.cloud.timeline.now_s + self.cloud.weather.pending_ttl_s / 4

    def _select(self, spec: Any) -> list[Host]:
        """The hosts for a server, the one with its claim first; none if there are none."""
        try:
            chosen = self._selections(spec)
        except errors.NoAnswer:
            self._abandon()
            return []
        except errors.NoValidHost:
            return []
        return [self.cloud.hosts[selection.service_host] for selection in chosen]

    def _selections(self, spec: Any) -> list:
        """The host for a server and the alternates. Raises NoAnswer and NoValidHost."""
        (answer,) = self._call(
            'scheduler', 'select_destinations', spec_obj=spec,
            instance_uuids=[self.server.uuid], return_objects=True, return_alternates=True,
        )  # fmt: skip
        return [objects.from_primitive(selection) for selection in answer]

    def _claim_on(self, host: Host, until_s: float) -> Any:
        """The claim that the server was told to have."""
        for claim in self._claims():
            if claim.host == host.name:
                self.cloud.ledger.promise(self.server.name, claim.uuid)
                return claim
        if self.cloud.timeline.now_s < until_s:
            raise Violation(f'{self.server.name} was told {host.name}, and has no claim there',
                            self.server.name, host.name)  # fmt: skip
        return None

    def _claim_alternate(self, spec: Any, tried: Host, host: Host, claim: Any) -> Any:
        """The claim after the attempt to move it; None if that is not known."""
        try:
            moved = self._call(
                'claims', 'claim_alternate', spec_obj=spec, instance_uuid=self.server.uuid,
                failed_host=tried.name, host=host.name, nodename=host.name,
                claim=claim and claim.uuid,
            )  # fmt: skip
            self.cloud.ledger.promise(self.server.name, moved.uuid)
            return moved
        except (errors.ComputeResourcesUnavailable, errors.NodeNotFound):
            return claim
        except (errors.NoAnswer, errors.ClaimNotFound):
            return None

    def _abandon(self) -> bool:
        """End what is pending for the server. Returns False."""
        for claim in self._claims():
            if claim.state == 'pending':
                self._end('abort_claim', claim.uuid, host=claim.host)
        return False

    def _end(self, method: str, claim: str, **args: Any) -> None:
        with contextlib.suppress(errors.ClaimNotFound):
            self._always('claims', method, instance_uuid=self.server.uuid, claim=claim, **args)

    # Changes.

    def _wait_until_confirmed(self) -> None:
        while not any(claim.state == 'confirmed' for claim in self._claims()):
            wait(self.cloud.timeline, INTERVAL_S)

    def _resize(self) -> None:
        """Another size on its host."""
        server, host, chance = self.server, self.server.host, self._chance
        flavor, until_s = chance.choice(self.cloud.flavors), self._deadline()
        spec, place = self._spec(flavor), {'host': host.name, 'nodename': host.name}
        if flavor == server.flavor:
            return
        try:
            claim = self._call('claims', 'resize_claim', spec_obj=spec,
                               instance_uuid=server.uuid, **place)  # fmt: skip
        except errors.ComputeResourcesUnavailable:
            return
        except errors.NoAnswer:
            for claim in self._claims():
                if claim.resize_uuid:
                    self._end('revert_claim', claim.resize_uuid)
            return
        name = claim.resize_uuid
        if name is None:
            raise Violation(f'{server.name} was told of no resize', server.name, host.name)
        self.cloud.ledger.promise(server.name, name)
        old, new = server.flavor.amounts, flavor.amounts
        both = {name: max(old.get(name, 0), new.get(name, 0)) for name in {**old, **new}}
        (had,) = host.parts.get(server.name, (None,))
        parts = self.cloud.ledger.new_parts(server.name, name)
        if self.cloud.timeline.now_s < until_s:
            self._tell(host, lambda: host.set_size(server.name, both, had, parts))
            wait(self.cloud.timeline, chance.expovariate(1 / 20.0))
        if self.cloud.timeline.now_s < until_s and chance.random() < 0.6:
            if had or parts:
                self._tell(host, lambda: host.set_size_untold(server.name, new, parts))
                self._confirm(host, name)
                wait(self.cloud.timeline, chance.expovariate(1 / 10.0))
                self._tell(host, lambda: host.tell_size(server.name, parts))
            else:
                self._tell(host, lambda: host.set_size(server.name, new))
                self._confirm(host, name)
            server.flavor = flavor
        else:
            self._tell(host, lambda: host.set_size(server.name, old, had))
            self._end('revert_claim', name)

    def _confirm(self, host: Host, claim: str) -> None:
        server = self.server
        try:
            self._always('claims', 'confirm_claim', instance_uuid=server.uuid, host=host.name,
                         claim=claim)  # fmt: skip
        except errors.ClaimNotFound:
            # An earlier attempt whose answer was lost may have settled the resize.
            self.cloud.say(f'{server.name}: {claim} was settled before', server.name)

    def _move(self) -> None:
        self._move_by(self._chance.choice([RESIZE, MIGRATION]))

    def _move_live(self) -> None:
        self._move_by(LIVE_MIGRATION)

    def _move_selected(self) -> None:
        """As a stock conductor does, which names no kind of move."""
        self._move_by(None)

    def _move_by(self, move: str | None) -> None:
        """To another host."""
        server, source, chance = self.server, self.server.host, self._chance
        cloud = self.cloud
        flavor = chance.choice(cloud.flavors) if move == RESIZE else server.flavor
        until_s, spec = self._deadline(), self._spec(flavor, leaving=source)
        hosts = self._select(spec)
        if not hosts:
            return
        host = hosts[0]
        try:
            claim = self._claim_on(host, until_s) if move is None else self._call(
                'claims', 'resize_claim', spec_obj=spec, instance_uuid=server.uuid,
                host=host.name, nodename=host.name, move=move,
            )  # fmt: skip
        except (errors.ComputeResourcesUnavailable, errors.NoAnswer):
            claim = None
        if claim is None:
            self._abandon()
            return
        self.cloud.ledger.promise(server.name, claim.uuid)
        amounts, parts = flavor.amounts, self._told(claim, flavor)
        if not self._tell(host, lambda: host.build(
                server.name, amounts, until_s, chance.random() < 0.1, parts)):  # fmt: skip
            self._end('abort_claim' if move is None else 'revert_claim', claim.uuid)
            return
        if move in (LIVE_MIGRATION, None):
            self._tell(source, lambda: source.drop(server.name))
        else:
            self._tell(source, lambda: source.keep_room(server.name))
            wait(self.cloud.timeline, chance.expovariate(1 / 30.0))
            if self.cloud.timeline.now_s > until_s or chance.random() < 0.4:
                self.cloud.ledger.forget(server.name)  # a report without it may end it now
                back = [(host, lambda: host.drop(server.name)),
                        (source, lambda: source.run_again(server.name))]  # fmt: skip
                for on, work in back if cloud.weather.target_first else reversed(back):
                    self._tell(on, work)
                self._end('revert_claim', claim.uuid)
                return
            self._tell(source, lambda: source.drop(server.name))
        self._confirm(host, claim.uuid)
        server.host, server.flavor = host, flavor

    def _delete(self) -> None:
        host = self.server.host
        self.cloud.ledger.forget(self.server.name)
        self._tell(host, lambda: host.drop(self.server.name))

    def clean_up(self) -> None:
        """What is left of a server whose conductor was killed is deleted."""
        try:
            for host in self.cloud.hosts.values():
                self._tell(host, lambda host=host: host.drop(self.server.name))
            self._abandon()
        finally:
            self.cloud.ended(self.server)


# What must be true.


class Ledger:
    """Compares the claims in the store with what really runs.

    ``is_due``: something has changed since the last check.
    """

    def __init__(self, cloud: 'Cloud'):
        self._cloud = cloud
        self._store = SqlClaimStore(cloud.database, cloud.database_s)
        self._facts: dict[str, Any] = {}
        self._pieces: dict[str, dict[str, collections.Counter[str]]] = {}  # of claims, by node
        self._promises: dict[str, str] = {}
        self._told: set[str] = set()  # all names of claims that callers were told
        self._waits_since: dict[tuple, float] = {}  # claims that are to be confirmed
        self.expired: dict[str, None] = {}  # servers whose claim ended because its time was over
        self.is_due = False
        self.checks = 0

    def promise(self, server: str, claim: str) -> None:
        """A caller was told that it has this claim."""
        self._promises[server] = claim
        self._told.add(claim)
        self.is_due = True

    def forget(self, server: str) -> None:
        """Its caller is about to change that."""
        self._promises.pop(server, None)

    def check(self) -> None:
        """Raise Violation."""
        if not self.is_due:
            return
        self.is_due, self.checks = False, self.checks + 1
        self._read()
        for host in self._cloud.hosts.values():
            self._check_host(host)
        for server, claim in self._promises.items():
            self._check_promise(server, claim)

    def _read(self) -> None:
        heads = self._store.heads()
        known = {node: facts.generation for node, facts in self._facts.items()}
        changed = [node for node, (generation, _) in sorted(heads.items())
                   if known.get(node) != generation]  # fmt: skip
        for node in [node for node in known if node not in heads]:
            del self._facts[node]
        if changed:
            for facts in self._store.read_nodes(changed).nodes:
                self._note_ends(self._facts.get(facts.report.node_uuid), facts)
                self._facts[facts.report.node_uuid] = facts
                self._pieces[facts.report.node_uuid] = {
                    self._cloud.name_of(claim.consumer_uuid): pieces.names(claim.all_parts)
                    for claim in facts.claims
                }

    def untold_resizes(self) -> list[tuple[str, str]]:
        """Consumer and name of each open resize that no caller was told: a late copy of a call
        has made it, after the first one was reverted. It stays until a call names it."""
        return [
            (claim.consumer_uuid, claim.name)
            for facts in self._facts.values()
            for claim in facts.claims
            if claim.resizing and claim.name not in self._told
        ]

    def new_parts(self, server: str, resize: str) -> HardwareAllocation | None:
        """The pieces of the new size of an open resize, which no answer tells."""
        for claim in self._store.claims(uuid_of(server)):
            if claim.resizing and claim.has_uuid(resize):
                return claim.resizing.parts
        return None

    def _note_ends(self, before: Any, after: Any) -> None:
        cloud, now_s = self._cloud, self._cloud.timeline.now_s
        host, new = after.report.host, {claim.key: claim for claim in after.claims}
        old = {claim.key: claim for claim in before.claims} if before else {}
        for key in sorted(new.keys() | old.keys()):
            was, now = old.get(key), new.get(key)
            if _brief(was) == _brief(now):
                continue
            name = cloud.name_of(key[0])
            cloud.say(f'claim of {name} on {host}: {_brief(was)} -> {_brief(now)}', name, host)
            since_s = self._waits_since.pop(key, now_s)
            if now is not None and now.is_provisional:
                self._waits_since[key] = now_s
            is_late = now_s - since_s > cloud.weather.pending_ttl_s - 1.0
            if is_late and name in cloud.hosts[host].truth:
                self.expired[name] = None

    def _check_host(self, host: Host) -> None:
        facts = self._facts.get(host.uuid)
        if facts is None:
            if host.truth:
                raise Violation(f'{host.name} is not in the store', host.name, *host.truth)
            return
        claims = {self._cloud.name_of(claim.consumer_uuid): claim for claim in facts.claims}
        total: collections.Counter[str] = collections.Counter()
        for claim in claims.values():
            total.update(claim.resources)
        for amounts in host.strangers.values() if host.answered else ():
            total.update(amounts)
        self._check_room(host, total, 'claims and unclaimed instances')
        total = collections.Counter()
        for amounts in (*host.truth.values(), *host.strangers.values()):
            total.update(amounts)
        self._check_room(host, total, 'what runs there')
        self._check_groups(host, 'claims', claims)
        self._check_groups(host, 'servers', host.truth)
        if host.has_pieces:
            self._check_pieces(host)
        for server, amounts in host.truth.items():
            if server in self.expired:
                continue
            claim = claims.get(server)
            if claim is None:
                raise Violation(f'{server} is on {host.name}, and has no claim there',
                                server, host.name)  # fmt: skip
            if is_less(claim.resources, amounts):
                raise Violation(
                    f'{server} has {amounts} on {host.name}, and its claim {claim.resources}',
                    server, host.name,
                )  # fmt: skip

    def _check_room(self, host: Host, total: Amounts, what: str) -> None:
        if any(server in self.expired for server in host.truth):
            return
        for name, capacity in _capacity(host).items():
            if total[name] > capacity:
                raise Violation(f'{what} are {total[name]} {name} of {capacity} on {host.name}',
                                host.name)  # fmt: skip

    def _check_groups(self, host: Host, what: str, servers: Iterable[str]) -> None:
        server_of: dict[str, str] = {}
        for server in servers:
            group = self._cloud.groups.get(server)
            if group is None or server in self.expired:
                continue
            if other := server_of.get(group):
                raise Violation(f'{what} {other} and {server} of {group} are on {host.name}',
                                other, server, host.name)  # fmt: skip
            server_of[group] = server

    def _check_pieces(self, host: Host) -> None:
        """No piece is held twice, and what runs holds what its claim has."""
        if any(server in self.expired for server in host.truth):
            return
        claimed, strangers = self._pieces[host.uuid], host.strangers if host.answered else ()
        unclaimed = {name: host.pieces[name] for name in strangers if name in host.pieces}
        self._check_once(host, 'claimed', {**claimed, **unclaimed})
        self._check_once(host, 'in use', host.pieces)
        for server in host.truth:
            used = host.pieces.get(server, pieces.NONE)
            if more := sorted(used - claimed.get(server, pieces.NONE)):
                raise Violation(f'{server} uses {more} on {host.name}, and its claim has not',
                                server, host.name)  # fmt: skip

    def _check_once(self, host: Host, what: str, held: Mapping[str, Mapping[str, int]]) -> None:
        total: collections.Counter[str] = collections.Counter()
        for names in held.values():
            total.update(names)
        for name, count in total.items():
            if count > pieces.limit(name):
                who = [server for server, names in held.items() if name in names]
                raise Violation(f'{name} of {host.name} is {what} {count} times, by {who}',
                                host.name, *who)  # fmt: skip

    def _check_promise(self, server: str, claim: str) -> None:
        if server in self.expired:
            return
        consumer = uuid_of(server)
        if not any(held.consumer_uuid == consumer and held.has_uuid(claim)
                   for facts in self._facts.values() for held in facts.claims):  # fmt: skip
            raise Violation(f'{server} was told that it has claim {claim}, and it is gone', server)

    def check_end(self) -> None:
        """Everything is settled: the claims are exactly what runs, and every scheduler knows
        that."""
        self.is_due = True
        self.check()
        for host in self._cloud.hosts.values():
            facts = self._facts[host.uuid]
            claims = {
                self._cloud.name_of(claim.consumer_uuid): dict(claim.resources)
                for claim in facts.claims
            }
            runs = {name: amounts for name, amounts in host.truth.items()
                    if name not in self.expired}  # fmt: skip
            if {name: size for name, size in claims.items() if name not in self.expired} != runs:
                raise Violation(
                    f'at the end, {host.name} has {runs}, and the claims there are {claims}',
                    host.name, *(runs.keys() ^ claims.keys()),
                )  # fmt: skip
            claimed = {server: names for server, names in self._pieces[host.uuid].items()
                       if names and server not in self.expired}  # fmt: skip
            used = {server: names for server, names in host.pieces.items() if server in runs}
            if claimed != used:
                raise Violation(f'at the end, {used} is in use on {host.name}, and {claimed} '
                                'is claimed', host.name, *used, *claimed)  # fmt: skip
        for member in self._cloud.members:
            self._check_member(member)

    def _check_member(self, member: Member) -> None:
        cluster = member.scheduler.state_sync.node
        for host in self._cloud.hosts.values():
            node, facts = cluster(host.name, host.name), self._facts[host.uuid]
            if dict(node.claims) != {claim.consumer_uuid: claim for claim in facts.claims}:
                raise Violation(f'{member.name} knows {sorted(node.claims)} on {host.name}, and '
                                'the store has other claims', host.name)  # fmt: skip
            if host.has_pieces and not self.expired:
                free = pieces.free(node.machine, node.providers)
                left = pieces.all_of(host.uuid)
                for names in host.pieces.values():
                    left -= names
                if free != left:
                    raise Violation(f'{member.name} takes {dict(free)} on {host.name} for free, '
                                    f'and {dict(left)} is', host.name)  # fmt: skip


def _brief(claim: Any) -> str:
    if claim is None:
        return 'none'
    moves = f' by {claim.move}' if claim.move else ''
    sizes, two = '', claim.resizing
    if two:
        sizes = f' from {cpus_of(two.old)} to {cpus_of(two.new)}'
    names = pieces.names(claim.all_parts)
    sizes += f' with {", ".join(sorted(names))}' if names else ''
    return f'{claim.state} {cpus_of(claim.resources)}{sizes}{moves} ({claim.uuid[:8]})'


# The whole.


@dataclasses.dataclass(slots=True)
class StormResult:
    """What a run did: simulated ``hours``, and counts by what was done. ``digest`` is of the whole
    story: two runs with the same one did the same."""

    seed: int
    hours: float
    weather: Weather
    counts: dict[str, int]
    failure: str | None = None
    digest: str = ''


class Cloud:
    """All that is simulated, of one seed."""

    MEMBER: type[Member] = Member
    HOST: type[Host] = Host
    LIFE: type[Life] = Life
    LEDGER: type[Ledger] = Ledger
    EXPECTED: tuple[type[Exception], ...] = (errors.StoreUnavailable,)  # may be logged
    FAIR: Mapping[str, bool] = {}  # weather that this cloud does not have

    def __init__(self, seed: int, database: Any, folder: pathlib.Path):
        self.seed, self.database = seed, database
        self.chance = random.Random(f'{seed} chance')
        weather = Weather.of(random.Random(f'{seed} weather'))
        self.weather = dataclasses.replace(weather, **self.FAIR)
        self.timeline = Timeline()
        self.jump_s = 0.0  # of the database's clock
        self.set_back_s = 0.0  # by that much, in all: claims that waited live so much longer
        self.poll_s, self.interval_s = POLL_S, INTERVAL_S
        self.walls: dict[str, float] = {}  # how far each process's own clock is ahead
        self.is_stormy = self.is_database_down = self.is_over = False
        self.lines: collections.deque = collections.deque(maxlen=5000)
        self.digest = hashlib.sha256()
        self.counts: collections.Counter[str] = collections.Counter()
        self.settings = Settings(
            pending_ttl_s=self.weather.pending_ttl_s,
            explain_retention_s=0,
            retry_interval_s=1.0,
            refresh_interval_s=2.0,
            service_down_time_s=4 * INTERVAL_S,
        )
        self.names: dict[str, str] = {}
        self.groups: dict[str, str] = {}  # of servers that are in one
        self.flavors = FLAVORS + pieces.SIZES if self.weather.pieces else FLAVORS
        self.ledger = self.LEDGER(self)
        self.bus = Bus(self)
        self._found()
        self.members = [self.MEMBER(self, number) for number in range(self.weather.schedulers)]
        self.hosts = {f'n{number}': self.HOST(self, f'n{number}', folder)
                      for number in range(self.weather.nodes)}  # fmt: skip
        if self.weather.strangers:
            for number, host in enumerate(self.hosts.values()):
                if number % 2 == 0:
                    host.strangers[f'stranger-{number}'] = FLAVORS[number % 3].amounts
                    if host.has_pieces:
                        host.strangers[f'pinned-{number}'] = pieces.SIZES[0].amounts
                        host.hold(f'pinned-{number}', pieces.unplaced(pieces.SIZES[0]))
        self.conductors = [Process(self.timeline, f'conductor {number}') for number in range(2)]
        self.lives: dict[str, Life] = {}
        self.made = 0
        self.weather_process = Process(self.timeline, 'weather')

    def _found(self) -> None:
        """Make what schedulers and hosts need."""

    def close(self) -> None:
        self.is_stormy = False
        for process in (*self._processes(), self.weather_process):
            process.kill()

    # Clocks.

    def database_s(self) -> float:
        return EPOCH_S + self.timeline.now_s + self.jump_s

    def wall_s(self, process: str) -> float:
        return EPOCH_S + self.timeline.now_s + self.walls.get(process, 0.0)

    def take_time(self, process: Process, usual_s: float) -> None:
        """Let time pass in this strand, where a process may be interrupted."""
        if self.is_stormy and self.chance.random() < 0.002:
            seconds = self._pause_s()
            self.say(f'{process.name} stands still for {seconds:.1f} s')
            process.pause(seconds)
            wait(self.timeline, 0.0)
        elif self.chance.random() < 0.3:
            wait(self.timeline, self.chance.expovariate(1 / usual_s))

    def _pause_s(self) -> float:
        return 0.1 * (self.weather.longest_pause_s / 0.1) ** (self.chance.random() ** 1.5)

    # What happens.

    def say(self, text: str, *about: str) -> None:
        self.lines.append((self.timeline.now_s, text, about))
        self.digest.update(f'{self.timeline.now_s!r} {text}'.encode())

    def name_of(self, consumer: str) -> str:
        return self.names.get(consumer, consumer)

    def run(self, hours: float) -> None:
        """Raise Violation."""
        timeline = self.timeline
        timeline.after_each = self.ledger.check
        self.weather_process.start(self._arrive)
        timeline.run(CALM_S)
        self.is_stormy = True
        self.weather_process.start(self._fault)
        timeline.run(hours * 3600.0)
        self._settle()

    def _arrive(self) -> None:
        """Servers come."""
        wait(self.timeline, CALM_S / 2)
        while not self.is_over:
            alive = [conductor for conductor in self.conductors if conductor.is_alive]
            for _ in range(self.chance.choice([1, 1, 2, 4])):  # at once, so that schedulers race
                if len(self.lives) < self.weather.servers and alive:
                    self._boot(self.chance.choice(alive))
            wait(self.timeline, self.chance.expovariate(1 / 10.0))

    def _boot(self, process: Process) -> None:
        self.made += 1
        server = Server(f's{self.made}', self.chance.choice(self.flavors))
        if self.weather.groups and self.chance.random() < 0.4:
            self.groups[server.name] = server.group = self.chance.choice(GROUPS)
        self.names[server.uuid] = server.name
        self.lives[server.name] = life = self.LIFE(self, server, process)
        self.counts['servers'] += 1
        process.start(life.run)

    def ended(self, server: Server) -> None:
        """Its conductor has nothing more to do for it, unless that was killed."""
        if self.lives[server.name].process.is_alive:
            del self.lives[server.name]

    def _fault(self) -> None:
        while not self.is_over:
            wait(self.timeline, self.chance.expovariate(1 / self.weather.fault_every_s))
            if not self.is_over:
                kind = self.chance.choice([self._pause, self._pause, self._pause, self._crash,
                                           self._skew, self._outage, self._jump])  # fmt: skip
                self.counts[kind.__name__.strip('_')] += 1
                kind()

    def _processes(self) -> list[Process]:
        return [*(member.process for member in self.members),
                *(host.process for host in self.hosts.values()), *self.conductors]  # fmt: skip

    def _pause(self) -> None:
        process, seconds = self.chance.choice(self._processes()), self._pause_s()
        self.say(f'{process.name} stands still for {seconds:.1f} s')
        process.pause(seconds)

    def _crash(self) -> None:
        process = self.chance.choice(self._processes())
        if not process.is_alive:
            return
        down_s = self.chance.uniform(1.0, 60.0)
        self.say(f'{process.name} is killed, and starts again in {down_s:.0f} s')
        process.kill()
        self.timeline.at(down_s, lambda: self._start_again(process))

    def _start_again(self, process: Process) -> None:
        for part in (*self.members, *self.hosts.values()):
            if part.process is process:
                part.start()
                return
        fresh = Process(self.timeline, process.name)
        self.conductors[self.conductors.index(process)] = fresh
        for life in [life for life in self.lives.values() if life.process is process]:
            life.process = fresh
            self.ledger.forget(life.server.name)
            fresh.start(life.clean_up)

    def _skew(self) -> None:
        process = self.chance.choice(self._processes())
        self.walls[process.name] = self.chance.uniform(-4000.0, 4000.0)

    def _jump(self) -> None:
        if self.weather.jumps:
            before_s, self.jump_s = self.jump_s, self.chance.uniform(-3600.0, 3600.0)
            self.set_back_s += max(0.0, before_s - self.jump_s)
            self.say(f'the clock of the database is {self.jump_s:+.0f} s off')

    def _outage(self) -> None:
        self.is_database_down = True
        self.timeline.at(self.chance.uniform(0.1, 30.0), self._end_outage)

    def _end_outage(self) -> None:
        self.is_database_down = False

    def _settle(self) -> None:
        """The weather is fair again, and all that was begun ends."""
        self.say('the weather is fair')
        self.is_over, self.is_stormy, self.is_database_down = True, False, False
        timeline = self.timeline
        timeline.run(timeline.now_s + 50 * self.weather.pending_ttl_s, lambda: not self.lives)
        if self.lives:
            raise Violation(f'these do not end: {sorted(self.lives)}', *sorted(self.lives))
        # The last messages arrive, and what is pending expires.
        self.poll_s, self.interval_s = 20.0, 300.0
        idle_s = self.weather.longest_pause_s + self.weather.pending_ttl_s + 400.0
        idle_s += self.set_back_s
        timeline.run(timeline.now_s + idle_s)
        self.poll_s = POLL_S
        self.weather_process.start(self._tend)
        for host in self.hosts.values():
            host.news.set()
        timeline.run(timeline.now_s + 100.0)  # a comparison with Placement, and its reads
        self.ledger.check_end()

    def _tend(self) -> None:
        """Revert the open resizes that no caller was told of, as an operator does."""
        for consumer, name in self.ledger.untold_resizes():
            self.say(f'{self.name_of(consumer)}: nobody was told of its resize {name}',
                     self.name_of(consumer))  # fmt: skip
            self.counts['untold resizes'] += 1
            with contextlib.suppress(errors.ClaimNotFound):
                self.bus.call('claims', 'revert_claim', instance_uuid=consumer, claim=name)

    def story(self, about: tuple[str, ...]) -> list[str]:
        """The last lines about these servers and nodes, and about processes."""
        lines = [f'{now_s:10.3f}  {text}' for now_s, text, of in self.lines
                 if not of or set(of) & set(about)]  # fmt: skip
        return lines[-LINES:]


class Complaints(logging.Handler):
    """Errors that the product logs as unexpected, with a traceback."""

    def __init__(self, cloud: Cloud):
        super().__init__(logging.ERROR)
        self._cloud = cloud

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info and record.exc_info[1]
        if error and not isinstance(error, self._cloud.EXPECTED):
            self._cloud.timeline.fail(Violation(f'{record.getMessage()}: {error!r}'))


class Laboratory:
    """Runs storms, one after the other. ``close`` removes its files."""

    def __init__(self, kind: type[Cloud] = Cloud) -> None:
        self._kind = kind
        self._folder = tempfile.TemporaryDirectory(prefix='nova-sched-storm-')
        self._runs = 0

    def close(self) -> None:
        self._folder.cleanup()

    def run(self, seed: int, hours: float) -> StormResult:
        """Run one storm. Its failure is in the result."""
        self._runs += 1
        folder = pathlib.Path(self._folder.name) / str(self._runs)
        folder.mkdir()
        database = schema.in_memory()
        log = logging.getLogger('nova_sched')
        with names_from(random.Random(f'{seed} names')):
            cloud = self._kind(seed, database, folder)
            complaints = Complaints(cloud)
            log.addHandler(complaints)
            failure = None
            try:
                cloud.run(hours)
            except Violation as violation:
                failure = '\n'.join([
                    f'seed {seed}, at {cloud.timeline.now_s:.3f} s: {violation}',
                    *cloud.story(violation.about),
                ])  # fmt: skip
            finally:
                log.removeHandler(complaints)
                cloud.close()
                database.dispose()
        counts = {**cloud.counts, 'messages': cloud.bus.sent, 'events': cloud.timeline.events,
                  'checks': cloud.ledger.checks, 'expired': len(cloud.ledger.expired)}  # fmt: skip
        digest = cloud.digest.hexdigest()
        return StormResult(seed, hours, cloud.weather, counts, failure, digest)
