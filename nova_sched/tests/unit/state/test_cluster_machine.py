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
"""The cluster against a naive model of plain dicts, through random reports, claims, words and
departures."""

import dataclasses

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nova_sched.claim import CONFIRMED, PENDING, Claim
from nova_sched.hardware.machine import HardwareAllocation, Machine
from nova_sched.state.cluster import Cluster
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.report import DISABLED_TRAIT, Inventory, Report
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    pool,
    shared,
    told,
    wanted,
)
from nova_sched.tests.unit.hardware.builders import request as device

NODES = [uuid_of(f'node {number}') for number in range(5)]
HOSTS = ['h0', 'H0', 'h1', 'h2']
CELLS = [None, uuid_of('cell 1'), uuid_of('cell 2')]
CONSUMERS = [uuid_of(f'consumer {number}') for number in range(4)]
CLASSES = ['VCPU', 'MEMORY_MB', 'CUSTOM_GOLD']
TRAITS = ['A', 'B', DISABLED_TRAIT]
ZONES = ['a', 'b']
DISTROS = ['ubuntu', 'fedora']

MACHINES = [
    machine(cell(0, [0], [1, 2]), cell(1, [], [3, 4]), pools=[pool(2)]),
    machine(cell(1, [0], [1, 2, 3])),
    machine(pools=[pool(1), pool(1, 1)]),
]
PARTS = [
    one.fit(pieces)
    for one in MACHINES
    for pieces in (wanted(dedicated(2)), wanted(shared(1)), wanted(requests=[device(1)]))
]

instances = st.frozensets(st.sampled_from(CONSUMERS))
amounts = st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 9))
inventory = st.builds(
    Inventory,
    total=st.integers(2, 9),
    reserved=st.integers(0, 2),
    ratio=st.sampled_from([1.0, 1.5]),
)
reports = st.builds(
    Report,
    node_uuid=st.sampled_from(NODES),
    host=st.sampled_from(HOSTS),
    nodename=st.just(''),
    inventories=st.dictionaries(st.sampled_from(CLASSES), inventory),
    used=st.just({}),
    cell_uuid=st.sampled_from(CELLS),
    instances=st.none() | instances,
    traits=st.frozensets(st.sampled_from(TRAITS)),
    io_workload=st.integers(0, 3),
    hypervisor_type=st.sampled_from([None, 'QEMU', 'ironic']),
    metrics=st.sampled_from([None, '[{"name": "a", "value": 1}]', '[{"name": "b", "value": 2}]']),
    numa_topology=st.sampled_from([None, *(told(one)['numa_topology'] for one in MACHINES)]),
    pci_pools=st.sampled_from([None, *(told(one)['pci_pools'] for one in MACHINES)]),
    # A node keeps its name wherever it goes, so no two nodes of a host share one.
).map(lambda one: dataclasses.replace(one, nodename=f'name of {one.node_uuid}'))


@dataclasses.dataclass
class Known:
    """What the model remembers of a node."""

    report: Report
    claims: dict
    foreign: dict
    foreign_instances: int
    told: frozenset

    def used(self, name):
        return self.foreign.get(name, 0) + sum(
            claim.resources.get(name, 0) for claim in self.claims.values()
        )

    @property
    def instances(self):
        return self.told | self.claims.keys()


class ClusterMachine(RuleBasedStateMachine):
    """Everything that the engine may tell the cluster, in any order."""

    def __init__(self):
        super().__init__()
        self.cluster = Cluster()
        self.known, self.told, self.aggregates = {}, {}, {}
        self.services = dict.fromkeys(HOSTS, (False, False, 0.0))
        self.images = {}

    @rule(
        report=reports,
        foreign=amounts,
        strangers=st.integers(0, 3),
        keep=st.booleans(),
        generation=st.integers(0, 9),
        seen_s=st.floats(0, 99),
    )
    def put(self, report, foreign, strangers, keep, generation, seen_s):
        before = self.known.get(report.node_uuid)
        claims = dict(before.claims) if before and keep else {}
        foreign = {name: foreign.get(name, 0) for name in report.inventories}
        told = self.told.get(report.host, frozenset())
        if before and before.report.host == report.host:
            told = before.told
        if report.instances is not None:
            told = report.instances
        node = self.cluster.put(
            report, list(claims.values()), foreign, strangers, generation, seen_s
        )
        assert (node.uuid, node.generation) == (report.node_uuid, generation)
        self.known[report.node_uuid] = Known(report, claims, foreign, strangers, told)
        self.saw(report.host, seen_s)

    def saw(self, host, seen_s):
        disabled, forced_down, before = self.services[host]
        self.services[host] = (disabled, forced_down, max(before, seen_s))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), generation=st.integers(0, 9))
    def follow(self, data, generation):
        node = self.cluster.node(data.draw(st.sampled_from(sorted(self.known))))
        self.cluster.set_generation(node, generation)

    @rule(uuid=st.sampled_from(NODES))
    def remove(self, uuid):
        self.cluster.remove(uuid)
        self.known.pop(uuid, None)

    @precondition(lambda self: self.known)
    @rule(
        data=st.data(),
        consumer=st.sampled_from(CONSUMERS),
        resources=amounts,
        state=st.sampled_from([PENDING, CONFIRMED]),
        parts=st.sampled_from([None, *filter(None, PARTS)]),
        counted=st.booleans(),
    )
    def claim(self, data, consumer, resources, state, parts, counted):
        uuid = data.draw(st.sampled_from(sorted(self.known)))
        if consumer not in self.known[uuid].claims:
            made = Claim(consumer, uuid, resources, state, parts=parts, counted=counted)
            self.cluster.add(made)
            self.known[uuid].claims[consumer] = made

    @rule(consumer=st.sampled_from(CONSUMERS), uuid=st.sampled_from(NODES))
    def drop(self, consumer, uuid):
        self.cluster.drop(Claim(consumer, uuid, {'VCPU': 99}))
        if uuid in self.known:
            self.known[uuid].claims.pop(consumer, None)

    @rule(consumer=st.sampled_from(CONSUMERS), distro=st.sampled_from(DISTROS))
    def learn(self, consumer, distro):
        self.cluster.hosts.places.learn(consumer, {'os_distro': distro})
        self.images[consumer] = distro

    @rule(host=st.sampled_from(HOSTS), found=instances)
    def tell(self, host, found):
        self.cluster.tell(host, found)
        self.told[host] = found
        for node in self.of(host):
            node.told = found

    @rule(
        host=st.sampled_from(HOSTS),
        disabled=st.booleans(),
        forced_down=st.booleans(),
        seen_s=st.floats(0, 99),
    )
    def set_service(self, host, disabled, forced_down, seen_s):
        self.cluster.set_service(host, disabled, 'why', forced_down, seen_s)
        self.services[host] = (disabled, forced_down, self.services[host][2])
        self.saw(host, seen_s)

    @rule(host=st.sampled_from(HOSTS), seen_s=st.floats(0, 99))
    def see(self, host, seen_s):
        self.cluster.see(host, seen_s)
        self.saw(host, seen_s)

    @rule(
        number=st.integers(1, 3),
        hosts=st.none() | st.frozensets(st.sampled_from(HOSTS)),
        zone=st.sampled_from(ZONES),
    )
    def set_aggregate(self, number, hosts, zone):
        one = (
            None
            if hosts is None
            else HostAggregate(number, '', hosts, {'availability_zone': zone})
        )
        self.cluster.set_aggregate(number, one)
        self.aggregates.pop(number, None)
        if one is not None:
            self.aggregates[number] = one

    def of(self, host):
        return [node for node in self.known.values() if node.report.host == host]

    # The same facts, asked of both.

    def rows(self):
        """What the model knows, in the order of the rows."""
        return [self.known[node.uuid] for node in self.cluster.hosts.nodes]

    @invariant()
    def the_nodes_are_where_they_are_looked_for(self):
        hosts = self.cluster.hosts
        assert len(hosts) == len(hosts.nodes) == len(self.cluster) == len(self.known)
        assert {node.uuid for node in self.cluster} == set(self.known)
        for row, node in enumerate(hosts.nodes):
            known = self.known[node.uuid]
            assert (node.row, node.report, node.claims) == (row, known.report, known.claims)
            assert (node.foreign, node.foreign_instances) == (
                known.foreign,
                known.foreign_instances,
            )
            assert self.cluster.node(node.uuid) is node
            assert self.cluster.find(node.host, node.nodename) is node
            assert hosts.state(row).uuid == node.uuid
        for host in HOSTS:
            assert hosts.named([host]).tolist() == [
                node.report.host == host for node in self.rows()
            ]
            assert {node.uuid for node in self.cluster.nodes_of(host)} == {
                node.report.node_uuid for node in self.of(host)
            }
        assert hosts.named_loosely(['h0']).tolist() == [
            node.report.host in ('h0', 'H0') for node in self.rows()
        ]
        for node in NODES:
            mask = hosts.named(HOSTS, [f'name of {node}'])
            assert mask.tolist() == [one.report.node_uuid == node for one in self.rows()]

    @invariant()
    def the_digest_is_that_of_the_nodes(self):
        generations = [node.generation for node in self.cluster]
        assert self.cluster.digest == (len(generations), sum(generations))

    @invariant()
    def the_usage_agrees(self):
        hosts = self.cluster.hosts
        for name in CLASSES:
            for amount in (0, 1, 4, 9):
                wanted = [self.fits(node, name, amount) for node in self.rows()]
                if name in hosts.resources or amount:
                    assert (name, amount, hosts.fits(name, amount).tolist()) == (
                        name,
                        amount,
                        wanted,
                    )
            if name in hosts.resources:
                assert hosts.resources[name].used.tolist() == [
                    node.used(name) for node in self.rows()
                ]
        for node in hosts.nodes:
            usage = {name: node.usage(name) for name in CLASSES}
            assert {name for name in CLASSES if usage[name]} == set(node.report.inventories)
            assert {name: found.used for name, found in usage.items() if found} == {
                name: self.known[node.uuid].used(name) for name in node.report.inventories
            }

    @staticmethod
    def fits(node, name, amount):
        has = node.report.inventories.get(name, Inventory(0))
        return amount <= has.capacity - node.used(name) and amount <= has.total

    @invariant()
    def the_machines_are_what_claims_leave(self):
        hosts = self.cluster.hosts
        left = [self.machine_of(node) for node in self.rows()]
        assert [node.machine for node in hosts.nodes] == left
        free = [sum(pool.count for pool in one.pools) if one else 0 for one in left]
        assert hosts.free_pci_devices.tolist() == free
        rows = range(len(left))
        judged = hosts.map_machines(
            [*rows], 'devices', lambda one: one is not None and one.free_devices > 1
        )
        assert judged.tolist() == [count > 1 for count in free]

    @staticmethod
    def machine_of(node):
        if not node.report.numa_topology and not node.report.pci_pools:
            return None
        left = Machine.from_texts(*node.report.pieces)
        for one in node.claims.values():
            left = left.hold(
                HardwareAllocation() if one.counted or one.parts is None else one.parts
            )
        return left

    @invariant()
    def instances_are_where_they_are_told_to_be(self):
        hosts = self.cluster.hosts
        for consumer in CONSUMERS:
            here = [consumer in node.instances for node in self.rows()]
            assert hosts.count_instances([consumer]).tolist() == here
            assert (consumer in hosts.places) == any(here)
            claims = [
                node.claims[consumer] for node in self.known.values() if consumer in node.claims
            ]
            assert sorted(self.cluster.claims_of(consumer), key=id) == sorted(claims, key=id)
        assert hosts.count_instances(CONSUMERS).tolist() == [
            len(node.instances) for node in self.rows()
        ]
        for distro in DISTROS:
            assert hosts.count_images('os_distro', distro).tolist() == [
                sum(self.images.get(instance) == distro for instance in node.instances)
                for node in self.rows()
            ]
        assert hosts.num_instances.tolist() == [
            node.foreign_instances + len(node.claims) for node in self.rows()
        ]
        assert hosts.num_io_ops.tolist() == [
            (
                node.report.io_workload
                + sum(claim.state != CONFIRMED for claim in node.claims.values())
            )
            for node in self.rows()
        ]
        for host in HOSTS:
            union = frozenset().union(*(node.told for node in self.of(host)))
            assert self.cluster.told(host) == (
                union if self.of(host) else self.told.get(host, frozenset())
            )

    @invariant()
    def the_facts_are_the_last_ones(self):
        hosts = self.cluster.hosts
        for trait in TRAITS:
            assert hosts.has_trait(trait).tolist() == [
                trait in node.report.traits for node in self.rows()
            ]
        for uuid in CELLS[1:]:
            assert hosts.in_cell(uuid).tolist() == [
                node.report.cell_uuid in (uuid, None) for node in self.rows()
            ]
        assert hosts.map('hypervisor_type', str, object).tolist() == [
            str(node.report.hypervisor_type) for node in self.rows()
        ]
        for name in ('a', 'b'):
            assert (~np.isnan(hosts.metric(name))).tolist() == [
                f'"{name}"' in (node.report.metrics or '') for node in self.rows()
            ]
        assert hosts.disabled.tolist() == [
            self.services[node.report.host][0] or DISABLED_TRAIT in node.report.traits
            for node in self.rows()
        ]
        assert hosts.forced_down.tolist() == [
            self.services[node.report.host][1] for node in self.rows()
        ]
        assert hosts.seen_s.tolist() == [
            self.services[node.report.host][2] for node in self.rows()
        ]

    @invariant()
    def the_zones_are_those_of_the_aggregates(self):
        hosts = self.cluster.hosts
        for zone in (*ZONES, 'nova'):
            assert hosts.in_zone(zone, 'nova').tolist() == [
                zone in (self.zones_of(node.report.host) or {'nova'}) for node in self.rows()
            ]
            named = any(one.availability_zone == zone for one in self.aggregates.values())
            assert hosts.has_zone(zone) == named

    @invariant()
    def nothing_is_kept_of_what_is_gone(self):
        hosts = self.cluster.hosts
        sets = {
            tuple(one.id for one in hosts.aggregates.of(node.report.host)) for node in self.rows()
        }
        assert hosts.aggregates.sets.judged(lambda ids: ids in sets).sum() == len(sets)
        assert hosts.aggregates.sets.judged(lambda ids: True).sum() == len(sets)
        machines = {self.machine_of(node) for node in self.rows()}
        assert hosts.interned['machine'].judged(lambda value: True).sum() == len(machines)
        types = {node.report.hypervisor_type for node in self.rows()}
        assert hosts.interned['hypervisor_type'].judged(lambda value: True).sum() == len(types)

    def zones_of(self, host):
        return {one.availability_zone for one in self.aggregates.values() if host in one.hosts}


ClusterMachine.TestCase.settings = settings(max_examples=cases(50), stateful_step_count=30)
TestCluster = ClusterMachine.TestCase
