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
"""The units of systemd: one for each daemon, all restricted alike."""

import configparser
import re
import subprocess

import pytest
from oslo_config import cfg

from nova_sched.conf import base
from nova_sched.tests.test_layers import PACKAGE

UNITS = sorted((PACKAGE.parent / 'etc/systemd').glob('*.service'))
DAEMONS = {'nova-sched-scheduler', 'nova-sched-agent', 'nova-sched-api', 'nova-sched-queues'}
LONGEST_S = 14  # that a statement on the database waits, with its connection
MOST = 2.5  # of 10, by systemd-analyze


def unit(path):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(path)
    return parser


def test_a_unit_waits_longer_than_its_daemon():
    """The services of Nova 34, too, have 180 s to stop."""
    conf = cfg.ConfigOpts()
    base.set_service_defaults(conf)
    conf([], project='nova-sched', default_config_files=[])
    assert conf.graceful_shutdown_timeout == base.SHUTDOWN_S == 180
    waits_s = {path.stem: float(unit(path)['Service']['TimeoutStopSec']) for path in UNITS}
    assert min(waits_s.values()) >= base.SHUTDOWN_S + LONGEST_S


def test_each_daemon_has_a_unit():
    assert {path.stem for path in UNITS} == DAEMONS


@pytest.mark.parametrize('path', UNITS, ids=lambda path: path.stem)
def test_what_a_unit_runs(path):
    service = unit(path)['Service']
    assert service['ExecStart'].split()[0] == f'/opt/nova-sched/bin/{path.stem}'
    assert service['User'] == 'nova-sched'
    assert (service['Type'], service['NotifyAccess']) == ('notify', 'main')
    assert service['TimeoutStartSec'] == 'infinity', 'an away bus or database is waited for'
    assert int(service['WatchdogSec']) > 4 * LONGEST_S
    assert service['RestartPreventExitStatus'] == '78', 'a bad configuration is not tried again'


@pytest.mark.parametrize('path', UNITS, ids=lambda path: path.stem)
def test_exposure(path):
    rated = subprocess.run(
        ['systemd-analyze', 'security', '--offline=true', '--no-pager', str(path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    found = re.search(r'Overall exposure level for \S+: ([\d.]+)', rated.stdout)
    assert float(found[1]) <= MOST
