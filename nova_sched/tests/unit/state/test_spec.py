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
from nova_sched.state.spec import READERS, SpecRequest, read
from nova_sched.tests.builders import request, spec, uuid_of


@pytest.mark.parametrize(
    'hints, name, value',
    [
        pytest.param({'a': ['x']}, 'a', 'x', id='a list of one is that one'),
        pytest.param({'a': ['x', 'y']}, 'a', ['x', 'y'], id='a list of two'),
        pytest.param({'a': []}, 'a', 'default', id='an empty list'),
        pytest.param({'a': ['']}, 'a', 'default', id='an empty text'),
        pytest.param({'a': ''}, 'a', 'default', id='an empty text without a list'),
        pytest.param({'a': None}, 'a', 'default', id='null'),
        pytest.param({'a': ['', '']}, 'a', ['', ''], id='two empty texts'),
        pytest.param({'cidr': ['']}, 'cidr', '', id='the size of one address'),
        pytest.param({'cidr': []}, 'cidr', 'default', id='no size'),
        pytest.param({'a': 'x'}, 'a', 'x', id='no list'),
        pytest.param({}, 'a', 'default', id='absent'),
        pytest.param(None, 'a', 'default', id='no hints'),
    ],
)
def test_hint(hints, name, value):
    assert request(hints=hints).hint(name, 'default') == value
    assert SpecRequest(spec(hints=hints)).hint(name, 'default') == value


@pytest.mark.parametrize(
    'hints, check, rebuild',
    [
        pytest.param({}, None, False, id='none'),
        pytest.param({'_nova_check_type': ['rebuild']}, 'rebuild', True, id='rebuild'),
        pytest.param({'_nova_check_type': ['other']}, 'other', False, id='another check'),
        pytest.param(
            {'_nova_check_type': ['rebuild', 'x']}, ['rebuild', 'x'], False, id='not exactly'
        ),
    ],
)
def test_check_type(hints, check, rebuild):
    for asked in (request(hints=hints), SpecRequest(spec(hints=hints))):
        assert (asked.check_type, asked.is_rebuild) == (check, rebuild)


@pytest.mark.parametrize(
    'words, forced',
    [
        pytest.param({}, False, id='no'),
        pytest.param({'force_hosts': None, 'force_nodes': None}, False, id='null'),
        pytest.param({'force_hosts': ['H']}, True, id='host'),
        pytest.param({'force_nodes': ['n']}, True, id='node'),
        pytest.param(
            {'force_hosts': ['H'], 'hints': {'_nova_check_type': ['rebuild']}}, False, id='a check'
        ),
    ],
)
def test_forced(words, forced):
    assert request(**words).forced is forced


def test_names_of_hosts_lose_their_case_and_names_of_nodes_keep_it():
    asked = request(ignore_hosts=['A', 'b'], force_hosts=['C'], force_nodes=['D'])
    assert (asked.ignore_hosts, asked.force_hosts, asked.force_nodes) == ({'a', 'b'}, {'c'}, {'D'})


@pytest.mark.parametrize(
    'given, most',
    [
        pytest.param({'rules': {}}, 1, id='no rule'),
        pytest.param({'rules': None}, 1, id='null'),
        pytest.param({'rules': {'max_server_per_host': '3'}}, 3, id='text, as it travels'),
        pytest.param({'rules': {'max_server_per_host': 3}}, 3, id='number'),
        pytest.param({'rules': {'max_server_per_host': '0'}}, 0, id='none at all'),
        pytest.param(
            {'rules': None, '_rules': {'max_server_per_host': '4'}},
            4,
            id='by its name on the wire',
        ),
        pytest.param(
            {'policy': 'affinity', 'rules': {'max_server_per_host': 'many'}},
            1,
            id='of a policy that has none',
        ),
    ],
)
def test_rules_of_a_group(given, most):
    one = spec(group={'policy': 'anti-affinity'})
    vars(one.instance_group).update(given)
    assert READERS['group'](one).max_server_per_host == most


def test_a_rule_that_is_no_number():
    one = spec(group={'policy': 'anti-affinity', 'rules': {'max_server_per_host': 'many'}})
    with pytest.raises(errors.InvalidRequest, match='many'):
        READERS['group'](one)


@pytest.mark.parametrize(
    'given, policy',
    [
        pytest.param({'policy': 'affinity', 'policies': None}, 'affinity', id='policy'),
        pytest.param(
            {'policy': None, 'policies': ['anti-affinity']}, 'anti-affinity', id='policies'
        ),
        pytest.param({'policy': None, 'policies': []}, '', id='neither'),
    ],
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


@pytest.mark.parametrize(
    'image, found',
    [
        pytest.param(None, {}, id='no image'),
        pytest.param(types.SimpleNamespace(id='i'), {}, id='no properties'),
        pytest.param(
            types.SimpleNamespace(properties={'a': 1, 'b': None}),
            {'a': 1},
            id='a dict, nulls left out',
        ),
        pytest.param(
            types.SimpleNamespace(properties=types.SimpleNamespace(a=1, b=None)),
            {'a': 1},
            id='an object',
        ),
        pytest.param(
            objects.ImageMeta(properties=objects.ImageMetaProps(hw_architecture='amd64')),
            {'hw_architecture': 'x86_64'},
            id='a versioned object, unset left out',
        ),
    ],
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


@pytest.mark.parametrize(
    'thing, value',
    [
        pytest.param(None, 'default', id='nothing'),
        pytest.param(types.SimpleNamespace(a=1), 1, id='set'),
        pytest.param(types.SimpleNamespace(a=None), None, id='null stays null'),
        pytest.param(types.SimpleNamespace(), 'default', id='missing'),
    ],
)
def test_read(thing, value):
    assert read(thing, 'a', 'default') == value


def test_read_of_an_object():
    assert (
        read(objects.RequestSpec(availability_zone=None), 'availability_zone', 'default') is None
    )
    assert read(objects.RequestSpec(), 'availability_zone', 'default') == 'default'
    assert read(objects.RequestSpec(), 'no_such_field', 'default') == 'default'


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
