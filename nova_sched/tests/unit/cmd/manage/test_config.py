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
"""`config check`: each problem of a configuration."""

import contextlib
import http.server
import json
import re
import sqlite3
import threading
import time

import pytest
from oslo_config import cfg

from nova_sched import errors, extension
from nova_sched.cmd.manage import config
from nova_sched.conf import CONF
from nova_sched.extension import Extension
from nova_sched.tests.packages import install
from nova_sched.tests.rows import each
from nova_sched.tests.test_tree import ROOT

GOOD = """
[DEFAULT]
transport_url = rabbit://nova:secret@192.0.2.1:5672/
[claims]
store = memory
"""
KNOWN = {
    ('DEFAULT', 'count'): cfg.IntOpt('count', default=3, min=1),
    ('room', 'kind'): cfg.StrOpt('kind', choices=['red', 'blue']),
    ('room', 'many'): cfg.MultiOpt('many', item_type=cfg.types.Integer()),
    ('room', 'listed'): cfg.ListOpt('listed', item_type=cfg.types.Integer()),
}


@pytest.fixture
def read(tmp_path):
    """Read a configuration of these lines into CONF; return it and its files."""

    def parse(text):
        file = tmp_path / 'one.conf'
        file.write_text(text)
        CONF(['--config-file', str(file)], project='nova_sched', default_config_dirs=[])
        return CONF, config.config_files(CONF)

    yield parse
    CONF.reset()


def found(findings):
    return [f'{one.severity} {one.where}' for one in findings]


@each(
    'given, wrong',
    [
        ({('DEFAULT', 'count'): ['5']}, []),
        ({('DEFAULT', 'count'): ['0']}, ['error [DEFAULT] count']),
        ({('DEFAULT', 'count'): ['x', '5']}, []),  # the last one counts
        ({('DEFAULT', 'count'): ['5', 'x']}, ['error [DEFAULT] count']),
        ({('DEFAULT', 'count'): ['$kind']}, []),
        ({('room', 'kind'): ['green']}, ['error [room] kind']),
        ({('room', 'many'): ['1', 'x', 'y']}, ['error [room] many'] * 2),
        ({('room', 'listed'): ['1,x']}, ['error [room] listed']),
        ({('room', 'kin'): ['red']}, ['warning [room] kin']),
        ({('hall', 'a'): ['1'], ('hall', 'b'): ['1']}, ['warning [hall]']),
    ],
)
def test_values(given, wrong):
    assert found(config.values(given, KNOWN)) == wrong


@each(
    'group, name, advice',
    [
        ('DEFAULT', 'cuont', 'did you mean count?'),
        ('DEFAULT', 'elephant', config.IGNORE),
        ('rooms', 'many', 'did you mean room?'),
        ('hall', 'many', config.IGNORE),
    ],
)
def test_advice_for_an_unknown_name(group, name, advice):
    (finding,) = config.values({(group, name): ['1']}, KNOWN)
    assert finding.advice == advice


def test_options_of_the_libraries_are_known():
    assert {
        ('scheduler', 'max_attempts'),
        ('DEFAULT', 'transport_url'),  # oslo.messaging
        ('DEFAULT', 'debug'),  # oslo.log
        ('database', 'connection'),
        ('DEFAULT', 'graceful_shutdown_timeout'),  # oslo.service
        ('keystone_authtoken', 'auth_type'),
        ('keystone_authtoken', 'auth_url'),
        ('oslo_limit', 'endpoint_id'),
        ('oslo_limit', 'application_credential_id'),
        ('oslo_policy', 'policy_file'),
        ('healthcheck', 'disable_by_file_path'),
        ('oslo_messaging_rabbit', 'rabbit_quorum_queue'),
    } <= config.known_options().keys()


def test_options_of_a_package_with_rules_are_known(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    source = (
        'from oslo_config import cfg\n'
        'def list_opts():\n    return [(None, [cfg.IntOpt("steps")])]\n'
    )
    listed = {'oslo__config__opts': {'any': 'checked_rules:list_opts'}}
    install(
        tmp_path, 'checked_rules', source, nova_sched__weighers={'W': 'checked_rules:W'}, **listed
    )
    assert ('DEFAULT', 'steps') in config.known_options()


@each(
    'option, wrong',
    [
        ('scheduler.workers = 4', []),
        ('filter_scheduler.enabled_filters = ComputeFilter,Foo', ['error']),
        ('filter_scheduler.available_filters = no.such', ['error']),
        ('filter_scheduler.weight_classes = A,RAMWeigher,no.such', ['error'] * 2),
        ('DEFAULT.transport_url = rabit://h/', ['error']),
        ('DEFAULT.transport_url = rabbit://u:p@h:port/', ['error']),
        ('DEFAULT.transport_url =', ['error']),
        ('DEFAULT.transport_url = rabbit://', ['warning']),  # it is not set
        ('DEFAULT.transport_url = fake://', ['warning']),
        ('DEFAULT.service_down_time = 10', ['error']),  # hosts look down too soon
        ('queues.specials = pci:gpu,foo:bar', ['error']),
        ('queues.transport_url = rabit://h/', ['error']),
        ('queues.transport_url = rabbit://h/queues', []),  # a broker of the queues alone
        ('queues.driver = nobody', []),  # nobody asks it
        ('quota.limits = servers=1,class:VCPU=-1', []),
        ('quota.limits = servers=1,cores=4', ['warning']),
    ],
)
def test_rules_and_bus(read, option, wrong):
    where, _, value = option.partition(' ')
    group, _, name = where.partition('.')
    findings = config.everything(*read(f'{GOOD}[{group}]\n{name} {value}'))
    assert found(one for one in findings if one.where != '[claims] store') == [
        f'{severity} [{group}] {name}' for severity in wrong
    ]


@each(
    'lines, where',
    [
        ('[queues]\nenabled = true\ndriver = nobody', '[queues] driver'),
        ('[queues]\nenabled = true\ndriver = exec', '[queues] exec_command'),
        ('[agent]\nreport_interval = 60', '[DEFAULT] service_down_time'),
    ],
)
def test_options_that_do_not_fit_together(read, lines, where):
    findings = config.everything(*read(f'{GOOD}{lines}'))
    assert found(findings) == [f'error {where}', 'warning [claims] store']


@pytest.fixture
def newer(tmp_path):
    """The database newer.sqlite, of a later release."""
    with contextlib.closing(sqlite3.connect(tmp_path / 'newer.sqlite')) as newer:
        newer.execute('CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)')
        newer.execute("INSERT INTO alembic_version VALUES ('9999')")
        newer.commit()


@each(
    'connection, wrong',
    [
        ('sqlite:///{folder}/new.sqlite', []),  # the daemon will make the file
        ('sqlite:///{folder}/none/x.sqlite', ['there is no directory {folder}/none']),
        ('sqlite:///{folder}/one.conf', ['{folder}/one.conf is not a SQLite database']),
        ('sqlite:///{folder}/newer.sqlite', ['the schema 9999 is newer than this release']),
        ('sqlite://', ['in memory']),
        ('nonsense', ['Could not parse']),
        ('oracle://h/x', ['No module named']),
        ('mysql+pymysql://u:p@127.0.0.1:1/x', ['does not answer']),
    ],
)
def test_database(read, newer, tmp_path, connection, wrong):
    conf, paths = read(
        f'[database]\nconnection = {connection.format(folder=tmp_path)}\n[DEFAULT]\n'
    )
    findings = [
        one for one in config.everything(conf, paths) if one.where == '[database] connection'
    ]
    assert len(findings) == len(wrong)
    for finding, words in zip(findings, wrong, strict=True):
        assert words.format(folder=tmp_path) in finding.problem
        assert finding.advice


def test_everything_is_told_at_once(read):
    lines = """
[scheduler]
max_attempts = 0
[claims]
store = disk
[filter_scheduler]
enabled_filters = Foo
weight_classes = Bar
"""
    assert found(config.everything(*read(GOOD + lines))) == [
        'error [claims] store',
        'error [scheduler] max_attempts',
        'error [filter_scheduler] enabled_filters',
        'error [filter_scheduler] weight_classes',
    ]


def test_a_later_file_has_the_last_word(tmp_path):
    folder = tmp_path / 'conf.d'
    folder.mkdir()
    files = [tmp_path / 'main.conf', folder / 'a.conf', folder / 'b.conf']
    for count, file in enumerate(files):
        file.write_text(f'[Scheduler]\nmax-attempts = {count}\n')
    (folder / 'README').write_text('no configuration')
    try:
        CONF(['--config-file', str(files[0]), '--config-dir', str(folder)])
        assert config.config_files(CONF) == list(map(str, files))
        assert config.words(config.config_files(CONF)) == {
            ('scheduler', 'max_attempts'): ['0', '1', '2']
        }
    finally:
        CONF.reset()


def test_the_configuration_of_the_compose_file_passes(manage, tmp_path):
    """With a database that is there: SQLite in place of that service."""
    text = (ROOT / 'packaging' / 'container' / 'nova_sched.conf').read_text()
    text, replaced = re.subn(
        '^connection = postgresql.*@postgresql/.*$',
        f'connection = sqlite:///{tmp_path}/db.sqlite',
        text,
        flags=re.MULTILINE,
    )
    assert replaced == 1
    assert manage('db upgrade', config=text).status == 0
    checked = manage('config check', config=text)
    assert checked.out.endswith('0 errors, 0 warnings.\n')
    assert checked.status == 0


# `config check --connect`, on doubles of Keystone and of the clocks. The servers are in
# integration.test_mistakes.


ACCOUNT = """
auth_type = v3password
username = nova
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
"""


class Keystone(http.server.BaseHTTPRequestHandler):
    """Answers each request for a token with the status of its server."""

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        body = json.dumps({'token': {'methods': [], 'expires_at': '2100-01-01T00:00:00Z'}})
        self.send_response(self.server.status)
        self.send_header('X-Subject-Token', 'a token')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def keystone():
    made = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Keystone)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def conf_of(tmp_path):
    def parse(text):
        file = tmp_path / 'one.conf'
        base = f'[DEFAULT]\ntransport_url = fake://\n[database]\nconnection = sqlite:///{tmp_path}/x.sqlite\n'
        file.write_text(base + text)
        CONF(['--config-file', str(file)], project='nova_sched', default_config_dirs=[])
        return CONF

    yield parse
    CONF.reset()


def test_without_other_services_only_the_database_is_tried(conf_of, tmp_path):
    assert config.connections(conf_of('')) == ([], [])
    assert not (tmp_path / 'x.sqlite').exists()
    (tmp_path / 'x.sqlite').touch()
    assert config.connections(conf_of('')) == ([], ['database'])


@pytest.mark.parametrize(
    'status, problem',
    [
        (201, None),
        (401, 'Keystone refuses the account'),
        (404, 'Keystone refuses the account'),
        (503, 'Keystone does not answer'),
    ],
)
@pytest.mark.parametrize(
    'group, name, more',
    [
        ('keystone_authtoken', 'Keystone', ''),
        ('oslo_limit', 'unified limits', '[quota]\ndriver = keystone\n'),
    ],
)
def test_keystone(conf_of, keystone, status, problem, group, name, more):
    keystone.status = status
    url = f'auth_url = http://127.0.0.1:{keystone.server_port}/v3\n'
    found, reached = config.connections(conf_of(f'{more}[{group}]{ACCOUNT}{url}'))
    assert (name in reached) == (problem is None)
    assert [one.where for one in found] == ([f'[{group}]'] if problem else [])
    assert all(one.problem.startswith(problem) for one in found)
    assert 'secret' not in str(found)


@each(
    'error, is_told',
    [
        ('SSL error: certificate verify failed', True),
        ('could not open certificate file "x": denied', True),
        ('Connection refused', False),
    ],
)
def test_the_advice_for_certificates(error, is_told):
    refused = errors.StoreUnavailable(error)
    assert ('certificate authority' in (config.certificate_advice(refused) or '')) == is_told


@pytest.mark.parametrize('ahead_s, words', [(3600, '3600 s ahead of'), (-3600, '3600 s behind')])
def test_another_clock(conf_of, tmp_path, monkeypatch, ahead_s, words):
    (tmp_path / 'x.sqlite').touch()
    monkeypatch.setattr(config.clock, 'read', lambda _: time.time() + ahead_s)
    findings, reached = config.connections(conf_of(''))
    assert [finding.severity for finding in findings] == [config.WARNING]
    assert words in findings[0].problem
    assert reached == []


@each('section', ['DEFAULT', 'queues'])
def test_a_broker_that_does_not_answer(conf_of, section):
    line = f'[{section}]\ntransport_url = rabbit://a:b@127.0.0.1:1/'
    findings, _ = config.connections(conf_of(line))
    assert [(finding.where, finding.problem.partition(':')[0]) for finding in findings] == [
        (f'[{section}] transport_url', 'The broker does not answer')
    ]


def test_services_are_tried_at_the_same_time_and_listed_in_order(conf_of, monkeypatch):
    meeting = threading.Barrier(len(config.TRIALS))

    def meet(_):
        meeting.wait(60)  # raises if one is tried after the other
        return []

    for name in config.TRIALS:
        monkeypatch.setitem(config.TRIALS, name, meet)
    assert config.connections(conf_of('')) == ([], list(config.TRIALS))


def test_a_check_and_a_trial_that_fail_are_findings(read, conf_of, monkeypatch):
    class Broken(Extension):
        def checks(self):
            return [broken]

        def trials(self):
            return {'broken': broken, 'database': broken}

    def broken(conf):
        raise RuntimeError('it broke')

    monkeypatch.setattr(extension, 'installed', lambda: {'broken': Broken()})
    findings = config.everything(*read(GOOD))
    found, reached = config.connections(conf_of(''))
    failed = [one for one in (*findings, *found) if 'it broke' in one.problem]
    assert [one.where.rpartition('.')[2] for one in failed] == ['broken', 'broken']
    assert 'broken' not in reached
