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
"""Policies, relations and server groups: what is asked of whom, and what makes no sense."""

import pytest

from nova_sched.groups.definition import GroupPolicy
from nova_sched.tests.unit.groups.template import (
    SERVER,
    group,
    place,
    read,
    refused,
    relation,
    repeated,
    server,
)

ABC = {'a': SERVER, 'b': SERVER, 'c': SERVER}


def asked(resources):
    """The one policy of a template."""
    (policy,) = read(resources).policies
    return policy


@pytest.mark.parametrize(
    'given, policy',
    [
        pytest.param(
            {'type': 'affinity', 'level': 'rack'},
            GroupPolicy('g: affinity at rack', 'affinity', 'rack', ('g/a',)),
            id='affinity',
        ),
        pytest.param(
            {'type': 'anti-affinity', 'level': 'host'},
            GroupPolicy('g: anti-affinity at host', 'anti-affinity', 'host', ('g/a',), most=1),
            id='anti-affinity',
        ),
        pytest.param(
            {'type': 'anti-affinity', 'level': 'host', 'max_per_domain': 2, 'required': True},
            GroupPolicy('g: anti-affinity at host', 'anti-affinity', 'host', ('g/a',), most=2),
            id='anti-affinity of two',
        ),
        pytest.param(
            {'type': 'spread', 'level': 'zone', 'min_domains': 3, 'max_skew': 0},
            GroupPolicy(
                'g: spread at zone', 'spread', 'zone', ('g/a',), min_domains=3, max_skew=0
            ),
            id='spread',
        ),
        pytest.param(
            {'type': 'spread', 'level': 'zone', 'max_skew': '1', 'weight': 2.5},
            GroupPolicy(
                'g: spread at zone, preferred', 'spread', 'zone', ('g/a',), weight=2.5, max_skew=1
            ),
            id='preferred by a weight',
        ),
        pytest.param(
            {'type': 'exclusive', 'level': 'rack', 'required': 'false'},
            GroupPolicy(
                'g: exclusive at rack, preferred', 'exclusive', 'rack', ('g/a',), weight=1.0
            ),
            id='not required',
        ),
        pytest.param(
            {'type': 'exclusive', 'level': 'rack', 'required': False, 'weight': '3'},
            GroupPolicy(
                'g: exclusive at rack, preferred', 'exclusive', 'rack', ('g/a',), weight=3.0
            ),
            id='both said',
        ),
    ],
)
def test_a_policy(given, policy):
    assert asked({'g': group('a', policies=[given]), 'a': SERVER}) == policy


SPREAD = {'type': 'spread', 'level': 'zone', 'min_domains': 1}


def test_policies_of_the_outer_stand_first_and_hold_for_all_below():
    inner = {'name': 'h', 'members': [{'name': 'x', **SERVER}], 'policies': [SPREAD]}
    policies = read({'g': group(inner, 'a', policies=[SPREAD]), 'a': SERVER}).policies
    assert [(policy.name, policy.a) for policy in policies] == [
        ('g: spread at zone', ('g/h/x', 'g/a')),
        ('g/h: spread at zone', ('g/h/x',)),
    ]


def test_each_of_repeated_groups_has_its_policies():
    definition = group(
        {'name': 'x', **SERVER}, policies=[{**SPREAD, 'level': {'if': [True, 'rack', 'room']}}]
    )
    policies = read({'r': repeated(2, definition)}).policies
    assert [(policy.name, policy.a) for policy in policies] == [
        ('r/0: spread at rack', ('r/0/x',)),
        ('r/1: spread at rack', ('r/1/x',)),
    ]


def test_a_policy_without_members_is_dropped():
    resources = {'g': group('r', policies=[SPREAD]), 'r': repeated(0), 'a': SERVER}
    assert read(resources).policies == ()


def test_levels_are_the_operators():
    found = read(
        {'g': group('a', policies=[{**SPREAD, 'level': 'feed'}]), 'a': SERVER},
        levels=['host', 'feed'],
    )
    assert found.policies[0].level == 'feed'


@pytest.mark.parametrize(
    'members, a',
    [
        pytest.param(['a', 'g'], ('a', 'g/b', 'g/r/0', 'g/r/1'), id='resources'),
        pytest.param(
            [{'get_resource': 'r'}], ('g/r/0', 'g/r/1'), id='by get_resource, not by place'
        ),
        pytest.param(['g/r/1', 'r/0'], ('g/r/1', 'g/r/0'), id='paths, whole or from a resource'),
        pytest.param(['r', 'g/r/1'], ('g/r/0', 'g/r/1'), id='each once'),
        pytest.param(
            {'repeat': {'template': 'r/<i>', 'for_each': {'<i>': [0, 1]}}},
            ('g/r/0', 'g/r/1'),
            id='a function',
        ),
        pytest.param(['a', 'gone', 'gone/0'], ('a',), id='what will not be'),
    ],
)
def test_an_overlay(members, a):
    resources = {
        'g': group('b', 'r'),
        'a': SERVER,
        'b': SERVER,
        'r': repeated(2),
        'gone': {**repeated(1), 'condition': False},
        'o': {
            'type': 'OS::NovaSched::Group',
            'properties': {'overlay': True, 'members': members, 'policies': [SPREAD]},
        },
    }
    policy = asked(resources)
    assert (policy.name, policy.a) == ('o: spread at zone', a)


@pytest.mark.parametrize(
    'given, a, b',
    [
        pytest.param({'between': ['a', 'g']}, ('a',), ('g/b', 'g/h/x'), id='between'),
        pytest.param(
            {'from': 'g', 'to': {'get_resource': 'a'}}, ('g/b', 'g/h/x'), ('a',), id='from and to'
        ),
        pytest.param({'from': ['a', 'b'], 'to': 'g/h'}, ('a', 'g/b'), ('g/h/x',), id='several'),
        pytest.param({'between': ['o', 'a']}, ('g/h/x',), ('a',), id='overlay'),
    ],
)
def test_a_relation(given, a, b):
    resources = {
        'a': SERVER,
        'b': SERVER,
        'g': group('b', {'name': 'h', 'members': [{'name': 'x', **SERVER}]}),
        'o': group('g/h', overlay=True),
        'near': relation('near', weight=2, **given),
    }
    assert asked(resources) == GroupPolicy(
        'near: near at rack, preferred', 'near', 'rack', a, b, weight=2.0
    )


def test_a_relation_within_a_repeated_group():
    """It names its own members first, and anything else after."""
    relations = [
        {'type': 'apart', 'level': 'host', 'between': ['x', 'y']},
        {'type': 'near', 'level': 'room', 'from': 'x', 'to': 'z'},
    ]
    definition = group({'name': 'x', **SERVER}, {'name': 'y', **SERVER}, relations=relations)
    policies = read({'r': repeated(2, definition), 'x': SERVER, 'z': SERVER}).policies
    assert [(policy.name, policy.a, policy.b) for policy in policies] == [
        ('r/0 relation 0: apart at host', ('r/0/x',), ('r/0/y',)),
        ('r/0 relation 1: near at room', ('r/0/x',), ('z',)),
        ('r/1 relation 0: apart at host', ('r/1/x',), ('r/1/y',)),
        ('r/1 relation 1: near at room', ('r/1/x',), ('z',)),
    ]


def test_nothing_to_be_near_to_is_a_warning():
    found = read({'a': SERVER, 'r': repeated(0), 'n': relation('near', between=['a', 'r'])})
    assert found.policies == ()
    assert found.warnings == (
        'resources.n.properties: there is nothing to be near to, so it asks for nothing',
    )


@pytest.mark.parametrize(
    'properties, policy',
    [
        pytest.param({'policies': ['affinity']}, {'kind': 'affinity'}, id='affinity'),
        pytest.param(
            {'policies': ['anti-affinity'], 'name': 'x'},
            {'kind': 'anti-affinity'},
            id='anti-affinity',
        ),
        pytest.param(
            {'policies': ['anti-affinity'], 'rules': {'max_server_per_host': 3}},
            {'kind': 'anti-affinity', 'most': 3},
            id='rule',
        ),
        pytest.param(
            {'policies': ['soft-affinity']}, {'kind': 'affinity', 'weight': 1.0}, id='soft'
        ),
        pytest.param(
            {'policies': ['soft-anti-affinity']},
            {'kind': 'anti-affinity', 'weight': 1.0},
            id='soft too',
        ),
    ],
)
def test_a_server_group_of_nova(properties, policy):
    hints = {'group': {'get_resource': 'sg'}}
    resources = {
        'sg': {'type': 'OS::Nova::ServerGroup', 'properties': properties},
        'a': server(scheduler_hints=hints),
        'r': repeated(1, server(scheduler_hints=hints)),
        'b': SERVER,
    }
    name = f'sg: {policy["kind"]} at host' + (', preferred' if 'weight' in policy else '')
    assert asked(resources) == GroupPolicy(name=name, level='host', a=('a', 'r/0'), **policy)


def test_a_server_group_without_members_is_a_warning():
    found = read(
        {
            'a': SERVER,
            'sg': {'type': 'OS::Nova::ServerGroup', 'properties': {'policies': ['affinity']}},
        }
    )
    assert found.policies == ()
    assert found.warnings == ('resources.sg: no member has this server group in its hints',)


POLICY = """
resources:
  a: {{type: OS::Nova::Server, properties: {{flavor: small}}}}
  g:
    type: OS::NovaSched::Group
    properties:
      members: [a]
      policies: [{policy}]
"""


@pytest.mark.parametrize(
    'policy, where, why',
    [
        pytest.param(
            '{type: ‸afinity, level: rack}', '.type', 'did you mean affinity?', id='type'
        ),
        pytest.param('{type: ‸near, level: rack}', '.type', 'near is not one of', id='relation'),
        pytest.param(
            '{type: ‸soft-affinity, level: rack}',
            '.type',
            'soft-affinity is not one of',
            id="Nova's",
        ),
        pytest.param('‸{level: rack}', '', 'type is missing', id='no type'),
        pytest.param('‸{type: affinity}', '', 'level is missing', id='no level'),
        pytest.param(
            '{type: affinity, level: ‸racks}', '.level', 'did you mean rack?', id='level'
        ),
        pytest.param(
            '{type: affinity, level: rack, ‸max: 1}', '.max', 'max is not known here', id='key'
        ),
        pytest.param(
            '{type: affinity, level: rack, ‸max_skew: 1}',
            '.max_skew',
            'nothing that affinity',
            id='of spread',
        ),
        pytest.param(
            '{type: spread, level: rack, ‸max_per_domain: 1}',
            '.max_per_domain',
            'nothing that spread',
            id='of anti-affinity',
        ),
        pytest.param(
            '‸{type: spread, level: rack}',
            '',
            'min_domains or max_skew is missing',
            id='nothing asked',
        ),
        pytest.param(
            '{type: spread, level: rack, min_domains: ‸0}',
            '.min_domains',
            '0 is not within 1',
            id='0 domains',
        ),
        pytest.param(
            '{type: spread, level: rack, max_skew: ‸-1}',
            '.max_skew',
            '-1 is not within 0',
            id='negative skew',
        ),
        pytest.param(
            '{type: anti-affinity, level: rack, max_per_domain: ‸0}',
            '.max_per_domain',
            '0 is not within 1',
            id='none',
        ),
        pytest.param(
            '{type: affinity, level: rack, weight: ‸0}',
            '.weight',
            'a weight is above 0',
            id='no weight',
        ),
        pytest.param(
            '{type: affinity, level: rack, weight: ‸1000001}',
            '.weight',
            'at most 1000000',
            id='heavy',
        ),
        pytest.param(
            '{type: affinity, level: rack, weight: ‸much}', '.weight', "not 'much'", id='word'
        ),
        pytest.param(
            '{type: affinity, level: rack, required: true, ‸weight: 1}',
            '.weight',
            'has no weight',
            id='required weight',
        ),
        pytest.param(
            '{type: affinity, level: rack, required: ‸maybe}',
            '.required',
            "not 'maybe'",
            id='maybe',
        ),
        pytest.param('‸affinity', '', 'a mapping is wanted, not text', id='word as a policy'),
    ],
)
def test_a_policy_that_is_refused(policy, where, why):
    body = POLICY.format(policy=policy)
    *found, at, words = refused(body)
    assert (tuple(found), at) == (place(body), f'resources.g.properties.policies.0{where}')
    assert why in words


def test_a_policy_that_is_asked_for_twice_is_refused():
    body = POLICY.format(policy='{type: affinity, level: rack}, ‸{type: affinity, level: rack}')
    line, column, where, why = refused(body)
    assert (line, column) == place(body)
    assert (where, why) == (
        'resources.g.properties.policies.1',
        'g: affinity at rack is asked for twice',
    )


RELATION = """
resources:
  a: {{type: OS::Nova::Server, properties: {{flavor: small}}}}
  b: {{type: OS::Nova::Server, properties: {{flavor: small}}}}
  g: {{type: OS::NovaSched::Group, properties: {{members: [b]}}}}
  net: {{type: OS::Neutron::Net}}
  n:
    type: OS::NovaSched::Relation
    properties: {properties}
"""


@pytest.mark.parametrize(
    'properties, where, why',
    [
        pytest.param('‸{level: rack, between: [a, b]}', '', 'type is missing', id='no type'),
        pytest.param(
            '{type: ‸affinity, level: rack, between: [a, b]}',
            '.type',
            'not one of apart, near',
            id='policy',
        ),
        pytest.param('‸{type: near, between: [a, b]}', '', 'level is missing', id='no level'),
        pytest.param('‸{type: near, level: rack}', '', 'from is missing', id='no side'),
        pytest.param('‸{type: near, level: rack, from: a}', '', 'to is missing', id='one side'),
        pytest.param(
            '{type: near, level: rack, between: ‸[a]}', '.between', 'between 2, not 1', id='one'
        ),
        pytest.param(
            '{type: near, level: rack, between: ‸a}', '.between', 'a list is wanted', id='no list'
        ),
        pytest.param(
            '‸{type: near, level: rack, between: [a, b], to: b}',
            '',
            'but not both',
            id='both ways',
        ),
        pytest.param(
            '{type: near, level: rack, between: [a, ‸c]}',
            '.between.1',
            'there is no resource c',
            id='unknown',
        ),
        pytest.param(
            '{type: near, level: rack, between: [a, ‸g/c]}',
            '.between.1',
            'no member and no group g/c',
            id='path',
        ),
        pytest.param(
            '{type: near, level: rack, between: [a, ‸net]}',
            '.between.1',
            'net is neither',
            id='network',
        ),
        pytest.param(
            '{type: near, level: rack, from: a, to: [‸n]}', '.to.0', 'n is neither', id='itself'
        ),
        pytest.param(
            '‸{type: apart, level: rack, between: [b, g]}',
            '',
            'g/b is on both sides',
            id='overlap',
        ),
        pytest.param(
            '{type: near, level: rack, ‸members: [a]}',
            '.members',
            'members is not known here',
            id='key',
        ),
        pytest.param(
            '{type: near, level: ‸row, between: [a, b]}',
            '.level',
            'row is not one of host, rack',
            id='level',
        ),
        pytest.param(
            '{type: near, level: rack, between: [a, ‸{x: 1}]}',
            '.between.1',
            'text is wanted',
            id='mapping',
        ),
    ],
)
def test_a_relation_that_is_refused(properties, where, why):
    body = RELATION.format(properties=properties)
    *found, at, words = refused(body)
    assert (tuple(found), at) == (place(body), f'resources.n.properties{where}')
    assert why in words


SERVER_GROUP = """
resources:
  sg:
    type: OS::Nova::ServerGroup
    properties: {properties}
"""


@pytest.mark.parametrize(
    'properties, where, why',
    [
        pytest.param('{‸policies: []}', '.policies', 'has one policy', id='empty'),
        pytest.param(
            '{‸policies: [affinity, anti-affinity]}', '.policies', 'has one policy', id='two'
        ),
        pytest.param('{policies: [‸spread]}', '.policies.0', 'spread is not one of', id='unknown'),
        pytest.param(
            '{policies: [affinity], rules: ‸{max_server_per_host: 2}}',
            '.rules',
            'is for anti-affinity',
            id='other policy',
        ),
        pytest.param(
            '{policies: [anti-affinity], rules: {max_server_per_host: ‸0}}',
            '.rules.max_server_per_host',
            '0 is not within 1',
            id='none per host',
        ),
        pytest.param(
            '{policies: [affinity], rules: {‸max: 2}}', '.rules.max', 'max is not known', id='rule'
        ),
    ],
)
def test_a_server_group_that_is_refused(properties, where, why):
    body = SERVER_GROUP.format(properties=properties)
    *found, at, words = refused(body)
    assert (tuple(found), at) == (place(body), f'resources.sg.properties{where}')
    assert why in words


def test_too_many_policies_are_refused():
    policies = [{'type': 'anti-affinity', 'level': f'l{i}'} for i in range(150)]
    resources = {'r': repeated(10, group({'name': 'x', **SERVER}, policies=policies))}
    why = refused(resources, levels=['host', *(f'l{i}' for i in range(150))], max_members=10)[3]
    assert why == 'more than 140 policies'
