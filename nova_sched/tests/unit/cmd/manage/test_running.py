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
"""How a verb runs: repeated until it is interrupted, and with a sign that it works."""

import subprocess
import sys
import time
from argparse import Namespace

import pytest

from nova_sched import errors
from nova_sched.cmd.manage import commands, output


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
