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
"""A member as Nova's API would ask for it, compared with recorded requests of Nova's API."""

import dataclasses

import pytest

from nova_sched import errors, objects
from nova_sched.groups.definition import Image, Member, MemberFlavor
from nova_sched.groups.members import member_spec
from nova_sched.tests.builders import read, uuid_of
from nova_sched.tests.reference import scenario

GPU = {'vendor_id': '10de', 'product_id': '20b0', 'dev_type': 'type-PCI'}
NIC = {'vendor_id': '8086', 'product_id': '1572', 'dev_type': 'type-PF'}
SMALL = MemberFlavor(
    vcpus=4, memory_mb=2048, root_gb=10, extra_specs={'hw:numa_nodes': '2'}, name='small'
)


def member(**facts):
    return Member(**{'path': 'app/web/0', 'flavor': SMALL, **facts})


def member_of(spec):
    """The member that a group would have planned for a recorded request."""
    image = spec.image
    return Member(
        path='recorded',
        flavor=MemberFlavor(
            vcpus=spec.flavor.vcpus,
            memory_mb=spec.flavor.memory_mb,
            root_gb=spec.flavor.root_gb,
            ephemeral_gb=spec.flavor.ephemeral_gb,
            swap=spec.flavor.swap,
            extra_specs=spec.flavor.extra_specs,
            name=spec.flavor.name,
        ),
        image=Image(
            id=image.id if 'id' in image else None,
            properties=image.properties.set_fields(),
            disk_format=image.disk_format if 'disk_format' in image else None,
        ),
        availability_zone=spec.availability_zone,
        hints={
            name: values if len(values) > 1 else values[0]
            for name, values in spec.scheduler_hints.items()
        },
        boots_from_volume=spec.is_bfv,
    )


ALIASES = {'gpu-a100': ('legacy', [GPU]), 'nic-x710': ('preferred', [NIC])}
RECORDED = [
    'boot-1',
    'availability-zone',
    'boot-from-volume',
    'boot-swap-ephemeral',
    'extra-specs-aggregate',
    'hint-different-host',
    'hint-query',
    'hint-same-host',
    'image-old-names',
    'image-properties',
    'numa-2cells-hugepages-pinned',
    'numa-implicit',
    'numa-mixed-explicit-cells',
    'pci-alias',
]


@pytest.mark.parametrize('name', RECORDED)
def test_as_novas_api_asks(name):
    recorded = scenario(name)
    recorded.network_metadata = objects.NetworkMetadata(
        physnets=set(), tunneled=False
    )  # of its ports
    made = member_spec.spec_of(
        member_of(recorded), recorded.project_id, recorded.user_id, recorded.instance_uuid, ALIASES
    )
    for ours, theirs in zip(
        made.pci_requests.requests, recorded.pci_requests.requests, strict=True
    ):
        ours.request_id = theirs.request_id
    ours, theirs = (dataclasses.replace(read(one), spec=None) for one in (made, recorded))
    assert ours == theirs
    assert member_spec.differs(member_of(recorded), recorded) is None


def test_what_is_made_can_be_sent():
    made = member_spec.spec_of(member(), 'p', 'u', uuid_of('x'))
    assert objects.to_primitive(
        objects.from_primitive(objects.to_primitive(made))
    ) == objects.to_primitive(made)
    assert (made.instance_uuid, made.project_id, made.user_id) == (uuid_of('x'), 'p', 'u')
    assert [cell.cpuset for cell in made.numa_topology.cells] == [{0, 1}, {2, 3}]
    assert made.flavor.name == 'small'


def test_an_instance_is_made_up():
    uuids = {member_spec.spec_of(member()).instance_uuid for _ in range(3)}
    assert len(uuids) == 3


@pytest.mark.parametrize(
    'hint, sent',
    [
        pytest.param('x', ['x'], id='one'),
        pytest.param(['x', 'y'], ['x', 'y'], id='several'),
        pytest.param(24, ['24'], id='a number'),
        pytest.param(True, ['true'], id='a switch'),
        pytest.param([['=', '$host', 'a']], ['["=", "$host", "a"]'], id='nested'),
    ],
)
def test_hints_travel_as_lists_of_text(hint, sent):
    assert member_spec.spec_of(member(hints={'name': hint})).scheduler_hints == {'name': sent}


@pytest.mark.parametrize(
    'facts, where, why',
    [
        pytest.param(
            {'flavor': dataclasses.replace(SMALL, vcpus=3)},
            'member app/web/0, hw:numa_nodes',
            'equal cells',
            id='cells',
        ),
        pytest.param(
            {'image': Image(properties={'hw_architecture': 'z80'})},
            'member app/web/0, ImageMetaProps.hw_architecture',
            'z80',
            id='image property',
        ),
        pytest.param(
            {'image': Image(id='cirros')}, 'member app/web/0, ImageMeta.id', 'UUID', id='image id'
        ),
        pytest.param(
            {'flavor': dataclasses.replace(SMALL, extra_specs={'pci_passthrough:alias': 'gpu:1'})},
            'member app/web/0, pci_passthrough:alias',
            "no alias 'gpu'",
            id='alias',
        ),
    ],
)
def test_what_makes_no_sense_names_the_member(facts, where, why):
    with pytest.raises(errors.InvalidRequest, match=why) as refused:
        member_spec.spec_of(member(**facts), aliases={})
    assert refused.value.where == where


# Whether what is asked for is what was planned.

IMAGE = uuid_of('image')
DEBIAN = {
    'hw_architecture': 'x86_64',
    'os_distro': 'debian',
    'trait:B': 'required',
    'trait:A': 'required',
}
PLANNED = member(image=Image(id=IMAGE, properties=DEBIAN), availability_zone='west')


def asked(image=None, flavor=None, **fields):
    """A RequestSpec of that member, but for what is told."""
    spec = member_spec.spec_of(PLANNED)
    for name, value in (flavor or {}).items():
        setattr(spec.flavor, name, value)
    if image is not None:
        properties = {**PLANNED.image.properties, **image}
        spec.image = objects.ImageMeta.from_dict({'id': IMAGE, 'properties': properties})
    for name, value in fields.items():
        setattr(spec, name, value)
    return spec


@pytest.mark.parametrize(
    'spec',
    [
        pytest.param(asked(), id='nothing'),
        pytest.param(
            asked(flavor={'name': 'else', 'id': 9, 'rxtx_factor': 2.0}), id='name of the flavor'
        ),
        pytest.param(
            asked(flavor={'extra_specs': {**SMALL.extra_specs, 'quota:vif': '9'}}),
            id='no host is chosen by it',
        ),
        pytest.param(
            asked(image={'hw_disk_bus': 'scsi', 'os_type': 'linux'}),
            id='not planned, not decisive',
        ),
        pytest.param(asked(image={'hw_mem_encryption': 'false'}), id='off is as none'),
        pytest.param(asked(scheduler_hints={'top_group': ['x'], 'member': ['y']}), id='hints'),
        pytest.param(asked(num_instances=1, project_id='q'), id='whose it is'),
    ],
)
def test_as_planned(spec):
    assert member_spec.differs(PLANNED, spec) is None


@pytest.mark.parametrize(
    'spec, found',
    [
        pytest.param(asked(flavor={'vcpus': 8}), ('flavor.vcpus', 4, 8), id='vcpus'),
        pytest.param(asked(flavor={'memory_mb': 1}), ('flavor.memory_mb', 2048, 1), id='memory'),
        pytest.param(asked(flavor={'root_gb': 11}), ('flavor.root_gb', 10, 11), id='root disk'),
        pytest.param(
            asked(flavor={'ephemeral_gb': 1}), ('flavor.ephemeral_gb', 0, 1), id='ephemeral disk'
        ),
        pytest.param(asked(flavor={'swap': 1}), ('flavor.swap', 0, 1), id='swap'),
        pytest.param(asked(is_bfv=True), ('boot from volume', 'no', 'yes'), id='volume'),
        pytest.param(
            asked(flavor={'extra_specs': {}}),
            ('extra spec hw:numa_nodes', '2', 'nothing'),
            id='extra spec gone',
        ),
        pytest.param(
            asked(flavor={'extra_specs': {**SMALL.extra_specs, 'ssd': 'true'}}),
            ('extra spec ssd', 'nothing', 'true'),
            id='extra spec come',
        ),
        pytest.param(
            asked(availability_zone='east'),
            ('availability_zone', 'west', 'east'),
            id='another zone',
        ),
        pytest.param(
            asked(availability_zone=None), ('availability_zone', 'west', 'nothing'), id='no zone'
        ),
        pytest.param(
            asked(image={'hw_cpu_policy': 'dedicated'}),
            ('image property hw_cpu_policy', 'nothing', 'dedicated'),
            id='decisive property',
        ),
        pytest.param(
            asked(image={'os_distro': 'fedora'}),
            ('image property os_distro', 'debian', 'fedora'),
            id='planned property',
        ),
        pytest.param(
            asked(image={'trait:B': 'forbidden'}),
            ('image property traits_required', "['A', 'B']", "['A']"),
            id='traits',
        ),
    ],
)
def test_not_as_planned(spec, found):
    assert member_spec.differs(PLANNED, spec) == found


def test_another_image():
    spec = asked()
    spec.image = objects.ImageMeta.from_dict(
        {'id': uuid_of('other'), 'properties': PLANNED.image.properties}
    )
    assert member_spec.differs(PLANNED, spec) == ('image.id', IMAGE, uuid_of('other'))


def test_a_volume_does_not_tell_its_image_nor_needs_a_root_disk():
    planned = dataclasses.replace(PLANNED, boots_from_volume=True)
    spec = asked(is_bfv=True, flavor={'root_gb': 99})
    spec.image = objects.ImageMeta.from_dict({'properties': PLANNED.image.properties})
    assert member_spec.differs(planned, spec) is None
