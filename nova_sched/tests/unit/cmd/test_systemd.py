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
"""What systemd is told, on a real socket."""

import os
import time

import pytest

from nova_sched.cmd.systemd import Systemd
from nova_sched.tests.fixtures.notify_socket import NotifySocket


@pytest.fixture
def heard(monkeypatch):
    made = NotifySocket()
    monkeypatch.setenv('NOTIFY_SOCKET', made.path)
    yield made
    made.close()


@pytest.mark.parametrize(
    'tell, told',
    [
        pytest.param(lambda one: one.ready('fine'), {'READY': '1', 'STATUS': 'fine'}, id='ready'),
        pytest.param(lambda one: one.status('waiting'), {'STATUS': 'waiting'}, id='status'),
        pytest.param(lambda one: one.alive(), {'WATCHDOG': '1'}, id='alive'),
        pytest.param(
            lambda one: one.stopping(),
            {'STOPPING': '1', 'STATUS': 'Stopping: pending calls are answered'},
            id='stopping',
        ),
    ],
)
def test_messages(heard, tell, told):
    tell(Systemd())
    assert heard.read(1.0) == [told]


def test_a_reload_has_its_time(heard):
    before_usec = time.monotonic() * 1e6
    Systemd().reloading()
    (told,) = heard.read(1.0)
    assert told['RELOADING'] == '1'
    assert before_usec <= int(told['MONOTONIC_USEC']) <= time.monotonic() * 1e6


def test_without_systemd_nothing_happens(monkeypatch):
    monkeypatch.delenv('NOTIFY_SOCKET', raising=False)
    made = Systemd()
    made.ready('fine')
    assert not made.is_there


def test_children_and_libraries_do_not_see_its_variables(heard, monkeypatch):
    monkeypatch.setenv('WATCHDOG_USEC', '4000000')
    Systemd()
    assert {'NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'}.isdisjoint(os.environ)


@pytest.mark.parametrize(
    'usec, pid, watchdog_s',
    [
        pytest.param('4000000', None, 4.0, id='no process is named'),
        pytest.param('4000000', str(os.getpid()), 4.0, id='this process'),
        pytest.param('4000000', '1', None, id='another process'),
        pytest.param('0', None, None, id='no time'),
        pytest.param('soon', None, None, id='no number'),
        pytest.param(None, None, None, id='no watchdog'),
    ],
)
def test_the_watchdog(heard, monkeypatch, usec, pid, watchdog_s):
    for name, value in (('WATCHDOG_USEC', usec), ('WATCHDOG_PID', pid)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert Systemd().watchdog_s == watchdog_s
