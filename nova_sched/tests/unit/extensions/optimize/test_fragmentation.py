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
"""What a cloud can still take of the usual sizes, what of it is stranded, and where."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.extensions.optimize.fragmentation import Overview, overview, read_places
from nova_sched.extensions.optimize.packing.mix import CellDemand, Mix, PciDemand, Size
from nova_sched.extensions.optimize.packing.tables import Tables
from nova_sched.tests.builders import aggregate, cluster
from nova_sched.tests.unit.extensions.optimize.packing.builders import host_resources, size, tree
from nova_sched.tests.unit.hardware.builders import cell, machine, pool

MIX = Mix({size(4): 3.0, size(3): 1.0})


@pytest.fixture
def made():
    return cluster(
        4,
        vcpus=[8, 5, 16, 4],
        aggregates=[
            aggregate(1, ['host-0', 'host-1'], availability_zone='az1'),
            aggregate(2, ['host-1', 'host-2']),
        ],
    )


def test_zones_and_worst_hosts(made):
    found = overview(read_places(made.hosts, 'nova'), MIX)
    assert [one['fit'] for one in found['sizes']] == [8, 9]
    assert [(one['zone'], one['hosts'], one['fit']) for one in found['zones']] == [
        ('az1', 2, [3, 3]),
        ('nova', 2, [5, 6]),
    ]
    assert found['worst_hosts'][0]['host'] in ('host-1', 'host-2')
    assert sum(one['stranded']['VCPU'] for one in found['zones']) == found['stranded']['VCPU']


@pytest.mark.parametrize(
    ('where', 'hosts'),
    [
        pytest.param({'zone': 'az1'}, 2, id='zone'),
        pytest.param({'zone': 'nova'}, 2, id='default zone'),
        pytest.param({'aggregate': '2'}, 2, id='aggregate by id'),
        pytest.param({'zone': 'nova', 'aggregate': '2'}, 1, id='both'),
    ],
)
def test_some_hosts(made, where, hosts):
    assert len(read_places(made.hosts, 'nova', **where).resources) == hosts


@pytest.mark.parametrize('where', [{'zone': 'nowhere'}, {'aggregate': 'nothing'}])
def test_places_that_are_not_there(made, where):
    with pytest.raises(errors.NotFound, match='is not known'):
        read_places(made.hosts, 'nova', **where)


def figures_of(hosts, *sizes):
    """The last size is the most usual one."""
    mix = Mix({one: float(number) for number, one in enumerate(sizes, 1)})
    return Overview(Tables(mix, hosts), hosts, mix.counts)


@given(st.lists(st.integers(-2, 40), min_size=1, max_size=6), st.integers(1, 8))
def test_copies_on_plain_hosts(free, vcpus):
    found = figures_of(host_resources([None] * len(free), VCPU=free), size(vcpus)).plain()
    assert found['sizes'][0]['fit'] == sum(max(one, 0) // vcpus for one in free)
    assert found['sizes'][0]['fit_in_one_piece'] == sum(max(one, 0) for one in free) // vcpus
    assert found['stranded'] == {'VCPU': sum(max(one, 0) % vcpus for one in free)}


def test_the_figures():
    hosts = host_resources([None] * 3, [True, False, False], VCPU=[8, 3, 3])
    assert figures_of(hosts, size(4), size(2)).plain(1) == {
        'hosts': 3,
        'empty_hosts': 1,
        # A third of the requests leaves 3 on two hosts, the others leave 1.
        'stranded': {'VCPU': 3},
        'sizes': [
            {
                'resources': {'VCPU': 2},
                'devices': None,
                'numa_cells': 0,
                'pci_devices': 0,
                'share': 0.6667,
                'fit': 6,
                'fit_in_one_piece': 7,
            }
        ],
    }


def test_shares_and_whole_devices():
    hosts = host_resources([tree(1000, 1000), tree(500, 700), None], VCPU=[8, 2, 8])
    found = figures_of(hosts, size(1, 1000, 2), size(2, 500)).plain()
    share, pair = found['sizes']
    assert (share['fit'], share['fit_in_one_piece']) == (4 + 1, 6)
    assert (pair['fit'], pair['fit_in_one_piece']) == (1, 1)
    assert pair['devices'] == {
        'resource_class': 'CUSTOM_GPU',
        'units': 1000,
        'count': 2,
        'traits': [],
    }
    assert found['stranded']['CUSTOM_GPU'] > 0


def test_cells_and_pci_devices():
    two = Size((), None, (CellDemand(0, 2, 512, cpu_policy='dedicated'),) * 2)
    nic = Size((('VCPU', 1),), None, (), (PciDemand(2, ((('vendor_id', '8086'),),)),))
    cells = [cell(number, [], range(8), pinned=range(used), memory_mb=8192)
             for number, used in enumerate([0, 4])]  # fmt: skip
    machines = [machine(*cells, pools=[pool(3)]), machine(*cells, pools=[pool(1)]), None]
    hosts = host_resources([None] * 3, machines=machines, VCPU=[9] * 3)
    found = figures_of(hosts, two, nic)
    assert found.copies.tolist() == [[1, 2], [0, 2], [0, 0]]
    nic, two = found.plain()['sizes']
    assert (nic['pci_devices'], nic['fit'], nic['fit_in_one_piece']) == (2, 1, 2)
    assert (two['numa_cells'], two['fit'], two['fit_in_one_piece']) == (2, 4, 6)


def test_the_worst_hosts():
    """Where the least of what is free can be used."""
    found = figures_of(host_resources([None] * 4, VCPU=[4, 3, 0, 8]), size(4))
    assert found.worst() == [1]
    assert found.worst(0) == []


@pytest.mark.parametrize(
    'trees', [pytest.param([], id='no hosts'), pytest.param([None], id='one')]
)
@pytest.mark.parametrize('sizes', [(), (Size(),)])
def test_little(trees, sizes):
    hosts = host_resources(trees, VCPU=[8])
    if not trees:
        hosts.free['VCPU'], hosts.capacity['VCPU'] = np.zeros((2, 0))
    found = figures_of(hosts, *sizes).plain()
    assert found['hosts'] == len(trees)
    assert [one['fit'] for one in found['sizes']] == [0] * len(sizes)
