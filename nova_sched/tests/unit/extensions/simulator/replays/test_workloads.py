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
"""Tests of the data sets, which are in tests/data."""

import collections
import pathlib

import pytest

from nova_sched import errors, tests
from nova_sched.extensions.simulator import trace
from nova_sched.extensions.simulator.replays import workloads
from nova_sched.hardware.numa import HostTopology
from nova_sched.hardware.providers import ProviderTree
from nova_sched.tests.options import settings

DATA = pathlib.Path(tests.__file__).parent / 'data'
NODES = DATA / 'alibaba-openb-gpu-2023' / 'openb_node_list_gpu_node.csv.gz'
PODS = DATA / 'alibaba-openb-gpu-2023' / 'openb_pod_list_gpuspec33.csv.gz'
HOSTS = DATA / 'huawei-numa-topology-2025' / 'PM_res.csv.gz'
SEQUENCES = [HOSTS.with_name(f'VM_data_{name}.csv.gz') for name in ('C1', 'C2', 'C3')]


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
    work = workloads.azure(path, hosts=3, vcpus=64, memory_gb=448)
    amounts = {name: one.total for name, one in work.reports[2].inventories.items()}
    assert (work.reports[2].host, amounts) == ('host-2', {'VCPU': 64, 'MEMORY_MB': 448 * 1024})
    assert work.capacity == 192


def test_a_batch_of_a_flavor_is_one_request(path):
    arrivals = list(workloads.azure(path, 1, 64, 448).arrivals(0))
    assert [(one.time_s, one.amount, len(one.requests)) for one in arrivals] == [
        (900.0, 1, 2),
        (900.0, 16, 1),
        (4800.0, 1, 1),
    ]
    assert arrivals[1].requests[0].resources == {'VCPU': 16, 'MEMORY_MB': 112 * 1024}


def test_lifetimes_are_hints_too(path):
    first, second, _ = workloads.azure(path, 1, 64, 448).arrivals(0)
    assert first.lifetimes_s == (150.0, 5550.0)
    assert [one.hints for one in first.requests] == [{'ttl': [150.0]}, {'ttl': [5550.0]}]
    assert (second.lifetimes_s, second.requests[0].hints) == ((None,), {})


def test_a_batch_is_split_at_the_most_that_one_request_may_ask_for(path):
    with settings({'scheduler.max_instances_per_request': 1}):
        arrivals = list(workloads.azure(path, 1, 64, 448).arrivals(0))
    assert [len(one.requests) for one in arrivals] == [1] * 4


def test_a_part_of_the_trace(path):
    work = workloads.azure(path, 1, 64, 448, hours=1)
    assert len(list(work.arrivals(0))) == 2
    assert (work.measured_s, work.end_s) == (900.0 + 1800.0, 900.0 + 3600.0)


def test_empty_hosts_count_from_the_second_day():
    work = workloads.azure(trace.SAMPLE, 1, 64, 448, hours=60)
    arrivals = trace.load()
    assert work.measured_s == arrivals[0].time_s + 24 * 3600.0


@pytest.fixture(scope='module')
def openb():
    return workloads.openb(NODES, PODS)


def test_nodes_with_their_gpus_below_them(openb):
    report = openb.reports[0]
    assert (len(openb.reports), openb.capacity) == (1213, 6_212_000)
    amounts = {name: one.total for name, one in report.inventories.items()}
    assert amounts == {'VCPU': 64000, 'MEMORY_MB': 2000, 'DISK_GB': 262144}
    tree = ProviderTree.from_json(report.providers, report.node_uuid)
    assert [one.stocks[workloads.GPU].total for one in tree.children] == [1000, 1000]


def test_a_gpu_has_the_trait_of_each_list_of_models_with_its_own(openb):
    first = openb.reports[0]
    traits = ProviderTree.from_json(first.providers, first.node_uuid).children[0].traits
    assert traits
    assert all('P100' in trait for trait in traits)


def test_pods_ask_for_the_load(openb):
    order = list(openb.arrivals(100))
    asked = sum(one.amount for one in order)
    largest = 8 * workloads.WHOLE
    assert 1.3 * openb.capacity - largest < asked <= 1.3 * openb.capacity


def test_the_order_of_pods_follows_the_seed(openb):
    def sizes(seed):
        return [(one.requests[0].resources, one.amount) for one in openb.arrivals(seed)]

    assert sizes(1) == sizes(1)
    assert sizes(1) != sizes(2)


def test_a_lower_load_leaves_pods_out():
    work = workloads.openb(NODES, PODS, load=0.5)
    assert sum(one.amount for one in work.arrivals(1)) <= 0.5 * work.capacity


def test_a_pod_asks_for_devices_one_by_one(openb):
    arrival = next(one for one in openb.arrivals(1) if one.kind == '8 GPUs')
    (request,) = arrival.requests
    assert [group.resources for group in request.groups] == [((workloads.GPU, 1000),)] * 8
    assert request.group_policy == 'isolate'


def test_a_list_that_cannot_be_read(tmp_path):
    pods = tmp_path / 'pods.csv'
    pods.write_text('cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,many,1,1000\n')
    with pytest.raises(errors.BadConfig, match=r'pods\.csv, line 2'):
        workloads.openb(NODES, pods)


@pytest.fixture(scope='module')
def huawei():
    return workloads.huawei(HOSTS, SEQUENCES)


def test_hosts_have_the_cells_with_cpus(huawei):
    cells = collections.Counter(
        len(HostTopology.from_json(one.numa_topology).cells) for one in huawei.reports
    )
    assert cells == {2: 1592, 1: 118}


def test_what_is_free_is_all_that_a_host_has(huawei):
    report = huawei.reports[0]
    cells = HostTopology.from_json(report.numa_topology).cells
    assert report.inventories['VCPU'].total == sum(len(cell.cpuset) for cell in cells)
    assert report.inventories['MEMORY_MB'].total == sum(cell.memory_mb for cell in cells)


def test_sequences_are_chained_in_the_order_of_the_seed(huawei):
    orders = {seed: [one.amount for one in huawei.arrivals(seed)] for seed in range(8)}
    assert {len(one) for one in orders.values()} == {3 * 4998}
    assert len({tuple(one) for one in orders.values()}) > 2
    assert orders[3] == [one.amount for one in huawei.arrivals(3)]


def test_a_server_of_two_cells_takes_half_in_each(huawei):
    arrival = next(one for one in huawei.arrivals(0) if one.kind == '2 cells')
    (request,) = arrival.requests
    cells = request.pieces.guest.cells
    assert [len(cell.cpuset) for cell in cells] == [request.vcpus // 2] * 2
    assert sum(cell.memory_mb for cell in cells) == request.memory_mb
