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
"""Assembles the queue worker of an agent: its node, its driver, its clients of schedulers and
managers."""

import random
import threading
import time

from oslo_log import log as logging

from nova_sched import conf as options
from nova_sched import errors, service
from nova_sched.extensions.queues import drivers
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.extensions.queues.fit import Fit, NodeFit, with_devices
from nova_sched.extensions.queues.node import worker
from nova_sched.extensions.queues.node.inflight import JobThreads
from nova_sched.rpc import reports
from nova_sched.rpc.client import ClaimsClient, QueuesClient
from nova_sched.state.host_aggregate import HostAggregate

LOG = logging.getLogger(__name__)

CALL_S = 60  # seconds to wait for an answer before the call is repeated
GRACE_S, LEAVING_S = (
    180.0,
    5.0,
)  # for the whole stop of an agent by default; and for the steps after its jobs


class AgentNodeApi:
    """The node of an agent, as its worker needs it."""

    def __init__(self, agent, nodename, cell_uuid=None):
        self.host, self.nodename = agent.host, nodename
        self.begin = agent.begin
        self.built, self.claim_name = agent.built, agent.claim_name
        self.keep = agent.keep
        self.undo = agent.undo
        self.destroy, self.watch = agent.destroy, agent.watch
        self.resize, self.confirm_resize = agent.resize, agent.confirm_resize
        self.revert_resize = agent.revert_resize
        self._agent, self._cell_uuid = agent, cell_uuid

    def facts(self):
        """The host state that a scheduler would read from a report of the node."""
        facts = self._agent.facts_with_hidden()
        return reports.report(
            facts.node, self.host, sorted(facts.instances), facts.inventories, self._cell_uuid
        )

    def hidden(self):
        return [instance.uuid for instance in self._agent.hidden()]

    def holds(self, instance_uuid):
        return any(not instance['hidden'] for instance in self._copies(instance_uuid))

    def has_two_sizes(self, instance_uuid):
        return any(instance['resizing'] for instance in self._copies(instance_uuid))

    def _copies(self, instance_uuid):
        return [
            instance for instance in self._agent.instances() if instance['uuid'] == instance_uuid
        ]


class HostCatalogue:
    """The queues of the cloud for one host. A call asks a manager, and returns a NodeFit."""

    def __init__(self, conf, queues, host):
        self._conf, self._queues, self._host = conf, queues, host
        self._turn = threading.Lock()
        self._told = self._offered = self._fit = self._view = None

    def __call__(self):
        """Return the same object if nothing has changed. Raises NoAnswer, UnknownRule or
        Invalid."""
        answer = self._queues.catalogue(self._host)
        with self._turn:
            if answer != self._told:
                self._view = self._see(answer)
                self._told = answer
            return self._view

    def forget(self):
        """Options that the rules read have changed."""
        with self._turn:
            self._told = self._offered = None

    def _see(self, answer):
        here = {name: answer[name] for name in ('aggregates', 'disabled') if name in answer}
        offered = {name: value for name, value in answer.items() if name not in here}
        if offered != self._offered:
            rules = with_devices(service.rules(self._conf))
            self._fit = Fit(rules, Catalogue.from_plain(offered), self._conf.queues.priority_steps)
            self._offered = offered
        aggregates = [
            HostAggregate(**{**aggregate, 'hosts': frozenset(aggregate['hosts'])})
            for aggregate in here['aggregates']
        ]
        return NodeFit(self._fit, aggregates, bool(here.get('disabled')))


def driver(conf, host):
    """The configured driver. Raises BadConfig."""
    wanted = conf.queues
    chosen = drivers.DriverSettings(
        fake_seconds=wanted.fake_seconds,
        fake_failures=wanted.fake_failures,
        exec_command=wanted.exec_command,
        exec_timeout_s=wanted.exec_timeout,
        exec_user=wanted.exec_user,
        exec_environment=wanted.exec_environment,
    )
    return drivers.find(wanted.driver)(chosen, host)


def check(conf, host):
    """Check the configuration of the queues. Raises BadConfig."""
    options.register_plug_in_opts(conf)
    service.rules(conf)
    queue_service.broker(conf)
    driver(conf, host)
    longest_s, claimed_s = conf.queues.exec_timeout, conf.claims.pending_ttl
    if conf.queues.driver == 'exec' and claimed_s <= longest_s:
        why = (
            f'a build may take {longest_s} s, but its claim ends after {claimed_s} s: make it '
            'less than [claims] pending_ttl'
        )
        raise errors.BadConfig('[queues] exec_timeout', why)


class AgentWorker:
    """The worker of one agent, on a bus. ``interval_s`` returns the seconds between reports.
    Reports may be made after ``settled`` was called."""

    def __init__(self, conf, bus, agent, nodename, interval_s, settled):
        if conf.queues.driver == 'fake':
            LOG.warning('Nothing is built: [queues] driver is fake, and reports jobs as done')
        self._catalogue = HostCatalogue(conf, QueuesClient(bus, CALL_S), agent.host)
        self._broker, self._grace_s = queue_service.broker(conf), _grace_s(conf)
        around = worker.WorkerDependencies(
            node_api=AgentNodeApi(agent, nodename, conf.agent.cell_uuid),
            claims=ClaimsClient(bus, CALL_S),
            broker=self._broker,
            driver=driver(conf, agent.host),
            read_catalogue=self._catalogue,
            read=queue_service.read,
            settled=settled,
        )
        wanted = conf.queues
        chosen = worker.WorkerSettings(
            slots=wanted.slots,
            max_redeliveries=wanted.max_redeliveries,
            own_priority=wanted.priority_steps,
            evaluate_s=interval_s,
        )
        self.worker = worker.Worker(around, chosen, JobThreads(), time.monotonic, random.Random())

    def start(self):
        self.worker.start()

    def hear(self):
        """The catalogue has changed, or its facts about this host."""
        self.worker.hear()

    def reset(self):
        """Options have changed."""
        self._catalogue.forget()
        self.worker.hear()

    def stop(self):
        """Finish the running jobs within the time limit; put the rest back."""
        self.worker.drain(self._grace_s)
        queue_service.close_broker(self._broker)


def _grace_s(conf):
    """Seconds for the end of jobs, out of the time that the process has to stop; 0 means no
    limit."""
    whole_s = conf.graceful_shutdown_timeout if 'graceful_shutdown_timeout' in conf else GRACE_S
    return max(0.0, whole_s - LEAVING_S) if whole_s else threading.TIMEOUT_MAX
