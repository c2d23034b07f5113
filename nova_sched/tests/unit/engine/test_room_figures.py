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
"""Sums of capacity, usage and stranded units; and when they are made."""

from concurrent.futures import Future

import pytest

from nova_sched.engine.room_figures import EVERY_S, RoomFigures, room, states
from nova_sched.measures import catalogue
from nova_sched.tests.builders import NOW, aggregate, cluster, report
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.world import World


def test_sums_by_zone_and_by_aggregate():
    groups = [
        aggregate(1, ['host-0', 'host-1'], availability_zone='east'),
        aggregate(2, ['host-1', 'host-2']),
    ]
    made = cluster(3, groups, vcpus=4, vcpus_used=[0, 1, 4])
    by_zone, by_aggregate = room(made.hosts, 'nova')
    assert by_zone['VCPU', 'east'][:2].tolist() == [8, 1]
    assert by_zone['VCPU', 'nova'][:2].tolist() == [4, 4]
    assert by_aggregate['VCPU', 'aggregate 1'][:2].tolist() == [8, 1]
    assert by_aggregate['VCPU', 'aggregate 2'][:2].tolist() == [8, 5]


def test_units_that_the_scarcest_class_cannot_match_are_stranded():
    made = cluster(
        2, vcpus=4, vcpus_used=[4, 2], memory_mb=1024, memory_mb_used=[0, 512], disk_gb=0
    )
    (by_zone, _) = room(made.hosts, 'nova')
    # The first host has memory but no CPU, the second has half of both.
    assert by_zone['MEMORY_MB', 'nova'].tolist() == [2048, 512, 1024]
    assert by_zone['VCPU', 'nova'].tolist() == [8, 6, 0]


def test_no_hosts():
    assert room(cluster(0).hosts, 'nova') == ({}, {})


@each(
    'column, state',
    [
        pytest.param('disabled', 'disabled', id='disabled'),
        pytest.param('forced_down', 'forced down', id='forced down'),
        pytest.param(None, 'silent', id='without a heartbeat'),
    ],
)
def test_states(column, state):
    hosts = cluster(3).hosts
    hosts.seen_s[:] = NOW
    if column is None:
        hosts.seen_s[1] = NOW - 61
    else:
        getattr(hosts, column)[1] = True
    found = states(hosts, NOW, 60)
    assert (found['up'], found[state], sum(found.values())) == (2, 1, 3)


class TestRefresh:
    @pytest.fixture
    def made(self):
        world = World()
        world.report(*(report(f'host-{row}', vcpus=4) for row in range(2)))
        self.now_s, self.futures = 0.0, []
        self.figures = RoomFigures(world.scheduler.context, self._send, clock=lambda: self.now_s)
        return world

    def _send(self, work):
        future = Future()
        self.futures.append((future, work))
        return future

    def test_gauges_of_the_host_state(self, made):
        self.figures.refresh()
        ((future, work),) = self.futures
        future.set_result(work())
        assert catalogue.HOSTS.values['up',] == 2
        assert catalogue.CAPACITY.values['VCPU', 'nova'] > 0
        assert catalogue.USAGE.values['VCPU', 'nova'] == 0

    def test_a_loop_that_fails_leaves_them(self, made):
        catalogue.HOSTS.replace({('up',): 5})
        self.figures.refresh()
        self.futures[0][0].set_exception(RuntimeError('stopped'))
        assert catalogue.HOSTS.values == {('up',): 5}

    def test_not_more_often_than_needed(self, made):
        for self.now_s in (0.0, 1.0, EVERY_S - 1, EVERY_S):
            self.figures.refresh()
        assert len(self.futures) == 2
