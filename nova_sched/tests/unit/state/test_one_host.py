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
"""One Nova-like host state behind the questions of the columns."""

import datetime
import time
import types

import numpy as np
import pytest

from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.hardware import pci
from nova_sched.state.metrics import NO_VALUE
from nova_sched.state.one_host import OneHost
from nova_sched.tests.builders import CELL, aggregate, host

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    'service, seen_s',
    [
        pytest.param({'last_seen_up': NOON}, NOON.timestamp(), id='a date with a zone'),
        pytest.param(
            {'last_seen_up': NOON.replace(tzinfo=None)},
            NOON.timestamp(),
            id='without one it is UTC',
        ),
        pytest.param({'last_seen_up': 12.5}, 12.5, id='seconds'),
        pytest.param(
            {'last_seen_up': None, 'created_at': NOON}, NOON.timestamp(), id='never seen: created'
        ),
        pytest.param({}, 0.0, id='never'),
        pytest.param(types.SimpleNamespace(last_seen_up=NOON), NOON.timestamp(), id='an object'),
    ],
)
def test_seen(service, seen_s):
    assert OneHost(host(service=service)).seen_s.tolist() == [seen_s]


@pytest.mark.parametrize(
    'service, disabled, forced_down',
    [
        pytest.param({'disabled': True, 'forced_down': False}, True, False, id='disabled'),
        pytest.param({'disabled': None, 'forced_down': True}, False, True, id='forced down, null'),
        pytest.param({}, False, False, id='nothing known'),
        pytest.param(types.SimpleNamespace(disabled=True), True, False, id='an object'),
    ],
)
def test_service(service, disabled, forced_down):
    one = OneHost(host(service=service))
    assert (one.disabled.tolist(), one.forced_down.tolist()) == ([disabled], [forced_down])


@pytest.mark.parametrize(
    'attributes, resource_class, most',
    [
        pytest.param(
            {'vcpus_total': 4, 'cpu_allocation_ratio': 4.0, 'vcpus_used': 13}, VCPU, 3, id='vCPUs'
        ),
        pytest.param(
            {'vcpus_total': 4, 'cpu_allocation_ratio': 4.0}, VCPU, 4, id='no more than there are'
        ),
        pytest.param(
            {'total_usable_ram_mb': 100, 'free_ram_mb': 20, 'ram_allocation_ratio': 1.5},
            MEMORY_MB,
            70,
            id='memory',
        ),
        pytest.param(
            {'total_usable_disk_gb': 10, 'free_disk_mb': 1024, 'disk_allocation_ratio': 1.5},
            DISK_GB,
            6,
            id='disk',
        ),
        pytest.param(
            {'total_usable_disk_gb': 10, 'free_disk_mb': 5000}, DISK_GB, 4, id='half a GiB is none'
        ),
        pytest.param({}, PCPU, -1, id='a class that a host state does not tell'),
    ],
)
def test_fits(attributes, resource_class, most):
    one = OneHost(host(**attributes))
    assert [one.fits(resource_class, amount).tolist() for amount in (most, most + 1)] == [
        [most >= 0],
        [False],
    ]


def test_other_questions():
    one = OneHost(
        host(
            aggregates=[aggregate(1, ['x'], availability_zone='a')],
            instances={'i': None},
            traits={'T'},
        )
    )
    assert len(one) == one.rows == 1
    assert abs(one.now_s - time.time()) < 60
    assert one.in_zone('a', 'nova').tolist() == [True]
    assert one.in_zone('nova', 'nova').tolist() == [False]
    assert (one.has_zone('a'), one.has_zone('b')) == (True, False)
    assert one.count_instances(['i', 'j']).tolist() == [1]
    assert [one.has_trait(trait).tolist() for trait in ('T', 'U')] == [[True], [False]]
    assert one.named(['host-0']).tolist() == [True]
    assert one.named(['host-0'], ['other']).tolist() == [False]
    assert one.map_rows([0], lambda state: state.host == 'host-0').tolist() == [True]
    assert one.state(0).host == 'host-0'


def test_a_null_number_is_none_of_it():
    assert OneHost(host(vcpus_total=None)).vcpus_total.tolist() == [0]


def test_a_host_state_without_traits_has_none():
    assert OneHost(types.SimpleNamespace()).has_trait('T').tolist() == [False]


@pytest.mark.parametrize(
    'stats, free',
    [
        pytest.param(None, 0, id='none'),
        pytest.param(types.SimpleNamespace(pools=[]), 0, id='no pools'),
        pytest.param(
            types.SimpleNamespace(
                pools=[{'vendor_id': '8086', 'product_id': '1572', 'count': n} for n in (2, 4)]
            ),
            6,
            id='as in Nova',
        ),
        pytest.param(pci.pools_to_json([pci.PciPool('8086', '1572', count=3)]), 3, id='as text'),
    ],
)
def test_free_devices(stats, free):
    assert OneHost(host(pci_stats=stats)).free_pci_devices.tolist() == [free]


@pytest.mark.parametrize(
    'cell, here',
    [pytest.param(CELL, True, id='its own'), pytest.param('other', False, id='another')],
)
def test_cell(cell, here):
    assert OneHost(host()).in_cell(cell).tolist() == [here]
    assert OneHost(host(cell_uuid=None)).in_cell(cell).tolist() == [True]


def test_metrics_and_images():
    metrics = [
        types.SimpleNamespace(name='a', value=2),
        types.SimpleNamespace(name='b', value=None),
    ]
    image = types.SimpleNamespace(image_properties={'os_distro': 'ubuntu'})
    one = OneHost(host(metrics=metrics, instances={'i': image, 'j': image, 'k': None}))
    assert (one.metric('a').tolist(), one.metric('b').tolist()) == ([2.0], [NO_VALUE])
    assert np.isnan(one.metric('c')).tolist() == [True]
    assert np.isnan(OneHost(host(metrics=None)).metric('a')).tolist() == [True]
    assert one.count_images('os_distro', 'ubuntu').tolist() == [2]
    assert one.count_images('os_distro', 'fedora').tolist() == [0]
