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
"""Tests of slices: where each scheduler looks, and when one leaves its slice."""

import collections
import itertools
import random

import numpy as np

from nova_sched.engine import Settings
from nova_sched.engine.catalog import weighers as all_weighers
from nova_sched.engine.decide import places_in_slice, settings_for
from nova_sched.engine.place import Placer
from nova_sched.engine.sync.membership import SchedulerMembership
from nova_sched.tests.builders import cluster, hosts, report, request, uuid_of
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.engine.world import Score, World, rules, spreading
from nova_sched.weighers.ram import RAMWeigher


class Load(Score):
    """A weigher of what claims change."""

    load = True


def of(position, schedulers, **words):
    return Settings(position=position, schedulers=schedulers, **words)


def own(seen, weights, settings, weighers=(), rows=None):
    rows = np.arange(len(seen)) if rows is None else np.array(rows)
    found = places_in_slice(
        weighers, seen, rows, np.array(weights, dtype=float), request(), settings, len(rows)
    )
    return None if found is None else found.tolist()


def owners(seen, schedulers):
    """The position of each row's scheduler, found by asking each of them."""
    held = {
        position: own(seen, [0] * len(seen), of(position, schedulers))
        for position in range(schedulers)
    }
    return [
        next(position for position, rows in held.items() if row in rows)
        for row in range(len(seen))
    ]


@table(
    'position_and_count, losses, words',
    {
        'alone': ((0, 1), 0, {}),
        'one of four': ((2, 4), 0, {'position': 2, 'schedulers': 4}),
        'alone, but lost': ((0, 1), 1, {'subset_size': 4}),
        'lost twice': ((2, 4), 2, {'position': 2, 'schedulers': 4, 'subset_size': 16}),
    },
)
def test_settings(position_and_count, losses, words):
    assert settings_for(Settings(), position_and_count, losses) == Settings(**words)


@each('losses, size', [(0, 10), (1, 10), (2, 16)])
def test_a_subset_that_the_operator_wants_is_no_smaller_after_a_loss(losses, size):
    assert settings_for(Settings(subset_size=10), (0, 1), losses).subset_size == size


class TestWhoseHost:
    @each('schedulers', range(2, 9))
    def test_each_host_is_in_one_slice(self, schedulers):
        seen = hosts(200)
        found = [own(seen, [0] * 200, of(position, schedulers)) for position in range(schedulers)]
        assert sorted(itertools.chain(*found)) == list(range(200))
        assert min(map(len, found)) > 200 / schedulers / 3

    def test_all_see_the_same_slices_in_whatever_order_they_have_the_hosts(self):
        names = [f'host-{number}' for number in range(40)]
        mixed = random.Random(1).sample(names, len(names))
        in_order = dict(zip(names, owners(hosts(host=names), 3), strict=True))
        assert dict(zip(mixed, owners(hosts(host=mixed), 3), strict=True)) == in_order

    def test_slices_follow_hosts_that_come_and_go(self):
        held = cluster(30)
        before = dict(
            zip([node.uuid for node in held.hosts.nodes], owners(held.hosts, 4), strict=True)
        )
        held.remove(held.hosts.nodes[3].uuid)
        held.put(report(host='another'))
        after = dict(
            zip([node.uuid for node in held.hosts.nodes], owners(held.hosts, 4), strict=True)
        )
        assert {
            uuid: position for uuid, position in after.items() if uuid in before
        }.items() <= before.items()
        assert len(after.keys() - before.keys()) == 1


# Four hosts of scheduler 0 of two, then four of the other.
NAMES = [f'host-{number}' for number in range(40)]
BY_OWNER = collections.defaultdict(list)
for name, position in zip(NAMES, owners(hosts(host=NAMES), 2), strict=True):
    BY_OWNER[position].append(name)
EIGHT = BY_OWNER[0][:4] + BY_OWNER[1][:4]
MINE = [0, 1, 2, 3]


class TestOwn:
    @table(
        'weights, settings, found',
        {
            'alone': ([0] * 8, of(0, 1), None),
            'all the same': ([0] * 8, of(0, 2), MINE),
            'the best of all is there': ([9, 0, 0, 0, 8, 7, 6, 5], of(0, 2), MINE),
            'four of eight are better': ([1, 0, 0, 0, 9, 9, 9, 9], of(0, 2), MINE),
            'its best counts': ([2, 0, 0, 9, 3, 3, 3, 10], of(0, 2), MINE),
            'no matter how much': ([-9, -9, -9, -9, 0, 0, 0, 0], of(0, 2), MINE),
        },
    )
    def test_where_a_scheduler_looks(self, weights, settings, found):
        assert own(hosts(host=EIGHT), weights, settings) == found

    @table(
        'rows, weights, found',
        {
            'three of four are better': ([0, 4, 5, 6], [1, 2, 2, 2], [0]),
            'four of five are better': ([0, 4, 5, 6, 7], [1, 2, 2, 2, 2], None),
            'as good is not better': ([0, 4, 5, 6, 7], [1, 2, 2, 2, 1], [0]),
            'no own host is left': ([4, 5, 6], [1, 2, 3], None),
            'one host': ([4], [0], None),
            'positions, not rows': ([1, 4], [0, 1], [0]),
        },
    )
    def test_among_the_hosts_that_are_left(self, rows, weights, found):
        assert own(hosts(host=EIGHT), weights, of(0, 2), rows=rows) == found

    @table(
        'weigher, found',
        {
            'fuller': (Load(0, 0, 0, 0, 9, 9, 9, 9), MINE),
            'not preferred for something else': (Score(0, 0, 0, 0, 9, 9, 9, 9), None),
            'preferred as well': (Score(3, 0, 0, 0, 3, 0, 0, 0), MINE),
            'which counts nothing': (Score(0, 0, 0, 0, 9, 9, 9, 9, multiplier=0.0), MINE),
            'nor on these hosts': (Score(0, 0, 0, 0, 9, 9, 9, 9, multiplier=[0.0] * 8), MINE),
            'but on one of them': (
                Score(0, 0, 0, 0, 9, 9, 9, 9, multiplier=[0.0] * 4 + [1.0] * 4),
                None,
            ),
            'no opinion': (Score(None), MINE),
        },
    )
    def test_only_load_is_given_up(self, weigher, found):
        weights = [1, 0, 0, 0, 2, 0, 0, 0]
        assert (
            own(hosts(host=EIGHT), weights, of(0, 2), [Load(0, 0, 0, 0, 1, 1, 1, 1), weigher])
            == found
        )


def test_which_weighers_are_about_load():
    load = {weigher.name for weigher in all_weighers() if weigher.load}
    assert load == {
        'RAMWeigher',
        'CPUWeigher',
        'DiskWeigher',
        'ExitTimeWeigher',
        'FragmentationWeigher',
        'IoOpsWeigher',
        'NumInstancesWeigher',
        'PCIWeigher',
    }


def chosen(settings, times=1, seed=1, memory_mb=65536):
    """Hosts that a placer chooses, each as if the others had not been."""
    held = cluster(host=EIGHT, memory_mb=memory_mb)
    placer = Placer(held, rules(weighers=[RAMWeigher()]), random.Random(seed))
    found = []
    for _ in range(times):
        decision = placer.decide([request(memory_mb=1)], settings)
        found.append(held.hosts.nodes[decision.rows[0]].host)
        placer.undo(decision)
    return found


@table(
    'settings, found',
    {
        'alone: the first of the best': (of(0, 1), EIGHT[:1]),
        'the first of its own': (of(0, 2), EIGHT[:1]),
        'and the other one': (of(1, 2), EIGHT[4:5]),
        'a subset of its own': (of(1, 2, subset_size=3), EIGHT[4:7]),
        'shuffled with its own': (of(1, 2, shuffle=True), EIGHT[4:]),
        'alone: a subset as in Nova': (of(0, 1, subset_size=3), EIGHT[:3]),
        'alone: shuffled as in Nova': (of(0, 1, shuffle=True), EIGHT),
    },
)
def test_what_is_chosen(settings, found):
    assert set(chosen(settings, times=100)) == set(found)


def test_the_best_of_the_slice_is_chosen():
    memory_mb = [2000, 2000, 3000, 2000, 4000, 9000, 4000, 9000]
    assert chosen(of(0, 2), memory_mb=memory_mb) == EIGHT[2:3]
    assert chosen(of(1, 2), memory_mb=memory_mb) == EIGHT[5:6]


def test_two_schedulers_that_do_not_see_each_other_choose_different_hosts():
    worlds = []
    for position in range(2):
        membership = SchedulerMembership()
        membership.position_and_count = (position, 2)
        worlds.append(
            World(worlds[0].store if worlds else None, spreading(), membership=membership)
        )
        worlds[0].report(*[report(host=name) for name in EIGHT])
    worlds[1].state_sync.refresh()
    found = []
    for number in range(8):
        asked = request(instance_uuid=uuid_of(f'server {number}'), memory_mb=512)
        found.append(worlds[number % 2].place(asked)[0][0])
    assert sorted(found) == sorted(EIGHT)
    assert [world.scheduler.figures.conflicts for world in worlds] == [0, 0]
