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
"""Counts of a run, and processor time by component."""

import math

import pytest

from nova_sched.sim.models import report
from nova_sched.sim.models.tally import CLAIMS, MANAGER, WORKERS, Meter, ModelTally, sample
from nova_sched.sim.replay import Clock
from nova_sched.sim.trace import TraceFlavor
from nova_sched.tests.builders import cluster


def work(clock, seconds):
    assert list(clock.move(clock() + seconds)) == []


def test_what_is_done_within_something_counts_for_itself_alone():
    clock = Clock()
    meter = Meter(clock)
    work(clock, 1.0)
    with meter.of(MANAGER):
        work(clock, 2.0)
        with meter.of(CLAIMS):
            work(clock, 4.0)
        work(clock, 8.0)
    work(clock, 16.0)
    assert meter.total() == 31.0
    assert meter.seconds == {WORKERS: 17.0, MANAGER: 10.0, CLAIMS: 4.0}


def test_an_error_ends_a_turn_too():
    clock = Clock()
    meter = Meter(clock)
    try:
        with meter.of(MANAGER):
            raise KeyError
    except KeyError:
        work(clock, 1.0)
    assert meter.total() == meter.seconds[WORKERS] == 1.0


def test_a_new_start_forgets_earlier_values():
    clock = Clock()
    meter = Meter(clock)
    work(clock, 1.0)
    meter.clear()
    work(clock, 2.0)
    assert meter.total() == 2.0


LARGE = TraceFlavor('large', 8, 8192)


@pytest.mark.parametrize(
    'columns, vcpus, nodes, room',
    [
        pytest.param({'vcpus_used': [0, 0]}, 0.0, 0, 4, id='empty'),
        pytest.param({'vcpus_used': [16, 0]}, 0.5, 1, 2, id='one is full'),
        pytest.param({'vcpus_used': [9, 9]}, 0.5625, 2, 0, id='what is left is in pieces'),
        pytest.param({'memory_mb_used': [0, 12288]}, 0.0, 0, 2, id='memory is short, not vCPUs'),
        pytest.param(
            {'vcpus_used': [16, 4], 'disabled': [True, False]}, 0.25, 1, 1, id='a disabled one'
        ),
        pytest.param({'vcpus_used': [20, 0]}, 0.625, 1, 2, id='more in use than there is'),
    ],
)
def test_how_full_the_nodes_are(columns, vcpus, nodes, room):
    found = sample(cluster(vcpus=16, memory_mb=16384, **columns), LARGE, 7.0)
    assert (found.time_s, found.vcpus, found.nodes_in_use, found.room) == (7.0, vcpus, nodes, room)


def test_every_message_on_a_bus_counts():
    tally = ModelTally(reports=3, casts=2)
    tally.calls['instance_claim'] = 5
    tally.wire['publish'], tally.wire['ack'] = 7, 100
    assert tally.messages == 2 * 5 + 2 * 3 + 2 + 7


@pytest.mark.parametrize(
    'ranks, mean, best, good',
    [
        pytest.param([(0, 100)], 0.0, 1.0, 1.0, id='the best of all'),
        pytest.param(
            [(1, 100)], 0.01, 0.0, 1.0, id='the second of a hundred is not in the best hundredth'
        ),
        pytest.param([(0, 3)], 0.0, 1.0, 1.0, id='of three, the first is in the best hundredth'),
        pytest.param([(1, 3)], 1 / 3, 0.0, 0.0, id='and the second is not'),
        pytest.param([(0, 100), (50, 100)], 0.25, 0.5, 0.5, id='half of the servers'),
    ],
)
def test_how_near_the_best_host_servers_came(ranks, mean, best, good):
    tally = ModelTally(ranks=ranks)
    assert tally.mean_rank == pytest.approx(mean)
    assert (tally.rank_share(0.01), tally.rank_share(0.1)) == (best, good)


def test_without_servers_there_is_no_rank():
    assert math.isnan(ModelTally().mean_rank)
    assert math.isnan(ModelTally().rank_share(0.1))


@pytest.mark.parametrize('model', ['queues', 'scheduler'])
def test_a_run_without_events_has_figures_and_a_table(model):
    found = report.figures(model, ModelTally())
    assert (found['placed'], found['first_refusal'], found['messages_per_server']['all']) == (
        0,
        None,
        0,
    )
    assert dict(report.rows(model, found))['placed'] == '0 (0.0%)'
