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
"""Tests of hourly moves in a replay."""

import pytest

from nova_sched.claim import MEMORY_MB, VCPU
from nova_sched.sim.replays import moves
from nova_sched.tests.unit.sim.replays.test_run import HOUR_S, arrival, replay

LEAVES_S = 11.5 * HOUR_S  # before the first moves


def half_full(share):
    """Three hosts that a server half fills each, after others have left; then moves."""
    arrivals = [arrival(2 * one, 2, 0.0, lifetimes_s=[LEAVES_S, None]) for one in range(3)]
    hourly = moves.HourlyMoves(share)
    made, course = replay(arrivals, hosts=3, hourly=hourly, end_s=14 * HOUR_S)
    return made, course, hourly


@pytest.mark.parametrize('share, made, empty', [(0.0, 0, 0), (0.4, 1, 1), (1.0, 1, 1)])
def test_moves_empty_hosts(share, made, empty):
    replayed, course, hourly = half_full(share)
    hosts = replayed.scheduler.call(lambda: replayed._hosts)
    assert (hourly.made, int((hosts.num_instances == 0).sum())) == (made, empty)
    assert course.refused == 0


def test_a_moved_server_has_one_claim():
    replayed, _, _ = half_full(1.0)
    claims = replayed._store.claims()
    assert len({claim.consumer_uuid for claim in claims}) == len(claims) == 3
    assert all(claim.is_confirmed and claim.move is None for claim in claims)


def test_the_cluster_as_the_planner_reads_it():
    replayed, _, _ = half_full(0.0)
    fleet = moves.fleet_of(replayed._cluster)
    assert sorted(fleet.columns) == sorted([VCPU, MEMORY_MB])
    assert fleet.counts.tolist() == [1, 1, 1]
    assert fleet.free[:, fleet.columns.index(VCPU)].tolist() == [2, 2, 2]
    assert fleet.demand[:, fleet.columns.index(VCPU)].tolist() == [2]
