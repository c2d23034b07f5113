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

"""Every recorded message is read, and written back equal."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.objects import base, object_io
from nova_sched.tests.unit.objects import reference


def objects_in(value):
    """How many object primitives or objects there are outside of others."""
    if isinstance(value, base.NovaObject) or (isinstance(value, dict) and object_io.NAME in value):
        return 1
    if isinstance(value, dict):
        return sum(map(objects_in, value.values()))
    return sum(map(objects_in, value)) if isinstance(value, (list, tuple)) else 0


@pytest.mark.parametrize('name', reference.WIRE)
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


def test_a_version_holds_for_every_object_in_the_answer():
    answer = [[objects.Selection(service_host='a', availability_zone='z')]]
    written = objects.to_primitive(answer, version='1.0')
    assert written[0][0][object_io.VERSION] == '1.0'
    assert written[0][0][object_io.DATA] == {'service_host': 'a'}
