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
"""The container image, its compose file and the Debian packages name what is in the tree.

The stage lint checks the form of the first two; tools/build-deb and tools/check-deb build and
install the packages.
"""

import email
import os
import re

import pytest
import yaml

from nova_sched.cmd.manage import commands
from nova_sched.extensions.simulator import cmd as sim
from nova_sched.tests.test_tree import ROOT, entry_points

CONTAINER = ROOT / 'packaging' / 'container'
DEBIAN = ROOT / 'packaging' / 'debian'
COMMANDS = set(entry_points('console_scripts'))
DAEMONS = {path.stem for path in (ROOT / 'etc' / 'systemd').glob('*.service')}

CONTAINERFILE = (CONTAINER / 'Containerfile').read_text()
SERVICES = yaml.safe_load((CONTAINER / 'compose.yaml').read_text())['services']
OURS = {name: one for name, one in SERVICES.items() if one['image'] == 'localhost/nova-sched'}

CONTROL = (DEBIAN / 'control').read_text().split('\n\n')
PACKAGES = {one['Package']: one for one in map(email.message_from_string, CONTROL[1:])}


def lines(name):
    """The words of each line of a file in the folder debian."""
    return [line.split() for line in (DEBIAN / name).read_text().splitlines()]


def test_the_image_has_two_stages_and_its_user_is_not_root():
    *_, last = re.split(r'^FROM ', CONTAINERFILE, flags=re.MULTILINE)
    assert CONTAINERFILE.count('\nFROM ') == 2
    assert 'COPY --from=build' in last
    assert re.findall('^USER (.*)', last, re.MULTILINE) == ['8790']


def test_the_image_runs_commands_of_the_package():
    named = set(re.findall(r'nova-sched-\w+', CONTAINERFILE))
    assert named == {'nova-sched-manage', 'nova-sched-scheduler'}
    assert named <= COMMANDS


def test_the_services():
    assert SERVICES.keys() - OURS.keys() == {'rabbitmq', 'postgresql'}
    assert {name: one['command'][0] for name, one in OURS.items()} == {
        'upgrade': 'nova-sched-manage',
        'scheduler-1': 'nova-sched-scheduler',
        'scheduler-2': 'nova-sched-scheduler',
        'api': 'nova-sched-api',
        'fleet': 'nova-sched-sim',
    }


@pytest.mark.parametrize(
    'program, parser',
    [
        pytest.param('nova-sched-manage', commands.parser, id='manage'),
        pytest.param('nova-sched-sim', sim.parser, id='sim'),
    ],
)
def test_the_command_lines_are_valid(program, parser):
    run = [one['command'] for one in OURS.values()]
    run += [one.get('healthcheck', {}).get('test', ['CMD', ''])[1:] for one in OURS.values()]
    found = [arguments for command, *arguments in run if command == program]
    assert found
    for arguments in found:
        parser().parse_args(arguments)


def test_a_service_waits_for_services_that_are_there():
    waited = {needed for one in SERVICES.values() for needed in one.get('depends_on', ())}
    assert waited <= SERVICES.keys()


def test_each_daemon_has_a_package_of_its_own():
    assert PACKAGES.keys() == DAEMONS | {'nova-sched-common'}
    for name in DAEMONS:
        assert 'nova-sched-common (= ${source:Version})' in PACKAGES[name]['Depends']


@pytest.mark.parametrize('name', PACKAGES)
def test_a_package_installs_files_of_the_tree(name):
    sources = [source for source, _target in lines(f'{name}.install')]
    assert [source for source in sources if not (ROOT / source).is_file()] == []
    if name in DAEMONS:
        assert sources == [f'etc/systemd/{name}.service']


def test_each_command_is_in_one_package_with_its_manual_page():
    linked, pages = [], []
    for name in PACKAGES:
        found = [source.rpartition('/')[2] for source, _target in lines(f'{name}.links')]
        linked += found
        pages += [page.rpartition('/')[2] for (page,) in lines(f'{name}.manpages')]
        assert name == 'nova-sched-common' or found == [name]
    assert sorted(linked) == sorted(COMMANDS)
    manual = (ROOT / 'doc' / 'source' / 'conf.py').read_text()
    sections = dict(re.findall(r"\('(nova-sched-\w+)', '.*', (\d)\)", manual))
    assert sorted(pages) == sorted(f'{name}.{section}' for name, section in sections.items())


def test_the_units_run_what_the_packages_install():
    prefix = re.search('^prefix = (.*)', (DEBIAN / 'rules').read_text(), re.MULTILINE)[1]
    for name in DAEMONS:
        unit = (ROOT / 'etc' / 'systemd' / f'{name}.service').read_text()
        assert f'ExecStart={prefix}/bin/{name} --config-file /etc/nova_sched/' in unit
        assert lines(f'{name}.links') == [[f'{prefix[1:]}/bin/{name}', f'usr/bin/{name}']]


def test_programs_of_the_packaging_can_be_run():
    programs = [DEBIAN / 'rules', ROOT / 'tools' / 'build-deb', ROOT / 'tools' / 'check-deb']
    assert [path.name for path in programs if not os.access(path, os.X_OK)] == []
