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
"""Words from outside: what a UUID, a name and a symbol look like, and what may have been meant."""

import pytest

from nova_sched import errors, objects, words
from nova_sched.tests.rows import each
from nova_sched.words import question, suggestion

UUID = '9c2d4f7e-0000-4000-8000-00000000abcd'


@each(
    'value, good',
    [
        pytest.param(UUID, True, id='as Nova writes it'),
        pytest.param(UUID.upper(), False, id='in capitals'),
        pytest.param(UUID.replace('-', ''), False, id='without hyphens'),
        pytest.param(f'urn:uuid:{UUID}', False, id='with a prefix'),
        pytest.param(f'{UUID}\n', False, id='with a newline'),
        pytest.param('', False, id='empty'),
        pytest.param(None, False, id='none'),
        pytest.param(5, False, id='a number'),
        pytest.param([UUID], False, id='a list'),
    ],
)
def test_uuid(value, good):
    assert words.is_uuid(value) is good
    if good:
        assert words.uuid(value, 'here') == value
    else:
        with pytest.raises(
            errors.InvalidRequest, match=r'Invalid request, here: .* is not a UUID'
        ):
            words.uuid(value, 'here')


@each(
    'value, good',
    [
        pytest.param(1, True, id='the least'),
        pytest.param(2**31 - 1, True, id='as large as an integer of a database'),
        pytest.param(0, False, id='nothing'),
        pytest.param(-1, False, id='negative'),
        pytest.param(1.0, False, id='not whole'),
        pytest.param(True, False, id='a yes'),
        pytest.param('1', False, id='a word'),
    ],
)
def test_number(value, good):
    if good:
        assert words.number(value, 'here') == value
    else:
        with pytest.raises(
            errors.InvalidRequest, match=r'Invalid request, here: .* is not a number from 1'
        ):
            words.number(value, 'here')


# Text -> seconds since the epoch; None: it is refused.
TIMES = {
    '2026-11-26T14:00:00Z': 1795701600,
    '20261126T140000Z': 1795701600,
    '20261126t140000z': 1795701600,
    '20261126T1400': 1795701600,
    '20261126T14': 1795701600,
    ' 2026-11-26 14:00:00 ': 1795701600,
    '20261126T193000+0530': 1795701600,
    '2026-11-26T193000.25+05:30': 1795701600.25,
    '2026-11-26T14:00:00,25Z': 1795701600.25,
    '2026-11-26T14:00:00.250000000Z': 1795701600.25,
    '20261126': 1795651200,
    '2026-11-26': 1795651200,
    '2026-W48-4': 1795651200,
    '2026W484': 1795651200,
    '9999-12-31T23:59:59-23:59': None,
    '0001-01-01T00:00:00+23:59': None,
    '2026-13-01': None,
    '2026-11-26T25:00': None,
    '1795701600': None,
    'tomorrow': None,
    '': None,
    None: None,
    20261126: None,
}


def test_moments():
    wrong = {}
    for text, right in TIMES.items():
        try:
            found = words.moment(text)
            assert found.utcoffset().total_seconds() == 0
            found = found.timestamp()
        except ValueError as error:
            found = None if 'is not a time in ISO 8601' in str(error) else error
        if found != right:
            wrong[text] = found
    assert wrong == {}


def test_a_moment_of_a_message():
    sent = objects.to_primitive(objects.Service(last_seen_up=words.moment('2026-11-26T14:00:00Z')))
    sent['nova_object.data']['last_seen_up'] = '20261126T193000+0530'
    assert objects.from_primitive(sent).last_seen_up.timestamp() == 1795701600
    sent['nova_object.data']['last_seen_up'] = '9999-12-31T23:59:59-23:59'
    with pytest.raises(errors.MalformedObject, match='last_seen_up'):
        objects.from_primitive(sent)


@each(
    'value, good',
    [
        pytest.param('cmp-1.example.org', True, id='a host'),
        pytest.param('Rechner 7, Köln', True, id='blanks and umlauts'),
        pytest.param('x' * 255, True, id='as long as can be'),
        pytest.param('x' * 256, False, id='longer'),
        pytest.param('', False, id='empty'),
        pytest.param('two\nlines', False, id='two lines'),
        pytest.param('nul\0', False, id='what no database takes'),
        pytest.param('half \ud800', False, id='half a character'),
        pytest.param(None, False, id='none'),
        pytest.param(b'bytes', False, id='bytes'),
    ],
)
def test_name(value, good):
    assert words.is_name(value) is good
    if good:
        assert words.name(value, 'here') == value
    else:
        with pytest.raises(
            errors.InvalidRequest, match=r'Invalid request, here: .* is not a name'
        ):
            words.name(value, 'here')


@each(
    'value, good',
    [
        pytest.param('two\nlines', True, id='two lines'),
        pytest.param('', True, id='empty'),
        pytest.param('nul\0', False, id='NUL'),
        pytest.param('half \udfff', False, id='half a character'),
        pytest.param(5, False, id='a number'),
    ],
)
def test_text(value, good):
    assert words.is_text(value) is good


@each(
    'value, good',
    [
        pytest.param('HW_CPU_X86_AVX2', True, id='a trait'),
        pytest.param('VCPU', True, id='a resource class'),
        pytest.param('vcpu', False, id='small letters'),
        pytest.param('A B', False, id='a blank'),
        pytest.param('', False, id='empty'),
        pytest.param('A' * 256, False, id='too long'),
        pytest.param(5, False, id='a number'),
    ],
)
def test_symbol(value, good):
    assert words.is_symbol(value) is good


INVISIBLE = [
    ('plain, with ä, 東京 and 🙂', 'plain, with ä, 東京 and 🙂'),
    ('', ''),
    ('a\nb', r'a\nb'),
    ('a\r\x1b[2Jb', r'a\r\x1b[2Jb'),  # a terminal would clear its screen
    ('\x1b]0;title\x07', r'\x1b]0;title\x07'),
    ('\x9b31m', r'\x9b31m'),  # the same in one byte
    ('a\u202ecod.exe', r'a\u202ecod.exe'),  # what follows would run from right to left
    ('\u2066a\u2069', r'\u2066a\u2069'),
    ('a\u200b\u200db\ufeff', r'a\u200b\u200db\ufeff'),  # without width
    ('a\u2028b\x85', r'a\u2028b\x85'),  # ends of lines too
    ('\x00\x7f', r'\x00\x7f'),
    ('\ud800', r'\ud800'),
    ('\U000e0041', r'\U000e0041'),  # a tag
]


def test_visible():
    found = [(text, words.visible(text)) for text, _ in INVISIBLE]
    assert found == INVISIBLE
    assert words.visible('a\nb\tc\x1b', '\n\t') == 'a\nb\tc\\x1b'


def test_what_is_invisible_is_in_no_name():
    odd = [text for text, shown in INVISIBLE if text != shown and words.is_name(text)]
    assert odd == []


@each(
    'value, shown',
    [
        pytest.param('x', "'x'", id='text'),
        pytest.param(5, '5', id='a number'),
        pytest.param([1, 2], '[1, 2]', id='a list'),
        pytest.param('x' * 1000, repr('x' * 64), id='long text'),
        pytest.param(10**100, '1' + '0' * 76 + '...', id='a long number'),
        pytest.param(['x' * 1000], "['" + 'x' * 75 + '...', id='long text in a list'),
    ],
)
def test_short(value, shown):
    assert words.short(value) == shown


@each(
    'value',
    [
        pytest.param(None, id='null'),
        pytest.param({'a': [1, -1.5, True, None, {'b': 'c'}]}, id='all kinds'),
        pytest.param(2**63 - 1, id='the largest number'),
    ],
)
def test_plain(value):
    assert words.plain(value, 'here') is value


def nested(levels):
    made = []
    for _ in range(levels):
        made = [made]
    return made


@each(
    'value, why',
    [
        pytest.param(objects.Flavor(), 'here: a Flavor is not a plain value', id='an object'),
        pytest.param(
            {'a': [{'b': objects.Flavor()}]}, 'here.a.b: a Flavor', id='an object inside'
        ),
        pytest.param({1: 2}, 'the key 1 is not text', id='a key'),
        pytest.param((1,), 'a tuple', id='a tuple'),
        pytest.param(b'x', 'a bytes', id='bytes'),
        pytest.param(2**63, 'is not a number of 64 bits', id='a large number'),
        pytest.param([float('nan')], 'nan is not a number', id='no number'),
        pytest.param(nested(200), 'more than 100 deep', id='deep'),
        pytest.param({'k' * 10_000: [b'x']}, 'here.k', id='below a long key'),
    ],
)
def test_not_plain(value, why):
    with pytest.raises(errors.InvalidRequest, match=why) as refused:
        words.plain(value, 'here')
    assert len(str(refused.value)) < 400


@each(
    'value, where',
    [
        pytest.param({'a': ['ok', 'nul\0']}, 'message.a', id='NUL'),
        pytest.param(
            [{'nova_object.data': {'name': 'half \ud800'}}], 'message.name', id='in an object'
        ),
        pytest.param({'half \udfff': 1}, 'a key of message', id='a key'),
        pytest.param(nested(5000), 'message', id='deep'),
        pytest.param({'k' * 10_000: 'nul\0'}, 'kkk', id='below a long key'),
    ],
)
def test_text_inside(value, where):
    with pytest.raises(errors.InvalidRequest) as refused:
        words.check_text(value)
    assert where in refused.value.where
    assert len(str(refused.value)) < 400


@each('value', ['nul\0', None, 7, {'a': 'größe\n\U0001f600 \\x00 \\ud800'}, [b'\0']], ids=repr)
def test_sound_text(value):
    """A text by itself is for those who know what it is; a backslash is a character like
    others."""
    assert words.check_text(value) is None


@each(
    'word, found',
    [
        pytest.param('cuont', 'did you mean count?', id='near'),
        pytest.param('elephant', '', id='far'),
    ],
)
def test_the_nearest_word(word, found):
    assert question(word, ['count', 'room']) == found
    assert suggestion(word, ['count', 'room']) == (f'; {found}' if found else '')


def test_it_may_have_to_be_closer():
    assert question('cuont', ['count'], 0.95) == ''


def test_a_few_short_names_are_compared():
    """A comparison takes long, and tenants choose the names."""
    long = 'x' * 41
    assert question(long, [long + 'y', long]) == ''
    assert question('cuont', [long * 1000, 'count']) == 'did you mean count?'
    others = [f'{number:05}' for number in range(200)]
    assert question('cuont', [*others[:90], 'count']) == 'did you mean count?'
    assert question('cuont', ['a', *['far too long'] * 500, 'count']) == 'did you mean count?'
    assert question('cuont', [*others, 'count']) == ''
