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
"""Consumption of NUMA cells and PCI devices in any order, and reports between them: nothing is
allocated twice."""

import collections
import dataclasses

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.state.cluster import Cluster
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    mixed,
    pool,
    shared,
    threaded,
    told,
    wanted,
)
from nova_sched.tests.unit.hardware.builders import request as device

PAGES = [(4, 100_000), (2048, 4)]
HAS = {
    'host-0': machine(
        cell(0, [0, 1], range(2, 8), memory_mb=1000, pages=PAGES),
        cell(1, [], range(8, 12), memory_mb=1000, pages=PAGES),
        pools=[pool(2, 0), pool(1, 1), pool(1, None, '10de', '20b0')],
    ),
    'host-1': machine(threaded(cores=3, memory_mb=1000), pools=[pool(1, 0)]),
}
CONSUMERS = [uuid_of(f'consumer {number}') for number in range(5)]
LARGE = {'memory_mb': 4, 'pagesize_kb': 2048}

hosts, consumers = st.sampled_from(sorted(HAS)), st.sampled_from(CONSUMERS)
cells = st.lists(
    st.sampled_from(
        [
            shared(1),
            dedicated(1),
            dedicated(2),
            dedicated(3),
            dedicated(1, **LARGE),
            dedicated(2, thread_policy='isolate'),
            dedicated(2, thread_policy='require'),
            mixed(1, 1),
        ]
    ),
    max_size=1,
) | st.sampled_from([[dedicated(2), dedicated(2)], [shared(1), shared(1)]])
devices = st.lists(
    st.sampled_from(
        [
            device(1),
            device(2),
            device(1, {'vendor_id': '10de'}),
            device(1, policy='required', name=None),
        ]
    ),
    max_size=2,
)
pieces = st.builds(lambda some, several: wanted(*some, requests=several), cells, devices)


class HardwareMachine(RuleBasedStateMachine):
    """``pinned`` is what each node's own report has in use, by consumer."""

    def __init__(self):
        super().__init__()
        self.cluster = Cluster()
        self.pinned = {host: {} for host in HAS}
        self.latest = {}  # (host, consumer) -> the last consumption on the host

    def node(self, host):
        return self.cluster.find(host, host)

    @initialize()
    def every_host_reports(self):
        for host in HAS:
            self.tell(host, {}, [])

    def tell(self, host, pinned, claims):
        self.pinned[host] = pinned
        true = HAS[host]
        for parts in pinned.values():
            true = true.hold(parts)
        self.cluster.put(report(host, **told(true)), claims, {}, 0)
        self.latest = {
            key: consumption for key, consumption in self.latest.items() if key[0] != host
        }

    @rule(host=hosts, consumer=consumers, asked=pieces)
    def consume(self, host, consumer, asked):
        node, before = self.node(host), self.node(host).machine
        try:
            consumption = self.cluster.consume(
                node, request(instance_uuid=consumer, vcpus=1, pieces=asked)
            )
        except errors.ComputeResourcesUnavailable:
            assert node.machine == before
        else:
            assert bool(consumption.claim.parts) == bool(asked)
            # A later consumption may use what this one frees. Only the last one can be released
            # alone; a scheduler releases all later ones, too.
            self.latest = {key: some for key, some in self.latest.items() if key[0] != host}
            self.latest[host, consumer] = consumption

    @rule(host=hosts, consumer=consumers)
    def drop(self, host, consumer):
        if consumer in self.node(host).claims:
            self.cluster.drop(self.node(host).claims[consumer])
            self.latest.pop((host, consumer), None)

    @rule(host=hosts, consumer=consumers)
    def release(self, host, consumer):
        if consumption := self.latest.pop((host, consumer), None):
            self.cluster.release(consumption)

    @rule(host=hosts, listed=st.frozensets(consumers))
    def report(self, host, listed):
        """The node lists some of the instances: they are confirmed, and it has their parts in
        use."""
        here = self.node(host).claims
        claims = [
            dataclasses.replace(one, state=CONFIRMED, counted=bool(one.parts))
            if consumer in listed
            else one
            for consumer, one in here.items()
            if consumer in listed or not one.is_confirmed
        ]
        pinned = {uuid: here[uuid].parts for uuid in here.keys() & listed if here[uuid].parts}
        self.tell(host, pinned, claims)

    @rule(host=hosts)
    def come_back(self, host):
        """The node leaves, with its claims, and the last row moves; then it is there again."""
        self.cluster.remove(self.node(host).uuid)
        self.tell(host, {}, [])

    @invariant()
    def nothing_is_held_twice(self):
        for node in self.cluster:
            parts = [one.parts for one in node.claims.values() if one.parts]
            lies = [placed for one in parts if one.cells for placed in one.cells.cells]
            cpus = [cpu for placed in lies for cpu in placed.host_cpus]
            assert len(cpus) == len(set(cpus))
            # Of an instance that is resized both sizes are held, and may share CPUs: one runs at a
            # time.
            held = [cpu for one in node.claims.values() for cpu in cpus_of(one)]
            assert len(held) == len(set(held))
            assert set(cpus) <= {
                cpu for one in HAS[node.host].topology.cells for cpu in one.pcpuset
            }
            taken = collections.Counter()
            for some in (some for one in parts for some in one.devices):
                taken[repr(dataclasses.replace(some.pool, count=0))] += some.pool.count
            has = {
                repr(dataclasses.replace(one, count=0)): one.count for one in HAS[node.host].pools
            }
            assert all(count <= has[name] for name, count in taken.items())
            large = [placed.cell.memory_mb for placed in lies if placed.pagesize_kb == 2048]
            assert sum(large) <= 16

    @invariant()
    def the_machine_is_what_is_left(self):
        for node in self.cluster:
            left = HAS[node.host]
            for parts in self.pinned[node.host].values():
                left = left.hold(parts)
            for one in node.claims.values():
                for parts in one.uncounted:
                    left = left.hold(parts)
            assert sorted_pools(node.machine) == sorted_pools(left)

    def teardown(self):
        for node in self.cluster:
            for claim in list(node.claims.values()):
                self.cluster.drop(claim)
            assert node.machine == node.reported
            self.tell(node.host, {}, [])
            assert node.machine == HAS[node.host]


def cpus_of(claim):
    """Host CPUs that a claim holds alone, each once."""
    cells = [placed for parts in claim.all_parts if parts.cells for placed in parts.cells.cells]
    return {cpu for placed in cells for cpu in placed.host_cpus}


def sorted_pools(one):
    """A node tells of no empty pools."""
    return dataclasses.replace(
        one, pools=tuple(sorted(filter(lambda pool: pool.count, one.pools), key=repr))
    )


HardwareMachine.TestCase.settings = settings(max_examples=cases(50), stateful_step_count=30)
TestHardware = HardwareMachine.TestCase
