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
"""A sign that a command works is for terminals only."""

import sys

from nova_sched.cmd.manage import progress


def test_it_is_shown_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv('TERM', 'xterm')
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    with progress.shown('waiting'):
        pass
    out, err = capsys.readouterr()
    assert (out, 'waiting' in err) == ('', True)


def test_nothing_is_shown_elsewhere(capsys):
    with progress.shown('waiting'):
        pass
    assert capsys.readouterr() == ('', '')
