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
"""The examples of the manual: each block of code is valid for this release.

Other tests run some of them on a cloud: those of the files that the pages include, Python, and the
set-ups of daemons.
"""

import ast
import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from nova_sched.api import document
from nova_sched.cmd.manage import commands, config
from nova_sched.extensions.shadow import cmd as shadow
from nova_sched.extensions.simulator import cmd as sim
from nova_sched.extensions.simulator import cmd_replay as sim_replay
from nova_sched.extensions.simulator import cmd_storm as sim_storm
from nova_sched.tests import manual
from nova_sched.tests.manual import MANUAL

ROOT = MANUAL.parents[1]
TESTS = ROOT / 'nova_sched' / 'tests'
MANAGE = ROOT / 'nova_sched' / 'cmd' / 'manage'
EXTENSIONS = ROOT / 'nova_sched' / 'extensions'
DAEMONS = {f'nova-sched-{name}' for name in ('scheduler', 'shadow', 'agent', 'api', 'queues')}
DAEMON_OPTIONS = {'--config-file', '--config-dir'}
# Programs that are not ours, and are not checked.
FOREIGN = {'mysql', 'mariadb', 'mariadb-dump', 'pg_dump', 'pg_restore', 'psql', 'sqlite3'}
FOREIGN |= {'createdb', 'dropdb', 'openstack', 'rabbitmqctl', 'pip', 'gunicorn', 'source', 'cd'}
FOREIGN |= {'createuser', 'mkdir', 'ln', 'setpriv'}
FOREIGN |= {
    'touch',
    'systemd-sysusers',
    'systemd-tmpfiles',
    '.',
    'export',
    'apt',
    'podman',
    'docker',
}
FOREIGN |= {'podman-compose', 'tools/build-deb', 'build-deb'}
HEAT = 'heat.rst'  # its configuration is Heat's

# What a page includes, and the test that runs it.
INCLUDED = {
    'examples/groups': 'functional/test_group_examples.py',
    'examples/queues/conductor.py': 'integration/test_queue_setup.py',
    'examples/queues/one_process.py': 'functional/test_queue_examples.py',
    'examples/queues/one-process.conf': 'functional/test_queue_examples.py',
    'examples/notifications': 'unit/rpc/test_event_payload.py',
    'examples/heat/shop.yaml': 'heat_engine/test_whole.py',
    'examples/logging.conf': 'integration/test_operation_guides.py',
    '../../nova_sched/tests/extension_package': 'integration/test_extensions.py',
    '../../nova_sched/tests/plugin_package': 'integration/test_plugins.py',
    '../../etc/systemd': 'test_units.py',
}


def of_language(*languages):
    return [
        pytest.param(block, id=f'{block.page}-{block.number}')
        for block in manual.blocks()
        if block.language in languages
    ]


# Configurations.


@pytest.fixture(scope='module')
def known():
    return config.known_options()


def problems(text, tmp_path, known):
    file = tmp_path / 'nova_sched.conf'
    file.write_text(text)
    return [
        f'{one.where}: {one.problem}' for one in config.values(config.words([str(file)]), known)
    ]


@pytest.mark.parametrize('block', of_language('ini'))
def test_each_option_is_known_and_valid(block, tmp_path, known):
    if block.page != HEAT:
        assert problems(block.text, tmp_path, known) == []


def test_a_mistake_is_found(tmp_path, known):
    text = '[scheduler]\nworker = 2\nworkers = many\n'
    assert [one.partition(':')[0] for one in problems(text, tmp_path, known)] == [
        '[scheduler] worker',
        '[scheduler] workers',
    ]


# Commands.


def exit_status(parser, argv):
    """0 if the parser accepts the words."""
    try:
        parser.parse_args(argv)
    except SystemExit as end:
        return end.code
    return 0


def is_python(argv):
    if argv[0] == '-m':
        return importlib.util.find_spec(argv[1]) is not None
    return any(MANUAL.glob(f'examples/*/{argv[0]}'))


PATHS = document.DOCUMENT['paths']


def is_call(argv):
    """Whether curl is called for an address of the REST API."""
    (address,) = (word for word in argv if word.startswith('http'))
    path = re.sub(r'https?://[^/]+|\?.*', '', address)
    return re.sub(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', '{uuid}', path) in PATHS


def are_units(names):
    return all((ROOT / 'etc' / 'systemd' / f'{name}.service').exists() for name in names)


def is_valid(program, argv):
    """Whether a program takes these arguments."""
    name = Path(program).name or program
    match name:
        case 'nova-sched-manage':
            return exit_status(commands.parser(), argv) == 0
        case 'nova-sched-shadow' if argv[:1] == ['report']:
            return exit_status(shadow.report_parser(), argv[1:]) == 0
        case 'nova-sched-status':
            options = {word for word in argv if word.startswith('-')}
            return options <= {'--config-file', '--json'} and 'check' in argv
        case 'nova-sched-sim':
            if argv[:1] == [sim.REPLAY]:
                return exit_status(sim_replay.parser(), argv[1:]) == 0
            if argv[:1] == [sim.STORM]:
                return exit_status(sim_storm.parser(), argv[1:]) == 0
            return exit_status(sim.parser(), argv) == 0
        case 'python' | 'python3':
            return is_python(argv)
        case 'curl':
            return is_call(argv)
        case 'systemctl':
            return are_units(word for word in argv if word.startswith('nova-sched-'))
        case 'cp':
            return any((ROOT / 'etc').rglob(Path(argv[0]).name))
    if name in DAEMONS:
        return {word for word in argv if word.startswith('-')} <= DAEMON_OPTIONS
    return name in FOREIGN


@pytest.mark.parametrize('block', of_language('sh', 'console'))
def test_each_command_is_valid(block, tmp_path):
    if block.text.startswith('#!'):
        script = tmp_path / 'script'
        script.write_text(block.text)
        subprocess.run(['sh', '-n', script], check=True)
        return
    assert block.commands
    for line in block.commands:
        for program, *argv in manual.programs(line):
            assert is_valid(program, argv), line


def test_each_command_in_a_sentence_exists():
    """``nova-sched-manage NOUN VERB``; with options it has to be complete."""
    for path in sorted(MANUAL.rglob('*.rst')):
        for found in re.findall(r'``nova-sched-manage\s+([^`]+)``', path.read_text('utf-8')):
            noun, *verb = (words := found.split())[:2]
            verbs = {name for name, *_ in commands.verbs_of(noun)}
            assert set(verb) <= verbs, (path.name, found)
            if any(word.startswith('--') for word in words):
                assert exit_status(commands.parser(), words) == 0, (path.name, found)


@pytest.mark.parametrize('block', of_language('console'))
def test_the_tables_of_an_example_have_the_columns_of_the_command(block, printed):
    above, line = None, None
    for below in block.text.splitlines():
        if line is not None and re.match(r'\+[-+]+$', line) and not (above or '').startswith('|'):
            names = {cell.strip() for cell in below.strip('|').split('|')}
            assert {name for name in names if not name.startswith('compute-')} <= printed
        above, line = line, below


@pytest.fixture(scope='module')
def printed():
    """All texts in the code of the commands."""
    return {
        node.value
        for path in (*MANAGE.glob('*.py'), *EXTENSIONS.glob('*/*verbs.py'))
        for node in ast.walk(ast.parse(path.read_text('utf-8')))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


# Other languages.


@pytest.mark.parametrize('block', of_language('json'))
def test_json(block):
    assert json.loads(block.text)


@pytest.mark.parametrize('block', of_language('yaml'))
def test_yaml(block):
    assert yaml.safe_load(block.text)


def test_each_block_names_a_language_that_is_checked():
    """SQL is that of a database; a text is neither code nor a command. Python is run."""
    found = {block.language for block in manual.blocks()}
    assert found <= {'ini', 'sh', 'console', 'json', 'yaml', 'python', 'sql', 'text'}


def test_each_included_file_is_run_by_a_test():
    for path in sorted(MANUAL.glob('*.rst')):
        for name in re.findall(
            r'(?:literalinclude:: |:download:`[^<]*<)([^>\n]+)', path.read_text()
        ):
            (test,) = (test for start, test in INCLUDED.items() if name.startswith(start))
            assert (TESTS / test).exists()
