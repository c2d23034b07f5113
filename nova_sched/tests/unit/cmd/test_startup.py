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
    startup.check(configured('[claims]\nstore = memory\n[database]\nconnection = nonsense'))
    assert 'database' not in caplog.text
    url = 'postgresql+psycopg2://scott:tiger@127.0.0.1:1/db'  # it is away: the workers log it
    startup.check(configured(f'[database]\nconnection = {url}'))
    assert caplog.messages == []


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
    ('[scheduler]\nmax_attempts = many', ' max_attempts: '),
    ('[scheduler]\nworkers = -1', ' workers: '),
    ('[scheduler]\nrpc_server = direct', 'rpc_server: `direct` works with RabbitMQ only'),
    ('[claims]\nstore = paper', ' store: '),
    ('[DEFAULT]\nservice_down_time = 0', ' service_down_time: '),
    ('[DEFAULT]\nhost = two words', ' host: '),
    ('[filter_scheduler]\nram_weight_multiplier = heavy', 'ram_weight_multiplier'),
    ('[filter_scheduler]\nsoft_affinity_weight_multiplier = -1', 'soft_affinity'),
    ('[filter_scheduler]\nenabled_filters = Magic', 'no filter is named Magic'),
    ('[filter_scheduler]\nweight_classes = MagicWeigher', 'MagicWeigher cannot be'),
    ('[filter_scheduler]\navailable_filters = no.such.F', 'no.such.F cannot be'),
    ('[filter_scheduler]\nlate_limit = 0', 'late_limit'),  # of a plug-in
    ('[stats]\ncell_uuid = here', ' cell_uuid: '),
    ('[stats]\nmax_report_size = 1', ' max_report_size: '),
    ('[DEFAULT]\ntransport_url = pigeon://scott:tiger@x/', '[DEFAULT] transport_url'),
    ('[DEFAULT]\ntransport_url = rabbit://scott:tiger@[/', '[DEFAULT] transport_url'),
    ('[database]\nconnection = paper://scott:tiger@x/db', '[database] connection'),
    ('[database]\nconnection = tiger', '[database] connection'),
]


@each('lines, words', MISTAKES)
@pytest.mark.filterwarnings('ignore:.*drivername')
def test_a_mistake_is_one_sentence(configured, plug_in, capsys, lines, words):
    assert startup.guarded(lambda: startup.check(configured(lines))) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ('', 1)
    assert words in err
    assert 'tiger' not in err


def test_how_a_program_ends(capsys):
    assert (startup.guarded(lambda: None), startup.guarded(lambda: 3)) == (0, 3)
    for error in errors.BadConfig('[x] y', 'no'), cfg.ConfigFilesNotFoundError(['x']):

        def fail(error=error):
            raise error

        assert startup.guarded(fail) == 1
        assert str(error) in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):  # a mistake of ours is not hidden
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
    write(
        '[scheduler]\nmax_attempts = 5\nworkers = 4\n'
        '[filter_scheduler]\nenabled_filters = RamFilter\nweight_classes = CPUWeigher'
    )
    conf.mutate_config_files()
    assert CONF.scheduler.max_attempts == conf.scheduler.max_attempts == 5
    assert CONF.scheduler.workers == 3
    rules = service.rules(CONF)
    assert [rules.filters[0].name, rules.weighers[0].name] == ['RamFilter', 'CPUWeigher']


@each(
    'lines, words',
    [
        ('[scheduler]\nmax_attempts = many', 'max_attempts'),
        ('[scheduler]\nmax_attempts = 0', 'max_attempts'),
        ('[scheduler]\nmax_attempts = 5\n[claims]\nstore = paper', 'store'),
        ('max_attempts', 'Failed to parse'),
        ('[filter_scheduler]\nenabled_filters = Magic', 'no filter is named Magic'),
        ('[filter_scheduler]\nweight_classes = Magic', 'Magic cannot be loaded'),
        ('[filter_scheduler]\nlate_limit = 0', 'late_limit'),  # of a plug-in
    ],
)
def test_a_mistake_changes_nothing(reloadable, plug_in, caplog, lines, words):
    write, conf = reloadable
    before = CONF.scheduler.max_attempts
    caplog.clear()
    write(lines)
    assert conf.mutate_config_files() == {}
    assert CONF.scheduler.max_attempts == before
    assert 'The configuration is not reloaded: ' in caplog.text
    assert words in caplog.text
    write(f'[scheduler]\nmax_attempts = {before + 2}')
    conf.mutate_config_files()
    assert CONF.scheduler.max_attempts == before + 2


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
        (
            '[filter_scheduler]\nenabled_filters = Magic',
            'enabled_filters: no filter is named Magic',
        ),
        ('log_file = /no/such/folder/log', 'options of the log: [Errno 2] No such file'),
        ('service_backend = fibers', 'service_backend'),
        (None, 'Failed to find some config files: /no/such/file.conf'),
    ],
)
def test_a_bad_configuration_ends_it_with_one_sentence(tmp_path, lines, words):
    given = [] if lines is not None else ['--config-file', '/no/such/file.conf']
    status, said = run(*given, lines=lines, folder=tmp_path)
    assert status == os.EX_CONFIG
    assert words in said
    assert said.startswith('scheduler.py: ')
    assert len(said.splitlines()) == 1


def test_help():
    status, said = run('--help')
    assert status == 0
    assert '--config-file' in said
