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
"""Catalogues, and nodes that may or may not do their jobs, for the tests of what fits where."""

import json

from hypothesis import strategies as st

from nova_sched.engine import catalog
from nova_sched.extensions.queues.catalogue import Catalogue, Special
from nova_sched.groups.definition import MemberFlavor
from nova_sched.hardware import pci
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import aggregate, report, uuid_of
from nova_sched.tests.rules import FILTERS, WEIGHERS
from nova_sched.tests.unit import strategies

GOLD, VGPU, PCI_GPU = 'CUSTOM_GOLD', 'VGPU', ('10de', '20b0')
ALIASES = {
    'gpu': ('legacy', ({'vendor_id': '10de', 'product_id': '20b0'},)),
    'nic': ('preferred', ({'vendor_id': '8086', 'product_id': '1572'},)),
}
SPECIALS = tuple(
    map(
        Special.parse,
        'pci:gpu pci:nic resource:CUSTOM_GOLD resource:VGPU trait:HW_A '
        'trait:HW_C zone:a zone:nova'.split(),
    )
)


def flavor(name='tiny', vcpus=1, memory_mb=8, root_gb=1, **extra_specs):
    """A flavor; ``extra_specs`` by words, `__` stands for a colon. ``more`` is a mapping of
    others."""
    sizes = {key: extra_specs.pop(key) for key in ('ephemeral_gb', 'swap') if key in extra_specs}
    more = extra_specs.pop('more', {})
    specs = {key.replace('__', ':'): value for key, value in extra_specs.items()}
    return MemberFlavor(
        vcpus, memory_mb, root_gb, **sizes, extra_specs={**specs, **more}, name=name
    )


FLAVORS = (
    flavor(),
    flavor('medium', 2, 12, 4, ephemeral_gb=1),
    flavor('large', 8, 16, 10, swap=1025),
    flavor('gpu', 2, pci_passthrough__alias='gpu:1'),
    flavor(
        'gpus', 2, pci_passthrough__alias='gpu:2,nic:1', hw__pci_numa_affinity_policy='preferred'
    ),
    flavor('gold', resources__CUSTOM_GOLD='2'),
    flavor('fast', trait__HW_A='required', trait__HW_B='forbidden'),
    flavor('secure', os__secure_boot='required', trait__HW_C='required'),
    flavor('group', resources1__VGPU='1', trait1__HW_A='required'),
    flavor('groups', resources1__VGPU='1', resources2__CUSTOM_GOLD='1', group_policy='isolate'),
    flavor(
        'kvm', capabilities__hypervisor_type='QEMU', capabilities__cpu_info__vendor='s== Intel'
    ),
    flavor('boosted', boost='>= 1'),
    flavor('typed', aggregate_instance_extra_specs__boost='2', capabilities__vcpus_total='>= 2'),
    flavor('senseless', capabilities__free_ram_mb='>= many'),
    flavor('cells', 2, hw__numa_nodes='2'),
)


def catalogue(*flavors, specials=(), version=1):
    """A catalogue; flavors and special things may be given by their texts, too."""
    made = tuple(flavor(one) if isinstance(one, str) else one for one in flavors)
    parsed = tuple(Special.parse(one) if isinstance(one, str) else one for one in specials)
    return Catalogue(version, made, parsed, ALIASES)


def rules(every=False, more=(), without=()):
    """The default ones; or all filters and weighers that there are, but for those ``without``
    which."""
    always = catalog.always()
    names = {*without, *(type(rule).__name__ for rule in always)}
    default = ['ComputeFilter', 'ComputeCapabilitiesFilter', 'ImagePropertiesFilter']
    enabled = [name for name in FILTERS if name not in names] if every else default
    filters = catalog.with_policies(tuple(FILTERS[name]() for name in enabled))
    return catalog.Rules(always, (*filters, *more), tuple(one() for one in WEIGHERS.values()))


def providers(vgpus, traits):
    """A provider tree with a device of so many VGPUs each below the node, as text; None without
    any."""
    root = uuid_of('node host-0')
    tree = {
        f'vgpu{number}': {
            'parent_provider_uuid': root,
            'inventories': {VGPU: {'total': total}},
            'traits': sorted(traits),
        }
        for number, total in enumerate(vgpus)
    }
    return json.dumps({root: {}, **tree}) if vgpus else None


@st.composite
def nodes(draw):
    """The report of the node host-0, with how old it is in seconds (``age``), and whether it is
    disabled."""
    columns = {name: draw(values) for name, values in strategies._columns(plain=False).items()}
    del columns['age'], columns['disabled'], columns['forced_down']
    # Most nodes can do some job, or there is nothing to compare.
    age = draw(st.sampled_from([0, 0, 0, 90]))
    disabled = draw(st.sampled_from([False, False, False, True]))
    if draw(st.booleans()):
        columns |= dict.fromkeys(
            ['vcpus_used', 'memory_mb_used', 'memory_mb_reserved', 'disk_gb_used'], 0
        )
        columns['traits'] -= {'COMPUTE_STATUS_DISABLED'}
    columns['instances'] = frozenset(columns['instances'])
    columns['traits'] |= draw(
        st.frozensets(
            st.sampled_from(['HW_A', 'HW_B', 'HW_C', 'COMPUTE_SECURITY_UEFI_SECURE_BOOT'])
        )
    )
    columns['pci_pools'] = draw(
        st.sampled_from(
            [
                None,
                pci.pools_to_json(
                    [pci.PciPool(*PCI_GPU, count=1), pci.PciPool('8086', '1572', count=1)]
                ),
            ]
        )
        | st.just(columns['pci_pools'])
    )
    columns['providers'] = providers(
        draw(st.lists(st.integers(0, 2), max_size=2)),
        draw(st.frozensets(st.sampled_from(['HW_A', 'HW_C']))),
    )
    made = report(**columns)
    gold, used = draw(st.sampled_from([None, 1, 3])), draw(st.integers(0, 3))
    if gold:
        made = made.__class__.from_json(made.to_json())
        made.inventories[GOLD], made.used[GOLD] = (
            Inventory(gold, step_size=draw(st.sampled_from([1, 2]))),
            used,
        )
    return made, age, disabled


@st.composite
def aggregates(draw):
    """Some aggregates that the node is in, and some that others are in."""
    names = st.frozensets(st.sampled_from(['host-0', 'elsewhere']))
    metadata = st.dictionaries(
        st.sampled_from([*strategies.METADATA, 'trait:HW_A']),
        st.sampled_from(['a', 'a, b', '2', '0.5', 'nan', 'x86_64', 'tiny', 'required']),
        max_size=3,
    )
    return [
        aggregate(number, draw(names), **draw(metadata))
        for number in range(draw(st.integers(0, 3)))
    ]


catalogues = st.builds(
    lambda flavors, specials: Catalogue(1, tuple(flavors), tuple(specials), ALIASES),
    st.lists(st.sampled_from(FLAVORS), max_size=6, unique_by=lambda one: one.name),
    st.lists(st.sampled_from(SPECIALS), max_size=5, unique=True),
)
