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
"""What nodes, topologies, aggregates and instances say beside their fields."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.claim import MEMORY_MB
from nova_sched.tests.unit.objects import reference

NODE = reference.wire('object-ComputeNode-numa-pci-metrics.json')['primitive']['nova_object.data']


def test_a_kind_of_guest_is_a_triple():
    assert [known.to_list() for known in objects.from_primitive(NODE['supported_hv_specs'])] == [
        ['x86_64', 'qemu', 'hvm'],
        ['x86_64', 'kvm', 'hvm'],
    ]


def test_a_node_can_tell_its_usage():
    plain = objects.from_primitive(reference.wire('object-ComputeNode-plain.json')['primitive'])
    usage = plain.usage(MEMORY_MB)
    assert (usage.total, usage.used) == (plain.memory_mb, plain.memory_mb_used)
    plain.take(MEMORY_MB, 1024)
    assert plain.memory_mb_used == usage.used + 1024
    assert plain.free_ram_mb == plain.memory_mb - plain.memory_mb_used


def test_the_topology_of_a_node_is_read_and_written():
    recorded = reference.wire('object-NUMATopology.json')['primitive']
    topology = objects.NUMATopology.from_json(NODE['numa_topology'])
    assert len(topology.cells) == 2
    assert topology.cells[0].cpuset == set(range(8, 16))
    written = objects.to_primitive(topology)
    assert reference.comparable(written) == reference.comparable(json.loads(NODE['numa_topology']))
    assert objects.NUMATopology.from_json(json.dumps(recorded)).cells[1].pinned_cpus == {16, 17}


@pytest.mark.parametrize(
    'text',
    [
        pytest.param('{', id='no JSON'),
        pytest.param(None, id='null'),
        pytest.param('[]', id='a list'),
        pytest.param('{"cells": []}', id='a plain dict'),
        pytest.param(json.dumps(objects.to_primitive(objects.Flavor())), id='another object'),
        pytest.param('[' * 100_000, id='bottomless'),
    ],
)
def test_a_bad_topology_is_refused(text):
    with pytest.raises(errors.MalformedObject) as refused:
        objects.NUMATopology.from_json(text)
    assert refused.value.path == 'NUMATopology'
