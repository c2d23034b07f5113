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
"""What is read of a server, what is left alone, and what is refused."""

import os

import pytest

from nova_sched import errors
from nova_sched.groups.definition import Image, MemberFlavor
from nova_sched.groups.template.servers import flavors_of_file
from nova_sched.tests.rows import each
from nova_sched.tests.unit.groups.template import FLAVORS, place, read, refused, server

SMALL = MemberFlavor(vcpus=1, memory_mb=512, name='small')


def member(**properties):
    return read(
        {
            's': server(**properties),
            'sg': {'type': 'OS::Nova::ServerGroup', 'properties': {'policies': ['affinity']}},
        }
    ).members['s']


@pytest.mark.parametrize(
    'given, flavor',
    [
        pytest.param('small', SMALL, id='by name'),
        pytest.param({'vcpus': 2, 'ram': 1024}, MemberFlavor(2, 1024), id='inline'),
        pytest.param(
            {
                'name': 'n',
                'vcpus': '2',
                'ram': 4.0,
                'disk': 1,
                'ephemeral': 2,
                'swap': 3,
                'extra_specs': {'a': 1, 'b': True},
            },
            MemberFlavor(2, 4, 1, 2, 3, {'a': '1', 'b': 'true'}, 'n'),
            id='whole',
        ),
        pytest.param(
            {'vcpus': 1, 'memory_mb': 2, 'root_gb': 3, 'ephemeral_gb': 4},
            MemberFlavor(1, 2, 3, 4),
            id='names of our own',
        ),
        pytest.param(
            {'vcpus': 1, 'ram': 2, 'disk': None}, MemberFlavor(1, 2), id='null is nothing'
        ),
    ],
)
def test_a_flavor(given, flavor):
    assert member(flavor=given).flavor == flavor


@pytest.mark.parametrize(
    'given, image',
    [
        pytest.param(None, None, id='none'),
        pytest.param(
            'ubuntu', Image(None, 'ubuntu', {'hw_architecture': 'x86_64'}, 'qcow2'), id='by name'
        ),
        pytest.param(
            {'id': 'i', 'properties': {'a': 1, 'b': 'x'}},
            Image('i', None, {'a': 1, 'b': 'x'}),
            id='inline',
        ),
        pytest.param('other', Image(name='other'), id='not described'),
        pytest.param(
            '70a599e0-31e7-49b7-b260-868f441e862b',
            Image(id='70a599e0-31e7-49b7-b260-868f441e862b'),
            id='not described, by ID',
        ),
    ],
)
def test_an_image(given, image):
    assert member(image=given).image == image


CATALOGUE = {
    'fast': {
        'vcpus': 1,
        'ram': 512,
        'extra_specs': {'capabilities:cpu_info:vendor': 'Intel', 'ssd': True, 'hw:numa_nodes': 1},
    }
}
OWN = {'capabilities:cpu_info:vendor': 'Intel', 'ssd': 'true'}


def of_a_tenant(flavor, **given):
    given = {'flavors': None, **given, 'catalogue': CATALOGUE, 'is_operator': False}
    return read({'s': server(flavor=flavor)}, **given).members['s'].flavor.extra_specs


def with_specs(specs, **more):
    return {'vcpus': 1, 'ram': 512, 'extra_specs': specs, **more}


@each(
    'specs',
    [
        pytest.param({'capabilities:host': 'host-1'}, id='the host'),
        pytest.param({'capabilities:instances': '<in> a'}, id='its servers'),
        pytest.param({'capabilities': 'x'}, id='a bare scope'),
        pytest.param({'aggregate_instance_extra_specs:ssd': 'true'}, id='its aggregates'),
        pytest.param({'ssd': 'true'}, id='no scope'),
        pytest.param({'': 'x'}, id='no name'),
        pytest.param({'free_ram_mb': '>= 5'}, id='what is free'),
        pytest.param({'group_policy\n': 'none'}, id='what is not for Placement'),
    ],
)
def test_extra_specs_that_are_for_operators(specs):
    (key,) = specs
    for flavor, given in (
        (with_specs(specs), {}),
        ('mine', {'flavors': {'mine': with_specs(specs)}}),
        ('fast', {'flavors': {'fast': with_specs(specs | {key: 'other'})}}),
        (with_specs(specs | {key: 'other'}, name='fast'), {}),
    ):
        with pytest.raises(errors.TemplateError) as refusal:
            of_a_tenant(flavor, **given)
        assert refusal.value.where.endswith(f'.extra_specs.{key}')
        assert f'the extra spec {key!r} is for operators' in refusal.value.why
        assert key in read({'s': server(flavor=with_specs(specs))}).members['s'].flavor.extra_specs


@each(
    'specs',
    [
        {'hw:cpu_policy': 'dedicated', 'hw:maxphysaddr_bits': '46'},
        {'resources:VGPU': '1', 'resources1:VGPU': '1', 'group_policy': 'none'},
        {'trait:HW_CPU_X86_AVX': 'required', 'trait1:CUSTOM_A': 'forbidden'},
        {'pci_passthrough:alias': 'gpu:1', 'quota:cpu_shares': '1', 'acme:rack': 'x'},
    ],
    ids=repr,
)
def test_extra_specs_that_anybody_may_write(specs):
    assert of_a_tenant(with_specs(specs)) == specs


@each(
    'flavor, given',
    [
        pytest.param('fast', {}, id='by its name'),
        pytest.param('fast', {'flavors': {'fast': with_specs(OWN)}}, id='sent along'),
        pytest.param('f', {'flavors': {'f': with_specs(OWN, name='fast')}}, id='by another key'),
        pytest.param(with_specs(OWN, name='fast'), {}, id='written out'),
    ],
)
def test_a_flavor_of_the_catalogue_has_its_extra_specs(flavor, given):
    assert of_a_tenant(flavor, **given).items() >= OWN.items()


def test_a_flavor_that_is_sent_along_comes_first():
    sent = {'fast': {'vcpus': 7, 'ram': 1}, 'slow': {'vcpus': 1, 'ram': 1}}
    for name, vcpus in (('fast', 7), ('slow', 1)):
        found = read({'s': server(flavor=name)}, flavors=sent, catalogue=CATALOGUE)
        assert found.members['s'].flavor.vcpus == vcpus
    *_, why = refused({'s': server(flavor='fst')}, flavors={'slow': {}}, catalogue=CATALOGUE)
    assert why == 'there is no flavor fst here; did you mean fast?'


def test_an_image_that_is_not_described_is_a_warning():
    assert read({'s': server(image='other'), 't': server(image='other')}).warnings == (
        'image other is not described; it is placed as one without properties',
    )


@pytest.mark.parametrize(
    'given, hints',
    [
        pytest.param(None, {}, id='none'),
        pytest.param(
            {'query': '["=", "$x", 1]', 'l': ['a', 1]},
            {'query': '["=", "$x", 1]', 'l': ['a', 1]},
            id='any',
        ),
        pytest.param(
            {'group': '70a599e0-31e7-49b7-b260-868f441e862b'},
            {'group': '70a599e0-31e7-49b7-b260-868f441e862b'},
            id='a group that exists',
        ),
        pytest.param(
            {'group': {'get_resource': 'sg'}}, {}, id='a group of the template is a policy'
        ),
        pytest.param({'group': [{'get_resource': 'sg'}], 'a': None}, {}, id='the same in a list'),
        pytest.param(
            {'top_group': {'get_file': 'x'}, 'member': 's', 'replan': True},
            {},
            id='hints of the second phase',
        ),
    ],
)
def test_hints(given, hints):
    assert member(scheduler_hints=given).hints == hints


@pytest.mark.parametrize(
    'properties, boots',
    [
        pytest.param({}, False, id='neither'),
        pytest.param({'image': 'ubuntu'}, False, id='image'),
        pytest.param(
            {'block_device_mapping': [{'device_name': 'vda', 'volume_id': 'v'}]},
            True,
            id='first form',
        ),
        pytest.param(
            {
                'image': 'ubuntu',
                'block_device_mapping': [{'device_name': 'vdb', 'volume_id': 'v'}],
            },
            False,
            id='first form, beside an image',
        ),
        pytest.param(
            {'block_device_mapping_v2': [{'boot_index': 0, 'volume_id': {'get_resource': 'v'}}]},
            True,
            id='to be',
        ),
        pytest.param(
            {'block_device_mapping_v2': [{'boot_index': '0', 'snapshot_id': 's'}]},
            True,
            id='snapshot',
        ),
        pytest.param(
            {'block_device_mapping_v2': [{'boot_index': 0, 'image': 'i', 'volume_size': 9}]},
            True,
            id='image',
        ),
        pytest.param(
            {'block_device_mapping_v2': [{'boot_index': 0, 'volume_id': None}]},
            False,
            id='no volume',
        ),
        pytest.param(
            {'block_device_mapping_v2': [{'boot_index': 1, 'volume_id': 'v'}]},
            False,
            id='second disk',
        ),
        pytest.param(
            {'block_device_mapping_v2': [{'boot_index': -1, 'volume_id': 'v'}]},
            False,
            id='no boot disk',
        ),
        pytest.param(
            {'block_device_mapping_v2': [{'volume_id': 'v'}]}, True, id='no order, no image'
        ),
        pytest.param(
            {'image': 'ubuntu', 'block_device_mapping_v2': [{'volume_id': 'v'}]},
            False,
            id='no order',
        ),
        pytest.param(
            {'block_device_mapping_v2': [{'swap_size': 9}, {'ephemeral_size': 1}]},
            False,
            id='local disks',
        ),
    ],
)
def test_whether_it_boots_from_a_volume(properties, boots):
    assert member(**properties).boots_from_volume is boots


def test_the_image_of_a_boot_volume_counts():
    devices = [{'boot_index': 0, 'image': 'ubuntu', 'volume_size': 9}]
    assert member(block_device_mapping_v2=devices).image.properties == {
        'hw_architecture': 'x86_64'
    }


def test_the_zone():
    assert member(availability_zone='z1').availability_zone == 'z1'


def test_what_placement_does_not_read_is_left_alone():
    definition = read(
        {
            's': server(
                user_data={'get_file': 'x'},
                networks=[{'port': {'get_resource': 'nowhere'}}],
                metadata={'a': {'yaql': {}}},
                key_name={'get_param': 'key'},
            )
        }
    )
    assert definition.members['s'].flavor == SMALL
    assert definition.warnings == ()


def test_an_unknown_property_is_a_warning():
    assert read({'s': server(colour='red')}).warnings == (
        'resources.s.properties.colour: no known property of a server; not read',
    )


PROPERTIES = """
resources:
  s:
    type: OS::Nova::Server
    properties: {properties}
  sg: {{type: OS::Nova::ServerGroup, properties: {{policies: [affinity]}}}}
"""


@each(
    'properties, where, why',
    [
        pytest.param('‸{image: x}', '', 'flavor is missing', id='no flavor'),
        pytest.param(
            '{flavor: ‸smal}',
            '.flavor',
            'there is no flavor smal here; did you mean small?',
            id='unknown',
        ),
        pytest.param('{flavor: ‸{vcpus: 1}}', '.flavor', 'ram is missing', id='no memory'),
        pytest.param('{flavor: ‸{ram: 1}}', '.flavor', 'vcpus is missing', id='no CPUs'),
        pytest.param(
            '{flavor: {vcpus: ‸0, ram: 1}}', '.flavor.vcpus', '0 is not within 1 and', id='0 CPUs'
        ),
        pytest.param(
            '{flavor: {vcpus: 1, ram: ‸-1}}', '.flavor.ram', '-1 is not within', id='negative'
        ),
        pytest.param(
            '{flavor: {vcpus: ‸1.5, ram: 1}}',
            '.flavor.vcpus',
            'whole number is wanted, not 1.5',
            id='half',
        ),
        pytest.param(
            '{flavor: {vcpus: ‸true, ram: 1}}',
            '.flavor.vcpus',
            'whole number is wanted',
            id='boolean',
        ),
        pytest.param('{flavor: {vcpus: ‸[1], ram: 1}}', '.flavor.vcpus', 'not a list', id='list'),
        pytest.param(
            '{flavor: {vcpus: 1, ram: 1, disk: 1, ‸root_gb: 1}}',
            '.flavor.root_gb',
            'sets the same property as another key',
            id='twice',
        ),
        pytest.param(
            '{flavor: {vcpus: 1, ram: 1, ‸cpus: 1}}',
            '.flavor.cpus',
            'did you mean vcpus?',
            id='key',
        ),
        pytest.param(
            '{flavor: {vcpus: 1, ram: 1, extra_specs: {a: ‸[1]}}}',
            '.flavor.extra_specs.a',
            'an extra spec is text, not a list',
            id='extra spec',
        ),
        pytest.param(
            '{flavor: ‸[small]}', '.flavor', 'text is wanted, not a list', id='list as a flavor'
        ),
        pytest.param('{flavor: ‸yes}', '.flavor', 'put it in quotes', id='boolean as a flavor'),
        pytest.param(
            '{flavor: ‸{get_resource: sg}}', '.flavor', 'a reference to a resource', id='resource'
        ),
        pytest.param(
            '{flavor: small, image: {‸size: 1}}',
            '.image.size',
            'size is not known here',
            id='image',
        ),
        pytest.param(
            '{flavor: small, image: {properties: {a: ‸{b: 1}}}}',
            '.image.properties.a',
            'not a mapping',
            id='property',
        ),
        pytest.param(
            '{flavor: small, availability_zone: ‸z:h}',
            '.availability_zone',
            'names a host',
            id='host',
        ),
        pytest.param(
            '{flavor: small, availability_zone: ‸off}',
            '.availability_zone',
            'put it in quotes',
            id='off',
        ),
        pytest.param(
            '{flavor: small, ‸availability_zones: z}',
            '.availability_zones',
            'did you mean',
            id='typo',
        ),
        pytest.param(
            '{flavor: small, scheduler_hints: {group: ‸sg}}',
            '.scheduler_hints.group',
            'get_resource',
            id='no reference',
        ),
        pytest.param(
            '{flavor: small, scheduler_hints: {group: ‸{get_resource: s}}}',
            '.scheduler_hints.group',
            's is not an OS::Nova::ServerGroup',
            id='no server group',
        ),
        pytest.param(
            '{flavor: small, scheduler_hints: {group: ‸[{get_resource: sg}, x]}}',
            '.scheduler_hints.group',
            'cannot be combined with other server groups',
            id='two kinds of groups',
        ),
        pytest.param(
            '{flavor: small, scheduler_hints: {different_host: [‸{get_resource: sg}]}}',
            '.scheduler_hints.different_host.0',
            'is not known before it is created',
            id='server to be',
        ),
        pytest.param(
            '{flavor: small, scheduler_hints: {x: {‸get_file: y}}}',
            '.scheduler_hints.x.get_file',
            'the function get_file is not supported',
            id='function',
        ),
        pytest.param(
            '{flavor: small, block_device_mapping_v2: [{boot_index: ‸x}]}',
            '.block_device_mapping_v2.0.boot_index',
            "a whole number is wanted, not 'x'",
            id='order',
        ),
        pytest.param('‸[flavor]', '', 'a mapping is wanted, not a list', id='list as properties'),
        *(
            pytest.param(
                given, where, f'the name {shown} has invisible characters', id=f'{where} {shown}'
            )
            for text, shown in (
                (r'a\e[2J', r'a\x1b[2J'),
                (r'a\nb', r'a\nb'),
                (r'\u202ea', r'\u202ea'),
            )
            for given, where in (
                (f'{{flavor: ‸"{text}"}}', '.flavor'),
                (f'{{flavor: {{vcpus: 1, ram: 1, name: ‸"{text}"}}}}', '.flavor.name'),
                (f'{{flavor: small, image: ‸"{text}"}}', '.image'),
                (f'{{flavor: small, availability_zone: ‸"{text}"}}', '.availability_zone'),
            )
        ),
    ],
)
def test_a_server_that_is_refused(properties, where, why):
    body = PROPERTIES.format(properties=properties)
    *found, at, words = refused(body)
    assert (tuple(found), at) == (place(body), f'resources.s.properties{where}')
    assert why in words


@pytest.mark.parametrize(
    'given, where, why',
    [
        pytest.param(
            {'flavors': {'small': {'vcpus': 1}}}, 'flavors.small', 'ram is missing', id='flavor'
        ),
        pytest.param(
            {'flavors': {'small': 1}},
            'flavors.small',
            'a mapping is wanted, not a number',
            id='no flavor',
        ),
        pytest.param(
            {'flavors': {'small': {'vcpus': {'get_param': 'x'}, 'ram': 1}}},
            'flavors.small.vcpus',
            'whole',
            id='function',
        ),
        pytest.param(
            {'flavors': [FLAVORS]}, 'flavors', 'a mapping from names', id='list of flavors'
        ),
        pytest.param(
            {'flavors': {1: {}}}, 'flavors', 'a mapping from names', id='number as a name'
        ),
        pytest.param(
            {'images': {'ubuntu': {'x': 1}}}, 'images.ubuntu.x', 'x is not known here', id='image'
        ),
        pytest.param({'images': 'ubuntu'}, 'images', 'a mapping from names', id='no images'),
    ],
)
def test_what_was_sent_along_is_refused_where_it_is_wrong(given, where, why):
    line, column, found, words = refused({'s': server(image='ubuntu')}, **given)
    assert (line, column, found) == (None, None, where)
    assert why in words


DESCRIBED = {'vcpus': 1, 'ram': 512}


def test_without_a_file_there_are_none():
    assert flavors_of_file(None) == {}


@pytest.mark.parametrize(
    'text, found',
    [
        pytest.param('small: {vcpus: 1, ram: 512}\n', {'small': DESCRIBED}, id='one'),
        pytest.param(
            '7: {vcpus: 1, ram: 512}\n', {'7': DESCRIBED}, id='a name that YAML takes for a number'
        ),
        pytest.param('# none yet\n', {}, id='empty'),
    ],
)
def test_flavors(tmp_path, text, found):
    (tmp_path / 'flavors.yaml').write_text(text)
    assert flavors_of_file(str(tmp_path / 'flavors.yaml')) == found


def test_it_is_read_again_when_it_changes(tmp_path):
    file = tmp_path / 'flavors.yaml'
    file.write_text('small: {vcpus: 1, ram: 512}\n')
    before = flavors_of_file(str(file))
    assert flavors_of_file(str(file)) is before
    file.write_text('small: {vcpus: 2, ram: 512}\n')
    os.utime(file, ns=(1, 1))  # of the same size, and whatever the clock of the file system is
    assert flavors_of_file(str(file)) == {'small': {'vcpus': 2, 'ram': 512}}


@pytest.mark.parametrize(
    'text, why',
    [
        pytest.param(None, 'cannot be read: .*No such file', id='not there'),
        pytest.param('{', 'line 2, column 1: ', id='no YAML'),
        pytest.param('- small\n', 'not a mapping from names to flavors', id='a list'),
        pytest.param('small: 1\n', 'not a mapping from names to flavors', id='no flavors'),
        pytest.param('!!python/object/apply:os.getpid []\n', 'means nothing here', id='a program'),
        pytest.param('small: {vcpus: !!int ""}\n', 'column 16: .* int', id='no number'),
        pytest.param('small: &a {x: *a}\n', 'nothing before', id='an alias of itself'),
        pytest.param(b'\xff\xfe\xff', 'cannot be read', id='no text'),
    ],
)
def test_a_file_that_makes_no_sense(tmp_path, text, why):
    file = tmp_path / 'flavors.yaml'
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(errors.BadConfig, match=why) as bad:
        flavors_of_file(str(file))
    assert bad.value.where == '[groups] flavors'
