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
"""The worked examples of the manual on a simulated fleet: planned, built member by member,
changed, deleted.

After each step all policies are judged by the tests' own checker, from what the answers say.
"""

import re
from pathlib import Path

import pytest
from oslo_context.context import RequestContext

from nova_sched import objects
from nova_sched.groups import template
from nova_sched.groups.members import member_spec
from nova_sched.tests import checker
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import at_once, compute_node, eventually, running
from nova_sched.tests.hardware_objects import node_fields
from nova_sched.tests.options import settings
from nova_sched.tests.unit.hardware.builders import cell, machine, pool

EXAMPLES = Path(__file__).resolve().parents[3] / 'doc' / 'source' / 'examples' / 'groups'
LEVELS = ('host', 'rack', 'room', 'zone', 'power_feed')
CONTEXT = RequestContext(overwrite=False, project_id='ours', user_id='somebody')
ALIAS = '{"name": "nic", "vendor_id": "8086", "product_id": "1572"}'
OPTIONS = {
    'topology.orders': ['host < power_feed'],
    'pci.alias': [ALIAS],
    'filter_scheduler.enabled_filters': [
        'ComputeFilter',
        'NUMATopologyFilter',
        'PciPassthroughFilter',
    ],
}

# Three zones of two rooms, each with three racks of four hosts; the power feeds go across the
# racks.
HOSTS = [
    {
        'host': f'z{zone}m{room}r{rack}h{number}',
        'zone': f'z{zone}',
        'room': f'z{zone}m{room}',
        'rack': f'z{zone}m{room}r{rack}',
        'power_feed': f'z{zone}{"ab"[number % 2]}',
    }
    for zone in range(3)
    for room in range(2)
    for rack in range(3)
    for number in range(4)
]
# In each of two cells 8 shared CPUs and 8 dedicated ones, huge pages, and two devices.
MACHINE = machine(
    *(
        cell(
            number,
            range(16 * number, 16 * number + 8),
            range(16 * number + 8, 16 * number + 16),
            memory_mb=32768,
            pages=[(4, 4_194_304), (2048, 8192)],
        )
        for number in range(2)
    ),
    pools=[pool(2, number) for number in range(2)],
)

# Parameters of the second definition, with which each group is updated.
UPDATES = {
    'autoscaling': {'capacity': 7},
    'batch-farm': {},
    'database-shards': {},
    'ha-pair': {'with_witness': False},
    'hadoop-cells': {'workers': 4},
    'near-caches': {},
    'packet-gateway': {},
    'tenant-racks': {'vaults': 6},
    'three-hosts': {'servers': 4},
    'three-tier': {},
    'web-tier': {'servers': 9},
}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    folder, options = tmp_path_factory.mktemp('daemon'), {'groups.solver': True}
    with settings(OPTIONS), running('fake://', folder, options) as daemon:
        told = ('rack', 'room', 'power_feed')
        nodes = [
            compute_node(
                one['host'],
                vcpus=16,
                memory_mb=65536,
                local_gb=1000,
                stats={name: one[name] for name in told},
                **node_fields(MACHINE),
            )
            for one in HOSTS
        ]
        tree = {'PCPU': {'total': 16}, 'VCPU': {'total': 16}, 'MEMORY_MB': {'total': 65536}}
        at_once(
            lambda node: daemon.stats.update_resource_stats(
                node.host,
                node,
                inventories={node.uuid: {'inventories': tree | {'DISK_GB': {'total': 1000}}}},
            ),
            nodes,
        )
        zones = [
            objects.Aggregate(
                id=number,
                name=f'z{number}',
                hosts=[one['host'] for one in HOSTS if one['zone'] == f'z{number}'],
                metadata={'availability_zone': f'z{number}'},
            )
            for number in range(3)
        ]
        daemon.scheduler.update_aggregates(objects.AggregateList(objects=zones))
        eventually(lambda: len(daemon.table('aggregates')) == 3)
        yield daemon


def read(name, parameters=None):
    return template.read(text(name), parameters, levels=LEVELS)


def text(name):
    return (EXAMPLES / f'{name}.yaml').read_text('utf-8')


def check(group, definition):
    """What the answer says of each member breaks no policy and asks no host for more than it
    has."""
    assert {one.path for one in group.members} == definition.members.keys()
    placement = {one.path: one.host for one in group.members}
    needs = {
        path: checker.Need(ways=[_amounts(member.flavor)])
        for path, member in definition.members.items()
    }
    domains = {
        level: {one['host']: one.get(level, one['host']) for one in HOSTS} for level in LEVELS
    }
    free = {'vcpus': 16, 'memory_mb': 65536, 'dedicated': 16, 'devices': 4}
    cluster = checker.Cluster(free={one['host']: free for one in HOSTS}, domains=domains)
    assert checker.violations(placement, needs, definition.policies, cluster) == []
    assert all(one.domains['rack'] == domains['rack'][one.host] for one in group.members)


def _amounts(flavor):
    own = flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'
    return {
        'vcpus': 0 if own else flavor.vcpus,
        'dedicated': flavor.vcpus if own else 0,
        'memory_mb': flavor.memory_mb,
        'devices': int('pci_passthrough:alias' in flavor.extra_specs),
    }


def build(cloud, group, definition, paths):
    """A conductor's calls for servers that are these members; path -> host."""
    found = {}
    for path in paths:
        instance = uuid_of(f'{group.uuid} {path}')
        asked = member_spec.spec_of(definition.members[path], 'ours', 'somebody', instance)
        asked.scheduler_hints = {'top_group': [group.uuid], 'member': [path]}
        ((chosen, *_),) = cloud.scheduler.select_destinations(asked, [instance])
        found[path] = chosen.service_host
    return found


def claims_of(cloud, group):
    return [row for row in cloud.table('claims') if group.uuid in row]


@pytest.mark.parametrize('name', UPDATES)
def test_an_example_from_its_plan_to_its_end(cloud, name):
    definition = read(name)
    group = cloud.groups.create(text(name), name, context=CONTEXT)
    assert group.status == 'planned'
    check(group, definition)

    paths = list(definition.members)
    planned = {one.path: one.host for one in group.members}
    assert build(cloud, group, definition, paths[::2]) == {
        path: planned[path] for path in paths[::2]
    }
    check(cloud.groups.plan(group.uuid), definition)
    build(cloud, group, definition, paths[1::2])
    group = cloud.groups.show(group.uuid)
    assert {one.state for one in group.members} == {'pending'}
    check(group, definition)

    changed = read(name, UPDATES[name])
    group = cloud.groups.update(group.uuid, text(name), UPDATES[name], generation=1)
    assert (group.generation, group.moves) == (2, [])
    check(group, changed)
    here = {one.path: one.host for one in group.members}
    stayed = planned.keys() & here.keys()
    assert {path: here[path] for path in stayed} == {path: planned[path] for path in stayed}
    new = [path for path in changed.members if path not in definition.members]
    assert build(cloud, group, changed, new) == {path: here[path] for path in new}

    cloud.groups.delete(group.uuid)
    for path in {*definition.members, *changed.members}:
        cloud.claims.abort_claim(uuid_of(f'{group.uuid} {path}'))
    assert claims_of(cloud, group) == []


def test_all_examples_are_tried():
    assert {path.stem for path in EXAMPLES.glob('*.yaml')} == set(UPDATES)


def test_a_fleet_of_their_own(cloud):
    """Names of hosts say where they are; the test would judge by nothing else."""
    assert all(re.fullmatch(r'z\dm\dr\dh\d', one['host']) for one in HOSTS)
    assert len(cloud.table('nodes')) == len(HOSTS)
