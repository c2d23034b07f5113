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
"""Assembles an agent: its settings, its instances, its reporter, its RPC server and its worker."""

import dataclasses
import logging
import threading
from pathlib import Path

from oslo_service import service as oslo_service

from nova_sched import errors, rpc
from nova_sched.extensions.agent import AgentSettings
from nova_sched.extensions.agent import jobs as agent_queues
from nova_sched.extensions.agent.instances import LocalInstances
from nova_sched.extensions.agent.reporter import ReportCount, Reporter
from nova_sched.extensions.agent.service import Agent
from nova_sched.rpc import agent as agent_rpc
from nova_sched.rpc.agent import ReportClient

LOG = logging.getLogger(__name__)

NOVA_INSTANCES = Path('/var/lib/nova/instances')
MEASURED = frozenset({'VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'})


def settings(conf):
    """The settings of this node, from the configuration. Raises BadConfig."""
    wanted = dict(conf.agent)  # read all now, so that a bad value is reported at the start
    state = Path(wanted['state_path'])
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.BadConfig(
            '[agent] state_path', f'{state} cannot be made: {error.strerror}'
        ) from None
    instances = wanted['instances_path'] or (NOVA_INSTANCES if NOVA_INSTANCES.is_dir() else state)
    if not Path(instances).is_dir():
        why = (
            f'there is no directory {instances}; make it, or name the one that holds the '
            'disks of instances'
        )
        raise errors.BadConfig('[agent] instances_path', why)
    if known := sorted(MEASURED & wanted['resources'].keys()):
        raise errors.BadConfig('[agent] resources', f'{", ".join(known)} is read from the machine')
    # An option has the same name as its setting.
    same = {field.name for field in dataclasses.fields(AgentSettings)} & wanted.keys() - {
        'instances_path'
    }
    read = {name: wanted[name] for name in same if wanted[name] is not None}
    return AgentSettings(
        host=conf.host,
        node=wanted['nodename'],
        uuid_file=state / 'compute_id',
        instances_path=Path(instances),
        packing=conf.compute.packing_host_numa_cells_allocation_strategy,
        **read,
    )


def agent(chosen):
    """The agent of a node with these settings, with the instances that it has kept on disk. Raises
    BadMachineFacts."""
    return Agent(chosen, LocalInstances(chosen.uuid_file.with_name('instances.json')))


def check(conf):
    """Check the configuration and the machine before a process is started.

    Return the settings. Raises BadConfig or BadMachineFacts.
    """
    chosen = settings(conf)
    agent(chosen).read()
    rpc.transport(conf).cleanup()
    if conf.queues.enabled:
        agent_queues.check(conf, chosen.host)
    return chosen


class AgentService(oslo_service.ServiceBase):
    """The agent's process. ``start`` makes all objects, that is after the fork."""

    def __init__(self, conf, chosen, bus=None):
        self._conf = conf
        self._settings = chosen
        self._bus = bus
        self._keep_bus = bus is not None
        self._timeout_s, self._cell_uuid = conf.agent.report_timeout, conf.agent.cell_uuid
        self._interval_s, self._bad_interval = conf.agent.report_interval, None
        self._server = self.reporter = self.worker = None
        self._ended = threading.Event()

    def alive_s(self):
        """When its reporter last moved, in monotonic seconds; 0 until the host can be reached."""
        return self.reporter.alive_s() if self.reporter is not None else 0.0

    def start(self):
        node_agent = agent(self._settings)
        if self._bus is None:
            self._bus = rpc.transport(self._conf)
        client = ReportClient(self._bus, self._timeout_s)
        timeout_s = (
            1.5 * self._timeout_s
        )  # by then only a bus that does not answer can cause a wait
        count = ReportCount(self._settings.uuid_file.with_name('starts'))
        self.reporter = Reporter(
            node_agent, client, self._interval, self._cell_uuid, timeout_s, count=count
        )
        # Waits until the server listens, and logs it if that takes long.
        self.reporter.start()
        server = agent_rpc.server(self._bus, node_agent.host, node_agent, self._hear)
        # While the bus does not answer, the process waits for it. A server that has not started
        # yet cannot be stopped.
        server.start()
        self._server = server
        if not self._conf.queues.enabled:
            self.reporter.listens()
            return
        nodename, settled = self._settings.node or node_agent.host, self.reporter.listens
        self.worker = agent_queues.AgentWorker(
            self._conf, self._bus, node_agent, nodename, self._interval, settled
        )
        self.worker.start()

    def _hear(self):
        """The catalogue of queues has changed, or its facts about this host."""
        if self.worker is not None:
            self.worker.hear()

    def _interval(self):
        """Seconds between reports as configured now. A reloaded value that is not valid changes
        nothing."""
        try:
            self._interval_s, self._bad_interval = self._conf.agent.report_interval, None
        except ValueError as error:
            if str(error) != self._bad_interval:
                self._bad_interval = str(error)
                LOG.error('%s; reporting each %s s as before', error, self._interval_s)
        return self._interval_s

    def stop(self, graceful=True):
        """End the running jobs, stop reports, take no more instances, answer calls in flight, then
        end."""
        if self.worker is not None:
            self.worker.stop()
        quiet = self.reporter is not None and self.reporter.stop()
        if self._server is not None:
            self._server.stop()
            self._server.finish()
        # If the bus does not answer, its cleanup would block until it does.
        if quiet and self._server is not None and not self._keep_bus:
            self._bus.cleanup()
        LOG.info('Stopped')
        self._ended.set()

    def wait(self):
        self._ended.wait()

    def reset(self):
        """The configuration was read again. The reporter reads its interval for each report
        anyway."""
        if self.worker is not None:
            self.worker.reset()
        LOG.info('Options were reloaded')
