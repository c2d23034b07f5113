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
"""How each of Nova's rules is tried: what its requests, aggregates and options are made of."""

import dataclasses
from collections.abc import Callable
from typing import Any

from nova_sched.tests.nova_client import random_nodes
from nova_sched.tests.nova_client import random_wishes as wishes
from nova_sched.tests.nova_client.random_wishes import nothing

MANY = 25  # requests for rules that read a language of their own


@dataclasses.dataclass(frozen=True)
class Trial:
    """``request(dice, world)`` makes words of random_requests.spec, ``metadata(dice)`` those of an
    aggregate, ``options(dice)`` values by `group.name`. There are so many ``requests`` for each
    world."""

    request: Callable[..., dict[str, Any]] = nothing
    metadata: Callable[..., dict[str, str]] = nothing
    options: Callable[..., dict[str, Any]] = nothing
    requests: int = 10


def _namespace(dice):
    group = 'filter_scheduler.aggregate_image_properties_isolation'
    made = {f'{group}_separator': dice.choice(('.', '_', ''))}
    if dice.maybe(0.4):
        made[f'{group}_namespace'] = dice.choice(('', 'os', 'hw', 'no'))
    return made


def _isolation(dice):
    return {
        'filter_scheduler.isolated_images': dice.some(wishes.IMAGES, 2),
        'filter_scheduler.isolated_hosts': dice.some([f'cmp-{number}' for number in range(12)], 6),
        'filter_scheduler.restrict_isolated_hosts_to_isolated_images': dice.maybe(0.5),
    }


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
            f'{group}.{option}': dice.choice(
                [value for value in (0.0, 1.0, 2.5, -2.0) if value >= least]
            )
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
        *(f'{random_nodes.NO_VALUE}={ratio}' for ratio in ('1', '-1', '0.5')),
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


def _packing(dice):
    return {'compute.packing_host_numa_cells_allocation_strategy': dice.maybe(0.4)}


def _down_time(dice):
    return {'default.service_down_time': dice.choice((60, 120, 1000))}


FILTERS = {
    'AggregateImagePropertiesIsolation': Trial(
        wishes.compared_image, wishes.compared_values, _namespace
    ),
    'AggregateInstanceExtraSpecsFilter': Trial(
        wishes.aggregate_specs, wishes.aggregate_values, requests=MANY
    ),
    'AggregateIoOpsFilter': Trial(**_limit('max_io_ops_per_host', 1, 8, 9)),
    'AggregateMultiTenancyIsolation': Trial(wishes.tenant, wishes.tenants),
    'AggregateNumInstancesFilter': Trial(**_limit('max_instances_per_host', 1, 7, 50)),
    'AggregateTypeAffinityFilter': Trial(wishes.flavor, wishes.flavors),
    'AllHostsFilter': Trial(),
    'ComputeCapabilitiesFilter': Trial(wishes.capabilities, requests=MANY),
    'ComputeFilter': Trial(options=_down_time),
    'DifferentHostFilter': Trial(wishes.different_host),
    'ImagePropertiesFilter': Trial(
        wishes.hypervisor_image,
        options=lambda dice: {
            'filter_scheduler.image_properties_default_architecture': dice.choice(
                (None, 'x86_64', 'i686')
            )
        },
    ),
    'IoOpsFilter': Trial(**_limit('max_io_ops_per_host', 1, 8, 9)),
    'IsolatedHostsFilter': Trial(wishes.isolated_image, options=_isolation),
    'JsonFilter': Trial(wishes.query, requests=MANY),
    'MetricsFilter': Trial(options=_setting),
    'NUMATopologyFilter': Trial(wishes.topology, options=_packing),
    'NumInstancesFilter': Trial(**_limit('max_instances_per_host', 1, 7, 50)),
    'PciPassthroughFilter': Trial(wishes.devices),
    'SameHostFilter': Trial(wishes.same_host),
    'ServerGroupAffinityFilter': Trial(wishes.group('affinity')),
    'ServerGroupAntiAffinityFilter': Trial(wishes.apart),
    'SimpleCIDRAffinityFilter': Trial(wishes.subnet),
}
WEIGHERS = {
    'BuildFailureWeigher': _multiplier('build_failure_weight_multiplier'),
    'CPUWeigher': _multiplier('cpu_weight_multiplier'),
    'CrossCellWeigher': _multiplier('cross_cell_move_weight_multiplier', request=wishes.cell),
    'DiskWeigher': _multiplier('disk_weight_multiplier'),
    'HypervisorVersionWeigher': _multiplier('hypervisor_version_weight_multiplier'),
    'ImagePropertiesWeigher': dataclasses.replace(
        _multiplier('image_props_weight_multiplier', request=wishes.compared_image),
        options=_images,
        requests=8,
    ),
    'IoOpsWeigher': _multiplier('io_ops_weight_multiplier'),
    'MetricsWeigher': dataclasses.replace(
        _multiplier('weight_multiplier', group='metrics', key='metrics_weight_multiplier'),
        options=_metrics,
    ),
    'NumInstancesWeigher': _multiplier('num_instances_weight_multiplier'),
    'PCIWeigher': _multiplier('pci_weight_multiplier', least=0, request=wishes.devices),
    'RAMWeigher': _multiplier('ram_weight_multiplier'),
    'ServerGroupSoftAffinityWeigher': _multiplier(
        'soft_affinity_weight_multiplier', least=0, request=wishes.group('soft-affinity')
    ),
    'ServerGroupSoftAntiAffinityWeigher': _multiplier(
        'soft_anti_affinity_weight_multiplier', least=0, request=wishes.group('soft-anti-affinity')
    ),
}
