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
"""`rebalance plan` against a running scheduler."""

import json

import pytest

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.manage import runner
from nova_sched.tests.options import settings


@pytest.fixture
def manage(tmp_path, capsys):
    """``manage('plan', '--goal', 'empty')``: exit status, output, errors."""
    return runner('rebalance', tmp_path, capsys)


@pytest.fixture
def servers(daemon):
    """Two servers on host a, one on host b; their hosts have reported them."""
    daemon.add('a', vcpus=8)
    daemon.boot('one')
    daemon.boot('two')
    for name in ('one', 'two'):
        daemon.claims.confirm_claim(uuid_of(name), 'a')
    daemon.add('b', vcpus=8)
    daemon.boot('three', ignore_hosts=['a'])
    daemon.claims.confirm_claim(uuid_of('three'), 'b')
    return daemon


def test_a_plan(manage, servers):
    before = servers.state()
    status, out, _ = manage('plan', '--goal', 'empty', '--moves', '50%', '--format', 'json')
    assert status == 0
    found = json.loads(out)
    assert found['moves'] == [
        {
            'server': uuid_of('three'),
            'source': found['emptied'][0]['node'],
            'destination': found['moves'][0]['destination'],
            'source_host': 'b',
            'destination_host': 'a',
        }
    ]
    assert (found['before'], found['after'], found['bound']) == (0, 1, 1)
    assert servers.state() == before


def test_a_plan_for_people(manage, servers):
    status, out, _ = manage('plan', '--goal', 'empty')
    assert status == 0
    assert out.startswith('1 move of 3 servers on 2 hosts. Empty hosts: 0 now, 1 afterwards.')
    assert 'No plan of so many moves empties more than 1 host (by linear program).' in out
    status, out, _ = manage('plan', '--goal', 'drain:a', '--moves', '1')
    assert status == 0
    assert 'Servers on the hosts to drain: 2 now, 1 afterwards.' in out
    assert 'it has as many moves as are allowed' in out


def test_a_thorough_plan(manage, servers):
    words = 'plan', '--goal', 'empty', '--thorough', '--time-limit', '20'
    status, out, _ = manage(*words)
    assert status == 0
    assert 'No plan of so many moves empties more than 1 host (by ' in out
    assert 'This plan is optimal.' in out


def test_what_stops_a_plan(manage, servers):
    servers.add('b', vcpus=1)
    status, out, _ = manage('plan', '--goal', 'drain:a')
    assert status == 0
    assert out.startswith('0 moves of 3 servers')
    assert 'ResourceCapacity' in out


def test_places_for_a_flavor(manage, servers, tmp_path):
    file = tmp_path / 'flavors.yaml'
    file.write_text('large: {vcpus: 7, ram: 512}')
    with settings({'groups.flavors': str(file)}):
        status, out, _ = manage('plan', '--goal', 'fit:large')
        assert status == 0
        assert 'Places for the flavor: 1 now, 1 afterwards.' in out
        assert 'optimal' not in out
        status, out, _ = manage('plan', '--goal', 'fit:large', '--thorough')
        assert status == 0
        assert 'makes more than 1 place (by search). This plan is optimal.' in out
        status, _, err = manage('plan', '--goal', 'fit:none')
    assert status == 1
    assert 'none' in err


@pytest.mark.parametrize(
    'words, why',
    [
        (['--goal', 'drain:nowhere'], 'nowhere is not a host, aggregate or zone with hosts'),
        (['--goal', 'empty', '--moves', '0'], '0 is neither a number from 1 nor a share'),
        (['--goal', 'empty', '--zone', 'moon'], 'no host is in zone moon'),
        (['--goal', 'spread', '--thorough'], 'no thorough plan for the goal spread'),
        (
            ['--goal', 'empty', '--thorough', '--time-limit', '601'],
            '601 is more than 600',
        ),
    ],
)
def test_what_is_not_known_is_refused(manage, servers, words, why):
    status, out, err = manage('plan', *words)
    assert (status, out) == (1, '')
    assert why in err


def test_a_goal_that_does_not_exist(manage, capsys):
    with pytest.raises(SystemExit) as ended:
        manage('plan', '--goal', 'full')
    assert ended.value.code == 2
    assert 'there is no goal full; there are empty, drain, fit, spread' in capsys.readouterr().err
