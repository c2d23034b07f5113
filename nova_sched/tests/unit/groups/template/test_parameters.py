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
"""Parameters: what they take, what they keep, and where it is said."""

import json
import time

import pytest

from nova_sched.tests.unit.groups.template import read, refused, text

ZONED = """
parameters:
  p: {declared}
resources:
  s:
    type: OS::Nova::Server
    properties:
      flavor: small
      scheduler_hints: {{seen: {{get_param: p}}}}
"""


def seen(declared, **given):
    """What a hint has that takes the value of the parameter ``p``."""
    return (
        read(ZONED.format(declared=declared), parameters=given or None)
        .members['s']
        .hints.get('seen')
    )


@pytest.mark.parametrize(
    'declared, given, value',
    [
        pytest.param('{type: string, default: a}', None, 'a', id='default'),
        pytest.param('{type: string, default: a}', 'b', 'b', id='given'),
        pytest.param(
            '{type: string, default: 2021-04-16}', None, '2021-04-16', id='a date is a string'
        ),
        pytest.param('{type: string}', 5, '5', id='number as a string'),
        pytest.param('{type: number}', '5', 5, id='digits as a number'),
        pytest.param('{type: number}', '2.5e1', 25.0, id='float as a number'),
        pytest.param('{type: json}', {'k': [1]}, {'k': [1]}, id='mapping'),
        pytest.param('{type: json}', '{"k": [1]}', {'k': [1]}, id='mapping as JSON'),
        pytest.param(
            '{type: json, default: {get_param: p}}',
            None,
            {'get_param': 'p'},
            id='no function in a value',
        ),
        pytest.param('{type: comma_delimited_list}', 'a, b', ['a', 'b'], id='list as text'),
        pytest.param('{type: comma_delimited_list}', ['a', 1], ['a', '1'], id='list'),
        pytest.param('{type: comma_delimited_list}', '', [], id='empty list'),
        pytest.param('{type: boolean}', 'On', True, id='boolean as a word'),
        pytest.param('{type: boolean, default: no}', None, False, id='boolean'),
        pytest.param(
            '{type: string, default: a, hidden: true, label: P, immutable: true, tags: [x]}',
            None,
            'a',
            id='more',
        ),
    ],
)
def test_a_value(declared, given, value):
    assert seen(declared, **({} if given is None else {'p': given})) == value


@pytest.mark.parametrize(
    'declared, given',
    [
        pytest.param(
            '{type: string, constraints: [{length: {min: 2, max: 3}}]}', 'ab', id='length'
        ),
        pytest.param(
            '{type: number, constraints: [{range: {min: 1}}, {range: {max: 5}}]}', 5, id='range'
        ),
        pytest.param('{type: number, constraints: [{range: {max: -1}}]}', -2, id='range below 0'),
        pytest.param(
            '{type: number, constraints: [{modulo: {step: 3, offset: 1}}]}', 7, id='modulo'
        ),
        pytest.param(
            '{type: string, constraints: [{allowed_values: [a, 1]}]}', '1', id='allowed values'
        ),
        pytest.param(
            '{type: comma_delimited_list, constraints: [{allowed_values: [a, b]}]}',
            'b,a',
            id='each of a list',
        ),
        pytest.param(
            "{type: string, constraints: [{allowed_pattern: '[a-z]+', description: d}]}",
            'abc',
            id='pattern',
        ),
    ],
)
def test_a_value_that_keeps_its_constraints(declared, given):
    assert seen(declared, p=given) is not None


@pytest.mark.parametrize(
    'declared, given, why',
    [
        pytest.param(
            '{type: string}', True, 'is text; put it in quotes', id='boolean as a string'
        ),
        pytest.param('{type: number}', 'five', 'is a finite number', id='word as a number'),
        pytest.param('{type: number}', 'nan', 'is a finite number', id='not a number'),
        pytest.param('{type: number}', True, 'is a finite number', id='boolean as a number'),
        pytest.param('{type: json}', '[1', 'no JSON', id='no JSON'),
        pytest.param('{type: json}', '[' * 10_000, 'no JSON', id='JSON too deep'),
        pytest.param('{type: json}', '1', 'is a mapping or a list', id='number as JSON'),
        pytest.param('{type: json}', 'XX', 'no JSON', id='text'),
        pytest.param(
            '{type: comma_delimited_list}',
            {},
            'is a list, or text with commas',
            id='mapping as a list',
        ),
        pytest.param('{type: boolean}', 'maybe', 'is true or false', id='no boolean'),
        pytest.param('{type: string}', {1, 2}, 'a set is nothing', id='set'),
        pytest.param(
            '{type: string, constraints: [{length: {min: 2}}]}',
            'a',
            'has the length 1, below 2',
            id='length',
        ),
        pytest.param(
            '{type: number, constraints: [{range: {max: 5}}]}', 6, '6 is above 5', id='range'
        ),
        pytest.param(
            '{type: number, constraints: [{modulo: {step: 2, offset: 0}}]}',
            3,
            '3 is not 0 modulo 2',
            id='modulo',
        ),
        pytest.param(
            '{type: string, constraints: [{allowed_values: [a, b]}]}',
            'c',
            '"c" is not one of "a", "b"',
            id='values',
        ),
        pytest.param(
            '{type: comma_delimited_list, constraints: [{allowed_pattern: a+}]}',
            'a,b',
            '["a", "b"] does not match a+',
            id='pattern of each',
        ),
        pytest.param(
            '{type: string, constraints: [{allowed_pattern: a, description: only a}]}',
            'b',
            '(only a)',
            id='described',
        ),
    ],
)
def test_a_value_that_is_refused(declared, given, why):
    line, column, where, found = refused(ZONED.format(declared=declared), parameters={'p': given})
    assert (line, column, where) == (3, 6, 'parameters.p')
    assert why in found


@pytest.mark.parametrize(
    'declared, place, where, why',
    [
        pytest.param('{}', (3, 6), 'parameters.p', 'type is missing', id='no type'),
        pytest.param(
            '{type: strings}', (3, 13), 'parameters.p.type', 'did you mean string?', id='type'
        ),
        pytest.param(
            '{type: string, defualt: a}',
            (3, 21),
            'parameters.p.defualt',
            'did you mean default?',
            id='key',
        ),
        pytest.param(
            '{type: number, default: x}',
            (3, 30),
            'parameters.p.default',
            'finite number',
            id='default',
        ),
        pytest.param(
            '{get_param: q}', (3, 7), 'parameters.p.get_param', 'is not known here', id='function'
        ),
        pytest.param(
            '{type: string, constraints: [{}]}',
            (3, 35),
            'parameters.p.constraints.0',
            'is one of',
            id='no constraint',
        ),
        pytest.param(
            '{type: json, constraints: [{range: {min: 1}}]}',
            (3, 34),
            'parameters.p.constraints.0.range',
            'range is for number, not json',
            id='constraint of another type',
        ),
        pytest.param(
            '{type: number, constraints: [{range: {min: 2, max: 1}}]}',
            (3, 43),
            'parameters.p.constraints.0.range',
            'min is above max',
            id='empty range',
        ),
        pytest.param(
            '{type: number, constraints: [{modulo: {step: 0, offset: 0}}]}',
            (3, 44),
            'parameters.p.constraints.0.modulo',
            'the step is not 0',
            id='no step',
        ),
        pytest.param(
            "{type: string, constraints: [{allowed_pattern: '('}]}",
            (3, 53),
            'parameters.p.constraints.0.allowed_pattern',
            'no pattern',
            id='no pattern',
        ),
    ],
)
def test_a_declaration_that_is_refused(declared, place, where, why):
    line, column, found, words = refused(ZONED.format(declared=declared))
    assert ((line, column), found) == (place, where)
    assert why in words


def test_a_parameter_without_a_value_is_refused_where_it_is_read():
    assert refused(ZONED.format(declared='{type: string}')) == (
        9,
        43,
        'resources.s.properties.scheduler_hints.seen.get_param',
        'the parameter p has no value and no default',
    )


def test_a_parameter_that_placement_does_not_read_needs_no_value():
    definition = read(
        """
        parameters:
          key: {type: string}
        resources:
          s: {type: OS::Nova::Server, properties: {flavor: small, key_name: {get_param: key}}}
        """
    )
    assert list(definition.members) == ['s']


@pytest.mark.parametrize(
    'given, where, why',
    [
        pytest.param(
            {'cuont': 1},
            'parameters.cuont',
            'no such parameter; did you mean count?',
            id='unknown',
        ),
        pytest.param(
            {1: 2}, 'parameters', 'a mapping from names to values is wanted', id='number as a name'
        ),
        pytest.param([1], 'parameters', 'a mapping from names to values is wanted', id='list'),
    ],
)
def test_values_of_no_parameter_are_refused(given, where, why):
    body = 'parameters:\n  count: {type: number, default: 1}'
    assert refused(body, parameters=given) == (
        None,
        None,
        where,
        f'the template has {why}' if 'no such' in why else why,
    )


def test_custom_constraints_are_for_heat():
    declared = '{type: string, default: a, constraints: [{custom_constraint: nova.keypair}]}'
    definition = read(ZONED.format(declared=declared))
    assert definition.warnings == (
        'parameters.p: a custom constraint is for Heat, and not checked here',
    )


def test_a_pattern_that_takes_ages_is_refused_soon():
    parameters = {
        f'p{i}': {
            'type': 'string',
            'default': 'a' * 60,
            'constraints': [{'allowed_pattern': '(a|aa)+b'}],
        }
        for i in range(100)
    }
    start = time.monotonic()
    _line, _column, where, why = refused(f'parameters: {json.dumps(parameters)}')
    assert time.monotonic() - start < 60  # each would take longer than that
    assert where == 'parameters.p0.default'
    assert 'takes too long' in why


def test_the_builder_counts_lines_as_the_template_does():
    assert text('x: 1').splitlines()[1] == 'x: 1'
