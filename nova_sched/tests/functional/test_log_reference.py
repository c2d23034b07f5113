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
"""The log reference has every line of the levels INFO, WARNING and ERROR, as the code has it."""

import ast
import collections
import re

import pytest

from nova_sched.tests import manual

ROOT = manual.MANUAL.parents[1]
PAGE = manual.MANUAL / 'logs.rst'
LEVELS = {'info': 'INFO', 'warning': 'WARNING', 'error': 'ERROR', 'exception': 'ERROR'}
PROBLEMS = {'begin': 'ERROR', 'end': 'INFO'}  # of logs.Problems
VALUE = re.compile(r'%[-+.\d]*[a-z]')
# A line in the page: its text, then levels and loggers.
ENTRY = re.compile(
    r'^``(?P<text>.+)``\n    (?P<body>(?:INFO|WARNING|ERROR).*\n(?:    .*\n|\n)*)', re.M
)
LEVEL, LOGGER = r'(?:INFO|WARNING|ERROR)', r'``nova_sched\S*``'
HEAD = re.compile(
    rf'(?P<levels>{LEVEL}(?:(?:, | or ){LEVEL})*)(?P<traceback>, with a traceback)?,\s+'
    rf'(?P<loggers>{LOGGER}(?:,\s+{LOGGER})*)\.'
)


def template(text):
    """A message with ``…`` for each value."""
    return VALUE.sub('…', text)


def modules():
    package = ROOT / 'nova_sched'
    for path in sorted(package.rglob('*.py')):
        if not path.is_relative_to(package / 'tests') and path != package / 'logs.py':
            name = '.'.join(path.relative_to(ROOT).with_suffix('').parts)
            yield name.removesuffix('.__init__'), ast.parse(path.read_text('utf-8'))


def lines_of(tree):
    """What a module logs: (text, level or None if that is a variable, with a traceback or not)."""
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        of, method = ast.unparse(call.func.value), call.func.attr
        if of == 'LOG' and method in LEVELS:
            level, text = LEVELS[method], call.args[0]
        elif of == 'LOG' and method == 'log':
            level, text = None, call.args[1]
        elif of == 'self._problems' and method in PROBLEMS:
            level, text = PROBLEMS[method], call.args[1]
        else:
            continue
        text = constants.get(text.id, text) if isinstance(text, ast.Name) else text
        assert isinstance(text, ast.Constant), (
            f'write the text of the line out: {ast.unparse(call)}'
        )
        is_told = method == 'error' and any(one.arg == 'exc_info' for one in call.keywords)
        yield template(text.value), level, method == 'exception' or is_told


@pytest.fixture(scope='module')
def logged():
    """(text, level, with a traceback) -> the loggers."""
    found = collections.defaultdict(set)
    for module, tree in modules():
        for line in lines_of(tree):
            found[line].add(module)
    return found


@pytest.fixture(scope='module')
def listed():
    """(text, levels, with a traceback) -> the loggers, and the whole text of the entry."""
    found = {}
    for entry in ENTRY.finditer(PAGE.read_text('utf-8')):
        head = HEAD.match(entry['body'])
        assert head, f'{entry["text"]}: level and logger cannot be read'
        levels = frozenset(re.findall('[A-Z]+', head['levels']))
        loggers = set(re.findall(r'``(\S+)``', head['loggers']))
        key = entry['text'], levels, bool(head['traceback'])
        assert key not in found
        found[key] = loggers, entry['body']
    return found


def test_each_line_of_the_code_is_listed_with_its_level_and_loggers(logged, listed):
    fixed = {
        (text, frozenset([level]), traceback): loggers
        for (text, level, traceback), loggers in logged.items()
        if level
    }
    page = {key: loggers for key, (loggers, _) in listed.items() if len(key[1]) == 1}
    assert page == fixed


def test_lines_of_several_levels_are_listed(logged, listed):
    several = {text: loggers for (text, level, _), loggers in logged.items() if level is None}
    assert several == {key[0]: loggers for key, (loggers, _) in listed.items() if len(key[1]) > 1}


def test_a_warning_and_an_error_have_a_remedy(listed):
    assert [
        text
        for (text, levels, _), (_, body) in listed.items()
        if levels != {'INFO'} and 'Remedy:' not in body
    ] == []


# Lines and errors in other pages.


@pytest.fixture(scope='module')
def texts(logged):
    """Patterns for the log lines, the errors, and what the schema is said to be."""
    said = {text for text, *_ in logged}
    for path in ('errors.py', 'db/schema.py'):
        for node in ast.walk(ast.parse((ROOT / 'nova_sched' / path).read_text('utf-8'))):
            if isinstance(node, ast.JoinedStr):
                said.add(re.sub(r'\{[^}]*\}', '…', ast.unparse(node)[2:-1]))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                said.add(re.sub(r'\{\w+\}', '…', str(node.value.value)))
    return [
        re.compile('.*'.join(map(re.escape, text.split('…'))))
        for text in said
        if re.search('[a-z]{2}', text)
    ]


def quoted():
    """The log lines in blocks of the manual."""
    for block in manual.blocks():
        if block.language == 'text' or any(
            line.startswith('nova-sched-q') for line in block.commands
        ):
            text = re.sub(r'\n(?!INFO|WARNING|ERROR|\$)', ' ', block.text.strip())
            for line in text.splitlines():
                if found := re.match(r'(?:INFO|WARNING|ERROR) (.*)|(Decided .*)', line):
                    yield pytest.param(found[1] or found[2], id=block.page)


@pytest.mark.parametrize('line', list(quoted()))
def test_a_line_in_an_example_is_one_of_the_code(texts, line):
    assert any(pattern.fullmatch(line) for pattern in texts)


def symptoms():
    """What the page of symptoms quotes: texts with values."""
    page = (manual.MANUAL / 'troubleshooting.rst').read_text('utf-8')
    found = [' '.join(text.split()) for text in re.findall('``([^`]+)``', page)]
    return [text for text in found if '…' in text]


@pytest.mark.parametrize('text', symptoms())
def test_a_symptom_quotes_a_text_of_the_code(texts, text):
    assert any(pattern.fullmatch(text) for pattern in texts)
