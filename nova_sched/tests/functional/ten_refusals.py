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
"""Ten requests that no host can take, each for a cause of its own; as a program it prints what is
told.

python -m nova_sched.tests.functional.ten_refusals
"""

import pathlib
import sys
import tempfile
from typing import Any, NamedTuple

from nova_sched.cmd import backend

if __name__ == '__main__':
    backend.choose([])  # before anything else is imported

from oslo_context.context import RequestContext

from nova_sched import objects
from nova_sched.cmd.manage import explain, tables
from nova_sched.conf import CONF
from nova_sched.hardware import numa
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import eventually, outcome, running, spec
from nova_sched.tests.options import settings

ISOLATED_IMAGE = uuid_of('isolated image')
SETTINGS = {
    'filter_scheduler.enabled_filters': [
        'ComputeFilter',
        'AvailabilityZoneFilter',
        'ImagePropertiesFilter',
        'ServerGroupAntiAffinityFilter',
        'NUMATopologyFilter',
        'PciPassthroughFilter',
        'IsolatedHostsFilter',
    ],
    'filter_scheduler.isolated_images': [ISOLATED_IMAGE],
    'filter_scheduler.isolated_hosts': ['vault-1'],
}
ZONES = {
    'north': ['north-1', 'north-2', 'north-3'],
    'pair': ['pair-1', 'pair-2'],
    'lab': ['lab-1', 'lab-2'],
    'vault': ['vault-1'],
}
ONE_CELL = numa.HostTopology(
    (numa.HostCell(id=0, cpuset=frozenset(range(8)), pcpuset=frozenset(), memory_mb=16384),)
).to_json()
TWINS = ['twin one', 'twin two', 'twin three']


def group():
    """Servers that must not share a host."""
    return objects.InstanceGroup(
        uuid=uuid_of('group'),
        policy='anti-affinity',
        members=list(map(uuid_of, TWINS)),
        hosts=[],
        rules={},
    )


def two_cells():
    """A guest of two NUMA cells."""
    cells = [
        objects.InstanceNUMACell(
            id=number, cpuset={2 * number, 2 * number + 1}, pcpuset=set(), memory=512
        )
        for number in range(2)
    ]
    return objects.InstanceNUMATopology(cells=cells, emulator_threads_policy=None)


def two_devices():
    """A guest with two network cards of its own."""
    wanted = objects.InstancePCIRequest(
        count=2,
        spec=[{'vendor_id': '8086', 'product_id': '1572'}],
        alias_name='nic',
        request_id=uuid_of('nic'),
        numa_policy='legacy',
    )
    return objects.InstancePCIRequests(instance_uuid=uuid_of('server'), requests=[wanted])


class Refusal(NamedTuple):
    """A request, in the words of ``spec``; the rule that must remove the last hosts, and what it
    must say."""

    cause: str
    words: dict[str, Any]
    rule: str
    why: str


TEN = (
    Refusal(
        'memory',
        {'memory_mb': 16384},
        'ResourceCapacity',
        '16384 MiB of memory asked, the best host has 12288 free',
    ),
    Refusal(
        'CPU', {'vcpus': 9}, 'ResourceCapacity', '9 vCPUs asked, the largest host has 8 in all',
    ),
    Refusal(
        'disk', {'root_gb': 90}, 'ResourceCapacity',
        '90 GiB of disk asked, the best host has 80 free',
    ),
    Refusal(
        'zone',
        {'availability_zone': 'west'},
        'AvailabilityZoneFilter',
        'zone west is asked for, where no host is, these hosts are in north, pair, vault',
    ),
    Refusal(
        'trait',
        {'extra_specs': {'trait:CUSTOM_FPGA': 'required'}},
        'RequiredTraits',
        'CUSTOM_FPGA is required, no host has it',
    ),
    Refusal(
        'NUMA',
        {'numa_topology': two_cells(), 'vcpus': 4, 'availability_zone': 'north'},
        'NUMATopologyFilter',
        'needs 2 NUMA cells, the host has 1',
    ),
    Refusal(
        'PCI',
        {'pci_requests': two_devices(), 'availability_zone': 'pair'},
        'PciPassthroughFilter',
        'nic: 2 devices asked, 1 free that match',
    ),
    Refusal(
        'anti-affinity',
        {'instance_group': group(), 'availability_zone': 'pair'},
        'ServerGroupAntiAffinityFilter',
        'the server group allows 1 member on a host (anti-affinity), '
        'and each of these hosts has 1',
    ),
    Refusal('disabled hosts', {'availability_zone': 'lab'}, 'DisabledCompute', 'all are disabled'),
    Refusal(
        'isolation',
        {'image': objects.ImageMeta(id=ISOLATED_IMAGE, properties=objects.ImageMetaProps()),
         'availability_zone': 'north'},
        'IsolatedHostsFilter',
        'the image is isolated, 3 hosts are not kept for isolated images',
    ),
)  # fmt: skip


def build(daemon):
    """Eight hosts in four zones: each a quarter used, two switched off, two with one device, one
    isolated."""
    used = {'memory_mb_used': 4096, 'local_gb_used': 20}
    card = objects.PciDevicePool(
        vendor_id='8086', product_id='1572', numa_node=0, tags={}, count=1
    )
    daemon.add(*ZONES['north'], numa_topology=ONE_CELL, **used)
    daemon.add(*ZONES['pair'], pci_device_pools=objects.PciDevicePoolList(objects=[card]), **used)
    daemon.add(*ZONES['lab'], *ZONES['vault'], **used)
    daemon.scheduler.update_aggregates([
        objects.Aggregate(id=number, name=zone, hosts=hosts, metadata={'availability_zone': zone})
        for number, (zone, hosts) in enumerate(ZONES.items())
    ])  # fmt: skip
    eventually(lambda: len(daemon.table('aggregates')) == len(ZONES))
    for host in ZONES['lab']:
        daemon.stats.update_service(host, objects.Service(disabled=True, disabled_reason='moving'))
    for name in TWINS[:2]:
        daemon.boot(name, instance_group=group(), availability_zone='pair')


def refuse(daemon, refusal):
    """Send one of the ten. Returns the error that its caller sees, and the record that is kept of
    it."""
    request_id = f'req-{uuid_of(refusal.cause)}'
    context = RequestContext(request_id=request_id, overwrite=False)
    error = outcome(
        lambda: daemon.scheduler.select_destinations(
            spec(**refusal.words), [uuid_of(TWINS[2])], context=context
        )
    )
    return error, daemon.decisions(request_id)[-1]


def main():
    """Print all ten: what the user reads, and what the operator."""
    CONF([], project='nova_sched')
    with (
        tempfile.TemporaryDirectory() as folder,
        settings(SETTINGS),
        running('fake://', pathlib.Path(folder)) as daemon,
    ):
        build(daemon)
        for refusal in TEN:
            error, record = refuse(daemon, refusal)
            record['time'] = tables.moment(record['time'])
            print(f'== {refusal.cause}\n\n{error}\n\n{explain.decisions_page([record])}\n')


if __name__ == '__main__':
    sys.exit(main())
