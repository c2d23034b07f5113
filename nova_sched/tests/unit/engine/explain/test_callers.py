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
"""What the caller of a refused request is told: nothing about the cloud, whatever refused it."""

import json
import re
import types

from nova_sched import errors
from nova_sched.engine.decide import CandidateSet, survivors
from nova_sched.engine.explain import callers, reasons
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import NOW, aggregate, cluster, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each, table
from nova_sched.tests.rules import FILTERS
from nova_sched.tests.unit.engine.world import Named, rules
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, told, wanted
from nova_sched.tests.unit.hardware.builders import request as device

HOSTS = ['secret-7', 'secret-8', 'secret-9']
HERE = uuid_of('there')
RUNNING = {'instances': [frozenset([HERE]), frozenset([HERE]), frozenset([HERE])]}
CELLS = told(machine(cell(0, [], range(1, 3), memory_mb=4096), pools=[pool(1)]))
LARGE = {'vcpus': 99, 'memory_mb': 999_999, 'root_gb': 99_999}
GPU = 'CUSTOM_GPU_MILLI'
VMDK = types.SimpleNamespace(id='image', disk_format='vmdk', properties=None)


def secret(**metadata):
    """An aggregate of all hosts."""
    return {'aggregates': [aggregate(1, HOSTS, **metadata)]}


def devices(host):
    """A node with a device that is used in part."""
    root = uuid_of(f'node {host}')
    gpu = {'inventories': {GPU: {'total': 100}}, 'used': {GPU: 60}, 'traits': []}
    return json.dumps({root: {}, 'gpu-5': {**gpu, 'parent_provider_uuid': root}})


# For each rule: hosts that it refuses, the request, and options.
REFUSING = {
    'AggregateCoreFilter': (secret(cpu_allocation_ratio='2.5'), LARGE, {}),
    'AggregateDiskFilter': (secret(disk_allocation_ratio='2.5'), LARGE, {}),
    'AggregateImagePropertiesIsolation': (
        secret(hw_architecture='secret86'), {'image_properties': {'hw_architecture': 'arm'}}, {},
    ),
    'AggregateInstanceExtraSpecsFilter': (
        secret(ssd='secret5'), {'extra_specs': {'ssd': 'true'}}, {},
    ),
    'AggregateIoOpsFilter': ({**secret(max_io_ops_per_host='5'), 'io_workload': 6}, {}, {}),
    'AggregateMultiTenancyIsolation': (
        secret(filter_tenant_id='secret1'), {'project_id': 'mine'}, {},
    ),
    'AggregateNumInstancesFilter': (
        {**secret(max_instances_per_host='5'), 'num_instances': 6}, {}, {},
    ),
    'AggregateRamFilter': (secret(ram_allocation_ratio='2.5'), LARGE, {}),
    'AggregateTypeAffinityFilter': (secret(instance_type='secret5'), {'flavor_name': 'tiny'}, {}),
    'AvailabilityZoneFilter': (
        secret(availability_zone='secret-north'), {'availability_zone': 'west'}, {},
    ),
    'ChildProviders': (
        {'providers': list(map(devices, HOSTS))}, {'extra_specs': {f'resources1:{GPU}': '90'}}, {},
    ),
    'ComputeCapabilitiesFilter': ({}, {'extra_specs': {'capabilities:vcpus_total': '>= 99'}}, {}),
    'ComputeFilter': ({'seen_s': NOW - 75}, {}, {}),
    'CoreFilter': ({}, LARGE, {}),
    'DifferentHostFilter': (RUNNING, {'hints': {'different_host': [HERE]}}, {}),
    'DisabledCompute': ({'disabled': True}, {}, {}),
    'DiskFilter': ({}, LARGE, {}),
    'ExclusiveDomain': ({}, {}, {}),
    'ImageMetadata': (
        {},
        {'image_properties': {'hw_disk_bus': 'virtio'}},
        {'scheduler.image_metadata_prefilter': True},
    ),
    'ImagePropertiesFilter': (
        {'supported_instances': (('secret86', 'kvm', 'hvm'),)},
        {'image_properties': {'hw_architecture': 'aarch64'}},
        {},
    ),
    'ImageTypeSupport': (
        {}, {'image': VMDK}, {'scheduler.query_placement_for_image_type_support': True},
    ),
    'IoOpsFilter': ({'io_workload': 99}, {}, {}),
    'IsolatedAggregates': (
        secret(**{'trait:CUSTOM_SECRET': 'required'}),
        {},
        {'scheduler.enable_isolated_aggregate_filtering': True},
    ),
    'IsolatedHostsFilter': (
        {},
        {},
        {'filter_scheduler.isolated_hosts': HOSTS, 'filter_scheduler.isolated_images': ['x']},
    ),
    'JsonFilter': ({}, {'hints': {'query': '[">", "$free_ram_mb", 999999]'}}, {}),
    'MetricsFilter': ({}, {}, {'metrics.weight_setting': ['secret=1']}),
    'NUMATopologyFilter': (CELLS, {'pieces': wanted(dedicated(3))}, {}),
    'NumInstancesFilter': ({'num_instances': 99}, {}, {}),
    'PciPassthroughFilter': (CELLS, {'pieces': wanted(requests=[device(3)])}, {}),
    'RamFilter': ({}, LARGE, {}),
    'RequestedAggregates': (
        secret(), {'destination': RequestedDestination(aggregates=(frozenset(['x']),))}, {},
    ),
    'RequestedZone': (
        {'aggregates': [aggregate(1, HOSTS, availability_zone='secret-north'),
                        aggregate(2, ['gone'], availability_zone='west')]},
        {'availability_zone': 'west'},
        {},
    ),
    'RequiredTraits': (
        {'traits': [frozenset(['HW_5'])] * 3}, {'required_traits': frozenset(['CUSTOM_X'])}, {},
    ),
    'ResourceCapacity': ({}, LARGE, {}),
    'RetryFilter': ({}, {'retry_hosts': frozenset((one, one) for one in HOSTS)}, {}),
    'SameHostFilter': ({}, {'hints': {'same_host': [HERE]}}, {}),
    'ServerGroupAffinityFilter': (
        {}, {'group': {'policy': 'affinity', 'hosts': ['secret-5']}}, {},
    ),
    'ServerGroupAntiAffinityFilter': (
        RUNNING, {'group': {'policy': 'anti-affinity', 'members': [HERE]}}, {},
    ),
    'SimpleCIDRAffinityFilter': (
        {'host_ip': '10.0.0.7'}, {'hints': {'build_near_host_ip': '192.0.2.1'}}, {},
    ),
    'TenantAggregates': (
        secret(filter_tenant_id='secret1'),
        {'project_id': 'mine'},
        {'scheduler.limit_tenants_to_placement_aggregate': True,
         'scheduler.placement_aggregate_required_for_tenants': True},
    ),
}  # fmt: skip
SILENT = {
    'AllHostsFilter': 'it refuses no host',
    'Understood': 'it repeats the request: see below',
}


def refusal(made, chain, **asked):
    """The NoValidHost of a request that no host passes."""
    wish = request(**asked)
    candidates = survivors(chain, made.hosts, wish)
    assert not candidates.left
    return reasons.refusal(candidates, chain, made.hosts, wish)


def test_the_table_has_every_rule():
    assert REFUSING.keys() | SILENT.keys() == FILTERS.keys()


@each('name', REFUSING)
def test_no_rule_tells_of_the_cloud(name):
    columns, asked, options = REFUSING[name]
    with settings(options):
        made = cluster(**{'host': HOSTS, 'nodename': HOSTS, **columns})
        if name == 'ExclusiveDomain':
            for node in list(made):
                made.set_tokens(node, frozenset(['secret']))
        error = refusal(made, rules([FILTERS[name]()], always_on=[]), **asked)
    assert error.reason.startswith(f'{errors.NOT_ENOUGH} Of 3 hosts, {name} removed the last 3: ')
    start = f'{errors.NOT_ENOUGH} {name} removed the last hosts: '
    assert error.for_tenants.startswith(start)
    assert not re.search(r'\d|secret|gpu', error.for_tenants, re.IGNORECASE)
    id_of_it = f'req-{uuid_of("request")}'
    whole = callers.for_caller(error, id_of_it, callers.RULES)
    assert len(str(whole)) <= 255  # as much as Nova keeps of a fault


def test_only_the_last_rule_is_told():
    chain = rules([Named('host-0'), FILTERS['DisabledCompute']()], always_on=[])
    error = refusal(cluster(3, disabled=True), chain)
    assert 'Before that, Named removed 2' in error.reason
    assert error.for_tenants == (
        f'{errors.NOT_ENOUGH} DisabledCompute removed the last hosts: they are disabled.'
    )


def test_a_plug_in_is_told_by_its_name():
    error = refusal(cluster(3), rules([Named()], always_on=[]))
    assert error.for_tenants == f'{errors.NOT_ENOUGH} Named removed the last hosts.'


REBUILD = {'hints': {'_nova_check_type': ['rebuild']}}


@table(
    'asked, said',
    {
        'what no rule knows': (
            {'unsupported': ('accel:x',)},
            'The request asks for what no rule knows: accel:x.',
        ),
        'a host that the request names': (
            {'force_hosts': ['mine']},
            (
                f'{errors.NOT_ENOUGH} force_hosts removed the last hosts: '
                'the request names host mine, which is not known.'
            ),
        ),
        'a host that Nova names for a rebuild': (
            {'force_hosts': ['mine'], **REBUILD},
            f'{errors.NOT_ENOUGH} force_hosts removed the last hosts.',
        ),
        'hosts that the request leaves out': (
            {'ignore_hosts': ['host-0', 'host-1', 'host-2']},
            (
                f'{errors.NOT_ENOUGH} ignore_hosts removed the last hosts: '
                'the request leaves them out.'
            ),
        ),
    },
)
def test_the_request_is_told_by_its_own_words(asked, said):
    assert refusal(cluster(3), rules(), **asked).for_tenants == said


@each('asked', [{}, {'force_hosts': ['mine']}])
def test_a_cloud_without_hosts(asked):
    assert refusal(cluster(0), rules(), **asked).for_tenants == errors.NOT_ENOUGH


def test_instances_that_found_a_host_are_not_counted():
    chain = rules([Named('host-0')], always_on=[])
    error = reasons.refusal(CandidateSet(3), chain, cluster(3).hosts, request(), 1, 2)
    assert '1 of 2 instances' in error.reason
    assert error.for_tenants == errors.NOT_ENOUGH


MEMBER = errors.MemberRefused('web/0', 'group x has no such member')
BY_RULE = errors.NoValidHost('All 7 are full.', for_tenants='X removed the last hosts.')


@table(
    'error, by_rules',
    {
        'a rule': (BY_RULE, 'X removed the last hosts. Operators find the details under req-1.'),
        'no text for tenants': (
            errors.NoValidHost('host a is full'),
            f'{errors.NOT_ENOUGH} Operators find the details under req-1.',
        ),
        'it runs on a host': (
            errors.AlreadyRunning('one', 'cmp-1'),
            (
                'Instance one runs on a host, and the request is not a move from there. '
                'Operators find the details under req-1.'
            ),
        ),
        'nothing to hide': (MEMBER, MEMBER.reason),
        'conflicts': (errors.TooManyConflicts(3), errors.TooManyConflicts(3).reason),
        'superseded': (errors.Superseded('one'), errors.Superseded('one').reason),
    },
)
def test_told(error, by_rules):
    assert callers.for_caller(error, 'req-1', callers.RULES).reason == by_rules
    assert callers.for_caller(error, 'req-1', callers.ALL) is error


@each('request_id', [None, ''])
def test_a_caller_without_an_id(request_id):
    found = callers.for_caller(BY_RULE, request_id, callers.RULES)
    assert found.reason == 'X removed the last hosts.'
