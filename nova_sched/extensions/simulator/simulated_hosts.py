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
"""The simulated compute nodes of a cloud, reporting over the real interfaces in parallel."""

import collections
import concurrent.futures
import time
import uuid

from nova_sched import errors, objects
from nova_sched.extensions.simulator import conductor
from nova_sched.extensions.simulator.machines import NAMESPACE
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.rpc.client import SchedulerClient, StatsClient
from nova_sched.state.report import unsettled


class CallPool(concurrent.futures.ThreadPoolExecutor):
    """At most one call in flight per thread. Leaving the context manager cancels calls that have
    not begun."""

    def each(self, work, items):
        """Do the work for each of the items; raise the exception of the first that failed."""
        collections.deque(self.map(work, items), maxlen=0)

    def __exit__(self, *raised):
        self.shutdown(cancel_futures=True)


# Far from the ids of a cloud's own aggregates.
FIRST_AGGREGATE = 900_001
# A node without changes still reports, so that it counts as up.
HEARTBEAT_S = 25.0
REPEATS = 2  # of a report, at most
REPORT_TIMEOUT_S = 120.0
CAST_TIMEOUT_S = 30.0
SMALLEST = TraceFlavor('smallest', 1, 64)


class SimulatedHosts:
    """Nodes on a bus. The pool of threads sends their reports in parallel."""

    def __init__(self, members, bus, pool):
        self.nodes = {node.host: node for node in members}
        self.answers = {}  # host -> the scheduler's answer to its last report
        self._stats, self._casts = StatsClient(bus, REPORT_TIMEOUT_S), SchedulerClient(bus)
        self._pool = pool

    def join(self):
        """Send zones, racks, disabled hosts and every node to the scheduler."""
        self._casts.update_aggregates(objects.AggregateList(objects=self.aggregates()))
        self._pool.each(self._report, self.nodes.values())
        self._pool.each(self._disable, [node for node in self.nodes.values() if node.disabled])
        self._await({node.zone for node in self.nodes.values() if not node.disabled})

    def _await(self, zones):
        """Wait until a host can be chosen in each zone, because casts have no answer. Raise
        NotFound."""
        deadline_s = time.monotonic() + CAST_TIMEOUT_S
        for zone in sorted(zones):
            spec = conductor.spec(SMALLEST, [str(uuid.uuid4())], zone)
            while True:
                try:
                    self._casts.select_destinations(spec, None, return_alternates=False)
                    break
                except errors.NoValidHost:
                    if time.monotonic() > deadline_s:
                        raise errors.NotFound(f'An enabled host in {zone}') from None
                    time.sleep(0.1)

    def report(self):
        """Send a report for every changed node, and for every node that was silent for long."""
        late_s = time.monotonic() - HEARTBEAT_S
        self._pool.each(
            self._report,
            [node for node in self.nodes.values() if node.dirty or node.reported_s < late_s],
        )

    def report_all(self):
        self._pool.each(self._report, self.nodes.values())

    def leave(self):
        """Remove all simulated nodes and aggregates from the scheduler."""
        reported = [node for node in self.nodes.values() if node.reports]
        self._pool.each(self._remove, reported)
        for aggregate in self.aggregates():
            self._casts.delete_aggregate(aggregate)

    def _remove(self, node):
        seen = self.answers[node.host]['generation']
        self._stats.remove_node(node.host, node.nodename, generation=seen)

    def build(self, request, selection):
        """Build on the chosen host. Raise ComputeResourcesUnavailable, always for a host outside
        these hosts."""
        node = self.nodes.get(selection.service_host)
        if node is None:
            raise errors.ComputeResourcesUnavailable(
                selection.compute_node_uuid, 'it is not simulated'
            )
        node.build(request)

    @property
    def reports(self):
        """Return the number of accepted reports so far."""
        return sum(node.reports for node in self.nodes.values())

    def _report(self, node):
        """Send a report, and another one if the answer tells of claims that it could not
        settle."""
        answer = self.answers.get(node.host, {'generation': 0})
        for _ in range(REPEATS):
            seen = answer['generation']
            stats, instances = node.report()
            answer = self.answers[node.host] = self._stats.update_resource_stats(
                node.host, stats, instances=instances, inventories=node.inventories, seen=seen
            )
            node.reports += 1
            if not (answer['stale'] or unsettled(answer['claims'], set(instances))):
                break

    def _disable(self, node):
        service = objects.Service(
            host=node.host,
            binary='nova-compute',
            disabled=True,
            disabled_reason='simulated maintenance',
        )
        self._stats.update_service(node.host, service)

    def aggregates(self):
        """Return one aggregate for each zone, and one for each rack with the metadata
        ``rack``."""
        held = {}
        for node in self.nodes.values():
            held.setdefault((node.zone, 'availability_zone', node.zone), []).append(node.host)
            held.setdefault((node.rack, 'rack', node.rack), []).append(node.host)
        return [
            objects.Aggregate(
                id=FIRST_AGGREGATE + place,
                uuid=str(uuid.uuid5(NAMESPACE, f'aggregate {name}')),
                name=name,
                hosts=hosts,
                metadata={key: value},
            )
            for place, ((name, key, value), hosts) in enumerate(held.items())
        ]
