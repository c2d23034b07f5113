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
"""The payloads of notifications, compared with those that Nova has sent for the same calls."""

import functools
import json
from pathlib import Path

import pytest

from nova_sched import objects
from nova_sched.rpc.notification_payload import legacy, versioned
from nova_sched.tests import reference
from nova_sched.tests.builders import uuid_of

RECORDED = Path(reference.__file__).parent / 'data' / 'notifications' / 'select_destinations.json'
UUID = uuid_of('a')
CALLS = (
    'boot-1 cold-migrate-to-host force-hosts group-anti-affinity-rules hint-query '
    'image-properties numa-2cells-hugepages-pinned pci-alias retry'
).split()
UNVERSIONED_START, VERSIONED_START, UNVERSIONED_END, VERSIONED_END = range(4)


@functools.cache
def recorded():
    return json.loads(RECORDED.read_text())['calls']


def primitive(name):
    return objects.to_primitive(reference.scenario(name))


def sent(payload):
    """A payload as its receivers read it."""
    return json.loads(json.dumps(payload))


def without_changes(value):
    """What Nova has sent, without the fields that were changed last in an object of Python."""
    if isinstance(value, dict):
        return {
            name: without_changes(one) for name, one in value.items() if name != '_changed_fields'
        }
    return [without_changes(one) for one in value] if isinstance(value, list) else value


def fields(value, path=''):
    """Path -> value of each field of a document; sets of groups in any order."""
    if isinstance(value, dict) and value:
        return {
            k: v for name, one in value.items() for k, v in fields(one, f'{path}.{name}').items()
        }
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return {k: v for i, one in enumerate(value) for k, v in fields(one, f'{path}.{i}').items()}
    return {path: sorted(value) if isinstance(value, list) else value}


@pytest.mark.parametrize('name', CALLS)
@pytest.mark.parametrize('number', [VERSIONED_START, VERSIONED_END], ids=['start', 'end'])
def test_versioned(name, number):
    assert fields(sent(versioned(primitive(name)))) == fields(recorded()[name][number]['payload'])


@pytest.mark.parametrize('name', CALLS)
@pytest.mark.parametrize('number', [UNVERSIONED_START, UNVERSIONED_END], ids=['start', 'end'])
def test_legacy(name, number):
    before = fields(without_changes(recorded()[name][number]['payload']))
    if number == UNVERSIONED_END:
        # In Nova, the versioned notification before sets it in the request.
        before.pop('.request_spec.instance_properties.numa_topology.instance_uuid', None)
    assert fields(sent(legacy(primitive(name)))) == before


def test_every_recorded_call_is_compared():
    assert sorted(recorded()) == CALLS


def test_a_request_without_most_of_its_fields():
    spec = objects.to_primitive(objects.RequestSpec(instance_uuid=UUID, image=None))
    data = versioned(spec)['nova_object.data']
    assert (data['num_instances'], data['security_groups']) == (1, [])
    assert (data['image'], data['flavor'], data['numa_topology']) == (None, None, None)
    assert legacy(spec)['request_spec'] == {
        'num_instances': 1,
        'image': {},
        'instance_type': {},
        'instance_properties': {'uuid': UUID},
    }
