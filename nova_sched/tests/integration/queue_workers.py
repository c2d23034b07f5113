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
"""The processes of a crowd of queues: workers on simulated nodes, and conductors that come
and go.

A node is a real agent, with its list of instances on the disk, on a machine that it is told of
instead of reading one: to read /sys for hundreds of nodes would take more than all the rest. Its
reporter is real too; one thread by turns does what is due for all of a process. It has no place of
its own on the bus.
"""

import dataclasses
import json
import logging
import multiprocessing
import os
import random
import signal
import threading
import time

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

from nova_sched import conf as options
from nova_sched import rpc
from nova_sched.conf import CONF
from nova_sched.extensions.agent import AgentSettings
from nova_sched.extensions.agent import jobs as agent_queues
from nova_sched.extensions.agent.instances import LocalInstances
from nova_sched.extensions.agent.reporter import Reporter
from nova_sched.extensions.agent.service import Agent
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.node import worker
from nova_sched.extensions.queues.node.inflight import JobThreads
from nova_sched.rpc.agent import ReportClient
from nova_sched.rpc.client import ClaimsClient, QueuesClient
from nova_sched.tests.unit.extensions.agent.builders import GPU, facts

CALL_S, REPORT_S = 60, 10.0
ALIAS = {
    'name': 'gpu',
    'vendor_id': GPU.vendor_id,
    'product_id': GPU.product_id,
    'device_type': 'type-PCI',
}


@dataclasses.dataclass(frozen=True)
class Place:
    """A node to be: eight CPUs, each of which counts ``ratio`` times."""

    host: str
    memory_mb: int
    disk_gb: int
    gpus: int = 0
    ratio: float = 1.0

    def devices(self):
        return [
            dataclasses.replace(GPU, address=f'0000:{0x81 + number:x}:00.0')
            for number in range(self.gpus)
        ]


class GivenAgent(Agent):
    """The agent of a node on a machine that it is told of."""

    def __init__(self, place, home):
        chosen = AgentSettings(
            host=place.host,
            uuid_file=home / 'compute_id',
            instances_path=home,
            host_ip='192.0.2.7',
            cpu_allocation_ratio=place.ratio,
            reserved_host_memory_mb=0,
            device_spec=[{'vendor_id': GPU.vendor_id, 'product_id': GPU.product_id}],
        )
        home.mkdir(parents=True, exist_ok=True)
        super().__init__(chosen, LocalInstances(home / 'instances.json'))
        sizes = {
            'memory_mb': place.memory_mb,
            'disk_gb': place.disk_gb,
            'disk_free_gb': place.disk_gb,
        }
        self._machine = facts(uuid=self._machine.uuid, devices=place.devices(), **sizes)

    def read(self):
        with self._lock:
            return self._facts(
                tuple(one for one in self._instances if not one.hidden or one.uuid in self._built)
            )


class Workers:
    """The workers of one process, each with an agent and a reporter, on one bus and one broker."""

    def __init__(self, conf, bus, places, home):
        self._broker = queue_service.broker(conf)
        self._claims, self._queues = ClaimsClient(bus, CALL_S), QueuesClient(bus, CALL_S)
        self._conf, self.workers, self.reporters = conf, {}, []
        self._settled = threading.Semaphore(0)
        for place in places:
            agent = GivenAgent(place, home / place.host)
            self.reporters.append(Reporter(agent, ReportClient(bus, CALL_S), lambda: REPORT_S))
            self.workers[place.host] = self._worker(
                agent, place.host, self._settles(self.reporters[-1])
            )

    def _settles(self, reporter):
        def settled():
            reporter.listens()
            self._settled.release()

        return settled

    def _worker(self, agent, host, settled):
        around = worker.WorkerDependencies(
            node_api=agent_queues.AgentNodeApi(agent, host),
            claims=self._claims,
            broker=self._broker,
            driver=agent_queues.driver(self._conf, host),
            read_catalogue=agent_queues.HostCatalogue(self._conf, self._queues, host),
            read=queue_service.read,
            settled=settled,
        )
        wanted = self._conf.queues
        chosen = worker.WorkerSettings(
            wanted.slots, wanted.max_redeliveries, wanted.priority_steps, lambda: 30.0
        )
        return worker.Worker(around, chosen, JobThreads(), time.monotonic, random.Random())

    def start(self):
        for one in self.workers.values():
            one.start()
        for _ in self.workers:
            self._settled.acquire()
        self.report()

    def report(self):
        """What is due, for each node; those with news among them."""
        for reporter in self.reporters:
            reporter.step()

    def stop(self):
        for one in self.workers.values():
            one.withdraw()
        for one in self.workers.values():
            one.drain(10.0)
        self._broker.close()


def begin(settings, log):
    """What each process does first: it reads the configuration, and says in a file what it has to
    say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    CONF(['--config-file', str(settings)], project='nova_sched')
    options.register_plug_in_opts(CONF)
    form = '%(asctime)s %(process)d %(levelname)s %(name)s %(message)s'
    logging.basicConfig(filename=log, level=logging.INFO, format=form, force=True)
    return rpc.transport(CONF)


def work(settings, log, places, home, ready):
    """A process of workers, until it is killed or its parent has gone."""
    workers = Workers(CONF, begin(settings, log), places, home)
    workers.start()
    ready.set()
    while multiprocessing.parent_process().is_alive():
        begun_s = time.monotonic()
        workers.report()
        time.sleep(max(0.5, REPORT_S / 2 - (time.monotonic() - begun_s)))
    os._exit(0)


def lists(home):
    """host -> {instance: whether it is hidden}, as the disks of the nodes have it."""
    found = {}
    for path in home.iterdir():
        file = path / 'instances.json'
        instances = json.loads(file.read_text())['instances'] if file.exists() else []
        found[path.name] = {one['uuid']: one.get('hidden', False) for one in instances}
    return found
