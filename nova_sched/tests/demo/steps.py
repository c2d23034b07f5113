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
"""The steps of the demonstration."""

import collections
import concurrent.futures
import contextlib
import itertools
import statistics
import threading
import time
import uuid
from pathlib import Path

from oslo_context.context import RequestContext

from nova_sched import errors, objects
from nova_sched.claim import VCPU
from nova_sched.claims.audit import audit
from nova_sched.claims.maintenance import ClaimMaintenance
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage import group_pages
from nova_sched.conf import CONF
from nova_sched.db import engine
from nova_sched.db.schedulers import SqlSchedulers
from nova_sched.extensions.queues.service import QueueService, Routing
from nova_sched.extensions.simulator import conductor, trace
from nova_sched.extensions.simulator.conductor import SimulatedConductor
from nova_sched.extensions.simulator.machines import FAST_CPU, Plan, machines
from nova_sched.extensions.simulator.replay import REMOVED_THE_LAST, Clock, Demand, Replay
from nova_sched.extensions.simulator.report import percentile
from nova_sched.extensions.simulator.session import stored_accounts
from nova_sched.extensions.simulator.simulated_hosts import CallPool, SimulatedHosts
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.rpc.client import ExplainClient, GroupsClient, QueuesClient, SchedulerClient
from nova_sched.tests.demo.cloud import DemoCloud, agents, private_bus
from nova_sched.tests.demo.page import DemoResult

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = ROOT / 'doc' / 'source' / 'examples' / 'groups' / 'three-tier.yaml'
PLAN = Plan(nodes=96, failing=0.0)
SCHEDULERS, REQUESTS, CALLERS, JOBS = 3, 400, 24, 40
RACERS = TraceFlavor('race', 1, 1024)
IMPOSSIBLE = TraceFlavor('impossible', 4, 28 * 1024)
TINY = {'name': 'tiny', 'vcpus': 1, 'memory_mb': 16}
WAIT_S = 60.0


class Demonstration:
    """All steps on one cloud. ``stack`` ends what a step has started."""

    def __init__(self, home, embedded, stack):
        self._steps, self._stack = [], stack
        url = None if embedded else private_bus(stack)
        self._where = 'processes on a private RabbitMQ' if url else 'in this process, on fake://'
        self._end = 'killed' if url else 'stopped'
        self._cloud = DemoCloud(home, url, SCHEDULERS)
        stack.callback(self._cloud.stop)
        self._latencies_s, self._funnel = [], []
        self._asked = self._reason = self._tree = ''

    def run(self):
        """Return the DemoResult, and whether every check has passed."""
        self._schedulers()
        self._replay()
        before = self._use()
        self._refusal()
        raced = self._race()
        self._group()
        self._jobs()
        sound = self._audit()
        after = self._use()
        racks = collections.defaultdict(dict)
        for node in sorted(self._hosts.nodes.values(), key=lambda one: (one.rack, one.host)):
            racks[node.rack][node.host] = before[node.host], after[node.host]
        made = DemoResult(
            self._steps,
            dict(racks),
            self._asked,
            self._reason,
            self._funnel,
            self._latencies_s,
            self._tree,
        )
        return made, raced and sound

    def _say(self, heading, sentence):
        self._steps.append((heading, sentence))
        print(f'{heading + ":":12} {sentence}', flush=True)

    def _schedulers(self):
        begin_s = time.monotonic()
        self._cloud.start()
        bus = self._cloud.bus
        self._engine = engine.create(self._cloud.database)
        self._stack.callback(self._engine.dispose)
        self._store = SqlClaimStore(self._engine)
        self._pool = self._stack.enter_context(CallPool(CALLERS, 'conductor'))
        self._hosts = SimulatedHosts(machines(PLAN), bus, self._pool)
        self._conductors = SimulatedConductor(bus, self._hosts)
        self._hosts.join()
        self._say(
            'Schedulers',
            f'{SCHEDULERS}, {self._where}; {PLAN.nodes} simulated hosts in '
            f'{PLAN.zones * PLAN.racks} racks report to them '
            f'({time.monotonic() - begin_s:.1f} s)',
        )

    def _replay(self):
        arrivals = trace.split(trace.load(), CONF.scheduler.max_instances_per_request)
        demand = Demand(PLAN.zone_names, 0.7, PLAN.seed)
        replay = Replay(self._hosts, self._conductors, Clock(), self._pool, demand)
        tally = replay.run(list(itertools.islice(arrivals, REQUESTS)))
        self._latencies_s = tally.latencies_s
        self._say(
            'Trace',
            f'{tally.requests} requests for {tally.servers} servers: {tally.placed} placed, '
            f'{tally.refused} refused; the middle call took '
            f'{statistics.median(tally.latencies_s) * 1000:.0f} ms, and 99 of 100 at most '
            f'{percentile(tally.latencies_s, 0.99) * 1000:.0f} ms',
        )

    def _use(self):
        """host -> share of its vCPUs that claims hold, planned ones too."""
        return {
            one.host: one.used.get(VCPU, 0) / one.capacity[VCPU]
            for one in stored_accounts(self._store)
        }

    def _refusal(self):
        zone, server = PLAN.zone_names[1], str(uuid.uuid4())
        context = RequestContext(overwrite=False)
        spec = conductor.spec(
            IMPOSSIBLE,
            [server],
            zone,
            extra_specs={f'trait:{FAST_CPU}': 'required'},
            image_properties={'hw_architecture': 'aarch64'},
        )
        self._asked = f'{IMPOSSIBLE} in {zone}, on a CPU with AVX-512, from an image for aarch64'
        with contextlib.suppress(errors.NoValidHost):
            SchedulerClient(self._cloud.bus).select_destinations(spec, [server], context=context)
        explain = ExplainClient(self._cloud.bus)
        (record,) = until(lambda: explain.show(context.request_id))
        self._reason = record['reason']
        self._funnel = [
            (one['filter'], one['seen'], one['left'])
            for one in record['filters']
            if one['seen'] > one['left']
        ]
        steps = ', '.join(f'{rule} {seen} → {left}' for rule, seen, left in self._funnel)
        self._say('Refusal', f'{self._asked}: {steps}')

    def _race(self):
        """Return whether all places are taken, and no more."""
        zone = PLAN.zone_names[-1]
        places, placed, repeated = self._places(zone), [], []
        half = threading.Event()

        def call():
            while True:
                server = str(uuid.uuid4())
                boot = self._conductors.boot(conductor.spec(RACERS, [server], zone), [server])
                if boot.hosts:
                    placed.append(server)
                elif REMOVED_THE_LAST.search(boot.reason):
                    return
                else:  # no answer, or each host that fits was taken by other requests
                    repeated.append(server)
                if len(placed) >= places // 2:
                    half.set()

        begin_s = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
            callers = [pool.submit(call) for _ in range(CALLERS)]
            half.wait(WAIT_S)
            self._cloud.schedulers[1].kill()
            for one in callers:
                one.result()
        self._hosts.report()
        took_s = time.monotonic() - begin_s
        self._say(
            'Race',
            f'{CALLERS} callers took {len(placed)} of the last {places} places of {zone} in '
            f'{took_s:.1f} s, and were then refused; one scheduler was {self._end} half-way; '
            f'{len(repeated)} calls had to be repeated',
        )
        return len(placed) == places

    def _places(self, zone):
        """How many servers of the race fit into a zone."""
        return sum(
            min(
                (node.usage()[name][1] - node.usage()[name][0]) // amount
                for name, amount in ((VCPU, RACERS.vcpus), ('MEMORY_MB', RACERS.memory_mb))
            )
            for node in self._hosts.nodes.values()
            if node.zone == zone and not node.disabled
        )

    def _group(self):
        begin_s = time.monotonic()
        context = RequestContext(overwrite=False, project_id='demo', user_id='demo')
        group = GroupsClient(self._cloud.bus).create(
            TEMPLATE.read_text(), name='shop', context=context
        )
        took_s = time.monotonic() - begin_s
        self._tree = group_pages.tree(group_pages.plain(group))
        racks = {member.domains['rack'] for member in group.members}
        self._say(
            'Group',
            f'{len(group.members)} servers in three tiers planned and claimed together in '
            f'{took_s:.2f} s, in {len(racks)} racks of one zone',
        )
        print(self._tree, flush=True)

    def _jobs(self):
        queues = QueueService(CONF, self._cloud.bus)
        for one in (queues, *agents(self._cloud.bus)):
            one.start()
            self._stack.callback(one.stop)
        router = self._stack.enter_context(Routing(CONF, self._cloud.bus))
        client = QueuesClient(self._cloud.bus)
        client.flavor_create(TINY)
        until(lambda: all((one['consumers'] or 0) > 0 for one in client.facts()))
        until(lambda: client.facts()[-1]['consumers'] == 2)
        amounts = {'flavorid': 'tiny', 'root_gb': 0, 'ephemeral_gb': 0, 'swap': 0}
        spec = objects.RequestSpec(
            flavor=objects.Flavor(**TINY, **amounts, extra_specs={}),
            project_id='demo',
            user_id='demo',
            num_instances=1,
        )
        begin_s = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            servers = [str(uuid.uuid4()) for _ in range(JOBS)]
            hosts = collections.Counter(
                found[0].service_host
                for (found,) in pool.map(lambda server: router.place(spec, [server]), servers)
            )
        each = ', '.join(f'{count} on {host}' for host, count in sorted(hosts.items()))
        self._say(
            'Jobs',
            f'{JOBS} servers through the queue of their flavor in '
            f'{time.monotonic() - begin_s:.1f} s, with builds of 0.1 s: {each}',
        )

    def _audit(self):
        """Return whether the audit has found no error."""
        maintenance, schedulers = ClaimMaintenance(self._engine), SqlSchedulers(self._engine)
        snapshot, now_s = maintenance.snapshot(), maintenance.now_s()
        found = [one for one in audit(snapshot, now_s) if one.is_error]
        conflicts = sum(one.figures['conflicts'] for one in schedulers.alive(0.0))
        self._say(
            'Audit',
            f'{len(snapshot.nodes)} nodes, {len(snapshot.claims)} claims: {len(found)} errors, '
            f'nothing is allocated twice; {conflicts} claims were lost to another scheduler '
            'and decided again'
            if not found
            else f'{len(found)} errors: {found[0].problem}',
        )
        return not found


def until(ask):
    """What ``ask`` returns, as soon as it is true. Raises NoAnswer."""
    deadline_s = time.monotonic() + WAIT_S
    while not (found := ask()):
        if time.monotonic() > deadline_s:
            raise errors.NoAnswer('demo', f'not so after {WAIT_S:.0f} s')
        time.sleep(0.1)
    return found
