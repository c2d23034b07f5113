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
"""What a request is read from: every fact from a Nova-like spec, and the same from a real
RequestSpec."""

import types

import pytest

from nova_sched import errors, objects
from nova_sched.state.request import RequestedDestination
from nova_sched.state.spec import (
    MAX_CAPABILITIES,
    MAX_VERSIONS,
    READERS,
    VERSIONS,
    SpecRequest,
    read,
)
from nova_sched.tests.builders import request, spec, uuid_of
from nova_sched.tests.rows import table


@table(
    'hints, name, value',
    {
        'a list of one is that one': ({'a': ['x']}, 'a', 'x'),
        'a list of two': ({'a': ['x', 'y']}, 'a', ['x', 'y']),
        'an empty list': ({'a': []}, 'a', 'default'),
        'an empty text': ({'a': ['']}, 'a', 'default'),
        'an empty text without a list': ({'a': ''}, 'a', 'default'),
        'null': ({'a': None}, 'a', 'default'),
        'two empty texts': ({'a': ['', '']}, 'a', ['', '']),
        'the size of one address': ({'cidr': ['']}, 'cidr', ''),
        'no size': ({'cidr': []}, 'cidr', 'default'),
        'no list': ({'a': 'x'}, 'a', 'x'),
        'absent': ({}, 'a', 'default'),
        'no hints': (None, 'a', 'default'),
    },
)
def test_hint(hints, name, value):
    assert request(hints=hints).hint(name, 'default') == value
    assert SpecRequest(spec(hints=hints)).hint(name, 'default') == value


@table(
    'hints, check, rebuild',
    {
        'none': ({}, None, False),
        'rebuild': ({'_nova_check_type': ['rebuild']}, 'rebuild', True),
        'another check': ({'_nova_check_type': ['other']}, 'other', False),
        'not exactly': ({'_nova_check_type': ['rebuild', 'x']}, ['rebuild', 'x'], False),
    },
)
def test_check_type(hints, check, rebuild):
    for asked in (request(hints=hints), SpecRequest(spec(hints=hints))):
        assert (asked.check_type, asked.is_rebuild) == (check, rebuild)


@table(
    'words, forced',
    {
        'no': ({}, False),
        'null': ({'force_hosts': None, 'force_nodes': None}, False),
        'host': ({'force_hosts': ['H']}, True),
        'node': ({'force_nodes': ['n']}, True),
        'a check': ({'force_hosts': ['H'], 'hints': {'_nova_check_type': ['rebuild']}}, False),
    },
)
def test_forced(words, forced):
    assert request(**words).forced is forced


def test_names_of_hosts_lose_their_case_and_names_of_nodes_keep_it():
    asked = request(ignore_hosts=['A', 'b'], force_hosts=['C'], force_nodes=['D'])
    assert (asked.ignore_hosts, asked.force_hosts, asked.force_nodes) == ({'a', 'b'}, {'c'}, {'D'})


@table(
    'given, most',
    {
        'no rule': ({'rules': {}}, 1),
        'null': ({'rules': None}, 1),
        'text, as it travels': ({'rules': {'max_server_per_host': '3'}}, 3),
        'number': ({'rules': {'max_server_per_host': 3}}, 3),
        'none at all': ({'rules': {'max_server_per_host': '0'}}, 0),
        'by its name on the wire': ({'rules': None, '_rules': {'max_server_per_host': '4'}}, 4),
        'of a policy that has none': (
            {'policy': 'affinity', 'rules': {'max_server_per_host': 'many'}},
            1,
        ),
    },
)
def test_rules_of_a_group(given, most):
    one = spec(group={'policy': 'anti-affinity'})
    vars(one.instance_group).update(given)
    assert READERS['group'](one).max_server_per_host == most


def test_a_rule_that_is_no_number():
    one = spec(group={'policy': 'anti-affinity', 'rules': {'max_server_per_host': 'many'}})
    with pytest.raises(errors.InvalidRequest, match='many'):
        READERS['group'](one)


@table(
    'given, policy',
    {
        'policy': ({'policy': 'affinity', 'policies': None}, 'affinity'),
        'policies': ({'policy': None, 'policies': ['anti-affinity']}, 'anti-affinity'),
        'neither': ({'policy': None, 'policies': []}, ''),
    },
)
def test_policy_of_a_group(given, policy):
    one = spec(group={'members': ['a'], 'hosts': ['H']})
    vars(one.instance_group).update(given)
    group = READERS['group'](one)
    assert (group.policy, group.members, group.hosts) == (policy, {'a'}, {'H'})


def test_destination():
    cell = types.SimpleNamespace(uuid=uuid_of('cell'))
    wanted = types.SimpleNamespace(host='h', node=None, cell=cell, allow_cross_cell_move=True)
    assert request(requested_destination=wanted).destination == RequestedDestination(
        'h', None, uuid_of('cell'), True
    )
    bare = types.SimpleNamespace(host='h')
    assert request(requested_destination=bare).destination == RequestedDestination('h')
    assert request().destination is None


def test_hosts_tried_before():
    nodes = [types.SimpleNamespace(host='h', hypervisor_hostname='n')]
    assert request(retry=types.SimpleNamespace(num_attempts=1, hosts=nodes)).retry_hosts == {
        ('h', 'n')
    }
    assert request(retry=None).retry_hosts == frozenset()


@table(
    'image, found',
    {
        'no image': (None, {}),
        'no properties': (types.SimpleNamespace(id='i'), {}),
        'a dict, nulls left out': (
            types.SimpleNamespace(properties={'a': 1, 'b': None}),
            {'a': 1},
        ),
        'an object': (
            types.SimpleNamespace(properties=types.SimpleNamespace(a=1, b=None)),
            {'a': 1},
        ),
        'a versioned object, unset left out': (
            objects.ImageMeta(properties=objects.ImageMetaProps(hw_architecture='amd64')),
            {'hw_architecture': 'x86_64'},
        ),
    },
)
def test_image_properties(image, found):
    assert request(image=image).image_properties == found


# Versioned objects: unset is not null, and neither is an error.


def test_an_object_of_which_nothing_is_set():
    empty = objects.RequestSpec()
    found = {name: reader(empty) for name, reader in READERS.items()}
    assert {name: value for name, value in found.items() if value} == {}
    assert (found['availability_zone'], found['group'], found['destination']) == (None, None, None)


def test_an_object_of_which_all_is_null():
    nulls = {
        name: None
        for name, field in objects.RequestSpec.fields.items()
        if field.nullable and not field.read_only
    }
    full = objects.RequestSpec(**nulls)
    found = {name: reader(full) for name, reader in READERS.items()}
    assert {name: value for name, value in found.items() if value} == {}


@table(
    'thing, value',
    {
        'nothing': (None, 'default'),
        'set': (types.SimpleNamespace(a=1), 1),
        'null stays null': (types.SimpleNamespace(a=None), None),
        'missing': (types.SimpleNamespace(), 'default'),
    },
)
def test_read(thing, value):
    assert read(thing, 'a', 'default') == value


def test_read_of_an_object():
    assert (
        read(objects.RequestSpec(availability_zone=None), 'availability_zone', 'default') is None
    )
    assert read(objects.RequestSpec(), 'availability_zone', 'default') == 'default'
    assert read(objects.RequestSpec(), 'no_such_field', 'default') == 'default'


@pytest.mark.parametrize(
    'name, parts, most',
    [
        pytest.param(
            'extra_specs',
            lambda number: {
                'extra_specs': {f'capabilities:stats:{place}': '1' for place in range(number)}
            },
            MAX_CAPABILITIES,
            id='capabilities',
        ),
        pytest.param(
            'image_properties',
            lambda number: {'image_properties': {VERSIONS: '>'.ljust(number, '1')}},
            MAX_VERSIONS,
            id='versions of the hypervisor',
        ),
    ],
)
def test_more_than_a_request_may_have(name, parts, most):
    READERS[name](spec(**parts(most)))
    with pytest.raises(ValueError, match=f'{most + 1} .*at most {most} are accepted'):
        READERS[name](spec(**parts(most + 1)))


def test_only_what_is_asked_for_is_read():
    class Touchy:
        """A spec that has hints and nothing else."""

        scheduler_hints = {'same_host': ['a']}

        @property
        def flavor(self):
            raise AssertionError('nobody asked')

    assert SpecRequest(Touchy()).hint('same_host') == 'a'
    with pytest.raises(AssertionError, match='nobody asked'):
        _ = SpecRequest(Touchy()).vcpus
    with pytest.raises(AttributeError, match='no_such_fact'):
        _ = SpecRequest(Touchy()).no_such_fact
