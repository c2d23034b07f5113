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
"""Groups that are created by many at the same time, at schedulers that die in between: no half
plan, ever."""

import concurrent.futures
import contextlib
import time
import uuid

import pytest

from nova_sched import errors
from nova_sched.rpc import client
from nova_sched.tests.functional.harness import compute_node, eventually, spec
from nova_sched.tests.integration import audit, audit_groups
from nova_sched.tests.integration.cloud import Cloud
from nova_sched.tests.integration.stage import upgraded

GROUPS, AT_ONCE = 200, 8
RACKS, IN_RACK = 20, 4
TIMEOUT_S = 120


def template(number):
    """One of four groups: apart by rack, in one rack, near each other, or alone on its hosts."""
    kind = number % 4
    size = 3 + number % 3
    server = {
        'type': 'OS::Nova::Server',
        'properties': {'flavor': {'vcpus': 2, 'ram': 1024, 'disk': 1}},
    }
    policies = [
        {'type': 'anti-affinity', 'level': 'rack'},
        {'type': 'affinity', 'level': 'rack'},
        {'type': 'spread', 'level': 'rack', 'min_domains': 2, 'max_skew': 1},
        {'type': 'exclusive', 'level': 'host'},
    ]
    web = {
        'type': 'OS::Heat::ResourceGroup',
        'properties': {'count': size, 'resource_def': server},
    }
    return {
        'heat_template_version': '2021-04-16',
        'resources': {
            'web': web,
            'app': {
                'type': 'OS::NovaSched::Group',
                'properties': {'members': ['web'], 'policies': [policies[kind]]},
            },
        },
    }


@pytest.fixture
def cloud(request, rabbitmq, tmp_path):
    """A cloud on RabbitMQ and the database that the test names."""
    server = request.getfixturevalue(request.param)
    with contextlib.closing(Cloud(tmp_path, rabbitmq.fresh(), upgraded(server))) as made:
        made.options['groups.solver'] = True
        yield made


def create(cloud, number):
    """Create a group, or hear why not; who gets no answer asks again."""
    groups = client.GroupsClient(cloud.bus, timeout_s=20, monitor_s=3)
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        try:
            return groups.create(template(number), name=f'group {number}').uuid
        except errors.GroupRefused:
            return None
        except (errors.NoAnswer, errors.StoreUnavailable):
            continue
    raise AssertionError(f'group {number} was never answered')


@pytest.mark.parametrize('cloud', ['postgresql'], indirect=True)
def test_two_schedulers_that_die_in_between(cloud):
    daemons = cloud.daemons(2, groups__improve_seconds=0.0, groups__repair_seconds=0.3)
    nodes = [
        compute_node(f'host-{number}', vcpus=16, stats={'rack': f'r{number // IN_RACK}'})
        for number in range(RACKS * IN_RACK)
    ]
    cloud.report(nodes)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(create, cloud, number) for number in range(GROUPS)]
        for turn in range(4):
            least = 30 * (turn + 1)
            eventually(lambda: sum(one.done() for one in asked) >= least, TIMEOUT_S)  # noqa: B023
            daemon = daemons[turn % 2]
            daemon.kill()
            assert audit_groups.faults(cloud.database) == []
            daemon.start()
        found = [one.result() for one in asked]
    assert audit_groups.faults(cloud.database) == []
    assert audit.faults(cloud.database) == []
    made = {row['uuid'] for row in audit.rows(cloud.database, 'top_groups')[0]}
    assert {uuid for uuid in found if uuid} <= made
    # There is room for some, and not for all.
    assert 0 < sum(uuid is None for uuid in found) < GROUPS


@pytest.mark.parametrize('cloud', ['mariadb'], indirect=True)
def test_members_are_built_while_groups_come_and_go(cloud):
    """Two schedulers share groups: what one has planned the other builds, or deletes."""
    # On a busy machine one scheduler may lose to the other many times in a row.
    cloud.daemons(2, groups__improve_seconds=0.0, groups__plan_attempts=25)
    cloud.report([
        compute_node(f'host-{number}', vcpus=16, stats={'rack': f'r{number // IN_RACK}'})
        for number in range(RACKS * IN_RACK)
    ])  # fmt: skip

    def live(number):
        """Create, build the half, grow, build the rest; every fifth is deleted instead."""
        groups = client.GroupsClient(cloud.bus, timeout_s=60)
        made = groups.create(template(number), name=f'group {number}')
        paths = [one.path for one in made.members]
        for path in paths[::2]:
            build(cloud, made, path)
        if number % 5 == 0:
            groups.delete(made.uuid)
            return
        groups.update(made.uuid, template(number), generation=1)
        for path in paths[1::2]:
            build(cloud, made, path)
        assert {one.state for one in groups.show(made.uuid).members} == {'pending'}

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(live, range(40)))
    assert audit_groups.faults(cloud.database) == []
    assert audit.faults(cloud.database) == []


def build(cloud, group, path):
    """A conductor's call for a server that is this member."""
    asked = spec(vcpus=2, memory_mb=1024, root_gb=1)
    asked.scheduler_hints = {'top_group': [group.uuid], 'member': [path]}
    asked.project_id = group.project_id
    ((chosen, *_),) = cloud.scheduler.select_destinations(asked, [str(uuid.uuid4())])
    return chosen.service_host
