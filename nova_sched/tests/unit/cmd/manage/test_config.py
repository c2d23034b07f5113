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
    """Reads a configuration of these lines into CONF; returns it and its files."""

    def parse(text):
        file = tmp_path / 'one.conf'
        file.write_text(text)
        CONF(['--config-file', str(file)], project='nova_sched', default_config_dirs=[])
        return CONF, config.config_files(CONF)

    yield parse
    CONF.reset()


def found(findings):
    return [f'{one.severity} {one.where}' for one in findings]


@pytest.mark.parametrize(
    'given, wrong',
    [
        pytest.param({('DEFAULT', 'count'): ['5']}, [], id='good'),
        pytest.param({('DEFAULT', 'count'): ['0']}, ['error [DEFAULT] count'], id='too small'),
        pytest.param({('DEFAULT', 'count'): ['x', '5']}, [], id='the last one counts'),
        pytest.param(
            {('DEFAULT', 'count'): ['5', 'x']}, ['error [DEFAULT] count'], id='the last one is bad'
        ),
        pytest.param({('DEFAULT', 'count'): ['$kind']}, [], id='the value of another option'),
        pytest.param(
            {('room', 'kind'): ['green']}, ['error [room] kind'], id='none of the choices'
        ),
        pytest.param(
            {('room', 'many'): ['1', 'x', 'y']}, ['error [room] many'] * 2, id='each of many'
        ),
        pytest.param({('room', 'listed'): ['1,x']}, ['error [room] listed'], id='one of a list'),
        pytest.param({('room', 'kin'): ['red']}, ['warning [room] kin'], id='misspelt'),
        pytest.param(
            {('hall', 'a'): ['1'], ('hall', 'b'): ['1']}, ['warning [hall]'], id='unknown section'
        ),
    ],
)  # fmt: skip
def test_values(given, wrong):
    assert found(config.values(given, KNOWN)) == wrong


@each(
    'group, name, advice',
    [
        pytest.param('DEFAULT', 'cuont', 'did you mean count?', id='near'),
        pytest.param('DEFAULT', 'elephant', config.IGNORE, id='far'),
        pytest.param('rooms', 'many', 'did you mean room?', id='a section that is near'),
        pytest.param('hall', 'many', config.IGNORE, id='a section that is far'),
    ],
)
def test_advice_for_an_unknown_name(group, name, advice):
    (finding,) = config.values({(group, name): ['1']}, KNOWN)
    assert finding.advice == advice


@each(
    'group, name',
    [
        pytest.param('scheduler', 'max_attempts', id='ours'),
        pytest.param('DEFAULT', 'transport_url', id='the bus'),
        pytest.param('DEFAULT', 'debug', id='the log'),
        pytest.param('database', 'connection', id='the database'),
        pytest.param('DEFAULT', 'graceful_shutdown_timeout', id='the launcher'),
        pytest.param('keystone_authtoken', 'auth_type', id='Keystone'),
        pytest.param('keystone_authtoken', 'auth_url', id='how Keystone is asked'),
        pytest.param('oslo_limit', 'endpoint_id', id='limits'),
        pytest.param('oslo_limit', 'application_credential_id', id='who asks for limits'),
        pytest.param('oslo_policy', 'policy_file', id='policies'),
        pytest.param('healthcheck', 'disable_by_file_path', id='the check of health'),
        pytest.param('oslo_messaging_rabbit', 'rabbit_quorum_queue', id='the driver of the bus'),
    ],
)
def test_options_of_the_libraries_are_known(group, name):
    assert (group, name) in config.known_options()


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


@pytest.mark.parametrize(
    'option, wrong',
    [
        pytest.param('scheduler.workers = 4', [], id='nothing wrong'),
        pytest.param(
            'filter_scheduler.enabled_filters = ComputeFilter,Foo', ['error'], id='filter'
        ),
        pytest.param('filter_scheduler.available_filters = no.such', ['error'], id='plug-in'),
        pytest.param(
            'filter_scheduler.weight_classes = A,RAMWeigher,no.such', ['error'] * 2, id='weighers'
        ),
        pytest.param('DEFAULT.transport_url = rabit://h/', ['error'], id='no such driver'),
        pytest.param('DEFAULT.transport_url = rabbit://u:p@h:port/', ['error'], id='port'),
        pytest.param('DEFAULT.transport_url =', ['error'], id='empty address'),
        pytest.param('DEFAULT.transport_url = rabbit://', ['warning'], id='address not set'),
        pytest.param('DEFAULT.transport_url = fake://', ['warning'], id='no bus at all'),
        pytest.param('DEFAULT.service_down_time = 10', ['error'], id='hosts look down too soon'),
        pytest.param('queues.specials = pci:gpu,foo:bar', ['error'], id='special'),
        pytest.param('queues.transport_url = rabit://h/', ['error'], id='broker'),
        pytest.param(
            'queues.transport_url = rabbit://h/queues', [], id='a broker of the queues alone'
        ),
        pytest.param('queues.driver = nobody', [], id='a driver that nobody asks'),
        pytest.param('quota.limits = servers=1,class:VCPU=-1', [], id='limits'),
        pytest.param('quota.limits = servers=1,cores=4', ['warning'], id='a limit of nothing'),
    ],
)  # fmt: skip
def test_rules_and_bus(read, option, wrong):
    where, _, value = option.partition(' ')
    group, _, name = where.partition('.')
    findings = config.everything(*read(f'{GOOD}[{group}]\n{name} {value}'))
    assert found(one for one in findings if one.where != '[claims] store') == [
        f'{severity} [{group}] {name}' for severity in wrong
    ]


@pytest.mark.parametrize(
    'lines, where',
    [
        pytest.param('driver = nobody', '[queues] driver', id='no such driver'),
        pytest.param('driver = exec', '[queues] exec_command', id='a driver that lacks something'),
    ],
)
def test_who_takes_jobs_has_a_driver(read, lines, where):
    findings = config.everything(*read(f'{GOOD}[queues]\nenabled = true\n{lines}'))
    assert found(findings) == [f'error {where}', 'warning [claims] store']


def test_an_agent_must_report_more_often_than_it_may_be_silent(read):
    findings = config.everything(*read(f'{GOOD}[agent]\nreport_interval = 60'))
    assert found(findings) == ['error [DEFAULT] service_down_time', 'warning [claims] store']


@pytest.mark.parametrize(
    'connection, wrong',
    [
        pytest.param('sqlite:///{folder}/new.sqlite', [], id='the daemon will make the file'),
        pytest.param(
            'sqlite:///{folder}/none/x.sqlite',
            ['there is no directory {folder}/none'],
            id='no folder',
        ),
        pytest.param(
            'sqlite:///{folder}/one.conf',
            ['{folder}/one.conf is not a SQLite database'],
            id='other file',
        ),
        pytest.param(
            'sqlite:///{folder}/newer.sqlite',
            ['the schema 9999 is newer than this release'],
            id='a newer release',
        ),
        pytest.param('sqlite://', ['in memory'], id='in memory'),
        pytest.param('nonsense', ['Could not parse'], id='no URL'),
        pytest.param('oracle://h/x', ['No module named'], id='no driver'),
        pytest.param('mysql+pymysql://u:p@127.0.0.1:1/x', ['does not answer'], id='no server'),
    ],
)
def test_database(read, tmp_path, connection, wrong):
    with contextlib.closing(sqlite3.connect(tmp_path / 'newer.sqlite')) as newer:
        newer.execute('CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)')
        newer.execute("INSERT INTO alembic_version VALUES ('9999')")
        newer.commit()
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
def file(tmp_path):
    """The empty file of the database."""
    made = tmp_path / 'x.sqlite'
    made.touch()
    return made


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


def test_a_check_makes_no_file(conf_of, tmp_path):
    assert config.connections(conf_of('')) == ([], [])
    assert not (tmp_path / 'x.sqlite').exists()


def test_without_other_services_only_the_database_is_tried(conf_of, file):
    assert config.connections(conf_of('')) == ([], ['database'])


@pytest.mark.parametrize(
    'status, problem',
    [
        pytest.param(201, None, id='accepted'),
        pytest.param(401, 'Keystone refuses the account', id='a wrong password'),
        pytest.param(404, 'Keystone refuses the account', id='a wrong address'),
        pytest.param(503, 'Keystone does not answer', id='away'),
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
        pytest.param('SSL error: certificate verify failed', True, id='another authority'),
        pytest.param('could not open certificate file "x": denied', True, id='an unreadable file'),
        pytest.param('Connection refused', False, id='another error'),
    ],
)
def test_the_advice_for_certificates(error, is_told):
    refused = errors.StoreUnavailable(error)
    assert ('certificate authority' in (config.certificate_advice(refused) or '')) == is_told


@pytest.mark.parametrize('ahead_s, words', [(3600, '3600 s ahead of'), (-3600, '3600 s behind')])
def test_another_clock(conf_of, file, monkeypatch, ahead_s, words):
    monkeypatch.setattr(config.clock, 'read', lambda _: time.time() + ahead_s)
    found, reached = config.connections(conf_of(''))
    assert [one.severity for one in found] == [config.WARNING]
    assert words in found[0].problem
    assert reached == []


def test_a_bus_that_does_not_answer(conf_of):
    found, _ = config.connections(conf_of('[DEFAULT]\ntransport_url = rabbit://a:b@127.0.0.1:1/'))
    assert [one.problem.partition(':')[0] for one in found] == ['The broker does not answer']


def test_a_broker_of_queues_that_does_not_answer(conf_of):
    found, _ = config.connections(conf_of('[queues]\ntransport_url = rabbit://a:b@127.0.0.1:1/'))
    assert [one.where for one in found] == ['[queues] transport_url']


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
