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
"""What a look at a cell of Nova costs: the statements of db.nova_cell on a cell of 10,000 hosts,
and reports from its rows."""

import contextlib

from nova_sched.cloud import node_report
from nova_sched.cloud.placement import NodeProviders
from nova_sched.db import engine as db_engine
from nova_sched.db.nova_cell import NovaCell
from nova_sched.state.report import ReportOrder
from nova_sched.tests.bench.timing import by_turns, row
from nova_sched.tests.builders import CELL, uuid_of
from nova_sched.tests.fixtures import mariadb, postgresql
from nova_sched.tests.unit.db import nova_tables as tables

HOSTS, SERVERS, CHANGED = 10_000, 5, 20  # hosts, servers of each, hosts that have changed
SERVERS_OF = {'MariaDB': mariadb.server, 'PostgreSQL': postgresql.server}
KIND = {name: {'total': 1024} for name in ('VCPU', 'MEMORY_MB', 'DISK_GB')}


def rows(budget_s=2.0):
    for name, server in SERVERS_OF.items():
        with server() as running, _filled(running.fresh()) as cell:
            yield from _rows(name, cell, budget_s)


@contextlib.contextmanager
def _filled(url):
    """A NovaCell on a database with all hosts and their servers."""
    writer = tables.emptied(db_engine.create(url), tables.OF_CELL)
    hosts = [f'cmp{number}' for number in range(HOSTS)]
    tables.fill(writer, tables.SERVICES, *(tables.service(host) for host in hosts))
    tables.fill(
        writer,
        tables.NODES,
        *(
            tables.node(host, 1.0 if place < CHANGED else 999.0)
            for place, host in enumerate(hosts)
        ),
    )
    tables.fill(
        writer,
        tables.INSTANCES,
        *(tables.instance(f'{host} {n}', host) for host in hosts for n in range(SERVERS)),
    )
    writer.dispose()
    cell = NovaCell(db_engine.reader(url))
    yield cell
    cell.close()


def _rows(name, cell, budget_s):
    hosts = [f'cmp{number}' for number in range(CHANGED)]
    uuids = [uuid_of(f'node {host}') for host in hosts]
    nodes, now_s = cell.nodes(uuids), cell.now_s()
    looks = {
        'a look': lambda: cell.poll(60.0, now_s - 100.0),
        'services that are not up': lambda: cell.services_not_up(60.0),
        'services of 3 hosts that are not up': lambda: cell.services_not_up(60.0, hosts[:3]),
        'changed nodes': lambda: cell.nodes_changed_since(now_s - 100.0),
        'times of all nodes': cell.node_stamps,
        f'{CHANGED} nodes': lambda: cell.nodes(uuids),
        f'servers on {CHANGED} hosts': lambda: cell.servers_on(uuids),
        f'{CHANGED} nodes with their servers': lambda: cell.nodes(uuids, uuids),
        f'reports of {CHANGED} nodes': lambda: [_report(node) for node in nodes],
    }
    for what, samples in by_turns(looks, budget_s).items():
        yield row(f'{name}, {HOSTS:,} hosts in a cell: {what}', samples, digits=2)


def _report(node):
    servers = {f'{node.host} {number}': {'VCPU': 1} for number in range(SERVERS)}
    root = {'parent_provider_uuid': None, 'inventories': KIND, 'traits': ['OWNER_NOVA']}
    tree = NodeProviders(node.uuid, {node.uuid: root}, allocations={node.uuid: servers})
    return node_report.report(node, tree, {}, CELL, ReportOrder())
