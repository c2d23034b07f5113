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
"""The simulated clock, and the replay of a trace."""

import collections

from nova_sched.extensions.simulator.conductor import Boot
from nova_sched.extensions.simulator.replay import Clock, Demand, ReplayTally, short, use_by_zone
from nova_sched.tests.rows import table
from nova_sched.tests.unit.extensions.simulator.builders import GIB, SMALL, arrival, node


@table(
    'due, moves, given',
    {
        'nothing is due': ([], [10], [[]]),
        'not yet': ([(5, 'a')], [4], [[]]),
        'exactly now': ([(5, 'a')], [5], [['a']]),
        'in order of time': ([(5, 'a'), (3, 'b')], [10], [['b', 'a']]),
        'at one time in order of asking': ([(5, 'b'), (5, 'a')], [10], [['b', 'a']]),
        'each once': ([(5, 'a'), (15, 'b')], [10, 20, 30], [['a'], ['b'], []]),
        'what cannot be compared': ([(5, {}), (5, {})], [10], [[{}, {}]]),
    },
)
def test_what_falls_due(due, moves, given):
    clock = Clock()
    for when_s, what in due:
        clock.at(when_s, what)
    assert [list(clock.move(to_s)) for to_s in moves] == given


def test_it_stands_still_between_moves_and_never_goes_back():
    clock = Clock(100.0)
    assert clock() == 100.0
    clock.at(120.0, 'a')
    clock.at(50.0, 'late')
    seen = [(what, clock()) for what in clock.move(150.0)]
    assert seen == [('late', 100.0), ('a', 120.0)]
    assert list(clock.move(10.0)) == []
    assert clock() == 150.0


def test_what_an_event_brings_about_falls_due_in_the_same_move():
    clock = Clock()
    clock.at(1, 'first')
    given = []
    for what in clock.move(10):
        given.append(what)
        if what == 'first':
            clock.at(2, 'second')
    assert given == ['first', 'second']


ZONES = ['zone-1', 'zone-2', 'zone-3']


@table(
    'reason, name',
    {
        'the rule': (
            (
                'There are not enough hosts available. Of 201 hosts, '
                'ResourceCapacity removed the last 37.'
            ),
            'ResourceCapacity',
        ),
        'no rule: without numbers': (
            'Hosts that fit were taken by other requests, 10 times in a row.',
            'Hosts that fit were taken by other requests, N times in a row.',
        ),
        'nothing': ('', ''),
    },
)
def test_what_refusals_are_grouped_by(reason, name):
    assert short(reason) == name


def test_a_tally():
    tally = ReplayTally()
    tally.add(arrival(3), None, Boot({'a': 'host', 'b': 'host'}, 0.5, moved=1, failed=1))
    tally.add(arrival(2), 'zone-1', Boot({}, 0.1, 'Of 9 hosts, RamFilter removed the last 9.'))
    tally.add(arrival(4), 'zone-1', Boot({}, 0.1, 'Of 8 hosts, RamFilter removed the last 7.'))
    counts = (
        tally.requests,
        tally.servers,
        tally.placed,
        tally.refused,
        tally.failed,
        tally.moved,
    )
    assert counts == (3, 9, 2, 6, 1, 1)
    assert tally.running == 2
    assert tally.latencies_s == [0.5, 0.1, 0.1]
    (refusal,) = tally.refusals.values()
    assert (refusal.requests, refusal.servers, refusal.asked) == (2, 6, {(SMALL, 'zone-1'): 2})


@table('zoned, most', {'nobody names a zone': (0.0, None), 'everybody does': (1.0, 'zone-1')})
def test_the_share_of_batches_that_name_a_zone(zoned, most):
    demand = Demand(ZONES, zoned, seed=1)
    counts = collections.Counter(demand.zone(batch) for batch in range(700))
    assert counts.most_common(1)[0][0] == most
    assert set(counts) == ({None} if zoned == 0.0 else set(ZONES))


def test_each_zone_is_half_as_popular_as_the_one_before():
    demand = Demand(ZONES, 1.0, seed=1)
    counts = collections.Counter(demand.zone(batch) for batch in range(7000))
    assert [round(counts[zone] / 1000) for zone in ZONES] == [4, 2, 1]


def test_the_same_seed_makes_up_the_same():
    one, same, other = Demand(ZONES, 0.5, 1), Demand(ZONES, 0.5, 1), Demand(ZONES, 0.5, 2)
    uuids = one.uuids(50)
    assert uuids == same.uuids(50) != other.uuids(50)
    assert len(set(uuids)) == 50
    zones = [[demand.zone(batch) for batch in range(50)] for demand in (one, same, other)]
    assert zones[0] == zones[1] != zones[2]


def test_use_is_summed_by_zone():
    first, second = node('a', 'b', vcpus=4), node('c', vcpus=8, memory_gib=32)
    second.zone = 'zone-2'
    third = node(vcpus=4)
    assert use_by_zone([first, second, third]) == {
        'zone-1': {'VCPU': (2, 8), 'MEMORY_MB': (2 * GIB, 32 * GIB)},
        'zone-2': {'VCPU': (1, 8), 'MEMORY_MB': (1 * GIB, 32 * GIB)},
    }
