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
"""Tables of Nova's databases, as far as a scheduler reads them, with rows for tests."""

import datetime

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from nova_sched.db import nova_api, nova_cell
from nova_sched.tests.builders import uuid_of

MYSQLS = 'mysql', 'mariadb'
LONG = sa.Text().with_variant(mysql.MEDIUMTEXT(), *MYSQLS)
TYPES = {
    **dict.fromkeys(nova_cell.MOMENTS, sa.DateTime()),
    **dict.fromkeys(nova_cell.FLAGS, sa.Boolean()),
    **dict.fromkeys(
        'id mapped deleted cell_id compute_node_id aggregate_id version hypervisor_version '
        'free_disk_gb disk_available_least running_vms current_workload vcpus memory_mb root_gb '
        'ephemeral_gb swap flavor_id group_id'.split(),
        sa.Integer(),
    ),
    **dict.fromkeys(['cpu_info', 'hypervisor_type', 'spec'], LONG),
    **dict.fromkeys(
        'stats metrics numa_topology pci_stats supported_instances transport_url '
        'database_connection'.split(),
        sa.Text(),
    ),
    'host_ip': sa.String(39).with_variant(postgresql.INET(), 'postgresql'),
}
KEYS = {
    'services': ['host', 'binary', 'deleted'],
    'compute_nodes': ['uuid'],
    'instances': ['uuid'],
    'migrations': ['uuid'],
    'cell_mappings': ['uuid'],
    'host_mappings': ['host'],
    'build_requests': ['instance_uuid'],
    'request_specs': ['instance_uuid'],
    'instance_groups': ['uuid'],
}
OF_CELL, OF_API = sa.MetaData(), sa.MetaData()


# The table of services as it is written, for the record of a scheduler.
OF_RECORDS = sa.MetaData()
SERVICE_RECORDS = sa.Table(
    'services',
    OF_RECORDS,
    sa.Column('id', sa.Integer, primary_key=True),
    *(sa.Column(name, sa.String(255)) for name in ('uuid', 'host', 'binary', 'topic')),
    *(sa.Column(name, sa.Integer, nullable=False) for name in ('report_count', 'version')),
    sa.Column('deleted', sa.Integer),
    *(sa.Column(name, sa.Boolean) for name in ('disabled', 'forced_down')),
    *(sa.Column(name, sa.DateTime) for name in ('created_at', 'updated_at', 'last_seen_up')),
    sa.UniqueConstraint('host', 'binary', 'deleted'),
)


MORE = {'compute_nodes': ['mapped'], 'host_mappings': ['created_at']}  # columns that are written


def _real(metadata, light):
    """The table of light columns that a statement reads, as it may be created."""
    names = [*(one.name for one in light.c), *MORE.get(light.name, ())]
    columns = [sa.Column(name, TYPES.get(name, sa.String(255))) for name in names]
    unique = [sa.UniqueConstraint(*KEYS[light.name])] if light.name in KEYS else []
    return sa.Table(light.name, metadata, *columns, *unique)


SERVICES, NODES, INSTANCES, MIGRATIONS, DEVICES = (
    _real(OF_CELL, light)
    for light in (
        nova_cell.SERVICES,
        nova_cell.NODES,
        nova_cell.INSTANCES,
        nova_cell.MIGRATIONS,
        nova_cell.DEVICES,
    )
)
sa.Index('instances_host_deleted_cleaned_idx', INSTANCES.c.host, INSTANCES.c.deleted)
(
    CELLS,
    HOSTS,
    AGGREGATES,
    AGGREGATE_HOSTS,
    AGGREGATE_METADATA,
    FLAVORS,
    FLAVOR_EXTRA_SPECS,
    BUILD_REQUESTS,
    REQUEST_SPECS,
    GROUPS,
    GROUP_MEMBERS,
    GROUP_POLICIES,
) = (
    _real(OF_API, light)
    for light in (
        nova_api.CELLS,
        nova_api.HOSTS,
        nova_api.AGGREGATES,
        nova_api.AGGREGATE_HOSTS,
        nova_api.AGGREGATE_METADATA,
        nova_api.FLAVORS,
        nova_api.FLAVOR_EXTRA_SPECS,
        nova_api.BUILD_REQUESTS,
        nova_api.REQUEST_SPECS,
        nova_api.GROUPS,
        nova_api.GROUP_MEMBERS,
        nova_api.GROUP_POLICIES,
    )
)


def ago(seconds):
    """A time as Nova writes it; None: NULL."""
    if seconds is None:
        return None
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    return now - datetime.timedelta(seconds=seconds)


def seconds(moment):
    """Seconds since the epoch of a time as Nova writes it."""
    return moment.replace(tzinfo=datetime.UTC).timestamp()


def service(host='cmp1', seen_s=1.0, created_s=1000.0, **fields):
    """A row of a compute service; ``seen_s`` and ``created_s`` are seconds ago."""
    facts = {
        'binary': 'nova-compute',
        'disabled': False,
        'disabled_reason': None,
        'forced_down': False,
        'version': 74,
        'deleted': 0,
    }
    moments = {'last_seen_up': ago(seen_s), 'created_at': ago(created_s)}
    return {'host': host, **facts, **moments, **fields}


def node(host='cmp1', written_s=1.0, created_s=1000.0, **fields):
    """A row of a compute node, as Nova's fake driver has it."""
    facts = {
        'uuid': uuid_of(f'node {host}'),
        'hypervisor_hostname': host,
        'hypervisor_type': 'fake',
        'hypervisor_version': 1000,
        'host_ip': '192.0.2.7',
        'cpu_info': '{"arch": "x86_64"}',
        'free_disk_gb': 1000,
        'disk_available_least': 990,
        'running_vms': 2,
        'current_workload': 1,
        'stats': '{"num_instances": 2, "io_workload": "1", "failed_builds": "0"}',
        'metrics': '[]',
        'numa_topology': None,
        'pci_stats': None,
        'supported_instances': '[["x86_64", "fake", "hvm"]]',
        'deleted': 0,
    }
    moments = {'updated_at': ago(written_s), 'created_at': ago(created_s)}
    return {'host': host, **facts, **moments, **fields}


def instance(name='server', host='cmp1', **fields):
    facts = {'node': host, 'vm_state': 'active', 'task_state': None, 'deleted': 0}
    return {'uuid': uuid_of(name), 'host': host, **facts, **fields}


def fill(engine, table, *rows):
    """Insert rows into a table of Nova's."""
    with engine.begin() as connection:
        connection.execute(sa.insert(table), list(rows))


def emptied(engine, metadata):
    """The same database with these tables, and without rows."""
    metadata.create_all(engine)
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            connection.execute(sa.delete(table))
    return engine


def mapping(number=1, url='mysql+pymysql://nova:secret@db/nova', disabled=False):
    """Return the row of a cell."""
    return {
        'id': number,
        'uuid': uuid_of(f'cell {number}'),
        'name': f'cell{number}',
        'transport_url': 'rabbit://nova:secret@mq//',
        'database_connection': url,
        'disabled': disabled,
    }
