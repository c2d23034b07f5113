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

"""Objects of older versions, read and written."""

import copy
import itertools
import json

import pytest

from nova_sched import errors, objects
from nova_sched.objects import object_io
from nova_sched.tests.unit.objects import reference

WITH_FIELDS = sorted(name for name, cls in object_io.CLASSES.items() if cls.ADDED_IN)


def numbers(version):
    return tuple(map(int, version.split('.')))


@pytest.mark.parametrize('name', WITH_FIELDS)
def test_the_history_names_fields_and_versions_that_are(name):
    cls = object_io.CLASSES[name]
    assert set(cls.ADDED_IN) <= set(cls.fields)
    assert all(
        (1, 0) < numbers(version) <= numbers(cls.VERSION) for version in cls.ADDED_IN.values()
    )


@pytest.mark.parametrize(
    'file, version, gone',
    [
        pytest.param('boot-1', '1.14', set(), id='spec 1.14'),
        pytest.param('bandwidth', '1.13', {'requested_networks'}, id='spec 1.13'),
        pytest.param(
            'bandwidth',
            '1.10',
            {'requested_networks', 'request_level_params', 'requested_resources', 'is_bfv'},
            id='spec 1.10',
        ),
        pytest.param(
            'cold-migrate-to-host',
            '1.5',
            {
                'requested_networks',
                'requested_resources',
                'is_bfv',
                'network_metadata',
                'user_id',
                'security_groups',
                'requested_destination',
            },
            id='spec 1.5',
        ),
    ],
)
def test_a_request_is_written_without_what_came_later(file, version, gone):
    recorded = reference.argument(f'select_destinations-{file}.json')
    written = objects.to_primitive(objects.from_primitive(recorded), version)
    assert written[object_io.VERSION] == version
    assert set(recorded[object_io.DATA]) - set(written[object_io.DATA]) == gone
    assert not gone & set(written.get(object_io.CHANGES, ()))


def test_a_selection_1_0_has_no_zone():
    recorded = reference.wire('result-selections-2x2.json')['primitive'][0][0]
    written = objects.to_primitive(objects.from_primitive(recorded), '1.0')
    assert set(recorded[object_io.DATA]) - set(written[object_io.DATA]) == {'availability_zone'}
    assert 'availability_zone' not in written[object_io.CHANGES]


def test_a_group_1_10_has_policies_in_place_of_a_policy():
    group = objects.InstanceGroup(
        policy='anti-affinity', rules={'max_server_per_host': 2}, hosts=['a']
    )
    data = objects.to_primitive(group, '1.10')[object_io.DATA]
    assert data == {'policies': ['anti-affinity'], 'hosts': ['a']}


def test_a_node_1_13_has_no_ratios_and_no_uuid():
    recorded = reference.wire('object-ComputeNode-plain.json')['primitive']
    written = objects.to_primitive(objects.from_primitive(recorded), '1.13')
    assert set(recorded[object_io.DATA]) - set(written[object_io.DATA]) == {
        'uuid',
        'mapped',
        'cpu_allocation_ratio',
        'ram_allocation_ratio',
        'disk_allocation_ratio',
    }


def test_nested_objects_are_written_as_the_manifest_says():
    group = objects.InstanceGroup(policy='affinity')
    spec = objects.RequestSpec(
        instance_group=group,
        flavor=objects.Flavor(vcpus=1, description='x'),
        requested_resources=[objects.RequestGroup()],
    )
    manifest = {'InstanceGroup': '1.10', 'RequestGroup': '1.1'}
    data = spec.obj_to_primitive('1.14', manifest)[object_io.DATA]
    assert data['instance_group'][object_io.DATA] == {'policies': ['affinity']}
    assert data['flavor'][object_io.VERSION] == '1.2'
    assert data['requested_resources'][0][object_io.VERSION] == '1.1'
    assert 'in_tree' not in data['requested_resources'][0][object_io.DATA]


# Policies of guest cells, and the first version that can say them.
POLICIES_SINCE = {'dedicated': (1, 3), 'mixed': (1, 6)}


def recorded():
    """The primitive of every object in the recorded messages, outermost and nested, also in JSON
    texts."""
    found = {}

    def search(value):
        if isinstance(value, str) and value.startswith('{'):
            value = json.loads(value)
        if isinstance(value, dict):
            if value.get(object_io.NAME) in object_io.CLASSES:
                found[json.dumps(value, sort_keys=True)] = value
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                search(item)

    for name in reference.WIRE:
        search(reference.wire(name))
    return found.values()


def as_version(primitive, version, whole):
    """A recorded primitive as a sender of that version writes it; ``whole``: with all its data,
    as Nova stored objects whose version it did not raise."""
    if whole:
        return primitive | {object_io.VERSION: version}
    return objects.to_primitive(objects.from_primitive(primitive), version)


def said(primitive):
    """The data of an object as anybody reads it, nested objects too."""
    read = objects.from_primitive(copy.deepcopy(primitive))
    return reference.comparable(objects.to_primitive(read))[object_io.DATA]


def test_an_object_of_each_version_is_written_again_with_all_that_it_says():
    lost, seen = [], set()
    for primitive, whole in itertools.product(recorded(), (False, True)):
        name = primitive[object_io.NAME]
        major, newest = numbers(object_io.CLASSES[name].VERSION)
        policy = name == 'InstanceNUMACell' and primitive[object_io.DATA]['cpu_policy']
        for version in (f'{major}.{minor}' for minor in range(newest + 1)):
            if not whole and numbers(version) < POLICIES_SINCE.get(policy, (0, 0)):
                continue
            old = as_version(primitive, version, whole)
            seen.add((name, version))
            written = objects.to_primitive(objects.from_primitive(copy.deepcopy(old)))
            kept = {
                field: value
                for field, value in said(primitive).items()
                if field in old[object_io.DATA]
            }
            told = said(written)
            if any(told.get(field) != value for field, value in kept.items()):
                lost.append((name, version, whole))
    assert not lost
    assert {('InstanceNUMACell', '1.4'), ('InstanceGroup', '1.10'), ('RequestSpec', '1.0')} <= seen


@pytest.mark.parametrize('version', ['1.2', '2.0', '0.1', 'old'])
def test_a_version_that_is_not_known_cannot_be_written(version):
    with pytest.raises(errors.IncompatibleObject) as refused:
        objects.to_primitive(objects.Selection(service_host='a'), version)
    assert (refused.value.name, refused.value.supported) == ('Selection', '1.1')


PINNED = {'cpu_policy': 'dedicated'}


@pytest.mark.parametrize(
    'name, version, data, becomes',
    [
        pytest.param(
            'InstanceNUMACell',
            '1.4',
            PINNED | {'cpuset': [2, 3]},
            PINNED | {'cpuset': [], 'pcpuset': [2, 3]},
            id='pinned by its policy',
        ),
        pytest.param(
            'InstanceNUMACell',
            '1.4',
            PINNED | {'cpuset': [2, 3], 'pcpuset': []},
            PINNED | {'cpuset': [], 'pcpuset': [2, 3]},
            id='pinned, with an empty new field',
        ),
        pytest.param(
            'InstanceNUMACell',
            '1.4',
            PINNED | {'cpuset': [], 'pcpuset': [2, 3]},
            PINNED | {'cpuset': [], 'pcpuset': [2, 3]},
            id='pinned as in 1.6, and called 1.4',
        ),
        pytest.param(
            'InstanceNUMACell',
            '1.5',
            {'cpu_policy': 'mixed', 'cpuset': [0], 'pcpuset': [2]},
            {'cpu_policy': 'mixed', 'cpuset': [0], 'pcpuset': [2]},
            id='mixed as in 1.6, and called 1.5',
        ),
        pytest.param(
            'InstanceNUMACell',
            '1.4',
            {'cpu_policy': None, 'cpuset': [2, 3]},
            {'cpu_policy': None, 'cpuset': [2, 3], 'pcpuset': []},
            id='not pinned',
        ),
        pytest.param(
            'InstanceNUMACell',
            '1.0',
            {'id': 0, 'cpuset': [1], 'memory': 512},
            {'id': 0, 'cpuset': [1], 'pcpuset': [], 'memory': 512, 'cpu_policy': None},
            id='a cell before policies',
        ),
        pytest.param(
            'InstanceGroup',
            '1.10',
            {'policies': ['affinity'], 'members': ['a'], 'hosts': ['h']},
            {'policy': 'affinity', 'members': ['a'], 'hosts': ['h']},
            id='a group with policies',
        ),
        pytest.param(
            'InstanceGroup',
            '1.10',
            {'policies': [], 'members': []},
            {'policy': None, 'members': []},
            id='a group without a policy',
        ),
        pytest.param(
            'RequestSpec',
            '1.5',
            {'num_instances': 2, 'requested_destination': None, 'is_bfv': True},
            {'num_instances': 2, 'requested_destination': None, 'is_bfv': True},
            id='a spec with fields of later versions',
        ),
        pytest.param(
            'NUMACell',
            '1.3',
            {'id': 0, 'cpuset': [0, 1], 'socket': 1, 'pinned_cpus': [1]},
            {'id': 0, 'cpuset': [0, 1], 'socket': 1, 'pinned_cpus': [1]},
            id='a host cell with a field of a later version',
        ),
        pytest.param(
            'InstancePCIRequest',
            '1.1',
            {'count': 1, 'numa_policy': 'required', 'requester_id': 'p'},
            {'count': 1, 'numa_policy': 'required', 'requester_id': 'p'},
            id='a PCI request with fields of later versions',
        ),
        pytest.param(
            'NetworkRequest',
            '1.0',
            {'network_id': 'n', 'tag': 't'},
            {'network_id': 'n', 'tag': 't'},
            id='a network request with a field of a later version',
        ),
    ],
)
def test_an_older_object_becomes_one_of_the_current_version(name, version, data, becomes):
    old = object_io.primitive(name, data) | {object_io.VERSION: version}
    written = objects.to_primitive(objects.from_primitive(old))
    assert written[object_io.VERSION] == object_io.CLASSES[name].VERSION
    told = reference.comparable(written)[object_io.DATA]
    assert {field: told[field] for field in becomes} == becomes


def test_a_pinned_cell_is_written_for_older_readers_as_they_know_it():
    cell = objects.InstanceNUMACell(id=0, cpuset=set(), pcpuset={2, 3}, cpu_policy='dedicated')
    data = objects.to_primitive(cell, '1.4')[object_io.DATA]
    assert sorted(data['cpuset']) == [2, 3]
    assert 'pcpuset' not in data
    cell.cpu_policy = 'mixed'
    with pytest.raises(errors.IncompatibleObject):
        objects.to_primitive(cell, '1.5')
