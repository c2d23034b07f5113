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

import contextlib
import copy
import datetime
import functools
import gc
import json
import tracemalloc

import pytest
import yaml

from nova_sched import errors
from nova_sched.groups import template
from nova_sched.groups.template import source, values
from nova_sched.tests.rows import each


@pytest.fixture(params=[source.LOADER, yaml.SafeLoader], ids=['default', 'python'])
def parse(request):
    """With both of PyYAML's parsers."""
    return functools.partial(source.parse, loader=request.param)


@each(
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


NESTED = '[' * 200_000


@each(
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


@pytest.mark.parametrize(
    'mapping, where, why',
    [
        pytest.param({'a': {1, 2}}, 'a', 'a set is nothing', id='set'),
        pytest.param({'a': [{1: 2}]}, 'a.0', 'the key 1 is not text', id='key'),
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


def test_an_alias_is_a_copy(parse):
    top = parse('a: &a {k: [1]}\nb: *a\nc: {<<: *a}\nd: {<<: &d {m: [2]}}\ne: *d').data
    assert {key: values.to_plain(value) for key, value in top.items()} == {
        'a': {'k': [1]},
        'b': {'k': [1]},
        'c': {'k': [1]},
        'd': {'m': [2]},
        'e': {'m': [2]},
    }
    lists = [value for one in top.values() for value in one.data.values()]
    assert len({id(value) for value in lists}) == 5
    assert (lists[1].line, lists[1].column) == (1, 11)  # where it was written


def _doubled(levels, first='[x]', times=10):
    return f'a0: &a0 {first}\n' + ''.join(
        f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * times)}]\n' for i in range(1, levels)
    )


WIDE = '{' + ', '.join(f'k{i}: 1' for i in range(200)) + '}'
MANY = 'more than 100000 values'
HOSTILE = {
    'aliases of aliases': (_doubled(30), MANY),
    'as many as allowed, then one': (_doubled(5) + 'b: [*a4, *a4, *a4, *a4, *a4, *a4]', MANY),
    'a long text, again and again': (
        f'a: &a {"x" * 5000}\nb: [{"*a, " * 300}]',
        'its texts have more than 1048576 characters',
    ),
    'a long key, again and again': (
        f'a: &a {{{"x" * 900}: 1}}\nb: [{"*a, " * 1200}]',
        'its texts have more than 1048576 characters',
    ),
    'merges of one mapping': (f'a: &a {WIDE}\nb: {{<<: [{"*a, " * 600}]}}', MANY),
    'a merge in each item': (f'a: &a {WIDE}\nb: [{"{<<: *a}, " * 600}]', MANY),
    'merges of merges': (
        f'a0: &a0 {WIDE}\n'
        + ''.join(f'a{i}: &a{i} {{<<: [{f"*a{i - 1}, " * 9}]}}\n' for i in range(1, 9)),
        MANY,
    ),
    'deep by aliases': (
        'a0: &a0 [1]\n' + ''.join(f'a{i}: &a{i} [*a{i - 1}]\n' for i in range(1, 60)),
        'nest more than 50 deep',
    ),
    'merged with itself': ('a: &a {<<: *a}', 'nothing before it is named &a'),
    **{
        f'{tag} of {text or "nothing"}': (f'a: !!{tag} {text!r}', f'not of the type {tag}')
        for tag, text in (
            ('int', ''),
            ('int', '-'),
            ('int', '0x'),
            ('int', '1:x'),
            ('int', '9' * 90 + 'x'),
            ('float', ''),
            ('float', '+'),
            ('float', '1:x'),
            ('bool', ''),
        )
    },
    'a long number': ('a: !!int "' + '9' * 5000 + '"', 'the number is too long'),
    'sexagesimal': ('a: ' + '59:' * 30 + '59', 'more than 64 bits'),
    'pairs': ('a: !!omap [x: 1]', 'means nothing here'),
    'a bad escape': ('a: "\\UFFFFFFFF"', ''),  # the two parsers do not say the same of it
    'half of a character': ('a: "\\uD800"', ''),
}


def test_hostile_texts(parse):
    """Each is refused, for its own reason, before anything large is made."""
    wrong = {}
    for name, (text, why) in HOSTILE.items():
        try:
            wrong[name] = parse(text)
        except errors.TemplateError as error:
            if why not in error.why:
                wrong[name] = error.why
    assert wrong == {}


def test_hostile_texts_take_no_memory():
    most = {}
    for name in ('aliases of aliases', 'a long text, again and again', 'merges of merges'):
        tracemalloc.start()
        with pytest.raises(errors.TemplateError):
            source.parse(HOSTILE[name][0])
        most[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert {name: size for name, size in most.items() if size > 64 * 2**20} == {}


def test_odd_texts_that_mean_something(parse):
    found = values.to_plain(
        parse('{a: 0000-00-00, b: !!timestamp x, c: 2001-99-99 99:99:99, d: !!null x, e: !!str 1}')
    )
    assert found == {
        'a': '0000-00-00',
        'b': 'x',
        'c': '2001-99-99 99:99:99',
        'd': None,
        'e': '1',
    }


def test_paths_do_not_grow():
    """Each value holds its path: in a deep template of long names these would be most of it."""
    text, depth = '1', 40
    for _ in range(depth):
        text = f'{{{"k" * 100}: {text}}}'
    value = source.parse(text)
    for _ in range(depth):
        (value,) = value.data.values()
    assert len(value.where) < 400


def test_plain_data():
    assert source.plain('a: [1, x]') == {'a': [1, 'x']}
    assert [source.plain(text) for text in ('', ' \n', '# x\n\n', 'null', '---')] == [None] * 5
    with pytest.raises(errors.TemplateError, match='longer than 3 characters'):
        source.plain('a: 1', 3)


GROUP = {
    'heat_template_version': '2018-08-31',
    'parameters': {'n': {'type': 'number', 'default': 2}},
    'conditions': {'c': {'equals': [{'get_param': 'n'}, 2]}},
    'resources': {
        'a': {
            'type': 'OS::Heat::ResourceGroup',
            'condition': 'c',
            'properties': {
                'count': {'get_param': 'n'},
                'resource_def': {
                    'type': 'OS::Nova::Server',
                    'properties': {'name': 'a%index%', 'flavor': {'vcpus': 1, 'ram': 512}},
                },
            },
        },
        'g': {'type': 'OS::NovaSched::Group', 'properties': {'members': ['a']}},
    },
}


@pytest.mark.parametrize('version', ['2018-08-31', '2018-99-99'], ids=['good', 'bad'])
@pytest.mark.parametrize('kind', ['OS::NovaSched::Group', 'OS::NovaSched::Grop'])
def test_a_reading_leaves_no_cycles(version, kind):
    """A scheduler reads thousands of templates, and its collector runs seldom."""
    group = copy.deepcopy(GROUP) | {'heat_template_version': version}
    group['resources']['g']['type'] = kind
    with contextlib.suppress(errors.TemplateError):
        template.read(group)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(errors.TemplateError):
            template.read(group)
        assert gc.collect() == 0
    finally:
        gc.enable()
