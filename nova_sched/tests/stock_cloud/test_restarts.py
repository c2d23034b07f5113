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
"""Restarts: calls wait for the scheduler, and what was decided before counts afterwards."""

import pytest

from nova_sched.tests.stock_cloud.schedulers import REFERENCE
from nova_sched.tests.stock_cloud.servers import allocations
from nova_sched.tests.stock_cloud.services import HOSTS, LASTING


@pytest.fixture(params=['stop', 'kill'])
def end(request, cloud):
    """End the scheduler with SIGTERM or with SIGKILL; it runs again after the test."""
    yield getattr(cloud.scheduler, request.param)
    cloud.scheduler.start()


def test_a_call_waits_for_the_scheduler(cloud, servers, placement, end):
    flavor = servers.flavor()
    before = servers.boot(flavor, 2)
    end()
    names = [servers.ask(flavor) for _ in range(3)]
    cloud.scheduler.start()
    booted = before + [servers.built(name)[0] for name in names]
    assert {server.status for server in booted} == {'ACTIVE'}
    assert placement.allocations() == allocations(booted, flavor)


def test_the_members_of_a_group_count(cloud, servers, end):
    flavor, group = servers.flavor(), {'group': servers.group('anti-affinity')}
    members = servers.boot(flavor, len(HOSTS) - 1, hints=group)
    end()
    cloud.scheduler.start()
    members += servers.boot(flavor, hints=group)
    assert {server.host for server in members} == {*HOSTS}
    assert servers.boot(flavor, hints=group)[0].status == 'ERROR'


def test_the_capacity_that_is_used_counts(cloud, servers, placement, end):
    whole = servers.flavor(ram_mb=7000)
    booted = servers.boot(whole, len(HOSTS) - 1)
    end()
    cloud.scheduler.start()
    booted += servers.boot(whole)
    assert {server.host for server in booted} == {*HOSTS}
    assert servers.boot(whole)[0].status == 'ERROR'
    assert set(placement.allocations()) == {server.uuid for server in booted}


@pytest.mark.brief
def test_a_stop_lets_calls_end(cloud, servers, placement):
    if cloud.scheduler.kind == REFERENCE:
        pytest.skip('nova-scheduler loses calls when it is stopped')
    flavor = servers.flavor()
    names = [servers.ask(flavor) for _ in range(6)]
    cloud.scheduler.stop()
    cloud.scheduler.start()
    booted = [servers.built(name)[0] for name in names]
    assert {server.status for server in booted} == {'ACTIVE'}
    assert placement.allocations() == allocations(booted, flavor)


def test_a_compute_host_restarts(cloud, servers, hosts, placement):
    hosts.enable(LASTING)
    flavor = servers.flavor()
    (before,) = servers.boot(flavor, host=LASTING)
    cloud.kill_compute(LASTING)
    cloud.start_compute(LASTING)
    (after,) = servers.boot(flavor, host=LASTING)
    assert [before.host, after.host] == [LASTING, LASTING]
    assert placement.allocations() == {
        server.uuid: {LASTING: flavor.resources} for server in (before, after)
    }
