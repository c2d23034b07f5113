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

"""Objects written as older versions."""

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


def test_an_older_object_is_written_back_as_it_was():
    primitive = objects.to_primitive(objects.Selection(service_host='a'), '1.0')
    assert objects.to_primitive(objects.from_primitive(primitive)) == primitive


@pytest.mark.parametrize('version', ['1.2', '2.0', '0.1', 'old'])
def test_a_version_that_is_not_known_cannot_be_written(version):
    with pytest.raises(errors.IncompatibleObject) as refused:
        objects.to_primitive(objects.Selection(service_host='a'), version)
    assert (refused.value.name, refused.value.supported) == ('Selection', '1.1')


def test_a_pinned_cell_of_an_older_version_is_understood():
    data = {'id': 0, 'cpuset': [2, 3], 'memory': 512, 'cpu_policy': 'dedicated'}
    old = object_io.primitive('InstanceNUMACell', data) | {object_io.VERSION: '1.4'}
    cell = objects.from_primitive(old)
    assert (cell.cpuset, cell.pcpuset) == (set(), {2, 3})
    data['cpu_policy'] = None
    cell = objects.from_primitive(old)
    assert (cell.cpuset, cell.pcpuset) == ({2, 3}, set())
