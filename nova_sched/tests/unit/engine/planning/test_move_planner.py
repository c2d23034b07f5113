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
"""Plans of moves: what they are made from, every move judged before it is made, and what a search
for a better plan finds."""

import contextlib
import dataclasses
import itertools
import random

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PLANNED
from nova_sched.engine.clock import Pauses
from nova_sched.engine.decide import survivors
from nova_sched.extensions.optimize.moves import RebalanceSettings
from nova_sched.extensions.optimize.planning import move_planner, snapshot
from nova_sched.extensions.optimize.planning.move_planner import (
    SEARCH,
    MovePlanner,
    ThoroughSearch,
    view_of,
)
from nova_sched.extensions.optimize.planning.snapshot import Scope
from nova_sched.extensions.optimize.rebalance import read_goal
from nova_sched.extensions.optimize.rebalance.bound import PROGRAM
from nova_sched.extensions.optimize.rebalance.greedy import empty, fit
from nova_sched.filters import Filter
from nova_sched.filters.aggregate_core import AggregateCoreFilter
from nova_sched.filters.compute import ComputeFilter
from nova_sched.filters.num_instances import NumInstancesFilter
from nova_sched.filters.ram import RamFilter
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.hardware.providers import Allotted
from nova_sched.tests import builders
from nova_sched.tests.builders import NOW, aggregate, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.world import Named, World, rules
from nova_sched.tests.unit.extensions.optimize.rebalance.problems import problem

DEVICE = HardwareAllocation(providers=(Allotted('', uuid_of('gpu'), {'VGPU': 1}),))


class Planned:
    """A cluster of hosts with 16 vCPUs and 64 GiB, and its plans. ``servers``: number of servers
    (2 vCPUs, 4 GiB) by host, or for each host a list of more fields of the claims."""

    def __init__(self, servers, filters=(), flavors=None, **words):
        self.cluster = builders.cluster(len(servers), **words)
        self.world = World(chain=rules(filters), cluster=self.cluster)
        # After a pause it would read the store, which knows no hosts.
        self.world.scheduler.pauses = Pauses(lambda: 0.0)
        for row, there in enumerate(servers):
            for number, fields in enumerate([{}] * there if isinstance(there, int) else there):
                self.cluster.add(
                    builders.claim(
                        uuid_of(f'{row}-{number}'),
                        uuid_of(f'node host-{row}'),
                        **{'vcpus': 2, 'memory_mb': 4096, 'state': CONFIRMED, **fields},
                    )
                )
        self.before = lambda: None
        self.planner = MovePlanner(
            self.world.context, self.world.scheduler.placer, self._call, flavors
        )

    def _call(self, work, *args):
        self.before()
        return self.world.call(work, *args)

    def plan(self, text='empty', moves=None, wanted=None, zone=None, aggregate=None, **settings):
        scope = Scope(read_goal(text), zone, aggregate, RebalanceSettings(**settings))
        return view_of(self.planner.plan(scope, moves, wanted))


def ways(found):
    return sorted((one['source_host'], one['destination_host']) for one in found['moves'])


def told(found):
    return {one['rule']: one['hosts'] for one in found['obstacles']}


def test_a_plan():
    found = Planned([1, 3]).plan(moves=1)
    assert found == {
        'servers': 4,
        'hosts': 2,
        'moves': [
            {
                'server': uuid_of('0-0'),
                'source': uuid_of('node host-0'),
                'destination': uuid_of('node host-1'),
                'source_host': 'host-0',
                'destination_host': 'host-1',
            }
        ],
        'emptied': [{'node': uuid_of('node host-0'), 'host': 'host-0'}],
        'before': 0,
        'after': 1,
        'bound': 1,
        'bound_by': 'linear program',
        'is_spent': False,
        'obstacles': [],
    }


def test_the_filters_decide_where_servers_go():
    found = Planned([1, 2, 3], [Named('host-1')]).plan(moves=1)
    assert ways(found) == [('host-0', 'host-1')]
    found = Planned([1, 3], [Named('host-7')]).plan()
    assert found['moves'] == []
    assert told(found) == {'Named': 2}


def test_a_disabled_host_takes_nothing_and_can_be_drained():
    made = Planned([1, 2, 0], disabled=[True, False, True])
    assert ways(made.plan('drain:host-0')) == [('host-0', 'host-1')]
    assert made.plan('drain:host-1')['moves'] == []


@each(
    'columns',
    [
        {'forced_down': [True, False, True]},
        {'seen_s': [NOW - 61, NOW, NOW - 61]},
        {'seen_s': [NOW + 61, NOW, NOW + 61]},
    ],
)
def test_a_host_that_is_down_takes_nothing_and_keeps_its_servers(columns):
    made = Planned([1, 2, 0], [ComputeFilter()], **columns)
    found = made.plan('drain:host-0')
    assert found['moves'] == []
    assert told(found) == {'a compute service that is down': 1}
    assert made.plan('drain:host-1')['moves'] == []


def test_servers_stay_in_their_zone():
    zones = [
        aggregate(1, ['host-0', 'host-2'], availability_zone='a'),
        aggregate(2, ['host-1'], availability_zone='b'),
    ]
    made = Planned([1, 3, 2], aggregates=zones)
    assert ways(made.plan(moves=1)) == [('host-0', 'host-2')]
    assert told(made.plan('drain:host-1')) == {'zone, cell, metadata of aggregates and traits': 1}


def test_servers_keep_the_traits_and_the_metadata_of_their_host():
    made = Planned(
        [1, 2, 3], traits=[frozenset(['HW_A']), frozenset(), frozenset(['HW_A', 'HW_B'])]
    )
    assert ways(made.plan(moves=1)) == [('host-0', 'host-2')]
    made = Planned([1, 2, 3], aggregates=[aggregate(1, ['host-0', 'host-1'], ssd='true')])
    assert ways(made.plan(moves=1)) == [('host-0', 'host-1')]
    racks = [aggregate(1, ['host-0'], rack='r1'), aggregate(2, ['host-1'], rack='r2')]
    assert ways(Planned([1, 2], aggregates=racks).plan(moves=1)) == [('host-0', 'host-1')]


@each(
    'fields, rule',
    [
        ({'state': PLANNED}, 'a member of a placement group that is not created yet'),
        ({'state': 'pending'}, 'a server that is built, moved or resized'),
        ({'move': 'migration'}, 'a server that is built, moved or resized'),
        ({'parts': DEVICE}, 'CPUs, pages or devices of its own'),
        ({'fences': ('token',)}, 'an exclusive domain of its host'),
        ({'project_id': 'p'}, '[rebalance] protected_projects'),
    ],
)
def test_servers_that_stay(fields, rule):
    found = Planned([[fields], 3]).plan(moves=9, protected_projects=frozenset('p'))
    assert found['moves'] == [] or ways(found) == [('host-1', 'host-0')] * 3
    assert told(found) == {rule: 1}


def test_the_operator_s_list_and_aggregates():
    made = Planned([1, 3], aggregates=[aggregate(1, ['host-1'])])
    found = made.plan('drain:host-0', immovable_servers=frozenset([uuid_of('0-0')]))
    assert told(found) == {'[rebalance] immovable_servers': 1}
    found = made.plan('drain:host-0', protected_aggregates=frozenset(['aggregate 1']))
    assert told(found) == {'scope of the plan': 1}


def test_groups_of_servers():
    member = {'group_uuid': uuid_of('group')}
    made = Planned([[member], [member, {}], 3])
    assert ways(made.plan(moves=1)) == [('host-0', 'host-2')]
    assert told(Planned([[member], [member, {}]]).plan('drain:host-0')) == {'server group': 1}
    # Both may have to stay together.
    assert told(Planned([[member, member], 3]).plan('drain:host-0')) == {'server group': 1}


def test_members_of_a_placement_group_stay_in_their_rack():
    racks = [aggregate(1, ['host-0', 'host-2'], rack='r1'), aggregate(2, ['host-1'], rack='r2')]
    member = {'top_group': uuid_of('top'), 'member': 'a'}
    made = Planned([[member], 3, 2], aggregates=racks)
    assert ways(made.plan('drain:host-0')) == [('host-0', 'host-2')]
    assert told(made.plan('drain:host-0,host-2')) == {'domains of a placement group': 1}


@each('name', ['aggregate 1', 'rack=r1'])
def test_a_rack_is_drained(name):
    racks = [aggregate(1, ['host-0', 'host-1'], rack='r1'), aggregate(2, ['host-2'], rack='r2')]
    plan = Planned([2, 1, 1], aggregates=racks).plan(f'drain:{name}')
    assert [target for _, target in ways(plan)] == ['host-2'] * 3
    assert (plan['before'], plan['after']) == (3, 0)
    assert sorted(host['host'] for host in plan['emptied']) == ['host-0', 'host-1']


def test_a_rack_that_nodes_report_is_drained_with_a_host():
    stats = [{'rack': 'r1'}, {'rack': 'r1'}, {'rack': 'r2'}]
    assert Planned([2, 1, 1], stats=stats).plan('drain:rack=r1,host-2')['before'] == 4


@each(
    'words, why',
    [
        ({'text': 'drain:rack=r9'}, 'no host is in rack r9'),
        ({'text': 'drain:shelf=9'}, 'shelf=9 is not a host, aggregate or zone'),
        ({'text': 'drain:host-7'}, 'host-7 is not a host, aggregate or zone'),
        ({'zone': 'moon'}, 'no host is in zone moon'),
        ({'aggregate': 'moon'}, 'no host is in an aggregate moon'),
        ({'text': 'fit:m1.large'}, 'flavor m1.large is not in the database'),
        ({'moves': 'many'}, 'neither a number'),
    ],
)
def test_what_is_not_known_is_refused(words, why):
    with pytest.raises(errors.InvalidRequest, match=why):
        Planned([1, 1]).plan(**words)


def test_the_zone_and_the_aggregate_limit_the_hosts():
    made = Planned([1, 2, 3], aggregates=[aggregate(1, ['host-0', 'host-1'])])
    assert ways(made.plan(aggregate='aggregate 1')) == [('host-0', 'host-1')]
    assert made.plan(zone='nova', moves=1)['after'] == 1


def test_rules_on_the_number_of_servers_are_kept():
    with settings({'filter_scheduler.max_instances_per_host': 3}):
        found = Planned([2, 2], [NumInstancesFilter()]).plan()
        assert told(found) == {'no room: servers': 2}
        assert len(Planned([1, 2], [NumInstancesFilter()]).plan()['moves']) == 1


def test_rules_that_allow_less_than_is_free_are_kept():
    # By the inventories all servers fit on host 1; the aggregate allows no oversubscription.
    there = aggregate(1, ['host-0', 'host-1'], cpu_allocation_ratio='1.0')
    made = Planned([4, 6], [AggregateCoreFilter()], aggregates=[there], vcpus_ratio=2.0)
    assert len(made.plan('drain:host-0')['moves']) == 2


def test_places_for_a_flavor():
    large = request(vcpus=12, memory_mb=1024, flavor_name='large')
    made = Planned([3, 3], flavors=lambda: [large])
    found = made.plan('fit:large')
    assert (found['before'], found['after']) == (0, 1)
    assert made.plan('fit:other', wanted=large)['after'] == 1


def test_a_host_that_goes_meanwhile():
    made = Planned([1, 2, 3])
    calls = iter(range(100))

    def remove():
        if next(calls) == 1:
            made.cluster.remove(uuid_of('node host-2'))

    made.before = remove
    assert ways(made.plan()) == [('host-0', 'host-1')]


def test_hosts_that_go_and_come_all_the_time():
    made = Planned([1, 2, 3])

    numbers = itertools.count(3)

    def replace():
        made.cluster.remove(made.cluster.snapshot()[-1].uuid)
        builders.put(made.cluster, builders.report(f'host-{next(numbers)}'))

    made.before = replace
    with pytest.raises(errors.Outdated, match='hosts came and went'):
        made.plan()


def test_the_moves_of_a_periodic_plan():
    made = Planned([1, 2, 3])
    (move,) = made.planner.moves(RebalanceSettings(goal='empty'), 1)
    assert (move.server, move.source) == (uuid_of('0-0'), uuid_of('node host-0'))
    with pytest.raises(errors.InvalidRequest, match='flavor large'):
        made.planner.moves(RebalanceSettings(goal='fit:large'), 1)


def test_of_many_surroundings_only_zone_and_cell_count(monkeypatch):
    monkeypatch.setattr(snapshot, 'MAX_SURROUNDINGS', 1)
    traits = [frozenset([f'CUSTOM_{row}']) for row in range(2)]
    assert ways(Planned([1, 3], traits=traits).plan(moves=1)) == [('host-0', 'host-1')]
    zones = [aggregate(1, ['host-0'], availability_zone='a')]
    assert Planned([1, 3], traits=traits, aggregates=zones).plan()['moves'] == []


def test_the_loop_is_free_between_slices(monkeypatch):
    monkeypatch.setattr(move_planner, 'SLICE_S', 0.0)
    made = Planned([[{}, {'vcpus': 1}], [{'vcpus': 3}, {}, {'vcpus': 4}]])
    calls = []
    made.before = lambda: calls.append(1)
    assert len(made.plan()['moves']) == 2
    assert len(calls) == 7  # the snapshot, four kinds, the check of the two kinds that move


class OfTheUser(Filter):
    """Lets the servers of one user go to host 2 only."""

    def mask(self, hosts, request):
        return hosts.named(['host-2']) if request.user_id == 'one' else True


def test_a_filter_may_read_the_user():
    made = Planned([[{'user_id': 'one'}, {'user_id': 'other'}], 3, 2], [OfTheUser()])
    assert ways(made.plan('drain:host-0')) == [('host-0', 'host-1'), ('host-0', 'host-2')]


@each('seed', range(30))
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
    cluster, chain = made.cluster, made.world.scheduler.placer.rules
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


SECONDS = 60
SIZE, EVERYWHERE = np.array([8, 0, 0]), np.ones(3, dtype=bool)


class Answers:
    """A solver whose process answers as a test says; ``asked`` are the tasks."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def __call__(self):
        return contextlib.nullcontext(self)

    def ask(self, task, *arguments, seconds):
        self.asked.append((task, seconds))
        return self.answer


@pytest.fixture
def made():
    """A plan that empties host 0 of three."""
    return empty(problem([8, 8, 8], [2], [(0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 0)]), 3)


def test_a_better_plan_takes_the_place_of_the_first(made):
    made.moves, made.emptied, made.after = [], [], 0
    solver = Answers(([(0, 2)], 2))
    found = ThoroughSearch(SECONDS, solver).emptied(made, 3)
    assert (found.moves, found.emptied, found.after) == ([(0, 2)], [0], 1)
    assert (found.bound, found.bound_by, found.is_spent) == (2, SEARCH, made.is_spent)
    ((task, seconds),) = solver.asked
    assert task == 'nova_sched.extensions.optimize.rebalance.exact:empty'
    assert 0 < seconds <= SECONDS


@pytest.mark.parametrize(
    'answer, bound',
    [
        pytest.param(None, None, id='no process'),
        pytest.param((None, None), None, id='no plan in time'),
        pytest.param((None, 2), 2, id='a proof alone'),
        pytest.param(([], 2), 2, id='a worse plan'),
    ],
)
def test_the_first_plan_remains(made, answer, bound):
    moves = list(made.moves)
    found = ThoroughSearch(SECONDS, Answers(answer)).emptied(made, 3)
    assert (found.moves, found.bound) == (moves, bound)
    assert moves


def test_places(made):
    first = fit(made.problem, SIZE, EVERYWHERE, 0)
    solver = Answers(([(0, 2)], 1))
    found = ThoroughSearch(SECONDS, solver).fitting(first, SIZE, EVERYWHERE, 1)
    assert (found.moves, found.before, found.after, found.is_spent) == ([(0, 2)], 0, 1, True)
    assert (found.bound, solver.asked[0][0]) == (
        1,
        'nova_sched.extensions.optimize.rebalance.exact:fit',
    )


def test_no_search_without_time(made):
    solver = Answers(([], 0))
    assert ThoroughSearch(0.5, solver).emptied(made, 3) is made
    with move_planner.TURN:  # another search goes on
        assert ThoroughSearch(0.0, solver).emptied(made, 3) is made
    assert solver.asked == []


def test_plans_of_a_process():
    """From the host state to a proof and back, with the solver itself."""
    made = Planned([1, 3, 4])
    found = made.planner.plan(Scope(read_goal('empty')), 4, thorough_s=SECONDS)
    assert (len(found.emptied), found.bound, len(found.moves)) == (2, 2, 4)
    found = made.planner.plan(
        Scope(read_goal('fit:large')), 4, request(vcpus=16, memory_mb=1024), thorough_s=SECONDS
    )
    assert (found.before, found.after, found.bound, found.bound_by) == (0, 2, 2, SEARCH)


def test_a_search_keeps_rules_that_allow_less_than_is_free():
    """By the inventories all servers fit on host 1; the aggregate allows no oversubscription."""
    there = aggregate(1, ['host-0', 'host-1'], cpu_allocation_ratio='1.0')
    made = Planned([4, 6], [AggregateCoreFilter()], aggregates=[there], vcpus_ratio=2.0)
    found = made.planner.plan(Scope(read_goal('empty')), thorough_s=SECONDS)
    assert (found.moves, found.emptied) == ([], [])
    assert (found.bound, found.bound_by) == (1, PROGRAM)  # of the free amounts


@each('text', ['spread', 'drain:host-0'])
def test_goals_without_a_search(text):
    with pytest.raises(errors.InvalidRequest, match=f'goal {read_goal(text).kind}, but'):
        Planned([1, 1]).planner.plan(Scope(read_goal(text)), thorough_s=SECONDS)
