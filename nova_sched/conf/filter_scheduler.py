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
"""Options of the groups of Nova that filters and weighers, and the requests that they judge,
depend on."""

from oslo_config import cfg

ALL_FILTERS = 'nova.scheduler.filters.all_filters'
ALL_WEIGHERS = 'nova.scheduler.weights.all_weighers'

ARCHITECTURES = (
    'aarch64 alpha armv6 armv7b armv7l cris i686 ia64 lm32 m68k microblaze '
    'microblazeel mips mips64 mips64el mipsel openrisc parisc parisc64 ppc ppc64 '
    'ppc64le ppcemb ppcle s390 s390x sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa '
    'xtensaeb'
).split()


def _multiplier(name, default, what, **kwargs):
    return cfg.FloatOpt(
        f'{name}_weight_multiplier',
        default=default,
        mutable=True,
        help=f'Weight of {what} in the sum. The hosts of an aggregate whose metadata has a '
        'key of this name take the value from there; of several aggregates the '
        'smallest counts.',
        **kwargs,
    )


FILTER_SCHEDULER_OPTS = [
    cfg.MultiStrOpt(
        'available_filters',
        default=[ALL_FILTERS],
        mutable=True,
        help='Filters that enabled_filters may name, in addition to the entry points of '
        f'`nova_sched.filters`: dotted paths of classes. `{ALL_FILTERS}` stands for all '
        'filters of this package.',
    ),
    cfg.ListOpt(
        'enabled_filters',
        default=[
            'ComputeFilter',
            'ComputeCapabilitiesFilter',
            'ImagePropertiesFilter',
            'ServerGroupAntiAffinityFilter',
            'ServerGroupAffinityFilter',
        ],
        mutable=True,
        help='Filters that a host must pass, by class name, in order. The checks that '
        'Placement does for Nova (capacity, traits, zone, disabled computes) always '
        'run, before the first of these.',
    ),
    cfg.ListOpt(
        'weight_classes',
        default=[ALL_WEIGHERS],
        mutable=True,
        help='Weighers: dotted paths, or names of entry points of `nova_sched.weighers`. '
        f'`{ALL_WEIGHERS}` stands for all of these entry points, including those of '
        'plug-ins.',
    ),
    cfg.IntOpt(
        'host_subset_size',
        default=1,
        min=1,
        mutable=True,
        help='The host is picked at random among this many best ones.',
    ),
    cfg.BoolOpt(
        'shuffle_best_same_weighed_hosts',
        default=False,
        mutable=True,
        help='Shuffle the hosts that share the best weight, so that equal hosts fill evenly.',
    ),
    cfg.BoolOpt(
        'track_instance_changes',
        default=True,
        mutable=True,
        help='Keep the list of instances by host from the messages of compute nodes. '
        'Without it only claims and reports show which instance is on which host.',
    ),
    cfg.StrOpt(
        'image_properties_default_architecture',
        choices=ARCHITECTURES,
        mutable=True,
        help='Architecture that ImagePropertiesFilter assumes for images that name none.',
    ),
    cfg.IntOpt(
        'max_io_ops_per_host',
        default=8,
        min=0,
        mutable=True,
        help='IoOpsFilter refuses hosts on which this many builds, resizes, snapshots and '
        'the like run. AggregateIoOpsFilter takes the number from the metadata of '
        'aggregates where they have this key; of several the smallest counts.',
    ),
    cfg.IntOpt(
        'max_instances_per_host',
        default=50,
        min=1,
        mutable=True,
        help='NumInstancesFilter refuses hosts that hold this many instances. '
        'AggregateNumInstancesFilter takes the number from the metadata of aggregates '
        'where they have this key; of several the smallest counts.',
    ),
    cfg.ListOpt(
        'isolated_images',
        default=[],
        mutable=True,
        help='IDs of the images that IsolatedHostsFilter lets run on isolated_hosts only.',
    ),
    cfg.ListOpt(
        'isolated_hosts',
        default=[],
        mutable=True,
        help='Names of the hosts that IsolatedHostsFilter keeps for isolated_images.',
    ),
    cfg.BoolOpt(
        'restrict_isolated_hosts_to_isolated_images',
        default=True,
        mutable=True,
        help='Whether isolated_hosts run nothing but isolated_images. Without it they run '
        'other images too.',
    ),
    cfg.StrOpt(
        'aggregate_image_properties_isolation_namespace',
        mutable=True,
        help='If set, AggregateImagePropertiesIsolation reads only aggregate metadata whose '
        'key starts with this prefix and the separator. Nova has deprecated it: the '
        'rest of the key is not an image property then, so the filter lets nearly '
        'everything pass.',
    ),
    cfg.StrOpt(
        'aggregate_image_properties_isolation_separator',
        default='.',
        mutable=True,
        help='Separator between aggregate_image_properties_isolation_namespace and the rest '
        'of the key.',
    ),
    _multiplier('ram', 1.0, 'free memory; negative packs instead of spreading,'),
    _multiplier('cpu', 1.0, 'free vCPUs; negative packs instead of spreading,'),
    _multiplier('disk', 1.0, 'free disk; negative packs instead of spreading,'),
    _multiplier('io_ops', -1.0, 'running I/O operations; negative prefers idle hosts,'),
    _multiplier('soft_affinity', 1.0, 'members of the same soft-affinity group', min=0.0),
    _multiplier(
        'soft_anti_affinity',
        1.0,
        'hosts without members of the same soft-anti-affinity group',
        min=0.0,
    ),
    _multiplier(
        'hypervisor_version', 1.0, 'the version of the hypervisor; negative prefers older ones,'
    ),
    _multiplier('num_instances', 0.0, 'the number of instances; negative prefers hosts with few,'),
    _multiplier(
        'pci',
        1.0,
        'having few free PCI devices, which keeps hosts with many of them free',
        min=0.0,
    ),
    _multiplier(
        'build_failure', 1000000.0, 'builds that failed since the last good one, negated,'
    ),
    _multiplier(
        'cross_cell_move',
        1000000.0,
        'the cell that a server leaves; negative prefers other cells,',
    ),
    _multiplier(
        'image_props',
        0.0,
        'instances whose images have the same properties; negative spreads them, 0 '
        'here switches it off whatever aggregates say,',
    ),
    _multiplier(
        'fragmentation',
        0.0,
        'capacity that stays usable for the usual requests, which FragmentationWeigher learns; 0 '
        'here and in aggregates switches the weigher and the learning off,',
    ),
    cfg.BoolOpt(
        'keep_empty',
        default=False,
        mutable=True,
        help='FragmentationWeigher prefers any host with instances to an empty one.',
    ),
    _multiplier(
        'exit_time',
        0.0,
        'being empty hardly later with the server than without it, as far as ends of servers are '
        'known; 0 here and in aggregates switches it off,',
    ),
    cfg.ListOpt(
        'image_props_weight_setting',
        default=[],
        mutable=True,
        help='Weight of an instance with the same image property, as `property=weight`. If '
        'empty, each property counts 1, else only the named ones. An item that makes '
        'no sense is logged and left out.',
    ),
]
COMPUTE_OPTS = [
    cfg.BoolOpt(
        'packing_host_numa_cells_allocation_strategy',
        default=False,
        mutable=True,
        help='A guest goes into the NUMA cells that are fuller already; else into the '
        'emptier ones. Compute nodes need the same value.',
    ),
]
METRICS_OPTS = [
    cfg.FloatOpt(
        'weight_multiplier',
        default=1.0,
        mutable=True,
        help='Weight of the metrics in the sum. The hosts of an aggregate whose metadata '
        'has a key `metrics_weight_multiplier` take the value from there; of several '
        'aggregates the smallest counts.',
    ),
    cfg.ListOpt(
        'weight_setting',
        default=[],
        mutable=True,
        help='The metrics that count, and by how much, as `name=ratio`: a host weighs the '
        'sum of value x ratio. MetricsFilter keeps the hosts that report all of them. '
        'An item that makes no sense is logged and left out.',
    ),
    cfg.BoolOpt(
        'required',
        default=True,
        mutable=True,
        help='Requests fail while a candidate host does not report one of these metrics: '
        'enable MetricsFilter to exclude such hosts. If false, such a host weighs '
        'weight_of_unavailable.',
    ),
    cfg.FloatOpt(
        'weight_of_unavailable',
        default=-10000.0,
        mutable=True,
        help='Weight of a host that does not report one of the metrics, if they are not required.',
    ),
]
PCI_OPTS = [
    cfg.MultiStrOpt(
        'alias',
        default=[],
        help='A name for PCI devices, for the extra spec `pci_passthrough:alias` of '
        'flavors, as in Nova: a JSON object with `name`; `vendor_id` and `product_id` '
        '(four hexadecimal digits) or `resource_class`; `device_type` (`type-PCI`, '
        '`type-PF` or `type-VF`); `numa_policy` (`legacy`, `preferred`, `required` or '
        '`socket`); `traits`; `live_migratable`. Several of one name are alternatives. '
        'Only members of groups need it, because they are planned before Nova asks for '
        'the devices: copy it from the configuration of the API. May be given several '
        'times.',
    ),
]
WORKAROUNDS_OPTS = [
    cfg.BoolOpt(
        'disable_fallback_pcpu_query',
        default=False,
        mutable=True,
        help='Place servers with dedicated CPUs only on hosts that reserve such CPUs '
        '([compute] cpu_dedicated_set on the compute node). Without it, a host that '
        'reserves none may use shared CPUs for them. NUMATopologyFilter then reads the '
        'free CPUs from its NUMA cells.',
    ),
]
OPTS = {
    'filter_scheduler': FILTER_SCHEDULER_OPTS,
    'compute': COMPUTE_OPTS,
    'metrics': METRICS_OPTS,
    'pci': PCI_OPTS,
    'workarounds': WORKAROUNDS_OPTS,
}
