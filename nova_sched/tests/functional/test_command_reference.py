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
"""The manual pages: one for each command, with all of its options and subcommands."""

import importlib.util
from pathlib import Path

import pytest

from nova_sched.cmd.manage import commands
from nova_sched.tests.test_tree import entry_points

SOURCE = Path(__file__).resolve().parents[3] / 'doc' / 'source'


@pytest.fixture(scope='module')
def reference():
    spec = importlib.util.spec_from_file_location('_reference', SOURCE / 'command_reference.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shown(reference):
    """The nodes of a command's page."""

    def read(command):
        return reference.nodes.section('', *reference.content(reference.parser_of(command)))

    return read


def titles(reference, section):
    return [one.astext() for one in section.findall(reference.nodes.title)]


@pytest.mark.parametrize('command', entry_points('console_scripts'))
def test_a_command_has_a_page_with_its_options(reference, shown, command):
    page = (SOURCE / 'man' / f'{command}.rst').read_text()
    assert f'.. command-reference:: {command}\n' in page
    assert f"('{command}', " in (SOURCE / 'conf.py').read_text()
    names = {one.astext() for one in shown(command).findall(reference.nodes.option_string)}
    assert {'--help', '--config-file'} <= names


def test_every_verb_has_a_section(reference, shown):
    verbs = {f'{noun} {verb[0]}' for noun in commands.nouns() for verb in commands.verbs_of(noun)}
    found = titles(reference, shown('nova-sched-manage'))
    assert set(found) == {'Options of all verbs', *commands.nouns()} | verbs
    assert len(found) == len(set(found))


def test_an_option_of_all_verbs_is_described_once(reference, shown):
    strings = [
        one.astext() for one in shown('nova-sched-manage').findall(reference.nodes.option_string)
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
    assert [one.astext() for one in text.findall(reference.nodes.literal)] == ['--that']
    assert isinstance(example, reference.nodes.literal_block)
    assert example.astext() == 'see:\n  a b'
