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
"""Text becomes values that know where they stand, and hostile text becomes an error."""

import datetime
import functools
import json

import pytest
import yaml

from nova_sched import errors
from nova_sched.groups.template import source, values


@pytest.fixture(params=[source.LOADER, yaml.SafeLoader], ids=['default', 'python'])
def parse(request):
    """With both of PyYAML's parsers."""
    return functools.partial(source.parse, loader=request.param)


@pytest.mark.parametrize(
    'text, plain',
    [
        pytest.param(
            '{a: 1, b: [x, 2.5, true, null]}', {'a': 1, 'b': ['x', 2.5, True, None]}, id='plain'
        ),
        pytest.param('a: 2021-04-16', {'a': '2021-04-16'}, id='a date is text'),
        pytest.param(
            'a: 2021-04-16 10:00:00Z', {'a': '2021-04-16 10:00:00Z'}, id='a time is text'
        ),
        pytest.param(
            '{a: no, b: "no"}', {'a': False, 'b': 'no'}, id='no is a boolean, as in YAML 1.1'
        ),
        pytest.param('{no: 1, 2: 3, ~: 4}', {'no': 1, '2': 3, '~': 4}, id='keys are text'),
        pytest.param(
            '{a: 0x10, b: 010, c: 1_000}', {'a': 16, 'b': 8, 'c': 1000}, id='numbers of YAML 1.1'
        ),
        pytest.param('{a: =, b: <<}', {'a': '=', 'b': '<<'}, id='odd scalars are text'),
        pytest.param('{a: &x [1], b: *x}', {'a': [1], 'b': [1]}, id='alias'),
        pytest.param(
            'a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}',
            {'a': {'k': 1, 'l': 2}, 'b': {'l': 2, 'k': 3}},
            id='merged, own keys first',
        ),
        pytest.param(
            'a: {<<: [{k: 1}, {k: 2, l: 2}]}',
            {'a': {'k': 1, 'l': 2}},
            id='of several merged the first counts',
        ),
        pytest.param('a: !!str 1', {'a': '1'}, id='tagged'),
        pytest.param('a: ! 1', {'a': 1}, id='the tag that says nothing'),
        pytest.param('\ufeffa: 1', {'a': 1}, id='byte order mark'),
        pytest.param(b'a: \xc3\xa4', {'a': 'ä'}, id='bytes'),
        pytest.param('a: ' + '9' * 200, {'a': '9' * 200}, id='a number that nobody means is text'),
        pytest.param('{"a": 1e-07, "b": "1e3"}', {'a': 1e-07, 'b': '1e3'}, id='a number of JSON'),
        pytest.param('a: 1e3', {'a': '1e3'}, id='no number of YAML 1.1'),
        pytest.param(
            '{"a": "\\ud83d\\ude00", "b": 1}',
            {'a': '\U0001f600', 'b': 1},
            id='JSON that is no YAML',
        ),
        pytest.param('{"a": "\x7f"}', {'a': '\x7f'}, id='JSON with a character that YAML has not'),
        pytest.param('--- {a: 1}\n...\n', {'a': 1}, id='explicit document'),
    ],
)
def test_text_is_read(parse, text, plain):
    assert values.to_plain(parse(text)) == plain


def test_every_value_knows_its_place(parse):
    value = parse('a: 1\nb:\n  - x\n  -   {k: y}\n')
    found = value.data['b'].data[1].data['k']
    assert (found.line, found.column, found.where) == (4, 11, 'b.1.k')
    assert value.data['b'].data[1].keys == {'k': (4, 8)}


NESTED = '[' * 30_000
BOMB = 'a0: &a0 [x]\n' + ''.join(
    f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 10)}]\n' for i in range(1, 30)
)


@pytest.mark.parametrize(
    'text, place, why',
    [
        pytest.param('', (1, 1), 'there is nothing in it', id='empty'),
        pytest.param('# only a comment', (1, 1), 'there is nothing in it', id='comment'),
        pytest.param('a: 1\nb: 2\n a: 3', (3, 3), 'mapping values are not allowed', id='no YAML'),
        pytest.param('a: [1\n', (2, 1), '', id='unfinished'),
        pytest.param(
            'a: 1\nb:\n  c: 1\n  c: 2', (4, 3), 'c is given twice, first in line 3', id='duplicate'
        ),
        pytest.param('{"a": 1, "a": 2}', (1, 10), 'a is given twice', id='duplicate in JSON'),
        pytest.param('a: 1\n---\nb: 2', (2, 1), 'a second document', id='two documents'),
        pytest.param('a: *x', (1, 4), 'nothing before it is named &x', id='unknown alias'),
        pytest.param(
            'a: &x [*x]', (1, 8), 'nothing before it is named &x', id='alias of what it is in'
        ),
        pytest.param(
            'a: !!python/name:os.system x', (1, 4), 'means nothing here', id='tag of Python'
        ),
        pytest.param('a: !!set {x}', (1, 4), 'means nothing here', id='set'),
        pytest.param('a: !!binary aGk=', (1, 4), 'means nothing here', id='binary'),
        pytest.param('a: !mine [1]', (1, 4), 'means nothing here', id='own tag'),
        pytest.param(
            'a: !!int x', (1, 4), "'x' is not of the type int", id='not what its tag says'
        ),
        pytest.param('a: !!bool x', (1, 4), "'x' is not of the type bool", id='nor this'),
        pytest.param(
            'a: !!int ' + '1:' * 60 + '1', (1, 4), 'the number is too long', id='long number'
        ),
        pytest.param('a: 99999999999999999999', (1, 4), 'more than 64 bits', id='large number'),
        pytest.param('a: .inf', (1, 4), 'is not finite', id='infinite'),
        pytest.param('a: .nan', (1, 4), 'is not finite', id='no number'),
        pytest.param('? [a, b]\n: 1', (1, 3), 'a key is text', id='list as a key'),
        pytest.param('a: &x k\n? *x\n: 1', (2, 3), 'a key is text', id='alias as a key'),
        pytest.param('a: {<<: 1}', (1, 9), '<< takes a mapping', id='merged number'),
        pytest.param('a: "x\\0"', (1, 4), 'NUL', id='NUL'),
        pytest.param('a: 1\nb: \x07', (2, 4), 'U+0007', id='control character'),
        pytest.param('a: 1\nb: \ud800', (2, 4), 'U+D800', id='half a character'),
        pytest.param(b'a: 1\nb\xff: 2', (2, 2), 'byte 0xff is not UTF-8', id='no UTF-8'),
        pytest.param('a: 1\n'.encode('utf-16'), (1, 1), 'is not UTF-8', id='UTF-16'),
        pytest.param(NESTED, (1, 52), 'nest more than 50 deep', id='deep'),
        pytest.param('{"a":' * 5_000, (1, 256), 'nest more than 50 deep', id='deep JSON'),
        pytest.param('x' * (2**20 + 1), (None, None), 'longer than 1048576', id='long'),
    ],
)
def test_what_is_no_template_is_refused(parse, text, place, why):
    with pytest.raises(errors.TemplateError) as caught:
        parse(text)
    assert why in caught.value.why
    assert (caught.value.line, caught.value.column) == place


def test_too_many_values_are_refused():
    with pytest.raises(errors.TemplateError, match=r'column 200000, .* more than 100000 values'):
        source.parse('[' + '1,' * 100_001 + ']')


def test_a_bad_escape_is_refused(parse):
    """The two parsers do not say the same of it."""
    with pytest.raises(errors.TemplateError):
        parse('a: "\\UFFFFFFFF"')


def test_a_bomb_of_aliases_takes_no_room(parse):
    assert len(parse(BOMB).data) == 30


@pytest.mark.parametrize(
    'mapping, where, why',
    [
        pytest.param({'a': {1, 2}}, 'a', 'a set is nothing', id='set'),
        pytest.param({'a': [{1: 2}]}, 'a.0', 'the key 1 is no text', id='key'),
        pytest.param({'a': float('nan')}, 'a', 'is not finite', id='no number'),
        pytest.param({'a': 2**63}, 'a', 'more than 64 bits', id='large number'),
        pytest.param({'a': {'b': '\udfff'}}, 'a.b', 'surrogate', id='half a character'),
        pytest.param([1], 'template', 'is a mapping, not a list', id='list'),
        pytest.param(None, 'template', 'is a mapping, not null', id='nothing'),
    ],
)
def test_a_mapping_is_what_JSON_has(mapping, where, why):  # noqa: N802
    with pytest.raises(errors.TemplateError) as caught:
        source.values(mapping)
    assert caught.value.args[:3] == (where, None, None)
    assert why in caught.value.why


def test_a_mapping_that_holds_itself_is_refused():
    endless = {}
    endless['a'] = endless
    with pytest.raises(errors.TemplateError, match='nest more than 50 deep'):
        source.values(endless)


def test_a_date_that_a_reader_of_YAML_made_is_text():  # noqa: N802
    assert values.to_plain(source.values({'a': datetime.date(2021, 4, 16)})) == {'a': '2021-04-16'}


def test_a_mapping_and_its_JSON_are_the_same():  # noqa: N802
    plain = {
        'a': ['\x7f', '\U0001f600', 1e22, 'é', 10**18, '<<', {'<<': {'k': 1}}],
        'yes': 'no',
        'n': None,
    }
    assert values.to_plain(source.values(json.dumps(plain))) == plain
