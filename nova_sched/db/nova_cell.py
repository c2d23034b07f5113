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
"""Reads the database of one of Nova's cells: services, compute nodes, instances, migrations and
devices.

The tables are Nova's, with the columns that are read. Rows that Nova has deleted have the value of
their id in ``deleted``. Times are in UTC, and seconds since the epoch in all results.
"""

import collections
import dataclasses
import datetime
from collections.abc import Mapping

import sqlalchemy as sa

from nova_sched.db import clock
from nova_sched.db.transactions import transaction

CHUNK = 500  # keys in one statement
COMPUTE, SCHEDULER = 'nova-compute', 'nova-scheduler'
MOMENTS = ('created_at', 'updated_at', 'last_seen_up')
FLAGS = ('disabled', 'forced_down')


def table(name, columns):
    """A table of Nova with some of its columns, which are given as a text with blanks in
    between."""
    types = dict.fromkeys(MOMENTS, sa.DateTime()) | dict.fromkeys(FLAGS, sa.Boolean())
    return sa.table(name, *(sa.column(column, types.get(column)) for column in columns.split()))


SERVICES = table(
    'services',
    'host binary disabled disabled_reason forced_down last_seen_up version created_at deleted',
)
NODES = table(
    'compute_nodes',
    'id uuid host hypervisor_hostname hypervisor_type hypervisor_version host_ip cpu_info '
    'free_disk_gb disk_available_least running_vms current_workload stats metrics numa_topology '
    'pci_stats supported_instances created_at updated_at deleted',
)
INSTANCES = table('instances', 'id uuid host node vm_state task_state deleted')
MIGRATIONS = table('migrations', 'uuid instance_uuid migration_type status')
DEVICES = table('pci_devices', 'compute_node_id instance_uuid deleted')

KEYS = sa.bindparam('keys', expanding=True)

# As Nova judges it: a service that is started, but has not reported yet, counts from its creation;
# one of the future is as silent as one of the past.
SEEN = sa.func.coalesce(SERVICES.c.last_seen_up, SERVICES.c.created_at)
DOWN_S = sa.bindparam('down_s', type_=sa.Float())
EARLIEST, LATEST = clock.UtcAgo(DOWN_S), clock.UtcAgo(-1.0 * DOWN_S)
IS_SILENT = sa.or_(SEEN.is_(None), SEEN < EARLIEST, SEEN > LATEST)
IS_COMPUTE = sa.and_(
    SERVICES.c.binary == COMPUTE, SERVICES.c.deleted == 0, SERVICES.c.host.is_not(None)
)
COMPUTE_SERVICES = sa.select(
    SERVICES.c.host,
    SERVICES.c.disabled,
    SERVICES.c.disabled_reason,
    SERVICES.c.forced_down,
    SEEN.label('seen'),
).where(IS_COMPUTE)
NOT_UP = COMPUTE_SERVICES.where(
    sa.or_(SERVICES.c.disabled.is_(True), SERVICES.c.forced_down.is_(True), IS_SILENT)
)
NOT_UP_ON_HOSTS = NOT_UP.where(SERVICES.c.host.in_(KEYS))
OLDEST = sa.select(sa.func.min(SERVICES.c.version)).where(
    IS_COMPUTE, SERVICES.c.forced_down.is_not(True)
)
SCHEDULERS_UP = sa.select(SERVICES.c.host).where(
    SERVICES.c.binary == SCHEDULER,
    SERVICES.c.deleted == 0,
    SERVICES.c.host.is_not(None),
    sa.not_(IS_SILENT),
)

# A row that was never updated has no `updated_at`.
WRITTEN = sa.func.coalesce(NODES.c.updated_at, NODES.c.created_at)
# A row without a UUID is of a compute older than providers: nova-compute gives it one.
STAMPS = sa.select(NODES.c.uuid, NODES.c.host, WRITTEN.label('written')).where(
    NODES.c.deleted == 0, NODES.c.uuid.is_not(None)
)
SINCE = sa.bindparam('since', type_=sa.DateTime())
CHANGED = STAMPS.where(WRITTEN >= SINCE)
FACTS = [
    column
    for column in NODES.c
    if column.name not in ('id', 'created_at', 'updated_at', 'deleted')
]
FULL = (
    sa.select(*FACTS, WRITTEN.label('written'), SERVICES.c.host.is_not(None).label('has_service'))
    .select_from(
        NODES.outerjoin(SERVICES, sa.and_(SERVICES.c.host == NODES.c.host, IS_COMPUTE)),
    )
    .where(NODES.c.deleted == 0, NODES.c.uuid.in_(KEYS))
)
SERVED = (
    sa.select(NODES.c.uuid, NODES.c.host)
    .select_from(NODES.join(SERVICES, sa.and_(SERVICES.c.host == NODES.c.host, IS_COMPUTE)))
    .where(NODES.c.deleted == 0, NODES.c.uuid.in_(KEYS))
)

INHABITED = NODES.join(
    INSTANCES,
    sa.and_(
        INSTANCES.c.host == NODES.c.host,
        INSTANCES.c.node == NODES.c.hypervisor_hostname,
        INSTANCES.c.deleted == 0,
    ),
)
ON_NODES = (
    sa.select(
        NODES.c.uuid.label('node'),
        INSTANCES.c.id,
        INSTANCES.c.uuid,
        INSTANCES.c.vm_state,
        INSTANCES.c.task_state,
    )
    .select_from(INHABITED)
    .where(NODES.c.deleted == 0, NODES.c.uuid.in_(KEYS))
)
CENSUS = (
    sa.select(
        NODES.c.uuid, sa.func.count().label('number'), sa.func.sum(INSTANCES.c.id).label('ids')
    )
    .select_from(INHABITED)
    .where(NODES.c.deleted == 0, NODES.c.uuid.is_not(None))
    .group_by(NODES.c.uuid)
)
WITH_DEVICES = (
    sa.select(NODES.c.uuid.label('node'), DEVICES.c.instance_uuid)
    .select_from(
        NODES.join(
            DEVICES, sa.and_(DEVICES.c.compute_node_id == NODES.c.id, DEVICES.c.deleted == 0)
        )
    )
    .where(NODES.c.deleted == 0, NODES.c.uuid.in_(KEYS), DEVICES.c.instance_uuid.is_not(None))
)
HOSTS_OF = sa.select(INSTANCES.c.host).where(
    INSTANCES.c.deleted == 0, INSTANCES.c.host.is_not(None), INSTANCES.c.uuid.in_(KEYS)
)
OFFLOADED = 'shelved_offloaded'
NEEDING = sa.select(INSTANCES.c.uuid).where(
    INSTANCES.c.deleted == 0,
    INSTANCES.c.uuid.in_(KEYS),
    sa.or_(
        sa.func.coalesce(INSTANCES.c.vm_state, '') != OFFLOADED,
        INSTANCES.c.task_state.is_not(None),
        INSTANCES.c.host.is_not(None),
    ),
)
PLACED = sa.select(INSTANCES.c.uuid, INSTANCES.c.host).where(
    INSTANCES.c.deleted == 0,
    INSTANCES.c.host.is_not(None),
    INSTANCES.c.task_state.is_(None),
    INSTANCES.c.vm_state.not_in(['building', 'error']),
)
EVACUATED = sa.select(MIGRATIONS.c.instance_uuid).where(
    MIGRATIONS.c.instance_uuid.is_not(None),
    MIGRATIONS.c.migration_type == 'evacuation',
    MIGRATIONS.c.status.not_in(['completed', 'failed', 'error', 'cancelled']),
)
# Statuses of migrations that are not done yet: then they are settled, or wait for that.
UNDER_WAY = ('accepted', 'queued', 'preparing', 'pre-migrating', 'running', 'migrating')
MOVES_OF_ONE = sa.select(MIGRATIONS.c.uuid).where(
    MIGRATIONS.c.instance_uuid == sa.bindparam('uuid'), MIGRATIONS.c.status.in_(UNDER_WAY)
)
OF_INSTANCE = [column for column in INSTANCES.c if column.name != 'id']
ANY_INSTANCES = sa.select(INSTANCES.c.uuid).where(INSTANCES.c.uuid.in_(KEYS))
ONE_INSTANCE = sa.select(*OF_INSTANCE).where(INSTANCES.c.uuid == sa.bindparam('uuid'))
MOVING = sa.select(MIGRATIONS.c.uuid, MIGRATIONS.c.instance_uuid).where(
    MIGRATIONS.c.uuid.in_(KEYS)
)


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceRow:
    """A compute service; ``seen_s`` is its last heartbeat, 0 if it never sent one."""

    host: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    seen_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class NodeRow:
    """A compute node, with Nova's names of columns; the nested facts are JSON texts.

    ``updated_s`` is the time of the last write, ``has_service`` whether its host has a compute
    service. ``instances`` maps the UUIDs of those on the node to their ids; the CPUs, pages and
    devices of the ``tracked`` ones are counted as used.
    """

    uuid: str
    host: str | None
    hypervisor_hostname: str | None
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str | None
    cpu_info: str | None
    free_disk_gb: int | None
    disk_available_least: int | None
    running_vms: int | None
    current_workload: int | None
    stats: str | None
    metrics: str | None
    numa_topology: str | None
    pci_stats: str | None
    supported_instances: str | None
    updated_s: float
    has_service: bool
    instances: Mapping[str, int] = dataclasses.field(default_factory=dict)
    tracked: frozenset[str] = frozenset()

    @property
    def census(self):
        """The number of its instances, and the sum of their ids."""
        return len(self.instances), sum(self.instances.values())


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceRow:
    """The place and the state of an instance."""

    uuid: str
    host: str | None
    node: str | None
    vm_state: str | None
    task_state: str | None
    deleted: bool

    @property
    def needs_allocations(self):
        """Whether it is on a host, or may get to one: it is not deleted, and not offloaded without
        a task (Nova sets the task before it asks the scheduler for a host)."""
        is_at_rest = self.task_state is None and self.host is None
        return not (self.deleted or (self.vm_state == OFFLOADED and is_at_rest))


@dataclasses.dataclass(frozen=True, slots=True)
class CellPoll:
    """What one poll of a cell has read: the time by its database, the ServiceRows of services that
    are not up, the stamps of compute nodes that were written, and the lowest version of the
    compute services, None without any."""

    now_s: float
    not_up: list[ServiceRow]
    written: dict[str, tuple[str, float]]
    oldest_version: int | None = None


class NovaCell:
    """One cell; ``engine`` is a reader of its database.

    Each method is one short transaction, and raises StoreUnavailable if the database does not
    answer. Any thread may call it.
    """

    def __init__(self, engine, uuid=None, name=None):
        self.engine = engine
        self.uuid, self.name = uuid, name

    def close(self):
        """Close the connections that are not in use."""
        self.engine.dispose()

    def now_s(self):
        """The time by the cell's database."""
        with transaction(self.engine) as connection:
            return clock.read(connection)

    def poll(self, down_time_s, since_s):
        """A CellPoll: ``services_not_up``, ``nodes_changed_since`` and ``oldest_compute_version``,
        in one transaction, which saves most of the messages to a database that is far away."""
        with transaction(self.engine) as connection:
            now_s = clock.read(connection)
            not_up = connection.execute(NOT_UP, {'down_s': down_time_s}).all()
            written = connection.execute(CHANGED, {'since': _moment(since_s)}).all()
            oldest = connection.execute(OLDEST).scalar()
        return CellPoll(now_s, [_service(row) for row in not_up], _stamps(written), oldest)

    # Services.

    def services_not_up(self, down_time_s, hosts=None):
        """ServiceRows of the compute services, or of those on these hosts, that are disabled,
        forced down, or without a heartbeat in ``down_time_s`` by the database's clock."""
        if hosts is None:
            return [_service(row) for row in self._rows(NOT_UP, down_s=down_time_s)]
        rows = self._among(NOT_UP_ON_HOSTS, hosts, down_s=down_time_s)
        return [_service(row) for row in rows]

    def oldest_compute_version(self):
        """The lowest version of the compute services that are not forced down; None: there are
        none."""
        return self._rows(OLDEST)[0][0]

    def schedulers_up(self, down_time_s):
        """The hosts of the nova-scheduler services that sent a heartbeat in ``down_time_s``."""
        return sorted(row.host for row in self._rows(SCHEDULERS_UP, down_s=down_time_s))

    # Compute nodes.

    def node_stamps(self):
        """Compute node UUID -> (host, time of the last write)."""
        return _stamps(self._rows(STAMPS))

    def nodes_changed_since(self, updated_s):
        """The stamps of the compute nodes that were written at that time or later, by the clocks
        of Nova's services."""
        return _stamps(self._rows(CHANGED, since=_moment(updated_s)))

    def nodes(self, uuids, inhabited=()):
        """NodeRows of those of these compute nodes that exist. Those in ``inhabited`` have their
        instances.

        What shows that an instance is tracked is written after the row. So it is read before the
        row, in one transaction: the name of the instance on a device, and the state of an instance
        that nova-compute builds.
        """
        with transaction(self.engine) as connection:
            instances, tracked = collections.defaultdict(dict), collections.defaultdict(set)
            for row in _among(connection, WITH_DEVICES, inhabited):
                tracked[row.node].add(row.instance_uuid)
            for row in _among(connection, ON_NODES, inhabited):
                instances[row.node][row.uuid] = row.id or 0
                if is_tracked(row.vm_state, row.task_state):
                    tracked[row.node].add(row.uuid)
            rows = _among(connection, FULL, uuids)
        return [_node(row, instances[row.uuid], tracked[row.uuid]) for row in rows]

    def served(self, uuids):
        """Compute node UUID -> host, for those of these nodes whose hosts have a compute
        service."""
        return {row.uuid: row.host for row in self._among(SERVED, uuids)}

    # Instances.

    def servers_on(self, uuids):
        """Compute node UUID -> UUIDs of its instances, of these nodes; none for other nodes."""
        servers = collections.defaultdict(set)
        for row in self._among(ON_NODES, uuids):
            servers[row.node].add(row.uuid)
        return servers

    def census(self):
        """Compute node UUID -> number of its instances and sum of their ids, where there are any.

        They differ if an instance comes, goes, or gives way to another one.
        """
        return {row.uuid: (row.number, int(row.ids or 0)) for row in self._rows(CENSUS)}

    def instance(self, uuid):
        """The InstanceRow of an instance, deleted or not; None: the cell has no such row."""
        for row in self._rows(ONE_INSTANCE, uuid=uuid):
            return InstanceRow(**{**row._mapping, 'deleted': bool(row.deleted)})
        return None

    def server(self, uuid):
        """The InstanceRow of an instance that is not deleted; None: the cell has none."""
        row = self.instance(uuid)
        return None if row is None or row.deleted else row

    def hosts_of(self, uuids):
        """The hosts of those of these instances that are not deleted."""
        return {row.host for row in self._among(HOSTS_OF, uuids)}

    def instances(self, uuids):
        """Those of these UUIDs that are instances, deleted ones too."""
        return {row.uuid for row in self._among(ANY_INSTANCES, uuids)}

    def needing(self, uuids):
        """Those of these UUIDs that are instances which need allocations, see InstanceRow."""
        return {row.uuid for row in self._among(NEEDING, uuids)}

    def placed(self):
        """Instance UUID -> host, of the built instances that have no task now."""
        return {row.uuid: row.host for row in self._rows(PLACED)}

    def evacuated(self):
        """UUIDs of the instances that were evacuated from a host that has not been started
        since."""
        return {row.instance_uuid for row in self._rows(EVACUATED)}

    def is_moving(self, uuid):
        """Return whether Nova moves, resizes or evacuates an instance now: it notes that before it
        asks for a host."""
        return bool(self._rows(MOVES_OF_ONE, uuid=uuid))

    def migrations(self, uuids):
        """Migration UUID -> UUID of its instance, for those of these UUIDs that are migrations.
        One that names no instance stands for itself."""
        return {row.uuid: row.instance_uuid or row.uuid for row in self._among(MOVING, uuids)}

    def _rows(self, statement, **values):
        with transaction(self.engine) as connection:
            return connection.execute(statement, values).all()

    def _among(self, statement, keys, **values):
        with transaction(self.engine) as connection:
            return _among(connection, statement, keys, **values)


def _among(connection, statement, keys, **values):
    """The rows of these keys, a part of the keys at a time."""
    ordered = list(keys)
    return [
        row
        for begin in range(0, len(ordered), CHUNK)
        for row in connection.execute(
            statement, {'keys': ordered[begin : begin + CHUNK], **values}
        )
    ]


def is_tracked(vm_state, task_state):
    """Whether nova-compute has evidently written the use of an instance in these states, which is
    on its host, into the row of the compute node.

    To build an instance, or to unshelve it, it sets the host just before that.
    """
    if vm_state == 'building':
        return task_state in ('networking', 'block_device_mapping', 'spawning')
    return vm_state not in (None, OFFLOADED)


def _service(row):
    return ServiceRow(
        row.host, bool(row.disabled), row.disabled_reason, bool(row.forced_down), _s(row.seen)
    )


def _stamps(rows):
    return {row.uuid: (row.host, _s(row.written)) for row in rows}


def _node(row, instances, tracked):
    facts = {column.name: row._mapping[column.name] for column in FACTS}
    return NodeRow(
        **facts,
        updated_s=_s(row.written),
        has_service=bool(row.has_service),
        instances=instances,
        tracked=frozenset(tracked),
    )


def _moment(seconds):
    """A time in UTC without a zone, of seconds since the epoch."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)


def _s(moment):
    """Seconds since the epoch of a time in UTC without a zone; 0 for none, as which a driver may
    return the zero date of MySQL as text."""
    if not isinstance(moment, datetime.datetime):
        return 0.0
    return moment.replace(tzinfo=datetime.UTC).timestamp()
