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
"""What flavors, images, hints and aggregates ask for, and what is left of it for the next
request."""

import json

import oslo_messaging as messaging
import pytest
from nova import exception, objects

from nova_sched.tests.nova_client import machines, specs
from nova_sched.tests.nova_client.daemon import ISOLATED_HOST, ISOLATED_IMAGE
from nova_sched.tests.nova_client.settings import options

PINNED = {'hw:cpu_policy': 'dedicated'}
GPU = {'pci_passthrough:alias': 'gpu:1'}


@pytest.fixture(autouse=True)
def alias():
    """The alias of a GPU, as Nova's API and conductor know it."""
    with options(
        'pci', alias=[json.dumps({'name': 'gpu', 'vendor_id': '10de', 'product_id': '20b0'})]
    ):
        yield


@pytest.fixture
def fill(boot):
    """Boot one server after the other until none fits; returns how many did."""

    def fill(most=10, **words):
        for number in range(most):
            try:
                boot(**words)
            except exception.NoValidHost:
                return number
        return most

    return fill


@pytest.fixture
def leave(cloud, scheduler, context, eventually):
    """An instance leaves its host, and its claim with it."""

    def leave(uuid, host):
        node = objects.Instance(
            context, uuid=uuid, host=host, node=host, project_id=context.project_id
        )
        scheduler.update_instance_info(context, host, objects.InstanceList(objects=[node]))
        eventually(['confirmed'], lambda: [claim['state'] for claim in cloud.claims(uuid)])
        scheduler.delete_instance_info(context, host, uuid)
        cloud.end(uuid)

    return leave


# NUMA.


@pytest.mark.parametrize(
    'vcpus, extra_specs, fit',
    [
        pytest.param(4, {}, 2, id='a guest a cell'),
        pytest.param(3, {}, 2, id='what is left of a cell is too small'),
        pytest.param(2, {}, 4, id='two guests a cell'),
        pytest.param(6, {}, 0, id='no cell is so large'),
        pytest.param(6, {'hw:numa_nodes': '2'}, 1, id='over both cells'),
        pytest.param(2, {'hw:cpu_thread_policy': 'isolate'}, 2, id='a core for each CPU'),
        pytest.param(2, {'hw:emulator_threads_policy': 'isolate'}, 2, id='a CPU for the emulator'),
    ],
)
def test_pinned_guests_take_the_cpus_of_a_cell(cloud, fill, vcpus, extra_specs, fit):
    """Each claim holds its CPUs: the next request sees what is left, cell by cell."""
    # Cores can be isolated only where no CPUs are set apart for pinned guests.
    shared = extra_specs.get('hw:cpu_thread_policy') == 'isolate'
    cloud.add(numa_topology=machines.cells(2, cpus=4, threads=2, shared=shared))
    assert fill(flavor={'vcpus': vcpus, 'extra_specs': {**PINNED, **extra_specs}}) == fit


@pytest.mark.parametrize(
    'threads, fit', [pytest.param(2, 4, id='with siblings'), pytest.param(1, 0, id='without')]
)
def test_guests_of_whole_cores(cloud, fill, threads, fit):
    cloud.add(
        numa_topology=machines.cells(2, cpus=4, threads=threads), traits=['HW_CPU_HYPERTHREADING']
    )
    assert (
        fill(flavor={'vcpus': 2, 'extra_specs': {**PINNED, 'hw:cpu_thread_policy': 'require'}})
        == fit
    )


def test_huge_pages_run_out(cloud, fill):
    cloud.add(numa_topology=machines.cells(2, memory_mb=4096, huge_pages=512))
    paged = {'memory_mb': 512, 'extra_specs': {'hw:mem_page_size': '2048', **PINNED}}
    assert fill(flavor=paged) == 4


def test_a_node_that_tells_of_no_cells(cloud, boot):
    cloud.add()
    with pytest.raises(exception.NoValidHost):
        boot(flavor={'extra_specs': {'hw:numa_nodes': '1'}})


def test_the_answer_has_the_limits_of_the_cells(cloud, boot):
    """The compute node checks them when it claims."""
    cloud.add(numa_topology=machines.cells(), cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5)
    ((selection,),) = boot(flavor={'extra_specs': PINNED})
    limits = selection.limits.numa_topology
    assert (limits.cpu_allocation_ratio, limits.ram_allocation_ratio) == (4.0, 1.5)


def test_the_cpus_of_a_guest_that_left_are_free_again(cloud, boot, leave):
    node = cloud.add(numa_topology=machines.cells(1, cpus=4))
    flavor = {'vcpus': 4, 'extra_specs': PINNED}
    (uuid,) = specs.uuids(1)
    boot(instance_uuids=[uuid], flavor=flavor)
    with pytest.raises(exception.NoValidHost):
        boot(flavor=flavor)
    leave(uuid, node.host)
    assert boot(flavor=flavor)[0][0].service_host == node.host


# PCI.


def test_devices_are_handed_out_once(cloud, fill):
    cloud.add(pci_device_pools=machines.devices(3))
    assert fill(flavor={'extra_specs': GPU}) == 3


@pytest.mark.parametrize(
    'pools, words',
    [
        pytest.param(machines.devices(1, product='1db4'), {}, id='another product'),
        pytest.param(
            machines.devices(1), {'pci_passthrough:alias': 'gpu:2'}, id='more than there are'
        ),
        pytest.param(None, {}, id='no devices'),
    ],
)
def test_devices_that_are_not_there(cloud, boot, pools, words):
    cloud.add(pci_device_pools=pools)
    with pytest.raises(exception.NoValidHost):
        boot(flavor={'extra_specs': GPU | words})


def test_the_device_of_a_guest_that_left_is_free_again(cloud, boot, leave):
    node = cloud.add(pci_device_pools=machines.devices(1))
    (uuid,) = specs.uuids(1)
    boot(instance_uuids=[uuid], flavor={'extra_specs': GPU})
    with pytest.raises(exception.NoValidHost):
        boot(flavor={'extra_specs': GPU})
    leave(uuid, node.host)
    assert boot(flavor={'extra_specs': GPU})[0][0].service_host == node.host


@pytest.mark.parametrize(
    'policy, fit',
    [
        pytest.param('required', 2, id='in the cell of the device'),
        pytest.param('preferred', 4, id='in any cell'),
    ],
)
def test_guests_near_their_devices(cloud, fill, policy, fit):
    """Four devices in a cell that has CPUs for two guests."""
    cloud.add(
        numa_topology=machines.cells(2, cpus=4), pci_device_pools=machines.devices(4, cell=1)
    )
    near = {**PINNED, **GPU, 'hw:pci_numa_affinity_policy': policy}
    assert fill(flavor={'vcpus': 2, 'extra_specs': near}) == fit


def test_a_server_that_asks_for_none_leaves_devices_alone(cloud, hosts):
    plain = cloud.add(memory_mb=8192)
    cloud.add(pci_device_pools=machines.devices(8), memory_mb=8192)
    assert hosts() == [plain.host]


# Hints.


@pytest.mark.parametrize(
    'query',
    [
        pytest.param(['>=', '$free_ram_mb', 30000], id='a number'),
        pytest.param(
            ['and', ['=', '$hypervisor_type', 'QEMU'], ['>', '$vcpus_total', 8]], id='terms'
        ),
        pytest.param(['in', 'fast', '$stats.tier'], id='a stat'),
    ],
)
def test_a_query(cloud, hosts, boot, query):
    small, _ = cloud.add(2)
    large = cloud.add(memory_mb=32768, vcpus=16, stats={'tier': 'fast'})
    wish = {'query': [json.dumps(query)]}
    assert [hosts(hints=wish)[0] for _ in range(3)] == 3 * [large.host]
    with pytest.raises(exception.NoValidHost):
        boot(hints=wish, requested_destination=specs.destination(host=small.host))


@pytest.mark.parametrize('query', ['[', '["like", 1]', '["<", "$host", 1]'])
def test_a_query_that_makes_no_sense(cloud, boot, hosts, query):
    node = cloud.add()
    with pytest.raises(messaging.RemoteError, match='query') as caught:
        boot(hints={'query': [query]})
    assert caught.value.exc_type == 'InvalidRequest'
    assert hosts() == [node.host]


@pytest.mark.parametrize(
    'hints, near',
    [
        pytest.param({'cidr': ['/24']}, ['192.0.2.51', '192.0.2.130'], id='in the same /24'),
        pytest.param({}, ['192.0.2.51', '192.0.2.130'], id='/24 unless said'),
        pytest.param({'cidr': ['/25']}, ['192.0.2.51'], id='in a smaller network'),
        pytest.param(
            {'cidr': ['/0']}, ['192.0.2.51', '192.0.2.130', '198.51.100.1'], id='anywhere'
        ),
    ],
)
def test_a_host_near_an_address(cloud, boot, hints, near):
    nodes = [
        cloud.add(host_ip=address)
        for address in ('192.0.2.51', '192.0.2.130', '198.51.100.1', '::1')
    ]
    address = {node.host: str(node.host_ip) for node in nodes}
    (found,) = boot(hints={'build_near_host_ip': ['192.0.2.7'], **hints})
    assert sorted(address[one.service_host] for one in found) == sorted(near)


def test_an_address_that_is_none(cloud, boot):
    cloud.add()
    with pytest.raises(messaging.RemoteError, match='build_near_host_ip') as caught:
        boot(hints={'build_near_host_ip': ['here']})
    assert caught.value.exc_type == 'InvalidRequest'


# Metrics.


def test_the_host_with_the_best_metric(cloud, hosts):
    nodes = [cloud.add(metrics=machines.frequency(mhz)) for mhz in (1800, 3600, 2400)]
    assert hosts() == [nodes[1].host]


def test_a_host_without_the_metric(cloud, boot):
    cloud.add(metrics='[]')
    with pytest.raises(exception.NoValidHost):
        boot()


# Isolation.


@pytest.fixture
def isolated(cloud):
    """A host that the options keep for an image."""
    return cloud.add(host=ISOLATED_HOST)


def test_an_isolated_image(cloud, isolated, hosts):
    cloud.add(2)
    assert [hosts(image_id=ISOLATED_IMAGE)[0] for _ in range(3)] == 3 * [ISOLATED_HOST]


def test_an_isolated_host(cloud, isolated, boot, hosts):
    with pytest.raises(exception.NoValidHost):
        boot()
    other = cloud.add()
    assert [hosts()[0] for _ in range(3)] == 3 * [other.host]


@pytest.mark.parametrize(
    'metadata, inside, outside',
    [
        pytest.param(
            {'filter_tenant_id': 'demo-project, other'},
            {},
            {'project_id': 'stranger'},
            id='of some projects',
        ),
        pytest.param(
            {'os_distro': 'windows'},
            {'image': {'os_distro': 'windows'}},
            {'image': {'os_distro': 'debian'}},
            id='of some images',
        ),
        pytest.param(
            {'instance_type': 'large, huge'},
            {'flavor': {'name': 'huge'}},
            {'flavor': {'name': 'tiny'}},
            id='of some flavors',
        ),
        pytest.param(
            {'ssd': 'nvme, sata'},
            {
                'flavor': {
                    'extra_specs': {'aggregate_instance_extra_specs:ssd': '<or> sata <or> sas'}
                }
            },
            {'flavor': {'extra_specs': {'aggregate_instance_extra_specs:ssd': 'sas'}}},
            id='of some extra specs',
        ),
        pytest.param({'max_instances_per_host': '1'}, {}, {}, id='of few instances'),
        pytest.param({'max_io_ops_per_host': ' 1 '}, {}, {}, id='of few builds at once'),
    ],
)
def test_the_hosts_of_an_aggregate(
    cloud, scheduler, context, boot, hosts, zone_of, eventually, metadata, inside, outside
):
    node = cloud.add()
    scheduler.update_aggregates(
        context, [cloud.aggregate(node, availability_zone='kept', **metadata)]
    )
    eventually('kept', lambda: zone_of(node))
    assert hosts(**inside) == [node.host]
    with pytest.raises(exception.NoValidHost):
        boot(**outside)
