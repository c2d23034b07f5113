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
"""What the tests of nova-sched-manage share: a way to run it in this process, and a clock that is
wrong."""

import time
from typing import NamedTuple

import pytest

from nova_sched.cmd import startup
from nova_sched.cmd.manage import commands
from nova_sched.conf import CONF


class Result(NamedTuple):
    """What a run of the program left."""

    status: int
    out: str
    err: str


@pytest.fixture
def manage(tmp_path, capsys):
    """``manage('host list', 'NAME', config=...)`` runs the program on a configuration of these
    lines.

    The first word may be several. Without lines, the database is a file that is not there yet.
    """
    file = tmp_path / 'nova_sched.conf'

    def run(words, *more, config=f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite\n'):
        file.write_text(config)
        argv = ['--config-file', str(file), *words.split(), *more]
        capsys.readouterr()
        status = startup.guarded(lambda: commands.run(commands.parser().parse_args(argv)))
        return Result(status, *capsys.readouterr())

    yield run
    CONF.reset()


@pytest.fixture
def an_hour_ahead(monkeypatch):
    """The clock of this process is an hour ahead of the database's."""
    right = time.time
    monkeypatch.setattr(time, 'time', lambda: right() + 3600)
