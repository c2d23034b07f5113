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
"""What users ask of a simulated cloud: how the trace is scaled to a fleet."""

import pytest

from nova_sched.sim.models import load
from nova_sched.sim.replay import Demand
from nova_sched.sim.trace import Flavor
from nova_sched.tests.unit.sim.builders import SMALL, arrival

LARGE = Flavor('large', 4, 8192)


def asks(arrivals, vcpus, by_rule=0.0, seed=1):
    return load.asks(arrivals, vcpus, Demand(['zone-1'], 0.0, seed), by_rule, seed)


@pytest.mark.parametrize(
    'arrivals, peak',
    [
        pytest.param([arrival(3)], 3, id='all stay'),
        pytest.param([arrival(2, flavor=LARGE)], 8, id='vCPUs, not servers'),
        pytest.param(
            [arrival(3, lifetime_s=10), arrival(2, time_s=20)], 3, id='some leave before others'
        ),
        pytest.param(
            [arrival(3, lifetime_s=30), arrival(2, time_s=20)], 5, id='some leave after that'
        ),
    ],
)
def test_the_peak_is_what_is_in_use_at_once(arrivals, peak):
    assert load.peak_vcpus(arrivals) == peak


@pytest.mark.parametrize(
    'vcpus, servers',
    [
        pytest.param(3, 3, id='as it is'),
        pytest.param(9, 9, id='three times'),
    ],
)
def test_the_trace_is_repeated_until_the_peak_is_reached(vcpus, servers):
    found = asks([arrival(2), arrival(1, time_s=300)], vcpus)
    assert len(found) == servers
    assert len({one.uuid for one in found}) == servers
    assert [one.time_s for one in found] == sorted(one.time_s for one in found)


def test_of_a_broken_repetition_batches_come_by_chance_and_whole():
    found = asks([arrival(4, batch=f'b{number}') for number in range(50)], 300)
    assert len(found) % 4 == 0
    assert 200 < len(found) < 400


def test_a_batch_comes_together_and_its_copies_at_other_moments():
    moments = [one.time_s for one in asks([arrival(2)], 4)]
    assert sorted(moments.count(moment) for moment in set(moments)) == [2, 2]
    assert all(0 <= moment - load.START_S <= load.GRID_S for moment in moments)


@pytest.mark.parametrize(
    'share, ruled',
    [pytest.param(0.0, {False}, id='nobody'), pytest.param(1.0, {True}, id='everybody')],
)
def test_who_asks_for_what_no_queue_tells(share, ruled):
    found = asks([arrival(2), arrival(1)], 3, by_rule=share)
    assert {one.by_rule for one in found} == ruled
    assert {bool(one.spec().ignore_hosts) for one in found} == ruled


def test_the_same_seed_asks_for_the_same():
    arrivals = [arrival(2, batch='a'), arrival(1, time_s=300, flavor=LARGE, batch='b')]
    assert asks(arrivals, 20) == asks(arrivals, 20)
    assert asks(arrivals, 20) != asks(arrivals, 20, seed=2)


def test_only_the_first_hours_count():
    arrivals = [arrival(1, time_s=100.0), arrival(1, time_s=3699.0), arrival(1, time_s=3700.0)]
    assert load.cut(arrivals, 1.0) == arrivals[:2]


def test_the_mix_counts_servers():
    assert load.mix([arrival(2), arrival(1, flavor=LARGE), arrival(3)]) == {SMALL: 5, LARGE: 1}
