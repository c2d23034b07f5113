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
"""ComputeCapabilitiesFilter: which extra specs are about the host, and what is found on the
way."""

import json

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.filters.compute_capabilities import ComputeCapabilitiesFilter, walk
from nova_sched.tests.builders import host, hosts, mask_of, request, spec
from nova_sched.tests.rows import each

CPU_INFO = json.dumps(
    {
        'vendor': 'Intel',
        'features': ['aes', 'avx'],
        'topology': {'cores': 8},
        'nested': '{"deep": {"er": 1}}',
        'hyper': True,
        'maxphysaddr': {'bits': 46},
    }
)
ROWS = {
    'cpu_info': [CPU_INFO, None, 'no json', CPU_INFO],
    'hypervisor_type': ['QEMU', 'ironic', None, 'QEMU'],
    'hypervisor_version': [8002001, 9000000, None, 8002001],
    'vcpus': [8, 16, 32, 8],
    'stats': [
        {'boost': 'yes', 'n': '7'},
        {'cpu_info': CPU_INFO, 'n': 'many'},
        {'hypervisor_type': 'QEMU', 'n': None},
        {'service': 'up'},
    ],
}


@each(
    'extra_specs, kept',
    [
        pytest.param(
            {'capabilities:hypervisor_type': 'QEMU'},
            '1011',
            id='column, or the stat where it is empty',
        ),
        pytest.param({'hypervisor_type': 'QEMU'}, '1011', id='the same without a scope'),
        pytest.param(
            {'capabilities:cpu_info:vendor': 'Intel'}, '1101', id='path into JSON, bad JSON fails'
        ),
        pytest.param(
            {'capabilities:cpu_info:features': "['aes', 'avx']"}, '1101', id='a list as text'
        ),
        pytest.param(
            {'capabilities:cpu_info:features:append': '<in> append'}, '0000', id='no methods'
        ),
        pytest.param({'capabilities:cpu_info:nested:deep:er': '1'}, '1101', id='JSON within JSON'),
        pytest.param({'capabilities:cpu_info:hyper': 'True'}, '1101', id='a truth value as text'),
        pytest.param(
            {'capabilities:cpu_info:vendor:more': 'x'}, '0000', id='a step into plain text'
        ),
        pytest.param({'hw:maxphysaddr_bits': '46'}, '1101', id='address bits are enough'),
        pytest.param({'hw:maxphysaddr_bits': '47'}, '0000', id='address bits are too few'),
        pytest.param(
            {'hw:maxphysaddr_bits': '40', 'capabilities:cpu_info:maxphysaddr:bits': '== 1'},
            '1101',
            id='address bits take the place of their path',
        ),
        pytest.param(
            {'capabilities:hypervisor_version': '<= 8999999'},
            '1001',
            id='an unknown version fails',
        ),
        pytest.param({'capabilities:vcpus_total': '>= 16'}, '0110', id='a column of numbers'),
        pytest.param({'vcpus_total': '8'}, '1001', id='a column of numbers as text'),
        pytest.param(
            {'capabilities:ram_allocation_ratio': '1.0'}, '1111', id='a column of ratios as text'
        ),
        pytest.param(
            {'capabilities:host': '<or> host-0 <or> host-3'}, '1001', id='an attribute of the node'
        ),
        pytest.param({'capabilities:stats:boost': 'yes'}, '1000', id='a path into stats'),
        pytest.param({'capabilities:boost': 'yes'}, '1000', id='a stat; hosts without it fail'),
        pytest.param(
            {'boost': 'yes'}, '1111', id='a stat without a scope; hosts without it do not care'
        ),
        pytest.param({'boost': 'no'}, '0111', id='the same, not met'),
        pytest.param({'n': '>= 7'}, '1001', id='a stat that is null or no number fails'),
        pytest.param({'running_vms': '1'}, '0000', id='an attribute that is empty everywhere'),
        pytest.param({'capabilities:disk_mb_used': '0'}, '1111', id='disk in use'),
        pytest.param({'capabilities:instances': '{}'}, '0000', id='no servers of the host'),
        pytest.param({'capabilities:aggregates': '[]'}, '0000', id='no aggregates of the host'),
        pytest.param({'capabilities:service:host': 'host-0'}, '0000', id='no service of the host'),
        pytest.param(
            {'capabilities:service': 'up'}, '0001', id='a stat of the same name is a capability'
        ),
        pytest.param({'capabilities:_hosts': 'x'}, '0000', id='nothing private'),
        pytest.param(
            {'capabilities:supported_instances': '[]'}, '1111', id='an attribute that is a list'
        ),
        pytest.param({'capabilities:': 'x'}, '0000', id='an empty name'),
        pytest.param(
            {'boost': 'yes', 'capabilities:vcpus_total': '8'}, '1001', id='two extra specs'
        ),
    ],
)
def test_hosts_that_are_what_is_asked(extra_specs, kept):
    assert (
        mask_of(ComputeCapabilitiesFilter, hosts(**ROWS), request(extra_specs=extra_specs)) == kept
    )


@each(
    'extra_specs',
    [
        pytest.param({}, id='none'),
        pytest.param({'capabilities': 'x'}, id='the bare scope'),
        pytest.param({'ssd': 'true'}, id='no attribute and no stat of any host'),
        pytest.param(
            {'other:vcpus_total': '>= 5000', 'hw:cpu_policy': 'shared'}, id='other scopes'
        ),
        pytest.param(
            {'resources:VCPU': '4', 'trait:HW_CPU_X86_AVX': 'required'}, id='resources and traits'
        ),
        pytest.param({'_hosts': 'x', '__class__': 'x'}, id='private names'),
        pytest.param({'mask': 'x', 'fits': 'x'}, id='methods'),
        pytest.param({'numa_topology': 'x', 'instances': '{}'}, id='what is no capability'),
    ],
)
def test_extra_specs_that_are_not_about_hosts(extra_specs):
    asked = request(extra_specs=extra_specs)
    assert ComputeCapabilitiesFilter().mask(hosts(**ROWS), asked) is True
    assert ComputeCapabilitiesFilter().host_passes(
        host(stats={'n': '7'}), spec(extra_specs=extra_specs)
    )


def test_a_text_is_opened_once_for_all_its_conditions(monkeypatch):
    opened = []
    loads = json.loads
    monkeypatch.setattr(json, 'loads', lambda text: opened.append(text) or loads(text))
    specs = {
        'capabilities:cpu_info:vendor': 'Intel',
        'capabilities:cpu_info:topology:cores': '>= 8',
        'capabilities:cpu_info:maxphysaddr:bits': '46',
    }
    judged = hosts(100, cpu_info=[CPU_INFO] * 100)
    opened.clear()
    assert np.all(ComputeCapabilitiesFilter().mask(judged, request(extra_specs=specs)))
    assert opened == [CPU_INFO]


def test_a_flavor_without_extra_specs_passes():
    one = spec()
    del one.flavor.extra_specs
    assert ComputeCapabilitiesFilter().host_passes(host(), one)


def test_an_extra_spec_that_makes_no_sense_is_refused():
    with pytest.raises(errors.InvalidRequest, match='capabilities:n: many is not a number'):
        ComputeCapabilitiesFilter().mask(
            hosts(**ROWS), request(extra_specs={'capabilities:n': '>= many'})
        )


def test_a_stat_that_no_host_has_any_more_is_still_judged_right():
    known = hosts(2, stats=[{'gone': 'yes'}, {}])
    known.nodes[0].report = known.nodes[1].report
    mask = ComputeCapabilitiesFilter().mask(known, request(extra_specs={'gone': 'no'}))
    assert np.all(mask)


@each(
    'extra_specs, depends',
    [
        pytest.param({}, set(), id='nothing is asked'),
        pytest.param({'hw:cpu_policy': 'shared'}, set(), id='not about the host'),
        pytest.param(
            {'capabilities:cpu_info:arch': 'x86_64'},
            {('capabilities:cpu_info:arch', 'x86_64')},
            id='scoped',
        ),
        pytest.param(
            {'hypervisor_type': 'QEMU'}, {('hypervisor_type', 'QEMU')}, id='without a scope'
        ),
        pytest.param({'capabilities:free_ram_mb': '>= 1'}, None, id='what changes by the minute'),
        pytest.param({'tier': 'gold'}, None, id='maybe a stat'),
    ],
)
def test_what_the_verdict_depends_on(extra_specs, depends):
    assert ComputeCapabilitiesFilter().depends_on(request(extra_specs=extra_specs)) == depends


@each(
    'value, path, found',
    [
        pytest.param({'a': {'b': 1}}, ('a', 'b'), 1, id='dicts'),
        pytest.param('{"a": "{\\"b\\": 1}"}', ('a', 'b'), 1, id='text in text'),
        pytest.param('[1, 2]', ('0',), None, id='a list has no names'),
        pytest.param('7', ('a',), None, id='a number has no names'),
        pytest.param('[' * 100_000, ('a',), None, id='JSON too deep to read'),
        pytest.param(None, ('a',), None, id='nothing'),
        pytest.param('text', (), 'text', id='no step'),
        pytest.param({'a': None}, ('a', 'b'), None, id='null on the way'),
    ],
)
def test_walk(value, path, found):
    assert walk(value, path) == found
