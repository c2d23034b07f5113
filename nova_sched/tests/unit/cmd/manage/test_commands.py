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
"""nova-sched-manage as operators run it: each verb on a database in a file; how a verb is
repeated, and shows that it works; and completion in shells."""

import json
import os
import shutil
import subprocess
import sys
import time
from argparse import Namespace

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.claims import Placement, ServiceFacts
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage import commands, output
from nova_sched.db import schema
from nova_sched.tests.builders import aggregate, claim, now, report, uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.test_layers import PACKAGE

ROOT = PACKAGE.parent


@pytest.fixture
def store(database):
    """The store of the configuration: two hosts in two zones, a confirmed and a pending claim."""
    made = SqlClaimStore(database)
    made.set_aggregate(1, aggregate(1, ['host-0'], availability_zone='north'))
    reports = [report('host-0', vcpus_ratio=4.0), report('host-1', memory_mb_reserved=512)]
    made.report(reports, now())
    for number, (name, one) in enumerate(zip(('first', 'second'), reports, strict=True)):
        # Claims of one moment are listed by UUID.
        fields = {'project_id': name, 'uuid': f'{number}{uuid_of(name)[1:]}'}
        made.commit([Placement((claim(uuid_of(name), one.node_uuid, created_s=now(), **fields),))])
    made.confirm([uuid_of('first')], [reports[0].node_uuid])
    return made


def cells(text):
    """The cells of each line of the tables in a text."""
    lines = [line.split('|')[1:-1] for line in text.splitlines() if line.startswith('|')]
    return [[cell.strip() for cell in line] for line in lines]


def service(database, host):
    """An operator's word on the host, as a scheduler reads it that starts now."""
    return {one.host: one for one in SqlClaimStore(database).changes({}).services}.get(host)


# The schema.


def test_an_empty_database_gets_the_schema_once(manage, tmp_path):
    url, head = f'sqlite:///{tmp_path}/db.sqlite', schema.HEAD
    upgraded = {'database': url, 'before': None, 'version': head}
    assert json.loads(manage('db upgrade --format json').out) == upgraded
    again = json.loads(manage('db upgrade --format json').out)
    assert again == {**upgraded, 'before': head}
    shown = json.loads(manage('db version --format json').out)
    assert shown == {'database': url, 'version': head, 'needed': head}
    assert manage('db upgrade').out == f'{url} has schema {head} already.\n'
    assert manage('db version').out == f'{url} has schema {head}; this release needs {head}.\n'
    (tmp_path / 'db.sqlite').unlink()
    assert manage('db upgrade').out == f'{url} went from schema empty to {head}.\n'


def test_only_upgrade_makes_a_database_or_changes_its_schema(manage, tmp_path):
    changing = 'host list', 'claim list', 'claim audit', 'claim show x', 'host disable x'
    for words in ('db version', *changing):
        status, out, err = manage(words)
        assert (status, out, len(err.splitlines())) == (1, '', 1), words
        assert f'there is no file {tmp_path}/db.sqlite' in err
    assert not (tmp_path / 'db.sqlite').exists()
    (tmp_path / 'db.sqlite').touch()
    for words in changing:
        status, out, err = manage(words)
        assert (status, out) == (1, ''), words
        assert 'the schema is empty' in err
        assert 'run nova-sched-manage db upgrade' in err


@each(
    'config, why',
    [
        ('[claims]\nstore = memory\n', '[claims] store'),
        ('[database]\nconnection = sqlite://\n', 'in memory is lost'),
        ('[database]\nconnection = nonsense\n', 'Could not parse'),
        ('[claims]\nstore = disk\n', 'Valid values are [sql, memory]'),
    ],
)
def test_a_configuration_without_a_database(manage, config, why):
    for words in ('host list', 'db upgrade'):
        status, out, err = manage(words, config=config)
        assert (status, out) == (1, '')
        assert why in err
        assert len(err.splitlines()) == 1


# Hosts.


def test_host_list(manage, store):
    rows = [row[:4] + row[5:] for row in cells(manage('host list').out)]
    assert rows == [
        ['Host', 'Node', 'Zone', 'State', 'vCPU', 'RAM (MiB)', 'Disk (GiB)', 'Claims'],
        ['host-0', 'host-0', 'north', 'up', '1 / 64 (16 x 4)', '512 / 65536 (65536 x 1)',
         '0 / 1000 (1000 x 1)', '1'],
        ['host-1', 'host-1', 'nova', 'up', '1 / 16 (16 x 1)', '512 / 65024 (65536 x 1)',
         '0 / 1000 (1000 x 1)', '1 (1)'],
    ]  # fmt: skip


@each(
    'more, hosts',
    [
        ('', ['host-0', 'host-1']),
        ('--zone north', ['host-0']),
        ('--host *-1', ['host-1']),
        ('--host host-1 --host host-0', ['host-0', 'host-1']),
        ('--zone nowhere', []),
    ],
)
def test_host_list_as_json(manage, store, more, hosts):
    status, out, err = manage('host list --format json', *more.split())
    assert (status, err) == (0, '')
    assert [row['host'] for row in json.loads(out)] == hosts


def test_host_show(manage, store):
    store.set_service(ServiceFacts('host-0', True, 'new disks', forced_down=True))
    out = manage('host show host-0').out
    lines = out.splitlines()
    assert lines[0].split() == ['Host', 'host-0']
    assert lines[1].startswith('State       forced down, last seen')
    assert lines[2] == 'Service     disabled, forced down (new disks)'
    assert 'Aggregates  aggregate 1 (id 1, availability_zone=north)' in lines
    assert any(line.startswith('| VCPU ') for line in lines)
    assert (uuid_of('first') in out, uuid_of('second') in out) == (True, False)
    shown = json.loads(manage('host show host-1 --format json').out)
    assert (shown['host'], shown['state'], shown['zones']) == ('host-1', 'up', ['nova'])
    assert [row['state'] for row in shown['claims']] == ['pending']


def test_hosts_are_disabled_and_enabled(manage, database, store):
    store.report([report('other')], now())
    store.changes({})
    assert store.changes({}).services is None
    assert manage('host disable host-[0-9] host-1', '--reason', 'new disks').out.splitlines() == [
        'Host host-0 is disabled: new disks.',
        'Host host-1 is disabled: new disks.',
    ]
    # A running scheduler sees it at its next poll.
    disabled = [ServiceFacts(f'host-{number}', True, 'new disks') for number in range(2)]
    assert sorted(store.changes({}).services, key=lambda facts: facts.host) == disabled
    assert json.loads(manage('host enable host-0 --format json').out) == [
        {'host': 'host-0', 'disabled': False, 'disabled_reason': None, 'forced_down': False}
    ]
    assert service(database, 'host-0') == ServiceFacts('host-0')
    assert service(database, 'host-1') == disabled[1]
    assert service(database, 'other') is None


@each(
    'facts, traits, words',
    [
        ({'forced_down': True}, [], 'is enabled, but forced down'),
        ({'disabled': True}, [], 'is enabled'),
        ({}, ['COMPUTE_STATUS_DISABLED'], 'is enabled here, but reports itself as disabled'),
    ],
)
def test_enable_says_what_is_left(manage, database, store, facts, traits, words):
    store.report([report('host-0', traits=frozenset(traits))], now())
    store.set_service(ServiceFacts('host-0', seen_s=7.0, **facts))
    assert manage('host enable host-0').out == f'Host host-0 {words}.\n'
    kept = service(database, 'host-0')
    assert (kept.forced_down, kept.seen_s) == (facts.get('forced_down', False), 7.0)


def test_an_unknown_host_is_named_and_nothing_changes(manage, database, store):
    for verb in ('show', 'disable host-0', 'enable', 'remove'):
        status, out, err = manage(f'host {verb} nobody')
        assert (status, out, 'Host nobody is not known' in err) == (1, '', True), verb
    assert service(database, 'host-0') is None
    assert 'Host hots-0 is not known; did you mean host-0?\n' in manage('host show hots-0').err
    assert 'Host x* is not known' in manage('host disable', 'x*').err


def test_only_a_host_that_left_is_removed(manage, database, store):
    status, out, err = manage('host remove host-0 --force')
    assert (status, out, 'host host-0 is up' in err) == (1, '', True)
    store.set_service(ServiceFacts('host-0', forced_down=True))
    store.set_service(ServiceFacts('host-1', disabled=True))
    status, out, err = manage('host remove host-0 host-1')
    assert (status, out) == (1, '')
    assert 'Host host-0 has claims (1); --force ends them, too' in err
    assert json.loads(manage('host remove host-0 --force --format json').out) == [
        {'host': 'host-0', 'nodes': [report('host-0').node_uuid], 'claims': 1}
    ]
    assert [row['host'] for row in json.loads(manage('host list --format json').out)] == ['host-1']
    assert service(database, 'host-0') is None
    assert store.claims(uuid_of('first')) == []
    assert manage('claim audit').status == 0
    out = manage('host remove host-1 --force').out
    assert out == 'Host host-1 is removed, with 1 node and 1 claim.\n'


# Claims.


@each(
    'more, consumers',
    [
        ([], ['first', 'second']),  # oldest first
        (['--host', 'host-1'], ['second']),
        (['--project', 'first'], ['first']),
        (['--state', 'pending'], ['second']),
        (['--consumer', uuid_of('first')], ['first']),
        (['--consumer', uuid_of('first'), '--state', 'pending'], []),
    ],
)
def test_claim_list(manage, store, more, consumers):
    listed = json.loads(manage('claim list --format json', *more).out)
    assert [row['consumer_uuid'] for row in listed] == [uuid_of(name) for name in consumers]


def test_claim_list_as_table(manage, store):
    (first,) = (row for row in cells(manage('claim list').out) if row[0] == uuid_of('first'))
    assert first[1:5] == ['host-0', CONFIRMED, '1 VCPU, 512 MEMORY_MB', 'first']
    assert first[6] == 'never'


# The configuration.


@each(
    'lines, status, closing',
    [('', 0, '0 errors, 1 warning.'), ('[scheduler]\nworkers = -1\n', 1, '1 error, 1 warning.')],
)
def test_config_check(manage, tmp_path, lines, status, closing):
    database = f'[database]\nconnection = sqlite:///{tmp_path}/x\n'
    config = f'[DEFAULT]\ntransport_url = fake://\n{database}{lines}'
    result = manage('config check', config=config)
    assert (result.status, result.err) == (status, '')
    assert result.out.splitlines()[0] == f'Read: {tmp_path}/nova_sched.conf'
    assert result.out.splitlines()[-1] == closing
    document = json.loads(manage('config check --format json', config=config).out)
    assert document['ok'] == (not status)
    assert document['findings'][-1]['where'] == '[DEFAULT] transport_url'


# The command line.


def keys(value):
    """Names of all keys in a JSON document, but for resource classes, which are in capitals."""
    if isinstance(value, list):
        return {name for one in value for name in keys(one)}
    if not isinstance(value, dict):
        return set()
    below = {name for one in value.values() for name in keys(one)}
    return below | {
        name for name in value if not name.isupper() and not name.startswith('availability_')
    }


@each(
    'words',
    ['db version', 'db upgrade', 'host list', 'host show host-0', 'host enable host-0',
     'claim list', f'claim show {uuid_of("first")}', 'claim audit', 'config check'],
)  # fmt: skip
def test_what_json_holds_is_documented(manage, store, words):
    document = json.loads(manage(f'{words} --format json').out)
    page = (ROOT / 'doc/source/command-line.rst').read_text()
    assert keys(document)
    assert [name for name in sorted(keys(document)) if f'``{name}``' not in page] == []


@each(
    'words',
    ['', *commands.nouns(),
     *(f'{noun} {verb[0]}' for noun in commands.nouns() for verb in commands.verbs_of(noun))],
)  # fmt: skip
def test_help_on_every_level(capsys, words):
    with pytest.raises(SystemExit) as ended:
        commands.parser().parse_args([*words.split(), '--help'])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert out.startswith(f'usage: {" ".join(["nova-sched-manage", *words.split()])} [-h]')
    if len(words.split()) == 2:
        assert '--config-file FILE' in out
        assert 'Keys:' in out or words.startswith('completion ')


HELP = """
try:
    from nova_sched.cmd.manage import main; main(["--help"])
except SystemExit:
    pass
"""
DAEMON = 'from nova_sched.cmd import backend; backend.choose([]); import nova_sched.service'


@each(
    'program, absent',
    [
        (HELP, {'alembic', 'eventlet', 'numpy', 'oslo_messaging', 'sqlalchemy'}),
        (DAEMON, {'alembic', 'dns'}),
    ],
)
def test_a_program_imports_only_what_it_needs(program, absent):
    program += f'\nimport sys; print({absent} & set(sys.modules))'
    ran = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == 'set()'


@each(
    'words',
    ['', 'host', 'host list --no-such', 'host paint', 'claim list --state lost', 'group',
     'group create', 'group show', 'group create x --parameter y', 'explain list --since=5y',
     'explain list --since=-1', 'explain list --since=inf', 'explain list --since=',
     'explain dry-run --vcpus many', 'explain dry-run --extra-spec alone', 'job list --limit 0',
     'explain dry-run --hint =x', 'quota set p cores 9', 'quota set p class:vcpu 9',
     'quota set p servers -2', 'quota set p servers many', f'quota set p servers {2**63}',
     'job list --state lost', 'host list --watch=0', 'host list --watch=nan',
     'host list --watch=often'],
)  # fmt: skip
def test_a_line_that_makes_no_sense(capsys, words):
    with pytest.raises(SystemExit) as ended:
        commands.parser().parse_args(words.split())
    assert ended.value.code == 2
    assert 'error:' in capsys.readouterr().err


def test_files_are_read_in_the_order_of_the_line():
    args = commands.parser().parse_args(
        '--config-file a --config-dir b host list --config-file c'.split()
    )  # fmt: skip
    assert (args.config, args.more_config) == (
        [('--config-file', 'a'), ('--config-dir', 'b')],
        [('--config-file', 'c')],
    )


@each(
    'words, status, out, err',
    [
        ('db upgrade', 0, 'went from schema empty', ''),
        ('host show nobody', 1, '', 'Host nobody is not known'),  # a sentence, no traceback
        ('--config-file no host list', 1, '', 'config files: '),
    ],
)
def test_the_program_itself(tmp_path, words, status, out, err):
    file = tmp_path / 'nova_sched.conf'
    file.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite\n')
    call = 'import sys; from nova_sched.cmd import manage; sys.exit(manage.main())'
    done = subprocess.run(
        [sys.executable, '-c', call, '--config-file', str(file), *words.split()],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == status
    assert out in done.stdout
    assert err in done.stderr
    assert 'Traceback' not in done.stderr


READ = """\
import sys
from nova_sched import errors
from nova_sched.cmd.manage import arguments
from nova_sched.extensions.optimize import rebalance_verbs as rebalance
from nova_sched.extensions.openstackclient import groups
assert rebalance.read(sys.argv[1]) == []
try:
    arguments.read_spec(sys.argv[1])
except errors.InvalidRequest as error:
    assert 'it holds no RequestSpec' in str(error), error
assert 'gr\\xf6\\xdfe' in groups._text(sys.argv[1])
"""


def test_files_are_utf_8_in_any_locale(tmp_path):
    path = tmp_path / 'plan.json'
    path.write_text('{"moves": [], "name": "größe"}', 'utf-8')
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-X', 'utf8=0', '-c', READ, path],
        env={**os.environ, 'LC_ALL': 'C', 'PYTHONCOERCECLOCALE': '0'},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def runs(*results):
    """A verb that returns or raises these results, and is then interrupted."""
    left = list(results)

    def verb():
        if not left:
            raise KeyboardInterrupt
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    return verb


@each(
    'results, status, err',
    [
        ([0, 0], 0, ''),
        ([0, 1], 1, ''),  # the last one counts
        ([errors.NotFound('x'), 0], 0, 'x is not known\n'),  # a failure does not end it
    ],
)
def test_it_ends_by_an_interrupt(capsys, results, status, err):
    assert commands.repeat(runs(*results), 0, clears=True) == status
    assert capsys.readouterr() == ('', err)


def test_a_bad_configuration_ends_it():
    with pytest.raises(errors.BadConfig):
        commands.repeat(runs(errors.BadConfig('[claims] store', 'why'), 0), 0, clears=False)


def test_the_option(manage, monkeypatch):
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(commands, 'sleep', sleep)
    status, out, err = manage('host list --watch 7')
    assert (status, out, slept) == (1, '', [])  # there is no database: that will not change
    manage('db upgrade')
    status, out, err = manage('host list --watch 7')
    assert (status, err, slept) == (0, '', [7, 7])
    assert out.count('Host') == 2


def test_it_ends_when_its_reader_does(tmp_path):
    file = tmp_path / 'nova_sched.conf'
    file.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/claims.sqlite\n')
    call = 'import sys; from nova_sched.cmd import manage; sys.exit(manage.main())'
    command = [sys.executable, '-c', call, '--config-file', str(file)]
    subprocess.run([*command, 'db', 'upgrade'], check=True, timeout=100)
    watching = subprocess.Popen(
        [*command, 'host', 'list', '--watch', '0.1', '--format', 'json'], stdout=subprocess.PIPE
    )
    assert watching.stdout.readline() == b'[]\n'
    watching.stdout.close()
    assert watching.wait(100) == 0


# A sign that a command works is for terminals only, and ends with the first output.


LONG_S = 30


def until_shown(sign):
    end_s = time.monotonic() + LONG_S
    while sign.progress is None and time.monotonic() < end_s:
        time.sleep(0.05)
    time.sleep(0.3)  # it is drawn ten times a second


def seen(capsys, after_s, work):
    """The output of a command that shows a sign after so many seconds."""
    sign = commands.Sign('working', after_s)
    args = Namespace(format='value', column=[], sort=None, sign=sign)
    try:
        work(sign)
        output.show(args, {'found': 'all'})
    finally:
        sign.end()
    return capsys.readouterr()


@each(
    'is_terminal, after_s, work, is_shown',
    [
        (True, 0, until_shown, True),
        (True, LONG_S, lambda sign: None, False),  # the command is done before
        (False, 0, lambda sign: time.sleep(0.5), False),
    ],
)
def test_a_sign_of_work(capsys, monkeypatch, is_terminal, after_s, work, is_shown):
    monkeypatch.setenv('TERM', 'xterm')
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: is_terminal)
    out, err = seen(capsys, after_s, work)
    assert (out, 'working' in err, bool(err)) == ('all\n', is_shown, is_shown)


PROGRAM = 'from nova_sched.cmd.manage import main; main()'


BASH = """
source <(nova-sched-manage completion bash)
COMP_LINE='nova-sched-manage host dis' COMP_POINT=26 COMP_TYPE=9
COMP_WORDS=(nova-sched-manage host dis) COMP_CWORD=2
$(complete -p nova-sched-manage | sed 's/.*-F \\([^ ]*\\) .*/\\1/') nova-sched-manage dis host
echo "${COMPREPLY[@]}"
"""
FISH = """
nova-sched-manage completion fish | source
complete -C 'nova-sched-manage host dis'
"""
ZSH = """
autoload -U compinit; compinit -u -D
source <(nova-sched-manage completion zsh)
echo ${_comps[nova-sched-manage]:+disable}
"""


@pytest.mark.parametrize('shell, script', [('bash', BASH), ('fish', FISH), ('zsh', ZSH)])
def test_a_shell_completes(tmp_path, shell, script):
    """bash and fish give the words; of zsh, which gives none without a terminal, that it has the
    function."""
    assert shutil.which(shell), f'install {shell}, as bindep.txt lists it'
    path = f'{os.path.dirname(sys.executable)}:{os.environ["PATH"]}'
    done = subprocess.run(
        [shell, '-c', script],
        # With LC_ALL=C, fish finds nothing in a folder with an umlaut.
        env={**os.environ, 'PATH': path, 'HOME': str(tmp_path), 'LC_ALL': 'C.UTF-8'},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split()[:1] == ['disable'], done.stderr


@each(
    'line, words',
    [
        ('nova-sched-manage sch', {'scheduler'}),
        ('nova-sched-manage host dis', {'disable'}),
        ('nova-sched-manage claim list --st', {'--state'}),
        ('nova-sched-manage host list --format y', {'yaml'}),
    ],
)
def test_words_that_may_come_next(tmp_path, line, words):
    file = tmp_path / 'words'
    asked = {
        '_ARGCOMPLETE': '1',
        'COMP_LINE': line,
        'COMP_POINT': str(len(line)),
        '_ARGCOMPLETE_STDOUT_FILENAME': str(file),
        '_ARGCOMPLETE_IFS': '\n',
    }
    subprocess.run([sys.executable, '-c', PROGRAM], env={**os.environ, **asked}, check=False)
    assert {word.strip() for word in file.read_text().split('\n')} == words
