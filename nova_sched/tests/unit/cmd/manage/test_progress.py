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
"""A sign that a command works is for terminals only, and ends with the first output."""

import sys
import time
from argparse import Namespace

from nova_sched.cmd.manage import output, progress

LONG_S = 30


def until_shown(sign):
    end_s = time.monotonic() + LONG_S
    while not sign.is_shown and time.monotonic() < end_s:
        time.sleep(0.05)
    time.sleep(0.3)  # it is drawn ten times a second


def seen(capsys, after_s, work=lambda sign: None):
    """The output of a command that shows a sign after so many seconds."""
    args = Namespace(format='value', column=[], sort=None)
    with progress.shown(args, 'working'):
        args.sign.end()
        args.sign = progress.Sign('working', after_s)
        work(args.sign)
        output.show(args, {'found': 'all'})
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
