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
"""Tests of reading servers with NUMA needs, which are in tests/data."""

import collections
import pathlib

import pytest

from nova_sched import tests
from nova_sched.hardware.numa import HostTopology
from nova_sched.sim.replays import huawei

DATA = pathlib.Path(tests.__file__).parent / 'data' / 'huawei-numa-topology-2025'
SEQUENCES = [DATA / f'VM_data_{name}.csv.gz' for name in ('C1', 'C2', 'C3')]


@pytest.fixture(scope='module')
def work():
    return huawei.workload(DATA / 'PM_res.csv.gz', SEQUENCES)


def test_hosts_have_the_cells_with_cpus(work):
    cells = collections.Counter(
        len(HostTopology.from_json(one.numa_topology).cells) for one in work.reports
    )
    assert cells == {2: 1592, 1: 118}


def test_what_is_free_is_all_that_a_host_has(work):
    report = work.reports[0]
    cells = HostTopology.from_json(report.numa_topology).cells
    assert report.inventories['VCPU'].total == sum(len(cell.cpuset) for cell in cells)
    assert report.inventories['MEMORY_MB'].total == sum(cell.memory_mb for cell in cells)


def test_cells_are_checked(work):
    assert huawei.RULE in work.options['filter_scheduler.enabled_filters']


def test_sequences_are_chained_in_the_order_of_the_seed(work):
    orders = {seed: [one.amount for one in work.arrivals(seed)] for seed in range(8)}
    assert {len(one) for one in orders.values()} == {3 * 4998}
    assert len({tuple(one) for one in orders.values()}) > 2
    assert orders[3] == [one.amount for one in work.arrivals(3)]


def test_a_server_of_two_cells_takes_half_in_each(work):
    arrival = next(one for one in work.arrivals(0) if one.kind == '2 cells')
    (request,) = arrival.requests
    cells = request.pieces.guest.cells
    assert [len(cell.cpuset) for cell in cells] == [request.vcpus // 2] * 2
    assert sum(cell.memory_mb for cell in cells) == request.memory_mb
