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
"""How each of Nova's rules is tried: what its requests, aggregates and options are made of.

A trial is three functions of chance. They are built to hit: names are shared between requests and hosts,
limits lie where hosts are, and one thing in ten is wrong.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from nova_sched.tests.nova_client import queries, random_hardware, random_nodes, random_requests
from nova_sched.tests.nova_client.cloud import CELL, OTHER_CELL
from nova_sched.tests.nova_client.dice import WORDS

PROJECTS = ('demo', 'admin', 'Demo', '7')
FLAVORS = ('m1.small', 'm1', 'm1.small ', 'large,huge', 'x')
IMAGES = ('11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222')


def nothing(dice, *_):
    return {}


@dataclasses.dataclass(frozen=True)
class Trial:
    """``request(dice, world)`` makes words of random_requests.spec, ``metadata(dice)`` those of an aggregate,
    ``options(dice)`` values by `group.name`."""

    request: Callable[..., dict[str, Any]] = nothing
    metadata: Callable[..., dict[str, str]] = nothing
    options: Callable[..., dict[str, Any]] = nothing


# Extra specs.

SCOPE = 'aggregate_instance_extra_specs'
AGGREGATE_KEYS = ('tier', 'tier', 'ssd', 'size', 'size', 'no-such-key', f'{SCOPE}:tier', 'tier:x')
PATHS = (
    'hypervisor_type',
    'hypervisor_version',
    'hypervisor_hostname',
    'host',
    'nodename',
    'cpu_info:arch',
    'cpu_info:vendor',
    'cpu_info:model',
    'cpu_info:features',
    'cpu_info:topology:cores',
    'cpu_info:topology:sockets',
    'cpu_info:topology:no-such-step',
    'cpu_info:maxphysaddr:bits',
    'cpu_info:arch:deeper',
    'cpu_info',
    'free_ram_mb',
    'free_disk_mb',
    'vcpus_total',
    'vcpus_used',
    'total_usable_disk_gb',
    'disk_mb_used',
    'num_instances',
    'num_io_ops',
    'failed_builds',
    'ram_allocation_ratio',
    'host_ip',
    'cell_uuid',
    'stats:tier',
    'stats:no-such-stat',
    'free_ram_mb:deeper',
    'no_such_attribute',
    '',
    *random_nodes.STATS,
)
FREE_KEYS = (
    'tier',
    'rack',
    'hypervisor_type',
    'free_ram_mb',
    'capabilities',
    'num_instances',
    'no such key',
    '',
)
FOUND = (
    *WORDS,
    *random_nodes.TYPES,
    *random_nodes.ARCHITECTURES,
    'Intel',
    'AMD',
    '8',
    "['aes']",
    CELL,
    '192.0.2.7',
)


def _capabilities(dice, world):
    keys = [
        *(f'capabilities:{dice.choice(PATHS)}' for _ in range(dice.choice((0, 1, 1, 2)))),
        *(dice.choice(FREE_KEYS) for _ in range(dice.choice((0, 0, 1)))),
        *(
            dice.choice(('hw:cpu_policy', 'trait:X', 'other:free_ram_mb', 'capabilities'))
            for _ in range(dice.maybe(0.1))
        ),
    ]
    specs = {key: dice.wish((*FOUND, dice.choice(world.names))) for key in keys}
    if dice.maybe(0.1):
        specs['hw:maxphysaddr_bits'] = dice.choice(('39', '46', '53', ' 40', 'many', ''))
    return {'extra_specs': specs}


def _aggregate_specs(dice, world):
    keys = [
        dice.choice(('', '', f'{SCOPE}:', f'{SCOPE}:', 'hw:', ':')) + dice.choice(AGGREGATE_KEYS)
        for _ in range(dice.choice((0, 1, 1, 2)))
    ]
    return {'extra_specs': {key: dice.wish() for key in keys}}


def _aggregate_values(dice):
    return {key: dice.commas((*WORDS, dice.number(), dice.number())) for key in dice.some(AGGREGATE_KEYS, 3)}


# Images.

PROPERTIES = {
    'hw_architecture': random_nodes.ARCHITECTURES,
    'img_hv_type': random_nodes.HYPERVISORS,
    'hw_vm_mode': random_nodes.MODES,
    'img_hv_requested_version': (
        '>=2.0',
        '<8.2.2',
        '>=1.0, <9.0',
        '==8.2.1',
        '!= 2.1.0',
        '>=0.0.1',
    ),
    'hw_maxphysaddr_bits': (0, 39, 46, 53),
}


def _hypervisor_image(dice, world):
    return {'image': None if dice.maybe(0.05) else random_nodes.image(dice, PROPERTIES), **_rebuild(dice)}


def _compared_image(dice, world):
    return {'image': None if dice.maybe(0.05) else random_nodes.image(dice), **_rebuild(dice)}


def _compared_values(dice):
    made = {}
    for name in dice.some((*random_nodes.PROPERTIES, 'os_no_such_property', 'tier', 'os_'), 3):
        values = tuple(map(str, random_nodes.PROPERTIES.get(name, WORDS)))
        made[name] = dice.commas(values)
    return made


def _namespace(dice):
    group = 'filter_scheduler.aggregate_image_properties_isolation'
    made = {f'{group}_separator': dice.choice(('.', '_', ''))}
    if dice.maybe(0.4):
        made[f'{group}_namespace'] = dice.choice(('', 'os', 'hw', 'no'))
    return made


def _isolation(dice):
    return {
        'filter_scheduler.isolated_images': dice.some(IMAGES, 2),
        'filter_scheduler.isolated_hosts': dice.some([f'cmp-{number}' for number in range(12)], 6),
        'filter_scheduler.restrict_isolated_hosts_to_isolated_images': dice.maybe(0.5),
    }


def _isolated_image(dice, world):
    return {
        'image': None if dice.maybe(0.1) else {},
        'image_id': dice.choice((*IMAGES, '33333333-3333-4333-8333-333333333333', None)),
        **_rebuild(dice),
    }


def _rebuild(dice):
    check = dice.choice((['rebuild'], ['rebuild', 'rebuild'], ['live'], []))
    return {'hints': {'_nova_check_type': check}} if dice.maybe(0.2) else {}


# Who is where.


def _near(dice, hint, world):
    named = dice.some(world.instances, 4) + dice.bag(('', 'no-uuid', dice.uuid()), dice.maybe(0.2))
    return {'hints': {hint: named} if dice.maybe(0.9) else {}} | ({} if dice.maybe(0.9) else _rebuild(dice))


def _same_host(dice, world):
    return _near(dice, 'same_host', world)


def _different_host(dice, world):
    return _near(dice, 'different_host', world)


def _group(dice, world):
    if dice.maybe(0.05):
        return {}
    policy = dice.choice(('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity', 'legacy'))
    members = dice.some(world.instances, 8)
    rules = dice.choice((None, {}, {'max_server_per_host': dice.choice(('0', '1', '2', '3', ' 2'))}))
    hosts = dice.some([*world.names, 'elsewhere'], 4)
    return {
        'instance_group': random_requests.group(policy, members, hosts=hosts, rules=rules),
        'instance_uuid': dice.choice((*members, dice.choice(world.instances), dice.uuid())),
    }


def _apart(dice, world):
    words = _group(dice, world)
    if words and dice.maybe(0.05):
        words['instance_group']._rules = {'max_server_per_host': 'many'}
    return words


def _subnet(dice, world):
    hints = {}
    if dice.maybe(0.95):
        address = dice.choice(
            (*filter(None, random_nodes.ADDRESSES), '192.0.2.0', '0.0.0.0', '::', '192.0.2', 'here', '')
        )
        hints['build_near_host_ip'] = [address] * dice.choice((1, 1, 1, 1, 2))
    if dice.maybe(0.8):
        hints['cidr'] = [
            dice.choice(
                (
                    '/24',
                    '/25',
                    '/32',
                    '/0',
                    '/16',
                    '/8',
                    '/64',
                    '/128',
                    '24',
                    '',
                    '/33',
                    '/-1',
                    '/x',
                    '/255.255.255.0',
                    '/0.0.0.255',
                    '/',
                )
            )
        ]
    return {'hints': hints}


def _tenant(dice, world):
    return {'project_id': dice.choice((*PROJECTS, None))}


def _tenants(dice):
    keys = (
        'filter_tenant_id',
        'filter_tenant_id2',
        'filter_tenant_id_west',
        'Filter_tenant_id',
        'filter_tenant',
        'tier',
    )
    return {key: dice.commas((*PROJECTS, '')) for key in dice.some(keys, 2)}


def _flavor(dice, world):
    return {'flavor_name': dice.choice(FLAVORS)}


def _flavors(dice):
    return {key: dice.commas(FLAVORS) for key in dice.some(('instance_type', 'flavor', 'Instance_type'), 2)}


def _query(dice, world):
    return {'hints': {'query': queries.hint(dice, world.names)} if dice.maybe(0.97) else {}}


def _cell(dice, world):
    if dice.maybe(0.2):
        return {}
    wanted = random_requests.destination(
        dice.choice((CELL, OTHER_CELL, None)), allow_cross_cell_move=dice.maybe(0.7)
    )
    return {'requested_destination': wanted}


# Numbers.


def _limit(option, *choices):
    """Of an option that aggregates override."""

    def options(dice):
        return {f'filter_scheduler.{option}': dice.choice(choices)}

    def metadata(dice):
        return {key: dice.number() for key in dice.some((option, f'{option}s', 'tier'), 2)}

    return {'options': options, 'metadata': metadata}


def _multiplier(option, group='filter_scheduler', key=None, least=-2.0, request=nothing):
    """The trial of a weigher: its multiplier as an option and in aggregates."""
    name = key or option

    def options(dice):
        return {
            f'{group}.{option}': dice.choice([value for value in (0.0, 1.0, 2.5, -2.0) if value >= least])
        }

    def metadata(dice):
        return {word: dice.number() for word in dice.some((name, name.upper(), 'tier'), 2)}

    return Trial(request, metadata, options)


def _setting(dice, names=random_nodes.METRICS):
    settings = (
        *(f'{name}={ratio}' for name in names for ratio in ('1.0', '-2', '0', ' 0.5')),
        'cpu.percent',
        'x=',
        '=1',
        'cpu.frequency=fast',
        f'{random_nodes.NO_VALUE}=1',
        'no.such.metric=1',
    )
    return {'metrics.weight_setting': dice.some(settings, 3)}


def _metrics(dice):
    return {
        **_setting(dice),
        'metrics.weight_multiplier': dice.choice((1.0, 0.0, -1.5)),
        'metrics.required': dice.maybe(0.2),
        'metrics.weight_of_unavailable': dice.choice((-10000.0, 0.0)),
    }


def _images(dice):
    names = (*random_nodes.PROPERTIES, 'no_such_property')
    settings = (
        *(f'{name}={ratio}' for name in names for ratio in ('1.0', '-2', '0')),
        'os_type',
        '=1',
        'os_type=x',
    )
    return {
        'filter_scheduler.image_props_weight_setting': dice.some(settings, 4),
        'filter_scheduler.image_props_weight_multiplier': dice.choice((0.0, 1.0, 1.0, -2.0)),
    }


# Hardware.


def _devices(dice, world):
    return {'pci_requests': None if dice.maybe(0.05) else random_hardware.pci_requests(dice)}


def _topology(dice, world):
    topology = random_hardware.guest_topology(dice) if dice.maybe(0.9) else None
    words = {
        'numa_topology': topology,
        'vcpus': sum(len(cell.total_cpus) for cell in topology.cells) if topology else 1,
    }
    if dice.maybe(0.3):
        words['network_metadata'] = random_hardware.networks(dice)
    if dice.maybe(0.4):
        words['pci_requests'] = dice.choice((None, random_hardware.pci_requests(dice, most=2)))
    policies = {'cpu_policy': ('dedicated', 'shared', 'mixed'), 'cpu_thread_policy': ('require', 'isolate')}
    asked = {name: dice.choice(values) for name, values in policies.items() if dice.maybe(0.3)}
    if dice.maybe(0.5):
        words['extra_specs'] = {f'hw:{name}': value for name, value in asked.items()}
    else:
        words['image'] = {f'hw_{name}': value for name, value in asked.items()}
    return words


def _packing(dice):
    return {'compute.packing_host_numa_cells_allocation_strategy': dice.maybe(0.4)}


def _patience(dice):
    return {'default.service_down_time': dice.choice((60, 120, 1000))}


FILTERS = {
    'AggregateImagePropertiesIsolation': Trial(_compared_image, _compared_values, _namespace),
    'AggregateInstanceExtraSpecsFilter': Trial(_aggregate_specs, _aggregate_values),
    'AggregateIoOpsFilter': Trial(**_limit('max_io_ops_per_host', 1, 8, 9)),
    'AggregateMultiTenancyIsolation': Trial(_tenant, _tenants),
    'AggregateNumInstancesFilter': Trial(**_limit('max_instances_per_host', 1, 7, 50)),
    'AggregateTypeAffinityFilter': Trial(_flavor, _flavors),
    'AllHostsFilter': Trial(),
    'ComputeCapabilitiesFilter': Trial(_capabilities),
    'ComputeFilter': Trial(options=_patience),
    'DifferentHostFilter': Trial(_different_host),
    'ImagePropertiesFilter': Trial(
        _hypervisor_image,
        options=lambda dice: {
            'filter_scheduler.image_properties_default_architecture': dice.choice((None, 'x86_64', 'i686'))
        },
    ),
    'IoOpsFilter': Trial(**_limit('max_io_ops_per_host', 1, 8, 9)),
    'IsolatedHostsFilter': Trial(_isolated_image, options=_isolation),
    'JsonFilter': Trial(_query),
    'MetricsFilter': Trial(options=_setting),
    'NUMATopologyFilter': Trial(_topology, options=_packing),
    'NumInstancesFilter': Trial(**_limit('max_instances_per_host', 1, 7, 50)),
    'PciPassthroughFilter': Trial(_devices),
    'SameHostFilter': Trial(_same_host),
    'ServerGroupAffinityFilter': Trial(_group),
    'ServerGroupAntiAffinityFilter': Trial(_apart),
    'SimpleCIDRAffinityFilter': Trial(_subnet),
}
WEIGHERS = {
    'BuildFailureWeigher': _multiplier('build_failure_weight_multiplier'),
    'CPUWeigher': _multiplier('cpu_weight_multiplier'),
    'CrossCellWeigher': _multiplier('cross_cell_move_weight_multiplier', request=_cell),
    'DiskWeigher': _multiplier('disk_weight_multiplier'),
    'HypervisorVersionWeigher': _multiplier('hypervisor_version_weight_multiplier'),
    'ImagePropertiesWeigher': dataclasses.replace(
        _multiplier('image_props_weight_multiplier', request=_compared_image), options=_images
    ),
    'IoOpsWeigher': _multiplier('io_ops_weight_multiplier'),
    'MetricsWeigher': dataclasses.replace(
        _multiplier('weight_multiplier', group='metrics', key='metrics_weight_multiplier'), options=_metrics
    ),
    'NumInstancesWeigher': _multiplier('num_instances_weight_multiplier'),
    'PCIWeigher': _multiplier('pci_weight_multiplier', least=0, request=_devices),
    'RAMWeigher': _multiplier('ram_weight_multiplier'),
    'ServerGroupSoftAffinityWeigher': _multiplier('soft_affinity_weight_multiplier', least=0, request=_group),
    'ServerGroupSoftAntiAffinityWeigher': _multiplier(
        'soft_anti_affinity_weight_multiplier', least=0, request=_group
    ),
}
