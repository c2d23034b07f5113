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

"""Objects of older versions that are read."""

import copy
import json

import pytest

from nova_sched import objects
from nova_sched.objects import object_io
from nova_sched.tests.unit.objects import reference


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


def said(primitive):
    """The data of an object as anybody reads it, nested objects too."""
    read = objects.from_primitive(copy.deepcopy(primitive))
    return reference.comparable(objects.to_primitive(read))[object_io.DATA]


def test_an_object_of_each_version_is_written_again_with_all_that_it_says():
    """As Nova stored objects whose version it did not raise."""
    lost, seen = [], set()
    for primitive in recorded():
        name = primitive[object_io.NAME]
        major, newest = map(int, object_io.CLASSES[name].VERSION.split('.'))
        for version in (f'{major}.{minor}' for minor in range(newest + 1)):
            old = copy.deepcopy(primitive) | {object_io.VERSION: version}
            seen.add((name, version))
            written = said(objects.to_primitive(objects.from_primitive(old)))
            if any(written.get(field) != value for field, value in said(primitive).items()):
                lost.append((name, version))
    assert not lost
    assert {('InstanceNUMACell', '1.4'), ('InstanceGroup', '1.10'), ('RequestSpec', '1.0')} <= seen


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
