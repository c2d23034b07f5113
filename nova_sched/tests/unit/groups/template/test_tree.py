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
"""Where members have their place, and what cannot have one."""

import pytest

from nova_sched import errors
from nova_sched.groups import template
from nova_sched.tests.unit.groups.template import (
    SERVER,
    group,
    place,
    read,
    refused,
    repeated,
    server,
)

SCALING = {
    'type': 'OS::Heat::AutoScalingGroup',
    'properties': {'min_size': 1, 'max_size': 9, 'resource': SERVER},
}


def scaling(**properties):
    return {**SCALING, 'properties': {**SCALING['properties'], **properties}}


def inline(name, definition=SERVER):
    return {'name': name, **definition}


REFERENCE = {'get_resource': 'a'}


@pytest.mark.parametrize(
    'resources, members, groups',
    [
        pytest.param({'a': SERVER, 'b': SERVER}, 'a b', {}, id='servers'),
        pytest.param(
            {'g': group('a'), 'a': SERVER, 'b': SERVER}, 'g/a b', {'g': 'g/a'}, id='group'
        ),
        pytest.param(
            {'g': group(REFERENCE), 'a': SERVER}, 'g/a', {'g': 'g/a'}, id='by get_resource'
        ),
        pytest.param(
            {'a': SERVER, 'g': group('h', 'a'), 'h': group('b'), 'b': SERVER},
            'g/h/b g/a',
            {'g': 'g/h/b g/a', 'g/h': 'g/h/b'},
            id='group in a group',
        ),
        pytest.param(
            {'g': group(inline('a'), inline('b'))}, 'g/a g/b', {'g': 'g/a g/b'}, id='inline'
        ),
        pytest.param(
            {'g': group({'name': 'h', 'members': ['a', inline('b')]}), 'a': SERVER},
            'g/h/a g/h/b',
            {'g': 'g/h/a g/h/b', 'g/h': 'g/h/a g/h/b'},
            id='inline group',
        ),
        pytest.param(
            {'g': group(inline('h', group(inline('b'))))},
            'g/h/b',
            {'g': 'g/h/b', 'g/h': 'g/h/b'},
            id='its type said',
        ),
        pytest.param({'r': repeated(2)}, 'r/0 r/1', {'r': 'r/0 r/1'}, id='repeated'),
        pytest.param({'r': repeated(0), 'a': SERVER}, 'a', {'r': ''}, id='none repeated'),
        pytest.param({'r': repeated('1')}, 'r/0', {'r': 'r/0'}, id='count as text'),
        pytest.param(
            {'r': {'type': 'OS::Heat::ResourceGroup', 'properties': {'resource_def': SERVER}}},
            'r/0',
            {'r': 'r/0'},
            id='one unless counted',
        ),
        pytest.param(
            {'r': repeated(2, removal_policies=[{'resource_list': ['0', 2]}])},
            'r/1 r/3',
            {'r': 'r/1 r/3'},
            id='removed',
        ),
        pytest.param(
            {'g': group('r'), 'r': repeated(1)},
            'g/r/0',
            {'g': 'g/r/0', 'g/r': 'g/r/0'},
            id='in a group',
        ),
        pytest.param(
            {'r': repeated(2, repeated(1))},
            'r/0/0 r/1/0',
            {'r': 'r/0/0 r/1/0', 'r/0': 'r/0/0', 'r/1': 'r/1/0'},
            id='twice',
        ),
        pytest.param(
            {'r': repeated(2, group(inline('a')))},
            'r/0/a r/1/a',
            {'r': 'r/0/a r/1/a', 'r/0': 'r/0/a', 'r/1': 'r/1/a'},
            id='groups repeated',
        ),
        pytest.param({'s': SCALING}, 's/0', {'s': 's/0'}, id='scaling group of its least'),
        pytest.param(
            {'s': scaling(desired_capacity=2)}, 's/0 s/1', {'s': 's/0 s/1'}, id='scaling group'
        ),
        pytest.param(
            {
                's': {
                    **scaling(min_size=2, index_var='<i>'),
                    'type': 'OS::NovaSched::AutoScalingGroup',
                }
            },
            's/0 s/1',
            {'s': 's/0 s/1'},
            id='scaling group with an index',
        ),
        pytest.param(
            {'v': repeated(3, {'type': 'OS::Cinder::Volume'}), 'a': SERVER},
            'a',
            {},
            id='volumes repeated',
        ),
        pytest.param(
            {'g': group('a', 'b'), 'a': {**SERVER, 'condition': False}, 'b': SERVER},
            'g/b',
            {'g': 'g/b'},
            id='condition',
        ),
        pytest.param(
            {'g': {**group('a'), 'condition': False}, 'a': SERVER},
            'a',
            {},
            id='a group that will not be has no members',
        ),
        pytest.param(
            {'o': group('a', 'g', overlay=True), 'g': group('b'), 'a': SERVER, 'b': SERVER},
            'g/b a',
            {'g': 'g/b'},
            id='an overlay is no place',
        ),
    ],
)
def test_places(resources, members, groups):
    definition = read(resources)
    assert list(definition.members) == members.split()
    assert [member.path for member in definition.members.values()] == members.split()
    assert definition.groups == {path: tuple(inner.split()) for path, inner in groups.items()}


def test_groups_stand_before_what_is_in_them():
    assert list(
        read({'g': group({'name': 'h', 'members': [inline('a')]}), 'f': repeated(1)}).groups
    ) == [
        'g',
        'g/h',
        'f',
    ]


def test_an_index_is_put_in():
    hints = {
        'a': '%index%',
        'b': ['x-%index%'],
        'c': {'if': [{'equals': ['%index%', '1']}, 'one', 'other']},
    }
    members = read({'r': repeated(2, server(scheduler_hints=hints))}).members
    assert [member.hints for member in members.values()] == [
        {'a': '0', 'b': ['x-0'], 'c': 'other'},
        {'a': '1', 'b': ['x-1'], 'c': 'one'},
    ]


def test_an_outer_and_an_inner_index():
    inner = repeated(2, server(scheduler_hints={'a': '%index%-<i>'}), index_var='<i>')
    members = read({'r': repeated(2, inner)}).members
    assert {path: member.hints['a'] for path, member in members.items()} == {
        'r/0/0': '0-0',
        'r/0/1': '0-1',
        'r/1/0': '1-0',
        'r/1/1': '1-1',
    }


def test_an_index_may_choose_from_a_parameter():
    definition = read(
        """
        parameters:
          zones: {type: comma_delimited_list, default: 'z0,z1'}
        resources:
          r:
            type: OS::Heat::ResourceGroup
            properties:
              count: 2
              resource_def:
                type: OS::Nova::Server
                properties: {flavor: small, availability_zone: {get_param: [zones, '%index%']}}
        """
    )
    assert [member.availability_zone for member in definition.members.values()] == ['z0', 'z1']


def test_a_scaling_group_of_heat_has_no_index():
    members = read({'s': scaling(resource=server(scheduler_hints={'a': '%index%'}))}).members
    assert members['s/0'].hints == {'a': '%index%'}


BODY = """
resources:
  a: {{type: OS::Nova::Server, properties: {{flavor: small}}}}
  b: {{type: OS::Nova::Server, properties: {{flavor: small}}}}
  net: {{type: OS::Neutron::Net}}
  vols: {{type: OS::Heat::ResourceGroup, properties: \
{{resource_def: {{type: OS::Cinder::Volume}}}}}}
  g: {{type: OS::NovaSched::Group, properties: {{members: [b]}}}}
  o: {{type: OS::NovaSched::Group, properties: {{members: [b], overlay: true}}}}
  {more}
"""
IN_GROUP = 'h: {{type: OS::NovaSched::Group, properties: {{members: [{entry}]}}}}'


@pytest.mark.parametrize(
    'entry, where, why',
    [
        pytest.param('‸c', '.0', 'there is no resource c', id='unknown'),
        pytest.param('a, ‸a', '.1', 'a is a member of h already', id='twice'),
        pytest.param(
            '‸b', '.0', 'b is a member of g already; it has one place', id='in two groups'
        ),
        pytest.param('‸net', '.0', 'net (OS::Neutron::Net) is neither', id='network'),
        pytest.param('‸vols', '.0', 'vols (OS::Heat::ResourceGroup) is neither', id='volumes'),
        pytest.param('‸o', '.0', 'o (OS::NovaSched::Group) is neither', id='overlay'),
        pytest.param('‸h', '.0', 'groups in a circle: h in h', id='itself'),
        pytest.param('‸[a]', '.0', 'text is wanted, not a list', id='list'),
        pytest.param(
            'a, ‸{name: a, members: []}',
            '.1',
            'a member or a group h/a already',
            id='names of two',
        ),
        pytest.param('‸{members: []}', '.0', 'name is missing', id='no name'),
        pytest.param('‸{name: x}', '.0', 'members is missing', id='no members'),
        pytest.param('‸{name: x/y, members: []}', '.0', "the name 'x/y' has a slash", id='slash'),
        pytest.param(
            '‸{name: x, type: OS::Nova::Server}',
            '.0.properties',
            'flavor is missing',
            id='no flavor',
        ),
        pytest.param(
            '‸{name: x, type: OS::Neutron::Net}',
            '.0',
            'is neither a server nor',
            id='inline network',
        ),
        pytest.param('{name: x, ‸member: []}', '.0.member', 'did you mean members?', id='typo'),
        pytest.param(
            '{name: x, type: OS::Nova::Server, ‸members: []}',
            '.0.members',
            'members is not known here',
            id='of a group',
        ),
        pytest.param(
            '‸{name: x, members: [], overlay: true}',
            '.0',
            'only a separate resource',
            id='inner overlay',
        ),
    ],
)
def test_a_member_that_is_refused(entry, where, why):
    body = BODY.format(more=IN_GROUP.format(entry=entry))
    *found, at, words = refused(body)
    assert (tuple(found), at) == (place(body), f'resources.h.properties.members{where}')
    assert why in words


@pytest.mark.parametrize(
    'more, where, why',
    [
        pytest.param(
            '‸a: {type: OS::Nova::Server}',
            'resources.a',
            'a is given twice, first in line 3',
            id='duplicate',
        ),
        pytest.param(
            'c: {type: ‸OS::Nova::Servr}',
            'resources.c.type',
            'did you mean OS::Nova::Server?',
            id='letter',
        ),
        pytest.param(
            'c: {type: ‸OS::nova::Server}', 'resources.c.type', 'there is no type', id='case'
        ),
        pytest.param(
            'c: {type: ‸os::heat::resourcegroup}',
            'resources.c.type',
            'there is no type',
            id='case of all',
        ),
        pytest.param(
            'c: {type: ‸OS::NovaSched::Grp}',
            'resources.c.type',
            'there is no type',
            id='of our own',
        ),
        pytest.param(
            'c: {type: ‸Server}',
            'resources.c.type',
            'Server is not a type of resource',
            id='no type',
        ),
        pytest.param(
            'c: {type: ‸web.yaml}',
            'resources.c.type',
            'web.yaml is another template',
            id='template',
        ),
        pytest.param(
            'c: {type: ‸"http://x/y"}',
            'resources.c.type',
            'is another template',
            id='template elsewhere',
        ),
        pytest.param('c: ‸{}', 'resources.c', 'type is missing', id='nothing'),
        pytest.param(
            'c: {type: A::B, ‸propertys: {}}',
            'resources.c.propertys',
            'did you mean properties?',
            id='key',
        ),
        pytest.param(
            'c: {‸get_param: x}',
            'resources.c.get_param',
            'get_param is not known here',
            id='function',
        ),
        pytest.param('‸c/d: {type: A::B}', 'resources.c/d', 'has a slash', id='slash'),
        pytest.param('‸"c d": {type: A::B}', 'resources.c d', 'a blank', id='blank'),
        pytest.param(
            'c: {type: A::B, condition: ‸x}',
            'resources.c.condition',
            'no condition x',
            id='condition',
        ),
        pytest.param(
            'c: {type: OS::Nova::Server, ‸external_id: x, properties: {flavor: small}}',
            'resources.c.external_id',
            'the server exists already',
            id='external',
        ),
        pytest.param(
            'c: {type: OS::NovaSched::Group, properties: ‸{}}',
            'resources.c.properties',
            'members is missing',
            id='group',
        ),
        pytest.param(
            'c: {type: OS::NovaSched::Group, properties: {members: ‸a}}',
            'resources.c.properties.members',
            'a list is wanted, not text',
            id='no list',
        ),
    ],
)
def test_a_resource_that_is_refused(more, where, why):
    body = BODY.format(more=more)
    *found, at, words = refused(body)
    assert (tuple(found), at) == (place(body), where)
    assert why in words


def test_groups_in_a_circle_are_refused():
    resources = {'a': group('b', 's'), 'b': group('c'), 'c': group('a'), 's': SERVER}
    assert refused(resources) == (
        None,
        None,
        'resources.a.properties.members.0',
        'groups in a circle: b in a in c in b',
    )


REPEATED = """
resources:
  r:
    type: OS::Heat::{kind}
    properties: {properties}
"""
DEFINED = 'resource_def: {type: OS::Nova::Server, properties: {flavor: small}}'
SCALED = 'resource: {type: OS::Nova::Server, properties: {flavor: small}}'


@pytest.mark.parametrize(
    'kind, properties, where, why',
    [
        pytest.param(
            'ResourceGroup', '{count: ‸-1, DEFINED}', '.count', '-1 is not within 0', id='negative'
        ),
        pytest.param(
            'ResourceGroup',
            '{count: ‸1001, DEFINED}',
            '.count',
            'a group may have 1000',
            id='many',
        ),
        pytest.param(
            'ResourceGroup', '{count: ‸many, DEFINED}', '.count', "not 'many'", id='word'
        ),
        pytest.param(
            'ResourceGroup', '{‸cuont: 1, DEFINED}', '.cuont', 'did you mean count?', id='typo'
        ),
        pytest.param(
            'ResourceGroup', '‸{count: 1}', '', 'resource_def is missing', id='no definition'
        ),
        pytest.param(
            'ResourceGroup', '{index_var: ‸i, DEFINED}', '.index_var', '3 to 255', id='short index'
        ),
        pytest.param(
            'ResourceGroup',
            '{resource_def: {type: ‸w.yaml}}',
            '.resource_def.type',
            'another',
            id='nested',
        ),
        pytest.param(
            'ResourceGroup',
            '{resource_def: {type: OS::Nova::Server, ‸condition: x}}',
            '.resource_def.condition',
            'condition is not known here',
            id='condition',
        ),
        pytest.param(
            'ResourceGroup',
            '{resource_def: {type: OS::NovaSched::Group, properties: {members: [‸r]}}}',
            '.resource_def.properties.members.0',
            'a repeated group cannot list a resource',
            id='lists a resource',
        ),
        pytest.param(
            'ResourceGroup',
            '{resource_def: ‸{type: OS::NovaSched::Group, properties: {members: [], '
            'overlay: true}}}',
            '.resource_def',
            'only a separate resource',
            id='repeated overlay',
        ),
        pytest.param(
            'AutoScalingGroup', '‸{max_size: 1, SCALED}', '', 'min_size is missing', id='no least'
        ),
        pytest.param(
            'AutoScalingGroup',
            '{min_size: ‸2, max_size: 1, SCALED}',
            '.min_size',
            'above',
            id='sizes',
        ),
        pytest.param(
            'AutoScalingGroup',
            '{min_size: 0, max_size: 1, desired_capacity: ‸2, SCALED}',
            '.desired_capacity',
            '2 is not within 0 and 1',
            id='above the largest',
        ),
        pytest.param(
            'AutoScalingGroup',
            '{min_size: 1, max_size: 1, ‸index_var: <i>, SCALED}',
            '.index_var',
            'not known here',
            id='index',
        ),
    ],
)
def test_a_repeated_definition_that_is_refused(kind, properties, where, why):
    properties = properties.replace('DEFINED', DEFINED).replace('SCALED', SCALED)
    body = REPEATED.format(kind=kind, properties=properties)
    *found, at, words = refused(body)
    assert (tuple(found), at) == (place(body), f'resources.r.properties{where}')
    assert why in words


@pytest.mark.parametrize(
    'resources, why',
    [
        pytest.param({'r': repeated(4), 's': repeated(7)}, 'more than 10 members', id='members'),
        pytest.param(
            {'r': repeated(10, repeated(10, repeated(10, repeated(0))))},
            'more than 60 groups',
            id='groups',
        ),
        pytest.param(
            {f'g{i}': group(f'g{i + 1}') for i in range(25)} | {'g25': SERVER},
            'or 20 groups deep',
            id='deep groups',
        ),
        pytest.param(
            {'a' * 250: group('b' * 10), 'b' * 10: SERVER}, 'is longer than 255', id='long path'
        ),
        pytest.param({'a' * 256: SERVER}, 'a name has 1 to 255 characters', id='long name'),
    ],
)
def test_what_is_too_large_is_refused(resources, why):
    assert why in refused(resources, max_members=10)[3]


@pytest.mark.parametrize(
    'resources',
    [
        pytest.param(
            {'r': repeated(1000, server(scheduler_hints={'x': '%index%' * 10_000}))},
            id='long texts',
        ),
        pytest.param(
            {'r': repeated(1000), 'o': group(*['r'] * 20_000, overlay=True)},
            id='members named again',
        ),
        pytest.param(
            {
                'r': repeated(
                    1000, server(scheduler_hints={f'h{i}': ['%index%'] * 100 for i in range(10)})
                )
            },
            id='many texts',
        ),
    ],
)
def test_what_takes_too_long_is_refused(resources):
    assert refused(resources)[3] == 'the template asks for too much work'


@pytest.mark.parametrize(
    'body, at',
    [
        pytest.param('resources: {}', (2, 1), id='no resource'),
        pytest.param('description: x', (1, 1), id='no resources'),
        pytest.param('resources: {a: {type: My::Thing}}', (2, 1), id='other resources'),
        pytest.param(
            'resources: {r: {type: OS::Heat::ResourceGroup, '
            'properties: {count: 0, resource_def: {type: OS::Nova::Server}}}}',
            (2, 1),
            id='none of them',
        ),
    ],
)
def test_a_template_without_members_is_refused(body, at):
    assert refused(body) == (*at, 'resources', 'there is no member')


@pytest.mark.parametrize(
    'body, place, where, why',
    [
        pytest.param(
            'recources: {}', (2, 1), 'recources', 'did you mean resources?', id='section'
        ),
        pytest.param('resources: []', (2, 12), 'resources', 'a mapping is wanted', id='list'),
        pytest.param(
            'description: [x]', (2, 14), 'description', 'text is wanted', id='description'
        ),
    ],
)
def test_a_section_that_is_refused(body, place, where, why):
    line, column, found, words = refused(body)
    assert ((line, column), found) == (place, where)
    assert why in words


@pytest.mark.parametrize(
    'text, args',
    [
        pytest.param(
            b'resources: {}', ('template', 1, 1, 'heat_template_version is missing'), id='none'
        ),
        pytest.param(
            'AWSTemplateFormatVersion: 2010-09-09',
            ('AWSTemplateFormatVersion', 1, 1, 'AWSTemplateFormatVersion is not known here'),
            id='of CloudFormation',
        ),
        pytest.param(
            '[resources]', ('template', 1, 1, 'a template is a mapping, not a list'), id='list'
        ),
    ],
)
def test_what_is_no_template_of_heat_is_refused(text, args):
    with pytest.raises(errors.TemplateError) as caught:
        template.read(text)
    assert caught.value.args == args


def test_a_version_that_is_not_known_is_refused():
    with pytest.raises(errors.TemplateError, match=r'2014-10-17 is not one of .* did you mean'):
        template.read('heat_template_version: 2014-10-17')


@pytest.mark.parametrize(
    'conditions, place, where, why',
    [
        pytest.param('{a: b}', (2, 17), 'conditions.a', 'there is no condition b', id='unknown'),
        pytest.param('{a: {not: a}}', (2, 18), 'conditions.a', 'in a circle', id='circle'),
        pytest.param(
            '{a: {equals: [{get_param: x}, 1]}}',
            (2, 39),
            'conditions.a.equals.0.get_param',
            'x',
            id='param',
        ),
        pytest.param('{a: 1}', (2, 17), 'conditions.a', 'a condition is a name', id='number'),
        pytest.param('[a]', (2, 13), 'conditions', 'a mapping is wanted, not a list', id='list'),
    ],
)
def test_conditions_that_are_refused(conditions, place, where, why):
    line, column, found, words = refused(f'conditions: {conditions}')
    if why != 'in a circle':  # where a circle is cut does not matter
        assert ((line, column), found) == (place, where)
    assert why in words


def test_what_creates_servers_unseen_is_a_warning():
    assert read({'i': {'type': 'OS::Heat::InstanceGroup'}, 'a': SERVER}).warnings == (
        'resources.i: the servers of OS::Heat::InstanceGroup are not planned',
    )


def test_resources_of_heat_are_no_members():
    others = [
        'OS::Neutron::Port',
        'OS::Heat::WaitCondition',
        'OS::Nova::KeyPair',
        'OS::NovaSched::TopGroup',
        'My::Thing',
    ]
    resources = {
        f'r{i}': {'type': kind, 'properties': {'x': {'get_file': 'y'}}}
        for i, kind in enumerate(others)
    }
    assert list(read({**resources, 'a': SERVER}).members) == ['a']
