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
"""A shadow of the scheduler: it decides as the scheduler does, and changes nothing."""

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_sched.tests.stock_cloud.databases import SHADOW
from nova_sched.tests.stock_cloud.services import HOSTS
from nova_sched.tests.stock_cloud.stubs import identifier
from nova_sched.tests.stock_cloud.waiting import eventually

AGREED = {'same', 'among_best'}
BOOTS, AT_ONCE = 100, 8
# The first words of statements that write nothing.
READING = {'SELECT', 'SHOW', 'SET', 'BEGIN', 'START', 'COMMIT', 'ROLLBACK'}
LOOK_S = 3.0


@pytest.fixture(scope='module')
def statements(running):
    """What the shadow has asked the databases for since its start."""
    made = running.databases.statements(SHADOW)
    made.begin()
    return made


@pytest.fixture(scope='module')
def watching(running, statements):
    """The shadow; in the end it stops in good order."""
    running.shadow.start()
    yield running.shadow
    running.shadow.stop()
    log = running.shadow.log.read_text()
    assert 'Stopped' in log
    assert not [line for line in log.splitlines() if ' ERROR ' in line or 'Traceback' in line]


@pytest.fixture
def shadow(cloud, watching):
    # The test before may have put hosts back into service: a scheduler sees it at its next look.
    time.sleep(LOOK_S)
    return watching


def outcomes(shadow, before, calls):
    """The outcomes of the calls after those ``before``, once they are compared."""
    eventually(calls, lambda: len(shadow.lines()) - before)
    return [line['outcome'] for line in shadow.lines()[before:]]


def test_it_decides_as_the_scheduler_does(shadow, servers):
    before, flavor = len(shadow.lines()), servers.flavor()
    for _ in range(5):
        servers.boot(flavor)
    servers.boot(flavor, 3)
    servers.boot(servers.flavor(ram_mb=100_000))
    found = outcomes(shadow, before, 7)
    assert found.pop() == 'both_refused'
    # Nova weighs by what its computes have written last, so that the order may be another one.
    assert set(found) <= {*AGREED, 'passed'}
    assert found.count('passed') <= 2
    report = shadow.report()
    assert report['calls'] >= 7
    assert report['p50_ms'] < 1000
    assert report['missed'] == {}


def test_hosts_that_are_taken_out_of_service(shadow, servers, hosts):
    before = len(shadow.lines())
    hosts.disable('cmp1', 'cmp2')
    hosts.force_down('cmp3', 'cmp4')
    servers.boot(servers.flavor(), 2)
    assert outcomes(shadow, before, 1) == ['same']


def test_a_move(shadow, servers):
    (server,) = servers.boot(servers.flavor())
    before = len(shadow.lines())
    servers.act(server.uuid, 'migrate', until='VERIFY_RESIZE')
    servers.act(server.uuid, 'confirmResize')
    (outcome,) = outcomes(shadow, before, 1)
    assert outcome in {*AGREED, 'passed'}


def test_questions(shadow):
    found = shadow.explain('why-not', HOSTS[0])
    refusals = [one for node in found['nodes'] for one in node['rules'] if one['why']]
    assert (refusals, [node['passes'] for node in found['nodes']]) == ([], [True])
    assert shadow.explain('capacity')['hosts'] >= len(HOSTS)
    assert shadow.explain('dry-run')['outcome'] == 'placed'


@pytest.mark.timeout(600)
def test_a_hundred_boots(shadow, servers, statements):
    before, flavor = len(shadow.lines()), servers.flavor(ram_mb=64)
    calls = shadow.report()['calls']

    def boot(_):
        return servers.built(servers.ask(flavor), pause_s=0.5)[0]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        booted = list(pool.map(boot, range(BOOTS)))
    assert {server.status for server in booted} == {'ACTIVE'}
    found = Counter(outcomes(shadow, before, BOOTS))
    assert found.keys() <= {*AGREED, 'passed'}
    report = shadow.report()
    print(found, report)
    assert (report['calls'] - calls, report['missed']) == (BOOTS, {})
    check_that_it_has_only_read(shadow, statements)


def check_that_it_has_only_read(shadow, statements):
    """The databases have recorded its statements, Placement its requests."""
    asked = [statement.upper() for statement in statements.read()]
    assert asked
    assert {statement.split()[0] for statement in asked} <= READING
    assert not [one for one in asked if 'FOR UPDATE' in one or ' INTO ' in one]
    log = shadow.log.with_name('placement.log').read_text()
    own = [line for line in log.splitlines() if identifier('user', SHADOW) in line]
    methods = {found[1] for line in own if (found := re.search(r'"([A-Z]+) /', line))}
    assert methods == {'GET'}
