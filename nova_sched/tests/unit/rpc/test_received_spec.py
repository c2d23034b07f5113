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
"""RequestSpecs whose kind is known are read like others, and refused like others."""

import copy
import dataclasses
import json

import oslo_messaging as messaging
import pytest

from nova_sched import errors, objects
from nova_sched.rpc import translate
from nova_sched.rpc.messages import ServerSerializer
from nova_sched.rpc.translate import MAX_KIND_BYTES, ReceivedSpec, SchedulerSerializer, SpecKinds
from nova_sched.state.request import Request
from nova_sched.state.spec import CALL_READERS, KIND_FIELDS, KIND_READERS
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.reference import REFERENCE, wire
from nova_sched.tests.rows import each

DATA, UUIDS = 'nova_object.data', [uuid_of('one')]
CALLS = [
    name
    for name in sorted(
        path.stem.removeprefix('select_destinations-')
        for path in (REFERENCE / 'wire').glob('select_destinations-*.json')
    )
    if not name.endswith('rpc-4.0')
]


def sent(name='boot-1'):
    """The RequestSpec of a recorded call, as the bus gives it."""
    return json.loads(
        json.dumps(wire(f'select_destinations-{name}')['message']['args']['spec_obj'])
    )


def of_another_instance(value):
    """The same request for another instance of another owner."""
    text = json.dumps(value).replace(value[DATA]['instance_uuid'], uuid_of('another'))
    other = json.loads(text)
    other[DATA]['user_id'] = other[DATA]['project_id'] = 'another'
    return other


def read(serializer, value):
    """The fields of the Request that a message is translated to, or the error."""
    try:
        try:
            spec = serializer.deserialize_entity(None, copy.deepcopy(value))
            (request,) = translate.requests(translate.spec(spec), UUIDS)
        except messaging.ExpectedException as expected:
            raise expected.exc_info[1] from None
    except errors.SchedError as error:
        return type(error), str(error)
    fields = [field.name for field in dataclasses.fields(Request) if field.name != 'spec']
    whole = objects.to_primitive(request.read_spec())
    return {name: getattr(request, name) for name in fields}, json.dumps(whole, sort_keys=True)


def known(*values):
    """A serializer that knows the kinds of these messages."""
    serializer = SchedulerSerializer()
    for value in values:
        read(serializer, value)
    return serializer


@each('name', CALLS)
def test_a_message_of_a_known_kind_asks_for_the_same(name):
    first = sent(name)
    second = of_another_instance(first)
    serializer = known(first)
    for value in (first, second):
        assert read(serializer, value) == read(ServerSerializer(), value)


def test_the_kind_of_a_recorded_call_is_kept():
    serializer, value = known(sent()), of_another_instance(sent())
    found = serializer.deserialize_entity(None, value)
    assert isinstance(found, ReceivedSpec)
    assert found.instance_uuid == uuid_of('another')
    assert found.whole().pci_requests.instance_uuid == uuid_of('another')
    assert 'instance_uuid' in found
    assert 'flavor' not in found


def test_a_kind_is_known_by_its_values_alone():
    """Not by which of them are the same object, or are in use elsewhere."""
    value = sent()
    serializer, flavor = known(sent()), value[DATA]['flavor']
    used = [*flavor, *flavor[DATA].values()]
    assert serializer._kinds.find(value) is not None, used
    value[DATA]['flavor'] = {**flavor, DATA: {**flavor[DATA], 'name': ''}}
    assert serializer._kinds.find(value) is None
    value[DATA]['flavor'][DATA]['name'] = str(flavor[DATA]['name'])
    assert serializer._kinds.find(value) is not None


STRANGE = [
    None,
    True,
    1,
    -1,
    2**80,
    1.5,
    '',
    'x',
    'nul \0',
    'half \ud800',
    [],
    ['x'],
    [None],
    [1],
    {},
    {'x': 'y'},
    {'x': ['y']},
    {'nova_object.name': 'Flavor'},
    {'nova_object.name': 'Unknown', 'nova_object.namespace': 'nova',
     'nova_object.version': '1.0', 'nova_object.data': {}},
    sent()[DATA]['flavor'],
]  # fmt: skip


@pytest.mark.parametrize('value', STRANGE, ids=lambda value: repr(value)[:20])
def test_a_field_of_another_type_is_refused_as_in_a_new_message(value):
    serializer = known(sent())
    for name in objects.RequestSpec.fields:
        spoiled = sent()
        spoiled[DATA][name] = value
        assert read(serializer, spoiled) == read(ServerSerializer(), spoiled), name


@each('value', STRANGE, ids=lambda value: repr(value)[:20])
@each('name', ['flavor', 'image', 'pci_requests', 'limits'])
def test_a_field_inside_of_a_known_one(name, value):
    serializer = known(sent())
    for inner in sent()[DATA][name][DATA]:
        spoiled = sent()
        spoiled[DATA][name][DATA][inner] = value
        assert read(serializer, spoiled) == read(ServerSerializer(), spoiled), inner


@each('value', STRANGE, ids=lambda value: repr(value)[:20])
@each('key', sent())
def test_a_key_of_the_message(key, value):
    serializer, spoiled = known(sent()), {**sent(), key: value}
    assert read(serializer, spoiled) == read(ServerSerializer(), spoiled)


@each('name', objects.RequestSpec.fields)
def test_a_field_that_is_not_set(name):
    serializer, less = known(sent()), sent()
    less[DATA].pop(name, None)
    for _ in range(2):
        assert read(serializer, less) == read(ServerSerializer(), less)


@pytest.mark.parametrize(
    'changes',
    [{'vcpus': True}, {'vcpus': 2.0}, {'vcpus': '2'}, {'disabled': 0}, {'swap': False}],
    ids=repr,
)
def test_equal_values_of_other_types_are_of_another_kind(changes):
    value = sent()
    value[DATA]['flavor'][DATA].update(vcpus=1, swap=0)
    serializer, other = known(value), copy.deepcopy(value)
    other[DATA]['flavor'][DATA].update(changes)
    assert serializer._kinds.find(other) is None
    assert read(serializer, other) == read(ServerSerializer(), other)


def test_a_refused_request_is_refused_again():
    value = sent()
    value[DATA]['flavor'][DATA]['extra_specs'] = {'resources:VCPU': 'many'}
    serializer = SchedulerSerializer()
    refusals = {read(serializer, value) for _ in range(3)}
    assert [kind for kind, _ in refusals] == [errors.InvalidRequest]


def test_a_rule_that_changes_its_request_spec_changes_no_other():
    serializer = known(sent())
    for _ in range(2):
        spec = serializer.deserialize_entity(None, sent())
        (request,) = translate.requests(translate.spec(spec), UUIDS)
        mine = request.read_spec()
        assert mine.flavor.extra_specs == sent()[DATA]['flavor'][DATA]['extra_specs']
        assert mine is request.read_spec()
        mine.flavor.extra_specs['hw:cpu_policy'] = 'dedicated'
        mine.flavor.vcpus = 99


def test_what_is_used_last_is_kept():
    kinds, values = SpecKinds(2), []
    for number in range(3):
        values.append(sent())
        values[-1][DATA]['flavor'][DATA]['vcpus'] = number + 1
    spec = objects.from_primitive(sent())
    for value in (values[0], values[1], values[0], values[2]):
        if kinds.find(value) is None:
            kinds.keep(value, spec)
    assert [kinds.find(value) is not None for value in values] == [True, False, True]
    assert len(kinds) == 2


def test_a_large_kind_is_not_kept():
    value = sent()
    value[DATA]['flavor'][DATA]['extra_specs'] = {'x': 'y' * MAX_KIND_BYTES}
    serializer = SchedulerSerializer()
    for _ in range(2):
        assert isinstance(serializer.deserialize_entity(None, value), objects.RequestSpec)


class Traced:
    """A RequestSpec that notes which of its fields are read."""

    def __init__(self, spec):
        self.__dict__['spec'], self.__dict__['read'] = spec, set()

    def __getattr__(self, name):
        self.read.add(name)
        if name not in self.spec:
            raise AttributeError(name)
        return getattr(self.spec, name)


@each('name', CALLS)
def test_the_properties_of_a_kind_are_read_from_its_fields(name):
    spec = objects.from_primitive(sent(name))
    traced = Traced(spec)
    for reader in KIND_READERS.values():
        reader(traced)
    assert traced.read <= KIND_FIELDS
    for property_name, (field, reader) in CALL_READERS.items():
        traced = Traced(spec)
        reader(traced)
        assert traced.read == {field}, property_name
