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
"""Objects are read and written tolerantly of versions, strictly about malformed data."""

import copy
import json

import pytest

from nova_sched import errors, objects
from nova_sched.objects import base, object_io
from nova_sched.tests.rows import each
from nova_sched.tests.unit.objects import reference

BOOT = 'select_destinations-boot-1.json'
NUMA = 'select_destinations-numa-2cells-hugepages-pinned.json'
PCI = 'select_destinations-pci-alias.json'
BANDWIDTH = 'select_destinations-bandwidth.json'


def step_to(primitive, path):
    """The container and the key that a path such as ``flavor.memory_mb`` or ``cells.0.id``
    names."""
    *steps, last = path.split('.')
    for step in steps:
        data = primitive[object_io.DATA] if isinstance(primitive, dict) else primitive
        primitive = data[int(step) if isinstance(data, list) else step]
    container = (
        primitive.get(object_io.DATA, primitive) if isinstance(primitive, dict) else primitive
    )
    return container, int(last) if isinstance(container, list) else last


def spec_with(name, path, value):
    """A recorded request with one value replaced."""
    primitive = copy.deepcopy(reference.argument(name))
    container, key = step_to(primitive, path)
    container[key] = value
    return primitive


@each(
    'name, path, value, where',
    [
        pytest.param(BOOT, 'num_instances', 'many', 'num_instances', id='text for an integer'),
        pytest.param(BOOT, 'num_instances', 1.5, 'num_instances', id='fraction for an integer'),
        pytest.param(BOOT, 'num_instances', True, 'num_instances', id='boolean for an integer'),
        pytest.param(BOOT, 'num_instances', [1], 'num_instances', id='list for an integer'),
        pytest.param(
            BOOT, 'num_instances', float('inf'), 'num_instances', id='infinity for an integer'
        ),
        pytest.param(BOOT, 'flavor', None, 'flavor', id='null for an object'),
        pytest.param(BOOT, 'flavor', 'm1.small', 'flavor', id='text for an object'),
        pytest.param(BOOT, 'flavor', {'vcpus': 1}, 'flavor', id='plain dict for an object'),
        pytest.param(
            BOOT, 'flavor.memory_mb', {}, 'flavor.memory_mb', id='dict for an integer, inside'
        ),
        pytest.param(
            BOOT, 'flavor.memory_mb', None, 'flavor.memory_mb', id='null for an integer, inside'
        ),
        pytest.param(
            BOOT, 'flavor.rxtx_factor', 'fast', 'flavor.rxtx_factor', id='text for a number'
        ),
        pytest.param(BOOT, 'flavor.disabled', 'no', 'flavor.disabled', id='text for a boolean'),
        pytest.param(BOOT, 'flavor.disabled', 2, 'flavor.disabled', id='two for a boolean'),
        pytest.param(BOOT, 'flavor.name', ['a'], 'flavor.name', id='list for a string'),
        pytest.param(BOOT, 'flavor.name', False, 'flavor.name', id='boolean for a string'),
        pytest.param(BOOT, 'flavor.created_at', 'yesterday', 'flavor.created_at', id='no moment'),
        pytest.param(BOOT, 'flavor.created_at', 7, 'flavor.created_at', id='number for a moment'),
        pytest.param(BOOT, 'flavor.extra_specs', [], 'flavor.extra_specs', id='list for a dict'),
        pytest.param(
            BOOT,
            'flavor.extra_specs',
            {'a': {}},
            'flavor.extra_specs[a]',
            id='dict in a dict of strings',
        ),
        pytest.param(
            BOOT, 'flavor.extra_specs', {5: 'a'}, 'flavor.extra_specs', id='number as a key'
        ),
        pytest.param(BOOT, 'instance_uuid', 'me', 'instance_uuid', id='no uuid'),
        pytest.param(BOOT, 'instance_uuid', 5, 'instance_uuid', id='number for a uuid'),
        pytest.param(BOOT, 'ignore_hosts', 'cmp01', 'ignore_hosts', id='text for a list'),
        pytest.param(BOOT, 'ignore_hosts', ['a', None], 'ignore_hosts[1]', id='null in a list'),
        pytest.param(
            BOOT, 'scheduler_hints', {'a': 'b'}, 'scheduler_hints[a]', id='text for a hint'
        ),
        pytest.param(
            BOOT, 'scheduler_hints', {'a': ['b', {}]}, 'scheduler_hints[a][1]', id='dict in a hint'
        ),
        pytest.param(
            BOOT, 'image.protected', [], 'image.protected', id='list for a flexible boolean'
        ),
        pytest.param(
            BOOT,
            'image.properties.hw_disk_bus',
            'warp',
            'image.properties.hw_disk_bus',
            id='unknown word',
        ),
        pytest.param(
            BOOT,
            'image.properties.hw_disk_bus',
            [],
            'image.properties.hw_disk_bus',
            id='list for a word',
        ),
        pytest.param(
            BOOT,
            'image.properties.img_hv_requested_version',
            'big',
            'image.properties.img_hv_requested_version',
            id='no version predicate',
        ),
        pytest.param(
            NUMA,
            'numa_topology.cells.1.id',
            'x',
            'numa_topology.cells[1].id',
            id='in a list of objects',
        ),
        pytest.param(
            NUMA,
            'numa_topology.cells.0',
            5,
            'numa_topology.cells[0]',
            id='number in a list of objects',
        ),
        pytest.param(
            NUMA,
            'numa_topology.cells.0.pcpuset',
            [0, 'x'],
            'numa_topology.cells[0].pcpuset[1]',
            id='text in a set',
        ),
        pytest.param(
            NUMA,
            'numa_topology.cells.0.pcpuset',
            3,
            'numa_topology.cells[0].pcpuset',
            id='number for a set',
        ),
        pytest.param(
            PCI,
            'pci_requests.requests.0.spec',
            [{'a': []}],
            'pci_requests.requests[0].spec[0][a]',
            id='spec',
        ),
        pytest.param(
            BANDWIDTH,
            'requested_networks.objects.0.address',
            'here',
            'requested_networks.objects[0].address',
            id='ip',
        ),
        pytest.param(
            BANDWIDTH,
            'requested_resources.0.resources',
            {'VCPU': 'x'},
            'requested_resources[0].resources[VCPU]',
            id='resources',
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(name, path, value, where):
    with pytest.raises(errors.MalformedObject) as refused:
        objects.from_primitive(spec_with(name, path, value))
    assert refused.value.path == f'RequestSpec.{where}'
    assert refused.value.why


@pytest.mark.parametrize(
    'cls, field, value, kept',
    [
        pytest.param(objects.Flavor, 'memory_mb', '512', 512, id='digits for an integer'),
        pytest.param(objects.Flavor, 'memory_mb', 512.0, 512, id='whole number for an integer'),
        pytest.param(objects.Flavor, 'rxtx_factor', 2, 2.0, id='integer for a number'),
        pytest.param(objects.Flavor, 'name', 5, '5', id='number for a string'),
        pytest.param(objects.Flavor, 'disabled', 0, False, id='zero for a boolean'),
        pytest.param(objects.RequestSpec, 'num_instances', None, 1, id='null for a default'),
        pytest.param(objects.ImageMeta, 'protected', 'yes', True, id='yes'),
        pytest.param(
            objects.ImageMetaProps, 'hw_architecture', 'AMD64', 'x86_64', id='another spelling'
        ),
        pytest.param(
            objects.NUMACell, 'siblings', [[1, 0], []], [{0, 1}, set()], id='list of sets'
        ),
        pytest.param(objects.RequestSpec, 'ignore_hosts', ('a',), ['a'], id='tuple for a list'),
    ],
)
def test_what_nova_would_understand_is_understood(cls, field, value, kept):
    read = objects.from_primitive(object_io.primitive(cls.obj_name(), {field: value}))
    assert getattr(read, field) == kept
    assert type(getattr(read, field)) is type(kept)


@pytest.mark.parametrize(
    'change, why',
    [
        pytest.param({object_io.NAMESPACE: 'cinder'}, 'namespace', id='foreign namespace'),
        pytest.param(
            {object_io.NAMESPACE: 'nova_sched'},
            'namespace',
            id='our namespace for an object of Nova',
        ),
        pytest.param({object_io.NAMESPACE: None}, 'namespace', id='null namespace'),
        pytest.param({object_io.NAME: 5}, 'not a name', id='number as name'),
        pytest.param({object_io.NAME: []}, 'not a name', id='list as name'),
        pytest.param({object_io.VERSION: 'new'}, 'not a version', id='version of words'),
        pytest.param({object_io.VERSION: 1}, 'not a version', id='version without a minor part'),
        pytest.param({object_io.VERSION: []}, 'not a version', id='list as version'),
        pytest.param({object_io.VERSION: ''}, 'not a version', id='empty version'),
        pytest.param({object_io.DATA: []}, 'not an object', id='list as data'),
        pytest.param({object_io.DATA: None}, 'not an object', id='null data'),
        pytest.param({object_io.CHANGES: 5}, 'not a list', id='number as changes'),
        pytest.param({object_io.CHANGES: [{}]}, 'not a list', id='dict in changes'),
    ],
)
def test_a_malformed_envelope_is_refused(change, why):
    primitive = objects.to_primitive(objects.Flavor(vcpus=1)) | change
    with pytest.raises(errors.MalformedObject, match=why):
        objects.from_primitive(primitive)
    with pytest.raises(errors.MalformedObject, match=why) as refused:
        objects.from_primitive(object_io.primitive('RequestSpec', {'flavor': primitive}))
    assert refused.value.path == 'RequestSpec.flavor'


@pytest.mark.parametrize(
    'key', [object_io.NAME, object_io.NAMESPACE, object_io.VERSION, object_io.DATA]
)
def test_a_missing_key_is_named(key):
    primitive = objects.to_primitive(objects.Flavor(vcpus=1))
    del primitive[key]
    with pytest.raises(errors.MalformedObject, match=f'{key} missing'):
        objects.from_primitive(primitive)


def test_what_is_refused_is_not_shown():
    primitive = object_io.primitive('CellMapping', {'transport_url': ['rabbit://u:secret@h']})
    with pytest.raises(errors.MalformedObject) as refused:
        objects.from_primitive(primitive)
    assert 'secret' not in str(refused.value)


def test_a_huge_value_makes_no_huge_error():
    huge = 'x' * 5_000_000
    with pytest.raises(errors.MalformedObject) as refused:
        objects.from_primitive(object_io.primitive('Flavor', {'vcpus': huge}))
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize('wrong', ['ImageMeta', 'ClaimInfo'])
def test_an_object_of_another_name_is_refused(wrong):
    with pytest.raises(errors.MalformedObject, match='an object Flavor is required') as refused:
        objects.from_primitive(
            object_io.primitive('RequestSpec', {'flavor': object_io.primitive(wrong, {})})
        )
    assert refused.value.path == 'RequestSpec.flavor'


@pytest.mark.parametrize('nested', [False, True], ids=['outermost', 'nested'])
@pytest.mark.parametrize('version', ['2.0', '0.9', '10.1'])
def test_another_major_version_is_incompatible(nested, version):
    primitive = objects.to_primitive(objects.Flavor(vcpus=1)) | {object_io.VERSION: version}
    message = object_io.primitive('RequestSpec', {'flavor': primitive}) if nested else primitive
    with pytest.raises(errors.IncompatibleObject) as refused:
        objects.from_primitive(message)
    assert (refused.value.name, refused.value.version, refused.value.supported) == (
        'Flavor',
        version,
        '1.2',
    )


@pytest.mark.parametrize(
    'version',
    [
        pytest.param('1.0', id='older'),
        pytest.param('1.1', id='ours'),
        pytest.param('1.1.5', id='micro part'),
        pytest.param('1.0.5', id='micro part of an older one'),
        pytest.param('1.2', id='newer'),
        pytest.param('1.99.1', id='much newer'),
    ],
)
def test_any_minor_version_is_read(version):
    primitive = objects.to_primitive(objects.Selection(service_host='a')) | {
        object_io.VERSION: version
    }
    read = objects.from_primitive(primitive)
    assert read.service_host == 'a'
    assert objects.to_primitive(read)[object_io.VERSION] == '1.1'


def test_unknown_keys_are_passed_over():
    primitive = objects.to_primitive(objects.Flavor(vcpus=1))
    primitive[object_io.DATA]['gravity'] = 9.81
    primitive[object_io.CHANGES].append('gravity')
    read = objects.from_primitive(primitive)
    assert 'gravity' not in read
    assert objects.to_primitive(read)[object_io.CHANGES] == ['vcpus']


def test_new_words_of_a_newer_version_are_kept():
    primitive = object_io.primitive(
        'ImageMetaProps', {'hw_architecture': 'riscv64', 'hw_vm_mode': 'HV'}
    )
    read = objects.from_primitive(primitive | {object_io.VERSION: '1.45'})
    assert (read.hw_architecture, read.hw_vm_mode) == ('riscv64', 'hvm')
    assert objects.to_primitive(read.obj_clone())[object_io.DATA]['hw_architecture'] == 'riscv64'
    with pytest.raises(errors.MalformedObject):
        objects.from_primitive(primitive)


def test_unknown_objects_inside_known_ones_do_not_stop_the_message():
    unknown = object_io.primitive('Flavor', {}) | {object_io.NAME: 'Wormhole'}
    group = object_io.primitive('RequestGroup', {'requester_id': 'a'})
    read = objects.from_primitive(
        object_io.primitive(
            'RequestSpec',
            {
                'num_instances': 2,
                'wormhole': unknown,
                'limits': unknown,
                'requested_resources': [unknown, group],
            },
        )
    )
    assert read.num_instances == 2
    assert 'limits' not in read
    assert [group.requester_id for group in read.requested_resources] == ['a']


LISTS_OF_INSTANCES = [
    name for name in reference.WIRE if name.startswith('cast-update_instance_info')
]


@each('name', LISTS_OF_INSTANCES)
def test_of_an_instance_only_its_uuid_is_read(name):
    sent = reference.argument(name, 'instance_info')
    data = [instance[object_io.DATA] for instance in sent[object_io.DATA]['objects']]
    data[0]['vcpus'] = 'several'
    instances = objects.from_primitive(sent)
    assert [instance.set_fields() for instance in instances] == [
        {'uuid': instance['uuid']} for instance in data
    ]
    data[0]['uuid'] = 'me'
    with pytest.raises(errors.MalformedObject) as refused:
        objects.from_primitive(sent)
    assert refused.value.path == 'InstanceList.objects[0].uuid'


def test_of_a_service_only_its_state_is_read():
    sent = reference.wire('object-Service.json')['primitive']
    sent[object_io.DATA]['report_count'] = 'several'
    read = objects.to_primitive(objects.from_primitive(sent))
    assert read[object_io.DATA] == {
        'host': 'cmp01',
        'binary': 'nova-compute',
        'disabled': False,
        'disabled_reason': None,
        'last_seen_up': '2026-01-01T12:00:00Z',
        'forced_down': False,
    }


def test_a_list_without_its_objects_is_empty():
    assert len(objects.from_primitive(object_io.primitive('AggregateList', {}))) == 0


def objects_in(value):
    """How many object primitives or objects there are outside of others."""
    if isinstance(value, base.NovaObject) or (isinstance(value, dict) and object_io.NAME in value):
        return 1
    if isinstance(value, dict):
        return sum(map(objects_in, value.values()))
    return sum(map(objects_in, value)) if isinstance(value, (list, tuple)) else 0


READ_IN_PART = {*LISTS_OF_INSTANCES, 'object-Service.json'}


@each('name', [name for name in reference.WIRE if name not in READ_IN_PART])
def test_a_recorded_message_is_written_back_equal(name):
    recorded = reference.wire(name)
    read = objects.from_primitive(recorded)
    assert objects_in(read) == objects_in(recorded)
    written = json.loads(json.dumps(objects.to_primitive(read)))
    assert reference.comparable(written) == reference.comparable(recorded)


def test_objects_are_found_in_any_container():
    primitive = objects.to_primitive(objects.Flavor(vcpus=1))
    read = objects.from_primitive(
        {'a': [primitive, (primitive, 5)], 'b': {'c': primitive}, 'd': {'x'}}
    )
    assert [read['a'][0].vcpus, read['a'][1][0].vcpus, read['b']['c'].vcpus] == [1, 1, 1]
    assert read['a'][1][1] == 5
    assert read['d'] == ['x']
    assert objects.to_primitive(read) == {
        'a': [primitive, (primitive, 5)],
        'b': {'c': primitive},
        'd': ['x'],
    }


def test_what_is_an_object_already_is_left_alone():
    flavor = objects.Flavor(vcpus=1)
    assert objects.from_primitive({'a': [flavor]})['a'][0] is flavor


@pytest.mark.parametrize('value', [None, 5, 'x', [], {}, {'a': None}], ids=repr)
def test_plain_values_pass(value):
    assert objects.from_primitive(value) == value
    assert objects.to_primitive(value) == value


def test_an_object_of_an_unknown_name_stays_as_it_came():
    raw = {**objects.to_primitive(objects.Flavor(vcpus=1)), object_io.NAME: 'Wormhole'}
    assert objects.from_primitive([raw]) == [raw]
    assert objects.to_primitive([raw]) == [raw]


def test_a_bottomless_message_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(errors.MalformedObject, match='nested too deeply'):
        objects.from_primitive(deep)
