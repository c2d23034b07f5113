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
"""The groups of a real cloud through our own engine: nodes report, groups are created, members
built.

The sequences and their reading are those of ``joint_huawei``. A group is created when its first
member comes; each member is then asked for, by hint, when its turn comes. Nodes report their cells
in ComputeNode objects; filters, weighers and claims in SQLite are those of a scheduler.
"""

import collections
import contextlib
import itertools
import json
import pathlib
import tempfile
import time

from nova_sched import errors, objects, service
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf import CONF
from nova_sched.db import engine, schema
from nova_sched.groups.definition import Definition, Member, MemberFlavor
from nova_sched.groups.members import member_spec
from nova_sched.hardware.numa import HostCell, HostTopology
from nova_sched.rpc import reports, translate
from nova_sched.tests import checker
from nova_sched.tests.bench import joint_huawei
from nova_sched.tests.bench.joint_tables import ENGINE
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.options import settings

GIB = 1024
NODE = json.loads(pathlib.Path(__file__).with_name('node.json').read_text())
SETTINGS = {
    'topology.levels': ['host', 'rack'],
    # Nodes report once: no filter asks whether they are still up.
    'filter_scheduler.enabled_filters': ['NUMATopologyFilter'],
    'groups.improve_seconds': 0.0,
    'groups.explain_seconds': 0.0,
    'claims.store': 'sql',
}
FLAT = {
    f'filter_scheduler.{name}_weight_multiplier': 0.0 for name in ('ram', 'cpu', 'disk', 'io_ops')
}
# Nothing but order counts; or fill up what is begun, host by host and cell by cell.
ORDERS = {
    'first fit': FLAT,
    'pack': FLAT
    | {
        'filter_scheduler.ram_weight_multiplier': -1.0,
        'compute.packing_host_numa_cells_allocation_strategy': True,
    },
}


def node(number, row, rack):
    """The report of one host, from a ComputeNode; a cell that has nothing is none."""
    name, cells, first = f'host-{number:04}', [], 0
    for cell in (1, 2):
        cpus, memory_mb = int(row[f'CPU{cell}']), int(row[f'RAM{cell}']) * GIB
        if cpus:
            cells.append(
                HostCell(len(cells), frozenset(), frozenset(range(first, first + cpus)), memory_mb)
            )
        first += cpus
    memory_mb = sum(cell.memory_mb for cell in cells)
    facts = {
        'uuid': uuid_of(name),
        'host': name,
        'hypervisor_hostname': name,
        'vcpus': 0,
        'vcpus_used': 0,
        'memory_mb': memory_mb,
        'memory_mb_used': 0,
        'local_gb_used': 0,
        'running_vms': 0,
        'stats': {'rack': f'rack-{rack}'},
        'numa_topology': HostTopology(tuple(cells)).to_json(),
    }
    primitive = {**NODE, 'nova_object.data': {**NODE['nova_object.data'], **facts}}
    own = {
        'inventories': {'PCPU': _inventory(first), 'MEMORY_MB': _inventory(memory_mb)},
        'parent_provider_uuid': None,
    }
    return reports.report(
        objects.from_primitive(primitive), name, instances=[], inventories={facts['uuid']: own}
    )


def _inventory(total):
    return {'total': total, 'reserved': 0, 'allocation_ratio': 1.0}


def member(server):
    specs = {'hw:numa_nodes': str(server.cells), 'hw:cpu_policy': 'dedicated'}
    name = f'{server.vcpus} vCPUs, {server.ram_gb} GiB, {server.cells} cells'
    return Member(
        server.name, MemberFlavor(server.vcpus, server.ram_gb * GIB, extra_specs=specs, name=name)
    )


def definition(group):
    """The Definition of a group of ``joint_huawei``."""
    names, by_domain = [one.name for one in group.members], collections.defaultdict(list)
    for one in group.members:
        by_domain[one.fault_domain].append(one.name)
    policies = joint_huawei.policies_of(group.name, names, by_domain)
    return Definition({one.name: member(one) for one in group.members}, tuple(policies))


class Replay:
    """One sequence in one scheduler."""

    def __init__(self, scheduler, sequence):
        self._scheduler, self._servers = scheduler, joint_huawei.servers(sequence)
        members = collections.defaultdict(list)
        for server in self._servers:
            if server.group:
                members[server.group].append(server)
        self.groups = {name: joint_huawei.Group(name, own) for name, own in members.items()}
        self.uuids, self.hosts, self.refused = {}, {}, {}
        self.create_s, self.build_s = [], []

    def run(self):
        for server in self._servers:
            if server.group is not None and server.group not in self.uuids:
                self._create(self.groups[server.group])
            uuid = self.uuids[server.group] if server.group is not None else None
            if server.group is None or uuid is not None:
                self._build(server, uuid)

    def _create(self, group):
        began_s, self.uuids[group.name] = time.perf_counter(), None
        try:
            view = self._scheduler.groups.create(definition(group), {}, name=' '.join(group.name))
            self.uuids[group.name] = view.uuid
        except errors.GroupRefused as refusal:
            self.refused[group.name] = str(refusal)
        self.create_s.append(time.perf_counter() - began_s)

    def _build(self, server, uuid):
        instance, began_s = uuid_of(server.name), time.perf_counter()
        spec = member_spec.spec_of(member(server), instance_uuid=instance)
        if uuid is not None:
            spec.scheduler_hints = {'top_group': [uuid], 'member': [server.name]}
        try:
            ((chosen, *_),) = self._scheduler.place(translate.requests(spec, [instance]))
        except errors.NoValidHost as refusal:
            self.refused[server.name] = str(refusal)
        else:
            self.hosts[server.name] = chosen.host
        self.build_s.append(time.perf_counter() - began_s)

    def check(self, rows, racks):
        """Raise AssertionError if a group's policy is broken, or dedicated CPUs were given
        twice."""
        names = [f'host-{number:04}' for number in range(len(rows))]
        domains = {
            'host': dict(zip(names, names, strict=True)),
            'rack': dict(zip(names, racks, strict=True)),
        }
        cluster = checker.Cluster({name: {} for name in names}, domains)
        for group in self.groups.values():
            for policy in definition(group).policies:
                if checker.breaches(policy, self.hosts, cluster):
                    raise AssertionError(policy.name)
        given = collections.Counter(
            (claim.node_uuid, cpu)
            for claim in self._scheduler.call(self._scheduler.claim_service.claims_of, None)
            for placed in claim.parts.cells.cells
            for cpu in placed.host_cpus
        )
        if any(count > 1 for count in given.values()):
            raise AssertionError('dedicated CPUs were given twice')

    def satisfied(self):
        """How many groups have all their members built."""
        return sum(
            all(one.name in self.hosts for one in group.members) for group in self.groups.values()
        )


@contextlib.contextmanager
def scheduler(order, count):
    """A scheduler over a new database with the first ``count`` hosts."""
    with tempfile.TemporaryDirectory() as folder, settings(SETTINGS | ORDERS[order]):
        storage = engine.create(f'sqlite:///{folder}/claims.sqlite')
        schema.upgrade(storage)
        made = service.scheduler(CONF, SqlClaimStore(storage))
        made.start()
        try:
            _, racks = joint_huawei.hosts()
            for number, row in enumerate(joint_huawei.table('PM_res')[:count]):
                made.report(node(number, row, racks[number]))
            yield made
        finally:
            made.stop()
            storage.dispose()


def replay(sequence, order, count=None):
    """The Replay of a whole sequence, checked."""
    rows, (_, racks) = joint_huawei.table('PM_res')[:count], joint_huawei.hosts()
    with scheduler(order, count) as made:
        done = Replay(made, sequence)
        done.run()
        done.check(rows, racks[:count].tolist())
    return done


def rows(_budget_s=0.0):
    for count, sequence, order in itertools.product(
        (None, joint_huawei.FIRST_HOSTS), joint_huawei.SEQUENCES, ORDERS
    ):
        done = replay(sequence, order, count)
        figures = (
            f'{sequence}, {"all" if count is None else f"{count:,}"} hosts, claims in SQLite',
            order,
            f'{done.satisfied()} of {len(done.groups)}',
            f'{len(done.hosts):,}',
            f'{p50_ms(done.create_s):.1f} ms',
            f'{p99_ms(done.create_s):.1f} ms',
            f'{p50_ms(done.build_s):.1f} ms',
        )
        yield dict(zip(ENGINE, figures, strict=True))
