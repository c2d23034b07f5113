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
"""What every program does first, and how a bad configuration ends it."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_sched import errors, service
from nova_sched.cmd import startup
from nova_sched.conf import CONF
from nova_sched.tests.packages import install
from nova_sched.tests.rows import each


@pytest.fixture
def configured(tmp_path):
    """``configured(lines)`` is CONF with a configuration file of these lines, below sound ones."""
    file = tmp_path / 'nova_sched.conf'

    def configure(lines=''):
        file.write_text(
            f'[DEFAULT]\ntransport_url = fake://\n[database]\nconnection = sqlite:///{tmp_path}/db.sqlite\n{lines}\n'
        )
        CONF(['--config-file', str(file)], project='nova_sched')
        return CONF

    yield configure
    CONF.reset()


def test_a_sound_configuration_passes(configured, caplog):
    startup.check(configured())
    assert caplog.messages == []


def test_an_rpc_server_that_does_not_fit_its_bus(configured, capsys):
    lines = '[scheduler]\nrpc_server = direct'
    assert startup.guarded(lambda: startup.check(configured(lines))) == 1
    assert '[scheduler] rpc_server: `direct` works with RabbitMQ only' in capsys.readouterr().err


@pytest.fixture
def plug_in(monkeypatch, tmp_path):
    """A package that brings a rule, and an option of it; what it registers is forgotten in the
    end."""
    source = (
        'from oslo_config import cfg\n'
        'OPTS = [cfg.IntOpt("late_limit", min=1, mutable=True)]\n'
        'def list_opts():\n    return [("filter_scheduler", OPTS)]\n'
    )
    points = {
        'nova_sched__filters': {'L': 'plugged_limits:OPTS'},
        'oslo__config__opts': {'plugged_limits': 'plugged_limits:list_opts'},
    }
    monkeypatch.syspath_prepend(tmp_path / 'site')
    install(tmp_path / 'site', 'plugged_limits', source, **points)
    yield
    CONF.reset()
    CONF.unregister_opts(sys.modules.pop('plugged_limits').OPTS, group='filter_scheduler')


MISTAKES = [
    pytest.param('[scheduler]\nmax_attempts = many', ' max_attempts: ', id='a word for a number'),
    pytest.param('[scheduler]\nworkers = -1', ' workers: ', id='too small'),
    pytest.param('[claims]\nstore = paper', ' store: ', id='not a choice'),
    pytest.param('[DEFAULT]\nservice_down_time = 0', ' service_down_time: ', id='no time'),
    pytest.param('[DEFAULT]\nhost = two words', ' host: ', id='no host name'),
    pytest.param(
        '[filter_scheduler]\nram_weight_multiplier = heavy',
        'ram_weight_multiplier',
        id='a multiplier',
    ),
    pytest.param(
        '[filter_scheduler]\nsoft_affinity_weight_multiplier = -1', 'soft_affinity', id='negative'
    ),
    pytest.param(
        '[filter_scheduler]\nenabled_filters = MagicFilter',
        'no filter is named MagicFilter',
        id='filter',
    ),
    pytest.param(
        '[filter_scheduler]\nweight_classes = MagicWeigher', 'MagicWeigher cannot be', id='weigher'
    ),
    pytest.param(
        '[filter_scheduler]\navailable_filters = no.such.F',
        'no.such.F cannot be',
        id='filter class',
    ),
    pytest.param('[stats]\ncell_uuid = here', ' cell_uuid: ', id='no UUID'),
    pytest.param('[stats]\nmax_report_size = 1', ' max_report_size: ', id='a small limit'),
    pytest.param(
        '[DEFAULT]\ntransport_url = pigeon://scott:tiger@x/',
        '[DEFAULT] transport_url',
        id='unknown bus',
    ),
    pytest.param(
        '[DEFAULT]\ntransport_url = rabbit://scott:tiger@[/',
        '[DEFAULT] transport_url',
        id='bad bus',
    ),
    pytest.param(
        '[database]\nconnection = paper://scott:tiger@x/db',
        '[database] connection',
        id='unknown database',
    ),
    pytest.param('[database]\nconnection = tiger', '[database] connection', id='no URL'),
]


@pytest.mark.parametrize('lines, words', MISTAKES)
@pytest.mark.filterwarnings('ignore:.*drivername')
def test_a_mistake_is_one_sentence(configured, capsys, lines, words):
    assert startup.guarded(lambda: startup.check(configured(lines))) == 1
    out, err = capsys.readouterr()
    assert out == ''
    assert words in err
    assert len(err.splitlines()) == 1
    assert 'tiger' not in err


def test_a_database_that_is_away_does_not_stop_the_start(configured, caplog):
    url = 'postgresql+psycopg2://scott:tiger@127.0.0.1:1/db'
    startup.check(configured(f'[database]\nconnection = {url}'))
    assert caplog.text == ''  # the workers log it


def test_claims_in_memory_need_no_database(configured, caplog):
    startup.check(configured('[claims]\nstore = memory\n[database]\nconnection = nonsense'))
    assert 'database' not in caplog.text


@each(
    'ends, status',
    [
        pytest.param(lambda: None, 0, id='well'),
        pytest.param(lambda: 3, 3, id='with a status'),
    ],
)
def test_a_program_that_ends(ends, status):
    assert startup.guarded(ends) == status


@pytest.mark.parametrize(
    'error',
    [
        pytest.param(errors.BadConfig('[x] y', 'no'), id='ours'),
        pytest.param(cfg.ConfigFilesNotFoundError(['x']), id='of oslo.config'),
    ],
)
def test_a_program_that_cannot_go_on(capsys, error):
    def fail():
        raise error

    assert startup.guarded(fail) == 1
    assert str(error) in capsys.readouterr().err


def test_a_mistake_in_an_option_of_a_plug_in_is_one_sentence(configured, capsys, plug_in):
    assert (
        startup.guarded(lambda: startup.check(configured('[filter_scheduler]\nlate_limit = 0')))
        == 1
    )
    assert 'late_limit' in capsys.readouterr().err


def test_a_mistake_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        startup.guarded(lambda: 1 / 0)


# Reloading.


@pytest.fixture
def reloadable(tmp_path):
    """A configuration file that can be rewritten, and CONF as a launcher gets it."""
    file = tmp_path / 'nova_sched.conf'
    arguments = ['--config-file', str(file)]

    def write(lines):
        file.write_text(f'{lines}\n')

    write('[scheduler]\nmax_attempts = 2\nworkers = 3')
    CONF(arguments, project='nova_sched')
    yield write, startup.Reloadable(CONF, arguments, check=service.rules)
    CONF.reset()


def test_options_that_may_change_are_taken_over(reloadable):
    write, conf = reloadable
    write('[scheduler]\nmax_attempts = 5\nworkers = 4')
    conf.mutate_config_files()
    assert CONF.scheduler.max_attempts == 5
    assert conf.scheduler.max_attempts == 5
    assert CONF.scheduler.workers == 3


@pytest.mark.parametrize(
    'lines',
    [
        pytest.param('[scheduler]\nmax_attempts = many', id='a word for a number'),
        pytest.param('[scheduler]\nmax_attempts = 0', id='too small'),
        pytest.param(
            '[scheduler]\nmax_attempts = 5\n[claims]\nstore = paper', id='a mistake elsewhere'
        ),
        pytest.param('max_attempts', id='no configuration'),
    ],
)
def test_a_mistake_changes_nothing(reloadable, caplog, lines):
    write, conf = reloadable
    write(lines)
    assert conf.mutate_config_files() == {}
    assert CONF.scheduler.max_attempts == 2
    assert 'The configuration is not reloaded: ' in caplog.text
    write('[scheduler]\nmax_attempts = 4')
    conf.mutate_config_files()
    assert CONF.scheduler.max_attempts == 4


@pytest.mark.parametrize(
    'lines, words',
    [
        pytest.param(
            'enabled_filters = MagicFilter', 'no filter is named MagicFilter', id='no such filter'
        ),
        pytest.param(
            'weight_classes = MagicWeigher', 'MagicWeigher cannot be loaded', id='no such weigher'
        ),
        pytest.param('late_limit = 0', 'late_limit', id='an option of a plug-in'),
    ],
)
def test_a_mistake_in_the_rules_changes_nothing(reloadable, plug_in, caplog, lines, words):
    write, conf = reloadable
    write(f'[scheduler]\nmax_attempts = 5\n[filter_scheduler]\n{lines}')
    assert conf.mutate_config_files() == {}
    assert CONF.scheduler.max_attempts == 2
    assert 'The configuration is not reloaded: ' in caplog.text
    assert words in caplog.text


def test_the_rules_may_change(reloadable):
    write, conf = reloadable
    write('[filter_scheduler]\nenabled_filters = RamFilter\nweight_classes = CPUWeigher')
    conf.mutate_config_files()
    assert service.rules(CONF).filters[0].name == 'RamFilter'
    assert [rule.name for rule in service.rules(CONF).weighers] == ['CPUWeigher']


def test_no_thread_makes_an_option_keep_its_old_value(configured):
    """A thread reads the option all the time."""
    conf, leaving = configured(), threading.Event()

    def read():
        while not leaving.is_set():
            _ = conf.scheduler.max_attempts

    (file,) = conf.config_file
    made = startup.Reloadable(conf, ['--config-file', file])
    reader = threading.Thread(target=read)
    reader.start()
    found = []
    for value in range(1, 21):
        configured_lines = Path(file).read_text().partition('[scheduler]')[0]
        Path(file).write_text(f'{configured_lines}[scheduler]\nmax_attempts = {value}\n')
        made.mutate_config_files()
        time.sleep(0.01)
        made.forget_values()
        found.append(conf.scheduler.max_attempts)
    leaving.set()
    reader.join()
    assert found == list(range(1, 21))


def run(*arguments, lines=None, folder=None):
    """Run the program to its end: exit status and all that it said."""
    if lines is not None:
        file = folder / 'nova_sched.conf'
        file.write_text(f'[DEFAULT]\ntransport_url = fake://\n{lines}\n')
        arguments = ('--config-file', str(file), *arguments)
    # The tests choose a backend in the environment, which goes before a file.
    env = {
        name: value for name, value in os.environ.items() if name != 'OS_DEFAULT__SERVICE_BACKEND'
    }
    done = subprocess.run(
        [sys.executable, '-m', 'nova_sched.cmd.scheduler', *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,  # the machine may be busy
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    'lines, words',
    [
        pytest.param(
            '[filter_scheduler]\nenabled_filters = ComputeFilter,MagicFilter',
            'filter_scheduler.enabled_filters: no filter is named MagicFilter; there are ',
            id='unknown filter',
        ),
        pytest.param(
            'log_file = /no/such/folder/log',
            'options of the log: [Errno 2] No such file',
            id='no place to log',
        ),
        pytest.param('service_backend = fibers', 'service_backend', id='unknown backend'),
    ],
)
def test_a_bad_configuration_ends_it_with_one_sentence(tmp_path, lines, words):
    status, said = run(lines=lines, folder=tmp_path)
    assert status == os.EX_CONFIG
    assert words in said
    assert said.startswith('scheduler.py: ')
    assert len(said.splitlines()) == 1


def test_a_configuration_file_that_is_not_there():
    status, said = run('--config-file', '/no/such/file.conf')
    assert (status, said) == (
        os.EX_CONFIG,
        'scheduler.py: Failed to find some config files: /no/such/file.conf\n',
    )


def test_help():
    status, said = run('--help')
    assert status == 0
    assert '--config-file' in said
