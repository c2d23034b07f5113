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
"""Tests of reading a trace with departures as a workload."""

import pytest

from nova_sched.sim import trace
from nova_sched.sim.replays import azure
from nova_sched.tests.options import settings


@pytest.fixture
def path(tmp_path):
    (tmp_path / 'flavors.csv').write_text('flavor,vcpus,memory_gb\ns,1,0.75\nl,16,112\n')
    (tmp_path / 'duration_bins.csv').write_text('duration_bin,min_s,max_s\n0,0,0\n1,3900,7200\n')
    path = tmp_path / 'vms.csv'
    path.write_text(
        'time_s,batch,flavor,censored,duration_bin\n'
        '900,1,s,0,0\n900,1,s,0,1\n900,1,l,1,1\n4800,2,s,0,0\n'
    )
    return path


def test_hosts_of_one_shape(path):
    work = azure.workload(path, hosts=3, vcpus=64, memory_gb=448)
    amounts = {name: one.total for name, one in work.reports[2].inventories.items()}
    assert (work.reports[2].host, amounts) == ('host-2', {'VCPU': 64, 'MEMORY_MB': 448 * 1024})
    assert work.capacity == 192


def test_a_batch_of_a_flavor_is_one_request(path):
    arrivals = list(azure.workload(path, 1, 64, 448).arrivals(0))
    assert [(one.time_s, one.amount, len(one.requests)) for one in arrivals] == [
        (900.0, 1, 2),
        (900.0, 16, 1),
        (4800.0, 1, 1),
    ]
    assert arrivals[1].requests[0].resources == {'VCPU': 16, 'MEMORY_MB': 112 * 1024}


def test_lifetimes_are_hints_too(path):
    first, second, _ = azure.workload(path, 1, 64, 448).arrivals(0)
    assert first.lifetimes_s == (150.0, 5550.0)
    assert [one.hints for one in first.requests] == [{'ttl': [150.0]}, {'ttl': [5550.0]}]
    assert (second.lifetimes_s, second.requests[0].hints) == ((None,), {})


def test_a_batch_is_split_at_the_most_that_one_request_may_ask_for(path):
    with settings({'scheduler.max_instances_per_request': 1}):
        arrivals = list(azure.workload(path, 1, 64, 448).arrivals(0))
    assert [len(one.requests) for one in arrivals] == [1] * 4


def test_a_part_of_the_trace(path):
    work = azure.workload(path, 1, 64, 448, hours=1)
    assert len(list(work.arrivals(0))) == 2
    assert (work.measured_s, work.end_s) == (900.0 + 1800.0, 900.0 + 3600.0)


def test_empty_hosts_count_from_the_second_day(path):
    work = azure.workload(trace.SAMPLE, 1, 64, 448, hours=60)
    arrivals = trace.load()
    assert work.measured_s == arrivals[0].time_s + 24 * 3600.0
