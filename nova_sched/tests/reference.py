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
"""The reference data: recorded results, messages and hosts of a real Nova."""

import datetime
import functools
import json
import types
from pathlib import Path

from nova_sched import objects
from nova_sched.objects.compute_node import PERCENTAGES
from nova_sched.objects.object_io import DATA
from nova_sched.rpc import reports, translate
from nova_sched.state.cluster import Cluster
from nova_sched.tests.builders import put, read

REFERENCE = Path(__file__).parent / 'data' / 'reference'
CELL = 'f13ad15b-c3c9-56ec-b405-95600b09d7ce'  # of all hosts


@functools.cache
def golden(name):
    """The content of a golden file."""
    return json.loads((REFERENCE / 'golden' / f'{name}.json').read_text())


@functools.cache
def wire(name):
    """The content of a recorded message or object."""
    return json.loads((REFERENCE / 'wire' / f'{name}.json').read_text())


def recorded(name):
    """A recorded list of objects."""
    return objects.from_primitive(wire(f'object-{name}')['primitive'][DATA]['objects'])


def scenario(name):
    """The RequestSpec of a recorded call, for the first of its instances."""
    arguments = wire(f'select_destinations-{name}')['message']['args']
    spec = objects.from_primitive(arguments['spec_obj'])
    spec.instance_uuid = arguments['instance_uuids'][0]
    return spec


def request_of(name):
    """The same as a Request."""
    return read(scenario(name))


def nine_hosts():
    """The hosts of the golden data as columns, in their order there, at the time of their last
    report."""
    return nine_nodes(Cluster()).hosts


def nine_nodes(made):
    """A cluster with the nodes, services and aggregates of the golden data put into it."""
    told = golden('filter-matrix')['instances_by_host']
    nodes = sorted(
        recorded('ComputeNodeList'), key=lambda node: (node.host, node.hypervisor_hostname)
    )
    for node in nodes:
        put(made, reports.report(node, node.host, cell_uuid=CELL))
    # Apart from the reports: how many instances a host says that it has is not how many are named.
    for host, instances in told.items():
        made.tell(host, instances)
    for uuid, properties in images().items():
        made.hosts.places.learn(uuid, properties)
    for service in recorded('ServiceList'):
        made.set_service(service.host, service.disabled, None, service.forced_down)
        made.hosts.now_s = translate.seconds(service.last_seen_up)
        for node in made.nodes_of(service.host):
            made.hosts.seen_s[node.row] = made.hosts.now_s
    for aggregate in translate.aggregates(recorded('AggregateList')):
        made.set_aggregate(aggregate.id, aggregate)
    return made


def images():
    """Image properties of instances: as many on each host as the recorded weights count.

    Which instance had which is not recorded.
    """
    told = golden('filter-matrix')['instances_by_host']
    ubuntu, linux = (
        {'os_distro': 'ubuntu', 'hw_disk_bus': 'ide'},
        {'os_distro': 'ubuntu', 'os_type': 'linux'},
    )
    return {
        told['cmp01'][0]: ubuntu,
        told['cmp01'][3]: ubuntu,
        told['cmp02'][0]: {'os_distro': 'fedora'},
        told['cmp04'][0]: linux,
        told['cmp04'][1]: ubuntu,
    }


def nova_states():
    """The same hosts as Nova-like host states, made from their ComputeNodes as the reference
    says."""
    told = golden('filter-matrix')['instances_by_host']
    services = {service.host: service for service in recorded('ServiceList')}
    nodes = sorted(
        recorded('ComputeNodeList'), key=lambda node: (node.host, node.hypervisor_hostname)
    )
    return [_nova_state(node, services[node.host], told.get(node.host, ())) for node in nodes]


def _nova_state(node, service, told):
    least, stats = node.disk_available_least, node.stats or {}
    free_disk_gb = node.free_disk_gb if least is None else min(node.free_disk_gb, least)
    return types.SimpleNamespace(
        host=node.host,
        nodename=node.hypervisor_hostname,
        hypervisor_hostname=node.hypervisor_hostname,
        uuid=node.uuid,
        cell_uuid=CELL,
        vcpus_total=node.vcpus,
        vcpus_used=node.vcpus_used,
        total_usable_ram_mb=node.memory_mb,
        free_ram_mb=node.free_ram_mb,
        total_usable_disk_gb=node.local_gb,
        free_disk_mb=free_disk_gb * 1024,
        cpu_allocation_ratio=node.cpu_allocation_ratio,
        ram_allocation_ratio=node.ram_allocation_ratio,
        disk_allocation_ratio=node.disk_allocation_ratio,
        num_instances=int(stats.get('num_instances', 0)),
        num_io_ops=int(stats.get('io_workload', 0)),
        failed_builds=int(stats.get('failed_builds', 0)),
        hypervisor_type=node.hypervisor_type,
        hypervisor_version=node.hypervisor_version,
        host_ip=node.host_ip,
        cpu_info=node.cpu_info,
        numa_topology=node.numa_topology,
        pci_stats=_pools(node.pci_device_pools),
        metrics=_metrics(node.metrics),
        supported_instances=[spec.to_list() for spec in node.supported_hv_specs],
        stats=stats,
        service={
            'disabled': service.disabled,
            'forced_down': service.forced_down,
            'last_seen_up': datetime.datetime.now(datetime.UTC),
        },
        aggregates=[one for one in recorded('AggregateList') if node.host in one.hosts],
        instances={uuid: _nova_instance(uuid) for uuid in told},
        limits={},
    )


def _metrics(text):
    """The metrics of a node as Nova reads them: percentages are whole numbers."""
    metrics = json.loads(text) if text else []
    for metric in metrics:
        if metric['name'] in PERCENTAGES:
            metric['value'] = round(metric['value'] * 100)
    return [types.SimpleNamespace(**metric) for metric in metrics]


def _nova_instance(uuid):
    properties = images().get(uuid, {})
    return types.SimpleNamespace(
        uuid=uuid, system_metadata={f'image_{name}': text for name, text in properties.items()}
    )


def is_refused(result):
    """Whether a golden result says that Nova itself raises."""
    return isinstance(result, str) and result.startswith('raises ')


def _pools(listed):
    """Pools as Nova's statistics have them, if the node tells of any."""
    if listed is None:
        return None
    pools = [
        {
            **{
                name: getattr(pool, name)
                for name in ('vendor_id', 'product_id', 'numa_node', 'count')
            },
            **pool.tags,
        }
        for pool in listed
    ]
    return types.SimpleNamespace(pools=pools)
