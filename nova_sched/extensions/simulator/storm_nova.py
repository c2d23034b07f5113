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
"""A stock Nova cloud in bad weather: cells, computes, conductors and Placement under the clock of
a storm.

Real are, beside what is in a storm, the mirror with its reader of nodes, the client of Placement,
the writer of allocations with its uncertain writes, the reconciler, and the reader of a cell's
database on SQLite. Their threads are strands. Simulated are Placement, the computes and the
conductors, which do what Nova 34 does, in its order, and know nothing of claims.
"""

import collections
import contextlib
import dataclasses
import datetime
import json
import pathlib
import random
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nova_sched import errors
from nova_sched.claim import MEMORY_MB, VCPU, Claim
from nova_sched.claims.values import NAMELESS, sums
from nova_sched.cloud import allocations, mirror, node_reader, uncertain_writes
from nova_sched.cloud.allocations import AllocationWriter
from nova_sched.cloud.mirror import Intervals, Mirror, MirrorHooks
from nova_sched.cloud.placement import ConsumerAllocations, PlacementClient
from nova_sched.cloud.reconciler import Reconciler
from nova_sched.db import engine as db_engine
from nova_sched.db import nova_cell
from nova_sched.db.nova_cell import INSTANCES, MIGRATIONS, NODES, SERVICES, NovaCell
from nova_sched.engine import loop
from nova_sched.engine.scheduler import Scheduler
from nova_sched.engine.sync.membership import HEARTBEAT_S, SILENT_S
from nova_sched.extensions.simulator.storm import (
    ANSWER_S,
    FLAVORS,
    NODE_MB,
    VCPUS,
    Amounts,
    Cloud,
    Front,
    Host,
    Ledger,
    Life,
    Member,
    Message,
    Server,
    Violation,
    is_less,
    uuid_of,
)
from nova_sched.extensions.simulator.strands import Lock, Process, Signal, threads_in, wait
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.rpc.endpoints.nova_source import NovaSourceEndpoint

THREADS = {
    'threading': (mirror, node_reader, allocations, uncertain_writes),
    'time': (mirror, allocations, loop),
    'concurrent': (node_reader, allocations),
}
TABLES = SERVICES, NODES, INSTANCES, MIGRATIONS, nova_cell.DEVICES
TOTALS = {VCPU: VCPUS, MEMORY_MB: NODE_MB}
READ_S = 20.0  # that schedulers wait for an answer of Placement
DOWN_S = 60.0
SETTLE_S = ANSWER_S + READ_S + 10.0  # the age of claims that are compared with Nova
PROJECT, USER = 'project', 'user'
CONCURRENT = 'placement.concurrent_update'
UNDEFINED = 'placement.undefined_code'


# Placement.


class Refused(Exception):
    def __init__(self, status: int, detail: str, code: str = UNDEFINED):
        super().__init__(detail)
        self.status, self.detail, self.code = status, detail, code


class Placement:
    """Providers and consumers with their generations. Each request is one transaction."""

    def __init__(self, cloud: 'NovaCloud'):
        self._cloud = cloud
        self.providers: dict[str, int] = {}  # UUID -> generation
        self.consumers: dict[str, tuple[int, dict[str, dict[str, int]]]] = {}
        self.lives: collections.Counter[str] = collections.Counter()  # of consumers
        # Consumers to which a scheduler that stood still has written last, at the generation of an
        # earlier life. The reconciler writes again what a running server has lost.
        self.mistaken: set[str] = set()
        self.written_late: set[str] = set()  # consumers, after the caller gave up or stood still
        self.is_away = False

    def held(self, provider: str) -> dict[str, dict[str, int]]:
        """What is allocated from a provider, by consumer."""
        return {consumer: held[provider] for consumer, (_, held) in self.consumers.items()
                if provider in held}  # fmt: skip

    def answer(self, method: str, path: str, query: Mapping, body: Any) -> Any:
        """The document of an answer. Raises Refused."""
        parts = path.strip('/').split('/')
        if method != 'GET':
            self._write(body if method == 'POST' else {parts[1]: body})
            return None
        if parts[0] == 'allocations':
            generation, held = self.consumers.get(parts[1], (None, {}))
            allocations = {name: {'resources': amounts} for name, amounts in held.items()}
            owner = {'project_id': PROJECT, 'user_id': USER, 'consumer_generation': generation}
            return {'allocations': allocations, **(owner if held else {})}
        if len(parts) == 1:
            wanted = query.get('in_tree')
            return {
                'resource_providers': [
                    {'uuid': uuid, 'generation': generation, 'root_provider_uuid': uuid,
                     'parent_provider_uuid': None}
                    for uuid, generation in self.providers.items() if wanted in (None, uuid)
                ]
            }  # fmt: skip
        if parts[1] not in self.providers:
            raise Refused(404, f'No resource provider with uuid {parts[1]} found')
        held = self.held(parts[1])
        return {
            'inventories': {name: {'total': total} for name, total in TOTALS.items()},
            'traits': ['OWNER_NOVA'],
            'usages': sums(held.values()),
            'allocations': {name: {'resources': amounts} for name, amounts in held.items()},
        }

    def _write(self, bodies: Mapping[str, Mapping]) -> None:
        wanted = {}
        for consumer, body in bodies.items():
            generation = self.consumers.get(consumer, (None, {}))[0]
            if body['consumer_generation'] != generation:
                raise Refused(
                    409,
                    f'consumer generation conflict - expected {generation} but got '
                    f'{body["consumer_generation"]}',
                    CONCURRENT,
                )
            wanted[consumer] = {provider: dict(amounts['resources'])
                                for provider, amounts in body['allocations'].items()}  # fmt: skip
        touched = {provider for held in wanted.values() for provider in held}
        for provider in sorted(touched):
            others = {
                other: amounts
                for other, amounts in self.held(provider).items()
                if other not in wanted
            }
            total = sums([*others.values(), *(held.get(provider, {}) for held in wanted.values())])
            if any(total.get(name, 0) > capacity for name, capacity in TOTALS.items()):
                raise Refused(409, f'Unable to allocate inventory on {provider}')
        for consumer, held in wanted.items():
            generation, before = self.consumers.pop(consumer, (0, {}))
            if not held:  # else, a provider that only loses allocations keeps its generation
                touched |= before.keys()
            if held:
                self.lives[consumer] += not generation
                self.consumers[consumer] = generation + 1, held
        for provider in touched:
            self.providers[provider] += 1
        names = self._cloud.name_of
        written = {names(consumer): {names(node): amounts[VCPU] for node, amounts in held.items()}
                for consumer, held in wanted.items()}  # fmt: skip
        self._cloud.say(
            f'Placement: {written}', *(names(consumer).split(' ')[0] for consumer in wanted)
        )
        self._cloud.ledger.is_due = True


class Response:
    """An answer of Placement, as it was when it was made."""

    def __init__(self, status: int, document: Any):
        self.status_code, self.text = status, json.dumps(document)

    def json(self) -> Any:
        return json.loads(self.text)


class Adapter:
    """How one process reaches Placement. With ``is_late``, a request may be done after its caller
    has given it up. ``_read``: which life of a consumer the process has read."""

    def __init__(self, cloud: 'NovaCloud', process: Process, is_late: bool):
        self._cloud, self._process, self._is_late = cloud, process, is_late
        self._read: dict[str, int] = {}

    def request(self, path: str, method: str, timeout: tuple[float, float], params: Any = None,
                json: Any = None, **_: Any) -> Response:  # fmt: skip
        cloud, chance, begin_s = self._cloud, self._cloud.chance, self._cloud.timeline.now_s
        cloud.take_time(self._process, 0.005)
        if cloud.placement.is_away:
            raise errors.PlacementUnavailable('simulated: the connection is refused')
        request = method, path, params or {}, json
        if cloud.is_stormy and chance.random() < 2 * cloud.weather.busy:
            fault = chance.choice([self._busy, self._changed, self._unanswered, self._slow])
            return fault(request, timeout[1])
        has_stood = cloud.timeline.now_s > begin_s + READ_S
        response = self._do_late(*request) if has_stood else self._answer(*request)
        if cloud.is_stormy and chance.random() < 4 * cloud.weather.slow:
            wait(cloud.timeline, chance.uniform(0.01, 3.0))
        cloud.take_time(self._process, 0.005)
        return response

    def _answer(self, *request: Any) -> Response:
        placement, (method, path, _, body) = self._cloud.placement, request
        consumers = [path.rpartition('/')[2]] if body is None or method == 'PUT' else [*body]
        lives = {consumer: placement.lives[consumer] for consumer in consumers}
        try:
            document = placement.answer(*request)
        except Refused as error:
            detail = {'detail': str(error), 'code': error.code}
            return Response(error.status, {'errors': [detail]})
        if method == 'GET':
            self._read.update(lives)
        else:
            self._tell_mistaken(lives)
        return Response(200, document)

    def _tell_mistaken(self, written: Mapping[str, int]) -> None:
        cloud = self._cloud
        for consumer, life in written.items():
            if self._is_late and self._read.get(consumer, life) < life:
                name = cloud.name_of(consumer)
                cloud.say(f'{self._process.name} took {name} for an earlier one', name)
                cloud.placement.mistaken.add(consumer)
            else:
                cloud.placement.mistaken.discard(consumer)

    def _busy(self, *_: Any) -> Response:
        return Response(503, {})

    def _changed(self, request: tuple, _: float) -> Response:
        if request[0] == 'GET':
            return Response(503, {})
        detail = {'detail': 'resource provider generation conflict', 'code': CONCURRENT}
        return Response(409, {'errors': [detail]})

    def _unanswered(self, request: tuple, _: float) -> Response:
        self._cloud.say(f'{self._process.name}: an answer of Placement to {request[0]} is lost')
        self._answer(*request)
        raise errors.PlacementUnavailable('simulated: the connection was closed')

    def _slow(self, request: tuple, read_s: float) -> Response:
        cloud = self._cloud
        took_s = cloud.chance.uniform(0.1, min(read_s, READ_S) + READ_S - 1.0)
        if took_s < read_s or not self._is_late:
            if cloud.chance.random() < 0.5:
                wait(cloud.timeline, min(took_s, read_s))
                return self._answer(*request)
            response = self._answer(*request)
            wait(cloud.timeline, min(took_s, read_s))
            return response
        cloud.say(f'{self._process.name}: Placement will do {request[0]} in {took_s:.1f} s')
        cloud.timeline.at(took_s, lambda: self._do_late(*request))
        wait(cloud.timeline, read_s)
        raise errors.PlacementUnavailable('simulated: no answer')

    def _do_late(self, *request: Any) -> Response:
        placement = self._cloud.placement
        before = {**placement.consumers}
        response = self._answer(*request)
        placement.written_late |= {
            consumer for consumer, held in placement.consumers.items()
            if held is not before.get(consumer)
        }  # fmt: skip
        return response


# The databases of Nova.


class CellDatabase:
    """The database of a cell; its clock is ``ahead_s`` of that of the claims."""

    def __init__(self, cloud: 'NovaCloud', number: int):
        self._cloud, self.uuid, self.name = cloud, uuid_of(f'cell {number}'), f'cell {number}'
        self.ahead_s = cloud.chance.choice([0.0, 0.0, 1.5, -1.5, 600.0, -600.0])
        self.is_away = False
        self.engine = db_engine.create('sqlite://')
        with self.engine.begin() as connection:
            for table in TABLES:
                columns = ', '.join(
                    'id INTEGER PRIMARY KEY' if column.name == 'id' else f'"{column.name}"'
                    for column in table.c
                )
                connection.exec_driver_sql(f'CREATE TABLE {table.name} ({columns})')
        with self.engine.connect() as connection:
            driver = connection.connection.driver_connection
            driver.create_function('julianday', 1, lambda _: 2440587.5 + self.now_s / 86400.0)
            driver.create_function('strftime', 3, self._ago)

    @property
    def now_s(self) -> float:
        return self._cloud.database_s() - self._cloud.jump_s + self.ahead_s

    @property
    def moment(self) -> datetime.datetime:
        """The time as MySQL stores it for Nova, without fractions."""
        return _moment(int(self.now_s))

    def _ago(self, _form: str, _now: str, change: str) -> str:
        moment = _moment(self.now_s + float(change.split()[0]))
        return moment.isoformat(' ', 'milliseconds')

    def write(self, *statements: Any) -> None:
        """Run statements, in a transaction."""
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(statement)
        self._cloud.ledger.is_due = True


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)


class StormyCell:
    """A NovaCell as one scheduler reaches it. Each of its methods is one transaction."""

    def __init__(self, database: CellDatabase, cloud: 'NovaCloud', process: Process):
        self.uuid, self.name, self.engine = database.uuid, database.name, database.engine
        self._cell = NovaCell(database.engine, database.uuid, database.name)
        self._database, self._cloud, self._process = database, cloud, process

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cell, name)

        def call(*args: Any) -> Any:
            self._cloud.take_time(self._process, 0.002)
            self._cloud.nova.check(self._database)
            answer = method(*args)
            self._cloud.take_time(self._process, 0.002)
            return answer

        return call


class Nova:
    """Nova's databases. As NovaApi and as Cells, it is what one scheduler reads."""

    def __init__(self, cloud: 'NovaCloud'):
        self._cloud = cloud
        self.cells = [CellDatabase(cloud, number) for number in range(cloud.chance.randint(1, 2))]
        self.host_mappings: dict[str, str] = {}
        self.build_requests: dict[str, None] = {}

    def check(self, database: CellDatabase) -> None:
        """Raise StoreUnavailable at times."""
        cloud = self._cloud
        if database.is_away or (
            cloud.is_stormy and cloud.chance.random() < 2 * cloud.weather.unavailable
        ):
            raise errors.StoreUnavailable(f'simulated: {database.name} is down')


class NovaDatabases:
    """The cells and the API database as one scheduler reads them."""

    def __init__(self, cloud: 'NovaCloud', process: Process):
        self._cloud, self._process = cloud, process
        self._cells = [StormyCell(cell, cloud, process) for cell in cloud.nova.cells]
        self.left_out: dict[str, str] = {}

    def __iter__(self) -> Iterator[StormyCell]:
        return iter(self._cells)

    def reread(self) -> None:
        self._cloud.take_time(self._process, 0.002)

    def aggregates(self) -> list:
        return []

    def host_mappings(self) -> dict[str, str]:
        self._cloud.take_time(self._process, 0.002)
        return dict(self._cloud.nova.host_mappings)

    def has_build_request(self, uuid: str) -> bool:
        self._cloud.take_time(self._process, 0.002)
        return uuid in self._cloud.nova.build_requests


# Schedulers.


class NovaMember(Member):
    """A scheduler that reads its hosts from Nova, and claims in Placement."""

    READS_NOVA = True
    cloud: 'NovaCloud'
    heartbeat_s = 0.0

    def _make(self, context: Any) -> Scheduler:
        cloud, timeline = self.cloud, self.cloud.timeline
        self._context = context
        client = PlacementClient(Adapter(cloud, self.process, is_late=True), (5.0, READ_S))
        self._nova = NovaDatabases(cloud, self.process)
        writer = AllocationWriter(
            client,
            context.store.claims,
            lambda uuid: scheduler.nova_hosts.host_of(uuid),
            lambda server: any(cell.is_moving(server) for cell in self._nova),
            lambda nodes: self.mirror.read_nodes(nodes),
            timeout_s=ANSWER_S,
            late_s=READ_S,
            random=random.Random(f'{cloud.seed} {self.name} {self.starts} writer'),
            not_up=lambda nodes: self.mirror.not_up(nodes),
        )
        writer._uncertain._clock = lambda: timeline.now_s
        context.writer, context.before_refusal = writer, self._poll_before_refusal
        scheduler = Scheduler(context)
        send = scheduler.loop.send

        def sent(kind: str, work: Any) -> Any:
            future = send(kind, work)
            self.work.set()
            return future

        scheduler.loop.send = sent  # type: ignore[method-assign]
        front = Front(self, scheduler)
        self.mirror = Mirror(
            front,
            self._nova,
            self._nova,
            client,
            lambda: Intervals(10 * cloud.poll_s, 120 * cloud.poll_s, DOWN_S),
            then=lambda compared: hooks.run(compared),
        )
        reconciler = Reconciler(
            front,
            self._nova,
            self._nova,
            client,
            self.mirror,
            SETTLE_S,
            monotonic=lambda: timeline.now_s,
        )
        hooks = MirrorHooks({'settle': lambda _: reconciler.settle()})
        return scheduler

    def _poll_before_refusal(self, requests: Any, _refusal: Any) -> Any:
        self.mirror.poll_now()
        return requests

    def _endpoints(self, front: Front) -> dict[str, Any]:
        return {'scheduler': NovaSourceEndpoint(front, self.mirror)}

    def _caller(self, message: Message) -> Any:
        """With the time of the request, by the clock of this machine, from which its age is
        told."""
        age = datetime.timedelta(seconds=self.cloud.timeline.now_s - message.sent_s)
        sent_at = datetime.datetime.now(datetime.UTC) - age
        return types.SimpleNamespace(request_id=message.request_id, timestamp=sent_at.isoformat())

    def _open(self) -> None:
        self.process.start(self._heartbeat)
        self.process.start(self._read_nova)

    def _read_nova(self) -> None:
        self.mirror.start()
        self.is_ready = True

    def _heartbeat(self) -> None:
        """Learn which of the schedulers live, and which cells this one reads."""
        timeline, membership = self.cloud.timeline, self._context.membership
        while True:
            self.heartbeat_s = timeline.now_s
            alive = [member.number for member in self.cloud.members
                     if timeline.now_s - member.heartbeat_s < SILENT_S]  # fmt: skip
            membership.position_and_count = alive.index(self.number), len(alive)
            wait(timeline, HEARTBEAT_S)


# Compute nodes.


class NovaHost(Host):
    """A nova-compute with its node. Its rows and allocations are written step by step.

    ``truth`` is what its resource tracker counts: a server that was moved away is in it until the
    move is confirmed.
    """

    cloud: 'NovaCloud'
    cell: CellDatabase

    def __init__(self, cloud: 'NovaCloud', name: str, folder: pathlib.Path):
        number = int(name[1:])
        self.cell = cloud.nova.cells[number % len(cloud.nova.cells)]
        uuid, now = uuid_of(name), self.cell.moment
        cloud.names[uuid] = name
        cloud.nova.host_mappings[name] = self.cell.uuid
        cloud.placement.providers[uuid] = 1
        self._told: dict[str, Any] = {}
        service = {'host': name, 'binary': 'nova-compute', 'disabled': False, 'deleted': 0,
                   'forced_down': False, 'version': 74, 'created_at': now,
                   'last_seen_up': now}  # fmt: skip
        self.name = name
        node = {'id': number + 1, 'uuid': uuid, 'hypervisor_hostname': name,
                'hypervisor_type': 'QEMU', 'hypervisor_version': 8002002, 'cpu_info': '{}',
                'running_vms': 0, 'current_workload': 0, 'created_at': now, 'deleted': 0,
                **self.row}  # fmt: skip
        self.cell.write(SERVICES.insert().values(**service), NODES.insert().values(**node))
        self.evacuated: dict[str, str] = {}  # server -> its migration
        super().__init__(cloud, name, folder)

    def start(self) -> None:
        self.process = process = Process(self.cloud.timeline, self.name)
        self.news = Signal(self.cloud.timeline)
        self.client = NovaClient(self.cloud, process)
        self._busy: dict[str, Lock] = collections.defaultdict(Lock)
        # Work that was under way is done again, but nothing from before it.
        self._serials = {
            server: (serial - 1, False) if done is None else (serial, done)
            for server, (serial, done) in self._serials.items()
        }
        self.force_down(False)
        process.start(self._heartbeat)
        process.start(self._update_always)

    def force_down(self, is_lost: bool) -> None:
        """As an operator does, who has seen that it runs nothing any more."""
        self.is_lost = is_lost
        row = SERVICES.update().where(SERVICES.c.host == self.name)
        self.cell.write(row.values(forced_down=is_lost))

    def _heartbeat(self) -> None:
        while True:
            row = SERVICES.update().where(SERVICES.c.host == self.name)
            self.cell.write(row.values(last_seen_up=self.cell.moment))
            wait(self.cloud.timeline, min(self.cloud.interval_s / 2, DOWN_S / 2))

    def _update_always(self) -> None:
        while True:
            self._leave_evacuated()
            self.update()
            self._remove_deleted()
            servers = [uuid_of(server) for server in self.truth]
            self.cloud.cast('sync_instance_info', host_name=self.name, instance_uuids=servers)
            wait(self.cloud.timeline, 3 * self.cloud.interval_s)

    def _leave_evacuated(self) -> None:
        """Remove what servers that were evacuated have here.

        Nova does that once, at the start of the service, and leaves to operators what a migration
        that is open at that time has here. This host tries again until the migration is settled.
        """
        for server, migration in [*self.evacuated.items()]:
            held = map(self.cloud.name_of, self.cloud.placement.held(self.uuid))
            if any(name.startswith(f'{server} migration ') for name in held):
                continue
            if server not in self.truth:
                self.client.leave(uuid_of(server), self.uuid)
            self.migration(migration, 'completed')
            self.evacuated.pop(server, None)

    def _remove_deleted(self) -> None:
        """Remove what deleted servers are allocated here: a late request may have written it."""
        held = self.cloud.placement.held(self.uuid)
        deleted = INSTANCES.select().where(INSTANCES.c.uuid.in_(held), INSTANCES.c.deleted == 1)
        with self.cell.engine.connect() as connection:
            uuids = [row.uuid for row in connection.execute(deleted)]
        for uuid in uuids:
            self.client.remove(uuid)

    @property
    def row(self) -> dict[str, Any]:
        """The columns that may be odd at times, as they should be."""
        return {'host': self.name, 'free_disk_gb': 100, 'stats': '{}',
                'supported_instances': '[["x86_64", "kvm", "hvm"]]'}  # fmt: skip

    def update(self) -> None:
        """Write the row of the node, if it differs."""
        count = len(self.truth) + len(self.strangers)
        now = {**self.row, 'running_vms': count}
        self.cloud.take_time(self.process, 0.01)
        if now != self._told:
            self.write_row(now)
            self._told = now

    def write_row(self, values: Mapping[str, Any]) -> None:
        row = NODES.update().where(NODES.c.uuid == self.uuid)
        self.cell.write(row.values(**values, updated_at=self.cell.moment))

    def obey(self, server: str, serial: int, work: Callable[[], bool]) -> bool:
        """As of a host, for work that takes time: one that was killed meanwhile does it again."""
        with self._busy[server]:
            last, done = self._serials.get(server, (0, False))
            if serial < last:
                return False
            if serial > last:
                self._serials[server] = serial, None
                done = work()
                self._serials[server] = serial, done
            return done

    # Work for conductors. Each piece may be repeated from its beginning.

    def holds(self, server: str, amounts: Mapping[str, int] | None) -> None:
        """From now on, the resource tracker counts this for a server."""
        if amounts is not None:
            self.truth[server] = dict(amounts)
        elif self.truth.pop(server, None) is None:
            return
        what = f'has {amounts[VCPU]} on' if amounts else 'is gone from'
        self.cloud.say(f'{server} {what} {self.name}', server, self.name)
        self.cloud.ledger.is_due = True

    def instance(self, server: str, **values: Any) -> None:
        """Write the row of an instance."""
        row = INSTANCES.update().where(INSTANCES.c.uuid == uuid_of(server))
        self.cell.write(row.values(**values))
        self.cloud.take_time(self.process, 0.01)

    def migration(self, uuid: str, status: str) -> None:
        row = MIGRATIONS.update().where(MIGRATIONS.c.uuid == uuid)
        self.cell.write(row.values(status=status))
        self.cloud.take_time(self.process, 0.01)

    def build_server(self, server: Server, vm_state: str, fails: bool) -> bool:
        """Build or unshelve a server here. A failure leaves its allocations alone: it may be done
        again."""
        name, pause_s = server.name, self.cloud.chance.expovariate(1 / 3.0)
        self.instance(name, host=self.name, node=self.name, vm_state=vm_state, task_state=None)
        self.holds(name, server.flavor.amounts)
        self.update()
        self.instance(name, task_state='spawning')
        wait(self.cloud.timeline, pause_s)
        if fails:
            self.holds(name, None)
            self.instance(name, host=None, node=None, task_state='scheduling')
            self.update()
            return False
        self.instance(name, vm_state='active', task_state=None)
        self.cloud.cast('update_instance_info', host_name=self.name, instance_info=[])
        return True

    def prepare(self, server: str, old: Amounts | None, new: Amounts, fails: bool) -> bool:
        """Count a server that moves to here, or that has an ``old`` size here, too."""
        self.holds(server, sums([old or {}, new]))
        self.update()
        wait(self.cloud.timeline, self.cloud.chance.expovariate(1 / 3.0))
        if fails:
            self.holds(server, old)
            self.update()
        return not fails

    def arrived(self, server: str, vm_state: str) -> bool:
        self.instance(server, host=self.name, node=self.name, vm_state=vm_state, task_state=None)
        self.update()
        return True

    def leave(self, server: str, left: Amounts | None, migration: str) -> bool:
        """A move is confirmed: what is ``left`` here is counted."""
        self.holds(server, left)
        self.update()
        self.client.remove(migration)
        self.migration(migration, 'confirmed')
        return True

    def come_back(self, server: str, old: Amounts, migration: str) -> bool:
        """A move is reverted: the server runs here, as before."""
        self.holds(server, old)
        self.client.give(migration, uuid_of(server))
        self.migration(migration, 'reverted')
        return self.arrived(server, 'active')

    def offload(self, server: str) -> bool:
        """A server is shelved."""
        self.holds(server, None)
        self.client.remove(uuid_of(server))
        self.instance(server, vm_state='shelved_offloaded', task_state=None)
        self.update()
        self.instance(server, host=None, node=None)
        return True

    def rebuild(self, server: Server, migration: str, fails: bool) -> bool:
        """Evacuate a server to here."""
        self.holds(server.name, server.flavor.amounts)
        self.instance(server.name, host=self.name, node=self.name)
        self.update()
        wait(self.cloud.timeline, self.cloud.chance.expovariate(1 / 3.0))
        if fails:
            source = server.host.name
            self.holds(server.name, None)
            self.instance(server.name, host=source, node=source, task_state=None)
            self.update()
            return False
        self.migration(migration, 'done')
        return self.arrived(server.name, 'active')

    def drop_server(self, server: str) -> bool:
        """Count it no more, if it is here."""
        self.holds(server, None)
        self.evacuated.pop(server, None)
        self.update()
        return True

    def delete(self, server: str) -> bool:
        """Delete a server that is here, and what it has in Placement."""
        self.holds(server, None)
        self.instance(server, vm_state='deleted', task_state=None, deleted=1)
        self.update()
        self.client.remove(uuid_of(server))
        self.cloud.cast('delete_instance_info', host_name=self.name,
                        instance_uuid=uuid_of(server))  # fmt: skip
        return True


class NovaClient:
    """Placement, as Nova's services use it: until each request is done."""

    def __init__(self, cloud: 'NovaCloud', process: Process):
        self._cloud = cloud
        self._client = PlacementClient(Adapter(cloud, process, is_late=False), (5.0, READ_S))

    def always(self, work: Callable[[PlacementClient], bool]) -> bool:
        """Do this until it is done: it reads, and writes what was not written yet. Returns False
        if there is no room for it."""
        while True:
            try:
                return work(self._client)
            except errors.PlacementConflict as error:
                if not error.is_concurrent:
                    return False
            except errors.PlacementUnavailable:
                pass
            wait(self._cloud.timeline, self._cloud.chance.uniform(0.1, 2.0))

    def remove(self, *consumers: str) -> None:
        """Remove all that these consumers have."""
        for consumer in consumers:
            self.always(lambda client, uuid=consumer: client.remove(
                uuid, client.allocations_of(uuid)))  # fmt: skip
            self.always(lambda client, uuid=consumer: _has_none(client, uuid))

    def give(self, giver: str, taker: str) -> None:
        """Give all that one consumer has to another one, which loses what it has."""

        def work(client: PlacementClient) -> bool:
            has, gets = client.allocations_of(giver), client.allocations_of(taker)
            if has.providers:
                client.write({
                    giver: dataclasses.replace(has, providers={}),
                    taker: ConsumerAllocations(has.providers, gets.generation, PROJECT, USER),
                })  # fmt: skip
            return True

        self.always(work)

    def leave(self, consumer: str, provider: str) -> None:
        """Remove what a consumer has of one provider."""

        def work(client: PlacementClient) -> bool:
            allocations = client.allocations_of(consumer)
            if provider in allocations.providers:
                rest = {
                    other: amounts
                    for other, amounts in allocations.providers.items()
                    if other != provider
                }
                client.write({consumer: dataclasses.replace(allocations, providers=rest)})
            return True

        self.always(work)

    def claim(self, consumer: str, request: str) -> bool:
        """Allocate an alternate for a server that has nothing. Returns whether there is room."""
        wanted = {provider: amounts['resources']
                  for provider, amounts in json.loads(request)['allocations'].items()}  # fmt: skip

        def work(client: PlacementClient) -> bool:
            allocations = client.allocations_of(consumer)
            if allocations.providers != wanted:
                wanted_allocations = ConsumerAllocations(
                    wanted, allocations.generation, PROJECT, USER
                )
                client.write({consumer: wanted_allocations})
            return True

        return self.always(work)


def _has_none(client: PlacementClient, consumer: str) -> bool:
    """Raise PlacementConflict while a consumer has allocations."""
    allocations = client.allocations_of(consumer)
    if allocations.providers and not client.remove(consumer, allocations):
        raise errors.PlacementConflict('it has changed', CONCURRENT)
    return True


# Conductors.


class NovaLife(Life):
    """One server from its boot to its end, as Nova's conductor has it."""

    PACE_S = 20.0
    cloud: 'NovaCloud'

    def __init__(self, cloud: 'NovaCloud', server: Server, process: Process):
        super().__init__(cloud, server, process)
        self._cell: CellDatabase | None = None
        self._migrations: list[str] = []
        self._changes = [self._resize, self._resize, self._move, self._move_live]

    @property
    def _client(self) -> NovaClient:
        return NovaClient(self.cloud, self.process)

    def _boot(self) -> bool:
        server, cloud = self.server, self.cloud
        cloud.nova.build_requests[server.uuid] = None
        selections = self._destinations(self._spec(server.flavor))
        if not selections:
            cloud.nova.build_requests.pop(server.uuid, None)
            # Its owner deletes it, and with it what a scheduler that was killed has allocated.
            self._client.remove(server.uuid)
            return False
        self._cell = next(
            cell for cell in cloud.nova.cells if cell.uuid == selections[0].cell_uuid
        )
        row = {'uuid': server.uuid, 'vm_state': 'building', 'task_state': 'scheduling',
               'deleted': 0}  # fmt: skip
        self._cell.write(INSTANCES.insert().values(**row))
        cloud.take_time(self.process, 0.01)
        cloud.nova.build_requests.pop(server.uuid, None)
        if self._build(selections, 'building'):
            return True
        self._delete_row()
        return False

    def _build(self, selections: list, vm_state: str) -> bool:
        """Build the server on the chosen host, or on an alternate."""
        server, cloud = self.server, self.cloud
        for place, chosen in enumerate(selections):
            cloud.ledger.forget(server.name)
            host = cloud.hosts[chosen.service_host]
            if place and not self._client.claim(server.uuid, chosen.allocation_request):
                continue
            if place:
                cloud.ledger.alternate(server.name, host)
            fails = self._chance.random() < 0.1
            if self._tell(host, lambda host=host, fails=fails: host.build_server(
                    server, vm_state, fails)):  # fmt: skip
                server.host = host
                return True
            self._client.remove(server.uuid)
        return False

    def _destinations(self, spec: Any) -> list:
        """The Selections for the server, the one that it has first; none if there are none."""
        try:
            chosen = self._selections(spec)
        except (errors.NoAnswer, errors.NoValidHost):
            return []
        self.cloud.ledger.promise(self.server.name, chosen[0].service_host)
        return chosen

    def _wait_until_confirmed(self) -> None:
        """Nothing is to be waited for."""

    # Changes.

    def _resize(self) -> None:
        flavor = self._chance.choice(FLAVORS)
        if flavor != self.server.flavor:
            self._change('resize', flavor)

    def _move(self) -> None:
        self._change(self._chance.choice(['migration', 'shelve']), self.server.flavor)

    def _move_live(self) -> None:
        self._change('live-migration', self.server.flavor)

    def _change(self, kind: str, flavor: TraceFlavor) -> None:
        host = self.server.host
        if host is None:
            self._unshelve()
        elif host.is_lost:
            self._evacuate(host)
        elif kind == 'shelve':
            self.cloud.ledger.forget(self.server.name)
            self._tell(host, lambda: host.offload(self.server.name))
            self.server.host = None
            wait(self.cloud.timeline, self._chance.expovariate(1 / 30.0))
            self._unshelve()
        else:
            self._migrate(kind, host, flavor)

    def _unshelve(self) -> None:
        self._task('unshelving')
        selections = self._destinations(self._spec_within(self.server.flavor))
        if not (selections and self._build(selections, 'shelved_offloaded')):
            self._task(None)
        self.cloud.ledger.forget(self.server.name)

    def _task(self, state: str | None) -> None:
        row = INSTANCES.update().where(INSTANCES.c.uuid == self.server.uuid)
        self._cell.write(row.values(task_state=state))
        self.cloud.take_time(self.process, 0.01)

    def _spec_within(self, flavor: TraceFlavor, leaving: Host | None = None) -> Any:
        """The request for another host of the cell that has the server."""
        spec = self._spec(flavor)
        elsewhere = (host.name for host in self.cloud.hosts.values()
                     if host.cell is not self._cell or host is leaving)  # fmt: skip
        spec.ignore_hosts = list(elsewhere) or None
        return spec

    def _begin(self, kind: str) -> str:
        """Make a migration. Returns its UUID."""
        name = f'{self.server.name} migration {len(self._migrations) + 1}'
        migration = uuid_of(name)
        self.cloud.names[migration] = name
        self._migrations.append(migration)
        row = {'uuid': migration, 'instance_uuid': self.server.uuid, 'migration_type': kind,
               'status': 'pre-migrating'}  # fmt: skip
        self._cell.write(MIGRATIONS.insert().values(**row))
        self.cloud.take_time(self.process, 0.01)
        return migration

    def _migrate(self, kind: str, source: NovaHost, flavor: TraceFlavor) -> None:
        """Resize or migrate the server, while its migration has what it had."""
        server, chance, cloud = self.server, self._chance, self.cloud
        cloud.ledger.forget(server.name)
        name, old, new = server.name, server.flavor.amounts, flavor.amounts
        migration = self._begin(kind)
        self._client.give(server.uuid, migration)
        may_stay = kind == 'resize' and chance.random() < 0.5
        selections = self._destinations(self._spec_within(flavor, None if may_stay else source))
        cloud.ledger.forget(name)
        host = cloud.hosts[selections[0].service_host] if selections else None
        stays, fails = host is source, chance.random() < 0.1
        if host is None or not self._tell(
            host, lambda: host.prepare(name, old if stays else None, new, fails)
        ):
            self._tell(source, lambda: source.come_back(name, old, migration))
            return
        is_live = kind == 'live-migration'
        self._tell(host, lambda: host.arrived(name, 'active' if is_live else 'resized'))
        server.host = host
        if not is_live:
            wait(cloud.timeline, chance.expovariate(1 / 30.0))
        if is_live or chance.random() < 0.6:
            self._tell(source, lambda: source.leave(name, new if stays else None, migration))
            server.flavor = flavor
            return
        if not stays:
            self._tell(host, lambda: host.drop_server(name))
        server.host = source
        self._tell(source, lambda: source.come_back(name, old, migration))

    def _evacuate(self, source: NovaHost) -> None:
        """Build the server of a lost host on another one."""
        server, fails = self.server, self._chance.random() < 0.2
        self.cloud.ledger.forget(server.name)
        migration = self._begin('evacuation')
        selections = self._destinations(self._spec_within(server.flavor, source))
        self.cloud.ledger.forget(server.name)
        row = MIGRATIONS.update().where(MIGRATIONS.c.uuid == migration)
        if not selections:
            self._cell.write(row.values(status='error'))
            return
        host = self.cloud.hosts[selections[0].service_host]
        if self._tell(host, lambda: host.rebuild(server, migration, fails)):
            server.host = host
            source.holds(server.name, None)
            source.evacuated[server.name] = migration
        else:
            self._client.leave(server.uuid, host.uuid)
            self._cell.write(row.values(status='failed'))

    def _delete(self) -> None:
        host = self.server.host
        self.cloud.ledger.forget(self.server.name)
        if host is not None:
            self._tell(host, lambda: host.delete(self.server.name))
        else:
            self._delete_row()

    def _delete_row(self) -> None:
        """Delete a server that is on no host, as Nova's API does."""
        self.cloud.ledger.forget(self.server.name)
        row = INSTANCES.update().where(INSTANCES.c.uuid == self.server.uuid)
        for cell in self.cloud.nova.cells:
            cell.write(row.values(vm_state='deleted', deleted=1))
        self._client.remove(self.server.uuid, *self._migrations)

    def clean_up(self) -> None:
        """A server whose conductor was killed is deleted."""
        try:
            self.cloud.nova.build_requests.pop(self.server.uuid, None)
            for host in self.cloud.hosts.values():
                self._tell(host, lambda host=host: host.drop_server(self.server.name))
            self._delete_row()
        finally:
            self.cloud.ended(self.server)


# What must be true.


class NovaLedger(Ledger):
    """Compares what runs with Placement, and both with the claims.

    ``_known``: what is on a host, if the store has had a row for that. A pending claim is none: a
    late request may have made it before a read found the server there, and end it again. The
    caller that was told of it goes by it (see ``_check_promise``). ``_left``: the claim of a row
    that the store had of a server, None without one, when its conductor took an alternate there,
    which no scheduler knew of: that row is of an earlier visit, and says nothing.
    """

    _cloud: 'NovaCloud'

    def __init__(self, cloud: 'NovaCloud'):
        super().__init__(cloud)
        self._known: dict[tuple[str, str], dict[str, int]] = {}
        self._left: dict[tuple[str, str], Claim | None] = {}

    def alternate(self, server: str, host: NovaHost) -> None:
        """The conductor has allocated an alternate."""
        if server in self._rows(host):
            self._left[server, host.name] = self._claim(server, host)

    def _claim(self, server: str, host: Host) -> Claim | None:
        facts = self._facts.get(host.uuid)
        claims = facts.claims if facts else ()
        return next((claim for claim in claims if claim.consumer_uuid == uuid_of(server)), None)

    def _rows(self, host: NovaHost) -> dict[str, Mapping[str, int]]:
        """What the rows of a node have, by server."""
        facts, name_of = self._facts.get(host.uuid), self._cloud.name_of
        if facts is None:
            return {}
        claims = {name_of(claim.consumer_uuid): claim.resources for claim in facts.claims}
        for consumer, amounts in facts.unclaimed.items():
            name = name_of(consumer)
            claims[name] = sums([claims.get(name, {}), amounts])
        return claims

    def _check_host(self, host: Host) -> None:
        allocated: dict[str, dict[str, int]] = {}
        for consumer, amounts in self._cloud.placement.held(host.uuid).items():
            server = self._cloud.name_of(consumer).split(' ')[0]
            allocated[server] = sums([allocated.get(server, {}), amounts])
        self._check_room(host, collections.Counter(sums(host.truth.values())), 'what runs there')
        if facts := self._facts.get(host.uuid):
            # Placement may still refuse one that is pending, and the new size of a resize.
            firm = [claim for claim in facts.claims if claim.is_confirmed]
            total = sums(
                claim.resizing.old if claim.resizing else claim.resources for claim in firm
            )
            self._check_room(host, collections.Counter(total), 'confirmed claims')
        rows = self._rows(host)
        for server, amounts in host.truth.items():
            has_enough = not is_less(allocated.get(server, {}), amounts)
            if not has_enough and uuid_of(server) not in self._cloud.placement.mistaken:
                raise Violation(
                    f'{server} has {amounts} on {host.name}, and {allocated.get(server)} in '
                    'Placement', server, host.name,
                )  # fmt: skip
            key = server, host.name
            if not is_less(rows.get(server, {}), amounts):
                claim = self._claim(server, host)
                is_left = key in self._left and self._left[key] == claim
                if not is_left and (claim is None or claim.is_confirmed):
                    self._known[key] = amounts
                continue
            self._left.pop(key, None)
            if self._known.get(key) == amounts and server not in self.expired:
                raise Violation(
                    f'{server} has {amounts} on {host.name}, and its rows there have '
                    f'{rows.get(server)}', server, host.name,
                )  # fmt: skip
        for key in [key for key in self._known if key[1] == host.name]:
            if key[0] not in host.truth:
                del self._known[key]
                self._left.pop(key, None)

    def _check_promise(self, server: str, host_name: str) -> None:
        host = self._cloud.hosts[host_name]
        if uuid_of(server) not in self._cloud.placement.held(host.uuid):
            raise Violation(f'{server} was told {host_name}, and has nothing there in Placement',
                            server, host_name)  # fmt: skip
        if server not in self._rows(host):
            raise Violation(f'{server} was told {host_name}, and has no claim there', server,
                            host_name)  # fmt: skip

    def check_end(self) -> None:
        self.is_due = True
        self.check()
        for host in self._cloud.hosts.values():
            runs = {**host.truth, **host.strangers}
            name_of = self._cloud.name_of
            held = {name_of(consumer): amounts for consumer, amounts in
                    self._cloud.placement.held(host.uuid).items()}  # fmt: skip
            rows = {
                server: amounts
                for server, amounts in self._rows(host).items()
                if server != NAMELESS
            }
            for what, amounts in (('Placement has', held), ('its rows are', rows)):
                if amounts != runs:
                    raise Violation(
                        f'at the end, {host.name} has {runs}, and {what} {amounts}',
                        host.name, *(runs.keys() ^ amounts.keys()),
                    )  # fmt: skip
        for member in self._cloud.members:
            self._check_member(member)


# The whole.


class NovaCloud(Cloud):
    """A stock Nova cloud, of one seed."""

    MEMBER, HOST, LIFE, LEDGER = NovaMember, NovaHost, NovaLife, NovaLedger
    EXPECTED = errors.StoreUnavailable, errors.Outdated, errors.Superseded
    FAIR = {'pieces': False, 'groups': False}
    ledger: NovaLedger
    members: list[NovaMember]
    hosts: dict[str, NovaHost]

    def _found(self) -> None:
        self._patches = contextlib.ExitStack()
        self._patches.enter_context(threads_in(self.timeline, THREADS))
        self.placement, self.nova = Placement(self), Nova(self)

    def close(self) -> None:
        super().close()
        self._patches.close()
        for cell in self.nova.cells:
            cell.engine.dispose()

    def run(self, hours: float) -> None:
        for host in self.hosts.values():
            for name, amounts in host.strangers.items():
                self.names[uuid_of(name)] = name
                self.placement.consumers[uuid_of(name)] = 1, {host.uuid: dict(amounts)}
                row = {'uuid': uuid_of(name), 'host': host.name, 'node': host.name,
                       'vm_state': 'active', 'deleted': 0}  # fmt: skip
                host.cell.write(INSTANCES.insert().values(**row))
        super().run(hours)

    def cast(self, method: str, **args: Any) -> None:
        """Tell all schedulers something, as nova-compute does."""
        for member in self.members:
            for after_s in self.bus.ways():
                message = Message(self, 'req-cast', 'scheduler', method, args)
                message.answer = lambda *_: None  # type: ignore[method-assign]
                self.timeline.at(
                    after_s, lambda receiver=member, copy=message: self._hand(receiver, copy)
                )

    def _tend(self) -> None:
        """Remove, as an operator does with ``nova-manage placement audit``, what a request to
        Placement has written for a server that was gone when it was done at last."""
        super()._tend()
        there = {uuid_of(server) for host in self.hosts.values() for server in host.truth}
        for consumer in self.placement.written_late - there:
            NovaClient(self, self.weather_process).remove(consumer)

    @staticmethod
    def _hand(member: NovaMember, message: Message) -> None:
        if member.process.is_alive and member.is_ready:
            member.take(message)

    def _crash(self) -> None:
        if self.chance.random() < 0.7:
            super()._crash()
            return
        host = self.chance.choice([*self.hosts.values()])
        if host.process.is_alive:
            self.say(f'{host.name} is lost', host.name)
            host.process.kill()
            host.force_down(True)
            again_s = self.chance.uniform(100.0, 900.0)
            self.timeline.at(again_s, lambda: self._start_again(host.process))

    def _skew(self) -> None:
        if self.chance.random() < 0.5:
            super()._skew()
            return
        host = self.chance.choice([*self.hosts.values()])
        column, odd = self.chance.choice(
            [('stats', '{'), ('free_disk_gb', None), ('supported_instances', '[7]'), ('host', '')]
        )
        self.say(f'{column} of the row of {host.name} is odd', host.name)
        host.write_row({column: odd})
        self.timeline.at(self.chance.uniform(5.0, 200.0), lambda: host.write_row(host.row))

    def _outage(self) -> None:
        """Of the database of claims, of a cell, or of Placement."""
        parts = [None, self.placement, *self.nova.cells]
        part = self.chance.choice(parts)
        if part is None:
            super()._outage()
            return
        part.is_away = True
        self.timeline.at(self.chance.uniform(0.1, 30.0), lambda: setattr(part, 'is_away', False))
