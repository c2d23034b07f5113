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
"""Weights by block: the best rows as a full pass finds them, and the weights of winners."""

import dataclasses
import json
import random
import types

import numpy as np

from nova_sched.engine.block_weights import BLOCK, BlockWeights
from nova_sched.engine.decide import WinnerWeights, best, weigh
from nova_sched.tests.builders import aggregate, cluster, put, report, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each, table
from nova_sched.weighers.cpu import CPUWeigher
from nova_sched.weighers.exit_time import ExitTimeWeigher
from nova_sched.weighers.ram import RAMWeigher

WEIGHERS = RAMWeigher(), CPUWeigher()
REQUEST = request(instance_uuid=uuid_of('new'), vcpus=1, memory_mb=512)


def weights_of(made, passing=None):
    passing = np.ones(len(made.hosts), dtype=bool) if passing is None else passing
    return BlockWeights(WEIGHERS, made.hosts, REQUEST, passing)


def full(made, passing=None):
    """All rows that pass, best first, by a full pass."""
    rows = np.arange(len(made.hosts)) if passing is None else np.flatnonzero(passing)
    return rows[best(weigh(WEIGHERS, made.hosts, rows, REQUEST), len(rows))].tolist()


def first(weights, count, *arguments):
    rows, found = weights.top(count, *arguments)
    return rows[best(found, count)].tolist()[:count]


@each('count', [1, 3, 50, 1000])
@each('step', [0, 1, 7919])
def test_the_best_rows_come_in_the_order_of_a_full_pass(count, step):
    made = cluster(500, vcpus_used=[row * step % 16 for row in range(500)])
    assert first(weights_of(made), count) == full(made)[:count]


@each('seed', range(4))
def test_changed_rows_are_weighed_again(seed):
    dice = random.Random(seed)
    made = cluster(300, vcpus_used=[dice.randrange(16) for _ in range(300)])
    passing = np.array([dice.random() < 0.7 for _ in range(300)])
    weights = weights_of(made, passing)
    for count in (1, 5, 60, 1, 5, 60):
        rows = np.array(sorted(dice.sample(range(300), count)))
        for row in rows:
            put(made, report(f'host-{row}', vcpus_used=dice.randrange(16)))
        passing[rows] = [dice.random() < 0.7 for _ in rows]
        weights.weigh_again(rows, made.hosts.what_if(rows), passing[rows])
        assert first(weights, 20) == full(made, passing)[:20]


@each('multiplier', [2.0, 0.1, -1.0])
def test_weights_per_request_are_those_of_the_latest(multiplier):
    """Whatever has changed of the hosts' ends since, and which rows pass."""
    dice, weighers = random.Random(multiplier), (*WEIGHERS, ExitTimeWeigher())
    made = cluster(300, vcpus_used=[dice.randrange(4) for _ in range(300)])
    hosts, passing = made.hosts, np.array([dice.random() < 0.7 for _ in range(300)])
    passing[BLOCK : 2 * BLOCK] = False
    with settings({'filter_scheduler.exit_time_weight_multiplier': multiplier}):
        weights = BlockWeights(weighers, hosts, REQUEST, passing)
        for ttl_s in (60, 7200, 600, 10**6, 3600):
            hosts.exit_s[:] = [
                dice.choice([0.0, 900.0 * dice.random(), np.inf]) for _ in range(300)
            ]
            row = np.array([dice.randrange(300)])
            passing[row] = True
            weights.weigh_again(row, hosts.what_if(row), passing[row])
            wanted = dataclasses.replace(REQUEST, hints={'ttl': [ttl_s]})
            weights.follow(wanted)
            rows = np.flatnonzero(passing)
            expected = rows[best(weigh(weighers, hosts, rows, wanted), 20)].tolist()
            assert first(weights, 20) == expected
            told = weights.winners(np.array(expected[:2]))
            raw = ExitTimeWeigher().raw(hosts, np.array(expected[:2]), wanted)
            assert told.raw[-1].tolist() == raw.tolist()


def test_each_request_weighs_two_rows_of_each_block():
    made, seen = cluster(1000), []

    class Watched(ExitTimeWeigher):
        def raw(self, hosts, rows, request):
            seen.append(len(rows))
            return super().raw(hosts, rows, request)

    with settings({'filter_scheduler.exit_time_weight_multiplier': 1.0}):
        weights = BlockWeights([Watched()], made.hosts, REQUEST, np.ones(1000, dtype=bool))
        seen.clear()
        weights.follow(REQUEST)
    assert seen == [2 * 16]


def test_few_rows_of_many_are_weighed():
    made = cluster(2000, vcpus_used=[row * 7919 % 16 for row in range(2000)])
    assert len(weights_of(made).top(3)[0]) <= 4 * BLOCK


def test_the_best_of_the_eligible_rows_are_found():
    made = cluster(500, vcpus_used=[row // 40 for row in range(500)])
    eligible = np.arange(500) >= 450
    rows, found = weights_of(made).top(2, eligible)
    own = eligible[rows]
    assert rows[own][best(found[own], 2)].tolist() == [450, 451]
    assert set(range(440)) <= set(rows.tolist())  # the better ones of all


def test_all_equal_rows_are_there_if_they_are_wanted():
    made = cluster(500)
    assert weights_of(made).top(1, all_equal=True)[0].tolist() == list(range(500))


def test_fewer_eligible_rows_than_wanted_are_all_there():
    made = cluster(200)
    assert len(weights_of(made).top(5, np.arange(200) == 7)[0]) == 200


def test_one_row_has_no_weight():
    rows, found = weights_of(cluster(2), np.array([False, True])).top(1)
    assert (rows.tolist(), found.tolist()) == ([1], [0.0])


A = types.SimpleNamespace(name='A')


@table(
    'multiplier, shown',
    {
        'one for all': (2.0, [2.0, 2.0]),
        'one for each': (np.array([1.0, 3.0, 5.0]), [5.0, 1.0]),
    },
)
def test_a_weight_by_its_parts(multiplier, shown):
    notes = [(A, np.array([5.0, 7.0, 9.0]), 1.0, 9.0, multiplier)]
    first, second = WinnerWeights.of_notes(notes, [2, 0]).told()
    assert first == {
        'weight': shown[0],
        'weights': [
            {
                'weigher': 'A',
                'raw': 9.0,
                'normalised': 1.0,
                'multiplier': shown[0],
                'weight': shown[0],
            }
        ],
    }
    assert (second['weight'], second['weights'][0]['raw']) == (0.5 * shown[1], 5.0)


def test_what_json_has_no_word_for_is_none():
    notes = [(A, np.array([np.inf, -0.0]), 0.0, 2.0, 1.0)]
    first, second = WinnerWeights.of_notes(notes, [0, 1]).told()
    assert (first['weight'], first['weights'][0]['raw']) == (None, None)
    assert json.dumps(second['weights'][0]['raw']) == '0.0'


def test_a_scale_without_a_length_gives_no_weight():
    notes = [(A, np.array([3.0, 3.0]), 3.0, 3.0, 1.0)]
    (found,) = WinnerWeights.of_notes(notes, [1]).told()
    assert (found['weight'], found['weights'][0]['normalised']) == (0.0, 0.0)


def both(made, rows):
    """The winners' weights from a full pass and from kept weights, with the sums."""
    hosts, notes = made.hosts, []
    weights = weigh(WEIGHERS, hosts, np.arange(len(hosts)), REQUEST, notes)
    kept = BlockWeights(WEIGHERS, hosts, REQUEST, np.ones(len(hosts), dtype=bool))
    kept.top(len(rows))
    return (
        WinnerWeights.of_notes(notes, rows).told(),
        kept.winners(rows).told(),
        weights[rows].tolist(),
    )


@each('hosts', [1, 2, 200])
def test_full_passes_and_kinds_tell_the_same(hosts):
    made = cluster(hosts, vcpus_used=[row * 7919 % 16 for row in range(hosts)])
    full, kept, sums = both(made, list(range(0, hosts, 70)))
    assert full == kept
    assert [one['weight'] for one in full] == sums
    assert len(full[0]['weights']) == (hosts > 1 and len(WEIGHERS))


def test_a_multiplier_of_an_aggregate():
    groups = [aggregate(1, ['host-3'], cpu_weight_multiplier='4')]
    made = cluster(200, groups, vcpus_used=[row % 16 for row in range(200)])
    full, kept, sums = both(made, [3, 4, 130])
    assert full == kept
    assert [one['weight'] for one in full] == sums
    assert [one['weights'][1]['multiplier'] for one in full] == [4.0, 1.0, 1.0]
