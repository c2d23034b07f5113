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

"""Options of Nova's [filter_scheduler] group, for the rules that stand in this release."""

from oslo_config import cfg

ALL_FILTERS = 'nova.scheduler.filters.all_filters'
ALL_WEIGHERS = 'nova.scheduler.weights.all_weighers'

ARCHITECTURES = (
    'aarch64 alpha armv6 armv7b armv7l cris i686 ia64 lm32 m68k microblaze microblazeel mips mips64 mips64el '
    'mipsel openrisc parisc parisc64 ppc ppc64 ppc64le ppcemb ppcle s390 s390x sh4 sh4eb sparc sparc64 '
    'unicore32 x86_64 xtensa xtensaeb'
).split()


def _multiplier(name, default, what, **kwargs):
    return cfg.FloatOpt(
        f'{name}_weight_multiplier',
        default=default,
        mutable=True,
        help=f'Weight of {what} in the sum. The hosts of an aggregate whose metadata has a key of this name '
        'take the value from there; of several aggregates the smallest counts.',
        **kwargs,
    )


GROUP = 'filter_scheduler'
OPTS = [
    cfg.MultiStrOpt(
        'available_filters',
        default=[ALL_FILTERS],
        mutable=True,
        help='Filters that enabled_filters may name, beside those that entry points of `nova_sched.filters` '
        f'bring: dotted paths of classes. `{ALL_FILTERS}` stands for all filters of this package.',
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
        help='Filters that a host must pass, by class name, in order. What Placement does for Nova '
        '(capacity, traits, zone, disabled computes) is always checked, before the first of these.',
    ),
    cfg.ListOpt(
        'weight_classes',
        default=[ALL_WEIGHERS],
        mutable=True,
        help='Weighers: dotted paths, or names of entry points of `nova_sched.weighers`. '
        f'`{ALL_WEIGHERS}` stands for all of these entry points, those of plug-ins among them.',
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
        help='Keep the list of instances by host from the messages of compute nodes. Without it only claims '
        'and reports tell which instance is where.',
    ),
    cfg.StrOpt(
        'image_properties_default_architecture',
        choices=ARCHITECTURES,
        mutable=True,
        help='Architecture that ImagePropertiesFilter assumes for images that name none.',
    ),
    _multiplier('ram', 1.0, 'free memory; negative packs instead of spreading,'),
    _multiplier('cpu', 1.0, 'free vCPUs; negative packs instead of spreading,'),
    _multiplier('disk', 1.0, 'free disk; negative packs instead of spreading,'),
    _multiplier('io_ops', -1.0, 'running I/O operations; negative prefers idle hosts,'),
    _multiplier('soft_affinity', 1.0, 'members of the same soft-affinity group', min=0.0),
    _multiplier(
        'soft_anti_affinity', 1.0, 'hosts without members of the same soft-anti-affinity group', min=0.0
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
