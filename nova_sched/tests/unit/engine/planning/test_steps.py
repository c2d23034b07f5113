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
"""Every move of a plan, judged by the filters of the scheduler before it is made."""

import dataclasses
import random

import pytest

from nova_sched.engine.decide import survivors
from nova_sched.filters import Filter
from nova_sched.filters.num_instances import NumInstancesFilter
from nova_sched.filters.ram import RamFilter
from nova_sched.tests.builders import aggregate, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.unit.engine.planning.test_move_planner import Planned, ways


class OfTheUser(Filter):
    """Lets the servers of one user go to host 2 only."""

    def mask(self, hosts, request):
        return hosts.named(['host-2']) if request.user_id == 'one' else True


def test_a_filter_may_read_the_user():
    made = Planned([[{'user_id': 'one'}, {'user_id': 'other'}], 3, 2], [OfTheUser()])
    assert ways(made.plan('drain:host-0')) == [('host-0', 'host-1'), ('host-0', 'host-2')]


@pytest.mark.parametrize('seed', range(30))
def test_the_filters_let_every_step_pass(seed):
    """Random clouds. The moves are made in random order, some of them never confirmed: before each
    one the whole chain of filters judges its destination, with the claims of both ends."""
    dice = random.Random(seed)
    servers = [
        [
            {
                'vcpus': dice.choice([1, 2, 4]),
                'memory_mb': dice.choice([512, 4096, 8192]),
                'group_uuid': dice.choice([None, None, f'group {dice.randrange(3)}']),
                'created_s': dice.random(),
            }
            for _ in range(dice.randint(0, 5))
        ]
        for _ in range(10)
    ]
    zones = [
        aggregate(1, [f'host-{row}' for row in range(5)], availability_zone='a'),
        aggregate(2, [f'host-{row}' for row in range(5, 10)], availability_zone='b'),
    ]
    made = Planned(servers, [RamFilter(), NumInstancesFilter()], aggregates=zones)
    cluster, chain = made.cluster, made.world.scheduler._placer.rules
    with settings({'filter_scheduler.max_instances_per_host': 6}):
        found = made.plan(dice.choice(['empty', 'spread', 'drain:host-1,host-7']))
        for move in dice.sample(found['moves'], len(found['moves'])):
            node = cluster.node(move['destination'])
            held = cluster.node(move['source']).claims[move['server']]
            there = {one.group_uuid for one in node.claims.values()} - {None}
            assert held.group_uuid not in there
            asked = request(
                instance_uuid=move['server'],
                vcpus=held.resources['VCPU'],
                memory_mb=held.resources['MEMORY_MB'],
                availability_zone='a' if node.row < 5 else 'b',
            )
            assert (cluster.node(move['source']).row < 5) == (node.row < 5)
            assert node.row in survivors(chain, cluster.hosts, asked).rows()
            cluster.add(dataclasses.replace(held, node_uuid=node.uuid, uuid=uuid_of(str(asked))))
            if dice.random() < 0.5:
                cluster.drop(held)
