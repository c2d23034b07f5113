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
"""Compute nodes and the objects around them."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.claim import MEMORY_MB
from nova_sched.tests.unit.objects import reference

NODE = reference.wire('object-ComputeNode-numa-pci-metrics.json')['primitive']['nova_object.data']


def test_a_kind_of_guest_is_a_triple():
    spec = objects.HVSpec.from_list(['amd64', 'KVM', 'hv'])
    assert spec.to_list() == ['x86_64', 'kvm', 'hvm']
    assert [known.to_list() for known in objects.from_primitive(NODE['supported_hv_specs'])] == [
        ['x86_64', 'qemu', 'hvm'],
        ['x86_64', 'kvm', 'hvm'],
    ]


def test_the_metrics_of_a_node_are_read_as_nova_reads_them():
    recorded = reference.wire('object-MonitorMetricList.json')['primitive']
    metrics = objects.MonitorMetricList.from_json(NODE['metrics'])
    assert reference.comparable(objects.to_primitive(metrics)) == reference.comparable(recorded)


def metric(name='cpu.percent', value=0.23, **fields):
    return {
        'name': name,
        'value': value,
        'timestamp': '2026-01-01T12:00:00Z',
        'source': 's',
    } | fields


@pytest.mark.parametrize(
    'stored, value',
    [
        pytest.param(metric(value=0.29), 29, id='a fraction that binary cannot hold'),
        pytest.param(metric(value=1), 100, id='all of it'),
        pytest.param(metric('cpu.frequency', 2600), 2600, id='no percentage'),
    ],
)
def test_a_metric_comes_back(stored, value):
    read = objects.MonitorMetricList.from_json(json.dumps([stored]))
    assert read[0].value == value
    assert read.to_list() == [stored]


@pytest.mark.parametrize('text', [None, '', '[]'], ids=repr)
def test_no_metrics(text):
    assert len(objects.MonitorMetricList.from_json(text)) == 0


@pytest.mark.parametrize(
    'text',
    [
        pytest.param('x', id='no JSON'),
        pytest.param('{"a": 1}', id='a dict'),
        pytest.param('[5]', id='a number'),
        pytest.param(json.dumps([metric(name='cpu.smell')]), id='unknown name'),
        pytest.param(json.dumps([metric(value=float('nan'))]), id='no number'),
        pytest.param(json.dumps([metric(value='x')]), id='text for a value'),
        pytest.param(json.dumps([metric(timestamp=5)]), id='no moment'),
    ],
)
def test_bad_metrics_are_refused(text):
    with pytest.raises(errors.MalformedObject) as refused:
        objects.MonitorMetricList.from_json(text)
    assert refused.value.path.startswith('MonitorMetric')


def test_a_node_can_tell_its_usage():
    plain = objects.from_primitive(reference.wire('object-ComputeNode-plain.json')['primitive'])
    usage = plain.usage(MEMORY_MB)
    assert (usage.total, usage.used) == (plain.memory_mb, plain.memory_mb_used)
    plain.take(MEMORY_MB, 1024)
    assert plain.memory_mb_used == usage.used + 1024
    assert plain.free_ram_mb == plain.memory_mb - plain.memory_mb_used


@pytest.mark.parametrize(
    'metadata, zone',
    [
        pytest.param({'availability_zone': 'az1'}, 'az1', id='zone'),
        pytest.param({'a': 'b'}, None, id='no zone'),
        pytest.param(None, None, id='null metadata'),
    ],
)
def test_the_zone_of_an_aggregate(metadata, zone):
    assert objects.Aggregate(metadata=metadata).availability_zone == zone
