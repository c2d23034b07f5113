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
"""Selections and candidates keep their form."""

import json

import pytest

from nova_sched import objects
from nova_sched.tests.unit.objects import reference

CELL = 'f13ad15b-c3c9-56ec-b405-95600b09d7ce'
NODES = {
    'cmp01': '17d41d0e-d879-5b5c-8209-b9615d479c00',
    'cmp03': 'a6b59b03-27a9-5c81-b8a3-0079245fcf97',
    'cmp04': '9f03fa4f-477c-5f6b-9183-74afcc418002',
    'cmp05': '872ba624-05a9-5927-90d1-c87c78d2877b',
}
NIC = 'e16ce88a-748c-5c2d-aa3a-e74ca6d50712'
PORT = '6b6d881b-a040-516d-84ac-90bd7ad13904'
PLAIN = {'VCPU': 2, 'MEMORY_MB': 4096, 'DISK_GB': 20}


def limits(numa=None):
    return objects.SchedulerLimits(numa_topology=numa, vcpu=None, disk_gb=None, memory_mb=None)


def numa_limits():
    network = objects.NetworkMetadata(physnets={'physnet0'}, tunneled=False)
    return objects.NUMATopologyLimits(
        cpu_allocation_ratio=4.0, ram_allocation_ratio=1.0, network_metadata=network
    )


def allocation(host):
    node = NODES[host]
    return json.dumps({'allocations': {node: {'resources': PLAIN}}, 'mappings': {'': [node]}})


def selection(host, zone, **fields):
    defaults = {
        'compute_node_uuid': NODES[host],
        'service_host': host,
        'nodename': host,
        'cell_uuid': CELL,
        'limits': limits(),
        'allocation_request': allocation(host),
        'allocation_request_version': '1.36',
        'availability_zone': zone,
    }
    return objects.Selection(**defaults | fields)


def two_providers():
    node = NODES['cmp05']
    return json.dumps(
        {
            'allocations': {
                node: {'resources': {'PCPU': 4, 'MEMORY_MB': 8192, 'DISK_GB': 20}},
                NIC: {
                    'resources': {
                        'NET_BW_EGR_KILOBIT_PER_SEC': 1000,
                        'NET_BW_IGR_KILOBIT_PER_SEC': 2000,
                    }
                },
            },
            'mappings': {'': [node], PORT: [NIC]},
        }
    )


@pytest.mark.parametrize(
    'name, answer',
    [
        pytest.param(
            'result-selections-2x2.json',
            lambda: [
                [selection('cmp01', 'az1'), selection('cmp03', 'nova')],
                [selection('cmp04', 'az2'), selection('cmp03', 'nova')],
            ],
            id='two instances with one alternate each',
        ),
        pytest.param(
            'result-selections-no-placement.json',
            lambda: [
                [
                    selection(
                        'cmp01', 'az1', allocation_request='null', allocation_request_version=None
                    )
                ]
            ],
            id='null as text',
        ),
        pytest.param(
            'result-selections-null-allocation.json',
            lambda: [
                [
                    selection(
                        'cmp01', 'az1', allocation_request=None, allocation_request_version=None
                    )
                ]
            ],
            id='null',
        ),
        pytest.param(
            'result-selections-limits-nested.json',
            lambda: [
                [
                    selection(
                        'cmp05',
                        'nova',
                        limits=limits(numa_limits()),
                        allocation_request=two_providers(),
                    )
                ]
            ],
            id='NUMA limits and two providers',
        ),
    ],
)
def test_an_answer_equals_the_recorded_one(name, answer):
    written = json.loads(json.dumps(objects.to_primitive(answer())))
    assert reference.comparable(written) == reference.comparable(reference.wire(name)['primitive'])
