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
"""The bus, the schedulers and the nodes of a demonstration."""

import dataclasses

from nova_sched import rpc, service
from nova_sched.cmd import startup
from nova_sched.conf import CONF
from nova_sched.extensions.agent.daemon import AgentService, settings
from nova_sched.tests.fixtures import rabbitmq
from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.fixtures.scheduler import Daemon

AGENTS = ('agent-1', 'agent-2')
CONFIGURATION = """\
[DEFAULT]
transport_url = {bus}
service_down_time = 600
[database]
connection = {database}
[claims]
refresh_interval = 0.5
[agent]
state_path = {home}
cpu_allocation_ratio = 64
[queues]
enabled = true
fake_seconds = 0.1
[quota]
limits =
"""


def private_bus(stack):
    """The URL of a RabbitMQ that runs until the stack ends; None where none can be started."""
    try:
        return stack.enter_context(rabbitmq.server()).fresh()
    except (ServerFailed, OSError, StopIteration):
        return None


class EmbeddedScheduler:
    """A scheduler in this process, where no RabbitMQ is."""

    def __init__(self, bus):
        self._bus, self._service = bus, None

    def start(self, wait=True):
        self._service = service.SchedulerService(CONF, self._bus)
        self._service.start()

    def kill(self):
        """End it, once: threads of this process cannot be killed."""
        if self._service is not None:
            self._service.stop()
            self._service = None


class DemoCloud:
    """Schedulers on one SQLite database; with a RabbitMQ they are processes, else threads."""

    def __init__(self, home, url, schedulers):
        self.database = f'sqlite:///{home / "nova_sched.sqlite"}'
        file = home / 'nova_sched.conf'
        bus = url or 'fake://'
        file.write_text(CONFIGURATION.format(bus=bus, database=self.database, home=home))
        startup.configure(['--config-file', str(file), '--log-file', str(home / 'log')])
        self.bus = rpc.transport(CONF)
        options = {'scheduler.rpc_server': 'direct', 'groups.solver': True}
        self.schedulers = [
            Daemon(home / f'scheduler-{number}', url, self.database, options)
            if url
            else EmbeddedScheduler(self.bus)
            for number in range(1, schedulers + 1)
        ]

    def start(self):
        """Start all schedulers; the first one makes the tables."""
        first, *others = self.schedulers
        first.start()
        for one in others:
            one.start(wait=False)
        for one in others:
            if isinstance(one, Daemon):
                one.until_it_says(one.listens)

    def stop(self):
        for one in self.schedulers:
            one.kill()
        self.bus.cleanup()


def agents(bus):
    """Two agents with workers, on this machine."""
    here = settings(CONF)
    for host in AGENTS:
        uuid_file = here.uuid_file.parent / host / 'compute_id'
        uuid_file.parent.mkdir()
        chosen = dataclasses.replace(here, host=host, uuid_file=uuid_file)
        yield AgentService(CONF, chosen, bus)
