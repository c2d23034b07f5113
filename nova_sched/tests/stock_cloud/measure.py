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
"""Measure schedulers in a stock cloud, and print one table: ``python -m
nova_sched.tests.stock_cloud.measure``.

Each scheduler gets a cloud of its own, one after the other. The times are those between the
broker's passing on a call of select_destinations and its passing on the answer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import oslo_messaging as messaging
from oslo_config import cfg

from nova_sched.tests.bench import echo
from nova_sched.tests.fixtures import mariadb, postgresql, rabbitmq
from nova_sched.tests.fixtures.interpreter import interpreter
from nova_sched.tests.stock_cloud import schedulers, services, tap
from nova_sched.tests.stock_cloud.cloud import Cloud
from nova_sched.tests.stock_cloud.servers import Flavor
from nova_sched.tests.stock_cloud.settings import LAYOUTS

DATABASES = {'mariadb': mariadb.server, 'postgresql': postgresql.server}
METHOD = 'select_destinations'
WARM_UP = 3  # boots before those that count
PAUSE_S = 0.5  # between two looks at a server: looks cost nova-api as much as boots


def p50_ms(calls: list[tap.Call]) -> float:
    return statistics.median(call.duration_s for call in calls) * 1e3


def one_at_a_time(cloud: Cloud, flavor: Flavor, boots: int) -> dict[str, object]:
    for _ in range(WARM_UP):
        cloud.servers.boot(flavor)
    begin = len(cloud.tap.of(METHOD))
    for _ in range(boots):
        cloud.servers.boot(flavor)
    return {'p50 one at a time, ms': round(p50_ms(cloud.tap.of(METHOD)[begin:]), 1)}


def in_a_crowd(cloud: Cloud, flavor: Flavor, boots: int, at_once: int) -> dict[str, object]:
    begin, begin_s = len(cloud.tap.of(METHOD)), time.monotonic()

    def boot(_):
        return cloud.servers.built(cloud.servers.ask(flavor), pause_s=PAUSE_S)[0]

    with ThreadPoolExecutor(at_once + 1) as pool:
        booting = [pool.submit(boot, number) for number in range(boots)]
        puts = pool.submit(puts_beside, cloud, flavor, lambda: all(one.done() for one in booting))
        booted = [one.result() for one in booting]
        took_s = time.monotonic() - begin_s
        beside_ms = puts.result()
    hosts = Counter(server.host for server in booted if server.host)
    return {
        f'p50 {at_once} at a time, ms': round(p50_ms(cloud.tap.of(METHOD)[begin:]), 1),
        'servers a second': round(len(booted) / took_s, 2),
        'on each host': sorted(hosts.values(), reverse=True),
        'not booted': boots - hosts.total(),
        'PUT beside the crowd, ms': round(beside_ms, 1),
    }


def bare_put_ms(cloud: Cloud, flavor: Flavor, times: int) -> float:
    """Median of writing one allocation."""
    provider = cloud.placement.uuid(services.HOSTS[0])
    return statistics.median(put_s(cloud, flavor, provider) for _ in range(times)) * 1e3


def puts_beside(cloud: Cloud, flavor: Flavor, is_over: Callable[[], bool]) -> float:
    """Median of writing one allocation, ms, now and then until other work is over: what no
    scheduler that writes allocations can be faster than."""
    provider, samples = cloud.placement.uuid(services.HOSTS[-1]), []
    while not (samples and is_over()):
        samples.append(put_s(cloud, flavor, provider))
        time.sleep(PAUSE_S)
    return statistics.median(samples) * 1e3


def put_s(cloud: Cloud, flavor: Flavor, provider: str) -> float:
    """Seconds of writing one allocation, which is removed then."""
    consumer, begin_s = str(uuid.uuid4()), time.perf_counter()
    cloud.placement.allocate(consumer, provider, flavor.resources)
    took_s = time.perf_counter() - begin_s
    cloud.placement.release(consumer)
    return took_s


def echo_ms(broker: rabbitmq.RabbitMQ, times: int) -> float:
    """Median of a call that is answered without any work, as the broker passes it on."""
    url = broker.fresh()
    request = json.loads(Path(echo.__file__).with_name('request.json').read_text())
    command = [sys.executable, '-W', 'ignore', '-m', echo.__name__, url, 'nova', 'scheduler']
    with (
        tap.running(broker, url) as calls,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server,
    ):
        server.stdout.readline()
        cfg.CONF([], default_config_files=[])
        bus = messaging.get_rpc_transport(cfg.CONF, url=url)
        target = messaging.Target(exchange='nova', topic='scheduler', version='4.5')
        client = messaging.get_rpc_client(bus, target)
        for _ in range(WARM_UP + times):
            client.call(request['context'], METHOD, **request['args'])
        bus.cleanup()
        server.stdin.close()
    return p50_ms(calls.of(METHOD)[WARM_UP:])


def figures(cloud: Cloud, broker: rabbitmq.RabbitMQ, boots: int, at_once: int) -> dict:
    # A hundred of them fit wherever they go.
    flavor = cloud.servers.flavor(ram_mb=64)
    found = one_at_a_time(cloud, flavor, 20)
    put_ms = bare_put_ms(cloud, flavor, 50)
    found['PUT + echo, ms'] = round(put_ms + echo_ms(broker, 100), 1)
    cloud.clear()
    flavor = cloud.servers.flavor(ram_mb=64)
    found |= in_a_crowd(cloud, flavor, boots, at_once)
    cloud.clear()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--layout', choices=list(LAYOUTS), default='mariadb-single')
    parser.add_argument(
        '--scheduler', choices=schedulers.KINDS, nargs='+', default=schedulers.KINDS
    )
    parser.add_argument('--boots', type=int, default=100, help='in the crowd')
    parser.add_argument('--at-once', type=int, default=8, help='boots under way in the crowd')
    asked = parser.parse_args()
    python = interpreter() if schedulers.OURS in asked.scheduler else None
    layout, rows = LAYOUTS[asked.layout], {}
    for kind in asked.scheduler:
        with (
            rabbitmq.server() as broker,
            DATABASES[layout.database]() as database,
            tempfile.TemporaryDirectory() as home,
            services.running(
                layout, Path(home), broker, database, kind=kind, python=python
            ) as cloud,
        ):
            rows[kind] = figures(cloud, broker, asked.boots, asked.at_once)
    width = max(len(name) for row in rows.values() for name in row)
    print(f'{asked.layout:{width}}  {"  ".join(f"{kind:>22}" for kind in rows)}')
    for name in next(iter(rows.values())):
        values = (f'{row[name]!s:>22}' for row in rows.values())
        print(f'{name:{width}}  {"  ".join(values)}')
    print(f'load {os.getloadavg()[0]:.1f}; compare figures of one run only')


if __name__ == '__main__':
    main()
