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
"""A large cloud as records: rows of its hosts and servers in Nova's databases and in Placement.

Placement runs; no other service does, so nothing happens on the hosts.
"""

import contextlib
import datetime
import itertools
import threading
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import requests
import sqlalchemy as sa

from nova_sched.tests.fixtures.mariadb import MariaDB
from nova_sched.tests.fixtures.process import LOOPBACK, free_port
from nova_sched.tests.stock_cloud import schedulers, services, stubs, tap
from nova_sched.tests.stock_cloud.databases import Databases
from nova_sched.tests.stock_cloud.programs import Programs
from nova_sched.tests.stock_cloud.settings import CONTROLLER, LAYOUTS, Settings

SERVERS = 5  # of each host
# Resource class -> total, allocation ratio, used by each server.
RESOURCES = {'VCPU': (64, 4.0, 2), 'MEMORY_MB': (524_288, 1.0, 4096), 'DISK_GB': (8000, 1.0, 20)}
TRAITS = 30  # of each host; a host with libvirt has more than 50
BATCH = 5000  # rows in one statement
ALIVE_S = 15.0  # between two heartbeats of all services
SERVICE_VERSION = 74
CELL0 = str(uuid.UUID(int=0))
# What Nova requires of a compute node, and schedulers do not judge.
NODE = {
    **dict.fromkeys(['vcpus', 'vcpus_used', 'running_vms', 'current_workload'], 0),
    'memory_mb': 524_288,
    'memory_mb_used': 4096,
    'free_ram_mb': 520_192,
    'local_gb': 8000,
    'local_gb_used': 100,
    'free_disk_gb': 7900,
    'disk_available_least': 7900,
    'hypervisor_type': 'fake',
    'hypervisor_version': 1000,
    'mapped': 1,
    'deleted': 0,
    'cpu_info': '{"arch": "x86_64"}',
    'metrics': '[]',
    'host_ip': '192.0.2.7',
    'stats': '{"num_instances": "5", "io_workload": "0", "failed_builds": "0"}',
    'supported_instances': '[["x86_64", "fake", "hvm"]]',
}


def identifier(*words: object) -> str:
    """The UUID of what has this name, such as ``identifier('node', 'cmp1')``."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, ' '.join(map(str, words))))


def now(ago_s: float = 0.0) -> datetime.datetime:
    moment = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    return moment - datetime.timedelta(seconds=ago_s)


class Records:
    """``hosts`` hosts in ``cells`` cells: cmp0 and so on, host by host in the next cell.

    ``scheduler`` returns a Scheduler of a kind, which is not started; one may run at a time.
    """

    def __init__(
        self,
        database: MariaDB,
        databases: Databases,
        settings: Settings,
        transport_url: str,
        hosts: int,
        cells: int,
    ):
        self.hosts = [f'cmp{number}' for number in range(hosts)]
        self.transport_url = transport_url
        self._databases = databases
        urls = [databases.url('cell1')]
        user = sa.make_url(urls[0])
        urls += [
            user.set(database=sa.make_url(database.fresh()).database).render_as_string(False)
            for _ in range(cells - 1)
        ]
        self.cells = [sa.create_engine(url) for url in urls]
        self.configuration, self.api_url = settings.scheduler(CONTROLLER), databases.url('api')
        self._is_over = threading.Event()

    def scheduler(
        self, kind: str, python: Path | None = None, options: dict | None = None
    ) -> schedulers.Scheduler:
        self._databases.let_the_scheduler_write()
        return schedulers.Scheduler(
            kind, self.configuration, self.transport_url, CONTROLLER, python, options
        )

    def cell_of(self, host: str) -> sa.Engine:
        return self.cells[self.hosts.index(host) % len(self.cells)]

    def change(self, engine: sa.Engine, statement: str, **values: object) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text(statement), values)

    # Filling.

    def fill(self) -> None:
        for number, engine in enumerate(self.cells):
            if number:
                self._make_tables(engine)
            self._fill_cell(engine, self.hosts[number :: len(self.cells)])
        self._fill_api(sa.create_engine(self.api_url))
        self._fill_placement(sa.create_engine(self._databases.url('placement')))

    def _make_tables(self, engine: sa.Engine) -> None:
        """Those of the first cell, without rows."""
        name = self.cells[0].url.database
        with self.cells[0].connect() as first, engine.begin() as connection:
            connection.exec_driver_sql('SET SESSION foreign_key_checks = 0')
            for (table,) in first.exec_driver_sql('SHOW TABLES'):
                connection.exec_driver_sql(f'CREATE TABLE `{table}` LIKE {name}.`{table}`')

    def _fill_cell(self, engine: sa.Engine, hosts: list[str]) -> None:
        made = now(1000)
        _insert(
            engine,
            'services',
            (
                {
                    'host': host,
                    'binary': 'nova-compute',
                    'topic': 'compute',
                    'deleted': 0,
                    'disabled': False,
                    'forced_down': False,
                    'version': SERVICE_VERSION,
                    'created_at': made,
                    'last_seen_up': now(),
                    'report_count': 1,
                    'uuid': identifier('service', host),
                }
                for host in hosts
            ),
        )
        _insert(
            engine,
            'compute_nodes',
            (
                {
                    **NODE,
                    'host': host,
                    'hypervisor_hostname': host,
                    'uuid': identifier('node', host),
                    'created_at': made,
                    'updated_at': made,
                }
                for host in hosts
            ),
        )
        _insert(
            engine,
            'instances',
            (
                {
                    'uuid': identifier('server', host, number),
                    'host': host,
                    'node': host,
                    'vm_state': 'active',
                    'deleted': 0,
                    'cleaned': 0,
                    'created_at': made,
                    'project_id': 'project',
                    'user_id': 'user',
                    'display_name': 'server',
                    'memory_mb': 4096,
                    'vcpus': 2,
                    'root_gb': 20,
                    'ephemeral_gb': 0,
                    'hidden': 0,
                }
                for host, number in itertools.product(hosts, range(SERVERS))
            ),
        )

    def _fill_api(self, engine: sa.Engine) -> None:
        urls = [self._databases.url('cell0'), *(_url(one) for one in self.cells)]
        _insert(
            engine,
            'cell_mappings',
            (
                {
                    'id': 1 + number,
                    'uuid': identifier('cell', number) if number else CELL0,
                    'name': f'cell{number}',
                    'transport_url': self.transport_url,
                    'database_connection': url,
                    'disabled': False,
                    'created_at': now(),
                }
                for number, url in enumerate(urls)
            ),
        )
        _insert(
            engine,
            'host_mappings',
            (
                {'host': host, 'cell_id': 2 + number % len(self.cells), 'created_at': now()}
                for number, host in enumerate(self.hosts)
            ),
        )

    def _fill_placement(self, engine: sa.Engine) -> None:
        """Placement is started: it has made its resource classes and traits."""
        classes, traits = (_ids(engine, table) for table in ('resource_classes', 'traits'))
        of_cpus = sorted(name for name in traits if name.startswith('HW_CPU'))
        chosen = [traits[name] for name in ('OWNER_NOVA', *of_cpus[:TRAITS])]
        numbered = list(enumerate(self.hosts, 1))
        servers = [
            (1 + (place - 1) * SERVERS + number, place, identifier('server', host, number))
            for place, host in numbered
            for number in range(SERVERS)
        ]
        for table in ('projects', 'users'):
            _insert(engine, table, [{'id': 1, 'external_id': table}])
        _insert(
            engine,
            'resource_providers',
            (
                {
                    'id': place,
                    'uuid': identifier('node', host),
                    'name': host,
                    'generation': 7,
                    'root_provider_id': place,
                }
                for place, host in numbered
            ),
        )
        _insert(
            engine,
            'inventories',
            (
                {
                    'resource_provider_id': place,
                    'resource_class_id': classes[name],
                    'total': total,
                    'reserved': 0,
                    'allocation_ratio': ratio,
                    'min_unit': 1,
                    'max_unit': total,
                    'step_size': 1,
                }
                for place, _ in numbered
                for name, (total, ratio, _) in RESOURCES.items()
            ),
        )
        _insert(
            engine,
            'resource_provider_traits',
            (
                {'resource_provider_id': place, 'trait_id': trait}
                for place, _ in numbered
                for trait in chosen
            ),
        )
        _insert(
            engine,
            'consumers',
            (
                {'id': one, 'uuid': consumer, 'project_id': 1, 'user_id': 1, 'generation': 1}
                for one, _, consumer in servers
            ),
        )
        _insert(
            engine,
            'allocations',
            (
                {
                    'resource_provider_id': place,
                    'consumer_id': consumer,
                    'resource_class_id': classes[name],
                    'used': used,
                }
                for _, place, consumer in servers
                for name, (_, _, used) in RESOURCES.items()
            ),
        )

    # Heartbeats.

    def live(self) -> None:
        """Send heartbeats for all services, until ``close``."""
        while not self._is_over.wait(ALIVE_S):
            for engine in self.cells:
                self.change(engine, 'UPDATE services SET last_seen_up = UTC_TIMESTAMP()')

    def close(self) -> None:
        self._is_over.set()


def _url(engine: sa.Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def _ids(engine: sa.Engine, table: str) -> dict[str, int]:
    with engine.connect() as connection:
        return {
            name: one for one, name in connection.exec_driver_sql(f'SELECT id, name FROM {table}')
        }


def _insert(engine: sa.Engine, table: str, rows: Iterable[dict]) -> None:
    there = sa.Table(table, sa.MetaData(), autoload_with=engine, resolve_fks=False)
    # Without them, Placement cannot tell when something has changed last.
    times = {name: now(1000) for name in ('created_at', 'updated_at') if name in there.c}
    with engine.begin() as connection:
        left = iter({**times, **row} for row in rows)
        while some := list(itertools.islice(left, BATCH)):
            connection.execute(sa.insert(there), some)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=60).ok
    except requests.ConnectionError:
        return False


@contextlib.contextmanager
def running(
    home: Path, broker, database: MariaDB, hosts: int, cells: int
) -> Iterator[tuple[Records, tap.Tap]]:
    """Filled Records in ``home``, with the Tap of the calls to schedulers, for as long as the
    block runs."""
    layout, transport = LAYOUTS['mariadb-single'], broker.fresh()
    placement = f'http://{LOOPBACK}:{free_port()}'
    programs = Programs(home)
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(stubs.running(placement, placement))
        calls = stack.enter_context(tap.running(broker, transport))
        databases = Databases(database, layout.has_templates)
        settings = Settings(
            home, layout, databases, {'top': transport, 'cell': transport}, served.identity_url
        )
        stack.callback(programs.kill_all)
        services.make_tables(programs, settings)
        services.serve_placement(programs, home, placement)
        programs.until('answers of Placement', lambda: _answers(placement))
        records = Records(database, databases, settings, transport, hosts, cells)
        records.fill()
        thread = threading.Thread(target=records.live, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(records.close)
        yield records, calls
