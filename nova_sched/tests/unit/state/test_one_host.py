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

from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.hardware import pci
from nova_sched.state.metrics import NO_VALUE
from nova_sched.state.one_host import OneHost
from nova_sched.tests.builders import CELL, aggregate, host
from nova_sched.tests.rows import table

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


@table(
    'service, seen_s',
    {
        'a date with a zone': ({'last_seen_up': NOON}, NOON.timestamp()),
        'without one it is UTC': ({'last_seen_up': NOON.replace(tzinfo=None)}, NOON.timestamp()),
        'seconds': ({'last_seen_up': 12.5}, 12.5),
        'never seen: created': ({'last_seen_up': None, 'created_at': NOON}, NOON.timestamp()),
        'never': ({}, 0.0),
        'an object': (types.SimpleNamespace(last_seen_up=NOON), NOON.timestamp()),
    },
)
def test_seen(service, seen_s):
    assert OneHost(host(service=service)).seen_s.tolist() == [seen_s]


@table(
    'service, disabled, forced_down',
    {
        'disabled': ({'disabled': True, 'forced_down': False}, True, False),
        'forced down, null': ({'disabled': None, 'forced_down': True}, False, True),
        'nothing known': ({}, False, False),
        'an object': (types.SimpleNamespace(disabled=True), True, False),
    },
)
def test_service(service, disabled, forced_down):
    one = OneHost(host(service=service))
    assert (one.disabled.tolist(), one.forced_down.tolist()) == ([disabled], [forced_down])


@table(
    'attributes, resource_class, most',
    {
        'vCPUs': ({'vcpus_total': 4, 'cpu_allocation_ratio': 4.0, 'vcpus_used': 13}, VCPU, 3),
        'no more than there are': ({'vcpus_total': 4, 'cpu_allocation_ratio': 4.0}, VCPU, 4),
        'memory': (
            {'total_usable_ram_mb': 100, 'free_ram_mb': 20, 'ram_allocation_ratio': 1.5},
            MEMORY_MB,
            70,
        ),
        'disk': (
            {'total_usable_disk_gb': 10, 'free_disk_mb': 1024, 'disk_allocation_ratio': 1.5},
            DISK_GB,
            6,
        ),
        'half a GiB is none': ({'total_usable_disk_gb': 10, 'free_disk_mb': 5000}, DISK_GB, 4),
        'a class that a host state does not tell': ({}, PCPU, -1),
    },
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


@table(
    'stats, free',
    {
        'none': (None, 0),
        'no pools': (types.SimpleNamespace(pools=[]), 0),
        'as in Nova': (
            types.SimpleNamespace(
                pools=[{'vendor_id': '8086', 'product_id': '1572', 'count': n} for n in (2, 4)]
            ),
            6,
        ),
        'as text': (pci.pools_to_json([pci.PciPool('8086', '1572', count=3)]), 3),
    },
)
def test_free_devices(stats, free):
    assert OneHost(host(pci_stats=stats)).free_pci_devices.tolist() == [free]


@table(
    'cell, here',
    {
        'its own': (CELL, True),
        'another': ('other', False),
    },
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
