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
"""NUMA cells of a server to come: what flavor and image ask for, as Nova works it out."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.groups.members import guest_numa
from nova_sched.tests.rows import each
from nova_sched.tests.test_layers import PACKAGE

CASES = json.loads((PACKAGE / 'tests/data/guest-numa/cases.json').read_text())


def asked(extra_specs=None, vcpus=4, memory_mb=2048, **properties):
    """What becomes of a flavor and an image; ``properties`` without `hw_`."""
    image = objects.ImageMetaProps.from_dict(
        {f'hw_{name}': value for name, value in properties.items()}
    )
    return guest_numa.topology(vcpus, memory_mb, extra_specs or {}, image)


def plain(topology):
    """As the recorded cases have it."""
    if topology is None:
        return None
    names = ('id', 'memory', 'pagesize', 'cpu_policy', 'cpu_thread_policy')
    return {
        'emulator_threads_policy': topology.emulator_threads_policy,
        'cells': [
            {name: cell[name] for name in names}
            | {'cpuset': sorted(cell.cpuset), 'pcpuset': sorted(cell.pcpuset)}
            for cell in topology.cells
        ],
    }


@each('case', [pytest.param(case, id=case['name']) for case in CASES])
def test_as_nova_does_it(case):
    def work():
        image = objects.ImageMetaProps.from_dict(case['image'])
        return guest_numa.topology(case['vcpus'], case['memory_mb'], case['extra_specs'], image)

    if 'refused' in case:
        with pytest.raises(errors.Invalid):
            work()
    else:
        assert plain(work()) == case['topology']


def test_both_kinds_are_among_the_cases():
    assert sum('refused' in case for case in CASES) > 100
    assert sum(bool(case.get('topology')) for case in CASES) > 200


@pytest.mark.parametrize(
    'extra_specs, image, where, why',
    [
        pytest.param({'hw:numa_nodes': '3'}, {}, 'hw:numa_nodes', '3 equal cells', id='odd'),
        pytest.param(
            {'hw:numa_nodes': 'two'},
            {},
            'hw:numa_nodes',
            "'two' is not a whole number",
            id='no number',
        ),
        pytest.param({'hw:cpu_policy': 'pinned'}, {}, 'hw:cpu_policy', 'shared', id='no policy'),
        pytest.param(
            {'hw:cpu_policy': 'shared'},
            {'cpu_policy': 'dedicated'},
            'hw_cpu_policy',
            'the image wants dedicated, the flavor is shared',
            id='image against flavor',
        ),
        pytest.param(
            {},
            {'mem_page_size': 'large'},
            'hw_mem_page_size',
            'no choice',
            id='pages by the image',
        ),
        pytest.param(
            {'hw:mem_page_size': 'lots'},
            {},
            'hw:mem_page_size',
            "'lots' is not a size",
            id='no page size',
        ),
        pytest.param(
            {'hw:numa_nodes': '1', 'hw:numa_cpus.0': '0-3', 'hw:numa_mem.0': '512'},
            {},
            'hw:numa_mem',
            '512 MiB in all',
            id='memory',
        ),
        pytest.param(
            {'hw:numa_cpus.0': '0-999999999', 'hw:numa_mem.0': '2048', 'hw:numa_nodes': '1'},
            {},
            'hw:numa_cpus.0',
            'names more than 16384',
            id='more CPUs than anybody has',
        ),
        pytest.param(
            {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': f'1-{10**30}'},
            {},
            'hw:cpu_dedicated_mask',
            'is not a CPU range',
            id='more than anybody can count',
        ),
        pytest.param(
            {'hw:cpu_policy': 'mixed'},
            {},
            'hw:cpu_dedicated_mask',
            'mixed needs',
            id='mixed without a mask',
        ),
    ],
)
def test_what_makes_no_sense_says_where(extra_specs, image, where, why):
    with pytest.raises(errors.InvalidRequest) as refused:
        asked(extra_specs, **image)
    assert refused.value.where == where
    assert why in refused.value.why


@pytest.mark.parametrize(
    'vcpus, extra_specs, where',
    [
        pytest.param(4097, {'hw:cpu_policy': 'dedicated'}, 'flavor.vcpus', id='CPUs of its own'),
        pytest.param(
            10**9, {'hw:cpu_policy': 'dedicated'}, 'flavor.vcpus', id='a billion of them'
        ),
        pytest.param(10**9, {'hw:numa_nodes': '1'}, 'flavor.vcpus', id='a billion in a cell'),
        pytest.param(
            10**9, {'hw:mem_page_size': '2MB'}, 'flavor.vcpus', id='a billion on large pages'
        ),
        pytest.param(10**9, {'hw:numa_nodes': str(10**9)}, 'hw:numa_nodes', id='a billion cells'),
        pytest.param(129, {'hw:numa_nodes': '129'}, 'hw:numa_nodes', id='cells'),
        pytest.param(
            4,
            {'hw:numa_nodes': '1', 'hw:numa_cpus.0': '0-4095,' * 5, 'hw:numa_mem.0': '2048'},
            'hw:numa_cpus.0',
            id='the same CPUs again and again',
        ),
        pytest.param(
            4,
            {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-' + '9' * 5000},
            'hw:cpu_dedicated_mask',
            id='a number of 5000 digits',
        ),
    ],
)
def test_more_than_a_hypervisor_gives(vcpus, extra_specs, where):
    with pytest.raises(errors.InvalidRequest) as refused:
        asked(extra_specs, vcpus, vcpus)
    assert refused.value.where == where
    assert len(str(refused.value)) < 300


def test_the_largest_guests():
    """Each CPU and cell that a hypervisor gives; and any number of CPUs that have no cell."""
    assert len(asked({'hw:cpu_policy': 'dedicated'}, vcpus=4096).cells[0].pcpuset) == 4096
    assert len(asked({'hw:numa_nodes': '128'}, vcpus=128).cells) == 128
    assert asked(vcpus=2**31 - 1) is None


@pytest.mark.parametrize('ids', ['0-' + '9' * 20, '0-65535', '0-4095,' * 5, '0-' + '9' * 5000])
def test_an_image_that_names_too_many_cpus(ids):
    with pytest.raises(errors.MalformedObject, match='hw_numa_cpus'):
        objects.ImageMetaProps.from_dict(
            {'hw_numa_nodes': 1, 'hw_numa_cpus.0': ids, 'hw_numa_mem.0': 1}
        )
