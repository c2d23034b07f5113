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
"""The references of the manual, which Sphinx makes: a page for each command, and the REST API."""

import importlib.util
import itertools
from pathlib import Path

import pytest

from nova_sched.api import document
from nova_sched.cmd.manage import commands
from nova_sched.tests.test_tree import entry_points

SOURCE = Path(__file__).resolve().parents[3] / 'doc' / 'source'


def loaded(name):
    """Return the extension of Sphinx of that name."""
    spec = importlib.util.spec_from_file_location(f'_{name}', SOURCE / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Commands: all of their options and subcommands.


@pytest.fixture(scope='module')
def reference():
    return loaded('command_reference')


@pytest.fixture
def shown(reference):
    """The nodes of a command's page."""

    def read(command):
        return reference.nodes.section('', *reference.content(reference.parser_of(command)))

    return read


def titles(reference, section):
    return [node.astext() for node in section.findall(reference.nodes.title)]


@pytest.mark.parametrize('command', entry_points('console_scripts'))
def test_a_command_has_a_page_with_its_options(reference, shown, command):
    page = (SOURCE / 'man' / f'{command}.rst').read_text()
    assert f'.. command-reference:: {command}\n' in page
    assert f"('{command}', " in (SOURCE / 'conf.py').read_text()
    names = {node.astext() for node in shown(command).findall(reference.nodes.option_string)}
    assert {'--help', '--config-file'} <= names


def test_every_verb_has_a_section(reference, shown):
    verbs = {f'{noun} {verb[0]}' for noun in commands.nouns() for verb in commands.verbs_of(noun)}
    found = titles(reference, shown('nova-sched-manage'))
    assert set(found) == {'Options of all verbs', *commands.nouns()} | verbs
    assert len(found) == len(set(found))


def test_an_option_of_all_verbs_is_described_once(reference, shown):
    strings = [
        node.astext() for node in shown('nova-sched-manage').findall(reference.nodes.option_string)
    ]
    assert strings.count('--format') == 1
    assert strings.count('--watch') > 1


@pytest.mark.parametrize(
    'name, options, row',
    [
        pytest.param('--count', {'type': int, 'default': 3}, '--count COUNT 3', id='a value'),
        pytest.param('--all', {'action': 'store_true'}, '--all False', id='a flag'),
        pytest.param('host', {'metavar': 'HOST', 'default': 1}, 'HOST 1', id='an argument'),
        pytest.param(
            '--kind', {'choices': ['a', 'b'], 'default': 'b'}, '--kind a|b b', id='choices'
        ),
    ],
)
def test_a_row(reference, name, options, row):
    parser = reference.argparse.ArgumentParser('thing', add_help=False)
    parser.add_argument(name, help='%(default)s', **options)
    found = reference.nodes.section('', *reference.content(parser))
    item = next(found.findall(reference.nodes.option_list_item))
    assert ' '.join(item.astext().split()) == row


def test_indented_lines_stay_as_they_are(reference):
    parser = reference.argparse.ArgumentParser('thing', epilog='try --that\n\nsee:\n  a b')
    *_, text, example = reference.content(parser)
    assert text.astext() == 'try --that'
    assert [node.astext() for node in text.findall(reference.nodes.literal)] == ['--that']
    assert isinstance(example, reference.nodes.literal_block)
    assert example.astext() == 'see:\n  a b'


# The REST API: all that the OpenAPI document has.


@pytest.fixture(scope='module')
def rest():
    return loaded('rest_reference')


def test_every_operation_and_schema_has_a_section(rest):
    lines = rest.rst(document.DOCUMENT)
    sections = {text for text, below in itertools.pairwise(lines) if set(below) == {'-'}}
    operations = {
        f'{operation.method.upper()} {operation.path}'
        for operation in document.OPERATIONS.values()
    }
    assert sections == operations | document.DOCUMENT['components']['schemas'].keys()


def test_an_operation_has_its_parameters_and_answers(rest):
    said = {
        'summary': 'A *thing*',
        'parameters': [
            {'name': 'n', 'in': 'query', 'schema': {'type': 'integer', 'minimum': 1}},
        ],
        'responses': {'200': {'description': 'It is `there`.'}},
    }
    text = '\n'.join(rest.operation('/things', 'get', said, []))
    for words in ('GET /things', r'A \*thing\*.', '``n``', 'integer; at least 1', '``there``'):
        assert words in text


@pytest.mark.parametrize(
    'schema, words',
    [
        pytest.param({'type': ['string', 'null']}, 'string or null', id='two types'),
        pytest.param(
            {'type': 'array', 'items': {'type': 'string'}}, 'array of string', id='array'
        ),
        pytest.param({'$ref': '#/x/Plan'}, ':ref:`Plan <rest-schema-plan>`', id='named'),
        pytest.param({'type': 'string', 'enum': ['a', 'b']}, 'string: ``a``, ``b``', id='values'),
        pytest.param({}, 'any', id='any'),
    ],
)
def test_kind(rest, schema, words):
    assert rest.kind(schema) == words
