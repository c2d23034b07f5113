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
"""Tests of reading the openb data, which is in tests/data."""

import pathlib

import pytest

from nova_sched import errors, tests
from nova_sched.hardware.providers import ProviderTree
from nova_sched.sim.replays import openb

DATA = pathlib.Path(tests.__file__).parent / 'data' / 'alibaba-openb-gpu-2023'
NODES = DATA / 'openb_node_list_gpu_node.csv.gz'
PODS = DATA / 'openb_pod_list_gpuspec33.csv.gz'


@pytest.fixture(scope='module')
def work():
    return openb.workload(NODES, PODS)


def test_nodes_with_their_gpus_below_them(work):
    report = work.reports[0]
    assert (len(work.reports), work.capacity) == (1213, 6_212_000)
    amounts = {name: one.total for name, one in report.inventories.items()}
    assert amounts == {'VCPU': 64000, 'MEMORY_MB': 2000, 'DISK_GB': 262144}
    tree = ProviderTree.from_json(report.providers, report.node_uuid)
    assert [one.stocks[openb.GPU].total for one in tree.children] == [1000, 1000]


def test_a_gpu_has_the_trait_of_each_list_of_models_with_its_own(work):
    first = work.reports[0]
    traits = ProviderTree.from_json(first.providers, first.node_uuid).children[0].traits
    assert traits
    assert all('P100' in trait for trait in traits)


def test_pods_ask_for_the_load(work):
    order = list(work.arrivals(100))
    asked = sum(one.amount for one in order)
    largest = 8 * openb.WHOLE
    assert 1.3 * work.capacity - largest < asked <= 1.3 * work.capacity


def test_the_order_of_pods_follows_the_seed(work):
    def sizes(seed):
        return [(one.requests[0].resources, one.amount) for one in work.arrivals(seed)]

    assert sizes(1) == sizes(1)
    assert sizes(1) != sizes(2)


def test_a_lower_load_leaves_pods_out():
    work = openb.workload(NODES, PODS, load=0.5)
    assert sum(one.amount for one in work.arrivals(1)) <= 0.5 * work.capacity


def test_a_pod_asks_for_devices_one_by_one(work):
    arrival = next(one for one in work.arrivals(1) if one.kind == '8 GPUs')
    (request,) = arrival.requests
    assert [group.resources for group in request.groups] == [((openb.GPU, 1000),)] * 8
    assert request.group_policy == 'isolate'


def test_a_list_that_cannot_be_read(tmp_path):
    pods = tmp_path / 'pods.csv'
    pods.write_text('cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,many,1,1000\n')
    with pytest.raises(errors.BadConfig, match=r'pods\.csv, line 2'):
        openb.workload(NODES, pods)
