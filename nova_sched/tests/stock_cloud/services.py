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
"""The services of a stock cloud: what is started, in which order, and when the cloud is ready."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from nova_sched.tests.fixtures.process import LOOPBACK, free_port
from nova_sched.tests.stock_cloud import schedulers, stubs, tap
from nova_sched.tests.stock_cloud.cloud import Cloud
from nova_sched.tests.stock_cloud.databases import Databases
from nova_sched.tests.stock_cloud.programs import Programs, installed
from nova_sched.tests.stock_cloud.settings import Layout, Settings

# Each has 10 vCPUs, 8 GiB and 1,028 GB; some have a child provider with an inventory of MAGIC.
PLAIN, NESTED = ('cmp1', 'cmp2', 'cmp3'), ('cmp4', 'cmp5')
HOSTS = (*PLAIN, *NESTED)
MAGIC = 'CUSTOM_MAGIC'
# Two much larger hosts, which are disabled until a test needs them: on one the first build of each
# server fails; the other one is the only one whose nova-compute can start again, because only its
# driver keeps the UUID of the node.
FLAKY, LASTING = 'flaky', 'lasting'
DRIVERS = {
    **dict.fromkeys(PLAIN, 'fake.MediumFakeDriver'),
    **dict.fromkeys(NESTED, 'fake.MediumFakeDriverWithNestedCustomResources'),
    FLAKY: 'fake.FakeRescheduleDriver',
    LASTING: 'fake.FakeDriverWithoutFakeNodes',
}
PLACEMENT, NOVA = 'placement.wsgi.api:application', 'nova.wsgi.osapi_compute:application'


@contextlib.contextmanager
def running(
    layout: Layout,
    home: Path,
    broker,
    database,
    *,
    kind: str = schedulers.REFERENCE,
    python: Path | None = None,
    options: dict | None = None,
) -> Iterator[Cloud]:
    """A ready cloud in ``home`` for as long as the block runs.

    ``broker`` and ``database`` are server fixtures; ``kind``, ``python`` and ``options`` are those
    of schedulers.Scheduler.
    """
    top = broker.fresh()
    transports = {'top': top, 'cell': broker.fresh() if layout.is_split else top}
    placement, api = (f'http://{LOOPBACK}:{free_port()}' for _ in range(2))
    programs = Programs(home)
    with contextlib.ExitStack() as stack:
        identity_url = stack.enter_context(stubs.running(api, placement)).identity_url
        calls = stack.enter_context(tap.running(broker, top))
        databases = Databases(database, layout.has_templates)
        settings = Settings(home, layout, databases, transports, identity_url)
        makes = schedulers.Schedulers(settings, top, python)
        scheduler = makes.make(kind, options=options)
        shadow = schedulers.Shadow(settings.shadow(), python)
        cloud = Cloud(
            layout,
            identity_url,
            transports['cell'],
            programs,
            databases,
            makes,
            scheduler,
            shadow,
            calls,
        )
        stack.callback(programs.kill_all)
        stack.callback(shadow.kill)
        stack.callback(scheduler.kill)

        make_tables(programs, settings)
        if kind == schedulers.OURS:
            databases.let_the_scheduler_read()
        else:
            databases.let_the_scheduler_write()
        databases.let_the_shadow_read()
        manage = [installed('nova-manage'), '--config-file', settings.top('nova-manage')]
        _map_cells(programs, [*manage, 'cell_v2'], databases, transports['cell'])
        serve_placement(programs, home, placement)
        _start_nova(programs, settings, layout, home, api)
        scheduler.start()
        programs.until('all hosts up', lambda: cloud.has_hosts(set(DRIVERS)))
        programs.run([*manage, 'cell_v2', 'discover_hosts', '--by-service'])
        cloud.hosts.disable(FLAKY, LASTING)
        cloud.hosts.keep()
        yield cloud


def make_tables(programs: Programs, settings: Settings) -> None:
    """The four schemas, side by side."""
    placement = settings.placement()
    manage = installed('nova-manage')
    cells = {name: settings.manage(name) for name in ('cell0', 'cell1')}
    programs.run(
        [manage, '--config-file', cells['cell0'], 'api_db', 'sync'],
        *(
            [manage, '--config-file', path, 'db', 'sync', '--local_cell']
            for path in cells.values()
        ),
        [
            installed('placement-manage'),
            *('--config-file', placement / 'placement.conf'),
            *('db', 'sync'),
        ],
    )


def _map_cells(programs: Programs, manage: list, databases: Databases, transport: str) -> None:
    connection = '--database_connection'
    programs.run([*manage, 'map_cell0', connection, databases.mapped_url('cell0')])
    programs.run(
        [
            *(*manage, 'create_cell', '--name', 'cell1'),
            *(connection, databases.mapped_url('cell1')),
            *('--transport-url', transport),
        ]
    )


def _start_nova(
    programs: Programs, settings: Settings, layout: Layout, home: Path, api: str
) -> None:
    files = {'conductor': settings.top('conductor')}
    if layout.is_split:
        files['cell1-conductor'] = settings.cell('cell1-conductor')
    for name, path in files.items():
        programs.start(name, [installed('nova-conductor'), '--config-file', path])
    names = f'api-paste.ini;{settings.top("api").name}'
    _serve(programs, home, 'api', NOVA, api, OS_NOVA_CONFIG_DIR=home, OS_NOVA_CONFIG_FILES=names)
    for host, driver in DRIVERS.items():
        path = settings.compute(host, driver)
        programs.start(host, [installed('nova-compute'), '--config-file', path])


def serve_placement(programs: Programs, home: Path, url: str) -> None:
    """Start Placement at ``url``; its tables are there."""
    folder = home / 'placement'
    _serve(programs, home, 'placement', PLACEMENT, url, OS_PLACEMENT_CONFIG_DIR=folder)


def _serve(
    programs: Programs, home: Path, name: str, application: str, url: str, **env: object
) -> None:
    """Run a WSGI application; it is given no arguments, because nova-api would read them."""
    path = home / f'{name}-http.py'
    options = {
        'wsgi_app': application,
        'bind': url.removeprefix('http://'),
        'worker_class': 'gthread',
        'workers': 2,
        'threads': 8,
        'timeout': 180,
        'keepalive': 75,
        'control_socket_disable': True,
    }
    path.write_text(''.join(f'{key} = {value!r}\n' for key, value in options.items()))
    words = {key: str(value) for key, value in env.items()}
    programs.start(name, [installed('gunicorn')], {'GUNICORN_CMD_ARGS': f'-c {path}', **words})
