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

"""The `openstack` client with our plug-in, as a process, against the REST API over HTTP."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from nova_sched.cmd import api
from nova_sched.rpc import client
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fixtures import warm
from nova_sched.tests.functional.harness import TIMEOUT_S
from nova_sched.tests.functional.test_api import managed, template
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.callers import configuration, rest

OPENSTACK = 'openstackclient.shell:main'
IMPORTS = (
    'openstackclient.shell',
    'openstack.connection',
    'nova_sched.extensions.openstackclient.groups',
    'nova_sched.extensions.openstackclient.queues',
)
NO_CLOUD = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}


class Cli:
    """Runs `openstack` as a user of a cloud in which the API is at this port."""

    def __init__(self, folder, port):
        self._folder, self._port = folder, port

    def run(self, *words, who='ann:red', **environment):
        account = ['--os-auth-type', 'admin_token', '--os-token', who]
        where = ['--os-endpoint', f'http://127.0.0.1:{self._port}']
        return self.start(*account, *where, *words, **environment)

    def start(self, *words, **environment):
        """Exit status, output, errors."""
        env = {**NO_CLOUD, **environment}
        # It looks for clouds.yaml in the folder that it was imported in.
        how = {'imports': IMPORTS, 'is_warm': 'OS_CLOUD' not in environment}
        done = warm.run(OPENSTACK, words, cwd=self._folder, env=env, **how)
        assert 'Traceback' not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def json(self, *words, **more):
        """The output of a command that succeeds."""
        status, out, err = self.run(*words, '-f', 'json', **more)
        assert status == 0, err
        return json.loads(out)

    def file(self, name, contents):
        (self._folder / name).write_text(json.dumps(contents))
        return name


@pytest.fixture(scope='module')
def cli(started, tmp_path_factory):
    conf = configuration(port=0, shutdown_timeout=5)
    groups = client.GroupsClient(started.bus, timeout_s=TIMEOUT_S)
    made = rest(conf, groups, client.QueuesClient(started.bus, timeout_s=TIMEOUT_S))
    served = api.server(conf, made)
    thread = threading.Thread(target=served.serve, daemon=True)
    thread.start()
    try:
        with managed(started.bus, tmp_path_factory.mktemp('queues')):
            yield Cli(tmp_path_factory.mktemp('cloud'), served.bind_addr[1])
    finally:
        served.stop()
        thread.join(TIMEOUT_S)


@pytest.fixture
def hosts(daemon):
    """Three hosts with room for four servers each."""
    daemon.add('a', 'b', 'c', instances=[])


def test_the_life_of_a_group(cli, hosts):
    group = 'placement', 'group'
    two, three = cli.file('two.json', template(2)), cli.file('three.json', template(3))
    assert cli.json(*group, 'validate', two)['contradiction'] is None
    tried = cli.json(*group, 'create', two, '--name', 'shop', '--dry-run')
    assert (tried['dry_run'], cli.json(*group, 'list')) == (True, [])
    made = cli.json(*group, 'create', two, '--name', 'shop', '--ttl', '9000')
    uuid = made['uuid']
    assert (made['name'], made['status'], len(made['members'])) == ('shop', 'planned', 2)
    (listed,) = cli.json(*group, 'list', '--name', 'shop', '--status', 'planned')
    assert (listed['uuid'], listed['generation']) == (uuid, 1)
    assert cli.json(*group, 'list', '--all-projects', who='admin:ops')[0]['uuid'] == uuid
    plan = cli.json(*group, 'plan', uuid, who='admin:red')
    assert [one['path'] for one in plan] == [one['path'] for one in made['members']]
    assert {one['domains']['host'] for one in plan} <= {'a', 'b', 'c'}
    status, _, err = cli.run(*group, 'set', uuid, three, '--generation', '7')
    assert (status, len(err.splitlines())) == (1, 1), err
    grown = cli.json(*group, 'set', uuid, three)
    assert (grown['generation'], len(grown['members'])) == (2, 3)
    assert cli.json(*group, 'plan', uuid, '--replan')
    assert cli.json(*group, 'renew', uuid, '--ttl', '9000')['uuid'] == uuid
    assert cli.run(*group, 'delete', uuid) == (0, '', '')
    assert cli.run(*group, 'show', uuid)[0] == 1


def test_the_life_of_a_flavor(cli):
    words = 'create', 'tiny/1', '--vcpus', '2', '--property', 'a=b'
    assert cli.run('scheduler', 'flavor', *words)[0] == 1  # it needs an operator
    made = cli.json('scheduler', 'flavor', *words, who='admin:red')
    assert (made['vcpus'], made['extra_specs']) == (2, {'a': 'b'})
    assert cli.json('scheduler', 'flavor', 'show', 'tiny/1') == made
    assert cli.json('scheduler', 'flavor', 'list') == [made]
    queues = cli.json('scheduler', 'queue', 'list', who='admin:red')
    assert 'tiny/1' in [one['name'] for one in queues]
    assert cli.json('scheduler', 'queue', 'list', '--waiting', who='admin:red') == []
    assert cli.run('scheduler', 'flavor', 'delete', 'tiny/1', who='admin:red')[0] == 0


def test_pages_are_read_to_the_end(cli, hosts):
    one = cli.file('one.json', template(1))
    for number in range(3):
        cli.json('placement', 'group', 'create', one, '--name', f'g{number}')
    rows = [
        cli.json('placement', 'group', 'list', *more)
        for more in ([], ['--limit', '2'], ['--limit', '2000'])
    ]
    assert [len(listed) for listed in rows] == [3, 2, 3]
    uuids = [listed['uuid'] for listed in rows[0]]
    assert len(cli.json('placement', 'group', 'list', '--marker', uuids[0])) == 2
    assert cli.run('placement', 'group', 'delete', *uuids) == (0, '', '')


def test_a_client_without_authentication(cli):
    words = ['--os-auth-type', 'none', '--os-endpoint', f'http://127.0.0.1:{cli._port}']
    assert cli.start(*words, 'placement', 'group', 'list', '-f', 'json')[:2] == (0, '[]\n')


def test_a_cloud_of_clouds_yaml(cli):
    auth = {'endpoint': f'http://127.0.0.1:{cli._port}', 'token': 'ann:red'}
    clouds = {'clouds': {'here': {'auth_type': 'admin_token', 'auth': auth}}}
    cli.file('clouds.yaml', clouds)
    listed = cli.start('placement', 'group', 'list', '-f', 'json', OS_CLOUD='here')
    assert listed[:2] == (0, '[]\n'), listed


@each(
    'line, words',
    [
        (f'show {uuid_of("nowhere")}', 'no placement group'),
        ('list --limit 0', 'less than the minimum'),
        ('list --all-projects', 'The scheduler refuses'),  # forbidden
        ('create nowhere.yaml', 'nowhere.yaml cannot be read'),
        ('create many.json', 'The scheduler refuses'),  # no room
        ('create list.json', 'The scheduler refuses'),  # no template
        ('create many.json --flavors list.json', 'holds no mapping'),
        ('create many.json --parameter x', '<key=value>'),
        (f'plan {uuid_of("a")} --dry-run', '--dry-run is for'),
    ],
)
def test_an_error_is_one_sentence(cli, hosts, line, words):
    cli.file('many.json', template(9))
    cli.file('list.json', [1])
    status, out, err = cli.run('placement', 'group', *line.split())
    assert (status != 0, out, words in err) == (True, '', True), err
    assert len(err.splitlines()) == 1 or 'usage:' in err


def test_an_api_that_is_away(tmp_path):
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    status, out, err = Cli(tmp_path, port).run('placement', 'group', 'list')
    assert (status, out, len(err.splitlines())) == (1, '', 1)
    assert 'The scheduler cannot be asked' in err


def test_the_plug_in_imports_nothing_else_of_this_package():
    code = (
        'import sys\n'
        'from nova_sched.extensions.openstackclient import groups, plugin, queues\n'
        'print(*sorted(name for name in sys.modules if name.startswith("nova_sched.")))'
    )
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True, timeout=100
    )
    rooms = {tuple(name.split('.')[1:3]) for name in done.stdout.split()}
    assert {room[-1] if room[0] == 'extensions' else room[0] for room in rooms} <= {
        'extensions',
        'openstackclient',
        'heat',
        'words',
        'errors',
    }


@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # of the client's library
def test_texts_from_outside_reach_no_terminal():
    from nova_sched.extensions.openstackclient import plugin as plug_in  # late, because of that

    odd, shown = 'r1\x1b[2J\u202e\nx', r'r1\x1b[2J\u202e\nx'
    for column, value in (
        (plug_in.DICT, {'rack': odd}),
        (plug_in.DICTS, [{'rack': odd}]),
        (plug_in.LIST, [odd]),
    ):
        assert shown in column(value).human_readable()
        assert column(value).machine_readable() == value
