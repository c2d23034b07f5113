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
"""What is empty is unset, where Nova and Heat say so: absent, null, '', [] and {} are the same."""

import copy
import dataclasses

import pytest

from nova_sched import errors, objects
from nova_sched.groups import template
from nova_sched.objects import object_io
from nova_sched.rpc import translate
from nova_sched.state.request import Request
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.reference import wire
from nova_sched.tests.rows import each

DATA = object_io.DATA
ABSENT = object()
NAMES = [field.name for field in dataclasses.fields(Request) if field.name != 'spec']


def request(call, path, value):
    """The facts of a recorded call's request, after a change at this path of its RequestSpec."""
    args = copy.deepcopy(wire(f'select_destinations-{call}')['message']['args'])
    place = args['spec_obj']
    for step in path[:-1]:
        place = place[DATA][step]
    if value is ABSENT:
        place[DATA].pop(path[-1], None)
    else:
        place[DATA][path[-1]] = value
    spec = translate.spec(objects.from_primitive(args['spec_obj']))
    found = translate.requests(spec, args['instance_uuids'])[0]
    return {name: getattr(found, name) for name in NAMES}


def hinted(name, *values):
    return ('boot-1', ('scheduler_hints',), [{name: value} for value in values])


# A recorded call, the path of a field, and values that all mean the first.
ALIKE = {
    'no hints': ('boot-1', ('scheduler_hints',), [{}, None, ABSENT]),
    'a hint of no value': hinted('same_host', [], ['']),
    'a group in no hint': hinted('group', [], ['']),
    'a lifetime of no value': hinted('ttl', [], ['']),
    'no zone': ('availability-zone', ('availability_zone',), [None, '', ABSENT]),
    'no group': ('group-anti-affinity', ('instance_group',), [None, ABSENT]),
    'no rules': (
        'group-anti-affinity-rules',
        ('instance_group', '_rules'),
        [{}, {'max_server_per_host': ''}, ABSENT],
    ),
    'no members': ('group-anti-affinity', ('instance_group', 'members'), [[], None, ABSENT]),
    'no hosts of members': (
        'group-anti-affinity',
        ('instance_group', 'hosts'),
        [[], None, ABSENT],
    ),
    'no extra specs': ('boot-1', ('flavor', 'extra_specs'), [{}, ABSENT]),
    'no swap': ('boot-1', ('flavor', 'swap'), [0, ABSENT]),
    'no ports': ('boot-1', ('requested_resources',), [[], None, ABSENT]),
    'no devices': ('boot-1', ('pci_requests',), [None, ABSENT]),
    'no cells': ('boot-1', ('numa_topology',), [None, ABSENT]),
    'nothing to ignore': ('boot-1', ('ignore_hosts',), [[], None, ABSENT]),
    'no forced host': ('force-hosts', ('force_hosts',), [[], None, ABSENT]),
    'no forced node': ('force-nodes', ('force_nodes',), [[], None, ABSENT]),
    'no earlier attempt': ('retry', ('retry',), [None, ABSENT]),
    'no destination': ('requested-destination-host', ('requested_destination',), [None, ABSENT]),
    'no host to go to': (
        'requested-destination-host',
        ('requested_destination', 'host'),
        ['', ABSENT],
    ),
    'no node to go to': (
        'requested-destination-host',
        ('requested_destination', 'node'),
        ['', None, ABSENT],
    ),
    'no aggregates': (
        'requested-destination-host',
        ('requested_destination', 'aggregates'),
        [[], None, ABSENT],
    ),
}


@each('what', ALIKE)
def test_a_request(what):
    call, path, values = ALIKE[what]
    first, *others = (request(call, path, value) for value in values)
    for other in others:
        assert {name: one for name, one in other.items() if one != first[name]} == {}


def legacy(**properties):
    image = {'id': uuid_of('image'), 'properties': {}}
    flavor = objects.to_primitive(
        objects.Flavor(id=1, name='f', flavorid='f', vcpus=1, memory_mb=64, root_gb=0,
                       ephemeral_gb=0, swap=0, extra_specs={})
    )  # fmt: skip
    spec = objects.RequestSpec.from_primitives(
        {'image': image, 'instance_type': flavor, 'num_instances': 1},
        {'instance_type': flavor, **properties},
    )
    found = translate.requests(translate.spec(spec))[0]
    return found.hints, found.group, found.retry_hosts, found.ignore_hosts


@each(
    'properties',
    [
        {},
        {'scheduler_hints': None},
        {'scheduler_hints': {}},
        {'scheduler_hints': {'group': None}},
        {'scheduler_hints': {'group': []}},
        {'scheduler_hints': {'group': ''}},
        {'instance_group': None},
        {'group_updated': False, 'group_policies': []},
        {'retry': {}},
        {'retry': None},
        {'ignore_hosts': None},
        {'ignore_hosts': []},
    ],
    ids=str,
)
def test_a_request_of_rpc_4_0(properties):
    assert legacy(**properties) == ({}, None, frozenset(), frozenset())


def test_a_group_without_policy_places_as_it_likes():
    for policies in ([], None, set()):
        _, group, *_ = legacy(group_updated=True, group_policies=policies and [*policies])
        assert (group.policy, group.is_hard) == ('', False)


def test_metadata_of_an_aggregate():
    for metadata in ({}, None, ABSENT):
        one = objects.Aggregate(id=1, name='a', hosts=[])
        if metadata is not ABSENT:
            one.metadata = metadata
        assert translate.aggregates(one)[0].metadata == {}


FLAVOR = {'vcpus': 1, 'ram': 512}


def read(resources, **sections):
    found = template.read(
        {'heat_template_version': '2018-08-31', 'resources': resources, **sections}
    )
    return found.members, found.policies


def server(**properties):
    return {'type': 'OS::Nova::Server', 'properties': {'flavor': FLAVOR, **properties}}


@each(
    'properties',
    [
        {'availability_zone': None},
        {'availability_zone': ''},
        {'image': None},
        {'image': ''},
        {'scheduler_hints': None},
        {'scheduler_hints': {}},
        {'scheduler_hints': {'same_host': None}},
        {'block_device_mapping': None},
        {'block_device_mapping_v2': []},
        {'flavor': {**FLAVOR, 'swap': ''}},
        {'flavor': {**FLAVOR, 'swap': None, 'disk': '', 'extra_specs': None}},
        {'flavor': {**FLAVOR, 'extra_specs': {}}},
    ],
    ids=str,
)
def test_a_server_of_a_template(properties):
    assert read({'a': server(**properties)}) == read({'a': server()})


@each('section', ['parameters', 'conditions', 'outputs', 'parameter_groups'])
@each('value', [None, {}, ABSENT], ids=['null', 'empty', 'absent'])
def test_a_section_of_a_template(section, value):
    given = {} if value is ABSENT else {section: value}
    if section == 'parameter_groups' and value == {}:
        given = {section: []}
    assert read({'a': server()}, **given) == read({'a': server()})


def test_a_needed_value_that_is_empty_is_missing():
    for flavor in ({'vcpus': '', 'ram': 1}, {'vcpus': None, 'ram': 1}, {'ram': 1}):
        with pytest.raises(errors.TemplateError, match='vcpus is missing'):
            read({'a': server(flavor=flavor)})


def group(*properties):
    given = {'properties': properties[0]} if properties else {}
    hints = {'group': {'get_resource': 'g'}}
    _, (policy,) = read(
        {'g': {'type': 'OS::Nova::ServerGroup', **given}, 'a': server(scheduler_hints=hints)}
    )
    return policy.kind, policy.level, policy.most, policy.weight


@each(
    'properties, policy',
    [
        ((), ('anti-affinity', 'host', 1, None)),
        ((None,), ('anti-affinity', 'host', 1, None)),
        (({},), ('anti-affinity', 'host', 1, None)),
        (({'policies': None, 'rules': None},), ('anti-affinity', 'host', 1, None)),
        (({'name': 'x', 'rules': {}},), ('anti-affinity', 'host', 1, None)),
        (({'rules': {'max_server_per_host': None}},), ('anti-affinity', 'host', 1, None)),
        (({'rules': {'max_server_per_host': 2}},), ('anti-affinity', 'host', 2, None)),
        (({'policies': ['soft-affinity'], 'rules': {}},), ('affinity', 'host', 1, 1.0)),
    ],
    ids=str,
)
def test_the_default_of_a_server_group_is_that_of_heat(properties, policy):
    assert group(*properties) == policy


@each(
    'type_, properties, members',
    [
        ('OS::Heat::ResourceGroup', {}, 1),
        ('OS::Heat::ResourceGroup', {'count': None, 'removal_policies': []}, 1),
        ('OS::Heat::ResourceGroup', {'count': 0}, 0),
        ('OS::Heat::AutoScalingGroup', {'min_size': 2, 'max_size': 3}, 2),
        (
            'OS::Heat::AutoScalingGroup',
            {'min_size': 2, 'max_size': 3, 'desired_capacity': None, 'rolling_updates': None},
            2,
        ),
        ('OS::Heat::AutoScalingGroup', {'min_size': 0, 'max_size': 3}, 0),
    ],
    ids=str,
)
def test_the_defaults_of_groups_are_those_of_heat(type_, properties, members):
    repeated = 'resource_def' if type_ == 'OS::Heat::ResourceGroup' else 'resource'
    one = {'type': type_, 'properties': {**properties, repeated: server()}}
    found, _ = read({'g': one, 'a': server()})
    assert len(found) == members + 1
