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
from nova_sched.db import engine, schema
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


def service(database, host):
    """An operator's word on the host, as a scheduler reads it that starts now."""
    return {one.host: one for one in SqlClaimStore(database).changes({}).services}.get(host)


# The schema.


def test_an_empty_database_gets_the_schema_once(manage, tmp_path):
    url = f'sqlite:///{tmp_path}/db.sqlite'
    first, second = (json.loads(manage('db upgrade --format json').out) for _ in range(2))
    assert first == {'database': url, 'before': None, 'version': schema.HEAD}
    assert second == {**first, 'before': schema.HEAD}
    assert json.loads(manage('db version --format json').out) == {
        'database': url,
        'version': schema.HEAD,
        'needed': schema.HEAD,
    }


def test_the_schema_in_words(manage, tmp_path):
    url, head = f'sqlite:///{tmp_path}/db.sqlite', schema.HEAD
    assert manage('db upgrade').out == f'{url} went from schema empty to {head}.\n'
    assert manage('db upgrade').out == f'{url} has schema {head} already.\n'
    assert manage('db version').out == f'{url} has schema {head}; this release needs {head}.\n'


@pytest.mark.parametrize(
    'words',
    [
        'db version',
        'host list',
        'claim list',
        'claim audit',
        'claim show x',
        'host show x',
        'host disable x',
    ],
)
def test_only_upgrade_makes_a_database(manage, tmp_path, words):
    status, out, err = manage(words)
    assert (status, out) == (1, '')
    assert f'there is no file {tmp_path}/db.sqlite' in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / 'db.sqlite').exists()


@pytest.mark.parametrize('words', ['host list', 'claim list', 'host disable host-0'])
def test_a_database_of_another_schema_is_left_alone(manage, tmp_path, words):
    engine.create(f'sqlite:///{tmp_path}/db.sqlite').connect().close()
    (tmp_path / 'db.sqlite').touch()
    status, out, err = manage(words)
    assert (status, out) == (1, '')
    assert 'the schema is empty' in err
    assert 'run nova-sched-manage db upgrade' in err


@pytest.mark.parametrize(
    'config, why',
    [
        pytest.param('[claims]\nstore = memory\n', '[claims] store', id='claims in memory'),
        pytest.param(
            '[database]\nconnection = sqlite://\n', 'in memory is lost', id='database in memory'
        ),
        pytest.param('[database]\nconnection = nonsense\n', 'Could not parse', id='no URL'),
        pytest.param('[claims]\nstore = disk\n', 'Valid values are [sql, memory]', id='bad value'),
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
    lines = manage('host list').out.splitlines()
    cells = [
        [cell.strip() for cell in line.split('|')[1:-1]] for line in lines if line.startswith('|')
    ]
    assert [row[:4] for row in cells] == [
        ['Host', 'Node', 'Zone', 'State'],
        ['host-0', 'host-0', 'north', 'up'],
        ['host-1', 'host-1', 'nova', 'up'],
    ]
    assert [row[5:] for row in cells] == [
        ['vCPU', 'RAM (MiB)', 'Disk (GiB)', 'Claims'],
        ['1 / 64 (16 x 4)', '512 / 65536 (65536 x 1)', '0 / 1000 (1000 x 1)', '1'],
        ['1 / 16 (16 x 1)', '512 / 65024 (65536 x 1)', '0 / 1000 (1000 x 1)', '1 (1)'],
    ]


@pytest.mark.parametrize(
    'more, hosts',
    [
        pytest.param([], ['host-0', 'host-1'], id='all'),
        pytest.param(['--zone', 'north'], ['host-0'], id='zone'),
        pytest.param(['--host', '*-1'], ['host-1'], id='pattern'),
        pytest.param(['--host', 'host-1', '--host', 'host-0'], ['host-0', 'host-1'], id='two'),
        pytest.param(['--zone', 'nowhere'], [], id='none'),
    ],
)
def test_host_list_as_json(manage, store, more, hosts):
    status, out, err = manage('host list --format json', *more)
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
    assert uuid_of('first') in out
    assert uuid_of('second') not in out


def test_host_show_as_json(manage, store):
    found = json.loads(manage('host show host-1 --format json').out)
    assert (found['host'], found['state'], found['zones']) == ('host-1', 'up', ['nova'])
    assert [one['state'] for one in found['claims']] == ['pending']


def test_host_disable_and_enable(manage, database, store):
    assert manage('host disable host-0 host-1', '--reason', 'new disks').out.splitlines() == [
        'Host host-0 is disabled: new disks.',
        'Host host-1 is disabled: new disks.',
    ]
    assert service(database, 'host-0') == ServiceFacts('host-0', True, 'new disks')
    assert json.loads(manage('host enable host-0 --format json').out) == [
        {'host': 'host-0', 'disabled': False, 'disabled_reason': None, 'forced_down': False}
    ]
    assert service(database, 'host-0') == ServiceFacts('host-0')
    assert service(database, 'host-1') == ServiceFacts('host-1', True, 'new disks')


def test_a_running_scheduler_sees_a_disabled_host_at_its_next_poll(manage, store):
    store.changes({})
    assert store.changes({}).services is None
    manage('host disable host-0')
    assert store.changes({}).services == (ServiceFacts('host-0', True),)


@pytest.mark.parametrize(
    'facts, out',
    [
        pytest.param(
            {'forced_down': True}, 'Host host-0 is enabled, but forced down.\n', id='forced down'
        ),
        pytest.param({'disabled': True}, 'Host host-0 is enabled.\n', id='disabled before'),
    ],
)
def test_enable_says_what_is_left(manage, database, store, facts, out):
    store.set_service(ServiceFacts('host-0', seen_s=7.0, **facts))
    assert manage('host enable host-0').out == out
    kept = service(database, 'host-0')
    assert (kept.forced_down, kept.seen_s) == (facts.get('forced_down', False), 7.0)


def test_enable_says_that_the_host_itself_is_against_it(manage, store):
    store.report([report('host-0', traits=frozenset(['COMPUTE_STATUS_DISABLED']))], now())
    assert (
        manage('host enable host-0').out
        == 'Host host-0 is enabled here, but reports itself as disabled.\n'
    )


@pytest.mark.parametrize(
    'words',
    ['host show nobody', 'host disable host-0 nobody', 'host enable nobody', 'host remove nobody'],
)
def test_an_unknown_host_is_named_and_nothing_changes(manage, database, store, words):
    status, out, err = manage(words)
    assert (status, out) == (1, '')
    assert 'Host nobody is not known' in err
    assert service(database, 'host-0') is None


def test_a_similar_host_is_named(manage, store):
    assert 'Host hots-0 is not known; did you mean host-0?\n' in manage('host show hots-0').err


def test_a_pattern_names_several_hosts(manage, database, store):
    store.report([report('other')], now())
    manage('host disable', 'host-[0-9]', 'host-1')
    assert service(database, 'host-0') == ServiceFacts('host-0', True)
    assert service(database, 'host-1') == ServiceFacts('host-1', True)
    assert service(database, 'other') is None
    assert 'Host x* is not known' in manage('host disable', 'x*').err


def test_a_host_that_is_up_is_not_removed(manage, store):
    status, out, err = manage('host remove host-0 --force')
    assert (status, out) == (1, '')
    assert 'host host-0 is up' in err


def test_a_host_that_left_is_removed(manage, database, store):
    store.set_service(ServiceFacts('host-0', forced_down=True))
    store.set_service(ServiceFacts('host-1', disabled=True))
    status, out, err = manage('host remove host-0 host-1')
    assert (status, out) == (1, '')
    assert 'Host host-0 has claims (1); --force ends them, too' in err
    assert json.loads(manage('host remove host-0 --force --format json').out) == [
        {'host': 'host-0', 'nodes': [report('host-0').node_uuid], 'claims': 1}
    ]
    assert [one['host'] for one in json.loads(manage('host list --format json').out)] == ['host-1']
    assert service(database, 'host-0') is None
    assert store.claims(uuid_of('first')) == []
    assert manage('claim audit').status == 0
    out = manage('host remove host-1 --force').out
    assert out == 'Host host-1 is removed, with 1 node and 1 claim.\n'


# Claims.


@pytest.mark.parametrize(
    'more, consumers',
    [
        pytest.param([], ['first', 'second'], id='all, oldest first'),
        pytest.param(['--host', 'host-1'], ['second'], id='host'),
        pytest.param(['--project', 'first'], ['first'], id='project'),
        pytest.param(['--state', 'pending'], ['second'], id='state'),
        pytest.param(['--consumer', uuid_of('first')], ['first'], id='consumer'),
        pytest.param(
            ['--consumer', uuid_of('first'), '--state', 'pending'], [], id='both must hold'
        ),
    ],
)
def test_claim_list(manage, store, more, consumers):
    found = json.loads(manage('claim list --format json', *more).out)
    assert [row['consumer_uuid'] for row in found] == [uuid_of(name) for name in consumers]


def test_claim_list_as_table(manage, store):
    table = manage('claim list').out
    (first,) = (line for line in table.splitlines() if uuid_of('first') in line)
    cells = [cell.strip() for cell in first.split('|')[1:-1]]
    assert cells[1:5] == ['host-0', CONFIRMED, '1 VCPU, 512 MEMORY_MB', 'first']
    assert cells[6] == 'never'


# The configuration.


@pytest.mark.parametrize(
    'lines, status, closing',
    [
        pytest.param('', 0, '0 errors, 1 warning.', id='a warning alone is no failure'),
        pytest.param('[scheduler]\nworkers = -1\n', 1, '1 error, 1 warning.', id='an error is'),
    ],
)
def test_config_check(manage, tmp_path, lines, status, closing):
    config = f'[DEFAULT]\ntransport_url = fake://\n[database]\nconnection = sqlite:///{tmp_path}/x\n{lines}'
    result = manage('config check', config=config)
    assert (result.status, result.err) == (status, '')
    assert result.out.splitlines()[0] == f'Read: {tmp_path}/nova_sched.conf'
    assert result.out.splitlines()[-1] == closing
    found = json.loads(manage('config check --format json', config=config).out)
    assert found['ok'] == (not status)
    assert found['findings'][-1]['where'] == '[DEFAULT] transport_url'


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


@pytest.mark.parametrize(
    'words',
    [
        'db version',
        'db upgrade',
        'host list',
        'host show host-0',
        'host enable host-0',
        'claim list',
        f'claim show {uuid_of("first")}',
        'claim audit',
        'config check',
    ],
)
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


@each(
    'program, absent',
    [
        pytest.param(
            'try:\n    from nova_sched.cmd.manage import main; main(["--help"])\n'
            'except SystemExit: pass',
            {'alembic', 'eventlet', 'numpy', 'oslo_messaging', 'sqlalchemy'},
            id='the help',
        ),
        pytest.param(
            'from nova_sched.cmd import backend; backend.choose([]); import nova_sched.service',
            {'alembic', 'dns'},
            id='a daemon',
        ),
    ],
)
def test_a_program_imports_only_what_it_needs(program, absent):
    program += f'\nimport sys; print({absent} & set(sys.modules))'
    ran = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == 'set()'


@pytest.mark.parametrize(
    'words', ['', 'host', 'host list --no-such', 'host paint', 'claim list --state lost']
)
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


@pytest.mark.parametrize(
    'words, status, out, err',
    [
        pytest.param(['db', 'upgrade'], 0, 'went from schema empty', '', id='done'),
        pytest.param(['host', 'list'], 1, '', 'there is no file', id='a sentence, no traceback'),
        pytest.param(
            ['--config-file', 'no', 'host', 'list'], 1, '', 'config files: ', id='no such file'
        ),
    ],
)  # fmt: skip
def test_the_program_itself(tmp_path, words, status, out, err):
    file = tmp_path / 'nova_sched.conf'
    file.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite\n')
    call = 'import sys; from nova_sched.cmd import manage; sys.exit(manage.main())'
    done = subprocess.run(
        [sys.executable, '-c', call, '--config-file', str(file), *words],
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


@pytest.mark.parametrize(
    'results, status, err',
    [
        pytest.param([0, 0], 0, '', id='success'),
        pytest.param([0, 1], 1, '', id='the last one counts'),
        pytest.param(
            [errors.NotFound('x'), 0], 0, 'x is not known\n', id='a failure does not end it'
        ),
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


@pytest.mark.parametrize('seconds', ['0', '-1', 'nan', 'inf', 'often'])
def test_an_interval_that_is_none(manage, capsys, seconds):
    with pytest.raises(SystemExit, match='2'):
        manage(f'host list --watch={seconds}')
    assert 'number of seconds above 0' in capsys.readouterr().err


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


def seen(capsys, after_s, work=lambda sign: None):
    """The output of a command that shows a sign after so many seconds."""
    sign = commands.Sign('working', after_s)
    args = Namespace(format='value', column=[], sort=None, sign=sign)
    try:
        work(sign)
        output.show(args, {'found': 'all'})
    finally:
        sign.end()
    return capsys.readouterr()


def be_terminal(monkeypatch):
    monkeypatch.setenv('TERM', 'xterm')
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)


def test_it_is_shown_on_a_terminal(capsys, monkeypatch):
    be_terminal(monkeypatch)
    out, err = seen(capsys, 0, until_shown)
    assert (out, 'working' in err) == ('all\n', True)


def test_a_command_that_is_done_soon_shows_none(capsys, monkeypatch):
    be_terminal(monkeypatch)
    assert seen(capsys, LONG_S) == ('all\n', '')


def test_nothing_is_shown_elsewhere(capsys):
    assert seen(capsys, 0, lambda sign: time.sleep(0.5)) == ('all\n', '')


PROGRAM = 'from nova_sched.cmd.manage import main; main()'


@pytest.mark.parametrize('shell', ['bash', 'zsh', 'fish'])
def test_the_script_of_a_shell(manage, shell):
    status, out, err = manage(f'completion {shell}')
    assert (status, err) == (0, '')
    assert 'nova-sched-manage' in out


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


@pytest.mark.parametrize(
    'shell, script',
    [
        pytest.param('bash', BASH, id='bash'),
        pytest.param('fish', FISH, id='fish'),
        pytest.param('zsh', ZSH, id='zsh'),
    ],
)
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


@pytest.mark.parametrize(
    'line, words',
    [
        pytest.param('nova-sched-manage sch', {'scheduler'}, id='noun'),
        pytest.param('nova-sched-manage host dis', {'disable'}, id='verb'),
        pytest.param('nova-sched-manage claim list --st', {'--state'}, id='option'),
        pytest.param('nova-sched-manage host list --format y', {'yaml'}, id='value'),
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
