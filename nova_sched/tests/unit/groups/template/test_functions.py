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
"""Functions and conditions, by what a hint has in the end; and what they refuse."""

import pytest

from nova_sched.tests.rows import each
from nova_sched.tests.unit.groups.template import read, refused

BODY = """
parameters:
  name: {{type: string, default: n}}
  five: {{type: number, default: 5}}
  truth: {{type: boolean, default: true}}
  list: {{type: comma_delimited_list, default: 'a,b'}}
  map: {{type: json, default: {{k: [x, {{get_param: name}}]}}}}
  unset: {{type: string}}
conditions:
  always: true
  never: {{not: always}}
  both: {{and: [always, {{equals: [{{get_param: five}}, 5]}}, {{get_param: truth}}]}}
resources:
  other:
    type: OS::Nova::Server
    properties:
      name: other
      flavor: {{name: own, vcpus: 3, ram: 7, extra_specs: {{a: 1}}}}
      image: ubuntu
      availability_zone: {{list_join: ['-', [{{get_param: name}}, z]]}}
  gone: {{type: OS::Nova::Server, condition: never, properties: {{flavor: small}}}}
  network: {{type: OS::Neutron::Net}}
  s:
    type: OS::Nova::Server
    properties:
      flavor: small
      scheduler_hints:
        seen: {value}
"""


def seen(value):
    return read(BODY.format(value=value)).members['s'].hints.get('seen')


@each(
    'value, found',
    [
        pytest.param('{get_param: name}', 'n', id='parameter'),
        pytest.param('{get_param: [map, k, 0]}', 'x', id='path into a parameter'),
        pytest.param(
            '{get_param: map}',
            {'k': ['x', {'get_param': 'name'}]},
            id='what is in a value is no function',
        ),
        pytest.param('{get_param: [list, {if: [never, 0, 1]}]}', 'b', id='computed path'),
        pytest.param('{list_join: [", ", [a, 1], {get_param: list}]}', 'a, 1, a, b', id='join'),
        pytest.param('{list_join: ["", []]}', '', id='join of nothing'),
        pytest.param('{list_join: ["-", [{k: 1}, null]]}', '{"k": 1}-', id='join of a mapping'),
        pytest.param(
            '{str_replace: {template: $a and $ab, params: {$a: x, $ab: $a}}}',
            'x and $a',
            id='replaced, longest first',
        ),
        pytest.param(
            '{str_replace: {template: a5, params: {a: {get_param: five}, "5": true}}}',
            '5True',
            id='values',
        ),
        pytest.param(
            '{repeat: {template: <i>-<j>, for_each: {<i>: {get_param: list}, <j>: [1, 2]}}}',
            ['a-1', 'a-2', 'b-1', 'b-2'],
            id='repeated',
        ),
        pytest.param(
            '{repeat: {template: {i: {v: j}}, for_each: {i: [a, b], j: [[1], {x: 2}]}, '
            'permutations: no}}',
            [{'a': {'v': [1]}}, {'b': {'v': {'x': 2}}}],
            id='pairs, with values as they are',
        ),
        pytest.param(
            '{repeat: {template: {get_param: [list, <i>]}, for_each: {<i>: [1, 0]}}}',
            ['b', 'a'],
            id='of a function',
        ),
        pytest.param('{if: [always, a, b]}', 'a', id='if'),
        pytest.param(
            '{if: [never, {get_file: x}, b]}', 'b', id='what if does not choose is not looked at'
        ),
        pytest.param('[a, {if: [never, b]}, c]', ['a', 'c'], id='nothing in a list'),
        pytest.param('{a: 1, b: {if: [never, 2]}}', {'a': 1}, id='nothing in a mapping'),
        pytest.param('{if: [never, a]}', None, id='nothing as a hint'),
        pytest.param('{if: [{or: [never, {equals: [1, true]}]}, a, b]}', 'b', id='1 is not true'),
        pytest.param('{if: [both, a, b]}', 'a', id='and'),
        pytest.param('{if: [{not: {get_param: truth}}, a, b]}', 'b', id='not'),
        pytest.param('{equals: [[1, {get_param: name}], [1, n]]}', True, id='equals'),
        pytest.param('{get_attr: [other, name]}', 'other', id='name'),
        pytest.param('{get_attr: [other, availability_zone]}', 'n-z', id='zone'),
        pytest.param('{get_attr: [other, flavor, vcpus]}', 3, id='field of a flavor'),
        pytest.param('{get_attr: [other, flavor, extra_specs]}', {'a': '1'}, id='extra specs'),
        pytest.param(
            '{get_attr: [other, image, properties, hw_architecture]}', 'x86_64', id='of an image'
        ),
        pytest.param('[x, {get_attr: [gone, name]}]', ['x'], id='what will not exist is nothing'),
        pytest.param('{strange: 1}', {'strange': 1}, id='a mapping of one key'),
    ],
)
def test_a_function(value, found):
    assert seen(value) == found


HINT = 'resources.s.properties.scheduler_hints.seen'


@each(
    'value, column, where, why',
    [
        pytest.param(
            '{get_param: nome}',
            27,
            '.get_param',
            'there is no parameter nome; did you mean name?',
            id='param',
        ),
        pytest.param(
            '{get_param: unset}',
            27,
            '.get_param',
            'unset has no value and no default',
            id='no value',
        ),
        pytest.param(
            '{get_param: "OS::stack_name"}',
            27,
            '.get_param',
            'is known to Heat alone',
            id='of Heat',
        ),
        pytest.param(
            '{get_param: [map, z]}', 27, '.get_param', 'the parameter map has no z', id='no key'
        ),
        pytest.param(
            '{get_param: [list, 2]}', 27, '.get_param', 'the parameter list has no 2', id='no item'
        ),
        pytest.param('{get_param: []}', 27, '.get_param', 'a list of 1 or more', id='empty path'),
        pytest.param(
            '{get_resource: otter}', 30, '.get_resource', 'did you mean other?', id='resource'
        ),
        pytest.param(
            '{get_resource: other}',
            15,
            '',
            'the ID of other is not known before',
            id='resource in a hint',
        ),
        pytest.param(
            '{get_attr: [other, addresses]}',
            26,
            '.get_attr',
            'addresses of other is not known',
            id='attribute',
        ),
        pytest.param(
            '{get_attr: [network, name]}',
            26,
            '.get_attr',
            'name of network is not known',
            id='of a network',
        ),
        pytest.param(
            '{get_attr: other}', 26, '.get_attr', 'a list of 2 or more', id='no attribute'
        ),
        pytest.param(
            '{get_attr: [s, availability_zone]}',
            26,
            '.get_attr',
            's is described by itself',
            id='of itself',
        ),
        pytest.param(
            '{get_file: x}',
            16,
            '.get_file',
            'the function get_file is not supported',
            id='get_file',
        ),
        pytest.param(
            '{yaql: {expression: x}}', 16, '.yaql', 'the function yaql is not supported', id='yaql'
        ),
        pytest.param(
            '{"Fn::Join": [a, b]}',
            16,
            '.Fn::Join',
            'Fn::Join is not supported',
            id='of CloudFormation',
        ),
        pytest.param(
            '[x, {digest: [md5, x]}]',
            20,
            '.1.digest',
            'digest is not supported',
            id='within a list',
        ),
        pytest.param(
            '{list_join: [x]}', 15, '', 'a delimiter and a list or more', id='join of none'
        ),
        pytest.param(
            '{list_join: [x, y]}', 31, '.list_join.1', 'a list is wanted', id='join of text'
        ),
        pytest.param(
            '{str_replace: {template: x}}', 29, '.str_replace', 'params is missing', id='no params'
        ),
        pytest.param(
            '{str_replace: {template: x, params: {"": y}}}',
            15,
            '',
            'an empty text',
            id='replacing nothing',
        ),
        pytest.param(
            '{repeat: {template: x}}', 24, '.repeat', 'for_each is missing', id='no list'
        ),
        pytest.param(
            '{repeat: {for_each: {i: [1]}}}',
            24,
            '.repeat',
            'template is missing',
            id='no template',
        ),
        pytest.param(
            '{repeat: {template: x, for_each: {}}}',
            48,
            '.repeat.for_each',
            '1 list or more',
            id='no lists',
        ),
        pytest.param(
            '{repeat: {template: x, for_each: {i: [1], j: []}, permutations: no}}',
            48,
            '.repeat.for_each',
            'of one length',
            id='uneven',
        ),
        pytest.param(
            '{if: [alwyas, a, b]}', 21, '.if.0', 'there is no condition alwyas', id='condition'
        ),
        pytest.param('{if: [always]}', 15, '', 'if takes a condition', id='if alone'),
        pytest.param('{if: [[], a, b]}', 21, '.if.0', 'a condition is a name', id='no condition'),
        pytest.param('{equals: [1]}', 15, '', 'equals takes two values', id='equals'),
        pytest.param('{and: [always]}', 15, '', 'two conditions or more', id='and'),
    ],
)
def test_a_function_that_is_refused(value, column, where, why):
    line, found_column, found, words = refused(BODY.format(value=value))
    assert (line, found_column, found) == (28, column, HINT + where)
    assert why in words
