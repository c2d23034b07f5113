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
"""Mistaken configurations: each ends its daemon at the start, with one sentence and one status."""

import os
import socket

import pytest

from nova_sched.tests.fixtures import warm


class Site:
    """The servers of a sound configuration, and a directory for files."""

    def __init__(self, bus, postgresql, home):
        self.bus, self.home = bus, home
        self.postgresql = postgresql.fresh()
        self.sqlite = f'sqlite:///{home}/claims.sqlite'

    def words(self, text):
        """The text with the names of this site filled in."""
        names = {
            'BUS': self.bus,
            'WRONG_PASSWORD': self.bus.replace('@', 'x@'),
            'WRONG_VHOST': f'{self.bus.rpartition("/")[0]}/nowhere',
            'EMPTY': self.postgresql,
            'NO_USER': f'postgresql+psycopg2://nobody:x@{self.postgresql.rpartition("@")[2]}',
            'NO_DATABASE': f'{self.postgresql.rpartition("/")[0]}/nowhere',
            'HOME': str(self.home),
        }
        for name, value in names.items():
            text = text.replace(f'<{name}>', value)
        return text

    def run(self, program, lines):
        """Exit status and output of a daemon with these lines of configuration."""
        file = self.home / 'nova_sched.conf'
        file.write_text(
            self.words(
                '[DEFAULT]\nhost = one\ntransport_url = <BUS>\n'
                f'[database]\nconnection = {self.sqlite}\n'
                '[agent]\nstate_path = <HOME>/state\n[groups]\nsolver = false\n'
                f'{lines}\n'
            )
        )

        done = warm.run(warm.program(program), ['--config-file', file])
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope='module')
def bus(rabbitmq):
    return rabbitmq.fresh()


@pytest.fixture
def site(bus, postgresql, tmp_path):
    (tmp_path / 'directory').mkdir()
    (tmp_path / 'broken.yaml').write_text('x: [')
    return Site(bus, postgresql, tmp_path)


NOAUTH = '[api]\nauth_strategy = noauth\nport = 0\n'
EXEC = '[queues]\nenabled = true\ndriver = exec\n'

MISTAKES = [
    ('scheduler', '[DEFAULT]\ntransport_url = <WRONG_PASSWORD>', 'refuses', 'bus password'),
    (
        'scheduler',
        '[DEFAULT]\ntransport_url = <WRONG_PASSWORD>\n[scheduler]\nrpc_server = direct',
        'refuses',
        'bus password, direct server',
    ),
    ('scheduler', '[DEFAULT]\ntransport_url = <WRONG_VHOST>', 'vhost nowhere', 'virtual host'),
    ('agent', '[DEFAULT]\ntransport_url = <WRONG_PASSWORD>', 'refuses', 'agent, bus password'),
    ('queues', '[DEFAULT]\ntransport_url = <WRONG_PASSWORD>', 'refuses', 'queues, bus password'),
    (
        'queues',
        '[queues]\ntransport_url = <WRONG_PASSWORD>',
        '[queues] transport_url',
        'broker of queues',
    ),
    (
        'api',
        f'[DEFAULT]\ntransport_url = <WRONG_PASSWORD>\n{NOAUTH}',
        'refuses',
        'api, bus password',
    ),
    ('scheduler', '[DEFAULT]\ntransport_url = strange://', 'transport_url', 'kind of bus'),
    (
        'scheduler',
        '[topology]\nlevels = zone,rack,host',
        'does not begin with host',
        'order of levels',
    ),
    (
        'scheduler',
        '[filter_scheduler]\nenabled_filters = ComputFilter',
        'did you mean ComputeFilter?',
        'filter',
    ),
    ('scheduler', '[filter_scheduler]\nweight_classes = x.Y', 'x.Y cannot be loaded', 'weigher'),
    ('scheduler', '[claims]\npending_ttl = soon', '[claims] pending_ttl', 'no number'),
    ('scheduler', '[DEFAULT]\nlog_file = /no/such/x.log', 'options of the log', 'log file'),
    (
        'scheduler',
        '[database]\nconnection = sqlite:////no/such/x.sqlite',
        'there is no directory /no/such',
        'directory of the database',
    ),
    ('scheduler', '[database]\nconnection = <EMPTY>', 'db upgrade', 'empty database'),
    ('scheduler', '[database]\nconnection = <NO_USER>', 'nobody', 'user of the database'),
    ('scheduler', '[database]\nconnection = <NO_DATABASE>', 'nowhere', 'name of the database'),
    (
        'scheduler',
        '[database]\nconnection = mysql+nodriver://a:b@127.0.0.1/x',
        'nodriver',
        'driver of the database',
    ),
    (
        'api',
        f'{NOAUTH}[oslo_policy]\npolicy_file = <HOME>/directory',
        'cannot be read',
        'policy file that cannot be read',
    ),
    (
        'api',
        f'{NOAUTH}[oslo_policy]\npolicy_file = /no/policy.yaml',
        'there is no file /no/policy.yaml',
        'missing policy file',
    ),
    ('api', f'{NOAUTH}[oslo_policy]\npolicy_file = <HOME>/broken.yaml', 'policy_file', 'no YAML'),
    ('api', f'{NOAUTH}host = 0.0.0.0', '[api] host: 0.0.0.0 can be reached', 'noauth for all'),
    ('api', '[api]\nport = 0', '[keystone_authtoken] auth_type', 'no Keystone'),
    ('agent', EXEC, '[queues] exec_command', 'no command'),
    ('agent', f'{EXEC}exec_command = /no/such', 'there is no program /no/such', 'no program'),
    (
        'agent',
        f'{EXEC}exec_command = /bin/true\nexec_timeout = 600\n[claims]\npending_ttl = 100',
        '[queues] exec_timeout: a build may take 600 s',
        'claims that end before builds',
    ),
]


@pytest.mark.parametrize(
    'program, lines, sentence', [pytest.param(*row[:3], id=row[3]) for row in MISTAKES]
)
def test_a_mistake_ends_the_daemon_at_its_start(site, program, lines, sentence):
    status, said = site.run(program, lines)
    assert status == os.EX_CONFIG, said
    *_, last = said.splitlines()
    assert sentence in last
    assert 'Traceback' not in said
    assert 'exited with status' not in said


def closed_port():
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize(
    'lines, status, words',
    [
        pytest.param('', 0, 'Reached: bus, database', id='all is there'),
        pytest.param(
            '[DEFAULT]\ntransport_url = <WRONG_PASSWORD>',
            1,
            'The broker refuses the connection',
            id='a wrong password of the bus',
        ),
        pytest.param(
            '[DEFAULT]\ntransport_url = rabbit://a:b@127.0.0.1:<CLOSED>/',
            1,
            'The broker does not answer',
            id='a bus that is away',
        ),
        pytest.param(
            '[database]\nconnection = <NO_USER>', 1, 'nobody', id='a wrong user of the database'
        ),
        pytest.param(
            '[database]\nconnection = postgresql+psycopg2://a:b@127.0.0.1:<CLOSED>/x',
            1,
            'The database does not answer',
            id='a database that is away',
        ),
        pytest.param(
            '[keystone_authtoken]\nauth_type = password\nauth_url = http://127.0.0.1:<CLOSED>/v3\n'
            'username = nova\npassword = x\nproject_name = service\nuser_domain_name = Default\n'
            'project_domain_name = Default',
            1,
            'Keystone does not answer',
            id='a Keystone that is away',
        ),
    ],
)
def test_config_check_connects(site, lines, status, words):
    file = site.home / 'nova_sched.conf'
    (site.home / 'claims.sqlite').touch()  # the check does not make it
    text = f'[DEFAULT]\ntransport_url = <BUS>\n[database]\nconnection = {site.sqlite}\n{lines}\n'
    file.write_text(site.words(text).replace('<CLOSED>', str(closed_port())))
    check = ['--config-file', file, 'config', 'check', '--connect']
    done = warm.run('nova_sched.cmd.manage:main', check)
    said = ' '.join((done.stdout + done.stderr).split())
    assert done.returncode == status, said
    assert words in said
