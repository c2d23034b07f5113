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
"""Tests of a replay through the engine: policies, what becomes of servers, and hourly moves."""

import pytest

from nova_sched import errors
from nova_sched.claim import MEMORY_MB, VCPU
from nova_sched.conf import CONF
from nova_sched.extensions.simulator.replays import run, workloads
from nova_sched.state.request import Request
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each, table

AMOUNTS = {VCPU: 4, MEMORY_MB: 4096}
HOUR_S = 3600.0


def arrival(first, vcpus=1, time_s=0.0, lifetimes_s=(None,), kind='small'):
    """Servers of one size, whose numbers begin with ``first``."""
    requests = tuple(
        Request(
            workloads.server_uuid(first + number),
            vcpus=vcpus,
            resources={VCPU: vcpus, MEMORY_MB: 1024 * vcpus},
        )
        for number in range(len(lifetimes_s))
    )
    return workloads.Arrival(requests, vcpus, kind, time_s, tuple(lifetimes_s))


def work(arrivals, hosts=2, **fields):
    reports = [workloads.report(f'host-{number}', AMOUNTS) for number in range(hosts)]
    return workloads.Workload('test', 'vCPUs', reports, 4 * hosts, lambda seed: arrivals, **fields)


def replay(arrivals, policy='first-fit', hosts=2, hourly=None, until_refusal=False, **fields):
    with settings({**run.ALWAYS, **run.BUILT_IN[policy]}):
        made = run.EngineReplay(work(arrivals, hosts, **fields), CONF, 1, hourly, until_refusal)
        return made, made.run()


def test_servers_are_placed_until_nothing_fits():
    arrivals = [arrival(0, 3), arrival(1, 3), arrival(2, 2, kind='large'), arrival(3)]
    _, course = replay(arrivals)
    assert (course.servers, course.refused, course.first_refusal) == (4, 1, 2)
    assert course.allocated == pytest.approx(100 * 7 / 8)
    assert course.kinds == {'large': (0, 1), 'small': (3, 3)}
    assert course.empty is None
    assert len(course.took_s) == 4


def test_a_request_is_placed_whole_or_not_at_all():
    _, course = replay([arrival(0, 3, lifetimes_s=[None] * 3), arrival(3)])
    assert (course.servers, course.refused, course.first_refusal) == (4, 3, 0)


def test_a_replay_ends_with_the_first_refusal_if_it_may_have_none():
    _, course = replay([arrival(0, 5), arrival(1)], until_refusal=True)
    assert (course.servers, course.refused) == (1, 1)


def test_servers_leave_when_their_time_is_over():
    arrivals = [
        arrival(0, 4, lifetimes_s=[100.0, 200.0]),
        arrival(2, 4, 150.0, [1000.0]),
        arrival(3, 4, 150.0),
    ]
    _, course = replay(arrivals, end_s=400.0)
    assert (course.left, course.refused) == (2, 1)
    assert [(one.time_s, one.empty, one.allocated) for one in course.samples] == [
        (0.0, 0, 100.0),
        (150.0, 0, 100.0),
    ]


def test_empty_hosts_are_counted_over_time():
    """Both hosts are empty for half of the time, one for a quarter."""
    arrivals = [arrival(0, 4, 0.0, [500.0]), arrival(1, 4, 0.0, [250.0])]
    _, course = replay(arrivals, end_s=1000.0)
    assert course.empty == pytest.approx(100 * (0.25 * 0 + 0.25 * 0.5 + 0.5))


def test_time_before_the_measurement_does_not_count():
    arrivals = [arrival(0, 4, 0.0, [500.0]), arrival(1, 4, 0.0, [250.0])]
    _, course = replay(arrivals, measured_s=500.0, end_s=1000.0)
    assert course.empty == pytest.approx(100.0)


def test_the_allocated_share_is_recorded_as_load_comes():
    _, course = replay([arrival(number) for number in range(10)])
    assert course.marks == {80: pytest.approx(87.5), 90: 100.0, 100: 100.0}
    assert [one.load for one in course.samples] == [12.5 * (one + 1) for one in range(10)]
    assert course.samples[-1].refused == 2


def test_claims_of_servers_are_those_of_the_store():
    made, _ = replay([arrival(0), arrival(1, 1, 0.0, [10.0])], end_s=20.0)
    claims = made.scheduler.claim_service.claims_of(workloads.server_uuid(0))
    assert [claim.is_confirmed for claim in claims] == [True]
    assert made.scheduler.claim_service.claims_of(workloads.server_uuid(1)) == []


def test_what_happens_each_hour_may_move_servers():
    times = []
    arrivals = [arrival(0), arrival(1, 1, 2.5 * HOUR_S)]

    def hourly(scheduler, cluster):
        times.append(scheduler.clock())

    replay(arrivals, hourly=hourly, end_s=3 * HOUR_S)
    assert times == [run.EPOCH_S + hour * HOUR_S for hour in (1, 2, 3)]


@each('policy, empty', [('nova', 0), ('best-fit', 1), ('keep-empty', 1)])
def test_policies_choose_hosts(policy, empty):
    _, course = replay([arrival(0), arrival(1)], policy)
    assert course.samples[-1].empty == empty


def test_a_run_is_the_same_each_time():
    arrivals = [arrival(number, 1 + number % 3) for number in range(60)]
    courses = [replay(arrivals, 'fragmentation', hosts=20)[1] for _ in range(2)]
    assert courses[0].samples == courses[1].samples


@each('low, high, fewest', [(1, 8, 3), (3, 3, 3), (1, 2, None), (4, 9, 4)])
def test_the_fewest_hosts_without_a_refusal(low, high, fewest):
    arrivals = [arrival(number, 4) for number in range(3)]
    with settings({**run.ALWAYS, **run.BUILT_IN['first-fit']}):
        found = run.fewest_hosts(lambda hosts: work(arrivals, hosts), CONF, low, high)
    assert found == fewest


LEAVES_S = 11.5 * HOUR_S  # before the first moves


def half_full(share):
    """Three hosts that a server half fills each, after others have left; then moves."""
    arrivals = [arrival(2 * one, 2, 0.0, lifetimes_s=[LEAVES_S, None]) for one in range(3)]
    hourly = run.HourlyMoves(share)
    made, course = replay(arrivals, hosts=3, hourly=hourly, end_s=14 * HOUR_S)
    return made, course, hourly


@each('share, made, empty', [(0.0, 0, 0), (0.4, 1, 1), (1.0, 1, 1)])
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
    problem = run.problem_of(replayed._cluster)
    assert sorted(problem.columns) == sorted([VCPU, MEMORY_MB])
    assert problem.counts.tolist() == [1, 1, 1]
    assert problem.free[:, problem.columns.index(VCPU)].tolist() == [2, 2, 2]
    assert problem.demand[:, problem.columns.index(VCPU)].tolist() == [2]


@pytest.fixture
def conf():
    """The configuration, which a test may change."""
    yield CONF
    for options in run.BUILT_IN.values():
        for name in {**run.ALWAYS, **options}:
            group, _, option = name.partition('.')
            CONF.clear_override(option, group=None if group == 'default' else group)


def test_a_built_in_policy():
    name, options, path = run.read_policy('best-fit')
    assert (name, path) == ('best-fit', None)
    assert options['filter_scheduler.cpu_weight_multiplier'] == -1.0
    assert options['filter_scheduler.fragmentation_weight_multiplier'] == 0.0


def test_a_policy_of_a_file(tmp_path):
    file = tmp_path / 'mine.conf'
    file.write_text('')
    assert run.read_policy(f'mine={file}') == ('mine', {}, str(file))


@table(
    'text, why',
    {
        'unknown': ('bestfit', 'one of nova, first-fit'),
        'no file': ('mine=/nowhere/at/all', 'no file /nowhere/at/all'),
    },
)
def test_a_policy_that_cannot_be_read(text, why):
    with pytest.raises(errors.BadConfig, match=why):
        run.read_policy(text)


def test_later_options_count(conf):
    name = 'filter_scheduler.ram_weight_multiplier'
    run.apply_options(conf, {name: 2.0}, run.BUILT_IN['keep-empty'])
    wanted = conf.filter_scheduler
    assert (wanted.ram_weight_multiplier, wanted.keep_empty) == (0.0, True)
    assert conf.service_down_time == 10**9
