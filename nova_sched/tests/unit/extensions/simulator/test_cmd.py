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
"""Tests of nova-sched-sim: its exit status, and its replays. tests/functional/test_sim.py runs the
command itself."""

import json

import pytest

from nova_sched.extensions.simulator import cmd as sim
from nova_sched.extensions.simulator import cmd_replay as sim_replay
from nova_sched.extensions.simulator import trace
from nova_sched.tests.rows import table
from nova_sched.tests.unit.extensions.simulator.builders import result

AZURE = ['azure', '--trace', str(trace.SAMPLE), '--hours', '0.2']


@table(
    'violations, status',
    {'all is well': ([], 0), 'a check failed': (['a host is over its capacity'], 3)},
)
def test_a_violation_is_no_success(violations, status):
    assert sim.status(result(violations=violations)) == status


def replay(monkeypatch, *arguments):
    """The exit status of the command."""
    monkeypatch.setattr('sys.argv', ['nova-sched-sim', 'replay', *arguments])
    return sim.main()


def test_a_replay_by_several_policies(monkeypatch, capsys, tmp_path):
    mine = tmp_path / 'mine.conf'
    names = 'ram', 'cpu', 'io_ops'
    lines = [f'{name}_weight_multiplier = {-(name != "io_ops")}' for name in names]
    mine.write_text('\n'.join(['[filter_scheduler]', *lines]))
    policies = ['--policy', 'nova', '--policy', f'mine={mine}']
    run = ['--hosts', '300', *policies, '--format', 'json', '--processes', '2']
    assert replay(monkeypatch, *AZURE, *run) == 0
    found = json.loads(capsys.readouterr().out)['policies']
    empty = {name: one['figures']['empty']['mean'] for name, one in found.items()}
    assert empty['nova'] < empty['mine']


def test_a_search_for_the_fewest_hosts(monkeypatch, capsys):
    run = ['--fewest', '1-64', '--policy', 'first-fit', '--format', 'json']
    assert replay(monkeypatch, *AZURE, *run) == 0
    assert 1 < json.loads(capsys.readouterr().out)['fewest_hosts']['first-fit'] < 64


def test_an_unknown_policy(monkeypatch, capsys):
    assert replay(monkeypatch, *AZURE, '--hosts', '1', '--policy', 'worst') == 1
    assert 'one of nova, first-fit' in capsys.readouterr().err


@table(
    'arguments, why',
    {
        'nothing': ([], 'openb|azure|huawei'),
        'no number of hosts': (AZURE, '--hosts'),
        'a range that is none': ([*AZURE, '--fewest', '9-1'], 'LOW-HIGH'),
        'no pods': (['openb', '--nodes', 'x'], '--pods'),
    },
)
def test_wrong_usage_of_replay(arguments, why, capsys):
    with pytest.raises(SystemExit) as ended:
        sim_replay.main(arguments)
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
