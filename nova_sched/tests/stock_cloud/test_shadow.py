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

import pytest

from nova_sched.tests.stock_cloud.databases import SHADOW
from nova_sched.tests.stock_cloud.services import HOSTS
from nova_sched.tests.stock_cloud.stubs.keystone import identifier
from nova_sched.tests.stock_cloud.waiting import eventually

AGREED = {'same', 'among_best'}
LOOK_S = 3.0


@pytest.fixture(scope='module')
def watching(running):
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


def test_it_decides_as_the_scheduler_does(shadow, servers, hosts):
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


def test_it_only_reads(shadow, servers):
    """Its database user may do nothing else (``databases``); Placement has logged its requests."""
    before = len(shadow.lines())
    servers.boot(servers.flavor())
    outcomes(shadow, before, 1)
    log = shadow.log.with_name('placement.log').read_text()
    own = [line for line in log.splitlines() if identifier('user', SHADOW) in line]
    methods = {found[1] for line in own if (found := re.search(r'"([A-Z]+) /', line))}
    assert methods == {'GET'}
