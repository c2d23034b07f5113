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
"""Crowds at several schedulers, as small as they can be; the modules named here do the same on any
scale."""

import contextlib

import pytest

from nova_sched.tests.integration import anti_affinity, crowd, last_one, stage
from nova_sched.tests.integration.cloud import Cloud

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def servers(request, rabbitmq):
    """The database server that a test names, and the broker; both run when it has ended."""
    both = request.getfixturevalue(request.param), rabbitmq
    yield both
    for server in both:
        server.start()


@pytest.fixture
def stored(servers, tmp_path):
    """A cloud on both."""
    server, broker = servers
    with contextlib.closing(Cloud(tmp_path, broker.fresh(), stage.upgraded(server))) as made:
        yield made


on_postgresql = pytest.mark.parametrize('servers', ['postgresql'], indirect=True)
on_mariadb = pytest.mark.parametrize('servers', ['mariadb'], indirect=True)


def wrong(faults):
    return {about: found for about, found in faults.items() if found}


@on_postgresql
def test_a_crowd_on_a_cluster_that_is_nearly_full(stored):
    outcome = crowd.run(stored, crowd.Plan(300, schedulers=3, callers=24, processes=2))
    assert wrong(outcome.faults) == {}
    refused = sum(answer['error'] is not None for answer in outcome.answers)
    assert 0 < refused < 60


@on_mariadb
def test_a_crowd_in_a_storm(stored, servers):
    plan = crowd.Plan(
        500, schedulers=3, callers=24, processes=2, outages=servers, pause_s=1.0, silence_s=4.0
    )
    outcome = crowd.run(stored, plan)
    assert wrong(outcome.faults) == {}
    assert any(len(answer['sent_s']) > 1 for answer in outcome.answers)


@on_postgresql
def test_only_the_one_too_many_is_refused(stored):
    _, faults = last_one.run(stored, schedulers=2, times=2 * len(last_one.SHAPES))
    assert wrong(faults) == {}


@on_mariadb
def test_members_that_boot_at_the_same_time_keep_apart(stored):
    _, faults = anti_affinity.run(stored, schedulers=2, boots=200, groups=20, callers=40)
    assert wrong(faults) == {}
