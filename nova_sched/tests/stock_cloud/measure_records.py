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
"""Measure schedulers over the records of a large cloud, and print one table: ``python -m
nova_sched.tests.stock_cloud.measure_records``.

One scheduler after the other gets the same calls, over the same databases and the same Placement.
"""

import argparse
import contextlib
import copy
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import oslo_messaging as messaging
import psutil
import sqlalchemy as sa
from oslo_config import cfg

from nova_sched.tests.bench import echo
from nova_sched.tests.fixtures import mariadb, rabbitmq
from nova_sched.tests.fixtures.interpreter import interpreter
from nova_sched.tests.stock_cloud import records, schedulers, tap
from nova_sched.tests.stock_cloud.measure import METHOD, p50_ms

TIMEOUT_S = 300.0
WARM_UP = 3
SEEN_S, PAUSE_S = 120.0, 0.05  # how long, and how often, a change is looked for
CHANGES = 3  # of each kind
KEY = "'availability_zone', :name"  # of an aggregate's metadata, with its value
REQUEST = json.loads(Path(echo.__file__).with_name('request.json').read_text())


class Conductor:
    """Calls a scheduler as a conductor does, and asks ours what it would decide."""

    def __init__(self, transport_url: str):
        cfg.CONF([], default_config_files=[])
        self._bus = messaging.get_rpc_transport(cfg.CONF, url=transport_url)
        self._calls, self._questions, self._casts = (
            messaging.get_rpc_client(
                self._bus,
                messaging.Target(exchange='nova', topic='scheduler', **words),
                timeout=TIMEOUT_S,
            )
            for words in (
                {'version': '4.5'},
                {'version': '1.0', 'namespace': 'explain'},
                {'version': '4.1', 'fanout': True},
            )
        )

    def select(self) -> None:
        """Have a host selected for a new server."""
        arguments = {**REQUEST['args'], 'instance_uuids': [str(uuid.uuid4())]}
        self._calls.call(self._context(), METHOD, **arguments)

    def would_place(self, host: str, zone: str | None = None, **extra_specs: str) -> bool:
        """Whether a server could get this host now."""
        spec = copy.deepcopy(REQUEST['args']['spec_obj'])
        facts = spec['nova_object.data']
        place = {'host': host, 'node': None, 'cell': None, 'aggregates': None}
        destination = {
            'nova_object.name': 'Destination',
            'nova_object.namespace': 'nova',
            'nova_object.version': '1.4',
            'nova_object.data': {**place, 'allow_cross_cell_move': False},
        }
        facts |= {'requested_destination': destination, 'availability_zone': zone}
        facts['flavor']['nova_object.data']['extra_specs'] = extra_specs
        found = self._questions.call(self._context(), 'dry_run', spec_obj=spec)
        return found['outcome'] == 'placed'

    def tell_of_aggregates(self) -> None:
        self._casts.cast(self._context(), 'update_aggregates', aggregates=[])

    def close(self) -> None:
        self._bus.cleanup()

    def _context(self) -> dict:
        now = datetime.now(UTC).replace(tzinfo=None).isoformat()
        return {**REQUEST['context'], 'timestamp': now, 'request_id': f'req-{uuid.uuid4()}'}


def cpu_s(word: str) -> float:
    """CPU time of the processes below this one that have the word in their command lines, with
    their children."""
    found = set()
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if word in ' '.join(one.cmdline()):
                found |= {one, *one.children(recursive=True)}
    return sum(sum(one.cpu_times()[:2]) for one in found)


def at_rest(configuration: Path, rest_s: float) -> float:
    """Percent of a core that a scheduler without calls takes."""
    before, begin_s = cpu_s(str(configuration)), time.monotonic()
    time.sleep(rest_s)
    spent = cpu_s(str(configuration)) - before
    return round(100 * spent / (time.monotonic() - begin_s), 2)


def decisions(conductor: Conductor, calls: tap.Tap, count: int) -> float:
    for _ in range(WARM_UP):
        conductor.select()
    begin = len(calls.of(METHOD))
    for _ in range(count):
        conductor.select()
    return round(p50_ms(calls.of(METHOD)[begin:]), 1)


# Changes, and how soon they are seen.


def seen_s(is_seen: Callable[[], bool]) -> float:
    begin_s = time.monotonic()
    while not is_seen():
        if time.monotonic() > begin_s + SEEN_S:
            return float('inf')
        time.sleep(PAUSE_S)
    return time.monotonic() - begin_s


def disabled(cloud: records.Records, conductor: Conductor, host: str) -> float:
    cloud.change(
        cloud.cell_of(host), 'UPDATE services SET disabled = 1 WHERE host = :host', host=host
    )
    return seen_s(lambda: not conductor.would_place(host))


def rewritten(cloud: records.Records, conductor: Conductor, host: str) -> float:
    """A compute node with another version of its hypervisor."""
    wanted = {'capabilities:hypervisor_version': '2000'}
    assert not conductor.would_place(host, **wanted)
    cloud.change(
        cloud.cell_of(host),
        'UPDATE compute_nodes SET hypervisor_version = 2000, updated_at = UTC_TIMESTAMP() '
        'WHERE host = :host',
        host=host,
    )
    return seen_s(lambda: conductor.would_place(host, **wanted))


def grouped(cloud: records.Records, conductor: Conductor, host: str) -> float:
    """A new aggregate, and the cast of nova-api."""
    zone, engine = f'zone-{host}', sa.create_engine(cloud.api_url)
    words = {'uuid': str(uuid.uuid4()), 'name': zone, 'host': host}
    made = 'SELECT id, {} FROM aggregates WHERE name = :name'
    for statement in (
        'aggregates (uuid, name) VALUES (:uuid, :name)',
        f'aggregate_hosts (aggregate_id, host) {made.format(":host")}',
        f'aggregate_metadata (aggregate_id, `key`, value) {made.format(KEY)}',
    ):
        cloud.change(engine, f'INSERT INTO {statement}', **words)
    engine.dispose()
    conductor.tell_of_aggregates()
    return seen_s(lambda: conductor.would_place(host, zone))


def changes(cloud: records.Records, conductor: Conductor) -> dict[str, float]:
    """The longest of some waits for each kind of change."""
    found = {}
    for place, change in enumerate((disabled, rewritten, grouped)):
        hosts = cloud.hosts[place * CHANGES : (place + 1) * CHANGES]
        waits = [change(cloud, conductor, host) for host in hosts]
        found[f'seen: {change.__name__}, s'] = round(max(waits), 2)
    return found


def figures(
    cloud: records.Records, calls: tap.Tap, kind: str, python: Path | None, asked
) -> dict[str, object]:
    scheduler = cloud.scheduler(kind, python)
    begin_s, placement_s = time.monotonic(), cpu_s('gunicorn')
    scheduler.start()
    found = {
        'start, s': round(time.monotonic() - begin_s, 1),
        'its CPU for the start, s': round(cpu_s(str(cloud.configuration)), 1),
        "Placement's CPU for the start, s": round(cpu_s('gunicorn') - placement_s, 1),
    }
    conductor = Conductor(cloud.transport_url)
    try:
        found['p50 one at a time, ms'] = decisions(conductor, calls, asked.calls)
        found['at rest, % of a core'] = at_rest(cloud.configuration, asked.rest)
        if kind == schedulers.OURS:
            found |= changes(cloud, conductor)
    finally:
        conductor.close()
        scheduler.stop()
    return found


@contextlib.contextmanager
def running(asked) -> Iterator[tuple[records.Records, tap.Tap]]:
    with (
        rabbitmq.server() as broker,
        mariadb.server() as database,
        tempfile.TemporaryDirectory() as home,
        records.running(Path(home), broker, database, asked.hosts, asked.cells) as made,
    ):
        yield made


def print_row(name: str, values: Iterable[object]) -> None:
    print(f'{name:40}', *(f'{value!s:>12}' for value in values))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, default=10_000)
    parser.add_argument('--cells', type=int, default=20)
    parser.add_argument(
        '--scheduler', choices=schedulers.KINDS, nargs='+', default=schedulers.KINDS
    )
    parser.add_argument('--calls', type=int, default=20, help='that are measured')
    parser.add_argument('--rest', type=float, default=125.0, help='seconds without calls')
    asked = parser.parse_args()
    python = interpreter() if schedulers.OURS in asked.scheduler else None
    rows = {}
    with running(asked) as (cloud, calls):
        for kind in asked.scheduler:
            rows[kind] = figures(cloud, calls, kind, python, asked)
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    print_row(f'{asked.hosts:,} hosts in {asked.cells} cells', rows)
    for name in names:
        print_row(name, [row.get(name, '') for row in rows.values()])
    print(f'load {os.getloadavg()[0]:.1f}; compare figures of one run only')


if __name__ == '__main__':
    sys.exit(main())
