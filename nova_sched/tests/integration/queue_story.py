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
"""The tale of three flavors and a PCI device: which queues does each node hold after each create
and delete?

    python -m nova_sched.tests.integration.queue_story

RabbitMQ is private, and is asked itself who consumes from what; scheduler, manager, router and the
workers of three nodes are in this process. What a node is to hold follows from its size and its
servers by arithmetic alone, see ``HostUsage``. Ends with an AssertionError where RabbitMQ says
something else.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import sys
import threading
import time
import uuid

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

from nova_sched import errors, rpc, service
from nova_sched.conf import CONF
from nova_sched.db import engine
from nova_sched.db.jobs import SqlJobTable
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.brokers import of_flavor, of_host
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.rpc.client import QueuesClient
from nova_sched.tests.fixtures import rabbitmq
from nova_sched.tests.integration import stage
from nova_sched.tests.integration.queue_workers import ALIAS, Place, Workers
from nova_sched.tests.options import settings

FALLBACK_AFTER_S, TIMEOUT_S = 6, 60.0
ROWS = (
    {'name': 'tiny', 'vcpus': 1, 'memory_mb': 1024, 'root_gb': 5},
    {'name': 'medium', 'vcpus': 2, 'memory_mb': 4096, 'root_gb': 100},
    {'name': 'large', 'vcpus': 8, 'memory_mb': 16384, 'root_gb': 200},
)
GPU = '+pci:gpu'
QUEUES = [row['name'] + special for row in ROWS for special in ('', GPU)]
# The first has the device and room for all; the second has none, the third is small.
PLACES = (
    Place('with-gpu', memory_mb=24576, disk_gb=300, gpus=1, ratio=1.25),
    Place('without', memory_mb=16384, disk_gb=200),
    Place('small', memory_mb=2048, disk_gb=20),
)
OPTIONS = {
    'filter_scheduler.enabled_filters': stage.FILTERS.split(','),
    'claims.store': 'sql',
    'claims.refresh_interval': 0.2,
    'pci.alias': [json.dumps(ALIAS)],
    'queues.enabled': True,
    'queues.specials': ['pci:gpu'],
    'queues.fallback_after': FALLBACK_AFTER_S,
    'queues.reply_timeout': 120,
    'quota.limits': {'servers': 20},
}
START_CPUS = 8


@dataclasses.dataclass
class HostUsage:
    """What is on a node, and what follows from that."""

    place: Place
    servers: dict = dataclasses.field(default_factory=dict)  # name: queue

    def free(self):
        """CPUs, MiB, GiB, devices."""
        left = [
            int(START_CPUS * self.place.ratio),
            self.place.memory_mb,
            self.place.disk_gb,
            self.place.gpus,
        ]
        for queue in self.servers.values():
            left = [have - takes for have, takes in zip(left, size(queue), strict=True)]
        return left

    def queues(self):
        """The queues whose servers it has room for."""
        free = self.free()
        return {queue for queue in QUEUES if all(map(int.__ge__, free, size(queue)))}


def size(queue):
    """What a server of a queue takes, as HostUsage.free counts it."""
    (row,) = (row for row in ROWS if row['name'] == queue.removesuffix(GPU))
    return row['vcpus'], row['memory_mb'], row['root_gb'], int(queue.endswith(GPU))


class Tale:
    """The cloud in which it happens, and what is told of it."""

    def __init__(self, broker, home, say):
        self._rabbit, self._say, self._end = broker, say, contextlib.ExitStack()
        self._url = broker.fresh()
        self._home = home
        self._usages = {place.host: HostUsage(place) for place in PLACES}
        self._uuids = {}
        self._over = threading.Event()

    def begin(self):
        options = {
            **OPTIONS,
            'queues.transport_url': self._url,
            'database.connection': f'sqlite:///{self._home}/story.sqlite',
        }
        self._end.enter_context(settings(options))
        bus = rpc.transport(CONF, self._url)
        self._end.callback(bus.cleanup)
        self._run(service.SchedulerService(CONF, bus))
        self._run(queue_service.QueueService(CONF, bus))
        queues = QueuesClient(bus, 60)
        for row in ROWS:
            queues.flavor_create(row)
        self._catalogue = Catalogue.from_plain(queues.catalogue())
        self._router = self._end.enter_context(queue_service.Routing(CONF, bus))
        self._broker = queue_service.broker(CONF)
        self._end.callback(self._broker.close)
        made = engine.create(CONF.database.connection)
        self._end.callback(made.dispose)
        self._job_table = SqlJobTable(made)
        workers = Workers(CONF, bus, PLACES, self._home / 'nodes')
        self._end.callback(workers.stop)
        workers.start()
        reports = threading.Thread(target=self._report, args=(workers,))
        self._end.callback(reports.join)
        self._end.callback(self._over.set)
        reports.start()
        return self

    def _run(self, one):
        one.start()
        self._end.callback(one.stop)

    def _report(self, workers):
        while not self._over.wait(0.5):
            workers.report()

    def close(self):
        self._end.close()

    # What RabbitMQ knows.

    def held(self):
        """node -> queues that it consumes from, its own one among them, as RabbitMQ lists its
        consumers."""
        host = self._url.rpartition('/')[2]
        connections = self._rabbit.ask('GET', f'vhosts/{host}/connections')
        names = {one['name']: one.get('user_provided_name', '') for one in connections}
        found = {place.host: set() for place in PLACES}
        for consumer in self._rabbit.ask('GET', f'consumers/{host}'):
            details = (
                consumer['channel_details'] or {}
            )  # an empty list, while the channel comes or goes
            name = names.get(details.get('connection_name'), '').rpartition(' ')[2]
            if name in found:
                found[name].add(consumer['queue']['name'].removeprefix('nova_sched.'))
        return found

    def waiting(self, queue):
        """Messages that wait in the queue of a flavor."""
        return self._broker.facts(of_flavor(queue)).ready

    def check(self, what):
        """Tell who holds what, once that follows from ``HostUsage``. Raises AssertionError."""
        wanted = {
            host: {of_host(host), *map(of_flavor, usage.queues())}
            for host, usage in self._usages.items()
        }
        until_s = time.monotonic() + TIMEOUT_S
        while (found := self.held()) != wanted and time.monotonic() < until_s:
            time.sleep(0.1)
        self._say(what)
        for host, usage in self._usages.items():
            flavors = [queue for queue in QUEUES if of_flavor(queue) in found[host]]
            free = dict(zip(('CPUs', 'MiB', 'GiB', 'GPUs'), usage.free(), strict=True))
            left = ', '.join(f'{count} {name}' for name, count in free.items())
            self._say(f'    {host:9} {" ".join(flavors) or "none":50} (own queue; free: {left})')
        assert found == wanted, (what, found, wanted)

    # What happens.

    def create(self, name, queue):
        """A new server; ``HostUsage`` knows then where it is."""
        self._uuids[name] = str(uuid.uuid4())
        spec = self._catalogue.spec(
            self._catalogue.find(queue), self._uuids[name], 'project', 'user'
        )
        ((chosen, *_),) = self._router.place(spec, [self._uuids[name]])
        self._usages[chosen.service_host].servers[name] = queue
        self.check(f'create {name}, a {queue}: {chosen.service_host} has taken it')

    def refused(self, name, queue, words):
        """A server for which there is no room waits for a worker, then the scheduler says why
        not."""
        with concurrent.futures.ThreadPoolExecutor() as caller:
            asked = caller.submit(self.create, name, queue)
            until_s = time.monotonic() + TIMEOUT_S
            while (
                not (waits := self.waiting(queue))
                and not asked.done()
                and time.monotonic() < until_s
            ):
                time.sleep(0.1)
            self._say(f'create {name}, a {queue}: {waits} message waits in {of_flavor(queue)}')
            assert waits == 1
            refusal = asked.exception()
        assert isinstance(refusal, errors.NoValidHost), refusal
        self._say(f'    {refusal.reason}')
        begin = f'no node has taken it from its queue within {FALLBACK_AFTER_S} s; '
        assert refusal.reason.startswith(begin), refusal.reason
        assert words in refusal.reason, refusal.reason
        self.check(f'create {name} was refused: all is as it was')

    def delete(self, name):
        (host,) = (host for host, usage in self._usages.items() if name in usage.servers)
        self._router.delete(self._uuids[name])
        queue = self._usages[host].servers.pop(name)
        self.check(f'delete {name}, the {queue} on {host}: its room is there again')

    def servers(self):
        return [name for usage in self._usages.values() for name in usage.servers]

    def used(self):
        """The project's quota that is taken."""
        return self._job_table.usage('project')


def run(broker, home, say=print):
    """Tell the tale on this broker, with files in this folder."""
    tale = Tale(broker, home, say)
    with contextlib.closing(tale):
        tale.begin()
        tale.check('The cloud is empty:')
        tale.create('first', f'tiny{GPU}')
        tale.refused('second', f'tiny{GPU}', 'PciPassthroughFilter')
        tale.create('third', 'large')
        tale.create('fourth', 'large')
        for name in ('fifth', 'sixth', 'seventh'):
            tale.create(name, 'tiny')
        tale.refused('eighth', 'tiny', 'ResourceCapacity')
        say(f'quota in use: {tale.used()}')
        assert tale.used()['servers'] == len(tale.servers())
        for name in tale.servers():
            tale.delete(name)
        say(f'quota in use: {tale.used()}')
        assert tale.used() == {}


def main():
    stage.prepare()
    try:
        with stage.folder(None) as home, rabbitmq.server() as broker:
            run(broker, home)
    except KeyboardInterrupt:
        sys.exit('ended: interrupted')


if __name__ == '__main__':
    main()
