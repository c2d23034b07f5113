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
"""A small cloud is simulated from beginning to end, and checked; the command does the same."""

import json

import pytest

from nova_sched import errors, rpc, service
from nova_sched.conf import CONF
from nova_sched.extensions.simulator import machines, session, trace
from nova_sched.rpc import client
from nova_sched.tests.fixtures import warm
from nova_sched.tests.functional.harness import SETTINGS, eventually
from nova_sched.tests.options import settings
from nova_sched.tests.unit.extensions.simulator.builders import arrival, plan

LARGE = trace.TraceFlavor('large', 6, 2048)
STEP_S = 300.0


@pytest.fixture(params=['memory', 'sql'])
def scheduler(request, tmp_path):
    """A scheduler in this process, with an empty store of each kind."""
    connection = f'sqlite:///{tmp_path / "claims.sqlite"}'
    with settings({**SETTINGS, 'claims.store': request.param, 'database.connection': connection}):
        bus = rpc.transport(CONF, 'fake://')
        made = service.SchedulerService(CONF, bus)
        made.start()
        yield made, bus
        made.stop()
        bus.cleanup()


def play(scheduler, arrivals, inside=True, machine=None, **words):
    made, bus = scheduler
    wanted = session.SimulationSettings(plan(**words), inflight=8, zoned=0.5)
    return session.play(wanted, arrivals, bus, made if inside else None, machine)


def outcome(result):
    tally = result.tally
    return {
        'placed': tally.placed,
        'refused': tally.refused,
        'failed': tally.failed,
        'running': tally.running,
    }


@pytest.mark.parametrize(
    'arrivals, words, found',
    [
        pytest.param(
            [], {}, {'placed': 0, 'refused': 0, 'failed': 0, 'running': 0}, id='nothing to do'
        ),
        pytest.param(
            [arrival(5)],
            {'nodes': 3},
            {'placed': 5, 'refused': 0, 'failed': 0, 'running': 5},
            id='all fit',
        ),
        pytest.param(
            [arrival(9), arrival(8)],
            {'nodes': 1},
            {'placed': 8, 'refused': 9, 'failed': 0, 'running': 8},
            id='all of a request or nothing',
        ),
        pytest.param(
            [arrival(1, flavor=LARGE)] * 5,
            {'nodes': 4},
            {'placed': 4, 'refused': 1, 'failed': 0, 'running': 4},
            id='one more than there is room for',
        ),
        pytest.param(
            [arrival(2), arrival(2)],
            {'nodes': 4, 'disabled': 1.0},
            {'placed': 0, 'refused': 4, 'failed': 0, 'running': 0},
            id='every host is disabled',
        ),
        pytest.param(
            [arrival(1)] * 6,
            {'nodes': 4, 'failing': 1.0},
            {'placed': 0, 'refused': 0, 'failed': 6, 'running': 0},
            id='every build fails everywhere',
        ),
        pytest.param(
            [
                arrival(8, time_s, lifetime_s=STEP_S * 2)
                for time_s in (0.0, STEP_S * 2, STEP_S * 4)
            ],
            {'nodes': 1},
            {'placed': 24, 'refused': 0, 'failed': 0, 'running': 8},
            id='who leaves makes room',
        ),
        pytest.param(
            [arrival(8, time_s, lifetime_s=0.0) for time_s in (0.0, STEP_S, STEP_S * 2)],
            {'nodes': 1},
            {'placed': 24, 'refused': 0, 'failed': 0, 'running': 8},
            id='who leaves before any report told of him makes room too',
        ),
    ],
)
def test_what_becomes_of_servers(scheduler, arrivals, words, found):
    result = play(scheduler, arrivals, **words)
    assert outcome(result) == found
    assert result.violations == []
    assert result.claims == found['running']
    assert sum(len(node.instances) for node in result.nodes) == found['running']


def test_a_failed_build_goes_to_an_alternate(scheduler):
    result = play(scheduler, [arrival(1) for _ in range(40)], nodes=12, failing=0.3)
    tally = result.tally
    assert tally.moved > 2  # 30 % of the builds fail; which do depends on the hosts
    assert (tally.placed + tally.failed, tally.refused) == (40, 0)
    assert result.violations == []


def test_a_real_trace(scheduler):
    arrivals = [one for one in trace.load() if len(one) < 12][:60]
    result = play(
        scheduler, arrivals, nodes=12, zones=3, racks=2, vcpus=16, memory_gib=32, failing=0.05
    )
    tally = result.tally
    assert (tally.requests, tally.servers) == (60, sum(map(len, arrivals)))
    assert tally.placed + tally.refused + tally.failed == tally.servers
    assert set(tally.refusals) == {'ResourceCapacity'}
    assert len(tally.latencies_s) == 60
    assert len(result.decided_s) >= len(result.answered_s) >= 60
    assert result.violations == []


def test_an_impossible_request_is_explained(scheduler):
    explained = play(scheduler, [arrival(1)], nodes=8, zones=2, racks=2).explained
    trail = {name: (seen, left) for name, seen, left in explained.steps}
    assert trail['RequestedZone'] == (8, 4)
    assert trail['RequiredTraits'] == (4, 2)
    assert explained.steps[-1][2] == 0
    assert explained.steps[-1][0] in explained.reason


@pytest.mark.parametrize(
    'vcpus, count', [pytest.param(8, 8, id='until it is full'), pytest.param(128, 100, id='all')]
)
def test_requests_one_by_one_leave_no_claim(scheduler, vcpus, count):
    result = play(scheduler, [], nodes=1, vcpus=vcpus, memory_gib=128)
    assert len(result.alone_s) == count
    assert result.claims == 0


def test_a_scheduler_elsewhere_forgets_the_fleet(scheduler):
    made = scheduler[0]
    result = play(scheduler, [arrival(3), arrival(2, flavor=LARGE)], inside=False, nodes=3)
    assert outcome(result) == {'placed': 5, 'refused': 0, 'failed': 0, 'running': 5}
    assert (result.violations, result.claims) == ([], 5)
    assert (result.embedded, result.decided_s, result.explained) == (False, [], None)
    assert made.store.changes({}).nodes == ()
    assert made.store.claims() == []
    eventually(lambda: not made.store.changes({}).aggregates)


def test_a_lost_claim_is_found(scheduler):
    """The audit reads the store itself: a claim that was deleted without the fleet's knowledge
    is missed."""
    made = scheduler[0]
    result = play(scheduler, [arrival(4)], nodes=2)
    claim = made.store.claims()[0]
    made.store.release([claim.key])
    accounts = session.stored_accounts(made.store)
    (violation,) = session.audit(accounts, result.nodes)
    assert claim.consumer_uuid in violation


def test_this_machine_takes_part(scheduler, tmp_path):
    machine = machines.this_machine(tmp_path, 'zone-1')
    result = play(scheduler, [arrival(2)], machine=machine, nodes=2, vcpus=1)
    assert machine.capacity()['MEMORY_MB'] > 0
    assert (outcome(result)['placed'], result.violations) == (2, [])
    assert machine in result.nodes


def test_without_a_scheduler_there_is_no_answer():
    bus = rpc.transport(CONF, 'fake://')
    with pytest.raises(errors.NoAnswer, match='remove_node'):
        client.StatsClient(bus, timeout_s=0.1).remove_node('host', 'node')
    bus.cleanup()


def run(*arguments):
    return warm.run('nova_sched.extensions.simulator.cmd', arguments)


def test_the_command(tmp_path):
    ended = run(
        '--embedded',
        '--requests',
        '20',
        '--nodes',
        '9',
        '--format',
        'json',
        '--state-dir',
        str(tmp_path / 'kept'),
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found['requests'] == 20
    assert found['placed'] + found['refused'] + found['failed'] == found['servers']
    assert found['violations'] == []
    assert '20/20 requests' in ended.stderr
    kept = {path.name for path in (tmp_path / 'kept').iterdir()}
    assert {'nova-sched.sqlite', 'nova-sched-sim.log'} <= kept


def test_the_command_shows_a_summary(service_backend):
    ended = run('--embedded', '--requests', '5', '--nodes', '3', '--this-machine')
    assert ended.returncode == 0, ended.stderr
    assert 'And this machine' in ended.stdout
    assert 'One refusal, filter by filter' in ended.stdout
    assert 'Checked in the database: no node over its capacity' in ended.stdout
    assert ended.stderr == '' or service_backend == 'eventlet'  # which says that it is deprecated


@pytest.mark.parametrize(
    'arguments, status, why',
    [
        pytest.param([], 2, 'give --embedded', id='no scheduler'),
        pytest.param(
            ['--embedded', '--nodes', '0'], 2, '0 is not a whole number from 1 on', id='no node'
        ),
        pytest.param(
            ['--embedded', '--failing', '2'], 2, '2 is not a number from 0 to 1', id='no share'
        ),
        pytest.param(
            ['--config-file', 'x', '--state-dir', 'y'],
            2,
            'is for --embedded',
            id='state elsewhere',
        ),
        pytest.param(
            ['--config-file', 'missing.conf'], 78, 'missing.conf', id='no such configuration'
        ),
        pytest.param(
            ['--embedded', '--trace', 'missing.csv'], 1, 'No such file', id='no such trace'
        ),
        pytest.param(['--embedded', '--state-dir', '.'], 1, 'is not empty', id='used state'),
    ],
)
def test_the_command_says_what_is_wrong(arguments, status, why):
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout) == (status, '')
    assert why in ended.stderr
    assert 'Traceback' not in ended.stderr
