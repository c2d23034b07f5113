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
"""Which requests go to a queue, which to the scheduler, and why."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched import errors, objects
from nova_sched.conf import CONF
from nova_sched.engine.decide import survivors
from nova_sched.extensions.queues.catalogue import Catalogue, Special
from nova_sched.extensions.queues.conductor.routing import Concerns, route
from nova_sched.groups.definition import Image, Member, MemberFlavor
from nova_sched.groups.members import member_spec
from nova_sched.state.request import MemberPlacement
from nova_sched.tests import options
from nova_sched.tests.builders import read, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.reference import REFERENCE, scenario
from nova_sched.tests.rows import each, each_afresh, table
from nova_sched.tests.unit.extensions.queues.catalogues import (
    ALIASES,
    FLAVORS,
    SPECIALS,
    aggregates,
    catalogue,
    flavor,
    nodes,
    rules,
)
from nova_sched.tests.unit.extensions.queues.test_fit import a_cluster

WHOLE = catalogue(*FLAVORS, specials=SPECIALS)
ME = uuid_of('me')
DEVICES = {
    'gpu-a100': ('legacy', ({'vendor_id': '10de', 'product_id': '20b0', 'dev_type': 'type-PCI'},)),
    'nic-x710': (
        'preferred',
        ({'vendor_id': '8086', 'product_id': '1572', 'dev_type': 'type-PF'},),
    ),
}


def asked(chosen=FLAVORS[0], image=None, zone=None, hints=(), bfv=False, **fields):
    """The RequestSpec of a server of a flavor, with these fields changed."""
    member = Member('me', chosen, image, zone, dict(hints), bfv)
    spec = member_spec.spec_of(member, 'project', 'user', ME, ALIASES)
    for name, value in fields.items():
        setattr(spec, name, value)
    return spec


def way(spec, concerns=None, **facts):
    request = dataclasses.replace(read(spec), **facts)
    return route(request, spec, WHOLE, *([concerns] if concerns else []))


def more(**extra_specs):
    """The flavor tiny with more extra specs."""
    return flavor('tiny', **extra_specs)


@each('queue', WHOLE.queues, ids=str)
def test_what_a_queue_is_for_goes_there(queue):
    spec = WHOLE.spec(queue, ME, 'project', 'user')
    found = way(spec)
    assert (found.queue, found.reason) == (queue, str(queue))


@table(
    'spec, queue',
    {
        'an image': (asked(image=Image(id=ME, name='x', disk_format='qcow2')), 'tiny'),
        'properties of an image that no host cares for': (
            asked(image=Image(properties={'hw_disk_bus': 'virtio', 'os_distro': 'ubuntu'})),
            'tiny',
        ),
        'a property that is off': (
            asked(image=Image(properties={'hw_firmware_stateless': False})),
            'tiny',
        ),
        'a trait by the image': (
            asked(image=Image(properties={'trait:HW_A': 'required'})),
            'tiny+trait:HW_A',
        ),
        'a trait': (asked(more(trait__HW_A='required')), 'tiny+trait:HW_A'),
        'a resource': (asked(more(resources__VGPU='1')), 'tiny+resource:VGPU'),
        'a device': (asked(more(pci_passthrough__alias='gpu:1')), 'tiny+pci:gpu'),
        'a zone': (asked(zone='a'), 'tiny+zone:a'),
        'an extra spec that is about no host': (asked(more(quota__cpu_shares='7')), 'tiny'),
        'one of many': (asked(num_instances=20), 'tiny'),
        'a volume as root disk': (
            asked(flavor('gold', resources__CUSTOM_GOLD='2'), bfv=True),
            None,
        ),
        "its flavor's device": (asked(flavor('gpu', 2, pci_passthrough__alias='gpu:1')), 'gpu'),
        'one more device': (
            asked(flavor('gpu', 2, pci_passthrough__alias='gpu:1,nic:1')),
            'gpu+pci:nic',
        ),
    },
)
def test_a_request_of_one_special_thing_at_most_goes_to_its_queue(spec, queue):
    found = way(spec).queue
    assert (found and str(found)) == queue


def destination(**words):
    return objects.Destination(allow_cross_cell_move=False, **words)


CELL = objects.CellMapping(
    uuid=ME, name='a', transport_url='x', database_connection='y', disabled=False
)
GUEST = flavor('cells', 2, hw__numa_nodes='2')
PINNED = flavor('pinned', 2, hw__cpu_policy='dedicated')
PORT = objects.RequestGroup(
    requester_id=ME, resources={'NET_BW_EGR_KILOBIT_PER_SEC': 7}, use_same_provider=True
)


@table(
    'spec, reason',
    {
        'server group': (
            asked(
                instance_group=objects.InstanceGroup(
                    uuid=ME, policy='affinity', members=[], hosts=[]
                )
            ),
            'it is in a server group',
        ),
        'soft policy': (
            asked(
                instance_group=objects.InstanceGroup(
                    uuid=ME, policy='soft-affinity', members=[], hosts=[]
                )
            ),
            'it is in a server group',
        ),
        'hint group': (asked(hints={'group': ME}), 'it is in a server group'),
        'placement group': (
            asked(hints={'top_group': ME, 'member': 'a'}),
            'it is a member of a placement group',
        ),
        'hints': (
            asked(hints={'same_host': ME, 'cidr': '/24'}),
            'it has scheduler hints: cidr, same_host',
        ),
        'rebuild': (
            asked(scheduler_hints={'_nova_check_type': ['rebuild']}),
            'it has scheduler hints: _nova_check_type',
        ),
        'forced host': (asked(force_hosts=['host-1']), 'an operator names its host'),
        'forced node': (asked(force_nodes=['node-1']), 'an operator names its host'),
        'host': (asked(requested_destination=destination(host='host-1')), 'its host is requested'),
        'node': (asked(requested_destination=destination(node='node-1')), 'its host is requested'),
        'cell': (asked(requested_destination=destination(cell=CELL)), 'its cell is requested'),
        'aggregates': (
            asked(requested_destination=destination(aggregates=[ME])),
            'it names aggregates',
        ),
        'forbidden ones': (
            asked(requested_destination=destination(forbidden_aggregates={ME})),
            'it names aggregates',
        ),
        'a destination that names nothing': (asked(requested_destination=destination()), None),
        'ignored hosts': (asked(ignore_hosts=['host-1']), 'hosts are to be ignored'),
        'no ignored host': (asked(ignore_hosts=[]), None),
        'retry': (
            asked(
                retry=objects.SchedulerRetries(
                    num_attempts=2,
                    hosts=objects.ComputeNodeList(
                        objects=[objects.ComputeNode(host='host-1', hypervisor_hostname='host-1')]
                    ),
                )
            ),
            'it was sent to hosts before',
        ),
        'NUMA cells': (asked(GUEST), 'NUMA: its cells are picked'),
        'dedicated CPUs': (asked(PINNED), 'NUMA: its dedicated CPUs are picked from cells'),
        'a port': (
            asked(requested_resources=[PORT]),
            'its ports or devices ask for groups of resources',
        ),
        'properties of an image': (
            asked(image=Image(properties={'hw_architecture': 'aarch64', 'img_hv_type': 'kvm'})),
            'hosts must suit its image: hw_architecture, img_hv_type',
        ),
        'unknown flavor': (asked(flavor('other')), 'flavor other is not in the catalogue'),
        'other sizes': (
            asked(flavor('tiny', 3, 8, 2)),
            'root_gb is 2, flavor tiny has 1; vcpus is 3, flavor tiny has 1',
        ),
        'volume': (asked(bfv=True), 'its root disk is a volume, flavor tiny has one of 1 GiB'),
        'extra spec': (
            asked(more(capabilities__a='b')),
            "extra spec capabilities:a is 'b', flavor tiny has None",
        ),
        'lacks an extra spec': (
            asked(flavor('boosted')),
            "extra spec boost is None, flavor boosted has '>= 1'",
        ),
        'group': (
            asked(more(resources1__VGPU='1')),
            'it asks for other groups of resources than flavor tiny',
        ),
        'forbidden trait': (
            asked(more(trait__HW_A='forbidden')),
            'it differs from flavor tiny in forbidden traits',
        ),
        'lacks a trait': (
            asked(flavor('fast', trait__HW_B='forbidden')),
            'flavor fast requires trait HW_A',
        ),
        'lacks a resource': (asked(flavor('gold')), 'CUSTOM_GOLD is 0, flavor gold has 2'),
        'several special things': (
            asked(more(trait__HW_A='required', pci_passthrough__alias='gpu:1'), zone='a'),
            '3 special things: pci:gpu, trait:HW_A, zone:a',
        ),
        'two of one thing': (
            asked(more(resources__VGPU='2')),
            '2 of resource:VGPU: a job may have one special thing, by its name',
        ),
        'two devices': (
            asked(more(pci_passthrough__alias='gpu:2')),
            '2 of pci:gpu: a job may have one special thing, by its name',
        ),
        'unknown zone': (asked(zone='south'), 'flavor tiny with zone:south has no queue'),
        'unknown trait': (
            asked(more(trait__HW_X='required')),
            'flavor tiny with trait:HW_X has no queue',
        ),
        "lacks the flavor's device": (
            asked(flavor('gpu', 2)),
            'gpu has other PCI devices in the catalogue',
        ),
    },
)
def test_what_goes_to_the_scheduler_and_why(spec, reason):
    found = way(spec)
    assert (found.queue and str(found.queue), found.reason) == (
        (None, reason) if reason else ('tiny', 'tiny')
    )


@table(
    'facts',
    {
        'fences': {'fences': frozenset([ME])},
        'member_placement': {
            'member_placement': MemberPlacement('group', 'a', ME, 1, None, lambda row: {})
        },
    },
)
def test_members_of_top_groups_go_to_the_scheduler(facts):
    assert way(asked(), **facts).reason == 'it is a member of a placement group'


def test_all_rules_that_a_request_falls_under_are_told():
    reason = way(asked(GUEST, ignore_hosts=['a'], hints={'query': '[]'})).reason
    assert (
        reason
        == 'it has scheduler hints: query; hosts are to be ignored; NUMA: its cells are picked'
    )


def test_devices_of_a_port_go_to_the_scheduler():
    spec = asked()
    one = objects.InstancePCIRequest(
        count=1, spec=[{'vendor_id': '8086'}], request_id=ME, alias_name=None
    )
    spec.pci_requests = objects.InstancePCIRequests(requests=[one])
    assert (
        way(spec).reason == 'PCI devices of a port: a job may have one special thing, by its name'
    )


def test_an_alias_that_is_another_device_elsewhere_goes_to_the_scheduler():
    spec = asked(more(pci_passthrough__alias='gpu:1'))
    spec.pci_requests.requests[0].spec[0]['product_id'] = '20b1'
    assert way(spec).reason == 'tiny+pci:gpu has other PCI devices in the catalogue'


def test_a_request_without_a_flavor_goes_to_the_scheduler():
    assert way(asked(), flavor_name=None).queue is None


# By configuration.

UBUNTU = asked(
    image=Image(
        id=ME, disk_format='qcow2', properties={'os_distro': 'ubuntu', 'hw_disk_bus': 'ide'}
    )
)


@table(
    'values, reason',
    {
        'defaults': ({}, None),
        'tenants': (
            {'scheduler.limit_tenants_to_placement_aggregate': True},
            'hosts are limited to projects',
        ),
        'hosts of tenants': (
            {'filter_scheduler.enabled_filters': ['AggregateMultiTenancyIsolation']},
            'hosts are limited to projects',
        ),
        'format': (
            {'scheduler.query_placement_for_image_type_support': True},
            'hosts must suit the format of its image, qcow2',
        ),
        'traits of images': (
            {'scheduler.image_metadata_prefilter': True},
            'hosts must suit its image: hw_disk_bus',
        ),
        'hosts for images': (
            {'filter_scheduler.enabled_filters': ['AggregateImagePropertiesIsolation']},
            'hosts must suit its image: hw_disk_bus, os_distro',
        ),
        'hosts for some properties': (
            {
                'filter_scheduler.enabled_filters': ['AggregateImagePropertiesIsolation'],
                'filter_scheduler.aggregate_image_properties_isolation_namespace': 'os',
                'filter_scheduler.aggregate_image_properties_isolation_separator': '_',
            },
            'hosts must suit its image: os_distro',
        ),
        'isolated image': (
            {
                'filter_scheduler.enabled_filters': ['IsolatedHostsFilter'],
                'filter_scheduler.isolated_images': [ME],
            },
            'its image is limited to isolated hosts',
        ),
        'images that nobody isolates': ({'filter_scheduler.isolated_images': [ME]}, None),
    },
)
def test_what_the_configuration_leaves_to_the_scheduler(values, reason):
    with options.settings(values):
        found = way(UBUNTU, Concerns.of(CONF))
    assert (found.reason, found.queue is None) == (reason or 'tiny', reason is not None)


# Recorded calls.

RECORDED = {
    'availability-zone': 'm1.small+zone:az1',
    'boot-1': 'm1.small',
    'boot-1-no-alternates': 'm1.small',
    'boot-10': 'm1.small',
    'boot-25': 'm1.small',
    'boot-swap-ephemeral': 'm1.eph',
    'extra-specs-aggregate': 'c1.ssd',
    'extra-specs-aggregate-only': 'c1.agg',
    'pci-alias': 'g1.gpu',
}
CALLS = sorted(
    path.stem.removeprefix('select_destinations-')
    for path in (REFERENCE / 'wire').glob('select_destinations-*.json')
    if '.rpc-' not in path.name
)


def recorded_flavors():
    """The flavors of all recorded calls that a catalogue can have."""
    found = {}
    for name in CALLS:
        one = scenario(name).flavor
        sizes = one.vcpus, one.memory_mb, one.root_gb, one.ephemeral_gb, one.swap
        made = MemberFlavor(*sizes, extra_specs=dict(one.extra_specs), name=one.name)
        try:
            Catalogue(1, (made,), (), DEVICES)
        except errors.InvalidRequest:
            continue
        found.setdefault(one.name, made)
    return tuple(found.values())


@pytest.fixture(scope='module')
def of_nova():
    return Catalogue(1, recorded_flavors(), (Special('zone', 'az1'),), DEVICES)


@each('call', CALLS)
def test_recorded_calls(of_nova, call):
    spec = scenario(call)
    found = route(read(spec), spec, of_nova)
    assert (found.queue and str(found.queue)) == RECORDED.get(call)
    assert found.reason


# What goes to a queue fits where the queue's own Request does.

CHANGES = st.fixed_dictionaries(
    {},
    optional={
        'zone': st.sampled_from(['a', 'b', None]),
        'bfv': st.booleans(),
        'image': st.builds(
            Image,
            id=st.sampled_from([None, ME]),
            disk_format=st.sampled_from([None, 'raw']),
            properties=st.dictionaries(
                st.sampled_from(['hw_architecture', 'os_distro', 'trait:HW_A', 'img_hv_type']),
                st.sampled_from(['x86_64', 'required', 'qemu']),
                max_size=2,
            ),
        ),
        'hints': st.sampled_from([{}, {'query': '[">=", "$free_ram_mb", 8]'}]),
    },
)


@st.composite
def specs(draw):
    """Requests that are near to what some queue is for."""
    chosen = draw(st.sampled_from(FLAVORS))
    extra = draw(
        st.dictionaries(
            st.sampled_from(
                'trait:HW_A trait:HW_C boost resources:VGPU capabilities:hypervisor_type'.split()
            ),
            st.sampled_from(['required', 'forbidden', '1', '2', 'QEMU']),
            max_size=2,
        )
    )
    sizes = draw(
        st.fixed_dictionaries(
            {}, optional={'vcpus': st.integers(1, 3), 'root_gb': st.integers(0, 2)}
        )
    )
    changed = dataclasses.replace(chosen, extra_specs={**chosen.extra_specs, **extra}, **sizes)
    return changed, draw(CHANGES)


@each_afresh('every', {'default rules': False, 'all rules': True})
@given(wanted=specs(), found=aggregates(), node=nodes())
@settings(max_examples=cases(60))
def test_what_goes_to_a_queue_fits_where_the_queue_does(every, wanted, found, node):
    # With hosts for projects nothing would go to a queue.
    chosen = rules(every, without=['AggregateMultiTenancyIsolation'])
    try:
        spec = asked(wanted[0], **wanted[1])
        request = read(spec)
    except (errors.InvalidRequest, ValueError):
        return
    enabled = [type(rule).__name__ for rule in chosen.filters]
    with options.settings({'filter_scheduler.enabled_filters': enabled}):
        where = route(request, spec, WHOLE, Concerns.of(CONF))
    if where.queue is None:
        return

    def kept(one):
        try:
            return survivors(chosen, a_cluster(found, node).hosts, one).left
        except errors.InvalidRequest:
            return 0

    assert kept(request) == kept(WHOLE.request(where.queue))
